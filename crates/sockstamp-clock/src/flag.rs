use std::fmt;

/// A flag of SO_TIMESTAMPING, SOF_TIMESTAMPING_* of include/uapi/linux/net_tstamp.h, v6.18, with
/// its bit as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Flag {
    /// Take: when the network interface sends.
    #[doc(alias = "SOF_TIMESTAMPING_TX_HARDWARE")]
    TxHardware = 0,
    /// Take: when the driver gives it to the hardware.
    #[doc(alias = "SOF_TIMESTAMPING_TX_SOFTWARE")]
    TxSoftware = 1,
    /// Take: when the network interface receives.
    #[doc(alias = "SOF_TIMESTAMPING_RX_HARDWARE")]
    RxHardware = 2,
    /// Take: when the kernel receives.
    #[doc(alias = "SOF_TIMESTAMPING_RX_SOFTWARE")]
    RxSoftware = 3,
    /// Report the kernel's stamps.
    #[doc(alias = "SOF_TIMESTAMPING_SOFTWARE")]
    Software = 4,
    /// Without effect since v3.17.
    #[doc(alias = "SOF_TIMESTAMPING_SYS_HARDWARE")]
    SysHardware = 5,
    /// Report the network interface's stamps.
    #[doc(alias = "SOF_TIMESTAMPING_RAW_HARDWARE")]
    RawHardware = 6,
    /// Stamps have the id of their message. Since v3.17.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_ID")]
    OptId = 7,
    /// Take: before the packet scheduler. Since v3.17.
    #[doc(alias = "SOF_TIMESTAMPING_TX_SCHED")]
    TxSched = 8,
    /// Take: when the peer has acknowledged; TCP. Since v3.17.
    #[doc(alias = "SOF_TIMESTAMPING_TX_ACK")]
    TxAck = 9,
    /// Stamps of IPv4 have the interface; with their packets, and with IP_PKTINFO. Since v3.19.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_CMSG")]
    OptCmsg = 10,
    /// Stamps come without their packets. Since v4.0.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_TSONLY")]
    OptTsOnly = 11,
    /// Stamps of TCP have the state of the connection; with OptTsOnly. Since v4.12.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_STATS")]
    OptStats = 12,
    /// Received hardware stamps have the interface. Since v4.13.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_PKTINFO")]
    OptPktInfo = 13,
    /// Give out both the kernel's and the interface's stamp of a sent message. Since v4.13.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_TX_SWHW")]
    OptTxSwHw = 14,
    /// Hardware stamps on a virtual PTP clock. Since v5.14.
    #[doc(alias = "SOF_TIMESTAMPING_BIND_PHC")]
    BindPhc = 15,
    /// Ids of TCP count from the next byte written; with OptId. Since v6.2.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_ID_TCP")]
    OptIdTcp = 16,
    /// Received messages have only the stamps that this socket took. Since v6.12.
    #[doc(alias = "SOF_TIMESTAMPING_OPT_RX_FILTER")]
    OptRxFilter = 17,
    /// Take: when the hardware reports that it has sent. Since v6.15.
    #[doc(alias = "SOF_TIMESTAMPING_TX_COMPLETION")]
    TxCompletion = 18,
}

impl Flag {
    /// All of them, by their bits.
    pub const ALL: [Self; 19] = [
        Self::TxHardware,
        Self::TxSoftware,
        Self::RxHardware,
        Self::RxSoftware,
        Self::Software,
        Self::SysHardware,
        Self::RawHardware,
        Self::OptId,
        Self::TxSched,
        Self::TxAck,
        Self::OptCmsg,
        Self::OptTsOnly,
        Self::OptStats,
        Self::OptPktInfo,
        Self::OptTxSwHw,
        Self::BindPhc,
        Self::OptIdTcp,
        Self::OptRxFilter,
        Self::TxCompletion,
    ];

    /// Return the kernel's bit.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The name in the kernel's header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TxHardware => "SOF_TIMESTAMPING_TX_HARDWARE",
            Self::TxSoftware => "SOF_TIMESTAMPING_TX_SOFTWARE",
            Self::RxHardware => "SOF_TIMESTAMPING_RX_HARDWARE",
            Self::RxSoftware => "SOF_TIMESTAMPING_RX_SOFTWARE",
            Self::Software => "SOF_TIMESTAMPING_SOFTWARE",
            Self::SysHardware => "SOF_TIMESTAMPING_SYS_HARDWARE",
            Self::RawHardware => "SOF_TIMESTAMPING_RAW_HARDWARE",
            Self::OptId => "SOF_TIMESTAMPING_OPT_ID",
            Self::TxSched => "SOF_TIMESTAMPING_TX_SCHED",
            Self::TxAck => "SOF_TIMESTAMPING_TX_ACK",
            Self::OptCmsg => "SOF_TIMESTAMPING_OPT_CMSG",
            Self::OptTsOnly => "SOF_TIMESTAMPING_OPT_TSONLY",
            Self::OptStats => "SOF_TIMESTAMPING_OPT_STATS",
            Self::OptPktInfo => "SOF_TIMESTAMPING_OPT_PKTINFO",
            Self::OptTxSwHw => "SOF_TIMESTAMPING_OPT_TX_SWHW",
            Self::BindPhc => "SOF_TIMESTAMPING_BIND_PHC",
            Self::OptIdTcp => "SOF_TIMESTAMPING_OPT_ID_TCP",
            Self::OptRxFilter => "SOF_TIMESTAMPING_OPT_RX_FILTER",
            Self::TxCompletion => "SOF_TIMESTAMPING_TX_COMPLETION",
        }
    }

    /// Return the bits without which the kernel refuses the flag.
    #[must_use]
    pub const fn needs(self) -> u32 {
        match self {
            Self::OptStats => Self::OptTsOnly.bit(),
            Self::OptIdTcp => Self::OptId.bit(),
            _ => 0,
        }
    }

    /// Return true if sent messages with this flag are stamped, and numbered with
    /// [`OptId`](Self::OptId).
    #[must_use]
    pub const fn stamps_sends(self) -> bool {
        matches!(
            self,
            Self::TxHardware | Self::TxSoftware | Self::TxSched | Self::TxAck | Self::TxCompletion
        )
    }

    /// Return the flags of a set of bits.
    pub fn all_in(bits: u32) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |flag| bits & flag.bit() != 0)
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
