//! The messages of groups, as series that only grow.
//!
//! A reading of the kernel has the counts of each group since the start of the measurement. The
//! ledger adds the difference from the last reading to the **series** of the group's labels, so a
//! series continues when a group ends and returns, and when a new measurement begins. The number of
//! series is bounded. Groups without room are in one more series, the **overflow**: nothing is left
//! out.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sockstamp_model::group::{GroupDirection, GroupKey, GroupSummary};
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::Stage;

use crate::buckets::BUCKETS;
use crate::catalogue::{EXPIRED, GROUPS, REFUSED_GROUPS};
use crate::exemplar::OfGroup;
use crate::exposition::{Exposition, Labelled};
use crate::labels::Labels;
use crate::point::Value;

/// The label of the overflow: OpenTelemetry, "Metrics SDK", section "Overflow attribute", as
/// Prometheus writes it.
pub(crate) const OVERFLOW: &str = "otel_metric_overflow";

/// The series of a histogram: its buckets, sum and count.
pub const SERIES_PER_HISTOGRAM: usize = BUCKETS + 2;

/// The series that one group may need of the largest metric: a histogram per stage.
pub const SERIES_PER_GROUP: usize = Stage::OF_ONE_HOST * SERIES_PER_HISTOGRAM;

/// Bounds of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Series that one metric may have, the overflow's not counted.
    pub series: usize,
    /// Series end when nothing was counted for this time, and the group has ended.
    pub expire: Duration,
}

/// One reading of the groups of a measurement. A key may come more than once, from groups that
/// ended.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The groups, those that ended since the last reading among them.
    pub groups: Vec<GroupSummary>,
    /// The messages whose group is not known.
    pub rest: GroupSummary,
}

/// The knowledge about groups that a ledger needs.
pub trait Naming {
    /// Return the labels of a group. Groups with the same labels share their series.
    fn labels(&self, key: &GroupKey) -> Labels;

    /// Return true if the group must have no series.
    fn is_left_out(&self, _: &GroupKey) -> bool {
        false
    }

    /// Return true if the labels of the group are not known yet, but will be soon. Until then
    /// nothing is counted of it; of a group that has ended, at once.
    fn is_awaited(&self, _: &GroupKey) -> bool {
        false
    }

    /// Return true if the group may still send or read.
    fn is_alive(&self, key: &GroupKey) -> bool;
}

#[derive(Debug)]
struct Series {
    total: Arc<GroupSummary>,
    /// The group that was counted last, and when.
    group: Arc<GroupSummary>,
    grown: Duration,
    /// The reading before its first: nothing was counted until then.
    since: Duration,
}

/// A group that is found by its key, of which it has the only copy.
#[derive(Debug)]
struct ByKey(Arc<GroupSummary>);

