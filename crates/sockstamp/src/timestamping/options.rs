use std::fmt;
use std::os::fd::AsFd;

use crate::control::{SO_TIMESTAMPING, SO_TIMESTAMPING_NEW};
use crate::sys::options::{SoTimestamping, get, set};
use crate::{Error, Result};

use super::Flag;

/// The stamps that a socket takes and reports.
///
/// ```
/// use std::net::UdpSocket;
/// use sockstamp::timestamping::Options;
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// Options::new().tx_sched().tx_software().id().only_stamps().apply(&socket)?;
/// # std::io::Result::Ok(())
/// ```
///
/// The kernel distinguishes taking a stamp from delivering it. The methods `tx_…` and `rx_…`
/// request both; [`with`](Self::with) sets one flag and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use]
pub struct Options {
    flags: u32,
    phc: u32,
    wide: bool,
}

impl Options {
    /// No stamps.
    pub const fn new() -> Self {
        Self {
            flags: 0,
            phc: 0,
            wide: false,
        }
    }

    /// Set one flag, and nothing else.
    pub const fn with(mut self, flag: Flag) -> Self {
        self.flags |= flag.bit();
        self
    }

    /// Stamp a message before it enters the packet scheduler.
    #[doc(alias = "SOF_TIMESTAMPING_TX_SCHED")]
    pub const fn tx_sched(self) -> Self {
        self.with(Flag::TxSched).software()
    }

    /// Stamp a message when the driver passes it to the hardware.
    #[doc(alias = "SOF_TIMESTAMPING_TX_SOFTWARE")]
    pub const fn tx_software(self) -> Self {
        self.with(Flag::TxSoftware).software()
    }

    /// Have the network interface stamp a message when it sends it, on its own clock, if
    /// SIOCSHWTSTAMP has enabled that. The kernel's stamp does not come then, unless
    /// [`both`](Self::both) requests it.
    #[doc(alias = "SOF_TIMESTAMPING_TX_HARDWARE")]
    pub const fn tx_hardware(self) -> Self {
        self.with(Flag::TxHardware).hardware()
    }

    /// Stamp the acknowledgement of a message's last byte. TCP only.
    #[doc(alias = "SOF_TIMESTAMPING_TX_ACK")]
    pub const fn tx_ack(self) -> Self {
        self.with(Flag::TxAck).software()
    }

    /// Stamp the hardware's report that it has sent a message. Bluetooth only, as of v6.18. Since
    /// v6.15.
    #[doc(alias = "SOF_TIMESTAMPING_TX_COMPLETION")]
    pub const fn tx_completion(self) -> Self {
        self.with(Flag::TxCompletion).software()
    }

    /// Stamp a packet when the kernel receives it.
    ///
    /// This enables stamping for the whole host, some milliseconds later (see
    /// [`ReceiveStamping`](crate::ReceiveStamping)). Earlier packets have no stamp: a socket with
    /// only this option reports that, and invents none.
    #[doc(alias = "SOF_TIMESTAMPING_RX_SOFTWARE")]
    pub const fn rx_software(self) -> Self {
        self.with(Flag::RxSoftware).software()
    }

    /// Have the network interface stamp a received packet, on its own clock, if SIOCSHWTSTAMP has
    /// enabled that.
    #[doc(alias = "SOF_TIMESTAMPING_RX_HARDWARE")]
    pub const fn rx_hardware(self) -> Self {
        self.with(Flag::RxHardware).hardware()
    }

    /// Report the kernel's stamps. The methods above imply it; use it alone for sockets that stamp
    /// only [single messages](super::MessageOptions).
    #[doc(alias = "SOF_TIMESTAMPING_SOFTWARE")]
    pub const fn software(self) -> Self {
        self.with(Flag::Software)
    }

    /// Report the network interface's stamps, like [`software`](Self::software).
    #[doc(alias = "SOF_TIMESTAMPING_RAW_HARDWARE")]
    pub const fn hardware(self) -> Self {
        self.with(Flag::RawHardware)
    }

