//! Questions to a driver, in the network namespace of a socket: `dev_ethtool()` in
//! net/ethtool/ioctl.c, `dev_get_hwtstamp()` in net/core/dev_ioctl.c, v6.18.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use super::{InterfaceName, number};

// Of include/uapi/linux/ethtool.h.
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;
const ETH_GSTRING_LEN: usize = 32;

/// Words beyond those that are wanted. The structures of most questions are much smaller. The
/// number of statistics changes with that of a driver's queues alone, and an older kernel writes as
/// many as there are by then.
const MARGIN: usize = 1 << 14;

/// What matters of `struct ethtool_ts_info`, in include/uapi/linux/ethtool.h since v3.5.
#[derive(Debug)]
pub(crate) struct TsInfo {
    pub(crate) so_timestamping: u32,
    pub(crate) phc_index: i32,
    pub(crate) rx_filters: u32,
}

/// ETHTOOL_GET_TS_INFO: return what the interface can stamp.
pub(crate) fn ts_info(socket: impl AsFd, name: InterfaceName) -> nix::Result<TsInfo> {
    let question = vec![words(ETHTOOL_GET_TS_INFO, 0), 0, 0, 0];
    let answer = exchange(socket, name, libc::SIOCETHTOOL, question)?;
    let [[_, so_timestamping], [phc_index, _], _, [_, rx_filters]] =
        [answer[0], answer[1], answer[2], answer[3]].map(halves);
    Ok(TsInfo {
        so_timestamping,
        phc_index: phc_index.cast_signed(),
        rx_filters,
    })
}

/// `struct hwtstamp_config` of include/uapi/linux/net_tstamp.h, without its flags, of which none is
/// set here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HardwareStamping {
    pub(crate) tx_type: u32,
    pub(crate) rx_filter: u32,
}

impl HardwareStamping {
    fn exchange(
        self,
        socket: impl AsFd,
        name: InterfaceName,
        call: libc::c_ulong,
    ) -> nix::Result<Self> {
        let question = vec![words(0, self.tx_type), words(self.rx_filter, 0)];
        let answer = exchange(socket, name, call, question)?;
        let [[_, tx_type], [rx_filter, _]] = [answer[0], answer[1]].map(halves);
        Ok(Self { tx_type, rx_filter })
    }
}

/// SIOCGHWTSTAMP: return what the interface stamps now.
pub(crate) fn hardware_stamping(
    socket: impl AsFd,
    name: InterfaceName,
) -> nix::Result<HardwareStamping> {
    HardwareStamping::default().exchange(socket, name, libc::SIOCGHWTSTAMP)
}

/// SIOCSHWTSTAMP: have the interface stamp. Return what it stamps now, which may be more.
pub(crate) fn set_hardware_stamping(
    socket: impl AsFd,
    name: InterfaceName,
    config: HardwareStamping,
) -> nix::Result<HardwareStamping> {
    config.exchange(socket, name, libc::SIOCSHWTSTAMP)
}

/// What matters of `struct ethtool_coalesce`, in include/uapi/linux/ethtool.h.
#[derive(Debug)]
pub(crate) struct Coalescing {
    pub(crate) rx_usecs: u32,
    pub(crate) rx_frames: u32,
    pub(crate) adaptive_rx: bool,
}

/// ETHTOOL_GCOALESCE: return how long interrupts wait.
pub(crate) fn coalescing(socket: impl AsFd, name: InterfaceName) -> nix::Result<Coalescing> {
    let question = vec![words(ETHTOOL_GCOALESCE, 0), 0, 0, 0, 0, 0];
    let answer = exchange(socket, name, libc::SIOCETHTOOL, question)?;
    let [[_, rx_usecs], [rx_frames, _], [adaptive_rx, _]] =
        [answer[0], answer[1], answer[5]].map(halves);
    Ok(Coalescing {
        rx_usecs,
        rx_frames,
        adaptive_rx: adaptive_rx != 0,
    })
}

