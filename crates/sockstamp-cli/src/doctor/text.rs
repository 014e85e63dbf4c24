//! The report for people.

use std::collections::HashSet;
use std::fmt::Write;

use sockstamp::interface::InterfaceCapabilities;
use sockstamp::timestamping::Flag;
use sockstamp_bpf::facts::{Capability, Trial, TriedHook};
use sockstamp_bpf::plan::{Method, Stamps};
use sockstamp_model::name::Escaped;
use sockstamp_model::stage::Stage;
use sockstamp_print::colour::Brush;
use sockstamp_print::paragraph::wrapped;
use sockstamp_run::wording::in_words;

use super::library::Library;
use super::report::Report;
use super::self_test::SelfTest;

pub(super) fn report(report: &Report, brush: Brush) -> String {
    let mut text = String::new();
    section(&mut text, "Facts", facts(report), brush);
    let mut hooks: Vec<_> = report.hooks.iter().map(hook).collect();
    // Several programs on one hook, with the same result, are one line.
    let mut seen = HashSet::new();
    hooks.retain(|hook| seen.insert(hook.clone()));
    section(&mut text, "Hooks", hooks, brush);
    section(
        &mut text,
        "Interfaces of this network namespace",
        report.interfaces.iter().map(interface),
        brush,
    );
    let when = if report.obstacles.is_empty() {
        "Plan"
    } else {
        "Plan, if nothing were missing"
    };
    section(&mut text, when, plan(report), brush);
    section(
        &mut text,
        "For applications, by `sockstamp notifications`",
        [
            line("error queues in memory", trial(&report.completions.entries)),
            line(
                "stamps of TCP in memory",
                trial(&report.completions.tcp_stamps),
            ),
        ],
        brush,
    );
    section(
        &mut text,
        "For applications, by the library",
        library(&report.library),
        brush,
    );
    section(&mut text, "Result", result(report), brush);
    text
}

pub(super) type Line = (String, String);

pub(super) fn line(name: impl Into<String>, value: impl Into<String>) -> Line {
    (name.into(), value.into())
}

/// Writing to a String cannot fail.
pub(super) fn section(
    text: &mut String,
    title: &str,
    lines: impl IntoIterator<Item = Line>,
    brush: Brush,
) {
    let separator = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{separator}{}", brush.bold(title));
    for (name, value) in lines {
        let [name, value] = [&name, &value].map(|text| Escaped(text.as_bytes()).to_string());
        let title = format!("  {name:<27}");
        let _ = writeln!(text, "{}", wrapped(&title, words(&value), ""));
    }
}

/// Divide a line where it may be broken: not within a command, which is in backticks.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last) if last.matches('`').count() % 2 == 1 => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn facts(report: &Report) -> Vec<Line> {
    let facts = &report.facts;
    let mut lines = vec![
        line("kernel", format!("Linux {}", facts.kernel)),
        line(
            "kernel BTF",
            match facts.btf {
                Some(true) => "yes",
                Some(false) => "no",
                None => "not readable",
            },
        ),
        line(
            "BPF timestamping",
            match report.plan.tx {
                Some(Stamps::Callbacks) => "yes",
                Some(Stamps::Unasked) => UNASKED,
                Some(Stamps::Packets) => FROM_PACKETS,
                None => "no",
            },
        ),
        line(
            "cgroup2",
            facts
                .cgroup2
                .as_ref()
                .map_or("not mounted".into(), |path| path.display().to_string()),
        ),
        line(
            "capabilities held",
            list(
                Capability::ALL
                    .into_iter()
                    .filter(|capability| facts.holds(*capability)),
            ),
        ),
        line(
            "capabilities missing",
            list(report.missing_capabilities.iter().copied()),
        ),
        line(
            "receive stamping now",
            receive_stamping(report.receive_stamping),
        ),
        line(
            "physical interfaces here",
            physical(report.physical.as_deref()),
        ),
    ];
    if !facts.stamping_nics.is_empty() {
        let names: Vec<_> = facts.stamping_nics.iter().map(String::as_str).collect();
        lines.push(line("NICs that stamp sends", names.join(", ")));
    }
    if !facts.receiving_nics.is_empty() {
        let names: Vec<_> = facts.receiving_nics.iter().map(String::as_str).collect();
        lines.push(line("NICs that stamp all they get", names.join(", ")));
    }
    if facts.sched_clock_stable == Some(false) {
        lines.push(line("scheduler's clock", UNSTABLE));
    }
    if facts.mptcp == Some(true) {
        lines.push(line("MPTCP", MPTCP));
    }
    lines
}

