//! The report as one JSON object. Names never change without `version` changing.

use serde_json::{Map, Value, json};
use sockstamp::interface::InterfaceCapabilities;
use sockstamp_bpf::facts::{Trial, TriedHook};
use sockstamp_bpf::plan::{Method, Plan, Reason};
use sockstamp_run::escape;
use sockstamp_run::wording::in_words;

use super::library::Library;
use super::report::Report;
use super::self_test::SelfTest;

/// Return the report on one line.
pub(super) fn line(of: &Report) -> serde_json::Result<String> {
    printed(&report(of))
}

/// Return an object on one line.
pub(super) fn printed(value: &Value) -> serde_json::Result<String> {
    let mut line = Vec::new();
    escape::json(&mut line, value)?;
    line.push(b'\n');
    // Convert losslessly: the line is ASCII, except characters that JSON keeps as they are.
    Ok(String::from_utf8_lossy(&line).into_owned())
}

pub(super) fn report(report: &Report) -> Value {
    let facts = &report.facts;
    let bpf_timestamping = facts.socket_bit.zip(facts.tx_timestamping);
    let host_path = report
        .plan
        .host_path_obstacle
        .as_ref()
        .map(Reason::to_string);
    json!({
        "version": 1,
        "ready": report.can_measure(),
        "kernel": facts.kernel,
        "btf": facts.btf,
        "cgroup2": facts.cgroup2,
        "capabilities": names(facts.capabilities.keys().filter(|capability| facts.holds(**capability))),
        "missing_capabilities": names(report.missing_capabilities.iter()),
        "bpf_timestamping": bpf_timestamping.map(|(bit, kfunc)| bit && kfunc),
        "receive_stamping": report.receive_stamping,
        "sched_clock_stable": facts.sched_clock_stable,
        "stamping_nics": facts.stamping_nics,
        "receiving_nics": facts.receiving_nics,
        "mptcp": { "enabled": facts.mptcp, "measured": false },
        "hooks": report.hooks.iter().map(hook).collect::<Vec<_>>(),
        "interfaces": report.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "physical_interfaces": report.physical,
        "plan": plan(&report.plan),
        "parts": parts(&report.plan),
        "host_path": { "available": host_path.is_none(), "reason": host_path },
        "udp": report.plan.udp.map_or_else(absent, |datagrams| hooks(&datagrams)),
        "notifications": {
            "entries": trial(&report.completions.entries),
            "tcp_stamps": trial(&report.completions.tcp_stamps),
        },
        "library": library(&report.library),
        "obstacles": report.obstacles,
        "self_test": self_test(&report.self_test),
    })
}

fn names<T: ToString>(items: impl Iterator<Item = T>) -> Vec<String> {
    items.map(|item| item.to_string()).collect()
}

fn hook(hook: &TriedHook) -> Value {
    let (state, reason) = state(&hook.trial);
    json!({ "hook": hook.section, "used": hook.used, "state": state, "reason": reason })
}

fn trial(trial: &Trial) -> Value {
    let (state, reason) = state(trial);
    json!({ "state": state, "reason": reason.map(in_words) })
}

fn state(trial: &Trial) -> (&'static str, Option<&str>) {
    match trial {
        Trial::Works => ("works", None),
        Trial::Refused(reason) => ("refused", Some(reason)),
        Trial::Unknown(reason) => ("unknown", Some(reason)),
    }
}

fn library(library: &Library) -> Value {
    json!({
        "missing_options": library.missing_options.as_ref().map(|flags| names(flags.iter())),
        "own_ids": library.own_ids,
        "returned_by_sends": library.returned_by_sends,
    })
}

fn interface((name, can): &(String, InterfaceCapabilities)) -> Value {
    json!({
        "name": name,
        "tx_software": can.tx_software,
        "tx_hardware": can.tx_hardware,
        "rx_software": can.rx_software,
        "rx_hardware": can.rx_hardware,
        "phc_index": can.phc_index,
    })
}

fn plan(plan: &Plan) -> Map<String, Value> {
    plan.methods()
        .map(|(stage, found)| (stage.name().to_owned(), method(found)))
        .collect()
}

/// By stage, so that parts of the same name are distinguished.
fn parts(plan: &Plan) -> Map<String, Value> {
    let mut stages = Map::new();
    for (part, reason) in plan.parts() {
        let of_stage = stages
            .entry(part.stage().name())
            .or_insert_with(|| Value::Object(Map::new()));
        of_stage[part.name()] = json!({ "absent": reason.map(|reason| reason.to_string()) });
    }
    stages
}

fn method(method: &Method) -> Value {
    method.absent().map_or_else(|| hooks(method), absent)
}

fn hooks(method: &impl ToString) -> Value {
    json!({ "hooks": method.to_string() })
}

fn absent(reason: Reason) -> Value {
    json!({ "absent": reason.to_string() })
}

fn self_test(test: &SelfTest) -> Value {
    match test {
        SelfTest::Done { messages, valid } => json!({ "messages": messages, "valid": valid }),
        SelfTest::Failed(reason) => json!({ "failed": reason }),
        SelfTest::NotRun => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{capable, unprivileged};

    use super::*;

    #[test]
    fn names_and_types_are_stable() {
        let found = report(&capable());
        let mut names: Vec<_> = found
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "bpf_timestamping",
                "btf",
                "capabilities",
                "cgroup2",
                "hooks",
                "host_path",
                "interfaces",
                "kernel",
                "library",
                "missing_capabilities",
                "mptcp",
                "notifications",
                "obstacles",
                "parts",
                "physical_interfaces",
                "plan",
                "ready",
                "receive_stamping",
                "receiving_nics",
                "sched_clock_stable",
                "self_test",
                "stamping_nics",
                "udp",
                "version",
            ]
        );
        assert_eq!(found["version"], 1);
        assert_eq!(
            found["plan"]["tx.copy"],
            json!({ "hooks": "sockops HDR_OPT_LEN → TSTAMP_SENDMSG" })
        );
        assert_eq!(
            found["parts"]["tx.copy"],
            json!({ "sndbuf": { "absent": "not seen by this entry" } })
        );
        assert_eq!(
            found["parts"]["rx.wakeup"]["throttled"],
            json!({ "absent": null })
        );
        assert_eq!(
            found["plan"]["tx.nic"],
            json!({ "absent": "NIC clock unused" })
        );
        assert_eq!(
            found["notifications"]["tcp_stamps"],
            json!({ "state": "refused", "reason": "no BPF timestamping" })
        );
        assert_eq!(
            found["library"],
            json!({
                "missing_options": ["SOF_TIMESTAMPING_TX_COMPLETION"],
                "own_ids": true,
                "returned_by_sends": false,
            })
        );
        assert_eq!(found["self_test"], json!({ "messages": 40, "valid": 40 }));
        assert_eq!(
            found["hooks"][0],
            json!({ "hook": "sockops", "used": true, "state": "works", "reason": null })
        );
    }

    #[test]
    fn unknown_facts_are_null_or_unknown() {
        let found = report(&unprivileged());
        assert_eq!(found["ready"], false);
        assert_eq!(found["receive_stamping"], Value::Null);
        assert_eq!(found["self_test"], Value::Null);
        assert_eq!(found["library"]["own_ids"], Value::Null);
        assert_eq!(found["hooks"][0]["state"], "unknown");
        assert_eq!(
            found["missing_capabilities"],
            json!(["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"])
        );
    }
}
