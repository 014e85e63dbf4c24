//! Units and clocks as types.
//!
//! A stamp without its clock is a number that can be subtracted from the wrong one: receive stamps
//! are CLOCK_REALTIME, BPF reads CLOCK_MONOTONIC, a NIC may count TAI. Here the clock is part of
//! the type.
//!
//! ```compile_fail,E0308
//! use sockstamp_clock::{Monotonic, Realtime, Timestamp};
//!
//! let sent = Timestamp::<Monotonic>::from_nanos(1_000);
//! let received = Timestamp::<Realtime>::from_nanos(3_000);
//! let _ = received - sent; // two clocks: does not compile
//! ```
//!
//! A [`ClockOffset`] takes a stamp from one clock to another:
//!
//! ```
//! use sockstamp_clock::{ClockOffset, Delta, Monotonic, Realtime, Timestamp};
//!
//! let sent = Timestamp::<Monotonic>::from_nanos(1_000);
//! let received = Timestamp::<Realtime>::from_nanos(3_000);
//! let offset = ClockOffset::<Monotonic, Realtime>::new(Delta(500));
//! assert_eq!(received - offset.convert(sent), Delta(1_500));
//! ```

use std::fmt;
use std::iter::Sum;
use std::marker::PhantomData;
use std::ops::{Add, Neg, Sub};
use std::time::{Duration, SystemTime};

use crate::digits::{self, Digits};

/// A duration in whole nanoseconds, from 0 to 2^64 - 1 (584 years).
///
/// Sums **saturate**: a duration that does not fit is already nonsense, and saturating keeps it
/// visible as such where wrapping would make it look small. `Display` prints three significant
/// digits with a unit: `850 ns`, `12.3 µs`, `20.1 ms`, `1.25 s`; from 1000 s on it prints whole
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest duration, which saturating sums stop at.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` microseconds, saturating.
    #[must_use]
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds, saturating.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// The duration as a count of nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The duration in seconds, the base unit of metrics; exact to 53 bits.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, or [`MAX`](Self::MAX) where it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or [`ZERO`](Self::ZERO) where `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The difference, or `None` where `other` is longer.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }
}

/// Saturates, see [`Nanos`].
impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

