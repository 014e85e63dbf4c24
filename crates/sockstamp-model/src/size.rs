//! Classes of numbers of bytes.

use std::fmt;

use serde::Serialize;

/// Each class ends at eight times its begin; the first one begins at zero.
const TIMES: u64 = 8;

/// A class of numbers of bytes. In JSON it is the least of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SizeClass(u64);

impl SizeClass {
    /// Return the class of a number of bytes.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        match bytes.checked_ilog(TIMES) {
            None | Some(0) => Self(0),
            Some(power) => Self(TIMES.pow(power)),
        }
    }

    /// Return the least number in it.
    #[must_use]
    pub const fn least(self) -> u64 {
        self.0
    }

    /// Return the largest number in it.
    #[must_use]
    pub const fn most(self) -> u64 {
        match self.0.checked_sub(1) {
            None => TIMES - 1,
            Some(before) => before.saturating_mul(TIMES).saturating_add(TIMES - 1),
        }
    }
}

/// Print `512-4095`.
impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.least(), self.most()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_its_class_and_classes_follow_each_other() {
        for (bytes, expected) in [
            (0, (0, 7)),
            (7, (0, 7)),
            (8, (8, 63)),
            (4095, (512, 4095)),
            (4096, (4096, 32_767)),
        ] {
            let class = SizeClass::of(bytes);
            assert_eq!((class.least(), class.most()), expected, "{bytes}");
            assert!(
                SizeClass::of(class.most()) == class && SizeClass::of(class.most() + 1) > class
            );
        }
        let last = SizeClass::of(u64::MAX);
        assert_eq!((last.least(), last.most()), (1 << 63, u64::MAX));
        assert_eq!(SizeClass::of(700).to_string(), "512-4095");
    }
}
