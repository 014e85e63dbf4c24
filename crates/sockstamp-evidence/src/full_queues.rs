//! Looks at accept queues of services on this host, while connections to them are slow to open.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::FullQueue;
use sockstamp_host::accept_queue::{AcceptQueue, AcceptQueues};
use sockstamp_host::clock;
use sockstamp_model::flow::NetnsInode;

use crate::theirs::{Asked, Theirs};

const BETWEEN: Duration = Duration::from_millis(200);
/// Looks at each full queue that are kept: of the last minute and a half.
const MOST_LOOKS: usize = 512;
/// Queues that are compared with what they were before.
const MOST_KNOWN: usize = 1024;

/// A service: the namespace that asks, and its address.
type Service = (NetnsInode, SocketAddr);

/// Looks that found a queue full.
#[derive(Debug)]
pub(crate) struct FullQueues {
    sockets: AcceptQueues,
    full: BTreeMap<Service, VecDeque<FullQueue>>,
    /// Queues at the last look, by the cookies of their listeners.
    known: BTreeMap<(Service, u64), AcceptQueue>,
    last: Option<Instant>,
}

impl FullQueues {
    /// None yet; later calls need no privilege.
    pub(crate) fn open() -> Self {
        Self {
            sockets: AcceptQueues::open(),
            full: BTreeMap::new(),
            known: BTreeMap::new(),
            last: None,
        }
    }

    /// Do as [`find`](Self::find), and return true, unless the last look was just now.
    pub(crate) fn look(&mut self, asked: &BTreeSet<Asked>, theirs: &Theirs) -> bool {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < BETWEEN);
        if !is_soon {
            self.find(asked, theirs);
        }
        !is_soon
    }

    /// Look at the queues of these services, if they are on this host.
    pub(crate) fn find(&mut self, asked: &BTreeSet<Asked>, theirs: &Theirs) {
        let place = |ends: &Asked| Some(((ends.0, ends.1), theirs.netns(ends)?));
        let places: BTreeMap<Service, NetnsInode> = asked.iter().filter_map(place).collect();
        let Some(at) = clock::now().ok().filter(|_| !places.is_empty()) else {
            return;
        };
        self.last = Some(Instant::now());
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        for (service, netns) in places {
            let mut full = None;
            for found in self.sockets.at(netns, service.1) {
                let before = self.known.insert((service, found.cookie), found);
                let was_full = before.is_some_and(|before| found.was_full_since(before));
                if found.is_full() || was_full {
                    full.get_or_insert(found);
                }
            }
            if let Some(AcceptQueue { queue, limit, .. }) = full {
                let looks = self.full.entry(service).or_default();
                if looks.len() == MOST_LOOKS {
                    looks.pop_front();
                }
                looks.push_back(FullQueue { at, queue, limit });
            }
        }
    }

    /// Return the looks that found a queue full.
    pub(crate) fn found(&self) -> impl Iterator<Item = (Service, FullQueue)> {
        let full = self.full.iter();
        full.flat_map(|(service, looks)| looks.iter().map(|look| (*service, *look)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::{Backlog, listen};
    use sockstamp_host::netns;

    use super::*;

    #[test]
    fn a_full_queue_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let service = listener.local_addr().unwrap();
        let own = SocketAddr::from(([127, 0, 0, 1], 9));
        let asked = BTreeSet::from([(netns::own().unwrap(), service, own)]);
        let mut theirs = Theirs::default();
        theirs.find(&asked);
        let mut queues = FullQueues::open();
        queues.find(&asked, &theirs);
        assert_eq!(queues.found().count(), 0);
        let _waiting = [(); 2].map(|()| TcpStream::connect(service).unwrap());
        queues.find(&asked, &theirs);
        let (found, look) = queues.found().next().unwrap();
        assert_eq!((found.1, look.queue, look.limit), (service, 2, 1));
        // The last looks are kept, however many there are.
        (0..=MOST_LOOKS).for_each(|_| queues.find(&asked, &theirs));
        assert_eq!(queues.found().count(), MOST_LOOKS);
        assert!(queues.found().next().unwrap().1.at > look.at);
    }
}
