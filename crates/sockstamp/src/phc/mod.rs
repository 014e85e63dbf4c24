//! Clocks of network interfaces (PHCs): how far they are from CLOCK_REALTIME, and within which
//! bound.
//!
//! Hardware stamps count by the clock of the NIC. It may have any origin, drifts, and is set and
//! steered by others (ptp4l, phc2sys). [`PhcClock::read`] compares it with CLOCK_REALTIME once;
//! [`PhcTrack`] keeps such readings, and takes stamps of the NIC to CLOCK_REALTIME, with a bound.
//!
//! ```no_run
//! use std::thread::sleep;
//! use std::time::Duration;
//!
//! use sockstamp::phc::{Converted, PhcClock, PhcTrack};
//! use sockstamp_clock::{Phc, Timestamp};
//!
//! # let stamp_of_a_packet = || Timestamp::<Phc>::from_nanos(0);
//! let clock = PhcClock::open(0)?;
//! let mut track = PhcTrack::new();
//! track.push(clock.read()?);
//! let stamp: Timestamp<Phc> = stamp_of_a_packet();
//! sleep(Duration::from_millis(250));
//! track.push(clock.read()?);
//! if let Converted::Known(time) = track.convert(stamp) {
//!     println!("{:?} ± {}", time.realtime, time.bound);
//! }
//! # Ok::<(), sockstamp::Error>(())
//! ```

mod reading;
mod track;

use std::fs::File;
use std::io;

use nix::errno::Errno;

pub use self::reading::{PhcReading, ReadBy};
pub use self::track::{Converted, Known, PhcTrack, Pushed};
use crate::{Error, Result, sys};

/// Brackets of one reading: the narrowest counts.
const SAMPLES: u32 = 5;

/// A PHC as a device, to be read.
#[derive(Debug)]
pub struct PhcClock {
    device: File,
    path: String,
}

impl PhcClock {
    /// Open the device of a clock, `/dev/ptpN`: `index` is
    /// [`InterfaceCapabilities::phc_index`](crate::interface::InterfaceCapabilities::phc_index).
    ///
    /// # Errors
    ///
    /// [`Error::Call`] as open(2): ENOENT without the device, EACCES without the permission, which
    /// root alone has by default.
    pub fn open(index: u32) -> Result<Self> {
        let path = format!("/dev/ptp{index}");
        match File::open(&path) {
            Ok(device) => Ok(Self { device, path }),
            Err(errno) => Err(Error::Call {
                call: "open",
                on: path,
                errno,
            }),
        }
    }

    /// Return the largest correction of its frequency, in parts per billion.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the device is none of a PHC (ENOTTY), or is gone (ENODEV).
    pub fn largest_correction(&self) -> Result<u32> {
        let answer = sys::phc::capabilities(&self.device)
            .map_err(Error::call("ioctl(PTP_CLOCK_GETCAPS)", &self.path))?;
        Ok(answer.max_adj.unsigned_abs())
    }

    /// Compare the clock with CLOCK_REALTIME now. It takes some microseconds per reading of the NIC
    /// over its bus, up to five; on an emulated NIC it takes longer.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the driver cannot do that (EOPNOTSUPP), or the device is gone (ENODEV).
    pub fn read(&self) -> Result<PhcReading> {
        if let Some(reading) = sys::phc::precise(&self.device)
            .ok()
            .and_then(|answer| PhcReading::precise(&answer))
        {
            return Ok(reading);
        }
        let call = "ioctl(PTP_SYS_OFFSET_EXTENDED)";
        let answer =
            sys::phc::extended(&self.device, SAMPLES).map_err(Error::call(call, &self.path))?;
        let brackets = &answer.ts[..SAMPLES as usize];
        let readings = brackets
            .iter()
            .filter_map(|bracket| PhcReading::extended(*bracket));
        // In each, CLOCK_REALTIME was stepped, or a clock is before 1970.
        let unreadable = || Error::call(call, &self.path)(Errno::ERANGE);
        readings
            .min_by_key(|reading| reading.uncertainty)
            .ok_or_else(unreadable)
    }
}

/// Return the processes that hold this clock's device open, by pid: ptp4l(8) and phc2sys(8) hold
/// the clocks that they steer. Processes of others are seen by root alone.
///
/// # Errors
///
/// As of reading `/proc`.
pub fn holders(index: u32) -> io::Result<Vec<u32>> {
    let device = std::path::PathBuf::from(format!("/dev/ptp{index}"));
    let mut holders = Vec::new();
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // The process may end meanwhile.
        let Ok(files) = std::fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let mut targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if pid != std::process::id() && targets.any(|target| target == device) {
            holders.push(pid);
        }
    }
    Ok(holders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_none_has_its_name_in_the_error() {
        let error = PhcClock::open(4_000_000_000).unwrap_err();
        assert_eq!(
            error.to_string(),
            "open on /dev/ptp4000000000: No such file or directory (os error 2)"
        );
        assert_eq!(holders(4_000_000_000).unwrap(), [] as [u32; 0]);
    }
}
