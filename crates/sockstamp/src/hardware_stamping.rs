//! The stamping of a NIC: what it stamps, and a guard that switches it on.

use std::fmt;
use std::os::fd::OwnedFd;

use crate::sys::driver;
use crate::{Error, Result, socket, sys};

/// The sent packets that a NIC stamps, of those that request it: a number of `enum
/// hwtstamp_tx_types` in include/uapi/linux/net_tstamp.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TxStamping(pub u32);

impl TxStamping {
    /// No packet.
    pub const OFF: Self = Self(libc::HWTSTAMP_TX_OFF);
    /// Each that requests it.
    pub const ON: Self = Self(libc::HWTSTAMP_TX_ON);
}

/// The received packets that a NIC stamps: a number of `enum hwtstamp_rx_filters` in
/// include/uapi/linux/net_tstamp.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RxFilter(pub u32);

impl RxFilter {
    /// No packet.
    pub const NONE: Self = Self(libc::HWTSTAMP_FILTER_NONE);
    /// Every packet.
    pub const ALL: Self = Self(libc::HWTSTAMP_FILTER_ALL);
}

/// The names of ethtool(8).
impl fmt::Display for TxStamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 4] = ["off", "on", "onestep-sync", "onestep-p2p"];
        named(f, &NAMES, self.0)
    }
}

/// The names of ethtool(8).
impl fmt::Display for RxFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 16] = [
            "none",
            "all",
            "some",
            "ptpv1-l4-event",
            "ptpv1-l4-sync",
            "ptpv1-l4-delay-req",
            "ptpv2-l4-event",
            "ptpv2-l4-sync",
            "ptpv2-l4-delay-req",
            "ptpv2-l2-event",
            "ptpv2-l2-sync",
            "ptpv2-l2-delay-req",
            "ptpv2-event",
            "ptpv2-sync",
            "ptpv2-delay-req",
            "ntp-all",
        ];
        named(f, &NAMES, self.0)
    }
}

fn named(f: &mut fmt::Formatter<'_>, names: &[&str], number: u32) -> fmt::Result {
    match usize::try_from(number)
        .ok()
        .and_then(|index| names.get(index))
    {
        Some(name) => f.write_str(name),
        None => write!(f, "{number}"),
    }
}

/// The current stamping of an interface's NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HardwareStamping {
    /// Sent packets that request it.
    pub tx: TxStamping,
    /// Received packets.
    pub rx: RxFilter,
}

impl HardwareStamping {
    pub(crate) fn from_config(config: driver::HardwareStamping) -> Self {
        Self {
            tx: TxStamping(config.tx_type),
            rx: RxFilter(config.rx_filter),
        }
    }

    fn config(self) -> driver::HardwareStamping {
        driver::HardwareStamping {
            tx_type: self.tx.0,
            rx_filter: self.rx.0,
        }
    }
}

/// Has a NIC stamp as long as this exists, and then as before.
///
/// The setting is the host's: all sockets, and ptp4l(8), share it. If another program has changed
/// it meanwhile, the end leaves it as it is. It belongs to the network namespace in which this was
/// made, whatever namespace the thread is in at the end.
///
/// Source: SIOCSHWTSTAMP in Documentation/networking/timestamping.rst, `dev_set_hwtstamp()` in
/// net/core/dev_ioctl.c, v6.18.
#[derive(Debug)]
pub struct HardwareStampingGuard {
    socket: OwnedFd,
    name: String,
    request: sys::InterfaceName,
    before: HardwareStamping,
    now: HardwareStamping,
}

impl HardwareStampingGuard {
    /// Have the interface `name`, in the current network namespace, stamp these packets. Needs
    /// CAP_NET_ADMIN there.
    ///
    /// # Errors
    ///
    /// Those of [`capabilities`](crate::interface::capabilities), and [`Error::Call`] if the driver
    /// cannot do that (ERANGE, EOPNOTSUPP) or without the capability (EPERM). Nothing is changed
    /// then.
    pub fn set(name: &str, wanted: HardwareStamping) -> Result<Self> {
        let request = sys::InterfaceName::new(name).ok_or_else(|| Error::InterfaceName {
            name: name.to_owned(),
        })?;
        let socket = socket::unbound()?;
        let before = driver::hardware_stamping(&socket, request)
            .map_err(Error::call("ioctl(SIOCGHWTSTAMP)", name))?;
        let now = driver::set_hardware_stamping(&socket, request, wanted.config())
            .map_err(Error::call("ioctl(SIOCSHWTSTAMP)", name))?;
        Ok(Self {
            socket,
            name: name.to_owned(),
            request,
            before: HardwareStamping::from_config(before),
            now: HardwareStamping::from_config(now),
        })
    }

    /// Return what the NIC stamps now: a driver may widen the filter that it was given.
    #[must_use]
    pub fn now(&self) -> HardwareStamping {
        self.now
    }

    /// Return what it stamped before.
    #[must_use]
    pub fn before(&self) -> HardwareStamping {
        self.before
    }

    /// Have it stamp as before, and return whether it does: not if another program has changed it.
    /// Dropping the guard does the same, without a word of an error.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the interface is gone (ENODEV), or the capability is (EPERM).
    pub fn restore(self) -> Result<bool> {
        self.put_back()
    }

    fn put_back(&self) -> Result<bool> {
        let found = driver::hardware_stamping(&self.socket, self.request)
            .map_err(Error::call("ioctl(SIOCGHWTSTAMP)", &self.name))?;
        let found = HardwareStamping::from_config(found);
        if found == self.now && found != self.before {
            driver::set_hardware_stamping(&self.socket, self.request, self.before.config())
                .map_err(Error::call("ioctl(SIOCSHWTSTAMP)", &self.name))?;
        }
        Ok(found == self.now || found == self.before)
    }
}

impl Drop for HardwareStampingGuard {
    fn drop(&mut self) {
        // After restore() it finds the former setting, and leaves it.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stampings_have_the_names_of_ethtool() {
        assert_eq!(TxStamping::ON.to_string(), "on");
        assert_eq!(TxStamping(9).to_string(), "9");
        assert_eq!(RxFilter::ALL.to_string(), "all");
        assert_eq!(
            RxFilter(libc::HWTSTAMP_FILTER_PTP_V2_EVENT).to_string(),
            "ptpv2-event"
        );
        assert_eq!(
            RxFilter(libc::HWTSTAMP_FILTER_NTP_ALL).to_string(),
            "ntp-all"
        );
        assert_eq!(RxFilter(16).to_string(), "16");
    }

    #[test]
    fn an_interface_without_a_clock_cannot_be_made_to_stamp() {
        let on = HardwareStamping {
            tx: TxStamping::ON,
            rx: RxFilter::ALL,
        };
        let error = HardwareStampingGuard::set("lo", on).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ioctl(SIOCGHWTSTAMP) on lo: Operation not supported (os error 95)"
        );
        assert!(matches!(
            HardwareStampingGuard::set("", on),
            Err(Error::InterfaceName { .. })
        ));
    }
}
