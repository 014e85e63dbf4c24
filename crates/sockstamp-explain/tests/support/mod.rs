//! Make messages up.

use fastrand::Rng;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::part::PartMap;
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::verdict::Verdict;

/// Return a read of this flow in this second, with these stages.
pub fn message(flow: u64, second: u64, nanos: impl Fn(Stage) -> Option<Nanos>) -> Message {
    Message {
        direction: Direction::Rx,
        flow: Flow {
            netns: NetnsInode(1),
            protocol: Protocol::Tcp,
            local: "10.0.0.1:443".parse().unwrap(),
            remote: "10.0.0.2:50000".parse().unwrap(),
            cookie: SocketCookie(flow),
        },
        cgroup: CgroupId(1),
        group: None,
        pid: 1,
        comm: "server".into(),
        bytes: 100,
        weight: 1,
        retransmits: 0,
        repeats: 0,
        coalesced: false,
        ack_with_data: false,
        pipelined: false,
        min_rtt: None,
        seq_end: 1,
        stages: StageMap::from_fn(nanos),
        parts: PartMap::default(),
        stamps: Stamps::default(),
        oldest_age: None,
        time: Timestamp::from_nanos(second * 1_000_000_000),
        interfaces: Interfaces::default(),
        verdict: Verdict::Valid,
    }
}

/// A duration of a Pareto distribution: half of them are below `median`, and its variance is
/// infinite.
pub fn heavy(rng: &mut Rng, median: f64) -> f64 {
    let scale = median / 2_f64.powf(1.0 / 1.8);
    scale / (1.0 - rng.f64()).powf(1.0 / 1.8)
}
