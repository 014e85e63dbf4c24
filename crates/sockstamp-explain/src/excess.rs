//! Sum the excess of slow messages over normal ones.

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;

use crate::CLUSTERS;
use crate::clusters::{Cluster, Clusters, second_of, side};
use crate::component::{Component, Kind};
use crate::episode::Episode;
use crate::times::Limits;

/// The least average excess of slow messages: no user notices less.
pub(crate) const LEAST: f64 = 1e6;
/// The least share of the excess that a component must carry, by the lower end of its interval.
pub(crate) const LEAST_SHARE: f64 = 0.3;
/// The least ratio of a component's part in slow messages to its part in a normal one, relative to
/// the rest of it. A stage that is always longer than the others has a larger part of the slow ones
/// already because it varies by more: if it is three times longer and heavy-tailed, by less than
/// this in 95 % of cases.
const MORE: f64 = 4.0;
/// Slow messages that take so many times longer than normal ones have a cause in any case: heavy
/// tails alone, down to those of infinite variance, reach a fifth of this.
const FAR: f64 = 100.0;

/// Sums over parts that are known for some messages only, and that add up to no component.
#[derive(Debug)]
struct Details {
    parts: Vec<Part>,
    normal: Vec<f64>,
    slow: Vec<f64>,
}

/// Sums over messages of one kind.
#[derive(Debug)]
pub struct Excess {
    kind: Kind,
    limits: Limits,
    components: Vec<Component>,
    details: Details,
    normal: Cluster,
    /// For each component, its fraction of a normal message's time.
    fractions: Vec<f64>,
    slow: u64,
    clusters: Clusters,
    /// The first and the last second of all messages.
    time: Option<(u64, u64)>,
}

/// A stage or part, and what it carries of the excess of slow messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// The stage or part.
    pub component: Component,
    /// Its mean over normal messages, in nanoseconds.
    pub norm: f64,
    /// Its mean over slow messages less the norm, in nanoseconds; negative if it is shorter there.
    pub excess: f64,
    /// Its share of the excess of all: of 1.
    pub share: f64,
    /// Half the width of the share's interval of 95 %, for all components together; `None` with
    /// too few flows and seconds.
    pub margin: Option<f64>,
    /// Its mean fraction of the time of a normal message: of 1.
    pub of_normal: f64,
    /// Its fraction of the time of all slow messages: of 1.
    pub of_slow: f64,
    /// Half the width of that fraction's interval, as `margin`.
    pub of_slow_margin: Option<f64>,
    /// The part of its stage that carries more than half of its excess, and how much of it: of 1.
    /// Only of a component without a part.
    pub mostly: Option<(Part, f64)>,
}

/// The conclusion that the figures allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The first component makes slow messages slow.
    First,
    /// Too few flows and too few seconds had slow messages, or none had any.
    TooFew,
    /// Slow messages are hardly slower, or no component carries a large share for sure.
    Nothing,
}

/// The reasons of slow messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The time that is explained.
    pub kind: Kind,
    /// The percentiles.
    pub limits: Limits,
    /// Slow messages, each counted once.
    pub slow: u64,
    /// Flows that had some.
    pub flows: usize,
    /// Seconds that had some.
    pub seconds: usize,
    /// The mean excess of a slow message, in nanoseconds.
    pub excess: f64,
    /// The components, the largest excess first.
    pub carried: Vec<Carried>,
    /// The conclusion that the figures allow.
    pub claim: Claim,
    /// The time in which most of the first component's excess came, if that is short.
    pub episode: Option<Episode>,
}

impl Excess {
    /// Form empty sums.
    #[must_use]
    pub fn new(kind: Kind, limits: Limits) -> Self {
        let components = kind.components();
        Self {
            kind,
            limits,
            details: Details::of(&components),
            normal: Cluster::new(&components),
            fractions: vec![0.0; components.len()],
            components,
            slow: 0,
            clusters: Clusters::default(),
            time: None,
        }
    }

    /// Add a message; those that are neither slow nor normal are left out.
    pub fn add(&mut self, message: &Message) {
        let Some(time) = self.kind.time(message) else {
            return;
        };
        let second = second_of(message);
        let (first, last) = self.time.unwrap_or((second, second));
        self.time = Some((first.min(second), last.max(second)));
        let weight = f64::from(message.weight);
        if self.limits.is_slow(time) {
            self.slow += 1;
            self.clusters.add(&self.components, message);
            self.details.add_slow(message, weight);
        } else if self.limits.is_normal(time) {
            self.normal.add(&self.components, message);
            self.details.add_normal(message, weight);
            // A mean of fractions: few long messages do not decide what a normal one consists of.
            let whole = time.0.max(1) as f64;
            for (sum, component) in self.fractions.iter_mut().zip(&self.components) {
                *sum += weight * (component.of(message).0 as f64 / whole);
            }
        }
    }

