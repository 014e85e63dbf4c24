//! The structures and flags of sockstamp.h as Rust has them, against those that a compiler of C
//! makes of it.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use sockstamp::timestamping::Flag;
use sockstamp::zerocopy::Options;
use tempfile::tempdir;

use crate::header::{
    sockstamp_address, sockstamp_error, sockstamp_how, sockstamp_interface, sockstamp_match,
    sockstamp_matcher_counters, sockstamp_message, sockstamp_offset, sockstamp_queue_counters,
    sockstamp_range, sockstamp_received, sockstamp_registration_state, sockstamp_report,
    sockstamp_request, sockstamp_sender_counters, sockstamp_sender_options, sockstamp_stamp,
    sockstamp_statistics, sockstamp_time, sockstamp_view,
};

/// An assertion for the size of each structure and for the place of each field.
macro_rules! assertions {
    ($($kind:ident $name:ident { $($field:ident = $in_c:ident),* $(,)? })*) => {{
        let mut source = String::new();
        $(
            assert_equal(
                &mut source,
                concat!("sizeof(", stringify!($kind), " ", stringify!($name), ")"),
                size_of::<$name>(),
            );
            $(assert_equal(
                &mut source,
                concat!(
                    "offsetof(", stringify!($kind), " ", stringify!($name), ", ",
                    stringify!($in_c), ")",
                ),
                offset_of!($name, $field),
            );)*
        )*
        source
    }};
}

fn layouts() -> String {
    assertions! {
        struct sockstamp_time { ns = ns, clock = clock, reserved = reserved }
        struct sockstamp_offset { ns = ns, uncertainty_ns = uncertainty_ns, from = from, to = to }
        struct sockstamp_interface { stamps = stamps, phc_index = phc_index }
        struct sockstamp_request { flags = flags, stamps = stamps, id = id, reserved = reserved }
        union sockstamp_address { any = any, v4 = v4, v6 = v6 }
        struct sockstamp_received {
            software = software, hardware = hardware, interface = interface,
            packet_length = packet_length, flags = flags, hop_limit = hop_limit, from = from,
        }
        struct sockstamp_stamp {
            time = time, id = id, kind = kind, interface = interface, reserved = reserved,
        }
        struct sockstamp_range { first = first, last = last, copied = copied }
        struct sockstamp_error {
            number = number, info = info, data = data, origin = origin, type_ = type, code = code,
            reserved = reserved, offender = offender,
        }
        struct sockstamp_report {
            type_ = type, reserved = reserved, __bindgen_anon_1 = stamp,
            __bindgen_anon_1 = zerocopy, __bindgen_anon_1 = error,
        }
        struct sockstamp_statistics { present = present, value = value }
        struct sockstamp_queue_counters {
            entries = entries, cut = cut, malformed = malformed, without_time = without_time,
        }
        struct sockstamp_message { data = data, length = length, received = received }
        struct sockstamp_match { message = message, coverage = coverage, reserved = reserved }
        struct sockstamp_matcher_counters {
            matched = matched, merged = merged, duplicate = duplicate, past = past,
            unknown = unknown, unfinished = unfinished,
        }
        struct sockstamp_registration_state {
            lost = lost, torn = torn, queued = queued, has_stamps = has_stamps, reserved = reserved,
        }
        struct sockstamp_sender_options {
            buffer_size = buffer_size, buffers = buffers, threshold = threshold,
            stop_when_copied = stop_when_copied, reserved = reserved,
        }
        struct sockstamp_how { to = to, segment = segment, more = more }
        struct sockstamp_sender_counters {
            lent = lent, completed = completed, completed_copied = completed_copied,
            below_threshold = below_threshold, not_asked = not_asked, refused = refused,
            repeated = repeated, foreign = foreign, in_flight = in_flight,
            reports_lost = reports_lost,
        }
        struct sockstamp_view {
            mapped = mapped, mapped_length = mapped_length, copied = copied,
            copied_length = copied_length,
        }
    }
}

fn numbers() -> String {
    let mut source = String::new();
    for flag in Flag::ALL
        .into_iter()
        .filter(|flag| *flag != Flag::SysHardware)
    {
        let name = flag.name().replace("SOF_TIMESTAMPING_", "SOCKSTAMP_");
        assert_equal(&mut source, &name, flag.bit());
    }
    assert_equal(&mut source, "SOCKSTAMP_THRESHOLD", Options::THRESHOLD);
    source
}

fn assert_equal(source: &mut String, left: &str, right: impl std::fmt::Display) {
    writeln!(source, "_Static_assert({left} == {right}, \"{left}\");").unwrap();
}

fn compiles(assertions: &str) -> bool {
    let folder = tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, format!("#include <sockstamp.h>\n{assertions}")).unwrap();
    let output = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only"])
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(path)
        .output()
        .unwrap();
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

#[test]
fn structures_have_the_same_layout_in_c() {
    assert!(compiles(&layouts()));
}

#[test]
fn numbers_are_those_of_the_library() {
    assert!(compiles(&numbers()));
}

#[test]
fn another_layout_does_not_compile() {
    let wrong = layouts().replacen(
        "sizeof(struct sockstamp_report) == ",
        "sizeof(struct sockstamp_report) == 1",
        1,
    );
    assert!(!compiles(&wrong));
}
