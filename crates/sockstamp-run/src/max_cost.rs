//! The part of a core that measuring may cost, as users write it.

use std::fmt;
use std::num::NonZeroU32;

/// In millionths.
const ONE_PERCENT: u32 = 10_000;

/// The part of one core that measuring may cost, in millionths; `None` is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxCost(pub Option<NonZeroU32>);

impl MaxCost {
    /// One percent.
    pub const ONE_PERCENT: Self = Self(NonZeroU32::new(ONE_PERCENT));
}

impl fmt::Display for MaxCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(millionths) => write!(
                f,
                "{}%",
                f64::from(millionths.get()) / f64::from(ONE_PERCENT)
            ),
            None => f.write_str("none"),
        }
    }
}

/// Read a percentage, or `none`.
///
/// # Errors
///
/// If it is neither, or out of bounds.
pub fn max_cost(text: &str) -> Result<MaxCost, String> {
    const WRONG: &str = "it is from 0.01% to 100%, or none";
    if text == "none" {
        return Ok(MaxCost(None));
    }
    let percent = text.strip_suffix('%').unwrap_or(text);
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 4 || !digits(whole) || !digits(part) {
        return Err(WRONG.to_owned());
    }
    let millionths = format!("{whole}{part:0<4}").parse().ok();
    let millionths = millionths.filter(|millionths| (100..=100 * ONE_PERCENT).contains(millionths));
    match millionths.and_then(NonZeroU32::new) {
        None => Err(WRONG.to_owned()),
        millionths => Ok(MaxCost(millionths)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_percentage_or_none() {
        let of = |millionths| Ok(MaxCost(NonZeroU32::new(millionths)));
        let costs = [
            ("1%", 10_000),
            ("0.25%", 2_500),
            ("100%", 1_000_000),
            ("2", 20_000),
            ("none", 0),
        ];
        for (text, millionths) in costs {
            assert_eq!(max_cost(text), of(millionths), "{text}");
        }
        assert_eq!(max_cost("0.25%").unwrap().to_string(), "0.25%");
        for wrong in [
            "0%",
            "-1%",
            "101%",
            "nan%",
            "%",
            "",
            "1e1%",
            "0.00001%",
            "99999999999",
        ] {
            assert!(max_cost(wrong).is_err(), "{wrong}");
        }
    }
}
