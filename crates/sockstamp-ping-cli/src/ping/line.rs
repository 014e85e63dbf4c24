//! Print a line per probe, like ping(8)'s, with both views of the time.

use std::io::{self, Write};
use std::net::IpAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_ping::{Answer, AnswerKind, Outcome, Refusal, RxKind, Stray, Times, TxKind};
use sockstamp_run::wording::in_words;

use super::Options;
use super::hosts::Host;
use super::icmp;
use super::spread::Milliseconds;
use super::statistics::Stamps;

/// Header of an echo reply, which ping(8) counts as well.
const ICMP_HEADER: usize = 8;
/// Header of IPv4 without options. UDP's header is as long as ICMP's.
const IPV4_HEADER: usize = 20;

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

/// The first line, as ping(8)'s: whom, and the bytes of payload and of the packet.
pub(super) fn head(host: &Host, options: &Options, sockets: &str) -> String {
    let name = match &host.netns {
        Some(netns) => format!("{} ({}) from {netns}:", host.name, host.address),
        None => format!("{} ({})", host.name, host.address),
    };
    let payload = options.size;
    let bytes = match (options.tcp, host.address) {
        (Some(port), _) => format!("SYNs to port {port}"),
        (None, IpAddr::V4(_)) => {
            let whole = usize::from(payload) + ICMP_HEADER + IPV4_HEADER;
            format!("{payload}({whole}) bytes of data")
        }
        (None, IpAddr::V6(_)) => format!("{payload} data bytes"),
    };
    format!("PING {name} {bytes}, by {sockets}")
}

/// Print a probe's result, an answer with a `remark`. An abandoned probe has none.
pub(super) fn outcome(
    output: &mut dyn Write,
    host: &Host,
    seq: u64,
    outcome: &Outcome,
    remark: &str,
) -> io::Result<()> {
    match outcome {
        Outcome::Answered(answer) => answered(output, host, seq, answer, remark),
        Outcome::Lost => {
            let counter = host.counter;
            writeln!(output, "no answer yet for {counter}={seq}: {}", label(host))
        }
        Outcome::Refused(refusal) => refused(output, host, seq, refusal, ""),
        Outcome::NotSent(error) => {
            let counter = host.counter;
            writeln!(
                output,
                "not sent to {}: {counter}={seq}: {}",
                label(host),
                in_words(&error.to_string())
            )
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
        AnswerKind::EchoReply => format!("{} bytes", answer.bytes + ICMP_HEADER),
        AnswerKind::UdpReply => format!("{} bytes", answer.bytes),
        AnswerKind::PortUnreachable => "port unreachable".to_owned(),
        AnswerKind::SynAck => "SYN-ACK".to_owned(),
        AnswerKind::Reset => "RST (port closed)".to_owned(),
    };
    let counter = host.counter;
    write!(
        output,
        "{what} from {}: {counter}={seq}",
        from(host, answer.from)
    )?;
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
    write!(output, " time={} ms", Milliseconds(times.rtt))?;
    if let Some(fallback) = times.fallback {
        return write!(output, " by user space ({})", fallback.name());
    }
    if times.neighbour() > Nanos::ZERO {
        write!(output, " tx.neighbour={}", times.neighbour())?;
    }
    let delay = times.prober_delay();
    write!(output, " tx.qdisc={} prober={delay}", times.qdisc())
}

/// Print an error in the place of an answer, with a `remark` on anything special.
pub(super) fn refused(
    output: &mut dyn Write,
    host: &Host,
    seq: u64,
    refusal: &Refusal,
    remark: &str,
) -> io::Result<()> {
    let counter = host.counter;
    let meaning = icmp::meaning(host.address, refusal);
    let Some(from) = refusal.from else {
        let label = label(host);
        return writeln!(
            output,
            "refused by this host for {label}: {counter}={seq}: {meaning}{remark}"
        );
    };
    let (kind, code) = (refusal.icmp_type, refusal.icmp_code);
    let protocol = icmp::name(host.address);
    write!(
        output,
        "From {from} {counter}={seq} {meaning} ({protocol} type {kind} code {code}) for {}",
        label(host)
    )?;
    times(output, &refusal.times)?;
    writeln!(output, "{remark}")
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
    use sockstamp_ping::{Fallback, RefusalKind};

    use super::super::samples::{ROUTER, TARGET, answer, refusal};
    use super::*;

    fn host(name: &str, netns: Option<&str>) -> Host {
        Host {
            name: name.into(),
            address: TARGET,
            netns: netns.map(Name::from),
            counter: "icmp_seq",
        }
    }

    fn printed(print: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut output = Vec::new();
        print(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    fn line(outcome: Outcome) -> String {
        printed(|output| super::outcome(output, &host("10.0.0.2", None), 7, &outcome, ""))
    }

    #[test]
    fn an_answer_has_both_views() {
        assert_eq!(
            line(Outcome::Answered(answer(10))),
            "64 bytes from 10.0.0.2: icmp_seq=7 ttl=64 time=10.000 ms tx.qdisc=1.00 µs prober=99.0 µs\n"
        );
        let loopback = Outcome::Answered(answer(10));
        let line = printed(|output| outcome(output, &host("10.0.0.2", None), 100, &loopback, ""));
        assert!(line.trim_end().chars().count() <= 92, "{line}");
    }

    #[test]
    fn a_name_is_printed_with_its_address_and_namespace() {
        assert_eq!(label(&host("db.local", None)), "db.local (10.0.0.2)");
        assert_eq!(label(&host("10.0.0.2", Some("blue"))), "10.0.0.2 from blue");
    }

    #[test]
    fn the_kind_of_answer_is_printed() {
        for (kind, start) in [
            (AnswerKind::UdpReply, "56 bytes from "),
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
            line.ends_with("time=10.000 ms by user space (no-tx-stamp)\n"),
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
            printed(|output| answered(output, &host("10.0.0.2", None), 7, &answer, " (DUP!)")),
            "64 bytes from 10.0.0.1 for 10.0.0.2: icmp_seq=7 ttl=64 time=10.000 ms tx.qdisc=1.00 µs \
             prober=99.0 µs truncated by 20 bytes reordered (DUP!)\n"
        );
    }

    #[test]
    fn errors_in_place_of_an_answer_are_printed() {
        assert_eq!(
            line(Outcome::Lost),
            "no answer yet for icmp_seq=7: 10.0.0.2\n"
        );
        assert_eq!(line(Outcome::Abandoned), "");
        assert_eq!(
            line(Outcome::Refused(refusal())),
            "From 10.0.0.1 icmp_seq=7 Time to live exceeded (ICMP type 11 code 0) for 10.0.0.2 \
             time=1.000 ms tx.qdisc=1.00 µs prober=99.0 µs\n"
        );
        let by_us = Refusal {
            kind: RefusalKind::TooBig { mtu: 1400 },
            from: None,
            ..refusal()
        };
        assert_eq!(
            line(Outcome::Refused(by_us)),
            "refused by this host for 10.0.0.2: icmp_seq=7: Frag needed and DF set (mtu = 1400)\n"
        );
        assert_eq!(
            line(Outcome::NotSent(io::Error::from_raw_os_error(101))),
            "not sent to 10.0.0.2: icmp_seq=7: Network is unreachable\n"
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
