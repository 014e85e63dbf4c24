//! Name what to type for a filter that other programs know, or that lacks a word.

use std::net::Ipv4Addr;

use super::filter::FILTER_WORDS;

/// Names of services, which are not looked up: RFC 6335's registry.
const SERVICES: &[(&str, u16)] = &[
    ("ssh", 22),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("http", 80),
    ("ntp", 123),
    ("https", 443),
    ("mysql", 3306),
    ("postgresql", 5432),
    ("redis", 6379),
];

/// Fields of Wireshark's filters, and the words before their value here.
const OF_FIELDS: &[(&str, &str)] = &[
    ("tcp.port", "tcp port"),
    ("tcp.srcport", "tcp src port"),
    ("tcp.dstport", "tcp dst port"),
    ("udp.port", "udp port"),
    ("udp.srcport", "udp src port"),
    ("udp.dstport", "udp dst port"),
    ("ip.addr", "host"),
    ("ip.src", "src host"),
    ("ip.dst", "dst host"),
    ("ipv6.addr", "host"),
    ("ipv6.src", "src host"),
    ("ipv6.dst", "dst host"),
];

/// Words of pcap-filter(7) that choose packets by what no socket has.
const OF_PACKETS: &[&str] = &[
    "ether",
    "vlan",
    "mpls",
    "pppoes",
    "arp",
    "rarp",
    "gateway",
    "broadcast",
    "multicast",
    "inbound",
    "outbound",
    "proto",
    "sctp",
    "ifname",
];

/// Return true for a word that begins filters of other programs alone.
pub(crate) fn is_of_packets(word: &str) -> bool {
    ["icmp", "icmp6", "dport", "sport"].contains(&word) || OF_PACKETS.contains(&word)
}

/// Return what to type for a filter with this error, in one line, if that is known.
pub(crate) fn line(told: &str, subcommand: &str) -> Option<String> {
    let (place, _) = told.split_once(": ")?;
    let instead = instead(told, &format!("sockstamp {subcommand}"))?;
    place
        .starts_with("filter, column ")
        .then(|| format!("{place}: {instead}"))
}

/// Return what to type for the word that a filter's error found. `begin`: the program and its
/// subcommand.
fn instead(told: &str, begin: &str) -> Option<String> {
    let found = found(told)?;
    let field = found.split('=').next().unwrap_or_default();
    if let Some((_, words)) = OF_FIELDS.iter().find(|(known, _)| *known == field) {
        let value = value_behind(told, field)?;
        return Some(format!("fields are words: write {words} {value}"));
    }
    of_field(found)
        .or_else(|| of_several_ports(found, told))
        .or_else(|| of_quotes(found, begin))
        .or_else(|| of_bytes(told))
        .or_else(|| of_ports(found, told.contains("port number")))
        .or_else(|| of_protocol(found))
        .or_else(|| of_port_in_address(found))
        .or_else(|| of_word(found, told))
        .or_else(|| of_place(found, told))
}

/// Return what to type for a word of a filter with its value behind a sign.
fn of_field(found: &str) -> Option<String> {
    let (field, value) = found.split_once('=')?;
    let is_word = ["host", "net", "src", "dst", "portrange"].contains(&field);
    let value = value.trim_start_matches('=');
    (is_word && !value.is_empty())
        .then(|| format!("a value is a word of its own: write {field} {value}"))
}

/// Return what to type for a port that is excluded by a sign, and for one more behind a port.
fn of_several_ports(found: &str, told: &str) -> Option<String> {
    let filter = told.lines().nth(1)?;
    if found.starts_with('!') {
        let port = filter.split("!=").nth(1)?.split_whitespace().next()?;
        return Some(format!(
            "a condition is excluded by a word: write not port {port}"
        ));
    }
    let (before, _) = filter.split_once(&format!(" {found}"))?;
    let mut words = before.split_whitespace().rev();
    let (first, word) = (words.next()?, words.next()?);
    let are_ports = [first, found]
        .iter()
        .all(|port| port.parse::<u16>().is_ok());
    (are_ports && word == "port")
        .then(|| format!("each port has its word: write port {first} or port {found}"))
}

fn of_quotes(found: &str, begin: &str) -> Option<String> {
    // The error escapes quotes.
    let is_quoted = found.trim_start_matches('\\').starts_with(['\'', '"']);
    is_quoted.then(|| format!("a filter is quoted once or not at all: {begin} tcp port 80"))
}

fn of_bytes(told: &str) -> Option<String> {
    let protocol = protocol(bytes_of_packets(told)?);
    Some(format!(
        "a filter knows no bytes of packets; tcpdump finds them in what this writes: \
         sockstamp pcap -w FILE{protocol}"
    ))
}

