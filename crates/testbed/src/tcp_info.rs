use std::os::fd::AsFd;

use crate::error::{Context, Result};
use crate::sys;

/// The kernel's view of a TCP socket (`TCP_INFO`). Fields that this kernel lacks are zero.
///
/// The layout only ever grows at its end: `struct tcp_info` in include/uapi/linux/tcp.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Smoothed round-trip time in µs.
    pub rtt: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments sent again since the connection exists.
    pub total_retrans: u32,
    /// Bytes acknowledged. On the side that connected it counts the SYN as one.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent, with and without data.
    pub segs_out: u32,
    /// Bytes in the write queue that were never sent.
    pub notsent_bytes: u32,
    /// Smallest round-trip time in µs.
    pub min_rtt: u32,
    /// Segments with data sent.
    pub data_segs_out: u32,
    /// Time with data outstanding, in µs.
    pub busy_time: u64,
    /// Part of it limited by the receive window, in µs.
    pub rwnd_limited: u64,
    /// Part of it limited by the send buffer, in µs.
    pub sndbuf_limited: u64,
}

impl TcpInfo {
    /// Read it from the kernel.
    pub fn of(socket: impl AsFd) -> Result<TcpInfo> {
        let bytes = sys::tcp_info(socket).context("getsockopt TCP_INFO on", "a socket")?;
        Ok(TcpInfo::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> TcpInfo {
        let u32_at = |offset| {
            bytes
                .get(offset..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |b| u32::from_ne_bytes(*b))
        };
        let u64_at = |offset| {
            bytes
                .get(offset..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |b| u64::from_ne_bytes(*b))
        };
        TcpInfo {
            unacked: u32_at(24),
            rtt: u32_at(68),
            snd_cwnd: u32_at(80),
            total_retrans: u32_at(100),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            segs_out: u32_at(136),
            notsent_bytes: u32_at(144),
            min_rtt: u32_at(148),
            data_segs_out: u32_at(156),
            busy_time: u64_at(168),
            rwnd_limited: u64_at(176),
            sndbuf_limited: u64_at(184),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_missing_in_an_older_kernel_are_zero() {
        let mut bytes = [0u8; 104];
        bytes[100..].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(
            TcpInfo::parse(&bytes),
            TcpInfo {
                total_retrans: 7,
                ..TcpInfo::default()
            }
        );
    }
}
