//! The listeners of a target, and what they drop during a measurement.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sockstamp_bpf::Target;
use sockstamp_host::listener::{self, Key, Listener, Listeners as Known};
use sockstamp_host::netns;
use sockstamp_host::syn_drops::SynDrops;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::listener::{HalfOpen, ListenerSummary};
use sockstamp_model::name::Name;
use sockstamp_model::stage::Direction;
use sockstamp_run::escape::complain;
use sockstamp_run::target::processes_named;

use crate::paragraph;

/// Listeners that are printed.
const SHOWN: usize = 4;

/// The listeners of a target at the start of a measurement.
#[derive(Debug)]
pub struct Listeners {
    target: Target,
    before: Known,
}

impl Listeners {
    /// Read the listeners as they are now.
    pub fn of(target: Target) -> Self {
        let before = known(&target);
        Self { target, before }
    }

    /// Return the listeners that dropped anything since, or that have connections waiting.
    pub fn end(&self) -> Vec<ListenerSummary> {
        let processes = self.processes();
        let cgroups = self.target.cgroup.as_deref().map(cgroups_below);
        let wanted = |key: &Key, listener: &Listener| {
            self.target.interface.is_none()
                && processes
                    .as_ref()
                    .is_none_or(|inodes| inodes.contains(&listener.inode))
                && cgroups
                    .as_ref()
                    .is_none_or(|cgroups| cgroups.contains(&listener.cgroup))
                && self.passes_filter(key, listener)
        };
        let now = known(&self.target);
        let since = Since::between(&self.before, &now);
        let listeners = now
            .each
            .iter()
            .filter(|(key, listener)| wanted(key, listener));
        let summaries = listeners.map(|(key, listener)| ListenerSummary {
            local: canonical(listener.local),
            netns: key.0,
            queue: listener.queue,
            limit: listener.limit,
            dropped: since.dropped(*key),
            overflowed: since.overflowed(*key),
            unrouted: since.unrouted(*key),
            half_open: since.half_open(*key, listener),
        });
        let mut listeners: Vec<_> = summaries
            .filter(|listener| {
                listener.dropped > 0 || listener.queue > 0 || listener.half_open.is_some()
            })
            .collect();
        listeners.sort_by_key(|listener| {
            let ListenerSummary {
                overflowed,
                queue,
                dropped,
                ..
            } = *listener;
            Reverse((overflowed, queue, dropped))
        });
        listeners
    }

    /// Return the sockets that the processes of the target hold; `None` if it is no process.
    fn processes(&self) -> Option<BTreeSet<u32>> {
        let target = &self.target;
        if target.pids.is_empty() && target.comms.is_empty() {
            return None;
        }
        let mut pids = target.pids.clone();
        pids.extend(processes_named(&target.comms));
        Some(pids.into_iter().flat_map(sockets_of).collect())
    }

    /// Apply the filter to what is known of a listener: its own end.
    fn passes_filter(&self, (netns, cookie): &Key, listener: &Listener) -> bool {
        let mut unspecified = listener.local;
        unspecified.set_ip(match listener.local {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        });
        unspecified.set_port(0);
        let flow = Flow {
            netns: *netns,
            protocol: Protocol::Tcp,
            local: listener.local,
            remote: unspecified,
            cookie: SocketCookie(*cookie),
        };
        self.target.filter.as_ref().is_none_or(|filter| {
            let mut directions = Direction::ALL.into_iter();
            directions.any(|direction| filter.selects(&flow, direction))
        })
    }
}

/// What was counted during a measurement.
#[derive(Debug)]
struct Since {
    /// By each listener.
    drops: BTreeMap<Key, u64>,
    /// Overflows of a network namespace; none of those where a listener has ended since: its drops
    /// are unknown.
    overflows: BTreeMap<NetnsInode, u64>,
    /// SYNs of a network namespace that found too many half-open handshakes, and those that it has
    /// now.
    half_open: BTreeMap<NetnsInode, (u64, listener::HalfOpen)>,
    /// SYNs of a network namespace that were dropped although there was room.
    others: BTreeMap<NetnsInode, SynDrops>,
}

