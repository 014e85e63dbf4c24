//! The kernel's numbers in this crate, against the headers of the kernel that are installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::process::{Command, Output};

use tempfile::tempdir;

use crate::control::{
    Origin, PACKET_TX_TIMESTAMP, SCM_TIMESTAMPING_OPT_STATS, SCM_TIMESTAMPING_PKTINFO,
    SCM_TS_OPT_ID, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, SO_TXTIME,
};
use crate::error_queue::CODE_ZEROCOPY_COPIED;
#[cfg(feature = "io-uring")]
use crate::error_queue::{HARDWARE, KIND_SHIFT};
#[cfg(feature = "io-uring")]
use crate::sys::ring::{REPORT_USAGE, USAGE_COPIED};
#[cfg(feature = "io-uring")]
use crate::sys::stamp_ring::TX_TIMESTAMP;
use crate::sys::zerocopy::TCP_ZEROCOPY_RECEIVE;
use crate::timestamping::{Flag, TcpStatistics, TxKind};

const HEADERS: [&str; 7] = [
    // Others use its types and do not include it.
    "time.h",
    "asm/socket.h",
    "linux/errqueue.h",
    "linux/if_packet.h",
    "linux/io_uring.h",
    "linux/net_tstamp.h",
    "linux/tcp.h",
];

/// Names of the kernel and our values.
fn constants() -> Vec<(&'static str, i64)> {
    let mut all: Vec<(&str, i64)> = vec![
        ("SO_TIMESTAMPING_OLD", SO_TIMESTAMPING.into()),
        ("SO_TIMESTAMPING_NEW", SO_TIMESTAMPING_NEW.into()),
        (
            "SCM_TIMESTAMPING_OPT_STATS",
            SCM_TIMESTAMPING_OPT_STATS.into(),
        ),
        ("SCM_TIMESTAMPING_PKTINFO", SCM_TIMESTAMPING_PKTINFO.into()),
        ("SCM_TS_OPT_ID", SCM_TS_OPT_ID.into()),
        ("SCM_TXTIME", SO_TXTIME.into()),
        ("sizeof(struct sock_txtime)", 8),
        ("SOF_TXTIME_DEADLINE_MODE", 1),
        ("SOF_TXTIME_REPORT_ERRORS", 2),
        ("SO_EE_CODE_TXTIME_INVALID_PARAM", 1),
        ("SO_EE_CODE_TXTIME_MISSED", 2),
        #[cfg(feature = "io-uring")]
        ("SOCKET_URING_OP_TX_TIMESTAMP", TX_TIMESTAMP.into()),
        #[cfg(feature = "io-uring")]
        ("IORING_CQE_F_TSTAMP_HW", HARDWARE.into()),
        #[cfg(feature = "io-uring")]
        ("IORING_TIMESTAMP_TYPE_SHIFT", KIND_SHIFT.into()),
        #[cfg(feature = "io-uring")]
        ("IORING_SEND_ZC_REPORT_USAGE", REPORT_USAGE.into()),
        #[cfg(feature = "io-uring")]
        ("IORING_NOTIF_USAGE_ZC_COPIED", USAGE_COPIED.into()),
        ("TCP_ZEROCOPY_RECEIVE", TCP_ZEROCOPY_RECEIVE.into()),
        ("sizeof(struct tcp_zerocopy_receive)", 64),
        ("PACKET_TX_TIMESTAMP", PACKET_TX_TIMESTAMP.into()),
        ("SO_EE_CODE_ZEROCOPY_COPIED", CODE_ZEROCOPY_COPIED.into()),
        ("sizeof(struct sock_extended_err)", 16),
        ("sizeof(struct scm_ts_pktinfo)", 16),
    ];
    all.extend(Flag::ALL.map(|flag| (flag.name(), flag.bit().into())));
    all.extend(Origin::NAMED.map(|(number, origin)| (origin_name(origin), number.into())));
    let numbers = TcpStatistics::NUMBERS;
    all.extend(
        numbers
            .iter()
            .map(|(name, number)| (*name, (*number).into())),
    );
    for number in 0..u32::from(u8::MAX) {
        all.extend(TxKind::from_number(number).map(|kind| (kind_name(kind), number.into())));
    }
    all
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Local => "SO_EE_ORIGIN_LOCAL",
        Origin::Icmp => "SO_EE_ORIGIN_ICMP",
        Origin::Icmp6 => "SO_EE_ORIGIN_ICMP6",
        Origin::Timestamping => "SO_EE_ORIGIN_TIMESTAMPING",
        Origin::ZeroCopy => "SO_EE_ORIGIN_ZEROCOPY",
        Origin::TxTime => "SO_EE_ORIGIN_TXTIME",
        other => panic!("{other:?} has no name"),
    }
}

fn kind_name(kind: TxKind) -> &'static str {
    match kind {
        TxKind::Sched => "SCM_TSTAMP_SCHED",
        TxKind::Snd => "SCM_TSTAMP_SND",
        TxKind::Ack => "SCM_TSTAMP_ACK",
        TxKind::Completion => "SCM_TSTAMP_COMPLETION",
        other => panic!("{other:?} has no name"),
    }
}

/// Compile a program that is wrong where a constant differs.
fn compile(constants: &[(&str, i64)]) -> Output {
    let mut source: String = HEADERS
        .iter()
        .map(|header| format!("#include <{header}>\n"))
        .collect();
    for (name, value) in constants {
        source += &format!("_Static_assert({name} == {value}, \"{name}\");\n");
    }
    let directory = tempdir().unwrap();
    let path = directory.path().join("constants.c");
    fs::write(&path, source).unwrap();
    Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-fmax-errors=0"])
        .arg(path)
        .env("LC_ALL", "C")
        .output()
        .unwrap()
}

/// Return the names that the compiler calls undeclared: constants newer than the headers.
fn undeclared(output: &Output) -> BTreeSet<String> {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("undeclared"))
        .filter_map(|line| line.split('\'').nth(1).map(str::to_owned))
        .collect()
}

fn skip(reason: &str) {
    let line = format!("SKIP headers::constants_are_those_of_the_headers: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn constants_are_those_of_the_headers() {
    let all = constants();
    let missing = undeclared(&compile(&all));
    for name in &missing {
        skip(&format!("{name} is newer than the kernel's headers here"));
    }
    let known: Vec<_> = all
        .iter()
        .filter(|(name, _)| !missing.contains(*name))
        .copied()
        .collect();
    // Debian 12 has the headers of v6.1, which lack five, and three of io_uring.
    assert!(known.len() + 8 >= all.len(), "{missing:?}");
    let output = compile(&known);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_wrong_constant_does_not_compile() {
    let output = compile(&[("SCM_TSTAMP_ACK", 3)]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("SCM_TSTAMP_ACK"));
}
