//! `sockstamp doctor`: facts, the plan that follows, and how to get what is missing.

mod json;
mod self_test;
mod text;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use sockstamp::ReceiveStamping;
use sockstamp::interface::{self, InterfaceCapabilities};
use sockstamp_bpf::completions::Offer;
use sockstamp_bpf::hooks::{self, Hook};
use sockstamp_bpf::plan::{self, Plan};
use sockstamp_bpf::support::{Capability, Support};

use crate::cli::{self, Format};
use self_test::SelfTest;

/// Everything that is printed.
pub(crate) struct Report {
    support: Support,
    /// In this network namespace.
    interfaces: Vec<(String, InterfaceCapabilities)>,
    /// Those of them that are devices on a bus; `None` if that could not be seen.
    physical: Option<Vec<String>>,
    /// Why packets cannot be followed through this host, if so.
    host_path_obstacle: Option<&'static str>,
    /// Before we switched it on ourselves; `None` if that could not be seen.
    receive_stamping: Option<bool>,
    hooks: Vec<Hook>,
    plan: Plan,
    completions: Offer,
    missing_capabilities: Vec<Capability>,
    /// What keeps sockstamp from measuring here, and what to do about it; empty if nothing does.
    obstacles: Vec<String>,
    self_test: SelfTest,
}

impl Report {
    fn gather() -> Result<Self> {
        // First, since every measurement, also that of the self-test, switches it on.
        let receive_stamping = ReceiveStamping::is_on().ok();
        let support = Support::probe();
        let hooks = hooks::try_all(&support)?;
        let support = support.after(&hooks);
        let obstacles = plan::obstacles(&support);
        let interfaces = interfaces();
        Ok(Self {
            physical: physical(interfaces.iter().map(|(name, _)| name.as_str())),
            host_path_obstacle: plan::host_path_obstacle(&support),
            interfaces,
            receive_stamping,
            hooks,
            plan: Plan::new(&support),
            completions: Offer::try_all(&support),
            missing_capabilities: plan::missing_capabilities(&support),
            self_test: if obstacles.is_empty() {
                self_test::run()
            } else {
                SelfTest::NotRun
            },
            obstacles: obstacles.iter().map(ToString::to_string).collect(),
            support,
        })
    }
}

/// One that vanishes meanwhile is left out.
fn interfaces() -> Vec<(String, InterfaceCapabilities)> {
    let names = interface::names().unwrap_or_default().into_iter();
    names
        .filter_map(|name| interface::capabilities(&name).ok().map(|can| (name, can)))
        .collect()
}

/// What the kernel says of an interface, sysfs(5). It may be mounted for another network namespace than ours.
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

pub(crate) fn run(options: &cli::Doctor) -> Result<ExitCode> {
    let report = Report::gather()?;
    let printed = match options.format {
        Format::Text => text::report(&report),
        Format::Json => json::line(&report)?,
    };
    match io::stdout().write_all(printed.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use sockstamp_bpf::hooks::Trial;
    use sockstamp_bpf::support::Tracepoint;

    use super::*;

    fn hook(section: &str, used: bool, trial: Trial) -> Hook {
        Hook {
            section: section.into(),
            used,
            trial,
        }
    }

    /// What a host has that lacks nothing but fentry and the entry of sends.
    pub(crate) fn capable() -> Report {
        let support = Support {
            kernel: "6.15.0-example".into(),
            capabilities: Capability::ALL.map(|capability| (capability, true)).into(),
            tracepoints: Tracepoint::ALL
                .map(|tracepoint| (tracepoint, tracepoint != Tracepoint::TcpSendmsgLocked))
                .into(),
            mptcp: true,
            nic_clock: true,
            processors: 4,
            ..Support::complete()
        };
        let stamps = |hardware, phc_index| InterfaceCapabilities {
            tx_software: true,
            tx_hardware: hardware,
            rx_software: true,
            rx_hardware: hardware,
            phc_index,
        };
        Report {
            interfaces: vec![
                ("lo".into(), stamps(false, None)),
                ("eth0".into(), stamps(true, Some(1))),
                ("dummy0".into(), InterfaceCapabilities::default()),
            ],
            physical: Some(vec!["eth0".into()]),
            host_path_obstacle: plan::host_path_obstacle(&support),
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
            plan: Plan::new(&support),
            completions: Offer {
                entries: Trial::Works,
                tcp_stamps: Trial::Refused("no BPF timestamping".into()),
            },
            missing_capabilities: Vec::new(),
            obstacles: Vec::new(),
            self_test: SelfTest::Done {
                messages: 40,
                valid: 40,
            },
            support,
        }
    }

    /// The same host, seen by a process without any privilege.
    pub(crate) fn unprivileged() -> Report {
        let capable = capable();
        let support = Support {
            capabilities: BTreeMap::new(),
            mptcp: false,
            ..capable.support
        };
        let unknown = |section: &str| hook(section, true, Trial::Unknown("missing capabilities".into()));
        Report {
            physical: Some(Vec::new()),
            host_path_obstacle: Some("needs tracepoint net_dev_start_xmit"),
            receive_stamping: None,
            hooks: vec![unknown("sockops")],
            completions: Offer {
                entries: Trial::Unknown("missing capabilities".into()),
                tcp_stamps: Trial::Unknown("missing capabilities".into()),
            },
            missing_capabilities: plan::missing_capabilities(&support),
            obstacles: plan::obstacles(&support)
                .iter()
                .map(ToString::to_string)
                .collect(),
            self_test: SelfTest::NotRun,
            support,
            ..capable
        }
    }
}
