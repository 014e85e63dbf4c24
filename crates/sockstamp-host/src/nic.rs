//! NICs by their drivers: how many stamps of sent packets one holds at one time. No interface of
//! the kernel tells.

use std::fmt;
use std::fs;
use std::path::Path;

/// Return the driver of an interface, by sysfs(5), which may be mounted for another network
/// namespace.
#[must_use]
pub fn driver(interface: &str) -> Option<String> {
    let link = Path::new("/sys/class/net")
        .join(interface)
        .join("device/driver");
    let target = fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// The room for stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// Registers: a packet that asks while all are taken goes without a stamp.
    Registers(u32),
    /// Each packet has its own: in its descriptor or its completion.
    EachPacket,
    /// The driver is none of those that are known.
    Unknown,
}

impl Slots {
    /// Return the room by the name of a driver: as in drivers/net/ethernet of Linux 7.3.
    #[must_use]
    pub fn of(driver: &str) -> Self {
        match driver {
            // `__IGB_PTP_TX_IN_PROGRESS` and those alike; `tx_hwtstamp_skb`; `pre_tx_ts` of tg3.
            "igb" | "e1000e" | "i40e" | "ixgbe" | "ngbe" | "txgbe" | "qede" | "tg3" => {
                Self::Registers(1)
            }
            // `IGC_MAX_TX_TSTAMP_REGS`, `BNXT_MAX_TX_TS`
            "igc" | "bnxt_en" => Self::Registers(4),
            // `mlx5e_cqe_ts_to_ns()` of the packet's completion; `struct bufdesc_ex` of fec.
            "mlx5_core" | "fec" => Self::EachPacket,
            _ => Self::Unknown,
        }
    }

    /// Return the number of registers.
    #[must_use]
    pub fn number(self) -> Option<u32> {
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
        assert_eq!(driver("lo"), None);
        assert_eq!(Slots::of("igb").number(), Some(1));
        assert_eq!(Slots::of("igc").number(), Some(4));
        assert_eq!(Slots::of("mlx5_core").number(), None);
        assert_eq!(Slots::of("virtio_net"), Slots::Unknown);
    }
}
