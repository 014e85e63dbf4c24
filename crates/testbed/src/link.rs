use std::fs::{self, File, OpenOptions};
use std::io::PipeWriter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::error::{Context, Error, Result};
use crate::host::{Host, Namespace};
use crate::leftovers::NETNS_DIRECTORY;
use crate::link_config::LinkConfig;
use crate::middlebox::Experiments;
use crate::nat::Nat;
use crate::patience::PATIENCE;
use crate::process::{self, POLL_INTERVAL};
use crate::relay::{Relay, Shared};
use crate::statistics::RelayStatistics;
use crate::sys::{self, Offload};

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A direction through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Packets that host a sends.
    AToB,
    /// Packets that host b sends.
    BToA,
}

/// Packets that a TUN device keeps for the relay before it drops. With the kernel's default of 500
/// a burst of MTU-sized packets during one late wake-up would overflow.
const TUN_QUEUE_LEN: u32 = 4096;

/// Two hosts joined, by a relay in user space or by a veth pair.
///
/// Link number N of this process (counted from 1, modulo 250) gives host a 10.77.N.1/24 and
/// fd77:N::1/64, host b .2 and ::2, with N in decimal in both, usable at once (no duplicate address
/// detection). Numbers of different processes may be equal: namespaces keep them apart.
///
/// Multicast does not cross a relay.
#[derive(Debug)]
pub struct Link {
    number: u16,
    a: End,
    b: End,
    relay: Option<Running>,
}

#[derive(Debug)]
struct End {
    interface: String,
    netns_name: String,
    namespace: Namespace,
}

#[derive(Debug)]
struct Running {
    a_to_b: Half,
    b_to_a: Half,
    /// Closed to stop the threads.
    stop: Option<PipeWriter>,
    threads: Vec<JoinHandle<()>>,
}

/// One direction of a running link.
#[derive(Debug)]
struct Half {
    shared: Arc<Shared>,
    /// The device of the sending host.
    device: Arc<File>,
}

impl Half {
    fn set_config(&self, config: LinkConfig) -> Result<()> {
        config.check()?;
        sys::tun_set_offload(&self.device, config.offload)
            .context("set the offload of", "a TUN device")?;
        self.shared.set_config(config);
        Ok(())
    }
}

/// The last number of an address behind which the first host may be.
const OUTSIDE: u8 = 77;

impl Link {
    /// Join two hosts by a relay with the same configuration in both directions.
    pub fn relay(a: &Host, b: &Host, config: LinkConfig) -> Result<Link> {
        config.check()?;
        let mtu = config.mtu;
        let (number, a, b) = ends(a, b);
        let half = |end: &End| -> Result<Half> {
            let device = Arc::new(end.create_tun()?);
            let half = Half {
                shared: Arc::default(),
                device,
            };
            half.set_config(config.clone())?;
            Ok(half)
        };
        let (a_to_b, b_to_a) = (half(&a)?, half(&b)?);
        let (stop_reader, stop) = std::io::pipe().context("create", "a pipe")?;
        let stop_reader = Arc::new(stop_reader);

        // Started before the interfaces are up, so that nothing waits in a device unread.
        let mut running = Running {
            a_to_b,
            b_to_a,
            stop: Some(stop),
            threads: Vec::new(),
        };
        for (stream, from, to) in [
            (0, &running.a_to_b, &running.b_to_a),
            (1, &running.b_to_a, &running.a_to_b),
        ] {
            let relay = Relay {
                from: Arc::clone(&from.device),
                to: Arc::clone(&to.device),
                shared: Arc::clone(&from.shared),
                stop: Arc::clone(&stop_reader),
                stream,
            };
            let thread = thread::Builder::new()
                .name(format!("relay-{number}-{stream}"))
                .spawn(move || {
                    if let Err(error) = relay.run() {
                        eprintln!("testbed: relay {number} stopped: {error}");
                    }
                })
                .context("start", "a relay thread")?;
            running.threads.push(thread);
        }
        let link = Link {
            number,
            a,
            b,
            relay: Some(running),
        };
        for (end, last) in [(&link.a, 1), (&link.b, 2)] {
            process::ip(&format!(
                "-n {} link set {} mtu {mtu} txqueuelen {TUN_QUEUE_LEN}",
                end.netns_name, end.interface
            ))?;
            link.bring_up(end, last)?;
        }
        Ok(link)
    }

