//! Connections of which a process has both ends, to wake its own tasks: nobody asks there.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_host::listener;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol};

/// Connections within this host that are looked at between two tellings of what was found.
const MOST: usize = 32;

/// One end of a connection, as its process has it.
type End = (NetnsInode, SocketAddr, SocketAddr);

/// Connections that were looked at, and whether they are such pairs.
#[derive(Debug, Default)]
pub(crate) struct Pairs(BTreeMap<End, bool>);

impl Pairs {
    /// Look at a connection of a process, once.
    pub(crate) fn look(&mut self, pid: u32, flow: &Flow) {
        let is_here = flow.protocol == Protocol::Tcp && flow.local.ip() == flow.remote.ip();
        if pid == 0 || !is_here || self.0.len() >= MOST {
            return;
        }
        let end = (flow.netns, flow.local, flow.remote);
        let is_pair = || listener::wakes_itself(pid, flow.local, flow.remote);
        self.0.entry(end).or_insert_with(is_pair);
    }

    /// Return the pairs. They alone stay known, so that there is room for others, and none of them
    /// where they fill it.
    pub(crate) fn found(&mut self) -> Vec<End> {
        self.0.retain(|_, is_pair| *is_pair);
        let found = self.0.keys().copied().collect();
        if self.0.len() >= MOST {
            self.0.clear();
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
        let ports = (1..).take(2 * MOST);
        ports.for_each(|port| pairs.look(std::process::id(), &far(port)));
        assert_eq!(pairs.0.len(), MOST);
        assert_eq!(pairs.found(), known);
        assert_eq!(pairs.0.len(), 1);
    }
}
