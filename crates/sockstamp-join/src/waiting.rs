//! Pairs that wait until the offset of the clocks at their time is known.
//!
//! Ten seconds of them wait, and so they are packed: most of their numbers are small, and each is
//! written in groups of seven bits (LEB128).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sockstamp_model::clock::{Clock, Nanos, Timestamp};
use sockstamp_model::part::Part;

use crate::half::Owner;
use crate::life::{Read, Sent};
use crate::pairs::Pair;
use crate::sides::{First, Host, Stamp};

/// Nanoseconds of a bin.
const BIN: u64 = 250_000_000;

/// Pairs by their moments.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bins: BTreeMap<u64, Bin>,
}

impl Waiting {
    pub(crate) fn add(&mut self, pair: &Pair) {
        let moment = pair.moment().as_nanos();
        let bin = self.bins.entry(moment / BIN).or_default();
        bin.moment = bin.moment.max(moment);
        bin.time = bin.time.max(pair.time());
        bin.pack(pair);
    }

    /// Return the newest moment of the bins that have no message since a time of the first host's
    /// CLOCK_REALTIME.
    pub(crate) fn newest(&self, before: u64) -> Option<Stamp<First>> {
        let old = self.bins.values().filter(|bin| bin.time < before);
        old.map(|bin| Timestamp::from_nanos(bin.moment)).max()
    }

    /// Remove the first bin if it ends before a moment; return its pairs.
    pub(crate) fn next(&mut self, before: Stamp<First>) -> Option<Pairs> {
        let bin = self.bins.first_entry()?;
        (bin.get().moment < before.as_nanos()).then(|| Pairs::of(bin.remove()))
    }
}

/// Packed pairs.
#[derive(Debug, Default)]
struct Bin {
    /// The newest moment, and the newest time of the first host's CLOCK_REALTIME.
    moment: u64,
    time: u64,
    owners: Owners,
    bytes: Vec<u8>,
}

/// The owners of pairs, each once.
#[derive(Debug, Default)]
struct Owners {
    all: Vec<Arc<Owner>>,
    /// Their places by their addresses in memory.
    places: HashMap<usize, u64>,
    /// The last sender and the last reader: most pairs have those of the pair before.
    last: [(usize, u64); 2],
}

impl Owners {
    fn place(&mut self, end: usize, owner: &Arc<Owner>) -> u64 {
        let address = Arc::as_ptr(owner).addr();
        if self.last[end].0 == address {
            return self.last[end].1;
        }
        let all = &mut self.all;
        let place = *self.places.entry(address).or_insert_with(|| {
            all.push(Arc::clone(owner));
            all.len() as u64 - 1
        });
        self.last[end] = (address, place);
        place
    }
}

impl Bin {
    fn pack(&mut self, pair: &Pair) {
        let owners = [&pair.sender, &pair.reader];
        let [sender, reader] = [0, 1].map(|end| self.owners.place(end, owners[end]));
        let bytes = &mut Packer(&mut self.bytes);
        let (sent, read) = (&pair.sent, &pair.read);
        let flags = u64::from(sent.coalesced)
            | u64::from(sent.acknowledged.is_some()) << 1
            | u64::from(pair.from == Host::Second) << 2;
        bytes.number(flags);
        bytes.number(sender);
        bytes.number(reader);
        bytes.number(pair.sent_at.as_nanos());
        bytes.distance(pair.sent_at.as_nanos(), pair.read_at.as_nanos());
        bytes.number(sent.bytes);
        bytes.number(sent.weight.into());
        bytes.number(sent.retransmits.into());
        bytes.number(sent.seq_end.into());
        bytes.durations(&sent.stages);
        bytes.parts(&sent.parts);
        bytes.number(sent.left.as_nanos());
        if let Some(acknowledged) = sent.acknowledged {
            bytes.distance(sent.left.as_nanos(), acknowledged.as_nanos());
        }
        bytes.number(read.weight.into());
        bytes.durations(&read.stages);
        bytes.parts(&read.parts);
        bytes.number(read.read.as_nanos());
    }
}

/// The pairs of a bin.
#[derive(Debug)]
pub(crate) struct Pairs {
    bin: Bin,
    /// Bytes that are unpacked.
    done: usize,
}

impl Pairs {
    fn of(bin: Bin) -> Self {
        Self { bin, done: 0 }
    }
}

impl Iterator for Pairs {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        let mut bytes = Unpacker(&self.bin.bytes[self.done..]);
        let pair = bytes.pair(&self.bin.owners.all);
        self.done = self.bin.bytes.len() - bytes.0.len();
        pair
    }
}

struct Packer<'a>(&'a mut Vec<u8>);

impl Packer<'_> {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// Write how far a number is from another one, to either side: the sign becomes the lowest bit.
    fn distance(&mut self, from: u64, to: u64) {
        let distance = to.wrapping_sub(from).cast_signed();
        self.number((distance << 1 ^ distance >> 63).cast_unsigned());
    }

    fn durations(&mut self, durations: &[Option<Nanos>]) {
        let there = durations.iter().rev();
        self.number(there.fold(0, |there, duration| {
            there << 1 | u64::from(duration.is_some())
        }));
        for duration in durations.iter().flatten() {
            self.number(duration.0);
        }
    }

    fn parts(&mut self, parts: &[(Part, Nanos)]) {
        self.number(parts.len() as u64);
        for (part, duration) in parts {
            self.number(*part as u64);
            self.number(duration.0);
        }
    }
}

/// Bytes that a [`Packer`] wrote; `None` at their end.
struct Unpacker<'a>(&'a [u8]);

