//! Packets that the kernel of this host dropped, by connection and reason.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::OnceLock;

use libbpf_rs::{MapCore, MapFlags};
use rustc_hash::FxHashMap;
use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::flow::{NetnsInode, Protocol, canonical};
use sockstamp_model::wait::Dropped;

use crate::abi::raw::{drop_count as RawCount, drop_key as RawKey};
use crate::abi::{self, field, raw};
use crate::clock::monotonic_now;
use crate::error::{Error, Tried};
use crate::kernel::excerpt::values_of;
use crate::skeleton::sockstamp::SockstampMaps;

/// The beginning of the names of reasons.
const PREFIX: &str = "SKB_DROP_REASON_";

/// Reasons that are the work of a healthy stack, or that other counts show (`enum
/// skb_drop_reason`, include/net/dropreason-core.h, v6.18): segments that came before, were
/// overtaken, or belong to no connection, packets for others on a shared link, and copies for
/// sniffers and of what a closed socket had not read.
const ORDINARY: [&str; 31] = [
    "NOT_SPECIFIED",
    "NO_SOCKET",
    "SOCKET_CLOSE",
    "SOCKET_FILTER",
    "SOCKET_RCVBUFF",
    "OTHERHOST",
    "PACKET_SOCK_ERROR",
    "QUEUE_PURGE",
    "DUP_FRAG",
    "TCP_OFO_DROP",
    "UNICAST_IN_L2_MULTICAST",
    "TCP_FLAGS",
    "TCP_ABORT_ON_DATA",
    "TCP_ZEROWINDOW",
    "TCP_OLD_DATA",
    "TCP_OVERWINDOW",
    "TCP_OFOMERGE",
    "TCP_RFC7323_PAWS",
    "TCP_RFC7323_PAWS_ACK",
    "TCP_RFC7323_TSECR",
    "TCP_OLD_SEQUENCE",
    "TCP_INVALID_SEQUENCE",
    "TCP_INVALID_END_SEQUENCE",
    "TCP_INVALID_ACK_SEQUENCE",
    "TCP_RESET",
    "TCP_INVALID_SYN",
    "TCP_CLOSE",
    "TCP_FASTOPEN",
    "TCP_OLD_ACK",
    "TCP_TOO_OLD_ACK",
    "TCP_ACK_UNSENT_DATA",
];

/// The kernel's reasons that are counted, with their numbers.
#[derive(Debug)]
pub(crate) struct Reasons(Vec<(String, u32)>);

/// Return those of the running kernel; none where its types cannot be read.
pub(crate) fn reasons() -> &'static Reasons {
    static REASONS: OnceLock<Reasons> = OnceLock::new();
    REASONS.get_or_init(|| Reasons::of(values_of("skb_drop_reason")))
}

impl Reasons {
    fn of(values: Vec<(String, u32)>) -> Self {
        let counted = values.into_iter().filter_map(|(name, number)| {
            let name = name.strip_prefix(PREFIX)?;
            let is_counted = number < raw::DROP_REASONS
                && !ORDINARY.contains(&name)
                && !matches!(name, "MAX" | "SUBSYS_MASK");
            is_counted.then(|| (name.to_owned(), number))
        });
        Self(counted.collect())
    }

