//! Sum the excess of slow messages over normal ones.

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::student::below;

use crate::chance::{Least, Spread, WRONG};
use crate::clusters::{Cluster, Clusters};
use crate::component::{Component, Kind};
use crate::episode::Episode;
use crate::times::Limits;

/// The least share of the excess that a component or a slice must carry.
pub(crate) const LEAST_SHARE: f64 = 0.3;
/// The least share that a component must carry by the lower end of its interval. Of two causes,
/// either carries the most in one recording or another.
const LEAST_ELSEWHERE: f64 = 0.05;
/// The variance of a share between recordings of the same system, beyond what the moments within
/// one tell: five points. What is rare enough to be absent from a recording leaves no trace in it.
const APART: f64 = 0.0025;
/// The least ratio of a component's part in slow messages to its part in a normal one, relative to
/// the rest of it. A stage that is always longer than the others has a larger part of the slow ones
/// already because it varies by more: if it is three times longer and heavy-tailed, by less than
/// this in 95 % of cases.
const MORE: f64 = 4.0;
/// Slow messages that take so many times longer than normal ones have a cause in any case: heavy
/// tails alone, down to those of infinite variance, reach a fifth of this.
const FAR: f64 = 100.0;
/// Half of the messages are normal, unless most are slow. If less than this part of them is, a norm
/// would be that of the few fastest.
const LEAST_NORMAL: f64 = 0.1;

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
    /// Squares of the times of slow messages.
    squares: f64,
    clusters: Clusters,
    least: Least,
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
    /// Half the width of the interval in which 95 % of other recordings have its share, for all
    /// components together; `None` if slow messages came in too few moments to tell.
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
    /// The first component makes slow messages slow, in other recordings as well.
    First,
    /// The same, but normal messages consist of it as much: it is what always takes longest.
    Usual,
    /// The first component carries most in this recording. Chance may make another one the first
    /// elsewhere.
    Suspect,
    /// Slow messages are slower by too little to matter.
    Small,
    /// No message was slow.
    NoneSlow,
    /// Messages were slow, and too few others are left to compare them with.
    NoneNormal,
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
    /// The chance that the first component is the first of another recording, too; `None` if slow
    /// messages came in too few moments to tell.
    pub again: Option<f64>,
    /// How many times as long a recording would allow the claim, if the shares stay; `None` if none
    /// would.
    pub needed: Option<f64>,
    /// A difference that would be too small to matter.
    pub least: Least,
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
            clusters: Clusters::new(&components),
            components,
            slow: 0,
            squares: 0.0,
            least: Least::default(),
        }
    }

    /// Change what is too small to matter.
    #[must_use]
    pub const fn of_at_least(mut self, least: Least) -> Self {
        self.least = least;
        self
    }

    /// Add a message; those that are neither slow nor normal are left out.
    pub fn add(&mut self, message: &Message) {
        let Some(time) = self.kind.time(message) else {
            return;
        };
        let weight = f64::from(message.weight);
        if self.limits.is_slow(time) {
            self.slow += 1;
            self.squares += (weight * time.0 as f64).powi(2);
            let eighth = self.limits.span.eighth(message);
            self.clusters.add(&self.components, eighth, message);
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
        if self.slow > 0 && self.normal.weight < LEAST_NORMAL * self.limits.messages as f64 {
            return self.without_norm();
        }
        let norms = self.normal.means();
        let weight = self.clusters.sum(|cluster| cluster.weight).max(1.0);
        let whole = self.clusters.sum(|cluster| all(cluster, &norms));
        let mut carried: Vec<Carried> = (0..self.components.len())
            .map(|place| self.carried(place, &norms, weight, whole))
            .collect();
        carried.sort_by(|one, other| other.excess.total_cmp(&one.excess));
        let mean = whole / weight;
        let norm: f64 = norms.iter().sum();
        let claim = match carried.first() {
            _ if self.slow == 0 => Claim::NoneSlow,
            _ if !self.least.is_less_than(mean, norm) => Claim::Small,
            Some(first) if first.carries_much() => match first.is_more() || mean >= FAR * norm {
                true => Claim::First,
                false => Claim::Usual,
            },
            _ => Claim::Suspect,
        };
        Explanation {
            episode: self.episode(&carried, &norms),
            again: self.again(&carried, &norms, whole),
            needed: carried.first().and_then(Carried::needed),
            kind: self.kind,
            limits: self.limits,
            slow: self.slow,
            flows: self.clusters.flows(),
            seconds: self.clusters.seconds(),
            excess: mean,
            carried,
            claim,
            least: self.least,
        }
    }

    /// Return how many messages are slow, and nothing that takes a norm.
    fn without_norm(self) -> Explanation {
        Explanation {
            kind: self.kind,
            limits: self.limits,
            slow: self.slow,
            flows: self.clusters.flows(),
            seconds: self.clusters.seconds(),
            excess: 0.0,
            carried: Vec::new(),
            claim: Claim::NoneNormal,
            again: None,
            needed: None,
            least: self.least,
            episode: None,
        }
    }

    /// Return the chance that the first component is that of another recording, too.
    fn again(&self, carried: &[Carried], norms: &[f64], whole: f64) -> Option<f64> {
        let place = |carried: &Carried| {
            let mut components = self.components.iter();
            components.position(|component| *component == carried.component)
        };
        let (first, rest) = carried.split_first()?;
        let Some(second) = rest.first() else {
            return Some(1.0);
        };
        let (one, two) = place(first).zip(place(second))?;
        let lead = first.share - second.share;
        let residual = |cluster: &Cluster| {
            excess(cluster, norms, one) - excess(cluster, norms, two) - lead * all(cluster, norms)
        };
        let spread = self.spread(norms, whole, residual)?;
        // The lead is twice as far from none as the share of one from a half.
        let chance = Spread::of_share(f64::midpoint(1.0, lead), self.messages());
        let both = spread.and(Some(Spread {
            variance: 4.0 * chance.variance,
            ..chance
        }));
        Some(below(lead / both.of_another().deviation(), both.freedom))
    }

    /// Return how many slow messages of equal time would tell as much as these (Kish).
    fn messages(&self) -> f64 {
        self.clusters.sum(Cluster::time).powi(2) / self.squares.max(1.0)
    }

    /// Return the spread of a share of the excess.
    fn spread(
        &self,
        norms: &[f64],
        whole: f64,
        residual: impl Fn(&Cluster) -> f64,
    ) -> Option<Spread> {
        let spread = self
            .clusters
            .spread(|cluster| all(cluster, norms), residual);
        let apart = Some(Spread::assumed(APART));
        (spread.filter(|_| whole > 0.0)).map(|spread| spread.and(apart))
    }

    /// Return the episode of the first component.
    fn episode(&self, carried: &[Carried], norms: &[f64]) -> Option<Episode> {
        let first = carried.first()?.component;
        let place = self
            .components
            .iter()
            .position(|component| *component == first)?;
        let [begin, last] = [self.limits.span.first, self.limits.span.last].map(second);
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
        let chance = WRONG / self.components.len() as f64;
        let residual =
            |cluster: &Cluster| excess(cluster, norms, place) - share * all(cluster, norms);
        let independent = Spread::of_share(share, self.messages());
        let spread = self.spread(norms, whole, residual);
        let margin = spread.map(|spread| spread.and(Some(independent)).of_another().margin(chance));
        let residual = |cluster: &Cluster| cluster.sums[place] - of_slow * cluster.time();
        let of_slow_margin = clusters.spread(Cluster::time, residual);
        Carried {
            component: self.components[place],
            norm: norms[place],
            excess: sum / weight,
            share,
            margin,
            of_normal: self.fractions[place] / self.normal.weight.max(1.0),
            of_slow,
            of_slow_margin: of_slow_margin.map(|spread| spread.of_another().margin(chance)),
            mostly: (self.details).main(self.components[place], self.normal.weight, weight),
        }
    }
}

