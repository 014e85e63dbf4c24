//! Links between hosts: addresses, delay, loss, reordering, duplication, rate, throughput.

use testbed::{Family, Host, Link, LinkConfig};

#[test]
fn both_families_are_usable_at_once() {
    let a = Host::new("a").unwrap();
    let b = Host::new("b").unwrap();
    let relay = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let veth = Link::veth(&a, &b).unwrap();
    for link in [&relay, &veth] {
        for family in [Family::V4, Family::V6] {
            a.run(
                "ping",
                &["-c", "1", "-W", "1", &link.address_b(family).to_string()],
            )
            .unwrap();
            b.run(
                "ping",
                &["-c", "1", "-W", "1", &link.address_a(family).to_string()],
            )
            .unwrap();
        }
    }
}
