//! Connections of which a process has both ends, to wake its own tasks: nobody asks there.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_host::listener;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol};

/// Connections within this host that are looked at between two tellings of what was found.
const MOST: usize = 32;
/// Connections that were looked at, of which each is looked at once.
const MOST_KNOWN: usize = 1024;

/// One end of a connection, as its process has it.
type End = (NetnsInode, SocketAddr, SocketAddr);

/// Connections that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// True for such a pair, by its ends.
    known: BTreeMap<End, bool>,
    /// Looks since pairs were told.
    looks: usize,
}

impl Pairs {
    /// Look at a connection of a process, once.
    pub(crate) fn look(&mut self, pid: u32, flow: &Flow) {
        let is_here = flow.protocol == Protocol::Tcp && flow.local.ip() == flow.remote.ip();
        let end = (flow.netns, flow.local, flow.remote);
        if pid == 0 || !is_here || self.looks >= MOST || self.known.contains_key(&end) {
            return;
        }
        self.looks += 1;
        let is_pair = listener::wakes_itself(pid, flow.local, flow.remote);
        self.known.insert(end, is_pair);
    }

    /// Return the pairs. Where too many connections are known, pairs alone stay so, and none of
    /// them where they fill the room.
    pub(crate) fn found(&mut self) -> Vec<End> {
        self.looks = 0;
        let pairs = self.known.iter().filter(|(_, is_pair)| **is_pair);
        let found = pairs.map(|(end, _)| *end).collect();
        if self.known.len() >= MOST_KNOWN {
            self.known.retain(|_, is_pair| *is_pair);
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use sockstamp_host::netns;
    use sockstamp_model::flow::SocketCookie;

    use super::*;

    #[test]
    fn a_pair_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let flow = |of: &TcpStream| Flow {
            netns: netns::own().unwrap(),
            protocol: Protocol::Tcp,
            local: of.local_addr().unwrap(),
            remote: of.peer_addr().unwrap(),
            cookie: SocketCookie(1),
        };
        let mut pairs = Pairs::default();
        pairs.look(std::process::id(), &flow(&client));
        drop(listener);
        pairs.look(std::process::id(), &flow(&accepted));
        let own = flow(&accepted);
        let known = [(own.netns, own.local, own.remote)];
        assert_eq!(pairs.found(), known);
        // Others that are none leave room again.
        let far = |port: u16| Flow {
            local: SocketAddr::from(([127, 0, 0, 1], port)),
            remote: SocketAddr::from(([127, 0, 0, 1], 1)),
            ..own
        };
        let look = |pairs: &mut Pairs| {
            let ports = (1..).take(2 * MOST);
            ports.for_each(|port| pairs.look(std::process::id(), &far(port)));
        };
        look(&mut pairs);
        // The ends of the pair were looked at before.
        assert_eq!((pairs.looks, pairs.known.len()), (MOST, MOST + 2));
        assert_eq!(pairs.found(), known);
        look(&mut pairs);
        // Connections that were looked at are not looked at again.
        assert_eq!((pairs.looks, pairs.known.len()), (MOST, 2 * MOST + 2));
        pairs.found();
        look(&mut pairs);
        assert_eq!(pairs.looks, 0);
        let others = (1..).map(|port| ((own.netns, far(port).local, own.remote), false));
        pairs.known.extend(others.take(MOST_KNOWN));
        assert_eq!(pairs.found(), known);
        assert_eq!(pairs.known.len(), 1);
    }
}
