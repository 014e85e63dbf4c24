//! The fill of a receive buffer, which has the error queue too: a stamp that finds it full is
//! dropped (`sock_queue_err_skb()`, net/core/skbuff.c, v6.18).

use std::os::fd::AsFd;

use crate::sys::options;

/// The part that may be in use before the error queue is emptied.
const PART: u32 = 4;

/// The fill, in bytes.
#[derive(Debug, Clone, Copy)]
struct Fill {
    used: u32,
    size: u32,
}

/// Looks at the fill each time that what may have filled the buffer has doubled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watch {
    /// The number of stamps or sends that may come before the next look.
    allowed: u64,
}

impl Watch {
    /// Look when as much has come, for the first time.
    pub(super) fn from(allowed: u64) -> Self {
        Self { allowed }
    }

    /// Return true if the queue must be emptied, when this much has come since it was.
    pub(super) fn is_full(&mut self, came: u64, socket: impl AsFd) -> bool {
        came > self.allowed && {
            self.allowed = allowed(came, fill(socket));
            came > self.allowed
        }
    }
}

/// Return how much may come before the buffer is looked at again: as much again takes about as much
/// space again. Return none if that would be too much.
fn allowed(came: u64, fill: Option<Fill>) -> u64 {
    match fill {
        Some(Fill { used, size }) if used < size / PART => 2 * came,
        _ => 0,
    }
}

fn fill(socket: impl AsFd) -> Option<Fill> {
    let (memory, _) = options::get(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MEMINFO,
        options::Memory::default(),
    )
    .ok()?;
    Some(Fill {
        used: memory.receive_used,
        size: memory.receive_size,
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A socket with so many datagrams to read.
    fn with_datagrams(count: usize) -> UdpSocket {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Whatever this host gives sockets, 80 are a quarter of twice as much.
        options::set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUF, &106_496_i32).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        for _ in 0..count {
            sender.send(&[0; 1_000]).unwrap();
        }
        receiver
    }

    #[test]
    fn the_buffer_is_looked_at_each_time_that_stamps_have_doubled_and_emptied_at_a_quarter() {
        let fill = |used| Some(Fill { used, size: 4_000 });
        assert_eq!(allowed(1, fill(10)), 2);
        assert_eq!(allowed(64, fill(999)), 128);
        assert_eq!(allowed(64, fill(1_000)), 0);
        assert_eq!(allowed(1, None), 0);
    }

    #[test]
    fn a_queue_is_emptied_when_its_buffer_is_a_quarter_full() {
        let (empty, full) = (with_datagrams(0), with_datagrams(80));
        let mut watch = Watch::from(32);
        assert!(!watch.is_full(32, &full), "it is not looked at");
        assert!(watch.is_full(33, &full));
        let mut watch = Watch::from(32);
        assert!(!watch.is_full(33, &empty));
        assert!(!watch.is_full(66, &full), "it is not looked at");
        assert!(watch.is_full(67, &full));
    }

    /// `SK_MEMINFO_*` of include/uapi/linux/sock_diag.h.
    #[test]
    fn the_kernel_reports_the_fill_of_a_receive_buffer() {
        let (empty, filled) = (with_datagrams(0), with_datagrams(1));
        let [empty, filled] = [empty, filled].map(|socket| fill(&socket).unwrap());
        assert_eq!((empty.used, empty.size), (0, filled.size));
        assert!((1_000..filled.size).contains(&filled.used), "{filled:?}");
    }
}
