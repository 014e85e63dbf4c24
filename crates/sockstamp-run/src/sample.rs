//! The messages that are measured, as users write it.

use std::fmt;

use sockstamp_bpf::Sampling;

/// The share of messages that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// Every message.
    All,
    /// Up to so many messages per second, flow and direction.
    PerSecond(u32),
    /// One message in so many.
    OneIn(u32),
    /// Messages whose bytes hold a multiple of this power of two.
    InStep(u32),
}

/// Messages per second, flow and direction where nothing else is said.
const CAP: u32 = 100;

impl Default for Sample {
    fn default() -> Self {
        Self::PerSecond(CAP)
    }
}

impl From<Sample> for Sampling {
    fn from(sample: Sample) -> Self {
        match sample {
            Sample::All => Self::Every,
            Sample::PerSecond(cap) => Self::RateCap(cap),
            Sample::OneIn(count) => Self::OneIn(count),
            Sample::InStep(bits) => Self::InStep { bits, cap: CAP },
        }
    }
}

/// As users write it.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::PerSecond(cap) => write!(f, "{cap}/s"),
            Self::OneIn(count) => write!(f, "1/{count}"),
            Self::InStep(bits) => write!(f, "2^{bits}"),
        }
    }
}

/// Read a sample.
///
/// # Errors
///
/// If it is none of these; the error names what to write.
pub fn sample(text: &str) -> Result<Sample, String> {
    let number = |text: &str| text.parse().ok().filter(|count| *count > 0);
    if text == "all" {
        return Ok(Sample::All);
    }
    if let Some(power) = text.strip_prefix("2^") {
        return bits(power).map(Sample::InStep);
    }
    let read = match (text.strip_suffix("/s"), text.strip_prefix("1/")) {
        (Some(cap), _) => number(cap).map(Sample::PerSecond),
        (None, Some(count)) => number(count).map(Sample::OneIn),
        (None, None) => None,
    };
    read.ok_or_else(|| match number(text) {
        Some(count) => format!("write {count}/s or 1/{count}"),
        None => "it is all, N/s, 1/N or 2^K, such as 100/s".to_owned(),
    })
}

fn bits(power: &str) -> Result<u32, String> {
    let most = Sampling::MOST_BITS;
    let bits = power.parse().ok().filter(|bits| *bits <= most);
    bits.ok_or_else(|| format!("it is 2^K with K up to {most}, such as 2^16"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_all_a_rate_a_share_or_a_power_of_two() {
        for (text, expected) in [
            ("all", Sample::All),
            ("100/s", Sample::PerSecond(100)),
            ("1/64", Sample::OneIn(64)),
            ("1/s", Sample::PerSecond(1)),
            ("2^0", Sample::InStep(0)),
            ("2^30", Sample::InStep(30)),
        ] {
            assert_eq!(sample(text), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!(sample("64").unwrap_err(), "write 64/s or 1/64");
        for wrong in ["", "2/64", "1/0", "0/s", "1/-1", "1/", "/s", "64k", "100/m"] {
            let told = sample(wrong).unwrap_err();
            assert_eq!(told, "it is all, N/s, 1/N or 2^K, such as 100/s", "{wrong}");
        }
        for wrong in ["2^", "2^31", "2^-1"] {
            assert!(sample(wrong).unwrap_err().ends_with("2^16"), "{wrong}");
        }
    }
}