fn of_port_in_address(found: &str) -> Option<String> {
    let (address, port) = with_port(found)?;
    Some(format!(
        "a port has a word of its own: write host {address} and port {port}"
    ))
}

/// Return what to type for words that other programs know, wherever they stand.
fn of_word(found: &str, told: &str) -> Option<String> {
    if let Some((_, port)) = SERVICES.iter().find(|(name, _)| *name == found) {
        return Some(format!(
            "names of services are not looked up: write port {port}"
        ));
    }
    let known = match found {
        "dport" | "sport" => {
            let end = if found == "dport" { "dst" } else { "src" };
            let port = number_behind(told, found);
            return Some(format!("{found} is two words: write {end} port{port}"));
        }
        "mask" => {
            let network = with_mask(told)?;
            return Some(format!(
                "a network has its mask as a length: write net {network}"
            ));
        }
        "icmp" | "icmp6" => "ICMP has no messages of sockets; to probe a host: sockstamp ping HOST",
        "greater" | "less" | "len" => {
            "sizes are no part of a filter; they are groups of: sockstamp report --by size FILE"
        }
        "latency" | "rtt" | "duration" | "delay" | "time" => {
            "a filter knows no times: write --slow TIME"
        }
        "unix" => {
            "a filter is for TCP and UDP; waits over Unix sockets are those of a target: \
             write -p PID"
        }
        "localhost" => "names are not looked up: write host 127.0.0.1",
        _ if OF_PACKETS.contains(&found) => {
            return Some(format!(
                "a filter has no {found}: write tcp, udp, host, net or port"
            ));
        }
        _ => return None,
    };
    Some(known.to_owned())
}

/// Return what to type by what the filter's error expected in the place of the word.
fn of_place(found: &str, told: &str) -> Option<String> {
    let expects = |what: &str| told.contains(what);
    let is_name = expects("(names are not looked up)");
    match found {
        _ if found.ends_with(',') => {
            Some("a comma joins nothing: write and or or between conditions".to_owned())
        }
        "src" | "dst" | "host" | "net" | "port" if expects("expected and, or, or the end") => Some(
            format!("two conditions are joined by a word: write and or or before {found}"),
        ),
        _ if found.contains('/') && expects("without a prefix length") => Some(format!(
            "a network has a word of its own: write net {found}"
        )),
        _ if is_name && is_like_address(found) => Some(format!(
            "{found} is no address: each of its four numbers is 0 to 255"
        )),
        _ if is_name && is_like_host(found) => Some(format!(
            "names of hosts are not looked up: write an address of `getent hosts {found}`"
        )),
        _ => None,
    }
}

/// Return the value behind a word in the filter, and behind the sign between them.
fn value_behind<'a>(told: &'a str, word: &str) -> Option<&'a str> {
    let (_, behind) = told.lines().nth(1)?.split_once(word)?;
    let behind = behind.trim_start_matches([' ', '=']);
    behind
        .split([' ', ')', '&', '|'])
        .next()
        .filter(|value| !value.is_empty())
}

/// Return the number behind a word in the filter, which is below its error; with a blank before.
fn number_behind(told: &str, word: &str) -> String {
    let filter = told.lines().nth(1).unwrap_or_default();
    let behind = filter.split_once(word).map_or("", |(_, behind)| behind);
    let behind = behind.trim_start_matches([' ', '=', ':']);
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next();
    match digits {
        Some(digits) if !digits.is_empty() => format!(" {digits}"),
        _ => String::new(),
    }
}

/// Return what to type for a protocol with a port in one word: tcp:80, tcp/80, 80/tcp.
fn of_protocol(found: &str) -> Option<String> {
    let (one, other) = found.split_once([':', '/'])?;
    let (protocol, port) = match one.parse::<u16>() {
        Ok(port) => (other, port),
        Err(_) => (one, other.parse().ok()?),
    };
    ["tcp", "udp"]
        .contains(&protocol)
        .then(|| format!("each is a word of its own: write {protocol} port {port}"))
}

/// Return the network of `net ADDRESS mask MASK` in the filter below its error.
fn with_mask(told: &str) -> Option<String> {
    let filter = told.lines().nth(1)?;
    let (before, behind) = filter.split_once(" mask ")?;
    let address = before.split_whitespace().next_back()?;
    let mask: Ipv4Addr = behind.split_whitespace().next()?.parse().ok()?;
    let ones = mask.to_bits().leading_ones();
    (mask.to_bits().count_ones() == ones).then(|| format!("{address}/{ones}"))
}

/// Return true for numbers and dots, as an address of IPv4 has them.
fn is_like_address(found: &str) -> bool {
    let is_of_address = |c: char| c.is_ascii_digit() || c == '.';
    found.contains('.') && found.chars().all(is_of_address)
}

