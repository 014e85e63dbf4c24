//! What one received message says of itself.

use std::net::SocketAddr;

use crate::control::{Arrival, Control, parse, space};
use crate::stamp::RxStamp;

/// A received message, of a stream whatever one call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Received {
    /// Bytes of payload.
    pub length: usize,
    /// The datagram was longer than the buffer, and its rest is lost (MSG_TRUNC).
    pub truncated: bool,
    /// The sender; `None` for streams, and for senders without an IP address.
    pub from: Option<SocketAddr>,
    /// The TTL or hop limit that it came with, if the socket requested it (IP_RECVTTL,
    /// IPV6_RECVHOPLIMIT).
    pub hop_limit: Option<u8>,
    /// Where and how it came, if the socket requested it (IP_PKTINFO, IPV6_RECVPKTINFO).
    pub arrival: Option<Arrival>,
    /// The traffic class that it came with, whose lower two bits are ECN, if the socket requested
    /// it (IP_RECVTOS, IPV6_RECVTCLASS).
    pub traffic_class: Option<u8>,
    /// It is several datagrams of this many bytes each, the last one perhaps shorter, if the socket
    /// requested that (UDP_GRO).
    pub segment: Option<u16>,
    /// Its stamp. For a stream, that of the packet with the last byte.
    pub stamp: RxStamp,
    /// Control messages were truncated (MSG_CTRUNC) or not understood: parts missing in `stamp` may
    /// have been there.
    pub stamp_lost: bool,
}

impl Received {
    /// The most bytes of control messages that a message has if the socket requests all that is
    /// understood here. What does not fit is cut, stamps and what comes behind them (MSG_CTRUNC).
    pub const SPACE: usize = space(48) // Stamps,
        + space(16) // and their packet.
        // Of IPv6: address, hop limit, class.
        + space(20) + space(4) + space(4)
        // Of IPv4, in addition where a socket of IPv6 speaks it.
        + space(12) + space(4) + space(4)
        + space(4); // The segment size.

    /// Decode the control messages of a received message, for programs that call recvmsg(2)
    /// themselves. They know its length, sender and truncation from there: here these are 0, `None`
    /// and `false`.
    #[must_use]
    pub fn parse(control: &[u8]) -> Self {
        let mut received = Self::default();
        for message in parse(control) {
            match message {
                Ok(Control::Timestamping(stamps)) => {
                    received.stamp.software = stamps.software;
                    received.stamp.hardware = stamps.hardware;
                }
                Ok(Control::TimestampingPacketInfo(packet)) => received.stamp.packet = Some(packet),
                Ok(Control::HopLimit(hops)) => received.hop_limit = Some(hops),
                Ok(Control::Arrival(arrival)) => received.arrival = Some(arrival),
                Ok(Control::TrafficClass(class)) => received.traffic_class = Some(class),
                Ok(Control::Segment(bytes)) => received.segment = Some(bytes),
                Ok(_) => {}
                Err(_) => received.stamp_lost = true,
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::control::Writer;

    /// The control messages as the kernel writes them: IP_TOS has one byte, IPV6_TCLASS four.
    #[test]
    fn what_a_datagram_says_of_its_way_is_read() {
        let v4 = [&3_u32.to_ne_bytes()[..], &[10, 0, 0, 9], &[10, 0, 0, 1]].concat();
        let v6 = [&[0xfe, 0x80][..], &[0; 13], &[7], &3_u32.to_ne_bytes()].concat();
        let four = |number: i32| number.to_ne_bytes().to_vec();
        for (level, address, information, class, tos) in [
            (
                libc::IPPROTO_IP,
                "10.0.0.1",
                (libc::IP_PKTINFO, v4),
                libc::IP_TOS,
                vec![3],
            ),
            (
                libc::IPPROTO_IPV6,
                "fe80::7",
                (libc::IPV6_PKTINFO, v6),
                libc::IPV6_TCLASS,
                four(3),
            ),
        ] {
            let mut bytes = [0; 256];
            let mut writer = Writer::new(&mut bytes);
            writer.push(level, information.0, &information.1).unwrap();
            writer.push(level, class, &tos).unwrap();
            writer
                .push(libc::SOL_UDP, libc::UDP_GRO, &four(1200))
                .unwrap();
            let received = Received::parse(writer.written());
            let arrival = received.arrival.unwrap();
            assert_eq!(arrival.destination, address.parse::<IpAddr>().unwrap());
            assert_eq!(arrival.interface, 3);
            assert_eq!(
                (received.traffic_class, received.segment),
                (Some(3), Some(1200))
            );
            assert!(!received.stamp_lost);
        }
    }
}
