//! Find the slices of messages that are slow: the peer, the process, … with the excess.
//!
//! A **slice** is all messages with one value of one dimension. It **adds** the excess that would
//! vanish if its messages were slow as often, and by as much, as all others. Slices overlap, and a
//! process may look slow because only it talks to a slow peer. So a slice whose addition halves
//! within and without another slice yields to that slice. Two slices that halve each other cannot
//! be distinguished, and both are named.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use sockstamp_model::container::Container;
use sockstamp_model::flow::{Opened, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::size::SizeClass;

use crate::Kind;
use crate::chance::{EIGHTHS, Least, Spread, Sums as ClusterSums, WRONG, of_flows, of_time};
use crate::clusters::second_of;
use crate::excess::{Carried, Explanation, LEAST_SHARE};
use crate::lives::Lives;
use crate::times::Limits;

/// Values of a dimension that are considered: the first that occur.
const MOST_VALUES: usize = 4096;
/// A slice with more than this share of all messages explains nothing.
const MOST_COMMON: f64 = 0.6;
/// Slices that are compared with each other.
const COMPARED: usize = 8;
/// A slice yields to another if less than this share of its addition is left next to that slice.
const LEFT: f64 = 0.5;

/// A property by which messages are divided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slice {
    /// The peer's address.
    Peer(IpAddr),
    /// The port of the service.
    Port(u16),
    /// The thread's name.
    Process(Name),
    /// The container, or the service, of the socket.
    Container(Arc<Container>),
    /// The end that opened the connection.
    Opened(Opened),
    /// The CPU on which the thread sent or read.
    Cpu(u16),
    /// The interface by which they left.
    Interface(Name),
    /// The class of their number of bytes.
    Bytes(SizeClass),
    /// The messages were retransmitted.
    Retransmitted,
}

/// The dimensions, in the order of [`Slice`].
const DIMENSIONS: usize = 9;

impl Slice {
    /// Return the slice of a dimension that has a message, if one does.
    fn of(dimension: usize, message: &Message) -> Option<Self> {
        Some(match dimension {
            0 => Self::Peer(peer(message)),
            1 => Self::Port(message.service_port()),
            2 => Self::Process(message.comm.clone()),
            3 => Self::Container(Arc::clone(message.container.as_ref()?)),
            4 => Self::Opened(message.opened?),
            5 => Self::Cpu(message.cpu?),
            6 => Self::Interface(message.interfaces.first.as_ref()?.name.clone()),
            7 => Self::Bytes(SizeClass::of(message.bytes)),
            _ => return message.was_sent_again().then_some(Self::Retransmitted),
        })
    }

    pub(crate) fn has(&self, message: &Message) -> bool {
        match self {
            Self::Peer(address) => *address == peer(message),
            Self::Port(number) => *number == message.service_port(),
            Self::Process(name) => *name == message.comm,
            Self::Container(container) => message.container.as_ref() == Some(container),
            Self::Opened(opened) => message.opened == Some(*opened),
            Self::Cpu(cpu) => message.cpu == Some(*cpu),
            Self::Interface(name) => {
                let first = message.interfaces.first.as_ref();
                first.is_some_and(|interface| interface.name == *name)
            }
            Self::Bytes(class) => *class == SizeClass::of(message.bytes),
            Self::Retransmitted => message.was_sent_again(),
        }
    }

    /// The dimension and the value, as in JSON.
    #[must_use]
    pub fn named(&self) -> (&'static str, String) {
        match self {
            Self::Peer(address) => ("peer", address.to_string()),
            Self::Port(port) => ("port", port.to_string()),
            Self::Process(name) => ("comm", name.exact().into_owned()),
            Self::Container(container) => ("container", container.full_name()),
            Self::Opened(opened) => ("opened", opened.to_string()),
            Self::Cpu(cpu) => ("cpu", cpu.to_string()),
            Self::Interface(name) => ("interface", name.exact().into_owned()),
            Self::Bytes(class) => ("bytes", class.least().to_string()),
            Self::Retransmitted => ("retransmitted", "true".to_owned()),
        }
    }

