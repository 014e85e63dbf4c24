//! Questions to a driver that have answers of any length: `dev_ethtool()` in net/ethtool/ioctl.c,
//! v6.18.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use super::{InterfaceName, number};

// Of include/uapi/linux/ethtool.h.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;
const ETH_GSTRING_LEN: usize = 32;

/// Words beyond those that the driver has told of. The number of its statistics changes with that
/// of its queues alone, and an older kernel writes as many as there are by then.
const MARGIN: usize = 1 << 14;

/// Return the statistics of a driver, by their names, in the network namespace of `socket`.
pub(crate) fn statistics(
    socket: impl AsFd,
    name: InterfaceName,
) -> nix::Result<Vec<(String, u64)>> {
    let count = count(&socket, name)?;
    let mut strings = [words(ETHTOOL_GSTRINGS, ETH_SS_STATS), count as u64].to_vec();
    strings.resize(2 + count * ETH_GSTRING_LEN / 8 + MARGIN, 0);
    exchange(&socket, name, &mut strings)?;
    let mut values = vec![words(ETHTOOL_GSTATS, number(count))];
    values.resize(1 + count + MARGIN, 0);
    exchange(&socket, name, &mut values)?;
    Ok(named(&strings, &values, count))
}

/// Return how many statistics the driver has.
fn count(socket: impl AsFd, name: InterfaceName) -> nix::Result<usize> {
    let mut info = vec![words(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    info.resize(3 + MARGIN, 0);
    exchange(socket, name, &mut info)?;
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

/// SIOCETHTOOL: have the driver fill in what follows a command, which is one of those above and has
/// room for what it told of, and for [`MARGIN`] words more.
fn exchange(socket: impl AsFd, name: InterfaceName, data: &mut [u64]) -> nix::Result<()> {
    // SAFETY: as in `ts_info`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = name.0;
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL takes a pointer to a `struct ifreq` that may be read and written, whose
    // ifr_data points to the structure of the command in its first word, to be read and written.
    // `request` and `data` are alive and not otherwise borrowed for the whole call, which keeps
    // neither pointer. What the three commands write is as long as the driver's statistics: `data`
    // has room for those it told of, and for at least 4096 more. The descriptor is open, as it is
    // borrowed for the call.
    let result = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            number(libc::SIOCETHTOOL),
            &raw mut request,
        )
    };
    Errno::result(result)?;
    Ok(())
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