impl Borrow<GroupKey> for ByKey {
    fn borrow(&self) -> &GroupKey {
        &self.0.key
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

type Counts = BTreeSet<ByKey>;

/// The series of all groups.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    series: BTreeMap<Arc<Labels>, Series>,
    overflow: GroupSummary,
    /// The counts at the last reading. A series that only one group has filled shares its counts.
    last: Counts,
    last_rest: GroupSummary,
    read_at: Duration,
    refused: u64,
    expired: u64,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            series: BTreeMap::new(),
            overflow: GroupSummary::default(),
            last: Counts::new(),
            last_rest: GroupSummary::default(),
            read_at: Duration::ZERO,
            refused: 0,
            expired: 0,
        }
    }

    /// Set other bounds; series that there are stay.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// End all series, because groups have other labels from now on.
    pub fn forget(&mut self) {
        self.series.clear();
    }

    /// Read the counts of a new measurement, without adding them.
    pub fn begin(&mut self, reading: Reading) {
        let counts = sum_by_key(reading.groups).into_values();
        self.last = counts.map(|group| ByKey(Arc::new(group))).collect();
        self.last_rest = reading.rest;
    }

    /// Add the counts since the last reading. `ended` are groups that no later reading has.
    pub fn add(
        &mut self,
        now: Duration,
        reading: Reading,
        ended: Vec<GroupSummary>,
        naming: &impl Naming,
    ) {
        let mut addition = self.read(now, ended, naming);
        for group in sum_by_key(reading.groups).into_values() {
            addition.add(group);
        }
        addition.end(reading.rest);
    }

    /// Begin to add the counts since the last reading, group by group: all at once would take as
    /// much memory again. `ended` are groups that no later reading has.
    pub fn read<'a, N: Naming>(
        &'a mut self,
        now: Duration,
        ended: Vec<GroupSummary>,
        naming: &'a N,
    ) -> Addition<'a, N> {
        Addition {
            last: std::mem::take(&mut self.last),
            ended: sum_by_key(ended),
            ledger: self,
            now,
            naming,
        }
    }

    /// Add to the series of a group that has counted this much by now, and `last` before.
    fn grow(
        &mut self,
        now: Duration,
        last: Option<Arc<GroupSummary>>,
        counted: &Arc<GroupSummary>,
        naming: &impl Naming,
    ) {
        if last.as_ref() == Some(counted) || naming.is_left_out(&counted.key) {
            return;
        }
        let has_room = (self.series.len() + 1) * SERIES_PER_GROUP <= self.limits.series;
        match self.series.entry(Arc::new(naming.labels(&counted.key))) {
            Entry::Occupied(mut place) => {
                let series = place.get_mut();
                series.grow(last, counted);
                series.grown = now;
                series.group = Arc::clone(counted);
            }
            Entry::Vacant(place) if has_room => {
                place.insert(Series {
                    group: Arc::clone(counted),
                    total: last.map_or_else(
                        || Arc::clone(counted),
                        |last| Arc::new(counted.since(&last)),
                    ),
                    grown: now,
                    since: self.read_at,
                });
            }
            Entry::Vacant(_) => {
                self.refused += 1;
                add_up(&mut self.overflow, &since(counted, last.as_deref()));
            }
        }
    }

    fn expire(&mut self, now: Duration, naming: &impl Naming) {
        let before = self.series.len();
        let expire = self.limits.expire;
        self.series.retain(|_, series| {
            now.saturating_sub(series.grown) < expire || naming.is_alive(&series.group.key)
        });
        self.expired += (before - self.series.len()) as u64;
    }

    /// Add the series to an exposition, which shares their counts until they grow.
    pub fn expose(&self, exposition: &mut Exposition) {
        exposition.add_groups(self.series.iter().map(|(labels, series)| Labelled {
            labels: Arc::clone(labels),
            counts: Arc::clone(&series.total),
            since: series.since,
            exemplars: OfGroup::default(),
        }));
        if !is_empty(&self.overflow) {
            let labels = vec![(OVERFLOW.into(), "true".to_owned())];
            exposition.add_groups([Labelled {
                labels: Arc::new(labels),
                counts: Arc::new(self.overflow.clone()),
                since: Duration::ZERO,
                exemplars: OfGroup::default(),
            }]);
        }
        exposition.add(&GROUPS, Vec::new(), Value::Count(self.series.len() as u64));
        exposition.add(&REFUSED_GROUPS, Vec::new(), Value::Count(self.refused));
        exposition.add(&EXPIRED, Vec::new(), Value::Count(self.expired));
    }
}

/// A reading of the groups by a ledger. Always [`end`](Self::end) it: if a reading is dropped, the
/// ledger forgets the groups that were not added, and would count them again.
#[derive(Debug)]
#[must_use]
pub struct Addition<'a, N> {
    ledger: &'a mut Ledger,
    now: Duration,
    /// The groups of the last reading that this one has not come to.
    last: Counts,
    /// The ended groups that are not added.
    ended: BTreeMap<GroupKey, GroupSummary>,
    naming: &'a N,
}