    fn same_dimension(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Print `peer 10.0.0.7`, `4.10 kB to 32.8 kB`.
impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(address) => write!(f, "peer {address}"),
            Self::Port(port) => write!(f, "port {port}"),
            Self::Process(name) => write!(f, "process {name}"),
            Self::Container(container) => write!(f, "container {container}"),
            Self::Opened(Opened::Connected) => f.write_str("connections opened by this end"),
            Self::Opened(Opened::Accepted) => f.write_str("accepted connections"),
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::Interface(name) => write!(f, "interface {name}"),
            Self::Bytes(class) => {
                write!(f, "messages of {} to {} bytes", class.least(), class.most())
            }
            Self::Retransmitted => f.write_str("messages that were sent again"),
        }
    }
}

fn peer(message: &Message) -> IpAddr {
    canonical(message.flow.remote).ip()
}

/// The search for slices of one component of the slow messages of one kind.
#[derive(Debug, Clone, Copy)]
struct Question {
    kind: Kind,
    limits: Limits,
    carried: Carried,
    /// The mean of a normal message.
    norm: f64,
    least: Least,
}

/// The answer of one message, by its weight.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    weight: f64,
    /// Zero if it is not slow.
    excess: f64,
    normal: f64,
    slow: f64,
    /// Its component is longer than normal by a significant time.
    long: f64,
}

impl Question {
    fn ask(&self, message: &Message) -> Option<Answer> {
        let time = self.kind.time(message)?;
        let weight = f64::from(message.weight);
        let over = self.carried.component.of(message).0 as f64 - self.carried.norm;
        let if_so = |so: bool| if so { weight } else { 0.0 };
        let slow = self.limits.is_slow(time);
        Some(Answer {
            weight,
            excess: if slow { weight * over } else { 0.0 },
            normal: if_so(self.limits.is_normal(time)),
            slow: if_so(slow),
            long: if_so(over >= self.least.time && over >= self.norm),
        })
    }
}

/// Sums over messages, and over the slow ones of each flow and eighth of the time.
#[derive(Debug, Default)]
struct Sums {
    weight: f64,
    excess: f64,
    normal: f64,
    slow: f64,
    /// Of the excesses of slow messages.
    squares: f64,
    flows: HashMap<u64, f64>,
    eighths: [f64; EIGHTHS],
}

impl Sums {
    fn add(&mut self, message: &Message, answer: Answer, eighth: usize) {
        self.weight += answer.weight;
        self.normal += answer.normal;
        self.slow += answer.slow;
        if answer.excess == 0.0 {
            return;
        }
        self.excess += answer.excess;
        *self.flows.entry(message.flow.cookie.0).or_default() += answer.excess;
        self.squares += answer.excess.powi(2);
        self.eighths[eighth] += answer.excess;
    }
}

/// Sums over each slice.
#[derive(Debug)]
pub struct Slices {
    question: Question,
    whole: Sums,
    /// The place of each one's sums.
    places: HashMap<Slice, usize>,
    sums: Vec<Sums>,
    /// The number of values of each dimension.
    values: [usize; DIMENSIONS],
    /// The last slice of each dimension, with its place: the next message is mostly of the same.
    last: [Option<(Slice, usize)>; DIMENSIONS],
}

/// A slice, and what it adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    /// The slice.
    pub slice: Slice,
    /// The share of the component's excess that would vanish: of 1.
    pub share: f64,
    /// Half the width of the interval in which 95 % of other recordings have its share, for all
    /// slices together; `None` if slow messages came in too few moments to tell.
    pub margin: Option<f64>,
    /// Its share of all messages: of 1.
    pub common: f64,
    /// Its share of the normal messages: of 1.
    pub of_normal: f64,
    /// Its share of the slow messages: of 1.
    pub of_slow: f64,
    /// The seconds in which it had messages.
    pub seconds: usize,
    /// Flows and seconds in which most of its messages were longer than normal by a significant
    /// time.
    pub long_seconds: usize,
}

impl Addition {
    /// Return true if it adds much in other recordings as well.
    #[must_use]
    pub fn is_beyond_chance(&self) -> bool {
        self.margin
            .is_some_and(|margin| self.share - margin >= LEAST_SHARE)
    }

