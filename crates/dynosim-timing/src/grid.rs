//! Filling the gaps of a measured three-dimensional grid, once, when a table is loaded.

use crate::reading::{Place, Reading, line, line_between};

/// Latencies over three ascending axes; leaves may be absent.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    axes: [Vec<u64>; 3],
    leaves: Vec<Option<Reading>>,
}

/// What densifying a grid adds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets<'a> {
    /// Keys to have on each axis, in the order in which they are filled in.
    pub(crate) keys: [&'a [u64]; 3],
    /// How latency runs along the second axis.
    pub(crate) second_axis: Growth,
}

/// The scale on which latency is taken to grow linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Latency itself.
    Linear,
    /// The square root of latency: attention grows with the square of the prompt length.
    Quadratic,
}

impl Grid {
    /// The measured leaves `ms` (row-major over `axes`) with the missing keys of `targets` filled in, in three steps, each of
    /// which sees what the one before has added:
    ///
    /// 1. every row with at least two leaves, along the third axis;
    /// 2. every missing row, from its two neighbours in the same slice, along the second axis;
    /// 3. every missing slice, from its two neighbours among the measured slices, along the first.
    ///
    /// Beyond the ends the line through the two keys at the end goes on. Every leaf is raised to
    /// `floor_ms` of its coordinates before and after.
    pub(crate) fn densified(
        axes: [&[u64]; 3],
        ms: &[Option<f64>],
        targets: Targets<'_>,
        floor_ms: impl Fn([u64; 3]) -> f64,
    ) -> Self {
        let mut grid = Self::sparse(axes, ms, targets.keys);
        grid.raise_to(&floor_ms);
        for x in 0..grid.axes[0].len() {
            grid.fill_rows(x, targets.keys[2]);
            grid.fill_slice(x, targets.keys[1], targets.second_axis);
        }
        grid.fill_slices(targets.keys[0]);
        grid.raise_to(&floor_ms);
        grid
    }

    /// Keys of one axis.
    pub(crate) fn axis(&self, axis: usize) -> &[u64] {
        &self.axes[axis]
    }

    /// The leaf at the given indices.
    pub(crate) fn leaf(&self, x: usize, y: usize, z: usize) -> Option<Reading> {
        self.leaves[self.offset(x, y, z)]
    }

    /// The leaves along the third axis.
    pub(crate) fn row(&self, x: usize, y: usize) -> &[Option<Reading>] {
        &self.leaves[self.offset(x, y, 0)..][..self.axes[2].len()]
    }

    fn sparse(axes: [&[u64]; 3], ms: &[Option<f64>], added: [&[u64]; 3]) -> Self {
        let axes_with_targets: [Vec<u64>; 3] = std::array::from_fn(|axis| {
            let mut keys = [axes[axis], added[axis]].concat();
            keys.sort_unstable();
            keys.dedup();
            keys
        });
        let positions: [Vec<usize>; 3] = std::array::from_fn(|axis| {
            axes[axis]
                .iter()
                .map(|key| index_of(*key, &axes_with_targets[axis]))
                .collect()
        });
        let cells = axes_with_targets.iter().map(Vec::len).product();
        let mut grid = Self {
            axes: axes_with_targets,
            leaves: vec![None; cells],
        };
        let mut measured = ms.iter();
        for &x in &positions[0] {
            for &y in &positions[1] {
                for &z in &positions[2] {
                    let offset = grid.offset(x, y, z);
                    grid.leaves[offset] = measured.next().copied().flatten().map(Reading::measured);
                }
            }
        }
        grid
    }

    fn raise_to(&mut self, floor_ms: &impl Fn([u64; 3]) -> f64) {
        let mut leaves = self.leaves.iter_mut();
        for &x in &self.axes[0] {
            for &y in &self.axes[1] {
                for &z in &self.axes[2] {
                    if let Some(Some(leaf)) = leaves.next() {
                        *leaf = leaf.at_least(floor_ms([x, y, z]));
                    }
                }
            }
        }
    }

