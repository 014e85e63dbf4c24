//! How many stamps of sent packets a NIC holds at one time. No interface of the kernel tells.

use std::fmt;

/// The room for stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slots {
    /// Registers: a packet that asks while all are taken goes without a stamp.
    Registers(u32),
    /// Each packet has its own: in its descriptor or its completion.
    EachPacket,
    Unknown,
}

/// Return the room by the name of a driver: as in drivers/net/ethernet of Linux 7.3.
pub(super) fn of(driver: &str) -> Slots {
    match driver {
        // `__IGB_PTP_TX_IN_PROGRESS` and those alike; `tx_hwtstamp_skb`; `pre_tx_ts` of tg3.
        "igb" | "e1000e" | "i40e" | "ixgbe" | "ngbe" | "txgbe" | "qede" | "tg3" => {
            Slots::Registers(1)
        }
        // `IGC_MAX_TX_TSTAMP_REGS`, `BNXT_MAX_TX_TS`
        "igc" | "bnxt_en" => Slots::Registers(4),
        // `mlx5e_cqe_ts_to_ns()` of the packet's completion; `struct bufdesc_ex` of fec.
        "mlx5_core" | "fec" => Slots::EachPacket,
        _ => Slots::Unknown,
    }
}

impl Slots {
    /// Return the number of registers.
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Registers(number) => Some(number),
            Self::EachPacket | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers(1) => {
                f.write_str("one: a packet that asks meanwhile goes without, also one of ptp4l")
            }
            Self::Registers(number) => write!(
                f,
                "{number}: a packet that asks while all are taken goes without"
            ),
            Self::EachPacket => f.write_str("one for each packet"),
            Self::Unknown => f.write_str("unknown for this driver"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_known_has_no_number() {
        assert_eq!(of("igb").number(), Some(1));
        assert_eq!(of("igc").number(), Some(4));
        assert_eq!(of("mlx5_core").number(), None);
        assert_eq!(of("virtio_net"), Slots::Unknown);
    }
}
