use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;

use super::expression::{Pattern, Primitive, Version, Which};
use super::net::Net;
use super::*;
use crate::flow::{NetnsInode, SocketCookie};

fn flow(protocol: Protocol, local: &str, remote: &str) -> Flow {
    Flow {
        netns: NetnsInode(1),
        protocol,
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        cookie: SocketCookie(1),
    }
}

fn tcp(local: &str, remote: &str) -> Flow {
    flow(Protocol::Tcp, local, remote)
}

fn parse(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Return if sent and if read messages of a flow are selected.
fn selected(text: &str, flow: &Flow) -> [bool; 2] {
    Direction::ALL.map(|direction| parse(text).selects(flow, direction))
}

const BOTH: [bool; 2] = [true, true];
const NEITHER: [bool; 2] = [false, false];
const SENT: [bool; 2] = [true, false];
const READ: [bool; 2] = [false, true];

#[test]
fn source_and_destination_are_those_of_the_message() {
    let server = tcp("10.0.0.1:443", "192.168.1.2:50000");
    for (text, expected) in [
        ("port 443", BOTH),
        ("src port 443", SENT),
        ("dst port 443", READ),
        ("src or dst port 443", BOTH),
        ("src and dst port 443", NEITHER),
        ("src and dst portrange 443-50000", BOTH),
        ("host 10.0.0.1", BOTH),
        ("dst host 192.168.1.2", SENT),
        ("src net 192.168.0.0/16", READ),
        ("src net 192.168 and dst port 443", READ),
        ("src net 192.168 and src port 443", NEITHER),
        ("not src port 443", READ),
        ("portrange 1-443", BOTH),
        ("portrange 1-442", NEITHER),
        ("port 444", NEITHER),
        ("net 10", BOTH),
        ("net 11", NEITHER),
        ("net 0.0.0.0/0", BOTH),
    ] {
        assert_eq!(selected(text, &server), expected, "{text}");
    }
}

#[test]
fn mapped_addresses_are_ipv4() {
    let mapped = tcp("[::ffff:10.0.0.1]:443", "[::ffff:10.0.0.2]:50000");
    let native = tcp("[2001:db8::1]:443", "[2001:db8::2]:50000");
    for (text, of_mapped, of_native) in [
        ("ip", BOTH, NEITHER),
        ("ip6", NEITHER, BOTH),
        ("src host 10.0.0.1", SENT, NEITHER),
        ("src host ::ffff:10.0.0.1", SENT, NEITHER),
        ("net 10.0.0.0/8", BOTH, NEITHER),
        ("net ::ffff:10.0.0.0/104", BOTH, NEITHER),
        ("net 0.0.0.0/0", BOTH, NEITHER),
        ("net ::/0", NEITHER, BOTH),
        ("not net ::/0", BOTH, NEITHER),
        ("net ::/64", NEITHER, NEITHER),
        ("2001:db8::/32", NEITHER, BOTH),
        ("ip6 port 443", NEITHER, BOTH),
        ("ip host 10.0.0.1 or ip6 host 2001:db8::1", BOTH, BOTH),
    ] {
        assert_eq!(selected(text, &mapped), of_mapped, "{text}");
        assert_eq!(selected(text, &native), of_native, "{text}");
    }
}

/// Each text is short for the other.
#[test]
fn values_take_the_words_before_them() {
    for (text, meaning) in [
        ("10.0.0.1", "host 10.0.0.1"),
        ("10.0.0.0/8", "net 10.0.0.0/8"),
        ("src 10.0.0.0/8", "src net 10.0.0.0/8"),
        ("net 10.0.0.1", "host 10.0.0.1"),
        ("net 10", "net 10.0.0.0/8"),
        ("net 192.168.1", "net 192.168.1.0/24"),
        ("net 10/16", "net 10.0.0.0/16"),
        ("2001:DB8::1", "host 2001:db8::1"),
        ("port 80 or 443", "port 80 or port 443"),
        (
            "tcp dst port 80 or 443",
            "tcp and dst port 80 or (tcp and dst port 443)",
        ),
        (
            "not host 10.0.0.1 and 10.0.0.2",
            "not host 10.0.0.1 and host 10.0.0.2",
        ),
        (
            "host 10.0.0.1 or 10.1.0.0/16",
            "host 10.0.0.1 or net 10.1.0.0/16",
        ),
        ("net 10 or 192.168", "net 10.0.0.0/8 or net 192.168.0.0/16"),
        (
            "src port 80 or tcp or 443",
            "src port 80 or tcp or src port 443",
        ),
        ("tcp port 443", "tcp and port 443"),
        ("src or dst port 443", "port 443"),
        ("portrange 443", "port 443"),
        ("portrange 443-443", "port 443"),
        ("tcp&&!(udp||ip6)", "tcp and not (udp or ip6)"),
        ("  tcp\n\tand ip ", "tcp and ip"),
    ] {
        assert_eq!(parse(text).to_string(), meaning, "{text}");
        assert_eq!(parse(text), parse(meaning), "{text}");
    }
}

/// Precedence is as in pcap-filter(7), unlike in C.
#[test]
fn and_and_or_bind_equally_and_to_the_left_and_not_binds_tightest() {
    for (text, meaning) in [
        ("tcp or ip and port 1", "(tcp or ip) and port 1"),
        ("tcp and ip or port 1", "(tcp and ip) or port 1"),
        ("not tcp and ip", "(not tcp) and ip"),
        ("not not tcp or ip", "(not (not tcp)) or ip"),
    ] {
        assert_eq!(parse(text), parse(meaning));
    }
    assert_ne!(
        parse("tcp or ip and port 1"),
        parse("tcp or (ip and port 1)")
    );
}

#[test]
fn a_protocol_that_cannot_be_meant_is_not_wanted() {
    for (text, of_tcp, of_udp) in [
        ("tcp", true, false),
        ("udp", false, true),
        ("not udp", true, false),
        ("tcp port 443 and net 10", true, false),
        ("udp or tcp", true, true),
        ("port 53", true, true),
        ("not port 53", true, true),
        ("not (tcp port 53)", true, true),
        ("not (tcp or port 53)", false, true),
        ("tcp and udp", false, false),
        ("ip6", true, true),
    ] {
        assert_eq!(parse(text).wants(Protocol::Tcp), of_tcp, "{text}");
        assert_eq!(parse(text).wants(Protocol::Udp), of_udp, "{text}");
    }
}

/// Its first line, without the column, which is that of the first `^`.
fn assert_refused(text: &str, points_at: &str, message: &str) {
    let error = text.parse::<Filter>().unwrap_err();
    let column = error.column();
    assert_eq!(
        error.to_string(),
        format!("filter, column {column}: {message}\n  {text}\n  {points_at}")
    );
    let start = points_at.find('^').unwrap();
    assert_eq!(column, start + 1);
}

#[test]
fn errors_point_at_the_wrong_word() {
    const PRIMITIVE: &str = "expected a condition: tcp, udp, ip, ip6, src, dst, host, net, port, portrange or an IP address";
    const ADDRESS: &str = "expected an IP address (names are not looked up)";
    const PORT: &str = "expected a port number, 0 to 65535 (names of services are not looked up)";
    const NETWORK: &str = "expected a network, such as 10.0.0.0/8, 192.168 or 2001:db8::/32";
    for (text, points_at, message) in [
        ("", "^", format!("{PRIMITIVE}, found the end")),
        ("icmp", "^^^^", format!("{PRIMITIVE}, found `icmp`")),
        ("tcp and", "       ^", format!("{PRIMITIVE}, found the end")),
        ("tcp and and ip", "        ^^^", format!("{PRIMITIVE}, found `and`")),
        ("()", " ^", format!("{PRIMITIVE}, found `)`")),
        ("tcp and (ip", "           ^", "expected and, or, or `)`, found the end".into()),
        ("tcp)", "   ^", "expected and, or, or the end, found `)`".into()),
        ("port 80 port 81", "        ^^^^", "expected and, or, or the end, found `port`".into()),
        ("ip & tcp", "   ^", "expected `&&` or `||`, found `&`".into()),
        ("tcp port http", "         ^^^^", format!("{PORT}, found `http`")),
        ("port 65536", "     ^^^^^", format!("{PORT}, found `65536`")),
        ("port +1", "     ^^", format!("{PORT}, found `+1`")),
        ("port", "    ^", format!("{PORT}, found the end")),
        ("port (80)", "     ^", format!("{PORT}, found `(`")),
        (
            "port 80-90",
            "     ^^^^^",
            "expected a single port number (a range takes the word `portrange`), found `80-90`".into(),
        ),
        (
            "portrange 80-",
            "          ^^^",
            "expected a range of port numbers, such as 1-1023, found `80-`".into(),
        ),
        ("portrange 90-80", "          ^^^^^", "the range ends before it begins".into()),
        ("host example.org", "     ^^^^^^^^^^^", format!("{ADDRESS}, found `example.org`")),
        ("host 10.0.0", "     ^^^^^^", format!("{ADDRESS}, found `10.0.0`")),
        ("host fe80::1%eth0", "     ^^^^^^^^^^^^", format!("{ADDRESS}, found `fe80::1%eth0`")),
        (
            "host 10.0.0.0/8",
            "     ^^^^^^^^^^",
            "expected an IP address without a prefix length (a network takes the word `net`), found `10.0.0.0/8`".into(),
        ),
        (
            "80",
            "^^",
            "expected an IP address or a network (names are not looked up, and a port takes the word `port`), found `80`"
                .into(),
        ),
        ("net 10.0.0.0/33", "    ^^^^^^^^^^^", format!("{NETWORK}, found `10.0.0.0/33`")),
        ("net 10.0.0.0/", "    ^^^^^^^^^", format!("{NETWORK}, found `10.0.0.0/`")),
        ("net 1.2.3.4.5", "    ^^^^^^^^^", format!("{NETWORK}, found `1.2.3.4.5`")),
        ("net 256", "    ^^^", format!("{NETWORK}, found `256`")),
        (
            "net 10.1.2.3/8",
            "    ^^^^^^^^^^",
            "the address has bits beyond the prefix: the network is 10.0.0.0/8".into(),
        ),
        (
            "ip host ::1",
            "        ^^^",
            "`ip` contradicts the IP version of the address".into(),
        ),
        (
            "ip6 net 10.0.0.0/8 or udp",
            "        ^^^^^^^^^^",
            "`ip6` contradicts the IP version of the address".into(),
        ),
        ("src or port 80", "       ^^^^", "expected dst, found `port`".into()),
        ("port 80 or 10.0.0.1", "           ^^^^^^^^", format!("{PORT}, found `10.0.0.1`")),
        (
            "tcp 443",
            "    ^^^",
            "expected src, dst, host, net, port, portrange, and, or, or the end, found `443`".into(),
        ),
        ("port 80 or ÄÖ", "           ^^", format!("{PRIMITIVE}, found `ÄÖ`")),
    ] {
        assert_refused(text, points_at, &message);
    }
}

#[test]
fn the_marker_stays_below_the_expression() {
    let error = "tcp and\nport\tx".parse::<Filter>().unwrap_err();
    assert_eq!(error.to_string().lines().count(), 3);
    assert_eq!(error.column(), 14);
}

#[test]
fn length_and_depth_are_bounded() {
    let longest = vec!["port 1"; 32].join(" or ");
    assert_eq!(parse(&longest).table().tests().len(), MAX_TESTS);
    let error = format!("{longest} or tcp").parse::<Filter>().unwrap_err();
    assert_eq!(error.column(), longest.len() + 5);
    assert_eq!(*error.problem(), Problem::TooLong);
    assert_eq!(
        error.to_string().lines().next().unwrap(),
        "filter, column 321: too long: it takes more than 64 tests (a `host`, `net` or `port` without src or dst takes two)"
    );

    assert_eq!(
        parse(&format!("{}tcp", "not ".repeat(32))),
        parse(&format!("{}tcp", "!".repeat(32)))
    );
    for opening in ["not ", "(", "not("] {
        let error = opening.repeat(100_000).parse::<Filter>().unwrap_err();
        assert_eq!(*error.problem(), Problem::TooDeep);
    }
}

/// Evaluate a table as the kernel does.
fn accepts(table: &Table, ends: &Ends) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let of = |end| match end {
        End::Source => ends.source,
        End::Destination => ends.destination,
    };
    let mut index = 0;
    loop {
        let test = table.tests()[index];
        let holds = match test.condition {
            Condition::Protocol(protocol) => ends.protocol == protocol,
            Condition::Address { end, network, mask } => bits(of(end).0) & mask == network,
            Condition::Ports { end, first, last } => (first..=last).contains(&of(end).1),
        };
        match if holds { test.on_true } else { test.on_false } {
            Next::Accept => return true,
            Next::Reject => return false,
            Next::Test(next) => {
                assert!(usize::from(next) > index, "a jump that does not go forward");
                index = next.into();
            }
        }
    }
}

