//! The parsers of packets, within reach of the fuzz targets.

use std::net::IpAddr;

use super::{icmp, tcp};

/// Strip the header of an IPv4 packet.
pub fn without_ipv4_header(packet: &[u8]) -> Option<&[u8]> {
    super::without_ipv4_header(packet)
}

/// Type, identifier, sequence number and payload of an echo request or reply.
pub fn echo(packet: &[u8]) -> Option<(u8, u16, u16, &[u8])> {
    icmp::parse(packet).map(|echo| (echo.kind, echo.identifier, echo.sequence, echo.payload))
}

/// An echo request of IPv4.
pub fn echo_request(identifier: u16, sequence: u16, cookie: u64, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let content = super::Content {
        length: payload,
        ..super::Content::default()
    };
    icmp::write_request(
        &mut packet,
        icmp::V4,
        identifier,
        sequence,
        cookie,
        &content,
    );
    packet
}

/// Return true if a payload begins with the cookie of a probe of `sent` bytes.
pub fn has_cookie(payload: &[u8], cookie: u64, sent: usize) -> Option<bool> {
    icmp::has_cookie(payload, cookie, sent)
}

/// Parse an answer to a SYN: ports, acknowledged sequence number, reset flag.
pub fn answer_to_syn(segment: &[u8]) -> Option<(u16, u16, u32, bool)> {
    tcp::parse(segment).map(|answer| (answer.from, answer.to, answer.acknowledged, answer.reset))
}

/// Ports and the sequence number of a quoted SYN.
pub fn quoted_syn(segment: &[u8]) -> Option<(u16, u16, u32)> {
    tcp::quoted(segment)
}

/// A SYN, with the checksum of IPv4 where both ends are given.
pub fn syn(from: u16, to: u16, sequence: u32, ends: Option<(IpAddr, IpAddr)>) -> Vec<u8> {
    tcp::syn(from, to, sequence, ends).to_vec()
}
