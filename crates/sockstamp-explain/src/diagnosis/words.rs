//! Numbers and services in words.

use std::net::SocketAddr;

use sockstamp_model::service::Service;

/// `1 request`, `3 requests`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A service, or the port of one of this host.
pub(super) fn service(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!(":{}", address.port()),
        false => Service(address).to_string(),
    }
}
