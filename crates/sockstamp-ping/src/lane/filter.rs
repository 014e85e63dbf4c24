//! Classic BPF: which packets a raw socket gets. Without, it gets a copy of all of its protocol.

use socket2::SockFilter;

use crate::packet::icmp::Types;

// include/uapi/linux/bpf_common.h
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
/// Added to the two above: the offset counts from X.
const FROM_X: u16 = 0x20;
const X_IS_IPV4_HEADER_LENGTH: u16 = 0xb1;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALL: u32 = u32::MAX;

/// Offsets of loads after the IP header: raw IPv4 sockets receive it (`raw_rcv()` in
/// net/ipv4/raw.c), raw IPv6 sockets do not (`rawv6_rcv()` in net/ipv6/raw.c, v6.18).
struct Loads {
    v4: bool,
}

impl Loads {
    fn begin(&self) -> Vec<SockFilter> {
        if self.v4 {
            vec![SockFilter::new(X_IS_IPV4_HEADER_LENGTH, 0, 0, 0)]
        } else {
            Vec::new()
        }
    }

    fn byte(&self, at: u32) -> SockFilter {
        SockFilter::new(LOAD_BYTE + self.mode(), 0, 0, at)
    }

    fn half(&self, at: u32) -> SockFilter {
        SockFilter::new(LOAD_HALF + self.mode(), 0, 0, at)
    }

    fn mode(&self) -> u16 {
        if self.v4 { FROM_X } else { 0 }
    }
}

/// Continue if so, otherwise reject.
fn demand(jump: u16, value: u32) -> [SockFilter; 2] {
    [
        SockFilter::new(jump, 1, 0, value),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Echo replies with our identifier.
pub(super) fn echo_replies(v4: bool, types: Types, identifier: u16) -> Vec<SockFilter> {
    let loads = Loads { v4 };
    let mut filter = loads.begin();
    filter.push(loads.byte(0));
    filter.extend(demand(JUMP_IF_EQUAL, types.reply.into()));
    filter.push(loads.half(4));
    filter.extend(demand(JUMP_IF_EQUAL, identifier.into()));
    filter.push(SockFilter::new(RETURN, 0, 0, ALL));
    filter
}

/// Segments to one of these ports with ACK and with SYN or RST.
pub(super) fn answers_to_syns(v4: bool, ports: &[u16]) -> Vec<SockFilter> {
    const ACK: u32 = 0x10;
    const SYN_OR_RST: u32 = 0x06;
    let loads = Loads { v4 };
    let mut filter = loads.begin();
    filter.push(loads.byte(13));
    filter.extend(demand(JUMP_IF_SET, ACK));
    filter.extend(demand(JUMP_IF_SET, SYN_OR_RST));
    filter.push(loads.half(2));
    for (after, port) in ports.iter().rev().enumerate().rev() {
        // Over the comparisons that follow and the rejection.
        let to_the_end =
            u8::try_from(after + 1).expect("a filter compares fewer ports than a jump is long");
        filter.push(SockFilter::new(
            JUMP_IF_EQUAL,
            to_the_end,
            0,
            (*port).into(),
        ));
    }
    filter.push(SockFilter::new(RETURN, 0, 0, 0));
    filter.push(SockFilter::new(RETURN, 0, 0, ALL));
    filter
}
