//! The stamping features of a network interface.

use nix::errno::Errno;
use nix::net::if_::if_nameindex;

pub use crate::hardware_stamping::{HardwareStamping, HardwareStampingGuard, RxFilter, TxStamping};
use crate::sys::driver;
use crate::{Error, Result, socket, sys};

/// Stamps that an interface can give. The default is none.
///
/// Capable does not mean enabled: hardware stamps come only once SIOCSHWTSTAMP has switched them
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct InterfaceCapabilities {
    /// The driver stamps a packet when it hands it to the hardware.
    pub tx_software: bool,
    /// The NIC stamps sent packets, at least of some protocols, and gives its raw stamps.
    pub tx_hardware: bool,
    /// The kernel stamps received packets, as it does for any driver that answers at all.
    pub rx_software: bool,
    /// The NIC stamps received packets, at least of some protocols, and gives its raw stamps.
    pub rx_hardware: bool,
    /// The PTP hardware clock of the interface: n for `/dev/ptpn`; `None` if it has none.
    pub phc_index: Option<u32>,
    /// The filters of received packets that [`HardwareStamping`] can name: bit n is that of the
    /// filter with the number n.
    pub rx_filters: u32,
}

impl InterfaceCapabilities {
    /// Return the filters of received packets that the NIC has, without that for none.
    pub fn filters(&self) -> impl Iterator<Item = RxFilter> + '_ {
        let numbers = (1..u32::BITS).filter(|number| self.rx_filters & 1 << number != 0);
        numbers.map(RxFilter)
    }

    fn from_ts_info(info: &driver::TsInfo) -> Self {
        let all = |flags| info.so_timestamping & flags == flags;
        // A stamp that is taken and not given out is of no use: both flags are needed.
        let (software, hardware) = (
            libc::SOF_TIMESTAMPING_SOFTWARE,
            libc::SOF_TIMESTAMPING_RAW_HARDWARE,
        );
        Self {
            tx_software: all(libc::SOF_TIMESTAMPING_TX_SOFTWARE | software),
            tx_hardware: all(libc::SOF_TIMESTAMPING_TX_HARDWARE | hardware),
            rx_software: all(libc::SOF_TIMESTAMPING_RX_SOFTWARE | software),
            rx_hardware: all(libc::SOF_TIMESTAMPING_RX_HARDWARE | hardware),
            phc_index: u32::try_from(info.phc_index).ok(),
            rx_filters: info.rx_filters,
        }
    }
}

/// Query the driver of the interface `name`, in the current network namespace, for its stamping
/// features.
///
/// An interface whose driver does not know the question (EOPNOTSUPP) can stamp nothing: that is an
/// answer, not an error. Needs no privilege.
///
/// Source: ETHTOOL_GET_TS_INFO and `struct ethtool_ts_info` in include/uapi/linux/ethtool.h,
/// `ethtool_get_ts_info()` in net/ethtool/ioctl.c, v6.18.
///
/// # Errors
///
/// [`Error::InterfaceName`] if no interface can have that name, [`Error::Call`] if none has it
/// (ENODEV), or as socket(2).
pub fn capabilities(name: &str) -> Result<InterfaceCapabilities> {
    let request = sys::InterfaceName::new(name).ok_or_else(|| Error::InterfaceName {
        name: name.to_owned(),
    })?;
    let socket = socket::unbound()?;
    match driver::ts_info(&socket, request) {
        Ok(info) => Ok(InterfaceCapabilities::from_ts_info(&info)),
        Err(Errno::EOPNOTSUPP) => Ok(InterfaceCapabilities::default()),
        Err(errno) => Err(Error::call("ioctl(ETHTOOL_GET_TS_INFO)", name)(errno)),
    }
}

/// Query the driver of the interface `name`, in the current network namespace, for the packets that
/// its NIC currently stamps, as set by ptp4l(8) or another program (SIOCSHWTSTAMP).
///
/// A driver that does not know the question (EOPNOTSUPP) stamps nothing. Needs no privilege.
///
/// Source: SIOCGHWTSTAMP in Documentation/networking/timestamping.rst, `dev_get_hwtstamp()` in
/// net/core/dev_ioctl.c, v6.18.
///
/// # Errors
///
/// The errors of [`capabilities`].
pub fn hardware_stamping(name: &str) -> Result<HardwareStamping> {
    let request = sys::InterfaceName::new(name).ok_or_else(|| Error::InterfaceName {
        name: name.to_owned(),
    })?;
    let socket = socket::unbound()?;
    match driver::hardware_stamping(&socket, request) {
        Ok(config) => Ok(HardwareStamping::from_config(config)),
        Err(Errno::EOPNOTSUPP) => Ok(HardwareStamping::default()),
        Err(errno) => Err(Error::call("ioctl(SIOCGHWTSTAMP)", name)(errno)),
    }
}