/// Few, so that flows and filters meet; `::` and its like cover the v4-mapped ones.
fn address() -> impl Strategy<Value = IpAddr> {
    prop::sample::select(vec![
        "10.0.0.1",
        "10.0.0.2",
        "10.128.0.0",
        "192.168.1.1",
        "255.255.255.255",
        "0.0.0.0",
        "::",
        "::1",
        "::fffe:a00:1",
        "2001:db8::1",
        "2001:db8:8000::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ])
    .prop_map(|text| text.parse().unwrap())
}

fn port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0, 1, 80, 443, 1023, 50_000, 65_535])
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let net = (address(), 0_u8..=128)
        .prop_filter_map("no prefix is that long", |(address, prefix)| {
            Net::around(address, prefix).map(Pattern::Net)
        });
    let ports = (port(), port()).prop_map(|(one, other)| Pattern::Ports {
        first: one.min(other),
        last: one.max(other),
    });
    prop_oneof![
        net,
        address().prop_map(|address| Pattern::Net(Net::host(address))),
        ports
    ]
}

fn primitive() -> impl Strategy<Value = Primitive> {
    let which = prop::sample::select(vec![
        Which::Source,
        Which::Destination,
        Which::Either,
        Which::Both,
    ]);
    prop_oneof![
        1 => prop::sample::select(Protocol::ALL.to_vec()).prop_map(Primitive::Protocol),
        1 => prop::sample::select(vec![Version::V4, Version::V6]).prop_map(Primitive::Version),
        4 => (which, pattern()).prop_map(|(which, pattern)| Primitive::Match(which, pattern)),
    ]
}

