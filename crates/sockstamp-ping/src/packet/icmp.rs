//! Echo requests and their replies.

use super::{COOKIE, Content, checksum, u16_at};

/// Bytes of the header of an echo request.
pub(crate) const HEADER: usize = 8;

/// The types of one IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) request: u8,
    pub(crate) reply: u8,
}

/// RFC 792
pub(crate) const V4: Types = Types {
    request: 8,
    reply: 0,
};
/// RFC 4443, section 4
pub(crate) const V6: Types = Types {
    request: 128,
    reply: 129,
};

/// Write an echo request with this content. The checksum is that of IPv4; of IPv6
/// the kernel fills it in, as it does for both on ping sockets, with the identifier
/// (`ping_v4_push_pending_frames()` in net/ipv4/ping.c, `rawv6_push_pending_frames()` in
/// net/ipv6/raw.c, v6.18).
pub(crate) fn write_request(
    packet: &mut Vec<u8>,
    types: Types,
    identifier: u16,
    sequence: u16,
    cookie: u64,
    content: &Content,
) {
    packet.clear();
    packet.extend([types.request, 0, 0, 0]);
    packet.extend(identifier.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    content.write(packet, cookie);
    let sum = checksum(&[packet]);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Return true if a payload begins with the cookie, as far as a probe of `sent` bytes has one;
/// `None` if it is too short.
pub(crate) fn has_cookie(payload: &[u8], cookie: u64, sent: usize) -> Option<bool> {
    let expected = &cookie.to_be_bytes()[..sent.min(COOKIE)];
    Some(payload.get(..expected.len())? == expected)
}

/// An echo request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo<'a> {
    pub(crate) kind: u8,
    pub(crate) identifier: u16,
    pub(crate) sequence: u16,
    pub(crate) payload: &'a [u8],
}

/// `None` if it is cut within its header.
pub(crate) fn parse(packet: &[u8]) -> Option<Echo<'_>> {
    Some(Echo {
        kind: *packet.first()?,
        identifier: u16_at(packet, 4)?,
        sequence: u16_at(packet, 6)?,
        payload: packet.get(HEADER..)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(length: usize) -> Content {
        Content {
            length,
            ..Content::default()
        }
    }

    proptest! {
        #[test]
        fn written_packets_are_read_back(
            identifier: u16,
            sequence: u16,
            cookie: u64,
            payload in 0_usize..100,
        ) {
            let mut packet = Vec::new();
            write_request(&mut packet, V4, identifier, sequence, cookie, &content(payload));
            prop_assert_eq!(checksum(&[&packet]), 0);
            let echo = parse(&packet).unwrap();
            prop_assert_eq!((echo.kind, echo.identifier, echo.sequence), (8, identifier, sequence));
            prop_assert_eq!(echo.payload.len(), payload);
            prop_assert_eq!(has_cookie(echo.payload, cookie, payload), Some(true));
        }

        #[test]
        fn another_cookie_is_none(cookie: u64, other: u64, payload in COOKIE..100) {
            prop_assume!(cookie != other);
            let mut packet = Vec::new();
            content(payload).write(&mut packet, other);
            prop_assert_eq!(has_cookie(&packet, cookie, payload), Some(false));
        }

        #[test]
        fn a_cut_cookie_proves_nothing(cookie: u64, payload in COOKIE..100, left in 0..COOKIE) {
            let mut packet = Vec::new();
            content(payload).write(&mut packet, cookie);
            prop_assert_eq!(has_cookie(&packet[..left], cookie, payload), None);
        }

        #[test]
        fn any_bytes_are_an_echo_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse(&bytes).is_some(), bytes.len() >= HEADER);
        }
    }
}