fn library(library: &Library) -> [Line; 3] {
    let options = library.missing_options.as_ref();
    [
        line(
            "time stamp options",
            options.map_or(UNSEEN.into(), |missing| options_without(missing)),
        ),
        line(
            "messages with own ids",
            library.own_ids.map_or(UNSEEN, |has| {
                if has {
                    "yes, for UDP"
                } else {
                    "no: they need Linux 6.13"
                }
            }),
        ),
        line(
            "completions by sends",
            library.returned_by_sends.map_or(UNSEEN, |has| {
                if has {
                    "yes"
                } else {
                    "no: they need the patches of kernel/series"
                }
            }),
        ),
    ]
}

fn options_without(missing: &[Flag]) -> String {
    if missing.is_empty() {
        return format!("all {}", Flag::ALL.len());
    }
    let names: Vec<_> = missing
        .iter()
        .map(|flag| flag.name().trim_start_matches("SOF_TIMESTAMPING_"))
        .collect();
    format!("all {} but {}", Flag::ALL.len(), names.join(", "))
}

const UNSEEN: &str = "could not be seen";

/// docs/how-it-works.md has a table of the differences.
const FROM_PACKETS: &str =
    "no: TCP is stamped where its packets pass: after tc egress, before the driver, at the ACK";

/// `SKBTX_HW_TSTAMP` has `SKBTX_BPF` in it (include/linux/skbuff.h, v6.18).
const UNASKED: &str =
    "yes, but it would take a NIC's stamps from PTP: TCP is stamped where its packets pass";

/// Each processor has its own then (`sched_clock_local()`, kernel/sched/clock.c, v6.18): up to a
/// tick apart.
const UNSTABLE: &str = "unstable between CPUs: rx.wakeup is the time in run queues";

/// Seen on v6.18, with the bit set on both subflows: no callback came for any send call, and reads
/// pass the MPTCP socket, not the subflow. `tcp_tx_timestamp()`, which calls SENDMSG, is only in
/// tcp_sendmsg_locked(), which net/mptcp/protocol.c does not use.
const MPTCP: &str =
    "in this kernel: its connections are counted, not measured (they have no send callbacks)";

fn receive_stamping(found: Option<bool>) -> &'static str {
    match found {
        Some(true) => "on: requested by some socket",
        Some(false) => "off: sockstamp enables it while it measures",
        None => UNSEEN,
    }
}

/// Messages leave this namespace by a veth or the like, and callbacks end there where the host
/// routes.
const OUT_OF_SIGHT: &str =
    "none: the NIC is out of sight from this network namespace (stat --host-path)";

fn physical(found: Option<&[String]>) -> String {
    match found {
        Some([]) => OUT_OF_SIGHT.to_owned(),
        Some(names) => names.join(", "),
        None => "could not be seen: /sys shows another network namespace".to_owned(),
    }
}

fn list(capabilities: impl Iterator<Item = Capability>) -> String {
    let names: Vec<_> = capabilities.map(Capability::name).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

fn hook(hook: &TriedHook) -> Line {
    let is_refused = matches!(hook.trial, Trial::Refused(_));
    let note = match hook.section.as_str() {
        _ if !hook.used => " (not needed)",
        "fentry/udp_sendmsg" | "fentry/udpv6_sendmsg" if is_refused => UNSEEN_SENDS,
        _ => "",
    };
    line(&hook.section, trial(&hook.trial) + note)
}

/// The loss without fentry.
const UNSEEN_SENDS: &str = ": sends of connected UDP sockets have no tx.copy";

fn trial(trial: &Trial) -> String {
    match trial {
        Trial::Works => "works".to_owned(),
        Trial::Refused(reason) => format!("refused: {}", in_words(reason)),
        Trial::Unknown(reason) => format!("not tried: {}", in_words(reason)),
    }
}

fn interface((name, can): &(String, InterfaceCapabilities)) -> Line {
    let clock = can
        .phc_index
        .map_or(String::new(), |phc| format!(", clock /dev/ptp{phc}"));
    let kinds = [
        ("software", can.tx_software, can.rx_software),
        ("hardware", can.tx_hardware, can.rx_hardware),
    ];
    let stamps: Vec<_> = kinds
        .into_iter()
        .map(|(kind, tx, rx)| format!("{kind} {}", directions(tx, rx)))
        .collect();
    line(name, stamps.join(", ") + &clock)
}

fn directions(tx: bool, rx: bool) -> &'static str {
    match (tx, rx) {
        (true, true) => "TX and RX",
        (true, false) => "TX",
        (false, true) => "RX",
        (false, false) => "none",
    }
}