    /// Return them as the programs have them: one bit each.
    pub(crate) fn bits(&self) -> [u64; 4] {
        let mut bits = [0; 4];
        for (_, number) in &self.0 {
            if let Some(word) = bits.get_mut(*number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
        bits
    }

    /// Return the number of netfilter's; 0 where the kernel does not name it.
    pub(crate) fn firewall(&self) -> u8 {
        let mut named = self.0.iter();
        let found = named.find(|(name, _)| name == "NETFILTER_DROP");
        found.map_or(0, |(_, number)| u8::try_from(*number).unwrap_or(0))
    }

    fn name(&self, number: u32) -> Option<&str> {
        let found = self.0.iter().find(|(_, of)| *of == number);
        found.map(|(name, _)| name.as_str())
    }
}

/// Return how often each reason was counted, by its name: `counts` are by the kernel's number.
pub(crate) fn by_name(counts: &[u64]) -> BTreeMap<Box<str>, u64> {
    static NAMES: OnceLock<Vec<(String, u32)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| values_of("skb_drop_reason"));
    named(counts, names)
}

/// Reasons of the kernel's subsystems, such as Open vSwitch, whose numbers are not in `enum
/// skb_drop_reason`; programs count them together.
const OF_SUBSYSTEMS: &str = "subsystem";

fn named(counts: &[u64], names: &[(String, u32)]) -> BTreeMap<Box<str>, u64> {
    let name = |number: u32| {
        let found = names.iter().find(|(_, of)| *of == number);
        match (number, found) {
            (0, _) => OF_SUBSYSTEMS.into(),
            (_, Some((name, _))) => name.strip_prefix(PREFIX).unwrap_or(name).into(),
            (number, None) => format!("#{number}").into(),
        }
    };
    let counted = (0..).zip(counts).filter(|(_, count)| **count > 0);
    counted
        .map(|(number, count)| (name(number), *count))
        .collect()
}

/// Connections whose elements stay in the map, as many as leave room for others.
const MOST_KEPT: usize = 1024;

/// Counts taken so far of the elements that stay in the map: a firewall has dropped SYNs, and while
/// TCP sends them again, the connection may be opened all the same.
#[derive(Debug, Default)]
pub(crate) struct Kept(FxHashMap<Vec<u8>, Dropped>);

impl Kept {
    /// Take what was counted since the last time.
    pub(crate) fn take(&mut self, maps: &SockstampMaps<'_>) -> Result<Vec<Dropped>, Error> {
        let keys: Vec<_> = maps.drops.keys().collect();
        let now = Timestamp::from_nanos(monotonic_now());
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            let read = maps.drops.lookup(&key, MapFlags::ANY);
            let seen = read.tried("read the drops of packets")?;
            let seen = seen.and_then(|count| dropped(&key, &count, reasons()));
            if let Some(seen) = seen.filter(|seen| self.keeps(&key, seen, now)) {
                taken.extend(self.meet(key, seen));
                continue;
            }
            let count = maps.drops.lookup_and_delete(&key);
            let count = count.tried("take the drops of packets")?;
            let seen = count.and_then(|count| dropped(&key, &count, reasons()));
            taken.extend(seen.and_then(|seen| self.meet_last(&key, seen)));
        }
        Ok(taken)
    }

    /// Return true if an element stays in the map.
    fn keeps(&self, key: &[u8], seen: &Dropped, now: Timestamp<Monotonic>) -> bool {
        let has_room = self.0.len() < MOST_KEPT || self.0.contains_key(key);
        has_room && may_come(seen, now)
    }

    /// Return what is new of an element that stays.
    fn meet(&mut self, key: Vec<u8>, seen: Dropped) -> Option<Dropped> {
        let before = self.0.insert(key, seen.clone());
        since(before.as_ref(), seen)
    }

    /// Return what is new of an element that was taken out.
    fn meet_last(&mut self, key: &[u8], seen: Dropped) -> Option<Dropped> {
        since(self.0.remove(key).as_ref(), seen)
    }
}

/// Return true if TCP may send a SYN again that a firewall has dropped: it waits a second, and at
/// most twice as long each time (RFC 6298, section 5.5), and gives up after two minutes
/// (`tcp_syn_retries`).
fn may_come(seen: &Dropped, now: Timestamp<Monotonic>) -> bool {
    let most = 1 << seen.syns.min(6);
    let waits = seen.netns.0 != 0 && seen.syns > 0 && !seen.came;
    waits && now.as_nanos().saturating_sub(seen.last.as_nanos()) <= (1 + most) * 1_000_000_000
}

/// Return what is new of an element; `None` if nothing is.
fn since(before: Option<&Dropped>, mut seen: Dropped) -> Option<Dropped> {
    if let Some(before) = before {
        seen.packets = seen.packets.saturating_sub(before.packets);
        seen.syns = seen.syns.saturating_sub(before.syns);
    }
    (seen.packets > 0 || seen.came).then_some(seen)
}

