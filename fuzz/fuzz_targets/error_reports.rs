//! Fuzz `Report::parse`: a report agrees with a control message of the entry, however the entry is
//! truncated, and parses back as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp::control::{Control, ExtendedError, Origin, Stamps, parse};
use sockstamp::error_queue::Report;
use sockstamp::timestamping::TxTime;
use sockstamp_fuzz::{EXTENDED_ERROR, HEADER, written};
use sockstamp_model::clock::{Phc, Realtime, Timestamp};

fuzz_target!(|bytes: &[u8]| {
    let messages: Vec<_> = parse(bytes).flatten().collect();
    for end in 0..=bytes.len() {
        if let Ok(report) = Report::parse(&bytes[..end]) {
            assert!(end >= HEADER + EXTENDED_ERROR);
            let says = |error: &ExtendedError| is_of(&report, error, &messages);
            assert!(errors(&messages).any(says), "{report:?} of {messages:?}");
        }
    }
    if let Ok(report) = Report::parse(bytes) {
        let again = written(&messages);
        assert_eq!(Report::parse(&again), Ok(report));
    }
});

fn errors<'a>(messages: &'a [Control<'_>]) -> impl Iterator<Item = &'a ExtendedError> {
    messages.iter().filter_map(|message| match message {
        Control::ExtendedError(error) => Some(error),
        _ => None,
    })
}

fn has_interface(index: u32, messages: &[Control<'_>]) -> bool {
    messages.iter().any(|message| match message {
        Control::Arrival(arrival) => arrival.interface == index,
        _ => false,
    })
}

fn is_of(report: &Report<'_>, error: &ExtendedError, messages: &[Control<'_>]) -> bool {
    match *report {
        Report::Stamp {
            stamp, interface, ..
        } => {
            error.origin == Origin::Timestamping
                && error.data == stamp.id
                && is_told(stamp.time, messages)
                && interface.is_none_or(|index| has_interface(index, messages))
        }
        Report::ZeroCopy(range) => {
            error.origin == Origin::ZeroCopy
                && (error.info, error.data) == (range.first, range.last)
                && range.copied == (error.code & 1 == 1)
        }
        Report::Network(network) => {
            let stamps = network.stamp.software.is_some() || network.stamp.hardware.is_some();
            (!stamps || has_stamps(network.stamp.software, network.stamp.hardware, messages))
                && matches!(error.origin, Origin::Local | Origin::Icmp | Origin::Icmp6)
                && (
                    error.origin,
                    error.errno,
                    error.kind,
                    error.code,
                    error.info,
                    error.offender,
                ) == (
                    network.origin,
                    network.errno,
                    network.kind,
                    network.code,
                    network.info,
                    network.offender,
                )
        }
        Report::Departure(dropped) => {
            error.origin == Origin::TxTime
                && (error.errno, error.code) == (dropped.errno, dropped.reason.code())
                && u64::from(error.data) << 32 | u64::from(error.info)
                    == dropped.time::<Realtime>().as_nanos()
        }
        Report::Other(ref other) => error == other,
        _ => unreachable!("all that there are"),
    }
}

fn is_told(time: TxTime, messages: &[Control<'_>]) -> bool {
    messages.iter().any(|message| match message {
        Control::Timestamping(stamps) => match time {
            TxTime::Software(time) => stamps.software == Some(time),
            TxTime::Hardware(time) => stamps.hardware == Some(time),
        },
        _ => false,
    })
}

fn has_stamps(
    software: Option<Timestamp<Realtime>>,
    hardware: Option<Timestamp<Phc>>,
    messages: &[Control<'_>],
) -> bool {
    messages.contains(&Control::Timestamping(Stamps { software, hardware }))
}
