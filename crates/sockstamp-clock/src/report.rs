use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;

use crate::control::{Control, ExtendedError, Origin, Stamps, parse};
use crate::departure::DepartureError;
use crate::stamp::{RxStamp, TxKind, TxStamp, TxTime};
use crate::statistics::TcpStatistics;

/// An entry of an error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report<'a> {
    /// A sent message was stamped.
    Stamp {
        /// Message, point and time.
        stamp: TxStamp,
        /// The state of the connection at that time, if the socket requested it
        /// ([`Flag::OptStats`](crate::Flag::OptStats)).
        statistics: Option<TcpStatistics<'a>>,
        /// The index of the interface it leaves by, if the socket requested it
        /// ([`Flag::OptCmsg`](crate::Flag::OptCmsg)).
        interface: Option<u32>,
    },
    /// The kernel needs the buffers of these zerocopy sends no longer.
    ZeroCopy(ZeroCopyRange),
    /// The network, or this host on its behalf, refused a message.
    Network(NetworkError),
    /// The packet scheduler dropped a message for its departure time.
    Departure(DepartureError),
    /// An entry of another origin.
    Other(ExtendedError),
}

/// Consecutive sends with MSG_ZEROCOPY, which the kernel numbers from 0 for each socket, modulo
/// 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ZeroCopyRange {
    /// The first of them.
    pub first: u32,
    /// The last of them. Smaller than the first where the numbers have wrapped between them.
    pub last: u32,
    /// The kernel had to copy after all (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: bool,
}

/// An error that the network reported, or this host in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NetworkError {
    /// [`Origin::Icmp`], [`Origin::Icmp6`] or [`Origin::Local`].
    pub origin: Origin,
    /// The number as in errno(3).
    pub errno: u32,
    /// The type of the ICMP message.
    pub kind: u8,
    /// The code of the ICMP message.
    pub code: u8,
    /// The MTU of the path, for EMSGSIZE.
    pub info: u32,
    /// The host that reports it.
    pub offender: Option<IpAddr>,
    /// The time of the ICMP message, if the socket requests stamps of received packets:
    /// `ip_recv_error()` of net/ipv4/ip_sockglue.c, v6.18, gives them as for any packet.
    pub stamp: RxStamp,
}

impl NetworkError {
    /// The error as one of the standard library.
    #[must_use]
    pub fn error(&self) -> io::Error {
        io::Error::from_raw_os_error(i32::try_from(self.errno).unwrap_or(i32::MAX))
    }
}

/// The reason why an entry of an error queue cannot be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreported {
    /// MSG_CTRUNC.
    Truncated,
    /// Control messages that are none, or not those of an error queue.
    Malformed,
    /// A stamp without a time: the socket did not request its delivery.
    WithoutTime,
}

impl fmt::Display for Unreported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Truncated => "its control messages were truncated",
            Self::Malformed => "its control messages are invalid",
            Self::WithoutTime => "it is a stamp without a time",
        })
    }
}

impl Error for Unreported {}

impl<'a> Report<'a> {
    /// Room for the control messages of any entry: 29 TCP statistics of at most 16 bytes each,
    /// times, an error with an address, and IP options take less than 800 bytes.
    pub const SPACE: usize = 1024;

    /// Read the control messages of one entry, for programs that call recvmsg(2) for themselves.
    /// They look for MSG_CTRUNC before.
    ///
    /// # Errors
    ///
    /// [`Unreported`] without [`Unreported::Truncated`].
    pub fn parse(control: &'a [u8]) -> Result<Self, Unreported> {
        let mut parts = Parts::default();
        for message in parse(control) {
            match message.map_err(|_| Unreported::Malformed)? {
                Control::ExtendedError(error) => parts.error = Some(error),
                Control::Timestamping(stamps) => parts.stamps = stamps,
                Control::TimestampingStatistics(bytes) => {
                    parts.statistics = Some(TcpStatistics::from_bytes(bytes))
                }
                Control::Arrival(arrival) => parts.interface = Some(arrival.interface),
                _ => {}
            }
        }
        let error = parts.error.ok_or(Unreported::Malformed)?;
        match error.origin {
            Origin::Timestamping => parts.stamp(&error),
            Origin::ZeroCopy => Ok(Self::ZeroCopy(ZeroCopyRange {
                first: error.info,
                last: error.data,
                copied: error.code & CODE_ZEROCOPY_COPIED != 0,
            })),
            Origin::Local | Origin::Icmp | Origin::Icmp6 => Ok(Self::Network(NetworkError {
                origin: error.origin,
                errno: error.errno,
                kind: error.kind,
                code: error.code,
                info: error.info,
                offender: error.offender,
                stamp: RxStamp {
                    software: parts.stamps.software,
                    hardware: parts.stamps.hardware,
                    packet: None,
                },
            })),
            Origin::TxTime => Ok(Self::Departure(DepartureError::from_entry(&error))),
            _ => Ok(Self::Other(error)),
        }
    }
}