impl Since {
    fn between(before: &Known, now: &Known) -> Self {
        let drops = now.each.iter().map(|(key, listener)| {
            let before = before.each.get(key).map_or(0, |before| before.drops);
            (*key, listener.drops.wrapping_sub(before).into())
        });
        let ended: BTreeSet<NetnsInode> = before
            .each
            .keys()
            .filter(|key| !now.each.contains_key(key))
            .map(|(netns, _)| *netns)
            .collect();
        let overflows = now.overflows.iter().filter_map(|(netns, now)| {
            let before = before.overflows.get(netns)?;
            (!ended.contains(netns)).then_some((*netns, now.wrapping_sub(*before)))
        });
        let others = now.others.iter().filter_map(|(netns, now)| {
            let since = now.since(*before.others.get(netns)?);
            (!ended.contains(netns) && since.roomy > 0).then_some((*netns, since))
        });
        let others: BTreeMap<NetnsInode, SynDrops> = others.collect();
        let refused = now.refused.iter().filter_map(|(netns, now)| {
            let refused = now.wrapping_sub(*before.refused.get(netns)?);
            let may_be_kept = others.get(netns).is_some_and(|of| of.reserve.is_some());
            let handshakes = (refused > 0 || may_be_kept).then(|| listener::half_open(*netns))?;
            Some((*netns, (refused, handshakes.ok()?)))
        });
        Self {
            drops: drops.collect(),
            overflows: overflows.collect(),
            half_open: refused.collect(),
            others,
        }
    }

    /// Return the half-open handshakes of a listener, where SYNs found too many of them.
    fn half_open(&self, of: Key, listener: &Listener) -> Option<HalfOpen> {
        let (refused, handshakes) = self.half_open.get(&of.0)?;
        let (count, addresses) = listener::half_open_at(listener.local, handshakes);
        let refused = refused + self.kept_out(of, count);
        (count > 0 && refused > 0).then_some(HalfOpen {
            refused,
            count,
            addresses,
        })
    }

    /// Return the SYNs that a listener dropped, for the half-open handshakes that it has, without a
    /// full queue.
    fn kept_out(&self, of: Key, count: u32) -> u64 {
        let reserve = self.others.get(&of.0).and_then(|others| others.reserve);
        match reserve.is_some_and(|reserve| count >= reserve) {
            true => self.roomy(of).saturating_sub(self.unrouted(of)),
            false => 0,
        }
    }

    /// Return the SYNs that a listener dropped without a full queue, at least: others of the
    /// namespace explain no more of them.
    fn roomy(&self, of: Key) -> u64 {
        let others = self.others.get(&of.0).map_or(0, |others| others.roomy);
        let discarded = |key: Key| {
            self.dropped(key)
                .saturating_sub(self.overflowed(key).unwrap_or(0))
        };
        let there = self.drops.keys().filter(|key| key.0 == of.0 && **key != of);
        let elsewhere: u64 = there.map(|key| discarded(*key)).sum();
        others.saturating_sub(elsewhere).min(discarded(of))
    }

    /// Return the SYNs that a listener dropped for want of a route back, at least.
    fn unrouted(&self, of: Key) -> u64 {
        let unrouted = self.others.get(&of.0).map_or(0, |others| others.unrouted);
        unrouted.min(self.roomy(of))
    }

    fn dropped(&self, of: Key) -> u64 {
        self.drops.get(&of).copied().unwrap_or(0)
    }

    /// The kernel counts overflows of a network namespace together, and each is a drop of one
    /// listener. What drops of the others do not explain is this one's.
    fn overflowed(&self, of: Key) -> Option<u64> {
        let dropped = self.dropped(of);
        let overflows = self.overflows.get(&of.0)?;
        let there = self.drops.iter().filter(|((netns, _), _)| *netns == of.0);
        let all: u64 = there.map(|(_, drops)| drops).sum();
        Some(overflows.saturating_sub(all - dropped).min(dropped))
    }
}