const fn second(nanos: u64) -> u64 {
    nanos / 1_000_000_000
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

    /// Return true if it carries much in other recordings as well.
    fn carries_much(&self) -> bool {
        let margin = self.margin.unwrap_or(f64::INFINITY);
        self.share >= LEAST_SHARE && self.share - margin >= LEAST_ELSEWHERE
    }

    /// Return true if slow messages consist of it to another degree than normal ones.
    fn is_more(&self) -> bool {
        let least = self.of_slow - self.of_slow_margin.unwrap_or(0.0);
        // There is nothing to compare the only component with.
        let is_only = self.of_normal >= 1.0;
        is_only || least * (1.0 - self.of_normal) >= MORE * self.of_normal * (1.0 - least)
    }

    /// Return how many times as long a recording would bring its interval above the least share:
    /// deviations shrink with the root of the time.
    fn needed(&self) -> Option<f64> {
        let room = self.share - LEAST_ELSEWHERE;
        (self.share >= LEAST_SHARE).then_some((self.margin? / room).powi(2))
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
    fn what_is_seen_is_told_of_few_messages() {
        let mut few: Vec<Message> = (0..60)
            .map(|flow| read(flow, Nanos::from_micros(200)))
            .collect();
        few[30] = read(30, Nanos::from_secs(3));
        // The 99th percentile is the longest time: no message exceeds it.
        let claim = claimed(&few, Border::default());
        assert_eq!(claim, (0, Claim::NoneSlow));
        let claim = claimed(&few, Border::Time(Nanos::from_secs(10)));
        assert_eq!(claim, (0, Claim::NoneSlow));
        let claim = claimed(&few, Border::Time(Nanos::from_secs(1)));
        assert_eq!(claim, (1, Claim::Suspect));
    }

    #[test]
    fn slow_messages_that_are_hardly_slower_do_not_matter() {
        let reads: Vec<Message> = (0..3000)
            .map(|flow| read(flow, Nanos(1000 + flow)))
            .collect();
        assert_eq!(claimed(&reads, Border::default()), (30, Claim::Small));
    }
}
