//! `sockstamp doctor --nic`: what a NIC stamps and what is set, how far its clock is from the
//! host's, who uses it, and the command that would enable what is missing. Nothing is changed.

mod clock;

use anyhow::Result;
use serde_json::{Value, json};
use sockstamp::interface::{
    self, Coalescing, HardwareStamping, InterfaceCapabilities, RxFilter, TxStamping,
};
use sockstamp_host::nic::{Slots, driver};
use sockstamp_model::clock::Nanos;

use super::text::{Line, line};
use clock::Clock;

/// Everything that is printed about a NIC.
pub(super) struct Nic {
    name: String,
    driver: Option<String>,
    can: InterfaceCapabilities,
    now: HardwareStamping,
    coalescing: Option<Coalescing>,
    clock: Option<Clock>,
}

impl Nic {
    /// Ask the driver, and compare the clock with the host's.
    pub(super) fn gather(name: &str) -> Result<Self> {
        let can = interface::capabilities(name)?;
        Ok(Self {
            driver: driver(name),
            now: interface::hardware_stamping(name)?,
            coalescing: interface::coalescing(name)?,
            clock: can.phc_index.map(Clock::gather),
            can,
            name: name.to_owned(),
        })
    }

    /// The stamping that the NIC can give beyond what it does: each sent packet that requests it,
    /// and each received one. A filter that is set stays: it is somebody's.
    fn missing(&self) -> Option<HardwareStamping> {
        let mut wanted = self.now;
        if self.can.tx_hardware && self.now.tx == TxStamping::OFF {
            wanted.tx = TxStamping::ON;
        }
        let all = self.can.filters().any(|filter| filter == RxFilter::ALL);
        if self.can.rx_hardware && all && self.now.rx == RxFilter::NONE {
            wanted.rx = RxFilter::ALL;
        }
        (wanted != self.now).then_some(wanted)
    }

    /// The command of linuxptp, which takes numbers of include/uapi/linux/net_tstamp.h.
    fn command(&self) -> Option<String> {
        let wanted = self.missing()?;
        let (tx, rx) = (wanted.tx.0, wanted.rx.0);
        Some(format!("hwstamp_ctl -i {} -t {tx} -r {rx}", self.name))
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let driver = self.driver.as_deref().unwrap_or("unknown");
        let mut lines = vec![
            line("driver", driver),
            line(
                "can stamp sent packets",
                ways(self.can.tx_software, self.can.tx_hardware),
            ),
            line(
                "can stamp received packets",
                ways(self.can.rx_software, self.can.rx_hardware) + &self.filters(),
            ),
            line(
                "in hardware now",
                format!("sent: {}, received: {}", self.now.tx, self.now.rx),
            ),
        ];
        if self.can.tx_hardware {
            lines.push(line("stamps at one time", Slots::of(driver).to_string()));
        }
        if let Some(coalescing) = &self.coalescing {
            lines.push(line("received packets wait", waits(coalescing)));
        }
        match &self.clock {
            Some(clock) => lines.extend(clock.lines()),
            None => lines.push(line("clock", "none: this interface has no NIC clock")),
        }
        lines.push(line("to enable what is missing", self.advice()));
        lines
    }

    fn filters(&self) -> String {
        let names: Vec<String> = self
            .can
            .filters()
            .map(|filter| filter.to_string())
            .collect();
        match names[..] {
            [] => String::new(),
            _ => format!(" (filters: {})", names.join(", ")),
        }
    }

