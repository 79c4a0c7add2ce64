//! One latency read off measured data, and the rule for reading between two points.

/// A latency and whether it rests on anything beyond the measured range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// Milliseconds.
    pub(crate) ms: f64,
    /// Whether it lies outside the measurements, or was made from a value that does.
    pub(crate) extrapolated: bool,
}

impl Reading {
    pub(crate) const ZERO: Self = Self::measured(0.0);

    pub(crate) const fn measured(ms: f64) -> Self {
        Self {
            ms,
            extrapolated: false,
        }
    }

    /// The same latency, counted as extrapolated if `extrapolated`.
    pub(crate) const fn or_extrapolated(self, extrapolated: bool) -> Self {
        Self {
            ms: self.ms,
            extrapolated: self.extrapolated || extrapolated,
        }
    }

    /// A multiple of the latency.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            ms: self.ms * factor,
            ..self
        }
    }

    /// One after the other.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            ms: self.ms + other.ms,
            extrapolated: self.extrapolated || other.extrapolated,
        }
    }

    /// At least `floor_ms`.
    pub(crate) fn at_least(self, floor_ms: f64) -> Self {
        Self {
            ms: if floor_ms > self.ms { floor_ms } else { self.ms },
            ..self
        }
    }
}

/// Where a value lies among ascending keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the key of this index.
    At(usize),
    /// Between two neighbouring keys.
    Between(usize, usize),
    /// Below or above all keys; the two keys at that end (the same one twice if there is only one).
    Beyond(usize, usize),
}

impl Place {
    /// Place of `value` among `keys`, which are ascending and not empty.
    pub(crate) fn of<T: Ord>(value: &T, keys: &[T]) -> Self {
        let last = keys.len().saturating_sub(1);
        match keys.binary_search(value) {
            Ok(index) => Self::At(index),
            Err(0) => Self::Beyond(0, last.min(1)),
            Err(index) if index > last => Self::Beyond(last.saturating_sub(1), last),
            Err(index) => Self::Between(index - 1, index),
        }
    }

    pub(crate) const fn ends(self) -> (usize, usize) {
        match self {
            Self::At(index) => (index, index),
            Self::Between(lower, upper) | Self::Beyond(lower, upper) => (lower, upper),
        }
    }

    pub(crate) const fn is_beyond(self) -> bool {
        matches!(self, Self::Beyond(..))
    }
}

/// The straight line through (`x0`, `y0`) and (`x1`, `y1`), `x0 <= x1`, at `x`.
///
/// Beyond the two points a falling line is held at `y0`: noise at the end of a measured range must
/// not send latencies towards zero.
pub(crate) fn line((x0, x1): (f64, f64), (y0, y1): (f64, f64), x: f64) -> f64 {
    let falls_outside = y1 < y0 && (x < x0 || x > x1);
    if falls_outside || x1 <= x0 {
        return y0;
    }
    y0 + (y1 - y0) / (x1 - x0) * (x - x0)
}

/// [`line()`] through two readings with keys `ends`; extrapolated if one of them is, or if `x` lies beyond them.
pub(crate) fn line_between(ends: (u64, u64), readings: (Reading, Reading), x: u64) -> Reading {
    let (lower, upper) = readings;
    Reading {
        ms: line((ends.0 as f64, ends.1 as f64), (lower.ms, upper.ms), x as f64),
        extrapolated: lower.extrapolated || upper.extrapolated || x < ends.0 || x > ends.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falling_lines_are_held_at_the_lower_key_outside() {
        assert!((line((1.0, 3.0), (4.0, 2.0), 2.0) - 3.0).abs() < 1e-12);
        assert!((line((1.0, 3.0), (4.0, 2.0), 5.0) - 4.0).abs() < 1e-12);
        assert!((line((1.0, 3.0), (4.0, 2.0), 0.0) - 4.0).abs() < 1e-12);
        assert!((line((1.0, 3.0), (2.0, 4.0), 5.0) - 6.0).abs() < 1e-12);
    }

    #[test]
    fn places_cover_the_whole_axis() {
        let keys = [2, 4, 8];
        assert_eq!(Place::of(&1, &keys), Place::Beyond(0, 1));
        assert_eq!(Place::of(&4, &keys), Place::At(1));
        assert_eq!(Place::of(&5, &keys), Place::Between(1, 2));
        assert_eq!(Place::of(&9, &keys), Place::Beyond(1, 2));
        assert_eq!(Place::of(&9, &[3]), Place::Beyond(0, 0));
    }
}
