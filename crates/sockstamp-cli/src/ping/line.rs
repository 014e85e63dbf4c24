//! Print a line per probe, like ping(8)'s, with both views of the time.

use std::io::{self, Write};
use std::net::IpAddr;

use sockstamp_ping::{
    Answer, AnswerKind, Outcome, Refusal, RefusalKind, RxKind, Stray, Times, TxKind,
};

use super::hosts::Host;
use super::statistics::Stamps;

/// Header of an echo reply, which ping(8) counts as well.
const ICMP_HEADER: usize = 8;

/// Name and address, and from where.
pub(super) fn label(host: &Host) -> String {
    let (name, address) = (host.name.to_string(), host.address.to_string());
    let label = match name.split('%').next() {
        Some(literal) if literal == address => name,
        _ => format!("{name} ({address})"),
    };
    match &host.netns {
        Some(netns) => format!("{label} from {netns}"),
        None => label,
    }
}

/// Print a probe's result. An abandoned probe has none.
pub(super) fn outcome(
    output: &mut dyn Write,
    host: &Host,
    seq: u64,
    outcome: &Outcome,
) -> io::Result<()> {
    match outcome {
        Outcome::Answered(answer) => answered(output, host, seq, answer, ""),
        Outcome::Lost => writeln!(output, "no answer from {}: seq={seq}", label(host)),
        Outcome::Refused(refusal) => refused(output, host, seq, refusal),
        Outcome::NotSent(error) => {
            writeln!(output, "not sent to {}: seq={seq}: {error}", label(host))
        }
        Outcome::Abandoned => Ok(()),
    }
}

/// Print an answer, with a `remark` on anything special.
pub(super) fn answered(
    output: &mut dyn Write,
    host: &Host,
    seq: u64,
    answer: &Answer,
    remark: &str,
) -> io::Result<()> {
    let what = match answer.kind {
        AnswerKind::EchoReply => format!("{} B", answer.bytes + ICMP_HEADER),
        AnswerKind::UdpReply => format!("{} B", answer.bytes),
        AnswerKind::PortUnreachable => "port unreachable".to_owned(),
        AnswerKind::SynAck => "SYN-ACK".to_owned(),
        AnswerKind::Reset => "RST (port closed)".to_owned(),
    };
    write!(output, "{what} from {}: seq={seq}", from(host, answer.from))?;
    if let Some(hop_limit) = answer.hop_limit {
        write!(output, " ttl={hop_limit}")?;
    }
    times(output, &answer.times)?;
    if answer.missing > 0 {
        write!(output, " truncated by {} bytes", answer.missing)?;
    }
    if answer.reordered {
        write!(output, " reordered")?;
    }
    writeln!(output, "{remark}")
}

/// Return the target, or the host that answered on its behalf.
fn from(host: &Host, address: IpAddr) -> String {
    if address == host.address {
        label(host)
    } else {
        format!("{address} for {}", label(host))
    }
}

fn times(output: &mut dyn Write, times: &Times) -> io::Result<()> {
    match times.fallback {
        None => write!(
            output,
            " time={} tx.qdisc={} prober={}",
            times.rtt,
            times.qdisc(),
            times.prober_delay()
        ),
        Some(fallback) => write!(
            output,
            " time={} by user space ({})",
            times.rtt,
            fallback.name()
        ),
    }
}

fn refused(output: &mut dyn Write, host: &Host, seq: u64, refusal: &Refusal) -> io::Result<()> {
    let meaning = match refusal.kind {
        RefusalKind::HopLimit => "time to live exceeded".to_owned(),
        RefusalKind::TooBig { mtu: 0 } => "too big".to_owned(),
        RefusalKind::TooBig { mtu } => format!("too big, the path takes {mtu} bytes"),
        RefusalKind::Unreachable | RefusalKind::Other => refusal.error().to_string(),
    };
    match refusal.from {
        Some(address) => write!(output, "refused by {address}")?,
        None => write!(output, "refused by this host")?,
    }
    write!(output, " for {}: seq={seq}: {meaning}", label(host))?;
    if refusal.from.is_some() {
        write!(
            output,
            " (ICMP type {} code {})",
            refusal.icmp_type, refusal.icmp_code
        )?;
        times(output, &refusal.times)?;
    }
    writeln!(output)
}

/// Something that answers no probe.
pub(super) fn stray(output: &mut dyn Write, from: IpAddr, why: Stray) -> io::Result<()> {
    let why = match why {
        Stray::Source => "its sender was not probed",
        Stray::Cookie => "forged, it lacks the cookie of its probe",
        Stray::Unknown => "its probe was never sent, or is forgotten",
        Stray::Truncated => "too short to tell what it answers",
    };
    writeln!(output, "stray answer from {from}: {why}")
}