/// SO_EE_CODE_ZEROCOPY_COPIED of include/uapi/linux/errqueue.h, since v4.14.
pub const CODE_ZEROCOPY_COPIED: u8 = 1;

#[derive(Debug, Default)]
struct Parts<'a> {
    error: Option<ExtendedError>,
    stamps: Stamps,
    statistics: Option<TcpStatistics<'a>>,
    interface: Option<u32>,
}

impl<'a> Parts<'a> {
    fn stamp(self, error: &ExtendedError) -> Result<Report<'a>, Unreported> {
        Ok(Report::Stamp {
            stamp: TxStamp {
                id: error.data,
                kind: TxKind::from_number(error.info).ok_or(Unreported::Malformed)?,
                time: TxTime::from_stamps(self.stamps).ok_or(Unreported::WithoutTime)?,
            },
            statistics: self.statistics,
            interface: self.interface,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{SO_TIMESTAMPING_NEW, Writer};
    use crate::departure::DepartureReason;
    use crate::time::{Tai, Timestamp};
    use proptest::prelude::*;

    fn entry(origin: u8, code: u8, info: u32, data: u32, times: Option<[i64; 6]>) -> Vec<u8> {
        let mut error = 0_u32.to_ne_bytes().to_vec();
        error.extend([origin, 0, code, 0]);
        error.extend(info.to_ne_bytes());
        error.extend(data.to_ne_bytes());
        error.extend([0; 16]);
        let mut bytes = [0; 256];
        let mut writer = Writer::new(&mut bytes);
        if let Some(times) = times {
            let times: Vec<u8> = times
                .iter()
                .flat_map(|number| number.to_ne_bytes())
                .collect();
            writer
                .push(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &times)
                .unwrap();
        }
        writer
            .push(libc::IPPROTO_IP, libc::IP_RECVERR, &error)
            .unwrap();
        writer.written().to_vec()
    }

    #[test]
    fn a_stamp_has_the_clock_that_took_it() {
        for (times, time) in [
            (
                [1, 5, 0, 0, 0, 0],
                TxTime::Software(Timestamp::from_nanos(1_000_000_005)),
            ),
            (
                [0, 0, 0, 0, 2, 6],
                TxTime::Hardware(Timestamp::from_nanos(2_000_000_006)),
            ),
            (
                [1, 5, 0, 0, 2, 6],
                TxTime::Software(Timestamp::from_nanos(1_000_000_005)),
            ),
        ] {
            let bytes = entry(4, 0, 2, 99, Some(times));
            let stamp = TxStamp {
                id: 99,
                kind: TxKind::Ack,
                time,
            };
            let expected = Report::Stamp {
                stamp,
                statistics: None,
                interface: None,
            };
            assert_eq!(Report::parse(&bytes), Ok(expected));
        }
    }

    #[test]
    fn a_stamp_without_time_or_of_an_unknown_kind_is_not_reported() {
        assert_eq!(
            Report::parse(&entry(4, 0, 0, 1, None)),
            Err(Unreported::WithoutTime)
        );
        let unknown = entry(4, 0, 77, 1, Some([1; 6]));
        assert_eq!(Report::parse(&unknown), Err(Unreported::Malformed));
        assert_eq!(Report::parse(&[]), Err(Unreported::Malformed));
    }

    #[test]
    fn other_origins_are_handed_on() {
        let bytes = entry(7, 2, 1, 7, None);
        match Report::parse(&bytes) {
            Ok(Report::Other(error)) => {
                assert_eq!((error.origin, error.code), (Origin::Other(7), 2));
            }
            other => panic!("{other:?}"),
        }
    }

    /// As `report_sock_error()` of net/sched/sch_etf.c writes them: the low half is `ee_info`.
    #[test]
    fn missed_departures_have_their_time() {
        let (low, high) = (0x89ab_cdef_u32, 0x1234_5678_u32);
        let at = 0x1234_5678_89ab_cdef;
        for (code, reason) in [
            (1, DepartureReason::Invalid),
            (2, DepartureReason::Missed),
            (3, DepartureReason::Other(3)),
        ] {
            let bytes = entry(6, code, low, high, None);
            let Ok(Report::Departure(error)) = Report::parse(&bytes) else {
                panic!("{:?}", Report::parse(&bytes));
            };
            assert_eq!(error.reason, reason);
            assert_eq!(error.time::<Tai>(), Timestamp::from_nanos(at));
        }
    }

    proptest! {
        #[test]
        fn zerocopy_ranges_keep_their_ends(first: u32, last: u32, copied: bool) {
            let bytes = entry(5, u8::from(copied), first, last, None);
            let range = ZeroCopyRange { first, last, copied };
            prop_assert_eq!(Report::parse(&bytes), Ok(Report::ZeroCopy(range)));
        }

        #[test]
        fn any_bytes_are_a_report_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // Bytes without a whole error structure are never a report.
            if bytes.len() < 32 {
                prop_assert!(Report::parse(&bytes).is_err());
            }
            let _ = Report::parse(&bytes);
        }
    }
}