/// Return the listeners of a target's network namespaces, or of all. A kernel that lists none is
/// reported: what follows from them is left out.
fn known(target: &Target) -> Known {
    listener::all(&target.netns).unwrap_or_else(|error| {
        complain(format_args!("accept queues are left out: {error:#}"));
        Known::default()
    })
}

/// Return the inodes of a process's sockets.
fn sockets_of(pid: u32) -> Vec<u32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    links
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

/// Return the numbers of a cgroup and of those below it: the inodes of their directories.
fn cgroups_below(cgroup: &Path) -> BTreeSet<u64> {
    let mut found: BTreeSet<u64> = fs::metadata(cgroup)
        .map(|own| own.ino())
        .into_iter()
        .collect();
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(cgroups_below(&entry.path()));
        }
    }
    found
}

/// Print the listeners, those with most drops first.
pub fn lines(
    output: &mut dyn Write,
    listeners: &[ListenerSummary],
    home: NetnsInode,
    names: &BTreeMap<NetnsInode, Name>,
) -> io::Result<()> {
    if listeners.is_empty() {
        return Ok(());
    }
    let mut items: Vec<_> = listeners
        .iter()
        .take(SHOWN)
        .map(|listener| {
            let place = netns::seen_from(listener.netns, home, names);
            let (local, queue, limit) = (listener.local, listener.queue, listener.limit);
            let mut item = format!("{local}{place} queue {queue} of {limit}");
            let overflowed = listener.overflowed.unwrap_or(0);
            let others = match listener.overflowed {
                Some(_) => "discarded",
                None => "dropped",
            };
            let counts = [
                ("overflowed", overflowed),
                ("unrouted", listener.unrouted),
                (others, listener.dropped - overflowed - listener.unrouted),
            ];
            for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                item += &format!(" {what} {count}");
            }
            item
        })
        .collect();
    if listeners.len() > SHOWN {
        items.push(format!("{} more", listeners.len() - SHOWN));
    }
    writeln!(output, "{}", paragraph::wrapped(" listeners:", items, ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(port: u16, dropped: u64) -> ListenerSummary {
        ListenerSummary {
            local: ([0, 0, 0, 0], port).into(),
            netns: NetnsInode(7),
            queue: 2,
            limit: 1,
            dropped,
            overflowed: Some(dropped / 3),
            unrouted: dropped / 9,
            half_open: None,
        }
    }

    fn printed(listeners: &[ListenerSummary], home: u32) -> String {
        let mut text = Vec::new();
        let names = BTreeMap::from([(NetnsInode(7), Name::from("blue"))]);
        lines(&mut text, listeners, NetnsInode(home), &names).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn listeners_are_printed_with_their_queue_and_drops() {
        assert_eq!(printed(&[], 7), "");
        assert_eq!(
            printed(&[listener(80, 0)], 7),
            " listeners: 0.0.0.0:80 queue 2 of 1\n"
        );
        assert_eq!(
            printed(&[listener(80, 9)], 1),
            " listeners: 0.0.0.0:80@blue queue 2 of 1 overflowed 3 unrouted 1 discarded 5\n"
        );
        let many: Vec<_> = (0..7)
            .map(|port| ListenerSummary {
                unrouted: 0,
                ..listener(60_000 + port, 999_999)
            })
            .collect();
        let text = printed(&many, 1);
        assert!(text.ends_with(" 3 more\n"), "{text}");
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= paragraph::WIDTH),
            "{text}"
        );
    }

    fn watched(filter: Option<&str>) -> Listeners {
        Listeners {
            target: Target {
                filter: filter.map(|filter| filter.parse().unwrap()),
                ..Target::default()
            },
            before: Known::default(),
        }
    }

    #[test]
    fn a_filter_is_asked_about_the_listeners_own_end() {
        let listener = Listener {
            local: ([10, 0, 0, 1], 80).into(),
            queue: 0,
            limit: 1,
            drops: 0,
            inode: 1,
            cgroup: 1,
        };
        let passes = |filter| watched(filter).passes_filter(&(NetnsInode(7), 1), &listener);
        assert!(passes(None));
        for filter in [
            "port 80",
            "src port 80",
            "dst port 80",
            "host 10.0.0.1",
            "not port 22",
        ] {
            assert!(passes(Some(filter)), "{filter}");
        }
        for filter in ["port 81", "udp", "host 10.0.0.2", "not port 80"] {
            assert!(!passes(Some(filter)), "{filter}");
        }
    }

    #[test]
    fn overflows_are_of_the_listener_that_others_do_not_explain() {
        let here = NetnsInode(7);
        let of = |drops: [u32; 2], overflows: u64| Known {
            each: (0..)
                .zip(drops)
                .map(|(cookie, drops)| {
                    let listener = Listener {
                        local: ([10, 0, 0, 1], 80).into(),
                        queue: 0,
                        limit: 1,
                        drops,
                        inode: 1,
                        cgroup: 1,
                    };
                    ((here, cookie), listener)
                })
                .collect(),
            overflows: BTreeMap::from([(here, overflows)]),
            ..Known::default()
        };
        let since = |drops, overflows| {
            let since = Since::between(&of([100, 100], 1000), &of(drops, overflows));
            [0, 1].map(|cookie| since.overflowed((here, cookie)).unwrap())
        };
        assert_eq!(since([140, 100], 1000), [0, 0]);
        assert_eq!(since([140, 100], 1039), [39, 0]);
        assert_eq!(since([140, 140], 1080), [40, 40]);
        assert_eq!(since([140, 109], 1040), [31, 0]);
        let mut ended = of([140, 100], 1040);
        ended.each.remove(&(here, 1));
        let since = Since::between(&of([100, 100], 1000), &ended);
        assert_eq!(
            (since.dropped((here, 0)), since.overflowed((here, 0))),
            (40, None)
        );
    }

    #[test]
    fn syns_that_found_room_were_dropped_for_routes_or_for_half_open_handshakes() {
        let here = NetnsInode(7);
        let of = |port| Listener {
            local: ([10, 0, 0, 1], port).into(),
            queue: 0,
            limit: 1,
            drops: 0,
            inode: 1,
            cgroup: 1,
        };
        let handshakes = |count| {
            let one = |of: u8| (([10, 0, 0, 1], 80).into(), [10, 0, 0, of].into());
            (0..count).map(one).collect()
        };
        let since = |drops: [u64; 2], unrouted, reserve, count| Since {
            drops: (0..)
                .zip(drops)
                .map(|(cookie, drops)| ((here, cookie), drops))
                .collect(),
            overflows: BTreeMap::from([(here, 0)]),
            half_open: BTreeMap::from([(here, (0, handshakes(count)))]),
            others: BTreeMap::from([(
                here,
                SynDrops {
                    roomy: 90,
                    unrouted,
                    reserve,
                },
            )]),
        };
        let told = |since: &Since| {
            let half_open = since.half_open((here, 0), &of(80));
            let refused = half_open.map(|found| (found.refused, found.count));
            (since.unrouted((here, 0)), refused)
        };
        // A drop of a RST is none of those.
        assert_eq!(told(&since([95, 0], 90, None, 0)), (90, None));
        assert_eq!(told(&since([90, 0], 0, Some(12), 13)), (0, Some((90, 13))));
        assert_eq!(
            told(&since([90, 0], 50, Some(12), 13)),
            (50, Some((40, 13)))
        );
        assert_eq!(told(&since([90, 0], 0, Some(12), 9)), (0, None));
        assert_eq!(told(&since([90, 0], 0, None, 13)), (0, None));
        // Another listener may have dropped them.
        assert_eq!(told(&since([90, 80], 90, None, 0)), (10, None));
    }

    #[test]
    fn a_process_has_the_sockets_that_it_holds() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let found = listener::all(&[]).unwrap().each;
        let ours = found
            .values()
            .find(|listener| listener.local == address)
            .unwrap();
        assert!(sockets_of(std::process::id()).contains(&ours.inode));
        assert!(!sockets_of(1).contains(&ours.inode));
    }
}
