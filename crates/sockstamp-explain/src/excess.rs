//! Sum the excess of slow messages over normal ones.

use std::collections::HashMap;
use std::hash::Hash;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;

use crate::CLUSTERS;
use crate::component::{Component, Kind};
use crate::times::Limits;

/// The least average excess of slow messages: no user notices less.
pub(crate) const LEAST: f64 = 1e6;
/// The least share of the excess that a component must carry, by the lower end of its interval.
pub(crate) const LEAST_SHARE: f64 = 0.3;
/// Standard deviations on either side that an interval of 95 % has.
const SIDE: f64 = 1.96;

/// Sums over slow messages of one flow, or of one second.
#[derive(Debug, Clone, Default)]
struct Cluster {
    weight: f64,
    sums: Vec<f64>,
}

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
    slow: u64,
    flows: HashMap<u64, Cluster>,
    seconds: HashMap<u64, Cluster>,
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
    /// Half the width of the share's interval of 95 %; `None` with too few flows and seconds.
    pub margin: Option<f64>,
    /// The part of its stage that carries more than half of its excess, and how much of it: of 1.
    /// Only of a component without a part.
    pub mostly: Option<(Part, f64)>,
}

/// The conclusion that the figures allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The first component makes slow messages slow.
    First,
    /// Too few flows and too few seconds had slow messages.
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
}

impl Excess {
    /// Form empty sums.
    #[must_use]
    pub fn new(kind: Kind, limits: Limits) -> Self {
        let components = kind.components();
        let normal = Cluster {
            weight: 0.0,
            sums: vec![0.0; components.len()],
        };
        Self {
            kind,
            limits,
            details: Details::of(&components),
            components,
            normal,
            slow: 0,
            flows: HashMap::new(),
            seconds: HashMap::new(),
        }
    }

    /// Add a message; those that are neither slow nor normal are left out.
    pub fn add(&mut self, message: &Message) {
        let Some(time) = self.kind.time(message) else {
            return;
        };
        let weight = f64::from(message.weight);
        if self.limits.is_slow(time) {
            self.slow += 1;
            let second = message.time.as_nanos() / 1_000_000_000;
            let of_flow = sums_of(&mut self.flows, message.flow.cookie.0, &self.components);
            of_flow.add(&self.components, message, weight);
            let of_second = sums_of(&mut self.seconds, second, &self.components);
            of_second.add(&self.components, message, weight);
            self.details.add_slow(message, weight);
        } else if self.limits.is_normal(time) {
            self.normal.add(&self.components, message, weight);
            self.details.add_normal(message, weight);
        }
    }

    /// Return the excess of the slow messages over the normal ones.
    #[must_use]
    pub fn explanation(self) -> Explanation {
        let norms: Vec<f64> = self
            .normal
            .sums
            .iter()
            .map(|sum| sum / self.normal.weight.max(1.0))
            .collect();
        let weight: f64 = self.seconds.values().map(|second| second.weight).sum();
        let weight = weight.max(1.0);
        let excess = |cluster: &Cluster, index: usize| cluster.sums[index] - cluster.weight * norms[index];
        let of_component = |index| {
            self.seconds
                .values()
                .map(|second| excess(second, index))
                .sum::<f64>()
        };
        let sums: Vec<f64> = (0..self.components.len()).map(of_component).collect();
        let whole: f64 = sums.iter().sum();

        let enough = self.flows.len().max(self.seconds.len()) >= CLUSTERS;
        let deviation = |clusters: &HashMap<u64, Cluster>, index: usize, share: f64| {
            let residual = |cluster: &Cluster| {
                let all: f64 = (0..norms.len()).map(|index| excess(cluster, index)).sum();
                excess(cluster, index) - share * all
            };
            if clusters.len() < CLUSTERS {
                return 0.0;
            }
            let squares: f64 = clusters.values().map(|cluster| residual(cluster).powi(2)).sum();
            let count = clusters.len() as f64;
            (squares * count / (count - 1.0)).sqrt() / whole
        };
        let mut carried: Vec<Carried> = (self.components.iter().enumerate())
            .map(|(index, &component)| {
                let share = if whole > 0.0 { sums[index] / whole } else { 0.0 };
                let margin = || {
                    let by_flow = deviation(&self.flows, index, share);
                    SIDE * by_flow.max(deviation(&self.seconds, index, share))
                };
                Carried {
                    component,
                    norm: norms[index],
                    excess: sums[index] / weight,
                    share,
                    margin: (enough && whole > 0.0).then(margin),
                    mostly: self.details.main(component, self.normal.weight, weight),
                }
            })
            .collect();
        carried.sort_by(|one, other| other.excess.total_cmp(&one.excess));
        let mean = whole / weight;
        let norm: f64 = norms.iter().sum();
        let stands_out = carried
            .first()
            .is_some_and(|first| first.share - first.margin.unwrap_or(0.0) >= LEAST_SHARE);
        let claim = match () {
            () if mean < LEAST || mean < norm => Claim::Nothing,
            () if !enough => Claim::TooFew,
            () if stands_out => Claim::First,
            () => Claim::Nothing,
        };
        Explanation {
            kind: self.kind,
            limits: self.limits,
            slow: self.slow,
            flows: self.flows.len(),
            seconds: self.seconds.len(),
            excess: mean,
            carried,
            claim,
        }
    }
}

fn sums_of<'a, K: Eq + Hash>(
    clusters: &'a mut HashMap<K, Cluster>,
    key: K,
    components: &[Component],
) -> &'a mut Cluster {
    clusters.entry(key).or_insert_with(|| Cluster {
        weight: 0.0,
        sums: vec![0.0; components.len()],
    })
}

impl Details {
    fn of(components: &[Component]) -> Self {
        let whole = components.iter().filter(|component| component.part.is_none());
        let parts: Vec<Part> = whole.flat_map(|component| Part::of(component.stage)).collect();
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
        let places = (0..self.parts.len())
            .filter(|&place| component.part.is_none() && self.parts[place].stage() == component.stage);
        let excesses: Vec<(Part, f64)> = places.map(|place| (self.parts[place], excess(place))).collect();
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

impl Cluster {
    fn add(&mut self, components: &[Component], message: &Message, weight: f64) {
        self.weight += weight;
        for (sum, component) in self.sums.iter_mut().zip(components) {
            *sum += weight * component.of(message).0 as f64;
        }
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