    /// Return the excess of the slow messages over the normal ones.
    #[must_use]
    pub fn explanation(self) -> Explanation {
        let norms = self.normal.means();
        let weight = self.clusters.sum(|cluster| cluster.weight).max(1.0);
        let whole = self.clusters.sum(|cluster| all(cluster, &norms));
        let enough = self.clusters.flows().max(self.clusters.seconds()) >= CLUSTERS;
        let mut carried: Vec<Carried> = (0..self.components.len())
            .map(|place| self.carried(place, &norms, weight, whole))
            .collect();
        carried.sort_by(|one, other| other.excess.total_cmp(&one.excess));
        let mean = whole / weight;
        let norm: f64 = norms.iter().sum();
        let claim = match () {
            // Without a slow message there is no excess, and nothing to judge.
            () if !enough => Claim::TooFew,
            () if mean < LEAST || mean < norm => Claim::Nothing,
            () if carried
                .first()
                .is_some_and(|first| first.stands_out(mean >= FAR * norm)) =>
            {
                Claim::First
            }
            () => Claim::Nothing,
        };
        Explanation {
            episode: self.episode(&carried, &norms),
            kind: self.kind,
            limits: self.limits,
            slow: self.slow,
            flows: self.clusters.flows(),
            seconds: self.clusters.seconds(),
            excess: mean,
            carried,
            claim,
        }
    }

    /// Return the episode of the first component.
    fn episode(&self, carried: &[Carried], norms: &[f64]) -> Option<Episode> {
        let first = carried.first()?.component;
        let place = self
            .components
            .iter()
            .position(|component| *component == first)?;
        let (begin, last) = self.time?;
        let excesses = self
            .clusters
            .by_second(|cluster| excess(cluster, norms, place));
        Episode::shortest(excesses, last - begin + 1)
    }

    /// Return what the component at this place carries of the whole excess of so many messages.
    fn carried(&self, place: usize, norms: &[f64], weight: f64, whole: f64) -> Carried {
        let clusters = &self.clusters;
        let sum = clusters.sum(|cluster| excess(cluster, norms, place));
        let share = if whole > 0.0 { sum / whole } else { 0.0 };
        let time = clusters.sum(Cluster::time).max(1.0);
        let of_slow = clusters.sum(|cluster| cluster.sums[place]) / time;
        let is_enough = clusters.flows().max(clusters.seconds()) >= CLUSTERS && whole > 0.0;
        let side = side(self.components.len());
        let margin = || {
            let residual =
                |cluster: &Cluster| excess(cluster, norms, place) - share * all(cluster, norms);
            side * clusters.deviation(residual) / whole
        };
        let of_slow_margin = || {
            let residual = |cluster: &Cluster| cluster.sums[place] - of_slow * cluster.time();
            side * clusters.deviation(residual) / time
        };
        Carried {
            component: self.components[place],
            norm: norms[place],
            excess: sum / weight,
            share,
            margin: is_enough.then(margin),
            of_normal: self.fractions[place] / self.normal.weight.max(1.0),
            of_slow,
            of_slow_margin: is_enough.then(of_slow_margin),
            mostly: (self.details).main(self.components[place], self.normal.weight, weight),
        }
    }
}

/// Return a component's excess, summed over messages.
fn excess(cluster: &Cluster, norms: &[f64], place: usize) -> f64 {
    cluster.sums[place] - cluster.weight * norms[place]
}

/// Return the excess of all components.
fn all(cluster: &Cluster, norms: &[f64]) -> f64 {
    (0..norms.len())
        .map(|place| excess(cluster, norms, place))
        .sum()
}

impl Details {
    fn of(components: &[Component]) -> Self {
        let whole = components
            .iter()
            .filter(|component| component.part.is_none());
        let parts: Vec<Part> = whole
            .flat_map(|component| Part::of(component.stage))
            .collect();
        Self {
            normal: vec![0.0; parts.len()],
            slow: vec![0.0; parts.len()],
            parts,
        }
    }

    fn add_normal(&mut self, message: &Message, weight: f64) {
        add(&mut self.normal, &self.parts, message, weight);
    }