const HOST_PATH: &str = "tx.qdisc up to the host's last interface, by tp net_dev_start_xmit";

fn plan(report: &Report) -> Vec<Line> {
    let plan = &report.plan;
    let host_path = match plan.host_path_obstacle {
        Some(reason) => format!("absent: {reason}"),
        None if plan.host_path => HOST_PATH.to_owned(),
        None => format!("on request: {HOST_PATH}"),
    };
    let udp = match plan.udp {
        Ok(datagrams) => datagrams.to_string(),
        Err(reason) => format!("absent: {reason}"),
    };
    let of_stage = |(stage, method): (Stage, &Method)| {
        let missing = plan.parts().filter(move |(part, _)| part.stage() == stage);
        let missing = missing.filter_map(|(part, reason)| {
            Some(line(format!("  {part}"), format!("absent: {}", reason?)))
        });
        [line(stage.name(), method.to_string())]
            .into_iter()
            .chain(missing)
    };
    let stages = plan.methods();
    stages
        .flat_map(of_stage)
        .chain([line("--host-path", host_path), line("of UDP", udp)])
        .collect()
}

fn result(report: &Report) -> Vec<Line> {
    if !report.obstacles.is_empty() {
        return report
            .obstacles
            .iter()
            .map(|obstacle| line("cannot measure", obstacle))
            .collect();
    }
    let test = match &report.self_test {
        SelfTest::Done { messages, valid } => {
            format!("{valid} of {messages} messages over loopback valid")
        }
        SelfTest::Failed(reason) => format!("failed: {reason}"),
        SelfTest::NotRun => "not run".to_owned(),
    };
    vec![
        line("can measure", "try `sockstamp stat`"),
        line("self-test", test),
    ]
}

#[cfg(test)]
mod tests {
    use sockstamp_bpf::plan::{Plan, Request};

    use super::super::report::tests::{capable, unprivileged};
    use super::*;
    use sockstamp_print::paragraph::WIDTH;

    fn in_one_line(report: &str) -> String {
        report.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for host in [capable(), unprivileged()] {
            let report = report(&host, Brush::default());
            let widest = report.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(WIDTH), "{report}");
        }
    }

    #[test]
    fn a_capable_host_can_measure() {
        assert_eq!(
            report(&capable(), Brush::default()),
            include_str!("capable.txt")
        );
    }

    #[test]
    fn programs_on_one_hook_are_one_line() {
        let mut host = capable();
        let again = host.hooks.clone();
        host.hooks.extend(again);
        assert_eq!(
            report(&host, Brush::default()),
            report(&capable(), Brush::default())
        );
    }

    #[test]
    fn a_nic_that_stamps_sends_is_named_and_not_asked() {
        let mut host = capable();
        host.facts.stamping_nics = ["eth0".to_owned(), "eth1".to_owned()].into();
        host.plan = Plan::outlook(&host.facts, &Request::default());
        let report = report(&host, Brush::default());
        assert!(
            report.contains("eth0, eth1\n") && in_one_line(&report).contains(UNASKED),
            "{report}"
        );
    }

    #[test]
    fn an_unstable_clock_of_the_scheduler_is_reported() {
        assert!(!in_one_line(&report(&capable(), Brush::default())).contains(UNSTABLE));
        let mut host = capable();
        host.facts.sched_clock_stable = Some(false);
        assert!(in_one_line(&report(&host, Brush::default())).contains(UNSTABLE));
    }

    #[test]
    fn an_unprivileged_report_names_what_is_missing() {
        assert_eq!(
            report(&unprivileged(), Brush::default()),
            include_str!("unprivileged.txt")
        );
    }
}