    /// Join two hosts by a plain veth pair.
    pub fn veth(a: &Host, b: &Host) -> Result<Link> {
        let (number, a, b) = ends(a, b);
        process::ip(&format!(
            "-n {} link add {} type veth peer name {} netns {}",
            a.netns_name, a.interface, b.interface, b.netns_name
        ))?;
        let link = Link {
            number,
            a,
            b,
            relay: None,
        };
        link.bring_up(&link.a, 1)?;
        link.bring_up(&link.b, 2)?;
        link.a.wait_until_operational()?;
        link.b.wait_until_operational()?;
        Ok(link)
    }

    fn bring_up(&self, end: &End, last: u8) -> Result<()> {
        let End {
            interface,
            netns_name,
            namespace,
        } = end;
        // Link-local addresses would otherwise be tentative for a second after the interface is
        // up, and solicitations of routers would be among the packets that tests count.
        for setting in ["accept_dad", "router_solicitations"] {
            let path = format!("/proc/sys/net/ipv6/conf/{interface}/{setting}");
            namespace
                .enter(|| fs::write(&path, "0"))
                .context("write", &path)?;
        }
        for address in [
            self.address(Family::V4, last),
            self.address(Family::V6, last),
        ] {
            let prefix = if address.is_ipv4() {
                "/24"
            } else {
                "/64 nodad"
            };
            process::ip(&format!(
                "-n {netns_name} address add {address}{prefix} dev {interface}"
            ))
            .map(drop)?;
        }
        process::ip(&format!("-n {netns_name} link set {interface} up"))?;
        Ok(())
    }

    fn address(&self, family: Family, last: u8) -> IpAddr {
        match family {
            Family::V4 => {
                let number = u8::try_from(self.number).expect("link numbers end at 250");
                Ipv4Addr::new(10, 77, number, last).into()
            }
            Family::V6 => {
                // The decimal digits of the number, read as hexadecimal ones.
                let digits =
                    self.number / 100 * 0x100 + self.number / 10 % 10 * 0x10 + self.number % 10;
                Ipv6Addr::new(0xfd77, digits, 0, 0, 0, 0, 0, last.into()).into()
            }
        }
    }

    /// The address of host a on this link.
    pub fn address_a(&self, family: Family) -> IpAddr {
        self.address(family, 1)
    }

    /// The address of host b on this link.
    pub fn address_b(&self, family: Family) -> IpAddr {
        self.address(family, 2)
    }

    /// The name of the interface in host a.
    pub fn interface_a(&self) -> &str {
        &self.a.interface
    }

    /// The name of the interface in host b.
    pub fn interface_b(&self) -> &str {
        &self.b.interface
    }

    /// Return the relay's counters so far. All are zero for a veth pair.
    pub fn statistics(&self) -> RelayStatistics {
        let Some(relay) = &self.relay else {
            return RelayStatistics::default();
        };
        RelayStatistics {
            a_to_b: relay.a_to_b.shared.counters.snapshot(self.a.device_drops()),
            b_to_a: relay.b_to_a.shared.counters.snapshot(self.b.device_drops()),
        }
    }

    /// Change both directions while the link runs. The random numbers restart from the seed;
    /// packets that already wait keep the time they are due, and later ones follow them. The MTU
    /// does not change.
    pub fn set_config(&self, config: LinkConfig) -> Result<()> {
        self.set_direction(Direction::AToB, config.clone())?;
        self.set_direction(Direction::BToA, config)
    }

    /// Let the second host see another address of the first one from now on, as NAT does. Return
    /// it.
    pub fn translate(&self) -> Result<IpAddr> {
        let IpAddr::V4(inside) = self.address_a(Family::V4) else {
            return Err(Error::Missing("an address of IPv4"));
        };
        let [a, b, c, _] = inside.octets();
        let outside = Ipv4Addr::new(a, b, c, OUTSIDE);
        for direction in [Direction::AToB, Direction::BToA] {
            let nat = &self.half(direction)?.shared.nat;
            nat.get_or_init(|| Nat { inside, outside });
        }
        Ok(outside.into())
    }

