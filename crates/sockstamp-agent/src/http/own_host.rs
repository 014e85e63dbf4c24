//! The names of this host, by which a client may ask.

use std::fs;
use std::net::IpAddr;

use hyper::Request;
use hyper::header::HOST;

/// Return true if the client has asked for an address, or for a name of this host. Browsers always
/// say it; clients of HTTP 1.0 need not.
pub(super) fn is_asked_by<B>(request: &Request<B>) -> bool {
    let target = request.uri().authority();
    let mut hosts = request.headers().get_all(HOST).iter();
    target.is_none_or(|target| is_of_this_host(target.as_str()))
        && hosts.all(|host| host.to_str().is_ok_and(is_of_this_host))
}

/// Return true for an address, and for a name of this host; a port may follow.
fn is_of_this_host(host: &str) -> bool {
    let host = match host.rsplit_once(':') {
        // The colons of an address are in brackets.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_address = address.unwrap_or(host).parse::<IpAddr>().is_ok();
    is_address || host.eq_ignore_ascii_case("localhost") || is_own_name(host)
}

fn is_own_name(host: &str) -> bool {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    !host.is_empty() && host.eq_ignore_ascii_case(own.trim_end())
}