    fn add_slow(&mut self, message: &Message, weight: f64) {
        add(&mut self.slow, &self.parts, message, weight);
    }

    /// Return the part that carries most of a component's excess, unless that is the unknown rest.
    fn main(&self, component: Component, normal: f64, slow: f64) -> Option<(Part, f64)> {
        let excess = |place: usize| self.slow[place] / slow - self.normal[place] / normal.max(1.0);
        let places = (0..self.parts.len()).filter(|&place| {
            component.part.is_none() && self.parts[place].stage() == component.stage
        });
        let excesses: Vec<(Part, f64)> = places
            .map(|place| (self.parts[place], excess(place)))
            .collect();
        let whole: f64 = excesses.iter().map(|(_, excess)| excess).sum();
        let known = excesses.into_iter().filter(|(part, _)| !part.is_rest());
        let mut shares = known.map(|(part, excess)| (part, excess / whole));
        shares.find(|(_, share)| whole > 0.0 && *share > 0.5)
    }
}

fn add(sums: &mut [f64], parts: &[Part], message: &Message, weight: f64) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum += weight * message.parts[*part].unwrap_or(Nanos::ZERO).0 as f64;
    }
}

impl Carried {
    /// Return the name: that of the part that carries most of it, if there is one.
    #[must_use]
    pub fn named(&self) -> Component {
        Component {
            part: self.mostly.map(|(part, _)| part).or(self.component.part),
            ..self.component
        }
    }

    /// Return true if it carries much for sure, and is more of slow messages than of normal ones or
    /// these are far apart.
    fn stands_out(&self, are_far_apart: bool) -> bool {
        let least = self.of_slow - self.of_slow_margin.unwrap_or(0.0);
        let is_more = least * (1.0 - self.of_normal) >= MORE * self.of_normal * (1.0 - least);
        self.share - self.margin.unwrap_or(0.0) >= LEAST_SHARE && (is_more || are_far_apart)
    }
}

/// A mean as a duration, for people.
impl Carried {
    /// Return the norm.
    #[must_use]
    pub fn norm(&self) -> Nanos {
        nanos(self.norm)
    }

    /// Return the excess; zero if it is negative.
    #[must_use]
    pub fn excess(&self) -> Nanos {
        nanos(self.excess)
    }
}

impl Explanation {
    /// Return the mean of a normal message, in nanoseconds.
    #[must_use]
    pub fn norm(&self) -> f64 {
        self.carried.iter().map(|carried| carried.norm).sum()
    }

    /// Return the mean excess of a slow message.
    #[must_use]
    pub fn excess(&self) -> Nanos {
        nanos(self.excess)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn nanos(mean: f64) -> Nanos {
    Nanos(mean.round() as u64)
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;
    use crate::{Border, Times};

    /// Return a read that took this long, on a connection of its own.
    fn read(flow: u64, time: Nanos) -> Message {
        let mut message = fixture::message(Direction::Rx);
        message.flow.cookie = SocketCookie(flow);
        message.stages[Stage::RxApp] = Some(time);
        message
    }

    /// Return the number of slow reads, and the conclusion.
    fn claimed(reads: &[Message], border: Border) -> (u64, Claim) {
        let mut times = Times::new(Kind::Read);
        reads.iter().for_each(|read| times.add(read));
        let mut excess = Excess::new(Kind::Read, times.limits(border).unwrap());
        reads.iter().for_each(|read| excess.add(read));
        let explanation = excess.explanation();
        (explanation.slow, explanation.claim)
    }

    #[test]
    fn too_few_slow_messages_are_told_before_a_small_excess() {
        let mut few: Vec<Message> = (0..60)
            .map(|flow| read(flow, Nanos::from_micros(200)))
            .collect();
        few[30] = read(30, Nanos::from_secs(3));
        // The 99th percentile is the longest time: no message exceeds it.
        let claim = claimed(&few, Border::default());
        assert_eq!(claim, (0, Claim::TooFew));
        let claim = claimed(&few, Border::Time(Nanos::from_secs(10)));
        assert_eq!(claim, (0, Claim::TooFew));
        let claim = claimed(&few, Border::Time(Nanos::from_secs(1)));
        assert_eq!(claim, (1, Claim::TooFew));
    }

    #[test]
    fn enough_slow_messages_that_are_hardly_slower_do_not_stand_out() {
        let reads: Vec<Message> = (0..3000)
            .map(|flow| read(flow, Nanos(1000 + flow)))
            .collect();
        assert_eq!(claimed(&reads, Border::default()), (30, Claim::Nothing));
    }
}