    /// Return true if even most of its ordinary messages take long, and false if it is slow at
    /// times.
    #[must_use]
    pub const fn is_chronic(&self) -> bool {
        self.long_seconds * 2 > self.seconds
    }
}

impl Slices {
    /// Search the slices that a component makes slow.
    #[must_use]
    pub fn new(explanation: &Explanation, carried: Carried) -> Self {
        Self {
            question: Question {
                kind: explanation.kind,
                limits: explanation.limits,
                carried,
                norm: explanation.norm(),
                least: explanation.least,
            },
            whole: Sums::default(),
            places: HashMap::new(),
            sums: Vec::new(),
            values: [0; DIMENSIONS],
            last: [const { None }; DIMENSIONS],
        }
    }

    /// Return the kind of messages.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.question.kind
    }

    /// Add a message.
    pub fn add(&mut self, message: &Message) {
        let Some(answer) = self.question.ask(message) else {
            return;
        };
        let eighth = self.question.limits.span.eighth(message);
        self.whole.add(message, answer, eighth);
        for dimension in 0..DIMENSIONS {
            if let Some(place) = self.place(dimension, message) {
                self.sums[place].add(message, answer, eighth);
            }
        }
    }

    /// Return the place of the sums of a message's slice in a dimension, if it is considered.
    fn place(&mut self, dimension: usize, message: &Message) -> Option<usize> {
        if let Some((last, place)) = &self.last[dimension]
            && last.has(message)
        {
            return Some(*place);
        }
        let slice = Slice::of(dimension, message)?;
        let place = match self.places.get(&slice) {
            Some(place) => *place,
            None if self.values[dimension] == MOST_VALUES => return None,
            None => {
                self.values[dimension] += 1;
                self.places.insert(slice.clone(), self.sums.len());
                self.sums.push(Sums::default());
                self.sums.len() - 1
            }
        };
        self.last[dimension] = Some((slice, place));
        Some(place)
    }

    /// Return the comparison of the slices that add much: first those that do so elsewhere, too.
    #[must_use]
    pub fn compare(self) -> Comparison {
        let slices = self.places.iter();
        let mut additions: Vec<Addition> = slices
            .filter_map(|(slice, &place)| self.addition(slice, &self.sums[place]))
            .filter(|addition| addition.share >= LEAST_SHARE)
            .collect();
        additions.sort_by(|one, other| {
            (other.is_beyond_chance().cmp(&one.is_beyond_chance()))
                .then_with(|| other.share.total_cmp(&one.share))
                .then_with(|| one.slice.cmp(&other.slice))
        });
        if let Some(first) = additions.iter().position(|one| !one.is_beyond_chance())
            && first > 0
        {
            additions.truncate(first);
        }
        additions.truncate(COMPARED);
        let cells = vec![[[Cell::default(); 4]; COMPARED]; additions.len()];
        Comparison {
            question: self.question,
            seconds: vec![HashMap::new(); additions.len()],
            additions,
            cells,
            lives: Lives::default(),
        }
    }

    /// Return what a slice adds.
    fn addition(&self, slice: &Slice, sums: &Sums) -> Option<Addition> {
        let whole = &self.whole;
        let common = sums.weight / whole.weight;
        if whole.excess <= 0.0 || common > MOST_COMMON {
            return None;
        }
        let of_the_rest = (whole.excess - sums.excess) / (whole.weight - sums.weight);
        let part = sums.excess / whole.excess;
        let cluster = |own: f64, all: f64| ClusterSums {
            residual: own - part * all,
            weight: all,
        };
        let flows = whole.flows.iter();
        let flows = flows.map(|(flow, all)| {
            let own = sums.flows.get(flow).copied().unwrap_or_default();
            cluster(own, *all)
        });
        let eighths = sums.eighths.iter().zip(&whole.eighths);
        let time = of_time(eighths.map(|(own, all)| cluster(*own, *all)), 1);
        let messages = whole.excess.powi(2) / whole.squares;
        let margin = time.map(|time| {
            let spread = time
                .and(of_flows(flows))
                .and(Some(Spread::of_share(part, messages)));
            spread.of_another().margin(WRONG / self.sums.len() as f64)
        });
        Some(Addition {
            slice: slice.clone(),
            share: part - sums.weight * of_the_rest / whole.excess,
            margin,
            common,
            of_normal: sums.normal / whole.normal.max(1.0),
            of_slow: sums.slow / whole.slow.max(1.0),
            seconds: 0,
            long_seconds: 0,
        })
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    weight: f64,
    excess: f64,
}