/// Saturates, see [`Nanos`].
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(durations: I) -> Self {
        durations.fold(Self::ZERO, Self::saturating_add)
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// Saturates at [`Nanos::MAX`].
impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Nanos {
    /// Return the text that [`Display`](fmt::Display) prints.
    #[must_use]
    #[inline]
    pub fn text(self) -> Digits<16> {
        human(self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(human(self.0).as_str())
    }
}

/// Rounding comes before the choice of the unit: 999 950 ns are 1.00 ms, not 1000 µs. The longest
/// text is that of `u64::MAX` nanoseconds in seconds.
#[inline]
fn human(nanos: u64) -> Digits<16> {
    // Divisors are constants in each arm: a division by a variable takes ten times as long.
    match nanos {
        0..1_000 => Digits::new().leading_digits(nanos).text(" ns"),
        1_000..999_500 => three_digits(nanos, 10, 100, 1_000).text(" µs"),
        999_500..999_500_000 => three_digits(nanos, 10_000, 100_000, 1_000_000).text(" ms"),
        999_500_000..999_500_000_000 => {
            three_digits(nanos, 10_000_000, 100_000_000, 1_000_000_000).text(" s")
        }
        _ => seconds(nanos),
    }
}

/// Three significant digits: at most two are after the point.
#[inline(always)]
fn three_digits(nanos: u64, hundredth: u64, tenth: u64, unit: u64) -> Digits<16> {
    // Half a unit is rounded up.
    let hundredths = (nanos + hundredth / 2) / hundredth;
    if hundredths < 1_000 {
        let [a, b, c] = digits::three_digits(hundredths);
        return Digits::new().ascii([a, b'.', b, c]);
    }
    let tenths = (nanos + tenth / 2) / tenth;
    if tenths < 1_000 {
        let [a, b, c] = digits::three_digits(tenths);
        return Digits::new().ascii([a, b, b'.', c]);
    }
    let whole = (nanos + unit / 2) / unit;
    Digits::new().ascii(digits::three_digits(whole))
}

/// Whole seconds. Half a one is rounded up, without an overflow.
fn seconds(nanos: u64) -> Digits<16> {
    const UNIT: u64 = 1_000_000_000;
    let whole = nanos / UNIT + u64::from(nanos % UNIT >= UNIT / 2);
    Digits::new().number(whole).text(" s")
}

/// A signed difference in whole nanoseconds, within ±2^63 ns (292 years).
///
/// Arithmetic **saturates**, for the reason given at [`Nanos`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Delta(pub i64);

impl Delta {
    /// The difference as a count of nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The difference without its sign.
    #[must_use]
    pub const fn abs(self) -> Nanos {
        Nanos(self.0.unsigned_abs())
    }

    /// The difference as a duration, `None` where it is negative.
    #[must_use]
    pub fn to_nanos(self) -> Option<Nanos> {
        u64::try_from(self.0).ok().map(Nanos)
    }
}

/// `Err` for a negative difference, with it.
impl TryFrom<Delta> for Duration {
    type Error = Delta;

    fn try_from(delta: Delta) -> Result<Self, Delta> {
        delta.to_nanos().map(Self::from).ok_or(delta)
    }
}

/// Saturates, see [`Delta`].
impl Add for Delta {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Saturates, see [`Delta`].
impl Sub for Delta {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Saturates, see [`Delta`].
impl Neg for Delta {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", human(self.0.unsigned_abs())))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A clock that stamps are read from. Implemented by the marker types of this module only.
pub trait Clock: sealed::Sealed + fmt::Debug + Copy + Ord + std::hash::Hash + 'static {
    /// The name in clock_gettime(2).
    const NAME: &'static str;
}

macro_rules! clocks {
    ($($(#[$doc:meta])* $clock:ident = $name:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum $clock {}

            impl sealed::Sealed for $clock {}

            impl Clock for $clock {
                const NAME: &'static str = $name;
            }
        )*
    };
}

clocks! {
    /// CLOCK_MONOTONIC: time since boot without suspend; never stepped. The clock of BPF and of TX
    /// stamps.
    Monotonic = "CLOCK_MONOTONIC";
    /// CLOCK_REALTIME: UTC since 1970; stepped by administrators and by leap seconds. The clock of
    /// RX stamps.
    Realtime = "CLOCK_REALTIME";
    /// CLOCK_TAI: like CLOCK_REALTIME, but without leap seconds. The usual clock of NICs.
    Tai = "CLOCK_TAI";
    /// The clock of a network interface (PHC), set by its owner. The clock of hardware stamps.
    Phc = "PHC";
}

/// The clock `C` of one of several hosts. `H`, a type of the caller's choice, identifies the host.
///
/// Clocks of the same name on two hosts are two clocks.
///
/// ```compile_fail,E0308
/// use sockstamp_clock::{Monotonic, Of, Timestamp};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// enum Client {}
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// enum Server {}
///
/// let left = Timestamp::<Of<Client, Monotonic>>::from_nanos(1_000);
/// let arrived = Timestamp::<Of<Server, Monotonic>>::from_nanos(3_000);
/// let _ = arrived - left; // two hosts: does not compile
/// ```
///
/// ```
/// use sockstamp_clock::{ClockOffset, Delta, Monotonic, Of, Timestamp};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// enum Client {}
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// enum Server {}
///
/// let left = Timestamp::<Of<Client, Monotonic>>::from_nanos(1_000);
/// let arrived = Timestamp::<Of<Server, Monotonic>>::from_nanos(3_000);
/// let ahead = ClockOffset::<Of<Client, Monotonic>, Of<Server, Monotonic>>::new(Delta(500));
/// assert_eq!(arrived - ahead.convert(left), Delta(1_500));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Of<H, C>(PhantomData<(H, C)>);

impl<H, C> sealed::Sealed for Of<H, C> {}

impl<H, C: Clock> Clock for Of<H, C>
where
    H: fmt::Debug + Copy + Ord + std::hash::Hash + 'static,
{
    const NAME: &'static str = C::NAME;
}

/// A point in time: nanoseconds since the origin of the clock `C`.
///
/// 64 bits last until the year 2554 on [`Realtime`]. Adding a duration **saturates**.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct Timestamp<C: Clock> {
    nanos: u64,
    #[cfg_attr(feature = "serde", serde(skip))]
    clock: PhantomData<C>,
}

impl<C: Clock> Timestamp<C> {
    /// The point `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self {
            nanos,
            clock: PhantomData,
        }
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// The time `duration` before, `None` where that is before the clock's origin.
    #[must_use]
    pub fn before(self, duration: Nanos) -> Option<Self> {
        self.nanos.checked_sub(duration.0).map(Self::from_nanos)
    }

    /// The same reading as that of this clock on one of several hosts.
    #[must_use]
    pub const fn of<H>(self) -> Timestamp<Of<H, C>>
    where
        Of<H, C>: Clock,
    {
        Timestamp::from_nanos(self.nanos)
    }

    /// The time since `earlier`, `None` where `earlier` is in fact later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Nanos> {
        self.nanos.checked_sub(earlier.nanos).map(Nanos)
    }
}

impl From<Timestamp<Realtime>> for SystemTime {
    fn from(stamp: Timestamp<Realtime>) -> Self {
        Self::UNIX_EPOCH + Duration::from_nanos(stamp.nanos)
    }
}

/// `Err` for a time before 1970 or after 2554, with the time.
impl TryFrom<SystemTime> for Timestamp<Realtime> {
    type Error = SystemTime;

    fn try_from(time: SystemTime) -> Result<Self, SystemTime> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        let nanos = since.map_err(|_| time)?.as_nanos();
        u64::try_from(nanos).map(Self::from_nanos).map_err(|_| time)
    }
}

/// The reading in seconds, with nine digits behind the point.
impl<C: Clock> fmt::Display for Timestamp<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNIT: u64 = 1_000_000_000;
        f.pad(&format!("{}.{:09}", self.nanos / UNIT, self.nanos % UNIT))
    }
}

