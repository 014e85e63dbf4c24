//! Reports of error queues, as C has them.

use sockstamp::clock::Monotonic;
use sockstamp::control::{ExtendedError, Origin};
use sockstamp::error_queue::{DepartureError, NetworkError, Report, ZeroCopyRange};
use sockstamp::timestamping::{TcpStatistics, TxKind, TxStamp, TxTime};

use crate::header::{
    SOCKSTAMP_REPORT_NETWORK, SOCKSTAMP_REPORT_OTHER, SOCKSTAMP_REPORT_STAMP,
    SOCKSTAMP_REPORT_ZEROCOPY, sockstamp_error, sockstamp_kind, sockstamp_range, sockstamp_report,
    sockstamp_report__bindgen_ty_1, sockstamp_report_type, sockstamp_stamp, sockstamp_statistics,
};
use crate::{address, clock};

pub(crate) fn in_c(report: &Report<'_>) -> sockstamp_report {
    match report {
        Report::Stamp {
            stamp, interface, ..
        } => of_stamp(stamp, *interface),
        Report::ZeroCopy(range) => of_range(*range),
        Report::Network(error) => of_error(SOCKSTAMP_REPORT_NETWORK, network_error(error)),
        Report::Departure(error) => of_error(SOCKSTAMP_REPORT_OTHER, departure_error(error)),
        Report::Other(error) => of_error(SOCKSTAMP_REPORT_OTHER, other_error(error)),
        // Reserve it for distinctions of a later version of the library.
        _ => empty(SOCKSTAMP_REPORT_OTHER),
    }
}

pub(crate) fn of_stamp(stamp: &TxStamp, interface: Option<u32>) -> sockstamp_report {
    let mut report = empty(SOCKSTAMP_REPORT_STAMP);
    report.__bindgen_anon_1.stamp = sockstamp_stamp {
        time: match stamp.time {
            TxTime::Software(time) => clock::realtime(time),
            TxTime::Hardware(time) => clock::phc(time),
        },
        id: stamp.id,
        kind: kind(stamp.kind),
        interface: interface.unwrap_or(0),
        reserved: 0,
    };
    report
}

pub(crate) fn of_range(range: ZeroCopyRange) -> sockstamp_report {
    let mut report = empty(SOCKSTAMP_REPORT_ZEROCOPY);
    report.__bindgen_anon_1.zerocopy = sockstamp_range {
        first: range.first,
        last: range.last,
        copied: range.copied.into(),
    };
    report
}

fn of_error(kind: sockstamp_report_type, error: sockstamp_error) -> sockstamp_report {
    sockstamp_report {
        type_: kind,
        reserved: 0,
        __bindgen_anon_1: sockstamp_report__bindgen_ty_1 { error },
    }
}

/// The largest of the union's members, so that no byte of it is left as it was.
fn empty(kind: sockstamp_report_type) -> sockstamp_report {
    of_error(
        kind,
        sockstamp_error {
            number: 0,
            info: 0,
            data: 0,
            origin: 0,
            type_: 0,
            code: 0,
            reserved: 0,
            offender: address::none(),
        },
    )
}

fn network_error(error: &NetworkError) -> sockstamp_error {
    other_error(&ExtendedError {
        errno: error.errno,
        origin: error.origin,
        kind: error.kind,
        code: error.code,
        info: error.info,
        data: 0,
        offender: error.offender,
    })
}

/// An entry of another origin, with its numbers as the kernel has them.
fn departure_error(error: &DepartureError) -> sockstamp_error {
    let at = error.time::<Monotonic>().as_nanos().to_le_bytes();
    let [a, b, c, d, e, f, g, h] = at;
    other_error(&ExtendedError {
        errno: error.errno,
        origin: Origin::TxTime,
        kind: 0,
        code: error.reason.code(),
        info: u32::from_le_bytes([a, b, c, d]),
        data: u32::from_le_bytes([e, f, g, h]),
        offender: None,
    })
}

fn other_error(error: &ExtendedError) -> sockstamp_error {
    sockstamp_error {
        number: error.errno,
        info: error.info,
        data: error.data,
        origin: error.origin.number(),
        type_: error.kind,
        code: error.code,
        reserved: 0,
        offender: error.offender.map_or_else(address::none, address::of_host),
    }
}

/// The header has the kernel's numbers, so that a kind of a later kernel needs no other header.
pub(crate) const fn kind(kind: TxKind) -> sockstamp_kind {
    kind.number()
}

/// Return the statistics of any report; only stamps of TCP have them.
pub(crate) fn statistics(report: &Report<'_>) -> sockstamp_statistics {
    let mut in_c = sockstamp_statistics {
        present: 0,
        value: [0; 32],
    };
    let Report::Stamp {
        statistics: Some(statistics),
        ..
    } = report
    else {
        return in_c;
    };
    for (kind, place) in (0..).zip(&mut in_c.value) {
        if let Some(value) = number(statistics, kind) {
            *place = value;
            in_c.present |= 1 << kind;
        }
    }
    in_c
}

/// An attribute of one byte, four or eight.
fn number(statistics: &TcpStatistics<'_>, kind: u16) -> Option<u64> {
    let bytes = statistics.attribute(kind)?;
    match *bytes {
        [byte] => Some(byte.into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}
