//! The messages of groups, as series that only grow.
//!
//! A look at the kernel gives what each group has counted since measuring began. The ledger adds
//! the difference to the last look to the **series** of the group's labels, so a series goes on
//! when a group ends and comes again, and when measuring begins anew. The number of series is
//! bounded. Groups without room are in one more, the **overflow**: nothing is left out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use sockstamp_model::group::{GroupDirection, GroupKey, GroupSummary};
use sockstamp_model::part::{Part, PartMap, PartSummary};
use sockstamp_model::stage::Stage;

use crate::buckets::BUCKETS;
use crate::catalogue::{EXPIRED, GROUPS, REFUSED_GROUPS};
use crate::exposition::{Exposition, Labelled};
use crate::point::{Labels, Value};

/// The label of the overflow: OpenTelemetry, "Metrics SDK", section "Overflow attribute", as
/// Prometheus writes it.
pub(crate) const OVERFLOW: &str = "otel_metric_overflow";

/// The series that one group may need of the largest metric: each stage's buckets, sum and count.
pub const SERIES_PER_GROUP: usize = Stage::OF_ONE_HOST * (BUCKETS + 2);

/// Bounds of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Series that one metric may have, the overflow's not counted.
    pub series: usize,
    /// Series end when nothing was counted for this time, and the group is gone.
    pub expire: Duration,
}

/// One look at the groups of a measurement. A key may come more than once, from groups that ended.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// The groups, those that ended since the last look among them.
    pub groups: Vec<GroupSummary>,
    /// The messages whose group is not known.
    pub rest: GroupSummary,
}

/// The knowledge about groups that a ledger needs.
pub trait Naming {
    /// Return the labels of a group. Groups with the same labels share their series.
    fn labels(&self, key: &GroupKey) -> Labels;

    /// Return true if nobody wants series of the group.
    fn is_left_out(&self, _: &GroupKey) -> bool {
        false
    }

    /// Return true if the group may still send or read.
    fn is_alive(&self, key: &GroupKey) -> bool;
}

#[derive(Debug)]
struct Series {
    total: Arc<GroupSummary>,
    /// The group that was counted last, and when.
    key: GroupKey,
    grown: Duration,
    /// The look before its first: nothing was counted until then.
    since: Duration,
}

/// The series of all groups.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    series: BTreeMap<Arc<Labels>, Series>,
    overflow: GroupSummary,
    /// The counts at the last look.
    last: BTreeMap<GroupKey, GroupSummary>,
    last_rest: GroupSummary,
    looked: Duration,
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
            last: BTreeMap::new(),
            last_rest: GroupSummary::default(),
            looked: Duration::ZERO,
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

    /// Take a look at a new measurement, of which nothing is to be added so far.
    pub fn begin(&mut self, look: Look) {
        self.last = sum_by_key(look.groups);
        self.last_rest = look.rest;
    }

    /// Add what has been counted since the last look. `ended` are groups that no later look has.
    pub fn add(&mut self, now: Duration, look: Look, ended: Vec<GroupSummary>, naming: &impl Naming) {
        let live = sum_by_key(look.groups);
        let mut ended = sum_by_key(ended);
        let mut last = std::mem::take(&mut self.last);
        for (key, group) in &live {
            let last = last.remove(key);
            match ended.remove(key) {
                Some(mut counted) => {
                    counted.merge(group);
                    self.grow_since(now, last, &counted, naming);
                }
                None => self.grow_since(now, last, group, naming),
            }
        }
        for (key, group) in &ended {
            self.grow_since(now, last.remove(key), group, naming);
        }
        add_up(&mut self.overflow, &look.rest.since(&self.last_rest));
        self.last = live;
        self.last_rest = look.rest;
        self.looked = now;
        self.expire(now, naming);
    }

    fn grow_since(
        &mut self,
        now: Duration,
        last: Option<GroupSummary>,
        counted: &GroupSummary,
        naming: &impl Naming,
    ) {
        let last = last.unwrap_or_else(|| GroupSummary::new(counted.key.clone()));
        if *counted != last && !naming.is_left_out(&counted.key) {
            self.grow(now, counted.since(&last), naming);
        }
    }

    fn grow(&mut self, now: Duration, more: GroupSummary, naming: &impl Naming) {
        let has_room = (self.series.len() + 1) * SERIES_PER_GROUP <= self.limits.series;
        match self.series.entry(Arc::new(naming.labels(&more.key))) {
            Entry::Occupied(mut place) => {
                let series = place.get_mut();
                add_up(Arc::make_mut(&mut series.total), &more);
                series.grown = now;
                series.key = more.key;
            }
            Entry::Vacant(place) if has_room => {
                place.insert(Series {
                    key: more.key.clone(),
                    total: Arc::new(more),
                    grown: now,
                    since: self.looked,
                });
            }
            Entry::Vacant(_) => {
                self.refused += 1;
                add_up(&mut self.overflow, &more);
            }
        }
    }

    fn expire(&mut self, now: Duration, naming: &impl Naming) {
        let before = self.series.len();
        let expire = self.limits.expire;
        self.series
            .retain(|_, series| now.saturating_sub(series.grown) < expire || naming.is_alive(&series.key));
        self.expired += (before - self.series.len()) as u64;
    }

    /// Add the series to an exposition, which shares their counts until they grow.
    pub fn expose(&self, exposition: &mut Exposition) {
        exposition.add_groups(self.series.iter().map(|(labels, series)| Labelled {
            labels: Arc::clone(labels),
            counts: Arc::clone(&series.total),
            since: series.since,
        }));
        if !is_empty(&self.overflow) {
            let labels = vec![(OVERFLOW.into(), "true".to_owned())];
            exposition.add_groups([Labelled {
                labels: Arc::new(labels),
                counts: Arc::new(self.overflow.clone()),
                since: Duration::ZERO,
            }]);
        }
        exposition.add(&GROUPS, Vec::new(), Value::Count(self.series.len() as u64));
        exposition.add(&REFUSED_GROUPS, Vec::new(), Value::Count(self.refused));
        exposition.add(&EXPIRED, Vec::new(), Value::Count(self.expired));
    }
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
    let no_time = |direction: &GroupDirection| direction.stages.present().all(|(_, stage)| stage.is_empty());
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