/// Return how many sent packets asked for a stamp of the NIC in vain since its driver was loaded:
/// the place for it was taken, or none came in time. `None` where the driver does not count them,
/// under the names that most have: `tx_hwtstamp_skipped` and `tx_hwtstamp_timeouts`.
///
/// Needs no privilege. Source: ETHTOOL_GSTATS, `ethtool_get_stats()` in net/ethtool/ioctl.c, v6.18.
///
/// # Errors
///
/// The errors of [`capabilities`].
pub fn missed_stamps(name: &str) -> Result<Option<u64>> {
    let request = sys::InterfaceName::new(name).ok_or_else(|| Error::InterfaceName {
        name: name.to_owned(),
    })?;
    let socket = socket::unbound()?;
    match driver::statistics(&socket, request) {
        Ok(statistics) => Ok(missed(&statistics)),
        Err(Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(Error::call("ioctl(ETHTOOL_GSTATS)", name)(errno)),
    }
}

fn missed(statistics: &[(String, u64)]) -> Option<u64> {
    let names = ["tx_hwtstamp_skipped", "tx_hwtstamp_timeouts"];
    let counts = statistics.iter();
    let counts = counts.filter(|(name, _)| names.contains(&name.as_str()));
    counts.map(|(_, count)| *count).reduce(u64::saturating_add)
}

/// The waiting of a NIC before it interrupts for received packets, so that one interrupt serves
/// several: as the options of ethtool(8), `-C`, of these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coalescing {
    /// `rx-usecs`: microseconds after the first packet.
    pub rx_usecs: u32,
    /// `rx-frames`: packets that end it earlier; 0: none do.
    pub rx_frames: u32,
    /// `adaptive-rx`: the driver changes both with the load.
    pub adaptive_rx: bool,
}

/// Query the driver of the interface `name`, in the current network namespace, for how long its
/// interrupts wait. `None` where it does not tell.
///
/// Needs no privilege. Source: ETHTOOL_GCOALESCE and `struct ethtool_coalesce` in
/// include/uapi/linux/ethtool.h, v6.18.
///
/// # Errors
///
/// The errors of [`capabilities`].
pub fn coalescing(name: &str) -> Result<Option<Coalescing>> {
    let request = sys::InterfaceName::new(name).ok_or_else(|| Error::InterfaceName {
        name: name.to_owned(),
    })?;
    let socket = socket::unbound()?;
    match driver::coalescing(&socket, request) {
        Ok(found) => Ok(Some(Coalescing {
            rx_usecs: found.rx_usecs,
            rx_frames: found.rx_frames,
            adaptive_rx: found.adaptive_rx,
        })),
        Err(Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(Error::call("ioctl(ETHTOOL_GCOALESCE)", name)(errno)),
    }
}

/// The names of the interfaces of the current network namespace, in the order in which the kernel
/// lists them. Bytes that are not UTF-8 are replaced by U+FFFD.
///
/// # Errors
///
/// [`Error::Call`] as if_nameindex(3): no file descriptor or memory left.
pub fn names() -> Result<Vec<String>> {
    let interfaces =
        if_nameindex().map_err(Error::call("if_nameindex", "the network namespace"))?;
    Ok(interfaces
        .iter()
        .map(|interface| interface.name().to_string_lossy().into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_stamps_in_software_only() {
        assert!(names().unwrap().contains(&"lo".to_owned()));
        let lo = capabilities("lo").unwrap();
        assert!(lo.tx_software && lo.rx_software);
        assert!(!lo.tx_hardware && !lo.rx_hardware);
        assert_eq!(lo.phc_index, None);
    }

    #[test]
    fn every_interface_reports_its_features() {
        for name in names().unwrap() {
            capabilities(&name).unwrap();
        }
    }

    #[test]
    fn every_interface_reports_if_its_nic_stamps() {
        for name in names().unwrap() {
            hardware_stamping(&name).unwrap();
        }
        assert_eq!(
            hardware_stamping("lo").unwrap(),
            HardwareStamping::default()
        );
        let missing = hardware_stamping("sockstamp-none").unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("ioctl(SIOCGHWTSTAMP) on sockstamp-none: "),
            "{missing}"
        );
    }

    #[test]
    fn loopback_has_no_interrupts_that_wait() {
        assert_eq!(coalescing("lo").unwrap(), None);
        for name in names().unwrap() {
            coalescing(&name).unwrap();
        }
    }

    #[test]
    fn missed_stamps_are_those_of_two_counts() {
        let count = |name: &str, count| (name.to_owned(), count);
        let statistics = [
            count("rx_packets", 900),
            count("tx_hwtstamp_timeouts", 2),
            count("tx_hwtstamp_skipped", 40),
            count("rx_hwtstamp_cleared", 5),
        ];
        assert_eq!(missed(&statistics), Some(42));
        assert_eq!(missed(&statistics[..1]), None);
        for name in names().unwrap() {
            missed_stamps(&name).unwrap();
        }
        assert_eq!(missed_stamps("lo").unwrap(), None);
    }

    #[test]
    fn hardware_stamps_need_to_be_given_out() {
        let mut info = driver::TsInfo {
            so_timestamping: libc::SOF_TIMESTAMPING_TX_HARDWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE,
            phc_index: 3,
            rx_filters: 0,
        };
        let taken = InterfaceCapabilities::from_ts_info(&info);
        assert_eq!(
            taken,
            InterfaceCapabilities {
                phc_index: Some(3),
                ..Default::default()
            }
        );
        info.so_timestamping |= libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let given = InterfaceCapabilities::from_ts_info(&info);
        assert!(given.tx_hardware && given.rx_hardware && !given.rx_software);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "sixteen-bytes-ab", "a\0b"] {
            assert!(
                matches!(capabilities(name), Err(Error::InterfaceName { .. })),
                "{name:?}"
            );
        }
        let missing = capabilities("sockstamp-none").unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("ioctl(ETHTOOL_GET_TS_INFO) on sockstamp-none: "),
            "{missing}"
        );
    }
}
