//! Rules: from what the host has to what will be used. Pure, so that each rule is tested by taking
//! one fact away.

use sockstamp_model::stage::{Stage, StageMap};

use crate::error::Error;
use crate::support::{Capability, Support, Tracepoint};

/// How a stage is measured, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The hooks whose stamps the stage lies between.
    Hooks(&'static str),
    /// Absent, for this reason in three words or so.
    Absent(&'static str),
}

/// What will be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A line a stage.
    pub stages: StageMap<Way>,
    /// Send calls: BPF timestamping callbacks are used.
    pub tx: bool,
    /// The entry of send calls is seen too.
    pub entry: bool,
    /// Read calls are measured.
    pub rx: bool,
    /// Retransmissions are counted.
    pub retransmits: bool,
    /// Messages in flight are counted when their socket goes away.
    pub close: bool,
}

impl Plan {
    /// What this host allows.
    #[must_use]
    pub fn new(support: &Support) -> Self {
        let has = |tracepoint| support.tracepoints.get(&tracepoint).copied().unwrap_or(false);
        let tx = support.tx_timestamping && support.socket_bit;
        // Without sock_send_length, the entry of a failed send would be taken for the next one's.
        let entry = tx && has(Tracepoint::TcpSendmsgLocked) && has(Tracepoint::SockSendLength);
        let rx = support.socket_bit
            && support.stamp_clock
            && has(Tracepoint::SkDataReady)
            && has(Tracepoint::SockRecvLength);
        Self {
            stages: StageMap::from_fn(|stage| way(stage, tx, entry, rx)),
            tx,
            entry,
            rx,
            retransmits: tx && has(Tracepoint::TcpRetransmitSkb),
            close: has(Tracepoint::InetSockSetState),
        }
    }

    /// The plan, if this process may carry it out and anything is left to measure.
    pub fn require(support: &Support) -> Result<Self, Error> {
        if !support.btf {
            return Err(Error::NoBtf);
        }
        if support.cgroup2.is_none() {
            return Err(Error::NoCgroup2);
        }
        let missing = missing_capabilities(support);
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
            return Err(Error::NoCapability { missing: names.join(", ") });
        }
        let plan = Self::new(support);
        if !plan.tx && !plan.rx {
            return Err(Error::NothingToMeasure {
                kernel: support.kernel.clone(),
                reason: "it has no BPF timestamping (Linux 6.15)".into(),
            });
        }
        Ok(plan)
    }

    /// The stages that will be absent, each with its reason.
    pub fn absent(&self) -> impl Iterator<Item = (Stage, &'static str)> {
        self.stages.iter().filter_map(|(stage, way)| match way {
            Way::Absent(reason) => Some((stage, *reason)),
            Way::Hooks(_) => None,
        })
    }
}

/// The capabilities that loading and attaching need and this process lacks.
#[must_use]
pub fn missing_capabilities(support: &Support) -> Vec<Capability> {
    let holds = |capability| support.capabilities.get(&capability).copied().unwrap_or(false);
    // CAP_BPF and CAP_PERFMON were split off CAP_SYS_ADMIN, which still covers them: capabilities(7).
    let covered = holds(Capability::SysAdmin);
    let mut missing = Vec::new();
    for capability in [Capability::Bpf, Capability::Perfmon] {
        if !covered && !holds(capability) {
            missing.push(capability);
        }
    }
    if !holds(Capability::NetAdmin) {
        missing.push(Capability::NetAdmin);
    }
    missing
}

const NO_CALLBACKS: &str = "needs Linux 6.15";

fn way(stage: Stage, tx: bool, entry: bool, rx: bool) -> Way {
    let tx_way = |hooks| if tx { Way::Hooks(hooks) } else { Way::Absent(NO_CALLBACKS) };
    let rx_way = |hooks| if rx { Way::Hooks(hooks) } else { Way::Absent(NO_CALLBACKS) };
    match stage {
        Stage::TxCopy if tx && !entry => Way::Absent("needs Linux 6.16"),
        Stage::TxCopy => tx_way("tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG"),
        Stage::TxQueue => tx_way("sockops TSTAMP_SENDMSG → TSTAMP_SCHED"),
        Stage::TxQdisc => tx_way("sockops TSTAMP_SCHED → TSTAMP_SND_SW"),
        Stage::TxNetwork => tx_way("sockops TSTAMP_SND_SW → TSTAMP_ACK"),
        Stage::RxStack => rx_way("RX software stamp → tp sk_data_ready"),
        Stage::RxApp => rx_way("tp sk_data_ready → tp sock_recv_length"),
        Stage::TxNic | Stage::RxNic => Way::Absent("no NIC clock"),
        Stage::RxHol => Way::Absent("within rx.stack"),
        Stage::RxWakeup => Way::Absent("within rx.app"),
        Stage::AppService => Way::Absent("not measured yet"),
    }
}
