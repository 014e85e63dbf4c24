//! Gather everything that `doctor` prints.

use std::path::Path;

use anyhow::Result;
use sockstamp::ReceiveStamping;
use sockstamp::interface::{self, InterfaceCapabilities};
use sockstamp_bpf::completions::Offer;
use sockstamp_bpf::facts::{Capability, Facts, TriedHook};
use sockstamp_bpf::plan::{self, Plan};
use sockstamp_bpf::{Options, probe};

use super::library::Library;
use super::self_test::{self, SelfTest};

/// Everything that is printed.
pub(super) struct Report {
    pub(super) facts: Facts,
    /// Interfaces of this network namespace.
    pub(super) interfaces: Vec<(String, InterfaceCapabilities)>,
    /// The interfaces that are devices on a bus; `None` if unknown.
    pub(super) physical: Option<Vec<String>>,
    /// The state before we switched stamping on; `None` if that could not be seen.
    pub(super) receive_stamping: Option<bool>,
    pub(super) hooks: Vec<TriedHook>,
    /// The plan of `stat` with the same options, if nothing were missing.
    pub(super) plan: Plan,
    pub(super) completions: Offer,
    pub(super) library: Library,
    pub(super) missing_capabilities: Vec<Capability>,
    /// Obstacles to measuring here, each with its remedy.
    pub(super) obstacles: Vec<String>,
    pub(super) self_test: SelfTest,
}

impl Report {
    /// Probe the host further than by looking. `options` are those of `stat`.
    pub(super) fn gather(facts: &Facts, options: &Options) -> Result<Self> {
        // First, since every measurement, also that of the self-test, switches it on.
        let receive_stamping = ReceiveStamping::is_on().ok();
        let (facts, hooks) = probe::try_all(facts, options)?;
        let request = &options.request();
        let obstacles = plan::obstacles(&facts, request);
        let interfaces = interfaces();
        Ok(Self {
            physical: physical(interfaces.iter().map(|(name, _)| name.as_str())),
            interfaces,
            receive_stamping,
            hooks,
            plan: Plan::outlook(&facts, request),
            completions: Offer::try_all(&facts),
            library: Library::probe(),
            missing_capabilities: plan::missing_capabilities(&facts),
            self_test: if obstacles.is_empty() {
                self_test::run()
            } else {
                SelfTest::NotRun
            },
            obstacles: obstacles.iter().map(ToString::to_string).collect(),
            facts,
        })
    }

    /// Return true if `stat` would measure here.
    pub(super) fn can_measure(&self) -> bool {
        self.obstacles.is_empty() && !matches!(self.self_test, SelfTest::Failed(_))
    }
}

/// Leave out an interface that vanishes meanwhile.
fn interfaces() -> Vec<(String, InterfaceCapabilities)> {
    let names = interface::names().unwrap_or_default().into_iter();
    names
        .filter_map(|name| interface::capabilities(&name).ok().map(|can| (name, can)))
        .collect()
}

/// Return the interfaces that are physical according to sysfs(5), which may be mounted for another
/// network namespace.
fn physical<'a>(names: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let mut physical = Vec::new();
    for name in names {
        let directory = Path::new("/sys/class/net").join(name);
        if !directory.exists() {
            return None;
        }
        if directory.join("device").exists() {
            physical.push(name.to_owned());
        }
    }
    Some(physical)
}

#[cfg(test)]
pub(super) mod tests {
    use sockstamp::timestamping::Flag;
    use sockstamp_bpf::facts::{Tracepoint, Trial};
    use sockstamp_bpf::plan::{Reason, Request};

    use super::*;

    fn hook(section: &str, used: bool, trial: Trial) -> TriedHook {
        TriedHook {
            section: section.into(),
            used,
            trial,
        }
    }

    /// Return a host that lacks only fentry and the entry of sends.
    pub(in super::super) fn capable() -> Report {
        let facts = Facts {
            kernel: "6.15.0-example".into(),
            capabilities: Capability::ALL
                .map(|capability| (capability, Some(true)))
                .into(),
            tracepoints: Tracepoint::ALL
                .map(|tracepoint| (tracepoint, Some(tracepoint != Tracepoint::TcpSendmsgLocked)))
                .into(),
            mptcp: Some(true),
            nic_clock: Some(true),
            processors: 4,
            ..Facts::complete()
        };
        let stamps = |hardware, phc_index| InterfaceCapabilities {
            tx_software: true,
            tx_hardware: hardware,
            rx_software: true,
            rx_hardware: hardware,
            phc_index,
            rx_filters: 0,
        };
        Report {
            interfaces: vec![
                ("lo".into(), stamps(false, None)),
                ("eth0".into(), stamps(true, Some(1))),
                ("dummy0".into(), InterfaceCapabilities::default()),
            ],
            physical: Some(vec!["eth0".into()]),
            receive_stamping: Some(false),
            hooks: vec![
                hook("sockops", true, Trial::Works),
                hook(
                    "tp_btf/tcp_sendmsg_locked",
                    true,
                    Trial::Refused("No such process (os error 3)".into()),
                ),
                hook(
                    "fentry/tcp_sendmsg",
                    false,
                    Trial::Refused("Operation not permitted (os error 1)".into()),
                ),
            ],
            plan: Plan::outlook(&facts, &Request::default()),
            completions: Offer {
                entries: Trial::Works,
                tcp_stamps: Trial::Refused("no BPF timestamping".into()),
            },
            library: Library {
                missing_options: Some(vec![Flag::TxCompletion]),
                own_ids: Some(true),
                returned_by_sends: Some(false),
            },
            missing_capabilities: Vec::new(),
            obstacles: Vec::new(),
            self_test: SelfTest::Done {
                messages: 40,
                valid: 40,
            },
            facts,
        }
    }

    /// Return the same host as an unprivileged process sees it.
    pub(in super::super) fn unprivileged() -> Report {
        let capable = capable();
        let facts = Facts {
            capabilities: Capability::ALL
                .map(|capability| (capability, Some(false)))
                .into(),
            mptcp: Some(false),
            ..capable.facts
        };
        let unknown =
            |section: &str| hook(section, true, Trial::Unknown("missing capabilities".into()));
        Report {
            physical: Some(Vec::new()),
            plan: Plan {
                host_path_obstacle: Some(Reason::NeedsTracepoint(Tracepoint::NetDevStartXmit)),
                follows_datagrams: false,
                ..capable.plan
            },
            receive_stamping: None,
            hooks: vec![unknown("sockops")],
            completions: Offer {
                entries: Trial::Unknown("missing capabilities".into()),
                tcp_stamps: Trial::Unknown("missing capabilities".into()),
            },
            library: Library::default(),
            missing_capabilities: plan::missing_capabilities(&facts),
            obstacles: plan::obstacles(&facts, &Request::default())
                .iter()
                .map(ToString::to_string)
                .collect(),
            self_test: SelfTest::NotRun,
            facts,
            ..capable
        }
    }
}