impl<N: Naming> Addition<'_, N> {
    /// Add a group; no other has its key.
    pub fn add(&mut self, group: GroupSummary) {
        let last = self.last.take(&group.key).map(|last| last.0);
        let ended = self.ended.remove(&group.key);
        if ended.is_none() && self.naming.is_awaited(&group.key) {
            // A later reading counts it from here on.
            self.ledger.last.extend(last.map(ByKey));
            return;
        }
        let counted = match &last {
            Some(last) if **last == group => Arc::clone(last),
            _ => Arc::new(group),
        };
        match ended {
            Some(mut all) => {
                all.merge(&counted);
                self.ledger
                    .grow(self.now, last, &Arc::new(all), self.naming);
            }
            None => self.ledger.grow(self.now, last, &counted, self.naming),
        }
        self.ledger.last.insert(ByKey(counted));
    }

    /// Add the messages whose group is not known, and end the reading.
    pub fn end(mut self, rest: GroupSummary) {
        for (key, group) in self.ended {
            let last = self.last.take(&key).map(|last| last.0);
            self.ledger
                .grow(self.now, last, &Arc::new(group), self.naming);
        }
        let ledger = self.ledger;
        add_up(&mut ledger.overflow, &rest.since(&ledger.last_rest));
        ledger.last_rest = rest;
        ledger.read_at = self.now;
        ledger.expire(self.now, self.naming);
    }
}

impl Series {
    /// Add what a group has counted since `last`.
    fn grow(&mut self, last: Option<Arc<GroupSummary>>, counted: &Arc<GroupSummary>) {
        let is_alone = last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, &self.total));
        if is_alone && !has_a_smaller_rest(counted, &self.total) {
            self.total = Arc::clone(counted);
            return;
        }
        let more = since(counted, last.as_deref());
        // The total may be shared with it, and would be copied.
        drop(last);
        add_up(Arc::make_mut(&mut self.total), &more);
        if self.total == *counted {
            self.total = Arc::clone(counted);
        }
    }
}

fn since(counted: &GroupSummary, last: Option<&GroupSummary>) -> GroupSummary {
    last.map_or_else(|| counted.clone(), |last| counted.since(last))
}

fn sum_by_key(groups: Vec<GroupSummary>) -> BTreeMap<GroupKey, GroupSummary> {
    let mut sums = BTreeMap::new();
    for group in groups {
        merge(&mut sums, group);
    }
    sums
}

fn merge(sums: &mut BTreeMap<GroupKey, GroupSummary>, group: GroupSummary) {
    match sums.entry(group.key.clone()) {
        Entry::Vacant(place) => {
            place.insert(group);
        }
        Entry::Occupied(place) => place.into_mut().merge(&group),
    }
}

fn is_empty(group: &GroupSummary) -> bool {
    let no_time = |direction: &GroupDirection| {
        direction
            .stages
            .present()
            .all(|(_, stage)| stage.is_empty())
    };
    group.messages() == 0 && group.tx.retransmits == 0 && no_time(&group.tx) && no_time(&group.rx)
}

fn add_up(total: &mut GroupSummary, more: &GroupSummary) {
    let before = [total.tx.parts, total.rx.parts];
    total.merge(more);
    for (direction, before) in [&mut total.tx, &mut total.rx].into_iter().zip(&before) {
        direction.complete_parts();
        never_less(&mut direction.parts, before);
    }
}

/// Return true if the rest of a stage is smaller than it was.
fn has_a_smaller_rest(now: &GroupSummary, before: &GroupSummary) -> bool {
    let sum = |part: &Option<PartSummary>| part.map_or(0, |part| part.sum_ns);
    let smaller = |(now, before): (&GroupDirection, &GroupDirection)| {
        let mut rests = Part::ALL.into_iter().filter(|part| part.is_rest());
        rests.any(|part| sum(&now.parts[part]) < sum(&before.parts[part]))
    };
    [(&now.tx, &before.tx), (&now.rx, &before.rx)]
        .into_iter()
        .any(smaller)
}

/// The rest of a stage is a difference of sums that were not read at the same moment: keep it from
/// shrinking.
fn never_less(parts: &mut PartMap<Option<PartSummary>>, before: &PartMap<Option<PartSummary>>) {
    for part in Part::ALL.into_iter().filter(|part| part.is_rest()) {
        if let (Some(now), Some(before)) = (&mut parts[part], &before[part]) {
            now.sum_ns = now.sum_ns.max(before.sum_ns);
        }
    }
}

#[cfg(test)]
mod tests;