/// At most 16 primitives, which take at most four tests each.
fn filter() -> impl Strategy<Value = Filter> {
    let leaf = primitive().prop_map(Expression::Primitive);
    let expression = leaf.prop_recursive(4, 16, 2, |inner| {
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            inner
                .clone()
                .prop_map(|inner| Expression::Not(inner.into())),
            pair().prop_map(|(left, right)| Expression::And(left.into(), right.into())),
            pair().prop_map(|(left, right)| Expression::Or(left.into(), right.into())),
        ]
    });
    expression.prop_map(|expression| Filter { expression })
}

/// Also such as no socket has: one end IPv4, the other not.
fn any_flow() -> impl Strategy<Value = Flow> {
    let end = || {
        (address(), port(), any::<bool>()).prop_map(|(address, port, mapped)| match address {
            IpAddr::V4(v4) if mapped => SocketAddr::new(v4.to_ipv6_mapped().into(), port),
            address => SocketAddr::new(address, port),
        })
    };
    (prop::sample::select(Protocol::ALL.to_vec()), end(), end()).prop_map(
        |(protocol, local, remote)| Flow {
            netns: NetnsInode(1),
            protocol,
            local,
            remote,
            cookie: SocketCookie(1),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_table_agrees_with_the_expression(
        filter in filter(),
        flows in prop::collection::vec(any_flow(), 20),
    ) {
        let table = filter.table();
        prop_assert!(table.tests().len() <= MAX_TESTS);
        for flow in &flows {
            for direction in Direction::ALL {
                let selects = filter.selects(flow, direction);
                prop_assert_eq!(
                    accepts(&table, &Ends::of(flow, direction)),
                    selects,
                    "{} {}",
                    filter,
                    flow,
                );
                prop_assert!(filter.wants(flow.protocol) || !selects);
            }
        }
    }

    #[test]
    fn printed_filters_parse_back_the_same(filter in filter()) {
        let read: Filter = filter.to_string().parse().unwrap();
        prop_assert_eq!(read, filter);
    }

    #[test]
    fn networks_hold_their_addresses(address in any::<u128>(), prefix in 0_u8..=128) {
        let address = IpAddr::V6(Ipv6Addr::from_bits(address));
        let net = Net::around(address, prefix).unwrap();
        prop_assert!(net.contains(address.to_canonical()));
        prop_assert_eq!(Net::around(net.address(), prefix), Some(net));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = text.parse::<Filter>();
    }

    /// Words of the language in any order, with and without spaces: the pointer is always below
    /// them.
    #[test]
    fn no_sequence_of_words_panics(
        words in prop::collection::vec(word(), 0..20),
        spaced in any::<bool>(),
    ) {
        let text = words.join(if spaced { " " } else { "" });
        if let Err(error) = text.parse::<Filter>() {
            prop_assert!(error.column() <= text.chars().count() + 1, "{}", error);
            let printed = error.to_string();
            prop_assert_eq!(printed.lines().count(), 3);
        }
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "tcp",
        "udp",
        "ip",
        "ip6",
        "src",
        "dst",
        "host",
        "net",
        "port",
        "portrange",
        "and",
        "or",
        "not",
        "&&",
        "||",
        "!",
        "(",
        ")",
        "&",
        "|",
        "10.0.0.1",
        "10.0.0.0/8",
        "10/8",
        "::1",
        "::/0",
        "::ffff:1.2.3.4",
        "80",
        "1-2",
        "2-1",
        "65536",
        "-",
        "/",
        ".",
        ":",
        "é",
        "\t",
    ])
}
