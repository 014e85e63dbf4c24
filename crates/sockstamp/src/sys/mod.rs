//! System calls that have no safe wrapper elsewhere.

pub(crate) mod descriptor;
pub(crate) mod ethtool;
mod mapping;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod phc;
#[cfg(feature = "tokio")]
pub(crate) mod polling;
#[cfg(feature = "io-uring")]
pub(crate) mod ring;
pub(crate) mod shared_memory;
#[cfg(feature = "io-uring")]
pub(crate) mod stamp_ring;
pub(crate) mod zerocopy;

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Convert a small number to the type that the C library has for it: lengths, flags and requests
/// have other types in musl than in glibc.
pub(crate) fn number<From, To: TryFrom<From>>(number: From) -> To {
    match To::try_from(number) {
        Ok(number) => number,
        Err(_) => panic!("no length, flag or request is that large"),
    }
}

/// `struct ethtool_ts_info` of include/uapi/linux/ethtool.h, in which it is since v3.5.
///
/// Invariant: made by [`request`](Self::request), so `cmd` is ETHTOOL_GET_TS_INFO.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TsInfo {
    cmd: u32,
    pub(crate) so_timestamping: u32,
    pub(crate) phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    pub(crate) rx_filters: u32,
    rx_reserved: [u32; 3],
}

const _: () = assert!(size_of::<TsInfo>() == 44);

impl TsInfo {
    pub(crate) const fn request() -> Self {
        /// include/uapi/linux/ethtool.h
        const ETHTOOL_GET_TS_INFO: u32 = 0x41;
        Self {
            cmd: ETHTOOL_GET_TS_INFO,
            so_timestamping: 0,
            phc_index: -1,
            tx_types: 0,
            tx_reserved: [0; 3],
            rx_filters: 0,
            rx_reserved: [0; 3],
        }
    }
}

/// The name of an interface as `struct ifreq` holds it: 1 to 15 bytes, none of them zero, and a
/// zero byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterfaceName([libc::c_char; libc::IFNAMSIZ]);

impl InterfaceName {
    /// `None` where no interface can have that name.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return None;
        }
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        Some(Self(bytes))
    }
}

/// `struct hwtstamp_config` of include/uapi/linux/net_tstamp.h, in which it is since v2.6.30.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HardwareStamping {
    pub(crate) flags: libc::c_int,
    pub(crate) tx_type: libc::c_int,
    pub(crate) rx_filter: libc::c_int,
}

const _: () = assert!(size_of::<HardwareStamping>() == 12);

/// SIOCGHWTSTAMP: return what the interface stamps now, in the network namespace of `socket`.
pub(crate) fn hardware_stamping(
    socket: impl AsFd,
    name: InterfaceName,
) -> nix::Result<HardwareStamping> {
    exchange_stamping(
        socket,
        name,
        libc::SIOCGHWTSTAMP,
        HardwareStamping::default(),
    )
}

/// SIOCSHWTSTAMP: have the interface stamp, in the network namespace of `socket`. Return what it
/// stamps now, which may be more.
pub(crate) fn set_hardware_stamping(
    socket: impl AsFd,
    name: InterfaceName,
    config: HardwareStamping,
) -> nix::Result<HardwareStamping> {
    exchange_stamping(socket, name, libc::SIOCSHWTSTAMP, config)
}

/// `call` is SIOCGHWTSTAMP or SIOCSHWTSTAMP.
fn exchange_stamping(
    socket: impl AsFd,
    name: InterfaceName,
    call: libc::c_ulong,
    mut config: HardwareStamping,
) -> nix::Result<HardwareStamping> {
    // SAFETY: as in `ts_info`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = name.0;
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: both calls take a pointer to a `struct ifreq` that may be read and written, whose
    // ifr_data points to a `struct hwtstamp_config` to be read and written. `request` and `config`
    // are alive and not otherwise borrowed for the whole call, which keeps neither pointer;
    // `config` has that layout (repr(C), size asserted above). The descriptor is open, as it is
    // borrowed for the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), number(call), &raw mut request) };
    Errno::result(result)?;
    Ok(config)
}

/// ETHTOOL_GET_TS_INFO: return what the interface can stamp, in the network namespace of `socket`.
pub(crate) fn ts_info(socket: impl AsFd, name: InterfaceName) -> nix::Result<TsInfo> {
    let mut info = TsInfo::request();
    // SAFETY: `struct ifreq` has integers and pointers only, for which zero bytes are valid. (As a
    // literal it would leave bytes of the union as they were, and the kernel reads them all.)
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = name.0;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: SIOCETHTOOL takes a pointer to a `struct ifreq` that may be read and written, whose
    // ifr_data points to the structure of the command in its first word, to be read and written in
    // its full size. `request` and `info` are alive and not otherwise borrowed for the whole call,
    // which keeps neither pointer; `info` has the layout of `struct ethtool_ts_info` (repr(C), size
    // asserted above) and the command that belongs to it (its invariant). The descriptor is open,
    // as it is borrowed for the call.
    let result = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            number(libc::SIOCETHTOOL),
            &raw mut request,
        )
    };
    Errno::result(result)?;
    Ok(info)
}