/// Return true for a name that a resolver may know.
fn is_like_host(found: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    found.starts_with(|c: char| c.is_ascii_alphanumeric())
        && found.chars().all(is_of_name)
        && !FILTER_WORDS.contains(&found)
}

/// Return the word that an error found.
fn found(told: &str) -> Option<&str> {
    let (_, from) = told.lines().next()?.rsplit_once("found `")?;
    from.strip_suffix('`')
}

/// Return bytes of a packet in the filter, which stands below its error.
fn bytes_of_packets(told: &str) -> Option<&str> {
    let filter = told.lines().nth(1)?;
    filter.split_whitespace().find(|word| word.contains('['))
}

/// Return the protocol before a bracket, as a filter of its own.
fn protocol(found: &str) -> String {
    match found.split_once('[') {
        Some((protocol @ ("tcp" | "udp" | "ip" | "ip6"), _)) => format!(" {protocol}"),
        _ => String::new(),
    }
}

/// Return what to type for several ports in one word, or for one behind a sign.
fn of_ports(found: &str, after_port: bool) -> Option<String> {
    let is_port = |word: &str| word.parse::<u16>().is_ok();
    if let Some((_, port)) = found.split_once(['=', ':'])
        && ["port", "port=", "", "dport", "sport"].contains(&found.split(['=', ':']).next()?)
        && is_port(port)
    {
        return Some(format!("a port is a word of its own: write port {port}"));
    }
    if found.contains(',') && found.split(',').all(is_port) {
        let ports: Vec<_> = found
            .split(',')
            .map(|port| format!("port {port}"))
            .collect();
        return Some(format!(
            "each port has its word: write {}",
            ports.join(" or ")
        ));
    }
    let (first, last) = found.split_once(['-', ':'])?;
    (after_port && is_port(first) && is_port(last))
        .then(|| format!("a range has a word of its own: write portrange {first}-{last}"))
}

/// Divide an address with a port behind it.
fn with_port(found: &str) -> Option<(String, u16)> {
    let address: std::net::SocketAddr = found.parse().ok()?;
    Some((address.ip().to_string(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(filter: &str) -> String {
        let error = filter.parse::<sockstamp_model::Filter>().unwrap_err();
        instead(&error.to_string(), "sockstamp stat").unwrap_or_default()
    }

    #[test]
    fn a_filter_of_another_program_has_its_words_here() {
        for (filter, end) in [
            ("tcp port http", "write port 80"),
            ("tcp.port == 5432", "write tcp port 5432"),
            ("ip.src==10.0.0.1 && tcp", "write src host 10.0.0.1"),
            ("latency > 50ms", "write --slow TIME"),
            ("host localhost", "write host 127.0.0.1"),
            ("host web1", "`getent hosts web1`"),
            ("unix", "write -p PID"),
            ("port 80,443", "write port 80 or port 443"),
            ("port 80-90", "write portrange 80-90"),
            ("dport 80", "write dst port 80"),
            ("( sport = :443 )", "write src port 443"),
            ("sport", "write src port"),
            ("tcp:80", "write tcp port 80"),
            ("80/udp", "write udp port 80"),
            ("port 80, port 90", "write and or or between conditions"),
            ("src port 1 dst port 2", "write and or or before dst"),
            ("port=80", "write port 80"),
            ("port != 22", "write not port 22"),
            ("port 80 81", "write port 80 or port 81"),
            ("host=127.0.0.1", "write host 127.0.0.1"),
            (":80", "write port 80"),
            ("10.0.0.1:80", "write host 10.0.0.1 and port 80"),
            ("host 10.0.0.0/8", "write net 10.0.0.0/8"),
            ("host example.org", "`getent hosts example.org`"),
            ("host 10.77.1.300", "each of its four numbers is 0 to 255"),
            ("net 10.77.0.0 mask 255.255.0.0", "write net 10.77.0.0/16"),
            ("tcp[13] & 2 != 0", "sockstamp pcap -w FILE tcp"),
            ("'tcp port 80'", "sockstamp stat tcp port 80"),
            ("icmp", "sockstamp ping HOST"),
            ("tcp and greater 100", "sockstamp report --by size FILE"),
            ("vlan 5", "write tcp, udp, host, net or port"),
        ] {
            let line = of(filter);
            assert!(line.ends_with(end), "{filter}: {line}");
        }
    }

    #[test]
    fn another_mistake_has_its_place_shown() {
        for filter in ["tcp port", "tcp udp", "(tcp"] {
            assert_eq!(of(filter), "", "{filter}");
        }
    }
}
