//! The NICs whose interrupts wait for further packets, for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;
use sockstamp_model::summary::CoalescingNic;

/// A line for each, with the cure.
pub fn lines(
    output: &mut dyn Write,
    nics: &[CoalescingNic],
    home: NetnsInode,
    names: &BTreeMap<NetnsInode, Name>,
) -> io::Result<()> {
    nics.iter()
        .try_for_each(|nic| writeln!(output, "{}", line(nic, home, names)))
}

fn line(nic: &CoalescingNic, home: NetnsInode, names: &BTreeMap<NetnsInode, Name>) -> String {
    let place = nic.interface.seen_from(home, names);
    let name = &nic.interface.name;
    let (wait, median, reads) = (nic.wait, nic.median, nic.reads);
    let (option, cure) = match nic.adaptive {
        false => ("rx-usecs", format!("ethtool -C {name} rx-usecs N")),
        true => (
            "rx-usecs now, adaptive-rx",
            format!("ethtool -C {name} adaptive-rx off rx-usecs N"),
        ),
    };
    format!(
        " coalescing: up to {wait} of rx.nic ({median} at p50 of {reads}), since interrupts of {place} \
         wait for further packets ({option}): a smaller N of `{cure}` is sooner, and more interrupts"
    )
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::interface::Interface;

    use super::*;

    #[test]
    fn the_wait_and_its_cure_are_told() {
        let mut nic = CoalescingNic {
            interface: Interface {
                name: "eth0".into(),
                index: 2,
                netns: NetnsInode(7),
            },
            wait: Nanos(50_000),
            adaptive: false,
            reads: 12,
            median: Nanos(61_000),
        };
        let told = |nic: &CoalescingNic| line(nic, NetnsInode(7), &BTreeMap::new());
        assert_eq!(
            told(&nic),
            " coalescing: up to 50.0 µs of rx.nic (61.0 µs at p50 of 12), since interrupts of eth0 wait \
             for further packets (rx-usecs): a smaller N of `ethtool -C eth0 rx-usecs N` is sooner, and \
             more interrupts"
        );
        nic.adaptive = true;
        assert!(told(&nic).contains("`ethtool -C eth0 adaptive-rx off rx-usecs N`"));
    }
}
