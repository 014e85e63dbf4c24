//! Find connections whose addresses something between the hosts changed (NAT).
//!
//! NAT leaves sequence numbers and lengths as they are. A message has both, and the two ends of a
//! direction have the same ones; another direction has one of them with a probability of one in
//! billions. So of the messages of each direction a few are kept at either end, by a hash of these
//! two numbers, which makes both ends keep the same ones. Directions that have addresses in common
//! need no more. Among the others, two ends belong together if they share at least `EVIDENCE`
//! messages, and no other pair with one of them does.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sockstamp_model::flow::{Protocol, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use crate::sides::{Host, Key};

/// Messages of a direction that are kept at an end.
const KEPT: usize = 64;

/// Messages that two ends must have in common.
const EVIDENCE: usize = 4;

/// One end of a direction: the smallest hashes of its messages.
#[derive(Debug, Default)]
struct Sketch(BTreeSet<u64>);

impl Sketch {
    fn add(&mut self, hash: u64) {
        self.0.insert(hash);
        if self.0.len() > KEPT {
            self.0.pop_last();
        }
    }
}

/// Looks for connections whose addresses were changed, in messages that are passed before they are
/// joined.
#[derive(Debug, Default)]
pub struct Nat {
    /// The directions as the sender sees them, and as the reader does.
    ends: [HashMap<Key, Sketch>; 2],
}

/// The directions of connections whose addresses were changed.
#[derive(Debug, Clone, Default)]
pub struct Translations {
    /// The addresses that the sender sees, by those that the reader sees.
    known: HashMap<Key, Key>,
    ambiguous: HashSet<Key>,
}

impl Nat {
    /// Examine a message.
    pub fn add(&mut self, host: Host, message: &Message) {
        if message.flow.protocol != Protocol::Tcp || message.is_connection() || message.bytes == 0 {
            return;
        }
        let (local, remote) = (
            canonical(message.flow.local),
            canonical(message.flow.remote),
        );
        let (end, key) = match message.direction {
            Direction::Tx => (0, (host, local, remote)),
            Direction::Rx => (1, (host.peer(), remote, local)),
        };
        let hash = mixed(u64::from(message.seq_end) << 32 ^ message.bytes);
        self.ends[end].entry(key).or_default().add(hash);
    }

    /// Return the translations that all messages together show.
    #[must_use]
    pub fn translations(&self) -> Translations {
        let [sent, read] = &self.ends;
        let alone = |ends: &HashMap<Key, Sketch>, others: &HashMap<Key, Sketch>| {
            let keys = ends.keys().filter(|key| !others.contains_key(key));
            keys.copied().collect::<BTreeSet<Key>>()
        };
        let (senders, readers) = (alone(sent, read), alone(read, sent));
        let mut by_hash: BTreeMap<(Host, u64), Vec<Key>> = BTreeMap::new();
        for key in &senders {
            for hash in &sent[key].0 {
                by_hash.entry((key.0, *hash)).or_default().push(*key);
            }
        }
        let mut candidates: BTreeMap<Key, Vec<Key>> = BTreeMap::new();
        for reader in &readers {
            let mut shared: BTreeMap<Key, usize> = BTreeMap::new();
            let hashes = read[reader].0.iter();
            for sender in hashes
                .filter_map(|hash| by_hash.get(&(reader.0, *hash)))
                .flatten()
            {
                *shared.entry(*sender).or_default() += 1;
            }
            let enough = shared.into_iter().filter(|(_, count)| *count >= EVIDENCE);
            for (sender, _) in enough {
                candidates.entry(*reader).or_default().push(sender);
            }
        }
        decide(&candidates)
    }
}

/// Keep the pairs whose ends have no other candidate.
fn decide(candidates: &BTreeMap<Key, Vec<Key>>) -> Translations {
    let mut readers: HashMap<Key, usize> = HashMap::new();
    for sender in candidates.values().flatten() {
        *readers.entry(*sender).or_default() += 1;
    }
    let mut found = Translations::default();
    for (reader, senders) in candidates {
        match &senders[..] {
            [sender] if readers[sender] == 1 => {
                found.known.insert(*reader, *sender);
            }
            senders => {
                found.ambiguous.insert(*reader);
                found.ambiguous.extend(senders);
            }
        }
    }
    found
}

impl Translations {
    /// The number of directions whose addresses were changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Return true if no addresses were changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Return a direction as its sender sees it; `None` if it may be one of several.
    pub(crate) fn of(&self, key: Key) -> Option<Key> {
        match self.known.get(&key) {
            Some(sender) => Some(*sender),
            None => (!self.ambiguous.contains(&key)).then_some(key),
        }
    }
}

/// Mix the bits of a number: the end of splitmix64.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