/// Return the statistics of a driver, by their names.
pub(crate) fn statistics(
    socket: impl AsFd,
    name: InterfaceName,
) -> nix::Result<Vec<(String, u64)>> {
    let count = count(&socket, name)?;
    let mut strings = [words(ETHTOOL_GSTRINGS, ETH_SS_STATS), count as u64].to_vec();
    strings.resize(2 + count * ETH_GSTRING_LEN / 8, 0);
    let strings = exchange(&socket, name, libc::SIOCETHTOOL, strings)?;
    let mut values = vec![words(ETHTOOL_GSTATS, number(count))];
    values.resize(1 + count, 0);
    let values = exchange(&socket, name, libc::SIOCETHTOOL, values)?;
    Ok(named(&strings, &values, count))
}

/// Return how many statistics the driver has.
fn count(socket: impl AsFd, name: InterfaceName) -> nix::Result<usize> {
    let question = vec![words(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    let info = exchange(socket, name, libc::SIOCETHTOOL, question)?;
    // The mask is 0 where there is none.
    let [low, ..] = halves(info[2]);
    Ok(if info[1] == 0 { 0 } else { number(low) })
}

/// Names begin in the middle of a word, behind three numbers; values behind two.
fn named(strings: &[u64], values: &[u64], count: usize) -> Vec<(String, u64)> {
    let bytes: Vec<u8> = strings.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let names = bytes[12..].chunks_exact(ETH_GSTRING_LEN).take(count);
    names
        .zip(&values[1..])
        .map(|(name, value)| {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            (String::from_utf8_lossy(name).into_owned(), *value)
        })
        .collect()
}

/// Two numbers, as they lie side by side.
fn words(first: u32, second: u32) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = [first, second].map(u32::to_ne_bytes);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

/// Have the driver read a question and write its answer in the same place. `call` is SIOCETHTOOL,
/// with a command of those above, SIOCGHWTSTAMP or SIOCSHWTSTAMP.
fn exchange(
    socket: impl AsFd,
    name: InterfaceName,
    call: libc::c_ulong,
    mut data: Vec<u64>,
) -> nix::Result<Vec<u64>> {
    data.resize(data.len() + MARGIN, 0);
    // SAFETY: `struct ifreq` has integers and pointers only, for which zero bytes are valid. (As a
    // literal it would leave bytes of the union as they were, and the kernel reads them all.)
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = name.0;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: the calls take a pointer to a `struct ifreq` that may be read and written, whose
    // ifr_data points to a structure to be read and written: that of the command in its first word,
    // or a `struct hwtstamp_config`. `request` and `data` are alive and not otherwise borrowed for
    // the whole call, which keeps neither pointer. The structures have some hundred bytes at most,
    // except statistics, which are as long as the driver has some: `data` has room for those it
    // told of, and for at least 4096 more. The descriptor is open, as it is borrowed for the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), number(call), &raw mut request) };
    Errno::result(result)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_side_by_side() {
        let mut bytes = vec![0; 12];
        for name in ["tx_hwtstamp_timeouts", "a_name_of_thirty_two_bytes_______"] {
            let mut field = name.as_bytes()[..name.len().min(ETH_GSTRING_LEN)].to_vec();
            field.resize(ETH_GSTRING_LEN, 0);
            bytes.extend(field);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let strings = bytes.as_chunks::<8>().0.iter();
        let strings: Vec<u64> = strings.map(|word| u64::from_ne_bytes(*word)).collect();
        let values = [words(ETHTOOL_GSTATS, 2), 7, 9, 0];
        let named = named(&strings, &values, 2);
        assert_eq!(named[0], ("tx_hwtstamp_timeouts".to_owned(), 7));
        assert_eq!(named[1].0.len(), ETH_GSTRING_LEN);
        assert_eq!(named[1].1, 9);
        assert_eq!(named.len(), 2);
    }
}
