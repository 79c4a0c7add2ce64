//! The part of an attention table that belongs to one number of query heads.

use crate::grid::Grid;
use crate::plane::Plane;
use crate::reading::{Place, Reading, line_between};

/// Query heads that every table has, from the smallest measured count on.
const HEADS: [u64; 24] = [
    1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 72, 96, 128,
];

/// Largest number of query heads in a table.
pub(crate) const MAX_HEADS: u64 = HEADS[HEADS.len() - 1];

/// Longest sequences that are told apart: 2^60 tokens stand for any more.
pub(crate) const MAX_TOKENS: u64 = 1 << 60;

/// The head counts of a table with these `measured` ones between which `heads` is read: one, if the table
/// has it, or two.
pub(crate) fn head_counts_around(heads: u64, measured: &[u64]) -> Vec<u64> {
    let smallest = measured.first().copied().unwrap_or_default();
    let filled_in = HEADS.into_iter().filter(|&heads| heads >= smallest);
    let mut all: Vec<u64> = filled_in.chain(measured.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let (lower, upper) = Place::of(&heads, &all).ends();
    let mut around = vec![all[lower], all[upper]];
    around.dedup();
    around
}

/// One plane, or two to read between, over sequences and lengths.
#[derive(Debug)]
pub(crate) struct HeadPlanes<P> {
    heads: u64,
    keys: (u64, u64),
    lower: P,
    /// Absent if the number of heads is on the grid.
    upper: Option<P>,
}

impl HeadPlanes<Plane> {
    /// `None` if there are more or fewer heads than anywhere in the table.
    pub(crate) fn of(grid: &Grid, heads: u64) -> Option<Self> {
        let place = Place::of(&heads, grid.axis(0));
        if place.is_beyond() {
            return None;
        }
        let (lower, upper) = place.ends();
        Some(Self {
            heads,
            keys: (grid.axis(0)[lower], grid.axis(0)[upper]),
            lower: Plane::of(grid, lower)?,
            upper: if lower == upper {
                None
            } else {
                Some(Plane::of(grid, upper)?)
            },
        })
    }

    /// Row keys that can be read without leaving a plane.
    pub(crate) fn rows(&self) -> Reach {
        self.reach(Plane::rows)
    }

    /// Column keys that can be read without leaving a plane.
    pub(crate) fn columns(&self) -> Reach {
        self.reach(Plane::columns)
    }

    /// All column keys within [`HeadPlanes::columns`], of one plane or the other; at least its first.
    pub(crate) fn column_keys(&self) -> Vec<u64> {
        let reach = self.columns();
        let planes = [Some(&self.lower), self.upper.as_ref()].into_iter().flatten();
        let keys = planes.flat_map(|plane| plane.columns().iter().copied());
        // Planes without a common key are both read at the first one.
        let mut keys: Vec<u64> = keys.filter(|&key| reach.contains(key)).chain([reach.first]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn reach(&self, keys: impl Fn(&Plane) -> &[u64]) -> Reach {
        let of = |plane| match keys(plane) {
            [only] => (*only, *only),
            [first, .., last] => (*first, *last),
            [] => (0, 0),
        };
        let (lower, upper) = (of(&self.lower), of(self.upper.as_ref().unwrap_or(&self.lower)));
        Reach {
            first: lower.0.max(upper.0),
            last: lower.1.min(upper.1),
        }
    }
}

impl<P> HeadPlanes<P> {
    /// The same planes in another form.
    pub(crate) fn map<Q>(self, form: impl Fn(P) -> Q) -> HeadPlanes<Q> {
        HeadPlanes {
            heads: self.heads,
            keys: self.keys,
            lower: form(self.lower),
            upper: self.upper.map(form),
        }
    }

    /// What both planes have `at` one point, on the line between them.
    pub(crate) fn read(&self, at: impl Fn(&P) -> Reading) -> Reading {
        let lower = at(&self.lower);
        match &self.upper {
            None => lower,
            Some(upper) => line_between(self.keys, (lower, at(upper)), self.heads),
        }
    }
}

/// The keys of one axis that can be read without leaving it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    first: u64,
    pub(crate) last: u64,
}

/// A value brought into [`Reach`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Within {
    pub(crate) value: u64,
    /// How many times larger the value was; 1 below the reach, where the first key stands for all.
    pub(crate) stretch: f64,
    pub(crate) moved: bool,
}

impl Reach {
    pub(crate) fn bring_in(self, value: u64) -> Within {
        let inside = value.min(self.last).max(self.first);
        let stretch = if value > inside {
            value as f64 / inside as f64
        } else {
            1.0
        };
        Within {
            value: inside,
            stretch,
            moved: value != inside,
        }
    }

    const fn contains(self, value: u64) -> bool {
        self.first <= value && value <= self.last
    }
}
