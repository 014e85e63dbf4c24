//! The address of the HTTP server, in the ways that people write it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::de::{Deserialize, Deserializer, Error};

/// Read `ADDRESS:PORT`, `localhost:PORT`, `:PORT` for all IPv4 addresses, or `PORT` for loopback.
///
/// # Errors
///
/// A sentence that says what to write instead.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = |port: &str| {
        let number = port.parse::<u16>();
        number.map_err(|_| format!("{port:?} is no port: write a number up to 65535"))
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let example = SocketAddr::new(address, 9776);
        return Err(format!("{text:?} has no port: write {example}"));
    }
    match text.rsplit_once(':') {
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((Ipv4Addr::LOCALHOST, port(text)?).into())
        }
        Some(("" | "*", number)) => Ok((Ipv4Addr::UNSPECIFIED, port(number)?).into()),
        Some(("localhost", number)) => Ok((Ipv4Addr::LOCALHOST, port(number)?).into()),
        _ => Err(format!(
            "{text:?} is no address of this host: write 127.0.0.1:9776, [::1]:9776, or :9776 for \
             all IPv4 addresses"
        )),
    }
}

pub(crate) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    listen_address(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_an_address() {
        for (text, address) in [
            ("10.0.0.1:9000", "10.0.0.1:9000"),
            ("[::]:9000", "[::]:9000"),
            ("9000", "127.0.0.1:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            (":9000", "0.0.0.0:9000"),
            ("*:9000", "0.0.0.0:9000"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn anything_else_is_told_what_to_write() {
        for (text, said) in [
            ("10.0.0.1", "write 10.0.0.1:9776"),
            ("::1", "write [::1]:9776"),
            ("[::1]", "write [::1]:9776"),
            (":99999", "\"99999\" is no port"),
            ("70000", "\"70000\" is no port"),
            ("", "is no port"),
            ("example.org:9776", "write 127.0.0.1:9776"),
            ("http://localhost:9776", "write 127.0.0.1:9776"),
        ] {
            let refusal = listen_address(text).unwrap_err();
            assert!(refusal.contains(said), "{text}: {refusal}");
        }
    }
}