    /// Give stamps the [`id`](super::TxStamp::id) of their message. On a TCP socket it counts bytes
    /// from the oldest unacknowledged one at this time, which is unknown; use
    /// [`tcp_id`](Self::tcp_id) where available. TCP refuses it (EINVAL) before the socket is
    /// connected.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_ID")]
    pub const fn id(self) -> Self {
        self.with(Flag::OptId)
    }

    /// Do the same, but count a TCP socket's bytes from the next one written: the first send of n
    /// bytes has the id n - 1. Since v6.2.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_ID_TCP")]
    pub const fn tcp_id(self) -> Self {
        self.id().with(Flag::OptIdTcp)
    }

    /// Stamps come without a copy of their packets. This crate never reads the copies, and they
    /// cost memory of the receive buffer: always set this, except for
    /// [`packet_control`](Self::packet_control).
    #[doc(alias = "SOF_TIMESTAMPING_OPT_TSONLY")]
    pub const fn only_stamps(self) -> Self {
        self.with(Flag::OptTsOnly)
    }

    /// Stamps of TCP have the [state of the connection](super::TcpStatistics); implies
    /// [`only_stamps`](Self::only_stamps).
    #[doc(alias = "SOF_TIMESTAMPING_OPT_STATS")]
    pub const fn statistics(self) -> Self {
        self.only_stamps().with(Flag::OptStats)
    }

    /// Stamps have the index of the interface that the message leaves by, if the socket has
    /// IP_PKTINFO or IPV6_RECVPKTINFO, and not [`only_stamps`](Self::only_stamps).
    #[doc(alias = "SOF_TIMESTAMPING_OPT_CMSG")]
    pub const fn packet_control(self) -> Self {
        self.with(Flag::OptCmsg)
    }

    /// Received hardware stamps have [interface and length](super::RxStamp::packet) of their
    /// packet.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_PKTINFO")]
    pub const fn packet_info(self) -> Self {
        self.with(Flag::OptPktInfo)
    }

    /// A sent message may have both a stamp of the kernel and one of the interface, by two reports.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_TX_SWHW")]
    pub const fn both(self) -> Self {
        self.with(Flag::OptTxSwHw)
    }

    /// Received messages have only the stamps that this socket requested, even if others requested
    /// more. Since v6.12.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_RX_FILTER")]
    pub const fn rx_filter(self) -> Self {
        self.with(Flag::OptRxFilter)
    }

    /// Hardware stamps are on the virtual clock `/dev/ptp<index>` of the interface that the socket
    /// is bound to (SO_BINDTODEVICE; without one, EOPNOTSUPP).
    #[doc(alias = "SOF_TIMESTAMPING_BIND_PHC")]
    pub const fn bind_phc(self, index: u32) -> Self {
        Self {
            phc: index,
            ..self.with(Flag::BindPhc)
        }
    }

    /// Times have 64 bits on every machine: SO_TIMESTAMPING_NEW, since v5.1. Where a long has 64
    /// bits this changes nothing but the number of the control message.
    pub const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    /// Return true if this flag is set.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// The virtual clock of [`bind_phc`](Self::bind_phc).
    #[must_use]
    pub const fn phc_index(self) -> Option<u32> {
        if self.has(Flag::BindPhc) {
            Some(self.phc)
        } else {
            None
        }
    }

    /// Return true if times have 64 bits on every machine: [`wide`](Self::wide).
    #[must_use]
    pub const fn is_wide(self) -> bool {
        self.wide
    }

    /// The flags that are set.
    pub fn flags(self) -> impl Iterator<Item = Flag> {
        Flag::all_in(self.flags)
    }

    /// Return the options with these flags alone, and with times of 64 bits only if `wide`.
    pub(super) fn limited(self, keeps: impl Fn(Flag) -> bool, wide: bool) -> Self {
        let kept = self.flags().filter(|flag| keeps(*flag));
        Self {
            flags: kept.fold(0, |bits, flag| bits | flag.bit()),
            wide: self.wide && wide,
            ..self
        }
    }

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

    pub(crate) const fn bits(self) -> u32 {
        self.flags
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

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = f.debug_set();
        names.entries(self.flags());
        if self.has(Flag::BindPhc) {
            names.entry(&format_args!("ptp{}", self.phc));
        }
        if self.wide {
            names.entry(&format_args!("wide"));
        }
        names.finish()
    }
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