impl Unpacker<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn short<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    fn distance(&mut self, from: u64) -> Option<u64> {
        let number = self.number()?;
        let distance = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
        Some(from.wrapping_add(distance.cast_unsigned()))
    }

    fn stamp<C: Clock>(&mut self) -> Option<Timestamp<C>> {
        self.number().map(Timestamp::from_nanos)
    }

    fn durations<const COUNT: usize>(&mut self) -> Option<[Option<Nanos>; COUNT]> {
        let there = self.number()?;
        let mut durations = [None; COUNT];
        for (index, duration) in durations.iter_mut().enumerate() {
            if there >> index & 1 == 1 {
                *duration = Some(Nanos(self.number()?));
            }
        }
        Some(durations)
    }

    fn parts(&mut self) -> Option<Box<[(Part, Nanos)]>> {
        let count: usize = self.short()?;
        let part = |_| {
            Some((
                *Part::ALL.get(self.short::<usize>()?)?,
                Nanos(self.number()?),
            ))
        };
        (0..count).map(part).collect()
    }

    fn pair(&mut self, owners: &[Arc<Owner>]) -> Option<Pair> {
        let flags = self.number()?;
        let is = |bit: u64| flags >> bit & 1 == 1;
        let sender = Arc::clone(owners.get(self.short::<usize>()?)?);
        let reader = Arc::clone(owners.get(self.short::<usize>()?)?);
        let sent_at = self.number()?;
        let read_at = self.distance(sent_at)?;
        let mut sent = Sent {
            bytes: self.number()?,
            weight: self.short()?,
            retransmits: self.short()?,
            coalesced: is(0),
            seq_end: self.short()?,
            stages: self.durations()?,
            parts: self.parts()?,
            left: self.stamp()?,
            acknowledged: None,
        };
        if is(1) {
            let acknowledged = self.distance(sent.left.as_nanos())?;
            sent.acknowledged = Some(Timestamp::from_nanos(acknowledged));
        }
        let (weight, stages, parts) = (self.short()?, self.durations()?, self.parts()?);
        Some(Pair {
            from: if is(2) { Host::Second } else { Host::First },
            sender,
            reader,
            sent_at: Timestamp::from_nanos(sent_at),
            read_at: Timestamp::from_nanos(read_at),
            sent,
            read: Read::new(weight, stages, parts, self.stamp()?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp_model::fixture;
    use sockstamp_model::message::Message;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;
    use crate::half::{Half, Stamped};

    fn message(direction: Direction, number: u64) -> Message {
        let mut message = fixture::message(direction);
        message.pid = u32::try_from(number % 3).unwrap();
        message
    }

    fn pair(from: Host, mut numbers: impl FnMut() -> u64) -> Pair {
        let owner = |direction, number| Half::from(&message(direction, number)).owner;
        let mut read = message(Direction::Rx, 0);
        read.stages[Stage::RxApp] = Some(Nanos(numbers() >> 8));
        read.stages[Stage::RxStack] = Some(Nanos(numbers() >> 8));
        read.stamps.read = Some(Timestamp::from_nanos(u64::MAX));
        let Some(Stamped::Read(Some(read))) = Half::from(&read).stamped else {
            panic!("{read:?}");
        };
        let duration = |number: u64| (!number.is_multiple_of(3)).then_some(Nanos(number));
        let short = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap();
        Pair {
            from,
            sender: owner(Direction::Tx, numbers()),
            reader: owner(Direction::Rx, numbers()),
            sent_at: Timestamp::from_nanos(numbers()),
            read_at: Timestamp::from_nanos(numbers()),
            sent: Sent {
                bytes: numbers(),
                weight: short(numbers()),
                retransmits: short(numbers()),
                coalesced: numbers() & 1 == 1,
                seq_end: short(numbers()),
                stages: [(); 4].map(|()| duration(numbers())),
                parts: Box::new([
                    (Part::Cwnd, Nanos(numbers())),
                    (Part::Sndbuf, Nanos(numbers())),
                ]),
                left: Timestamp::from_nanos(numbers()),
                acknowledged: duration(numbers()).map(|nanos| Timestamp::from_nanos(nanos.0)),
            },
            read,
        }
    }

    proptest! {
        #[test]
        fn pairs_are_unpacked_as_they_were(seed: u64, bits in 0_u32..64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bin = Bin::default();
            let pairs: Vec<Pair> = (0..20)
                .map(|number| {
                    let from = Host::ALL[usize::from(number % 2 == 1)];
                    pair(from, || random.u64(..) >> bits)
                })
                .collect();
            pairs.iter().for_each(|pair| bin.pack(pair));
            prop_assert_eq!(Pairs::of(bin).collect::<Vec<_>>(), pairs);
        }
    }

    #[test]
    fn a_bin_ends_with_its_newest_moment() {
        let mut waiting = Waiting::default();
        for moment in [3, 2 * BIN, 1, 2] {
            let mut pair = pair(Host::First, || 1 << 40);
            pair.sent.left = Timestamp::from_nanos(moment);
            pair.sent_at = Timestamp::from_nanos(1_000 + moment);
            waiting.add(&pair);
        }
        assert_eq!(waiting.newest(1_003), None);
        assert_eq!(waiting.newest(1_004), Some(Timestamp::from_nanos(3)));
        assert!(waiting.next(Timestamp::from_nanos(3)).is_none());
        let first = waiting.next(Timestamp::from_nanos(4)).unwrap();
        let moments: Vec<u64> = first.map(|pair| pair.moment().as_nanos()).collect();
        assert_eq!(moments, [3, 1, 2]);
        assert!(waiting.next(Timestamp::from_nanos(2 * BIN)).is_none());
    }
}
