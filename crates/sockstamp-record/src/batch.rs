//! Messages as columns, in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use sockstamp_model::container::Container;
use sockstamp_model::flow::{CgroupId, Flow, Opened};
use sockstamp_model::message::{Interfaces, Message};
use sockstamp_model::name::Name;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;

use crate::encode::Levels;
use crate::schema::{ALWAYS, FLAGS, PARTS, SOMETIMES, STAMPS, parts};
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
    pub(crate) unpaired: Option<Unpaired>,
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
            unpaired: message.unpaired,
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
            && self.unpaired == message.unpaired
            && self.pid == message.pid
            && self.comm == message.comm
            && self.interfaces == message.interfaces
            && self.verdict == message.verdict
    }
}

/// The columns of integers that rows may lack, in the order of `schema::optional_integers`.
const OPTIONAL: usize = SOMETIMES.len() + Stage::COUNT + PARTS + STAMPS;
/// A bit for each of them.
type Present = u64;
const _: () = assert!(OPTIONAL <= Present::BITS as usize);

/// Rows whose values stay in the caches.
const CACHED: usize = 256;

/// The integers that rows may lack: those of a row lie side by side, since most columns are empty
/// in most rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sparse {
    values: Vec<i64>,
    /// Of each row the columns that it has, and the place of its first value.
    rows: Vec<(Present, u32)>,
    /// The columns that some row has.
    any: Present,
}

impl Sparse {
    /// Add a row.
    fn push(&mut self, columns: impl Iterator<Item = Option<i64>>) {
        // A row group has fewer values than 2^32.
        let first = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let mut present = 0;
        columns.enumerate().for_each(|(column, value)| {
            if let Some(value) = value {
                present |= 1 << column;
                self.values.push(value);
            }
        });
        self.rows.push((present, first));
        self.any |= present;
    }

    fn clear(&mut self) {
        self.values.clear();
        self.rows.clear();
        self.any = 0;
    }

    /// Return the columns, with the rows in this order.
    pub(crate) fn columns(&self, order: &[u32]) -> Vec<Optional> {
        let mut columns = vec![Optional::default(); OPTIONAL];
        for column in bits(self.any) {
            columns[column].values.reserve(order.len());
        }
        let is_alike = |&a: &u32, &b: &u32| self.rows[a as usize].0 == self.rows[b as usize].0;
        // All rows together are larger than the caches.
        let runs = order.chunk_by(is_alike).flat_map(|run| run.chunks(CACHED));
        let mut firsts = Vec::with_capacity(CACHED);
        for run in runs {
            let (present, _) = self.rows[run[0] as usize];
            firsts.clear();
            firsts.extend(run.iter().map(|&row| self.rows[row as usize].1 as usize));
            for (index, column) in bits(present).enumerate() {
                let values = firsts.iter().map(|first| self.values[first + index]);
                columns[column].values.extend(values);
            }
            for column in bits(self.any) {
                columns[column]
                    .levels
                    .push(present >> column & 1 == 1, run.len());
            }
        }
        columns
    }
}

/// Iterate over the columns whose bit is set.
fn bits(mut present: Present) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let column = present.trailing_zeros();
        // The lowest bit.
        present &= present.checked_sub(1)?;
        Some(column as usize)
    })
}

/// A column that rows may lack.
#[derive(Debug, Clone, Default)]
pub(crate) struct Optional {
    /// The values that are there.
    pub(crate) values: Vec<i64>,
    /// The rows that have one. Empty if none has.
    pub(crate) levels: Levels,
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
    pub(crate) sparse: Sparse,
    /// Identities of some rows before, by [`slot`].
    recent: [u32; RECENT],
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            known: HashMap::new(),
            identities: Vec::new(),
            rows: Vec::new(),
            flags: Default::default(),
            always: Default::default(),
            sparse: Sparse::default(),
            recent: [0; RECENT],
        }
    }
}

/// Places of identities that are looked at before all of them are searched: two directions of
/// flows by the lowest byte of their cookie.
const RECENT: usize = 2 * 256;

/// Return the place for the identity of such messages: other flows may have the same.
fn slot(message: &Message) -> usize {
    let [low, ..] = message.flow.cookie.0.to_le_bytes();
    usize::from(low) << 1 | message.direction as usize
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
        self.sparse.clear();
    }

    /// Add a message. Its group is left out: that has a meaning to its session alone.
    pub fn push(&mut self, message: &Message) {
        let identity = self.identity(message);
        self.rows.push(identity);
        let flags = [
            message.coalesced,
            message.ack_with_data,
            message.is_pipelined(),
        ];
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
            message.nic_bound.map(|bound| bound.0.cast_signed()),
        ];
        let stages = message.stages.iter().map(|(_, stage)| *stage);
        let parts = parts().map(|part| message.parts[part]);
        let durations = stages
            .chain(parts)
            .map(|duration| duration.map(|duration| duration.0.cast_signed()));
        let moved = stored
            .moved
            .map(|distance| (distance != 0).then_some(distance));
        self.sparse
            .push(sometimes.into_iter().chain(durations).chain(moved));
    }

    fn identity(&mut self, message: &Message) -> u32 {
        let slot = slot(message);
        let recent = self.recent[slot];
        let is_recent = |identity: &Identity| identity.is_of(message);
        if self.identities.get(recent as usize).is_some_and(is_recent) {
            return recent;
        }
        let place = self.search(message);
        self.recent[slot] = place;
        place
    }

    /// Find an identity among all, or add it.
    fn search(&mut self, message: &Message) -> u32 {
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