    fn advice(&self) -> String {
        match self.command() {
            Some(command) => format!("`{command}` (package linuxptp)"),
            None if self.can.tx_hardware || self.can.rx_hardware => {
                "nothing: what it can stamp is on".into()
            }
            None => "nothing helps: it stamps in software alone".into(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "version": 1,
            "name": self.name,
            "driver": self.driver,
            "tx_software": self.can.tx_software,
            "tx_hardware": self.can.tx_hardware,
            "rx_software": self.can.rx_software,
            "rx_hardware": self.can.rx_hardware,
            "rx_filters": self.can.filters().map(|filter| filter.to_string()).collect::<Vec<_>>(),
            "now": { "tx": self.now.tx.to_string(), "rx": self.now.rx.to_string() },
            "tx_slots": self.driver.as_deref().and_then(|driver| Slots::of(driver).number()),
            "coalescing": self.coalescing.map(|found| json!({
                "rx_usecs": found.rx_usecs,
                "rx_frames": found.rx_frames,
                "adaptive_rx": found.adaptive_rx,
            })),
            "clock": self.clock.as_ref().map(Clock::json),
            "command": self.command(),
        })
    }
}

/// Tell for how long an interrupt waits for further packets.
fn waits(coalescing: &Coalescing) -> String {
    let wait = Nanos(u64::from(coalescing.rx_usecs) * 1_000);
    let frames = match coalescing.rx_frames {
        0 => String::new(),
        frames => format!(", or until there are {frames} (rx-frames)"),
    };
    let adaptive = match coalescing.adaptive_rx {
        true => "; changes with the load (adaptive-rx)",
        false => "",
    };
    format!("up to {wait} for others (rx-usecs){frames}{adaptive}")
}

fn ways(software: bool, hardware: bool) -> String {
    match (software, hardware) {
        (true, true) => "in software and in hardware",
        (true, false) => "in software",
        (false, true) => "in hardware",
        (false, false) => "no",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(filters: &[RxFilter], now: HardwareStamping) -> Nic {
        Nic {
            name: "eth0".into(),
            driver: Some("igb".into()),
            can: InterfaceCapabilities {
                tx_software: true,
                tx_hardware: true,
                rx_software: true,
                rx_hardware: true,
                phc_index: None,
                rx_filters: filters.iter().fold(1, |bits, filter| bits | 1 << filter.0),
            },
            now,
            coalescing: None,
            clock: None,
        }
    }

    #[test]
    fn the_command_enables_what_is_missing_and_keeps_what_is_set() {
        let ptp = RxFilter(12);
        let command =
            |filters: &[RxFilter], tx, rx| nic(filters, HardwareStamping { tx, rx }).command();
        let all = [RxFilter::ALL, ptp];
        assert_eq!(
            command(&all, TxStamping::OFF, RxFilter::NONE).as_deref(),
            Some("hwstamp_ctl -i eth0 -t 1 -r 1")
        );
        // ptp4l has set it.
        assert_eq!(
            command(&all, TxStamping::OFF, ptp).as_deref(),
            Some("hwstamp_ctl -i eth0 -t 1 -r 12")
        );
        assert_eq!(
            command(&[ptp], TxStamping::OFF, RxFilter::NONE).as_deref(),
            Some("hwstamp_ctl -i eth0 -t 1 -r 0")
        );
        assert_eq!(command(&all, TxStamping::ON, ptp), None);
    }

    #[test]
    fn the_wait_of_interrupts_is_told() {
        let mut found = Coalescing {
            rx_usecs: 50,
            ..Coalescing::default()
        };
        assert_eq!(waits(&found), "up to 50.0 µs for others (rx-usecs)");
        (found.rx_frames, found.adaptive_rx) = (32, true);
        assert_eq!(
            waits(&found),
            "up to 50.0 µs for others (rx-usecs), or until there are 32 (rx-frames); changes with the \
             load (adaptive-rx)"
        );
    }

    #[test]
    fn an_interface_without_hardware_has_no_command() {
        let nic = Nic {
            can: InterfaceCapabilities {
                tx_software: true,
                rx_software: true,
                ..InterfaceCapabilities::default()
            },
            driver: None,
            ..nic(&[], HardwareStamping::default())
        };
        assert_eq!(nic.command(), None);
        let lines = nic.lines();
        assert!(lines.contains(&line("clock", "none: this interface has no NIC clock")));
        assert!(lines.contains(&line("can stamp sent packets", "in software")));
        assert!(lines.contains(&line(
            "to enable what is missing",
            "nothing helps: it stamps in software alone"
        )));
    }
}
