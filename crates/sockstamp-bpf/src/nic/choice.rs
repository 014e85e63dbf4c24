//! Choose whether NICs are asked for stamps, and how often.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use sockstamp::interface;
use sockstamp::phc;
use sockstamp_host::netns;
use sockstamp_host::nic::{Slots, driver};

use super::device::senders_here;

/// The stamps that are asked of NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ask {
    /// No stamps.
    #[default]
    Off,
    /// [`Ask::OFTEN`] stamps per second, where each packet has room for its own and nobody uses
    /// the clock.
    Auto,
    /// So many stamps per second, for the whole host.
    Rate(NonZeroU32),
}

impl Ask {
    /// The stamps per second of [`Ask::Auto`].
    pub const OFTEN: NonZeroU32 = NonZeroU32::new(100).unwrap();
    /// The most stamps per second.
    pub const MOST: u32 = 1_000_000;

    /// Return how many reads are followed per second: their stamps are there, and are taken from
    /// nobody.
    #[must_use]
    pub fn reads(self) -> Option<NonZeroU32> {
        match self {
            Self::Off => None,
            Self::Auto => Some(Self::OFTEN),
            Self::Rate(rate) => Some(rate),
        }
    }
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<NonZeroU32>()) {
            ("off", _) => Ok(Self::Off),
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(rate)) if rate.get() <= Self::MOST => Ok(Self::Rate(rate)),
            _ => Err(format!(
                "it is auto, off, or a number from 1 to {}",
                Self::MOST
            )),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Rate(rate) => rate.fmt(f),
        }
    }
}

/// A NIC that stamps sends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamping {
    name: String,
    slots: Slots,
    /// A process that has opened its clock.
    holder: Option<u32>,
}

/// Return how many stamps are asked for per second. None is asked for, and the error says why,
/// where that might take a stamp from somebody.
///
/// # Errors
///
/// The reason, as a sentence.
pub fn choose(ask: Ask) -> Result<Option<NonZeroU32>, String> {
    match ask {
        Ask::Off => Ok(None),
        _ => decide(ask, &stamping()),
    }
}

/// A packet asks before it is known which NIC sends it: one NIC is enough to ask none.
fn decide(ask: Ask, nics: &[Stamping]) -> Result<Option<NonZeroU32>, String> {
    let is_scarce = |nic: &&Stamping| nic.slots != Slots::EachPacket;
    let mut scarce = nics.iter().filter(is_scarce);
    let held = scarce.clone().find_map(|nic| Some((nic, nic.holder?)));
    if let Some((nic, holder)) = held {
        return Err(format!(
            "process {holder} uses the clock of {}, whose driver may have too few places for stamps of both",
            nic.name
        ));
    }
    match (ask, scarce.next()) {
        (Ask::Off, _) => Ok(None),
        (Ask::Rate(rate), _) => Ok(Some(rate)),
        (Ask::Auto, None) => Ok((!nics.is_empty()).then_some(Ask::OFTEN)),
        (Ask::Auto, Some(nic)) => Err(format!(
            "auto asks no NIC unless all have a stamp for each packet, which is not known of {}",
            nic.name
        )),
    }
}

/// Look for NICs that stamp sends, in all network namespaces.
fn stamping() -> Vec<Stamping> {
    let found = netns::in_each(None, stamping_here).into_values();
    found.flatten().flatten().collect()
}

fn stamping_here() -> Vec<Stamping> {
    senders_here()
        .into_iter()
        .map(|name| {
            let clock = interface::capabilities(&name).ok();
            let clock = clock.and_then(|can| can.phc_index);
            let holders = clock.and_then(|clock| phc::holders(clock).ok());
            Stamping {
                slots: driver(&name).map_or(Slots::Unknown, |driver| Slots::of(&driver)),
                holder: holders.and_then(|holders| holders.first().copied()),
                name,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(slots: Slots, holder: Option<u32>) -> Stamping {
        Stamping {
            name: "eth0".into(),
            slots,
            holder,
        }
    }

    fn rate(rate: u32) -> Ask {
        Ask::Rate(NonZeroU32::new(rate).unwrap())
    }

    #[test]
    fn what_is_asked_is_read_as_it_is_written() {
        for ask in [Ask::Off, Ask::Auto, rate(1), rate(Ask::MOST)] {
            assert_eq!(ask.to_string().parse(), Ok(ask));
        }
        for wrong in ["0", "1000001", "-1", "on", ""] {
            let refusal = wrong.parse::<Ask>().unwrap_err();
            assert_eq!(refusal, "it is auto, off, or a number from 1 to 1000000");
        }
    }

    #[test]
    fn nobody_loses_a_stamp_to_us() {
        let held = |slots| [nic(Slots::EachPacket, None), nic(slots, Some(812))];
        for scarce in [Slots::Registers(1), Slots::Registers(4), Slots::Unknown] {
            for ask in [Ask::Auto, rate(1)] {
                let refusal = decide(ask, &held(scarce)).unwrap_err();
                assert!(refusal.starts_with("process 812 uses the clock of eth0"));
            }
        }
        let enough = decide(rate(7), &held(Slots::EachPacket));
        assert_eq!(enough, Ok(NonZeroU32::new(7)));
    }

    #[test]
    fn auto_asks_only_where_each_packet_has_its_stamp() {
        let decide = |slots| decide(Ask::Auto, &[nic(slots, None)]);
        assert_eq!(decide(Slots::EachPacket), Ok(Some(Ask::OFTEN)));
        for scarce in [Slots::Registers(4), Slots::Unknown] {
            let refusal = decide(scarce).unwrap_err();
            assert!(refusal.ends_with("is not known of eth0"), "{refusal}");
        }
        let one = super::decide(rate(5), &[nic(Slots::Registers(1), None)]);
        assert_eq!(one, Ok(NonZeroU32::new(5)));
        assert_eq!(super::decide(Ask::Auto, &[]), Ok(None), "no NIC stamps");
    }
}