/// Saturates at ±2^63 ns.
impl<C: Clock> Sub for Timestamp<C> {
    type Output = Delta;

    fn sub(self, earlier: Self) -> Delta {
        Delta(match self.nanos.checked_sub(earlier.nanos) {
            Some(ahead) => i64::try_from(ahead).unwrap_or(i64::MAX),
            None => 0_i64.saturating_sub_unsigned(earlier.nanos - self.nanos),
        })
    }
}

/// Saturates at the end of the clock.
impl<C: Clock> Add<Nanos> for Timestamp<C> {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self::from_nanos(self.nanos.saturating_add(duration.0))
    }
}

/// The difference between simultaneous readings of the clocks `To` and `From`.
///
/// An offset holds for the moment it was measured; how long after is for the caller to know.
/// Between the clocks here it holds until CLOCK_REALTIME is stepped, the leap seconds of CLOCK_TAI
/// are set, or the host suspends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockOffset<From: Clock, To: Clock> {
    offset: Delta,
    clocks: PhantomData<(From, To)>,
}

impl<From: Clock, To: Clock> ClockOffset<From, To> {
    /// The offset `To - From`.
    #[must_use]
    pub const fn new(offset: Delta) -> Self {
        Self {
            offset,
            clocks: PhantomData,
        }
    }

    /// The offset of two readings taken at the same moment; saturates at ±2^63 ns.
    #[must_use]
    pub fn between(from: Timestamp<From>, to: Timestamp<To>) -> Self {
        Self::new(Timestamp::<From>::from_nanos(to.nanos) - from)
    }

    /// `To - From`.
    #[must_use]
    pub const fn delta(self) -> Delta {
        self.offset
    }

    /// The reading of `To` at the moment of this reading of `From`; saturates at the ends of the
    /// clock.
    #[must_use]
    pub const fn convert(self, stamp: Timestamp<From>) -> Timestamp<To> {
        Timestamp::from_nanos(stamp.nanos.saturating_add_signed(self.offset.0))
    }