    fn fill_rows(&mut self, x: usize, targets: &[u64]) {
        for y in 0..self.axes[1].len() {
            let mut present: Vec<usize> = self.columns_of(x, y).collect();
            for &key in targets {
                let z = index_of(key, &self.axes[2]);
                let Some(place) = gap(z, &present) else { continue };
                let (lower, upper) = neighbours(place, &present);
                let keys = (self.axes[2][lower], self.axes[2][upper]);
                if let Some(readings) = self.leaf(x, y, lower).zip(self.leaf(x, y, upper)) {
                    self.set(x, y, z, line_between(keys, readings, key));
                    insert(z, &mut present);
                }
            }
        }
    }

    fn fill_slice(&mut self, x: usize, targets: &[u64], growth: Growth) {
        let mut present: Vec<usize> = self.rows_of(x).collect();
        for &key in targets {
            let y = index_of(key, &self.axes[1]);
            let Some(place) = gap(y, &present) else { continue };
            let (lower, upper) = neighbours(place, &present);
            let keys = (self.axes[1][lower], self.axes[1][upper]);
            let mut any = false;
            for z in 0..self.axes[2].len() {
                let readings = self.leaf(x, lower, z).zip(self.leaf(x, upper, z));
                if let Some(reading) = readings.and_then(|readings| growth.between(keys, readings, key)) {
                    self.set(x, y, z, reading);
                    any = true;
                }
            }
            if any {
                insert(y, &mut present);
            }
        }
    }

    fn fill_slices(&mut self, targets: &[u64]) {
        let measured: Vec<usize> = (0..self.axes[0].len())
            .filter(|&x| self.rows_of(x).next().is_some())
            .collect();
        for &key in targets {
            let x = index_of(key, &self.axes[0]);
            let Some(place) = gap(x, &measured) else { continue };
            let (lower, upper) = neighbours(place, &measured);
            let keys = (self.axes[0][lower], self.axes[0][upper]);
            for y in 0..self.axes[1].len() {
                for z in 0..self.axes[2].len() {
                    if let Some(readings) = self.leaf(lower, y, z).zip(self.leaf(upper, y, z)) {
                        self.set(x, y, z, line_between(keys, readings, key));
                    }
                }
            }
        }
    }

    fn columns_of(&self, x: usize, y: usize) -> impl Iterator<Item = usize> {
        (0..self.axes[2].len()).filter(move |&z| self.leaf(x, y, z).is_some())
    }

    fn rows_of(&self, x: usize) -> impl Iterator<Item = usize> {
        (0..self.axes[1].len()).filter(move |&y| self.columns_of(x, y).next().is_some())
    }

    fn offset(&self, x: usize, y: usize, z: usize) -> usize {
        (x * self.axes[1].len() + y) * self.axes[2].len() + z
    }

    fn set(&mut self, x: usize, y: usize, z: usize, reading: Reading) {
        let offset = self.offset(x, y, z);
        self.leaves[offset] = Some(reading);
    }
}

impl Growth {
    /// The reading at `key`; `None` if there is no such line.
    fn between(self, keys: (u64, u64), readings: (Reading, Reading), key: u64) -> Option<Reading> {
        let linear = line_between(keys, readings, key);
        match self {
            Self::Linear => Some(linear),
            Self::Quadratic if readings.0.ms < 0.0 || readings.1.ms < 0.0 => None,
            Self::Quadratic => {
                let roots = (readings.0.ms.sqrt(), readings.1.ms.sqrt());
                let root = line((keys.0 as f64, keys.1 as f64), roots, key as f64);
                Some(Reading {
                    ms: root * root,
                    ..linear
                })
            }
        }
    }
}

/// Index of a key that the axis was built to contain.
fn index_of(key: u64, axis: &[u64]) -> usize {
    axis.partition_point(|&other| other < key)
}

/// Place of `index` among `present` indices, if it is absent and there are two to draw a line through.
fn gap(index: usize, present: &[usize]) -> Option<Place> {
    if present.len() < 2 {
        return None;
    }
    match Place::of(&index, present) {
        Place::At(_) => None,
        place => Some(place),
    }
}

fn neighbours(place: Place, present: &[usize]) -> (usize, usize) {
    let (lower, upper) = place.ends();
    (present[lower], present[upper])
}

fn insert(index: usize, present: &mut Vec<usize>) {
    let at = present.partition_point(|&other| other < index);
    present.insert(at, index);
}