/// The model's view of an element.
fn dropped(key: &[u8], count: &[u8], reasons: &Reasons) -> Option<Dropped> {
    let ends = ends(key)?;
    let flow = abi::flow(&ends);
    let [reason] = field(key, offset_of!(RawKey, reason))?;
    let of_count = |offset| field(count, offset).map(u64::from_ne_bytes);
    Some(Dropped {
        netns: NetnsInode(ends.netns),
        protocol: match field(key, offset_of!(RawKey, protocol))? {
            [6] => Protocol::Tcp,
            _ => Protocol::Udp,
        },
        from: canonical(flow.local),
        to: canonical(flow.remote),
        reason: reasons.name(reason.into())?.into(),
        packets: of_count(offset_of!(RawCount, packets))?,
        syns: of_count(offset_of!(RawCount, syns))?,
        first: Timestamp::from_nanos(of_count(offset_of!(RawCount, first_ns))?),
        last: Timestamp::from_nanos(of_count(offset_of!(RawCount, last_ns))?),
        came: of_count(offset_of!(RawCount, came_ns))? > 0,
    })
}

fn ends(key: &[u8]) -> Option<raw::flow_identity> {
    let number = |offset| field(key, offset).map(u16::from_ne_bytes);
    let mut ends = raw::flow_identity {
        family: number(offset_of!(RawKey, family))?,
        local_port: number(offset_of!(RawKey, source_port))?,
        remote_port: number(offset_of!(RawKey, destination_port))?,
        netns: u32::from_ne_bytes(field(key, offset_of!(RawKey, netns))?),
        ..raw::flow_identity::default()
    };
    ends.local_address = field(key, offset_of!(RawKey, source))?;
    ends.remote_address = field(key, offset_of!(RawKey, destination))?;
    Some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_by_its_fields() {
        let mut key = vec![0; size_of::<RawKey>()];
        let mut set = |offset: usize, bytes: &[u8]| {
            key[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        set(offset_of!(RawKey, source), &[10, 0, 0, 1]);
        set(offset_of!(RawKey, destination), &[10, 0, 0, 2]);
        set(offset_of!(RawKey, source_port), &40_000_u16.to_ne_bytes());
        set(offset_of!(RawKey, destination_port), &80_u16.to_ne_bytes());
        set(offset_of!(RawKey, family), &2_u16.to_ne_bytes());
        set(offset_of!(RawKey, netns), &9_u32.to_ne_bytes());
        set(offset_of!(RawKey, protocol), &[6]);
        set(offset_of!(RawKey, reason), &[16]);
        let mut count = vec![0; size_of::<RawCount>()];
        count[offset_of!(RawCount, packets)] = 5;
        count[offset_of!(RawCount, syns)] = 3;
        let reasons = Reasons(vec![("IP_RPFILTER".to_owned(), 16)]);
        let read = dropped(&key, &count, &reasons).unwrap();
        assert_eq!(read.from.to_string(), "10.0.0.1:40000");
        assert_eq!(read.to.to_string(), "10.0.0.2:80");
        assert_eq!((read.packets, read.syns, read.netns.0), (5, 3, 9));
        assert_eq!(
            (&*read.reason, read.protocol),
            ("IP_RPFILTER", Protocol::Tcp)
        );
        assert_eq!(dropped(&key[..8], &count, &reasons), None);
    }

    /// A connection to port 80, of which a firewall has dropped SYNs, the last one at a second.
    fn firewalled(packets: u64, last: u64, came: bool) -> Dropped {
        Dropped {
            netns: NetnsInode(7),
            protocol: Protocol::Tcp,
            from: "10.0.0.1:40000".parse().unwrap(),
            to: "10.0.0.2:80".parse().unwrap(),
            reason: "NETFILTER_DROP".into(),
            packets,
            syns: packets,
            first: Timestamp::from_nanos(1_000_000_000),
            last: seconds(last),
            came,
        }
    }

    fn seconds(count: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(count * 1_000_000_000)
    }

    #[test]
    fn a_connection_that_opens_after_a_look_is_known_to_have_come() {
        let mut kept = Kept::default();
        let key = vec![1];
        let seen = firewalled(3, 4, false);
        assert!(kept.keeps(&key, &seen, seconds(5)));
        assert_eq!(kept.meet(key.clone(), seen.clone()), Some(seen));
        // At the next look, one more was dropped.
        let seen = firewalled(4, 8, false);
        let new = kept.meet(key.clone(), seen).unwrap();
        assert_eq!((new.packets, new.syns, new.came), (1, 1, false));
        let same = firewalled(4, 8, false);
        assert_eq!(kept.meet(key.clone(), same), None);
        let came = firewalled(4, 8, true);
        assert!(!kept.keeps(&key, &came, seconds(17)));
        let new = kept.meet_last(&key, came).unwrap();
        assert_eq!((new.packets, new.syns, new.came), (0, 0, true));
        assert!(kept.0.is_empty());
    }

    #[test]
    fn an_element_stays_while_tcp_may_send_a_syn_again() {
        let kept = Kept::default();
        let keeps = |seen: &Dropped, now| kept.keeps(&[], seen, seconds(now));
        assert!(keeps(&firewalled(1, 1, false), 4));
        assert!(!keeps(&firewalled(1, 1, false), 5));
        assert!(keeps(&firewalled(7, 64, false), 120));
        assert!(!keeps(&firewalled(7, 64, false), 130));
        let mut others = firewalled(3, 1, false);
        others.syns = 0;
        assert!(!keeps(&others, 1));
        others = firewalled(3, 1, false);
        others.netns = NetnsInode(0);
        assert!(!keeps(&others, 1));
    }

    #[test]
    fn elements_that_stay_leave_room_for_others() {
        let mut kept = Kept::default();
        for key in 0..MOST_KEPT {
            let key = key.to_ne_bytes().to_vec();
            kept.meet(key, firewalled(1, 1, false));
        }
        let seen = firewalled(1, 1, false);
        assert!(!kept.keeps(&[1], &seen, seconds(1)));
        assert!(kept.keeps(&0_usize.to_ne_bytes(), &seen, seconds(1)));
    }

    #[test]
    fn reasons_have_the_names_of_the_kernel_where_it_has_one() {
        let names = [
            ("SKB_NOT_DROPPED_YET".to_owned(), 0),
            ("SKB_CONSUMED".to_owned(), 1),
            ("SKB_DROP_REASON_SOCKET_RCVBUFF".to_owned(), 6),
        ];
        let mut counts = [0; raw::DROP_REASONS as usize];
        for (number, count) in [(0, 2), (1, 1), (6, 40), (255, 3)] {
            counts[number] = count;
        }
        let counted = named(&counts, &names);
        let counted: Vec<_> = counted
            .iter()
            .map(|(name, count)| (&**name, *count))
            .collect();
        assert_eq!(
            counted,
            [
                ("#255", 3),
                ("SKB_CONSUMED", 1),
                ("SOCKET_RCVBUFF", 40),
                ("subsystem", 2)
            ]
        );
    }

    #[test]
    fn reasons_of_a_healthy_stack_are_not_counted() {
        let named = |name: &str, number| (format!("{PREFIX}{name}"), number);
        let reasons = Reasons::of(vec![
            ("SKB_CONSUMED".to_owned(), 1),
            named("NOT_SPECIFIED", 2),
            named("TCP_CSUM", 10),
            named("PSP_INPUT", 125),
            named("MAX", 128),
            named("SUBSYS_MASK", 0xffff_0000),
        ]);
        assert_eq!(reasons.bits(), [1 << 10, 1 << (125 - 64), 0, 0]);
        assert_eq!(reasons.name(10), Some("TCP_CSUM"));
        assert_eq!(reasons.firewall(), 0);
        assert_eq!(
            Reasons(vec![("NETFILTER_DROP".to_owned(), 12)]).firewall(),
            12
        );
    }
}