/// Slices within and without each other.
#[derive(Debug)]
pub struct Comparison {
    question: Question,
    additions: Vec<Addition>,
    /// For each slice and each other: messages in neither, in the first, in the other, in both.
    cells: Vec<[[Cell; 4]; COMPARED]>,
    /// For each slice and second, the weight of its messages, and of those that take long.
    seconds: Vec<HashMap<u64, (f64, f64)>>,
    lives: Lives,
}

impl Comparison {
    /// Return the kind of messages.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.question.kind
    }

    /// Add a message.
    pub fn add(&mut self, message: &Message) {
        let Some(answer) = self.question.ask(message) else {
            return;
        };
        if answer.slow > 0.0 {
            self.lives.add(message);
        }
        let inside: Vec<bool> = (self.additions.iter())
            .map(|addition| addition.slice.has(message))
            .collect();
        for (cells, first) in self.cells.iter_mut().zip(&inside) {
            for (cell, other) in cells.iter_mut().zip(&inside) {
                let cell = &mut cell[usize::from(*first) + 2 * usize::from(*other)];
                cell.weight += answer.weight;
                cell.excess += answer.excess;
            }
        }
        for (seconds, _) in self
            .seconds
            .iter_mut()
            .zip(&inside)
            .filter(|(_, inside)| **inside)
        {
            let (all, long) = seconds.entry(second_of(message)).or_default();
            *all += answer.weight;
            *long += answer.long;
        }
    }

    /// Return the slices that the component makes slow, and a sample of the slow messages.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Addition>, Lives) {
        for (addition, seconds) in self.additions.iter_mut().zip(&self.seconds) {
            addition.seconds = seconds.len();
            addition.long_seconds = seconds
                .values()
                .filter(|(all, long)| long * 2.0 > *all)
                .count();
        }
        (self.leaders(), self.lives)
    }

    /// Return the slice with the largest addition by itself, and after it those that cannot be
    /// distinguished from it; none if there is no such slice.
    fn leaders(&self) -> Vec<Addition> {
        let yields = |first: usize, other: usize| {
            self.left(first, other) < LEFT && self.left(other, first) >= LEFT
        };
        let count = self.additions.len();
        let leader = (0..count).find(|&first| !(0..count).any(|other| yields(first, other)));
        let Some(leader) = leader else {
            return Vec::new();
        };
        let alike = (0..count).filter(|&other| {
            let [one, two] = [leader, other].map(|place| &self.additions[place].slice);
            !one.same_dimension(two)
                && self.left(leader, other) < LEFT
                && self.left(other, leader) < LEFT
        });
        let places: Vec<usize> = std::iter::once(leader).chain(alike).collect();
        places
            .into_iter()
            .map(|place| self.additions[place].clone())
            .collect()
    }

    /// Return the share of what the first slice adds that is left if messages are compared within
    /// the other slice, and without it.
    fn left(&self, first: usize, other: usize) -> f64 {
        let cells = &self.cells[first][other];
        let added = |outside: Cell, inside: Cell| match outside.weight > 0.0 {
            true => inside.excess - inside.weight * outside.excess / outside.weight,
            // There is nothing to compare with.
            false => 0.0,
        };
        let sum = |one: Cell, two: Cell| Cell {
            weight: one.weight + two.weight,
            excess: one.excess + two.excess,
        };
        let whole = added(sum(cells[0], cells[2]), sum(cells[1], cells[3]));
        (added(cells[0], cells[1]) + added(cells[2], cells[3])) / whole
    }
}