/// Return the sources of stamps; printed once.
pub(super) fn stamps(stamps: Stamps) -> String {
    let tx = match stamps.tx {
        TxKind::Hardware => "hardware",
        TxKind::Software => "software (the driver)",
        TxKind::Sched => "software (before the packet scheduler)",
        TxKind::User => "user space",
    };
    let rx = match stamps.rx {
        RxKind::Hardware => "hardware",
        RxKind::Software => "software (the kernel)",
        RxKind::User => "user space",
    };
    format!("probes {tx}, answers {rx}")
}

#[cfg(test)]
mod tests {
    use sockstamp_model::name::Name;
    use sockstamp_ping::Fallback;

    use super::super::samples::{ROUTER, TARGET, answer, refusal};
    use super::*;

    fn host(name: &str, netns: Option<&str>) -> Host {
        Host {
            name: name.into(),
            address: TARGET,
            netns: netns.map(Name::from),
        }
    }

    fn printed(print: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut output = Vec::new();
        print(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    fn line(outcome: Outcome) -> String {
        printed(|output| super::outcome(output, &host("10.0.0.2", None), 7, &outcome))
    }

    #[test]
    fn an_answer_has_both_views() {
        assert_eq!(
            line(Outcome::Answered(answer(10))),
            "64 B from 10.0.0.2: seq=7 ttl=64 time=10.0 ms tx.qdisc=1.00 µs prober=99.0 µs\n"
        );
        let loopback = Outcome::Answered(answer(10));
        let line = printed(|output| outcome(output, &host("10.0.0.2", None), 100, &loopback));
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }

    #[test]
    fn a_name_is_printed_with_its_address_and_namespace() {
        assert_eq!(label(&host("db.local", None)), "db.local (10.0.0.2)");
        assert_eq!(label(&host("10.0.0.2", Some("blue"))), "10.0.0.2 from blue");
    }

    #[test]
    fn the_kind_of_answer_is_printed() {
        for (kind, start) in [
            (AnswerKind::UdpReply, "56 B from "),
            (AnswerKind::PortUnreachable, "port unreachable from "),
            (AnswerKind::SynAck, "SYN-ACK from "),
            (AnswerKind::Reset, "RST (port closed) from "),
        ] {
            let line = line(Outcome::Answered(Answer { kind, ..answer(10) }));
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn a_fallback_is_seen() {
        let mut answer = answer(10);
        answer.times.fallback = Some(Fallback::NoTxStamp);
        let line = line(Outcome::Answered(answer));
        assert!(
            line.ends_with("time=10.0 ms by user space (no-tx-stamp)\n"),
            "{line}"
        );
    }

    #[test]
    fn defects_of_an_answer_are_printed() {
        let answer = Answer {
            from: ROUTER,
            missing: 20,
            reordered: true,
            ..answer(10)
        };
        assert_eq!(
            printed(|output| answered(output, &host("10.0.0.2", None), 7, &answer, " duplicate")),
            "64 B from 10.0.0.1 for 10.0.0.2: seq=7 ttl=64 time=10.0 ms tx.qdisc=1.00 µs prober=99.0 µs truncated by 20 bytes \
             reordered duplicate\n"
        );
    }

    #[test]
    fn errors_in_place_of_an_answer_are_printed() {
        assert_eq!(line(Outcome::Lost), "no answer from 10.0.0.2: seq=7\n");
        assert_eq!(line(Outcome::Abandoned), "");
        assert_eq!(
            line(Outcome::Refused(refusal())),
            "refused by 10.0.0.1 for 10.0.0.2: seq=7: time to live exceeded (ICMP type 11 code 0) time=1.00 ms \
             tx.qdisc=1.00 µs prober=99.0 µs\n"
        );
        let by_us = Refusal {
            kind: RefusalKind::TooBig { mtu: 1400 },
            from: None,
            ..refusal()
        };
        assert_eq!(
            line(Outcome::Refused(by_us)),
            "refused by this host for 10.0.0.2: seq=7: too big, the path takes 1400 bytes\n"
        );
        assert_eq!(
            line(Outcome::NotSent(io::Error::from_raw_os_error(101))),
            "not sent to 10.0.0.2: seq=7: Network is unreachable (os error 101)\n"
        );
    }

    #[test]
    fn a_stray_answer_is_printed_with_its_reason() {
        assert_eq!(
            printed(|output| stray(output, ROUTER, Stray::Cookie)),
            "stray answer from 10.0.0.1: forged, it lacks the cookie of its probe\n"
        );
    }
}