    /// Add a number to the first host's sequence numbers of TCP from now on, as a firewall does
    /// that draws initial ones of its own. Connections that are open do not survive it.
    pub fn shift_sequence(&self, by: u32) -> Result<()> {
        for direction in [Direction::AToB, Direction::BToA] {
            self.half(direction)?
                .shared
                .shift
                .store(by, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Have host a send no packet of several segments, and host b put segments together that come
    /// in a row (GRO). For a veth pair.
    pub fn coalesce(&self) -> Result<()> {
        for (end, offload, on) in [
            (&self.a, Offload::Segmentation, false),
            (&self.b, Offload::Coalescing, true),
        ] {
            let set = || sys::set_offload(&end.interface, offload, on);
            end.namespace
                .enter(set)
                .context("set an offload of", &end.interface)?;
        }
        Ok(())
    }

    /// Treat TCP segments with an experimental option so from now on, in both directions.
    pub fn treat_experiments(&self, experiments: Experiments) -> Result<()> {
        for direction in [Direction::AToB, Direction::BToA] {
            let shared = &self.half(direction)?.shared;
            shared
                .experiments
                .store(experiments as u8, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Change one direction, as [`Link::set_config`] does both.
    pub fn set_direction(&self, direction: Direction, config: LinkConfig) -> Result<()> {
        self.half(direction)?.set_config(config)
    }

    /// Lose the next `packets` TCP packets with data in one direction, in addition to the
    /// configured loss.
    pub fn lose_next_data(&self, direction: Direction, packets: u64) -> Result<()> {
        self.half(direction)?.shared.lose_next_data(packets);
        Ok(())
    }

    fn half(&self, direction: Direction) -> Result<&Half> {
        let relay = self
            .relay
            .as_ref()
            .ok_or(Error::Missing("a relay on a veth link"))?;
        Ok(match direction {
            Direction::AToB => &relay.a_to_b,
            Direction::BToA => &relay.b_to_a,
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        match &mut self.relay {
            Some(relay) => {
                drop(relay.stop.take());
                for thread in relay.threads.drain(..) {
                    // A panic in a relay thread has been printed where it happened.
                    let _ = thread.join();
                }
            }
            // The pair vanishes with either host.
            None if self.a.exists() && self.b.exists() => {
                let deleted = process::ip(&format!(
                    "-n {} link delete {}",
                    self.a.netns_name, self.a.interface
                ));
                if let Err(error) = deleted {
                    eprintln!("testbed: {error}");
                }
            }
            None => {}
        }
    }
}

/// The number of a new link and its ends, not yet created.
fn ends(a: &Host, b: &Host) -> (u16, End, End) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 250 + 1;
    let end = |host: &Host, letter| End {
        interface: format!("sst{number}{letter}"),
        netns_name: host.netns_name().to_owned(),
        namespace: host.namespace(),
    };
    (number, end(a, 'a'), end(b, 'b'))
}

impl End {
    fn create_tun(&self) -> Result<File> {
        const TUN: &str = "/dev/net/tun";
        self.namespace.enter(|| {
            // The interface belongs to the namespace in which the device is opened.
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(TUN)
                .context("open", TUN)?;
            sys::tun_create(&file, &self.interface)
                .context("create the TUN interface", &self.interface)?;
            Ok(file)
        })
    }

    fn exists(&self) -> bool {
        Path::new(NETNS_DIRECTORY).join(&self.netns_name).exists()
    }

    /// Wait until the interface transmits. The kernel processes carrier changes once per second and
    /// drops packets sent before. A query for one interface makes it process them at once: v6.18
    /// `rtnl_getlink()`, net/core/rtnetlink.c.
    fn wait_until_operational(&self) -> Result<()> {
        let End {
            interface,
            netns_name,
            ..
        } = self;
        let start = Instant::now();
        while !process::ip(&format!("-n {netns_name} link show dev {interface}"))?
            .contains(" state UP ")
        {
            if start.elapsed() > PATIENCE {
                return Err(Error::Timeout {
                    what: format!("carrier on {interface}"),
                    after: PATIENCE,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Packets that the interface dropped on transmission.
    fn device_drops(&self) -> u64 {
        let table = self
            .namespace
            .enter(|| fs::read_to_string("/proc/thread-self/net/dev"));
        table
            .ok()
            .and_then(|table| tx_drops(&table, &self.interface))
            .unwrap_or(0)
    }
}

/// The transmit drops of `interface` in a table such as `/proc/net/dev`.
fn tx_drops(table: &str, interface: &str) -> Option<u64> {
    let counters = table
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    // Eight receive columns, then bytes, packets, errors, drops of transmission.
    counters.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_drops_are_read_from_the_table() {
        let table = "Inter-|   Receive            |  Transmit\n face |bytes ...\n\
                         lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  sst1a: 0 0 0 0 0 0 0 0 0 0 0 77 0 0 0 0\n";
        assert_eq!(tx_drops(table, "sst1a"), Some(77));
        assert_eq!(tx_drops(table, "lo"), Some(12));
        assert_eq!(tx_drops(table, "sst1"), None);
    }
}