    /// The offset for the way back.
    #[must_use]
    pub fn inverse(self) -> ClockOffset<To, From> {
        ClockOffset::new(-self.offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_those_of_the_standard_library() {
        let now = SystemTime::now();
        let stamp = Timestamp::<Realtime>::try_from(now).unwrap();
        assert_eq!(SystemTime::from(stamp), now);
        let early = SystemTime::UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(Timestamp::<Realtime>::try_from(early), Err(early));
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(20_000_000_000);
        assert_eq!(Timestamp::<Realtime>::try_from(late), Err(late));
        assert_eq!(Duration::try_from(Delta(5)), Ok(Duration::from_nanos(5)));
        assert_eq!(Duration::try_from(Delta(-5)), Err(Delta(-5)));
    }

    #[test]
    fn a_stamp_prints_seconds() {
        let stamp = Timestamp::<Tai>::from_nanos(1_700_000_000_000_000_042);
        assert_eq!(format!("{stamp:>22}"), "  1700000000.000000042");
        assert_eq!(Timestamp::<Phc>::from_nanos(7).to_string(), "0.000000007");
    }

    #[test]
    fn durations_print_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (7, "7 ns"),
            (850, "850 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (1_004, "1.00 µs"),
            (1_005, "1.01 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (20_100_000, "20.1 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.00 s"),
            (1_250_000_000, "1.25 s"),
            (64_000_000_000, "64.0 s"),
            (999_499_999_999, "999 s"),
            (999_500_000_000, "1000 s"),
            (1_234_500_000_000, "1235 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(format!("[{:>9}]", Nanos(12_345)), "[  12.3 µs]");
        assert_eq!(Delta(-12_345).to_string(), "-12.3 µs");
        assert_eq!(Delta(i64::MIN).to_string(), "-9223372037 s");
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(
            [Nanos::MAX, Nanos(1)].into_iter().sum::<Nanos>(),
            Nanos::MAX
        );
        assert_eq!(Nanos(1).saturating_sub(Nanos(2)), Nanos::ZERO);
        assert_eq!(Nanos(1).checked_sub(Nanos(2)), None);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
        assert_eq!(-Delta(i64::MIN), Delta(i64::MAX));
        assert_eq!(
            Timestamp::<Tai>::from_nanos(u64::MAX) + Nanos(1),
            Timestamp::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn differences_of_stamps_saturate() {
        let zero = Timestamp::<Monotonic>::from_nanos(0);
        let end = Timestamp::<Monotonic>::from_nanos(u64::MAX);
        assert_eq!(end - zero, Delta(i64::MAX));
        assert_eq!(zero - end, Delta(i64::MIN));
        assert_eq!(zero.since(end), None);
        assert_eq!(end.since(zero), Some(Nanos::MAX));
        assert_eq!(Delta(-1).to_nanos(), None);
    }

    #[test]
    fn stamps_and_durations_are_plain_numbers_in_json() {
        let json =
            serde_json::to_string(&(Nanos(7), Delta(-7), Timestamp::<Realtime>::from_nanos(8)))
                .unwrap();
        assert_eq!(json, "[7,-7,8]");
    }

    proptest! {
        #[test]
        fn converting_there_and_back_is_exact(
            mono in 0_u64..1 << 62,
            offset in 0_i64..1 << 62,
        ) {
            let to_real = ClockOffset::<Monotonic, Realtime>::new(Delta(offset));
            let stamp = Timestamp::from_nanos(mono);
            let real = to_real.convert(stamp);
            prop_assert_eq!(to_real.inverse().convert(real), stamp);
            prop_assert_eq!(ClockOffset::between(stamp, real), to_real);
        }

        #[test]
        fn printed_durations_are_within_half_a_percent(nanos in 1_u64..1 << 62) {
            let text = Nanos(nanos).to_string();
            let (number, unit) = text.split_once(' ').unwrap();
            let scale = match unit { "ns" => 1.0, "µs" => 1e3, "ms" => 1e6, _ => 1e9 };
            let printed = number.parse::<f64>().unwrap() * scale;
            prop_assert!((printed / nanos as f64 - 1.0).abs() <= 0.005_001, "{} is {}", nanos, text);
        }
    }
}
