//! The clock of a NIC: how far it is from the host's, and who holds it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use sockstamp::phc::{self, PhcClock, PhcReading, PhcTrack, Pushed};
use sockstamp_model::name::Escaped;

use crate::doctor::text::{Line, line};

/// Readings for the drift, and the time between them: with brackets of a microsecond, the drift is
/// within some parts per million.
const READINGS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Clock {
    index: u32,
    /// Or why it cannot be read.
    compared: Result<Compared, String>,
    /// Processes that hold its device, by pid and name.
    holders: Vec<(u32, String)>,
}

struct Compared {
    /// The last one.
    reading: PhcReading,
    /// Parts per billion; `None` if a clock was stepped meanwhile.
    drift: Option<f64>,
}

impl Clock {
    pub(super) fn gather(index: u32) -> Self {
        let holders = phc::holders(index).unwrap_or_default().into_iter();
        Self {
            index,
            compared: compare(index).map_err(|error| error.to_string()),
            holders: holders.map(|pid| (pid, name(pid))).collect(),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let device = format!("/dev/ptp{}", self.index);
        let mut lines = Vec::new();
        match &self.compared {
            Ok(compared) => {
                let by = compared.reading.by.name();
                lines.push(line("clock", format!("{device}, read by {by}")));
                lines.push(line("from CLOCK_REALTIME", compared.text()));
            }
            Err(reason) => lines.push(line("clock", format!("{device}, not compared: {reason}"))),
        }
        lines.push(line("held by", self.held_by()));
        lines
    }

    fn held_by(&self) -> String {
        if self.holders.is_empty() {
            return "no process that is seen here".into();
        }
        let holders = self.holders.iter();
        let holders: Vec<String> = holders
            .map(|(pid, name)| format!("{name} ({pid})"))
            .collect();
        format!("{}: what it has set is in use", holders.join(", "))
    }

    pub(super) fn json(&self) -> Value {
        let compared = self.compared.as_ref().ok();
        json!({
            "index": self.index,
            "not_compared": self.compared.as_ref().err(),
            "read_by": compared.map(|compared| compared.reading.by.name()),
            "offset_ns": compared.map(|compared| compared.reading.offset.delta().as_nanos()),
            "bound_ns": compared.map(|compared| compared.reading.uncertainty.as_nanos()),
            "drift_ppb": compared.and_then(|compared| compared.drift),
            "held_by": self.holders.iter()
                .map(|(pid, name)| json!({ "pid": pid, "name": name }))
                .collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    fn text(&self) -> String {
        let offset = self.reading.offset.delta();
        let side = match offset.0 {
            0 => "at the same time",
            1.. => "behind",
            _ => "ahead",
        };
        let drift = match self.drift {
            Some(ppb) => format!(
                "{} by {:.1} ppm",
                if ppb < 0.0 { "gains" } else { "loses" },
                ppb.abs() / 1e3
            ),
            None => "stepped while it was read".into(),
        };
        format!(
            "{} {side}, ± {}; {drift}",
            offset.abs(),
            self.reading.uncertainty
        )
    }
}

fn compare(index: u32) -> sockstamp::Result<Compared> {
    let clock = PhcClock::open(index)?;
    let mut track = PhcTrack::new();
    let mut reading = clock.read()?;
    let mut stepped = false;
    let _ = track.push(reading);
    for _ in 1..READINGS {
        sleep(INTERVAL);
        reading = clock.read()?;
        stepped |= track.push(reading) == Pushed::Stepped;
    }
    Ok(Compared {
        reading,
        drift: track.drift().filter(|_| !stepped),
    })
}

/// Return the name of a process, which may have ended meanwhile.
fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Escaped(name.trim_ascii_end()).to_string()
}

#[cfg(test)]
mod tests {
    use sockstamp::clock::{ClockOffset, Delta, Nanos, Timestamp};
    use sockstamp::phc::ReadBy;

    use super::*;

    fn clock(offset: i64, drift: Option<f64>) -> Clock {
        Clock {
            index: 3,
            compared: Ok(Compared {
                reading: PhcReading {
                    at: Timestamp::from_nanos(1),
                    offset: ClockOffset::new(Delta(offset)),
                    uncertainty: Nanos(1_200),
                    by: ReadBy::Extended,
                },
                drift,
            }),
            holders: vec![(812, "ptp4l".into())],
        }
    }

    #[test]
    fn a_clock_is_ahead_or_behind_within_its_bound() {
        let text = |offset, drift| match clock(offset, drift).compared {
            Ok(compared) => compared.text(),
            Err(reason) => reason,
        };
        assert_eq!(
            text(-37_000_000_000, Some(-4_249.0)),
            "37.0 s ahead, ± 1.20 µs; gains by 4.2 ppm"
        );
        assert_eq!(
            text(850, Some(100.0)),
            "850 ns behind, ± 1.20 µs; loses by 0.1 ppm"
        );
        assert!(text(850, None).ends_with("; stepped while it was read"));
    }

    #[test]
    fn who_holds_the_clock_is_named() {
        let lines = clock(0, None).lines();
        assert!(lines.contains(&line("held by", "ptp4l (812): what it has set is in use")));
        assert!(lines.contains(&line("clock", "/dev/ptp3, read by PTP_SYS_OFFSET_EXTENDED")));
    }
}
