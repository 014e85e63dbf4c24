//! Messages as columns, in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use sockstamp_model::container::Container;
use sockstamp_model::flow::{CgroupId, Flow, Opened};
use sockstamp_model::message::{Interfaces, Message};
use sockstamp_model::name::Name;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;

use crate::schema::{ALWAYS, FLAGS, SOMETIMES, STAMPS, parts};
use crate::stamps;

/// The largest number of rows that a row group has: a bound on the memory of reading one.
pub const ROWS: usize = 1 << 17;

/// All that is the same for many messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) direction: Direction,
    pub(crate) flow: Flow,
    pub(crate) cgroup: CgroupId,
    pub(crate) container: Option<Arc<Container>>,
    pub(crate) opened: Option<Opened>,
    pub(crate) pid: u32,
    pub(crate) comm: Name,
    pub(crate) interfaces: Interfaces,
    pub(crate) verdict: Verdict,
}

impl Identity {
    fn of(message: &Message) -> Self {
        Self {
            direction: message.direction,
            flow: message.flow,
            cgroup: message.cgroup,
            container: message.container.clone(),
            opened: message.opened,
            pid: message.pid,
            comm: message.comm.clone(),
            interfaces: message.interfaces.clone(),
            verdict: message.verdict,
        }
    }

    fn is_of(&self, message: &Message) -> bool {
        self.direction == message.direction
            && self.flow == message.flow
            && self.cgroup == message.cgroup
            && self.container == message.container
            && self.opened == message.opened
            && self.pid == message.pid
            && self.comm == message.comm
            && self.interfaces == message.interfaces
            && self.verdict == message.verdict
    }
}

/// A column of integers that rows may lack. Rows after the last value have none, so a column that
/// no message has costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sparse {
    pub(crate) values: Vec<i64>,
    pub(crate) there: Vec<bool>,
}

impl Sparse {
    fn set(&mut self, row: usize, value: i64) {
        self.values.resize(row, 0);
        self.there.resize(row, false);
        self.values.push(value);
        self.there.push(true);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.there.clear();
    }
}

/// Messages that will be one row group.
#[derive(Debug)]
pub struct Batch {
    hasher: RandomState,
    known: HashMap<u64, Vec<u32>>,
    pub(crate) identities: Vec<Identity>,
    /// The place of each row's identity.
    pub(crate) rows: Vec<u32>,
    pub(crate) flags: [Vec<bool>; FLAGS.len()],
    pub(crate) always: [Vec<i64>; ALWAYS.len()],
    /// In the order of `schema::optional_integers`.
    pub(crate) sparse: Vec<Sparse>,
}

impl Default for Batch {
    fn default() -> Self {
        let columns = SOMETIMES.len() + Stage::COUNT + parts().count() + STAMPS;
        Self {
            hasher: RandomState::default(),
            known: HashMap::new(),
            identities: Vec::new(),
            rows: Vec::new(),
            flags: Default::default(),
            always: Default::default(),
            sparse: vec![Sparse::default(); columns],
        }
    }
}

impl Batch {
    /// Form one without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remove all rows; keep the room.
    pub(crate) fn remove_all(&mut self) {
        self.known.clear();
        self.identities.clear();
        self.rows.clear();
        self.flags.iter_mut().for_each(Vec::clear);
        self.always.iter_mut().for_each(Vec::clear);
        self.sparse.iter_mut().for_each(Sparse::clear);
    }

    /// Add a message. Its group is left out: that has a meaning to its session alone.
    pub fn push(&mut self, message: &Message) {
        let row = self.rows.len();
        let identity = self.identity(message);
        self.rows.push(identity);
        let flags = [message.coalesced, message.ack_with_data, message.pipelined];
        for (column, flag) in self.flags.iter_mut().zip(flags) {
            column.push(flag);
        }
        let stored = stamps::store(message);
        let always = [
            message.time.as_nanos().cast_signed(),
            message.bytes.cast_signed(),
            message.weight.into(),
            message.retransmits.into(),
            message.repeats.into(),
            message.seq_end.into(),
            stored.came,
        ];
        for (column, value) in self.always.iter_mut().zip(always) {
            column.push(value);
        }

        let older = message
            .oldest_age
            .map(|age| age.0.wrapping_sub(message.total().0).cast_signed());
        let sometimes = [
            message.min_rtt.map(|rtt| rtt.0.cast_signed()),
            older,
            stored.clock_offset,
            message
                .stamps
                .snd_hw
                .map(|stamp| stamp.as_nanos().cast_signed()),
            message.clock_error.map(|error| error.0.cast_signed()),
            message.cpu.map(i64::from),
        ];
        let stages = message.stages.iter().map(|(_, stage)| *stage);
        let parts = parts().map(|part| message.parts[part]);
        let durations = stages
            .chain(parts)
            .map(|duration| duration.map(|duration| duration.0.cast_signed()));
        let moved = stored
            .moved
            .map(|distance| (distance != 0).then_some(distance));
        let values = sometimes.into_iter().chain(durations).chain(moved);
        for (column, value) in self.sparse.iter_mut().zip(values) {
            if let Some(value) = value {
                column.set(row, value);
            }
        }
    }

    fn identity(&mut self, message: &Message) -> u32 {
        // Most messages follow one of the same flow, or its answer.
        let recent = self.rows.iter().rev().take(2).copied();
        for place in recent {
            if self.identities[place as usize].is_of(message) {
                return place;
            }
        }
        let hash = self.hasher.hash_one((
            message.flow,
            message.direction,
            message.pid,
            message.verdict,
            message.comm.as_bytes(),
        ));
        let known = self.known.entry(hash).or_default();
        let found = known
            .iter()
            .copied()
            .find(|&place| self.identities[place as usize].is_of(message));
        found.unwrap_or_else(|| {
            // A row group has fewer rows than 2^32.
            let place = u32::try_from(self.identities.len()).unwrap_or(u32::MAX);
            known.push(place);
            self.identities.push(Identity::of(message));
            place
        })
    }

    /// Return the rows in the order of their identities, and in that of their arrival within one:
    /// columns of the flow are runs then, and sequence numbers grow.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut starts = vec![0_u32; self.identities.len() + 1];
        for &identity in &self.rows {
            starts[identity as usize + 1] += 1;
        }
        for identity in 1..starts.len() {
            starts[identity] += starts[identity - 1];
        }
        let mut order = vec![0; self.rows.len()];
        for (row, &identity) in (0_u32..).zip(&self.rows) {
            let next = &mut starts[identity as usize];
            order[*next as usize] = row;
            *next += 1;
        }
        order
    }
}
