//! Read the headers of IP, TCP and UDP out of a packet's first bytes.

/// The fields that distinguish a packet from others of its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Headers {
    /// The id of IPv4, or of a fragment of IPv6; `None` if it has none.
    pub id: Option<u32>,
    /// The place of its bytes in a fragmented datagram; `None` if it is no fragment.
    pub fragment: Option<u16>,
    /// The segment of TCP that it carries.
    pub segment: Option<Segment>,
    /// Bytes of payload.
    pub payload: u32,
}

/// A segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The sequence number of its first byte.
    pub seq: u32,
    /// The acknowledged sequence number.
    pub ack: u32,
    /// The flags: RFC 9293, section 3.1.
    pub flags: u8,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The fragment header of IPv6: RFC 8200, section 4.5.
const FRAGMENT: u8 = 44;
/// Hop-by-hop options, routing, destination options.
const SKIPPED: [u8; 3] = [0, 43, 60];

/// The network layer's part.
struct Network {
    id: Option<u32>,
    fragment: Option<u16>,
    protocol: u8,
    length: usize,
}

impl Headers {
    /// Parse the first bytes of a packet that is `length` bytes long.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8], length: u32) -> Option<Self> {
        let network = match bytes.first()? >> 4 {
            4 => ipv4(bytes)?,
            6 => ipv6(bytes)?,
            _ => return None,
        };
        let transport = bytes.get(network.length..)?;
        let later = network.fragment.is_some_and(|offset| offset > 0);
        let (segment, header) = match network.protocol {
            _ if later => (None, 0),
            TCP => segment(transport)?,
            UDP => (None, 8),
            _ => return None,
        };
        let headers = u32::try_from(network.length + header).ok()?;
        Some(Self {
            id: network.id,
            fragment: network.fragment,
            segment,
            payload: length.saturating_sub(headers),
        })
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// RFC 791, section 3.1.
fn ipv4(bytes: &[u8]) -> Option<Network> {
    let flags = be16(bytes, 6)?;
    let (more, offset) = (flags & 0x2000 != 0, (flags & 0x1fff) * 8);
    Some(Network {
        id: Some(u32::from(be16(bytes, 4)?)),
        fragment: (more || offset > 0).then_some(offset),
        protocol: *bytes.get(9)?,
        length: usize::from(bytes.first()? & 15) * 4,
    })
}

/// RFC 8200, sections 3 and 4.
fn ipv6(bytes: &[u8]) -> Option<Network> {
    let mut network = Network {
        id: None,
        fragment: None,
        protocol: *bytes.get(6)?,
        length: 40,
    };
    while network.protocol == FRAGMENT || SKIPPED.contains(&network.protocol) {
        let at = network.length;
        if network.protocol == FRAGMENT {
            network.fragment = Some(be16(bytes, at + 2)? & 0xfff8);
            network.id = be32(bytes, at + 4);
            network.length += 8;
        } else {
            network.length += (usize::from(*bytes.get(at + 1)?) + 1) * 8;
        }
        network.protocol = *bytes.get(at)?;
    }
    Some(network)
}

/// Return the segment and the length of its header.
fn segment(transport: &[u8]) -> Option<(Option<Segment>, usize)> {
    let segment = Segment {
        seq: be32(transport, 4)?,
        ack: be32(transport, 8)?,
        flags: *transport.get(13)?,
    };
    let length = usize::from(transport.get(12)? >> 4) * 4;
    Some((Some(segment), length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_segment_is_read_after_ip_options() {
        let mut packet = vec![0; 24 + 20];
        packet[0] = 0x46;
        packet[4..6].copy_from_slice(&7_u16.to_be_bytes());
        packet[9] = TCP;
        packet[28..32].copy_from_slice(&1000_u32.to_be_bytes());
        packet[36] = 0x50;
        packet[37] = 0x18;
        let headers = Headers::parse(&packet, 144).unwrap();
        assert_eq!(headers.id, Some(7));
        assert_eq!(headers.fragment, None);
        assert_eq!(headers.payload, 100);
        let segment = headers.segment.unwrap();
        assert_eq!((segment.seq, segment.flags), (1000, 0x18));
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&(0x2000_u16 | 185).to_be_bytes());
        packet[9] = UDP;
        let headers = Headers::parse(&packet, 1500).unwrap();
        assert_eq!(headers.fragment, Some(1480));
        assert_eq!(headers.payload, 1480);
        let mut packet = vec![0; 48];
        packet[0] = 0x60;
        packet[6] = FRAGMENT;
        packet[40] = UDP;
        packet[42..44].copy_from_slice(&(1448_u16 | 1).to_be_bytes());
        packet[44..48].copy_from_slice(&9_u32.to_be_bytes());
        let headers = Headers::parse(&packet, 1500).unwrap();
        assert_eq!((headers.fragment, headers.id), (Some(1448), Some(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_headers_or_none(bytes: Vec<u8>, length: u32) {
            if let Some(headers) = Headers::parse(&bytes, length) {
                prop_assert!(headers.payload <= length);
            }
        }
    }
}
