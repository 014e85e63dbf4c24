use std::fmt;

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
    pub(super) flags: u32,
    pub(super) phc: u32,
    pub(super) wide: bool,
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

    #[cfg(target_os = "linux")]
    pub(crate) const fn bits(self) -> u32 {
        self.flags
    }
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
