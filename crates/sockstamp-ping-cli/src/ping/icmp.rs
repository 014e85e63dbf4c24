//! Names of ICMP errors, as ping(8) has them.

use std::net::IpAddr;

use sockstamp_ping::{Refusal, RefusalKind};
use sockstamp_run::wording::in_words;

/// The protocol of the errors about packets to an address.
pub(crate) fn name(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "ICMP",
        IpAddr::V6(_) => "ICMPv6",
    }
}

/// Return the meaning of an error about a probe of an address.
///
/// Source: the registries of types and codes at IANA, "ICMP Parameters" and "ICMPv6 Parameters".
pub(crate) fn meaning(address: IpAddr, refusal: &Refusal) -> String {
    if let RefusalKind::TooBig { mtu } = refusal.kind {
        return match address {
            IpAddr::V4(_) => format!("Frag needed and DF set (mtu = {mtu})"),
            IpAddr::V6(_) => format!("Packet too big: mtu={mtu}"),
        };
    }
    let code = (refusal.icmp_type, refusal.icmp_code);
    let known = match address {
        IpAddr::V4(_) => of_v4(code),
        IpAddr::V6(_) => of_v6(code),
    };
    known.map_or_else(|| in_words(&refusal.error().to_string()), str::to_owned)
}

fn of_v4(code: (u8, u8)) -> Option<&'static str> {
    Some(match code {
        (3, 0 | 6 | 11) => "Destination Net Unreachable",
        (3, 1 | 7 | 12) => "Destination Host Unreachable",
        (3, 2) => "Destination Protocol Unreachable",
        (3, 3) => "Destination Port Unreachable",
        (3, 5) => "Source Route Failed",
        (3, 9) => "Destination Net Prohibited",
        (3, 10) => "Destination Host Prohibited",
        (3, 13) => "Packet filtered: communication prohibited",
        (11, 0) => "Time to live exceeded",
        (11, 1) => "Frag reassembly time exceeded",
        (12, _) => "Parameter problem",
        _ => return None,
    })
}

fn of_v6(code: (u8, u8)) -> Option<&'static str> {
    Some(match code {
        (1, 0) => "Destination unreachable: No route",
        (1, 1) => "Destination unreachable: Administratively prohibited",
        (1, 2) => "Destination unreachable: Beyond scope of source address",
        (1, 3) => "Destination unreachable: Address unreachable",
        (1, 4) => "Destination unreachable: Port unreachable",
        (3, 0) => "Time exceeded: Hop limit",
        (3, 1) => "Time exceeded: Defragmentation failure",
        (4, _) => "Parameter problem",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::samples::refusal;
    use super::*;

    fn named(address: IpAddr, icmp_type: u8, icmp_code: u8, kind: RefusalKind) -> String {
        let refusal = Refusal {
            kind,
            icmp_type,
            icmp_code,
            ..refusal()
        };
        format!("{}: {}", name(address), meaning(address, &refusal))
    }

    #[test]
    fn each_version_has_its_names() {
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let unreachable = RefusalKind::Unreachable;
        assert_eq!(
            named(v4, 3, 13, unreachable),
            "ICMP: Packet filtered: communication prohibited"
        );
        assert_eq!(
            named(v4, 3, 1, unreachable),
            "ICMP: Destination Host Unreachable"
        );
        assert_eq!(
            named(v6, 1, 3, unreachable),
            "ICMPv6: Destination unreachable: Address unreachable"
        );
        let big = RefusalKind::TooBig { mtu: 1400 };
        assert_eq!(named(v6, 2, 0, big), "ICMPv6: Packet too big: mtu=1400");
    }

    #[test]
    fn an_unknown_code_is_named_by_its_error() {
        let name = named(Ipv4Addr::LOCALHOST.into(), 99, 0, RefusalKind::Other);
        assert_eq!(name, "ICMP: No route to host");
    }
}
