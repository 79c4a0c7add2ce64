//! Instants, spans and block sizes: the only place where units are converted.

use std::fmt;
use std::iter::Sum;
use std::num::NonZeroU32;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of the simulated clock: whole nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// A span of simulated time in whole nanoseconds.
///
/// An integer clock makes sums associative: many steps may be advanced at once and still end at
/// exactly the instant that single steps reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(u64);

impl SimTime {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// The end of the clock, 584 years later: sums that would lie beyond it end here.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the start, for reports.
    pub fn as_ms(self) -> f64 {
        SimDuration(self.0).as_ms()
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
}

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Longer than the clock runs.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `ms` milliseconds, rounded to the nearest nanosecond as
    /// [`Duration::from_secs_f64`] rounds `ms / 1000`.
    ///
    /// `None` if `ms` is negative, not finite, or longer than the clock can hold (584 years).
    pub fn from_ms(ms: f64) -> Option<Self> {
        nanos_of_secs(ms / 1000.0).map(Self)
    }

    /// The span divided by a speed-up, rounded once more to the nearest nanosecond.
    ///
    /// A ratio of zero or less means "not scaled", as does a ratio that is not a number.
    #[must_use]
    pub fn sped_up(self, ratio: f64) -> Self {
        if ratio > 0.0 && ratio.to_bits() != 1.0_f64.to_bits() {
            let scaled = Duration::from_nanos(self.0).as_secs_f64() / ratio;
            Self(nanos_of_secs(scaled).unwrap_or(u64::MAX))
        } else {
            self
        }
    }

    /// Nanoseconds of the span.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds of the span, for reports.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;

    /// Saturates at the end of the clock, 584 years after the start.
    fn add(self, span: SimDuration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, span: SimDuration) {
        *self = *self + span;
    }
}

impl Sub for SimTime {
    type Output = SimDuration;

    fn sub(self, earlier: Self) -> SimDuration {
        self.since(earlier)
    }
}

impl Add for SimDuration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for SimDuration {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for SimDuration {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} ms", self.as_ms())
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} ms", self.as_ms())
    }
}

/// Nanoseconds of a number of seconds, as [`Duration::try_from_secs_f64`] rounds them, only faster:
/// to the nearest one, halves to the even one. `None` if negative, not finite or longer than the clock.
fn nanos_of_secs(secs: f64) -> Option<u64> {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    /// From here to twice as far, `f64` has all whole numbers and nothing in between: adding this rounds.
    const WHOLE: f64 = (1_u64 << FRACTION_BITS) as f64;
    let nanos = secs * 1e9;
    // Below eight seconds the product is off by less than a millionth, so only what comes near a
    // half needs the exact way.
    if (0.0..8e9).contains(&nanos) {
        let rounded = nanos + WHOLE;
        if (nanos - (rounded - WHOLE)).abs() < 0.5 - 1e-5 {
            return Some(rounded.to_bits() - WHOLE.to_bits());
        }
    }
    let bits = secs.to_bits();
    // The sign bit counts as exponent, so negative numbers are out of range like huge ones.
    let exponent = u32::try_from(bits >> FRACTION_BITS).expect("twelve bits");
    let mantissa = (bits & ((1 << FRACTION_BITS) - 1)) | (1 << FRACTION_BITS);
    // The number is mantissa / 2^shift.
    let shift = (1023 + FRACTION_BITS).checked_sub(exponent)?;
    let nanos = u128::from(mantissa) * 1_000_000_000;
    if shift >= u128::BITS {
        return Some(0);
    }
    let (whole, rest) = (nanos >> shift, nanos & ((1 << shift) - 1));
    let half = (1 << shift) >> 1;
    let round_up = rest > half || (rest == half && shift > 0 && whole & 1 == 1);
    u64::try_from(whole + u128::from(round_up)).ok()
}

/// Tokens per KV cache block: the only conversion between tokens and blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockSize(NonZeroU32);

impl BlockSize {
    /// One token per block, the page size of the SGLang-style engine by default.
    pub(crate) const ONE: Self = Self(NonZeroU32::MIN);
    /// The block size of the vLLM-style engine by default.
    pub(crate) const VLLM_DEFAULT: Self = Self(NonZeroU32::MIN.saturating_add(63));

    /// A block of `tokens` tokens; `None` for zero.
    pub const fn new(tokens: u32) -> Option<Self> {
        match NonZeroU32::new(tokens) {
            Some(tokens) => Some(Self(tokens)),
            None => None,
        }
    }

    /// Tokens in one block.
    pub const fn tokens(self) -> u32 {
        self.0.get()
    }

    /// Blocks that `tokens` tokens occupy, the last one possibly in part.
    pub const fn blocks_for(self, tokens: u32) -> u32 {
        tokens.div_ceil(self.0.get())
    }

    /// Blocks that `tokens` tokens fill completely.
    pub const fn full_blocks(self, tokens: u32) -> u32 {
        tokens / self.0.get()
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn differential_rounding_equals_the_standard_library(
            bits in any::<u64>(),
            ms in 0.0..1e6_f64,
            halves in 0_u64..1 << 40,
        ) {
            for secs in [f64::from_bits(bits), ms / 1000.0, halves as f64 / 2e9, -ms] {
                let expected = Duration::try_from_secs_f64(secs).ok().and_then(|time| u64::try_from(time.as_nanos()).ok());
                prop_assert_eq!(nanos_of_secs(secs), expected, "{} s", secs);
            }
        }
    }

    #[test]
    fn milliseconds_round_to_whole_nanoseconds() {
        let check = |ms: f64, nanos: Option<u64>| {
            assert_eq!(SimDuration::from_ms(ms).map(SimDuration::as_nanos), nanos, "{ms} ms");
        };
        check(0.0, Some(0));
        check(18.023_974_098_9, Some(18_023_974));
        check(5.746_592_998_3, Some(5_746_593));
        check(-1.0, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        check(1e300, None);
    }

    #[test]
    fn a_speed_up_rounds_a_second_time() {
        let step = SimDuration::from_nanos(18_023_974);
        assert_eq!(step.sped_up(2.5).as_nanos(), 7_209_590);
        assert_eq!(step.sped_up(1.0), step);
        assert_eq!(step.sped_up(0.0), step, "zero means not scaled");
        assert_eq!(step.sped_up(f64::NAN), step);
    }

    #[test]
    fn tokens_become_blocks() {
        let block_size = BlockSize::new(64).expect("64 is not zero");
        assert_eq!(block_size.blocks_for(0), 0);
        assert_eq!(block_size.blocks_for(65), 2);
        assert_eq!(block_size.full_blocks(65), 1);
        assert_eq!(BlockSize::new(0), None);
    }
}
