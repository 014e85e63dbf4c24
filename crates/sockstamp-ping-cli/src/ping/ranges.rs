//! Several addresses in one word: a network, or a first and a last address.

use std::iter;
use std::net::IpAddr;

use anyhow::{Result, bail, ensure};

/// Most addresses of one word: a network of 16 bits.
const MOST: u128 = 1 << 16;

/// Return the hosts that a word names: the addresses of `10.0.0.0/24` or `10.0.0.1-10.0.0.9`, or
/// itself.
pub(super) fn expand(word: &str) -> Result<Vec<String>> {
    if let Some((address, prefix)) = word.split_once('/') {
        return network(word, address, prefix);
    }
    let ends = word.split_once('-');
    let ends = ends.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) => range(word, first, last),
        None => Ok(vec![word.to_owned()]),
    }
}

/// Return the host and the port of a URL, which has its scheme's if it names none.
fn of_url<'a>(scheme: &str, behind: &'a str) -> (&'a str, &'a str) {
    let place = behind.split(['/', '?']).next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let ends = match place.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .map(|(host, port)| (host, port.trim_start_matches(':'))),
        None => place.split_once(':'),
    };
    let (host, port) = ends.unwrap_or((place, ""));
    let known = match scheme {
        "http" | "ws" => "80",
        _ => "443",
    };
    (host, if port.is_empty() { known } else { port })
}

/// The first and the last address of a network of IPv4 are no hosts, unless it has at most two
/// (RFC 3021).
fn network(word: &str, address: &str, prefix: &str) -> Result<Vec<String>> {
    let (Ok(address), Ok(prefix)) = (address.parse::<IpAddr>(), prefix.parse::<u32>()) else {
        match word.split_once("://") {
            Some((scheme, behind)) => {
                let (host, port) = of_url(scheme, behind);
                bail!("a host has no scheme: write {host}, or --tcp {port} {host}")
            }
            None => bail!("{word} is no network: write 10.0.0.0/24 or 2001:db8::/120"),
        }
    };
    let bits = bits(address);
    ensure!(prefix <= bits, "{word}: a prefix has at most {bits} bits");
    let size = 1_u128.checked_shl(bits - prefix).unwrap_or(u128::MAX);
    ensure!(size <= MOST, "{word} has more than {MOST} addresses");
    let first = number(address) & !(size - 1);
    let ends = u128::from(bits == 32 && size > 2);
    Ok(between(address, first + ends, first + size - 1 - ends))
}

fn range(word: &str, first: IpAddr, last: IpAddr) -> Result<Vec<String>> {
    ensure!(bits(first) == bits(last), "{word} mixes IP versions");
    let (from, to) = (number(first), number(last));
    ensure!(from <= to, "{word} ends before it begins");
    ensure!(to - from < MOST, "{word} has more than {MOST} addresses");
    Ok(between(first, from, to))
}

fn between(like: IpAddr, first: u128, last: u128) -> Vec<String> {
    let next = |&number: &u128| (number < last).then(|| number + 1);
    iter::successors(Some(first), next)
        .map(|number| match like {
            // A number of an IPv4 network has 32 bits.
            IpAddr::V4(_) => IpAddr::from(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()),
            IpAddr::V6(_) => IpAddr::from(number.to_be_bytes()),
        })
        .map(|address| address.to_string())
        .collect()
}

fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(word: &str) -> String {
        match expand(word) {
            Ok(hosts) => hosts.join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_network_is_its_hosts() {
        assert_eq!(expanded("10.0.0.77/30"), "10.0.0.77 10.0.0.78");
        assert_eq!(expanded("10.0.0.4/31"), "10.0.0.4 10.0.0.5");
        assert_eq!(expanded("10.0.0.4/32"), "10.0.0.4");
        assert_eq!(expanded("2001:db8::ff/127"), "2001:db8::fe 2001:db8::ff");
        assert_eq!(expand("10.1.0.0/16").unwrap().len(), 65_534);
        let last = expand("255.255.255.0/24").unwrap().pop();
        assert_eq!(last.as_deref(), Some("255.255.255.254"));
    }

    #[test]
    fn a_url_names_its_host_and_its_port() {
        for (url, told) in [
            (
                "https://a.example/",
                "write a.example, or --tcp 443 a.example",
            ),
            ("http://10.0.0.1/x", "write 10.0.0.1, or --tcp 80 10.0.0.1"),
            ("tcp://127.0.0.1:8047", "--tcp 8047 127.0.0.1"),
            ("http://me@[::1]:8080/?a", "write ::1, or --tcp 8080 ::1"),
        ] {
            let line = expanded(url);
            assert!(line.ends_with(told), "{url}: {line}");
        }
    }

    #[test]
    fn a_range_has_both_of_its_ends() {
        assert_eq!(
            expanded("10.0.0.254-10.0.1.1"),
            "10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1"
        );
        assert_eq!(expanded("::1-::2"), "::1 ::2");
    }

    #[test]
    fn a_name_stays_a_name() {
        for name in ["db-1.example.org", "10.0.0.1", "fe80::1%eth0"] {
            assert_eq!(expanded(name), name);
        }
    }

    #[test]
    fn too_many_and_impossible_ones_are_refused() {
        for (word, why) in [
            ("10.0.0.0/8", "more than 65536"),
            ("::/0", "more than 65536"),
            ("10.0.0.0/33", "at most 32 bits"),
            ("example.org/24", "is no network"),
            ("https://example.org/a", "write example.org, or --tcp 443"),
            ("10.0.0.9-10.0.0.1", "ends before"),
            ("10.0.0.1-::1", "mixes"),
            ("0.0.0.0-255.255.255.255", "more than 65536"),
        ] {
            assert!(expanded(word).contains(why), "{word}: {}", expanded(word));
        }
    }
}
