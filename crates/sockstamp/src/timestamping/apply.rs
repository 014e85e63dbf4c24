//! Options of a socket, set and read.

use std::os::fd::AsFd;

use crate::control::{SO_TIMESTAMPING, SO_TIMESTAMPING_NEW};
use crate::sys::options::{SoTimestamping, get, set};
use crate::{Error, Result};

use super::Flag;
use super::options::Options;

impl Options {
    /// Replace the options of `socket`.
    ///
    /// Source: SO_TIMESTAMPING in Documentation/networking/timestamping.rst,
    /// `sock_set_timestamping()` in net/core/sock.c, v6.18.
    ///
    /// # Errors
    ///
    /// [`Error::Call`]: EINVAL for a flag that this kernel lacks (see [`Support`](super::Support))
    /// or that cannot be without another, and for ids on a TCP socket that is not connected.
    pub fn apply(self, socket: impl AsFd) -> Result<()> {
        let value = SoTimestamping {
            flags: self.flags,
            bind_phc: self.phc.cast_signed(),
        };
        let name = if self.wide {
            SO_TIMESTAMPING_NEW
        } else {
            SO_TIMESTAMPING
        };
        set(socket, libc::SOL_SOCKET, name, &value)
            .map_err(Error::call("setsockopt(SO_TIMESTAMPING)", "a socket"))
    }

    /// Return the options of `socket`, without flags unknown to this crate.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if it is no socket.
    pub fn of(socket: impl AsFd) -> Result<Self> {
        let nothing = SoTimestamping {
            flags: 0,
            bind_phc: 0,
        };
        let failed = || Error::call("getsockopt(SO_TIMESTAMPING)", "a socket");
        let read = |name| get(&socket, libc::SOL_SOCKET, name, nothing).map(|(value, _)| value);
        let value = read(SO_TIMESTAMPING).map_err(failed())?;
        // Ignore the newer option number for a socket whose options were set by the older one.
        let wide = read(SO_TIMESTAMPING_NEW).is_ok_and(|value| value.flags != 0);
        Ok(Self {
            flags: Flag::all_in(value.flags).fold(0, |bits, flag| bits | flag.bit()),
            phc: value.bind_phc.cast_unsigned(),
            wide,
        })
    }
}

/// Begin the count of a datagram socket's [ids](Options::id) anew, at 0, after a failed send:
/// nobody knows whether that was counted ([`Matcher::restarted`](super::Matcher::restarted)).
///
/// Nothing may be sent by the socket meanwhile. Do nothing if it has no ids.
///
/// Source: `sock_set_timestamping()` in net/core/sock.c, v6.18: the count begins when the option is
/// set on a socket without it.
///
/// # Errors
///
/// Those of [`Options::apply`].
pub fn restart_ids(socket: impl AsFd) -> Result<()> {
    let options = Options::of(&socket)?;
    if !options.has(Flag::OptId) {
        return Ok(());
    }
    let without = options.limited(|flag| ![Flag::OptId, Flag::OptIdTcp].contains(&flag), true);
    without.apply(&socket)?;
    options.apply(&socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn taking_implies_giving_out() {
        let options = Options::new().tx_sched().rx_hardware();
        let flags: Vec<_> = options.flags().collect();
        assert_eq!(
            flags,
            [
                Flag::RxHardware,
                Flag::Software,
                Flag::RawHardware,
                Flag::TxSched
            ]
        );
        assert!(Options::new().statistics().has(Flag::OptTsOnly));
        assert!(Options::new().tcp_id().has(Flag::OptId));
    }

    #[test]
    fn applied_options_are_read_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for options in [
            Options::new().tx_software().id().only_stamps(),
            Options::new().rx_software().wide(),
            Options::new(),
        ] {
            options.apply(&socket).unwrap();
            assert_eq!(Options::of(&socket).unwrap(), options);
        }
    }

    #[test]
    fn impossible_options_are_refused_by_name() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = Options::new().tx_ack().id().apply(&listener).unwrap_err();
        assert_eq!(
            error.to_string(),
            "setsockopt(SO_TIMESTAMPING) on a socket: Invalid argument (os error 22)"
        );
        let lonely = Options::new().with(Flag::OptStats);
        assert!(lonely.apply(&listener).is_err());
    }

    #[test]
    fn options_print_their_flags() {
        let options = Options::new().rx_software().bind_phc(3).wide();
        assert_eq!(
            format!("{options:?}"),
            "{RxSoftware, Software, BindPhc, ptp3, wide}"
        );
    }
}
