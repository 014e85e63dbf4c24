//! Messages for tests.

mod traffic;

use crate::clock::Timestamp;
use crate::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use crate::message::{Interfaces, Message, Stamps};
use crate::part::PartMap;
use crate::stage::{Direction, StageMap};
use crate::verdict::Verdict;

pub use traffic::Traffic;

/// Return a message of a web server, without stages and stamps.
#[must_use]
pub fn message(direction: Direction) -> Message {
    Message {
        direction,
        flow: Flow {
            netns: NetnsInode(4_026_531_840),
            protocol: Protocol::Tcp,
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
            cookie: SocketCookie(77),
        },
        cgroup: CgroupId(4711),
        container: None,
        opened: None,
        group: None,
        pid: 4242,
        comm: "nginx".into(),
        cpu: None,
        bytes: 1448,
        weight: 1,
        retransmits: 0,
        repeats: 0,
        coalesced: false,
        ack_with_data: false,
        pipelined: false,
        min_rtt: None,
        clock_error: None,
        seq_end: 4_294_967_295,
        stages: StageMap::default(),
        parts: PartMap::default(),
        stamps: Stamps::default(),
        oldest_age: None,
        time: Timestamp::from_nanos(1_790_000_000_000_000_001),
        interfaces: Interfaces::default(),
        verdict: Verdict::Valid,
    }
}
