//! A complete two-dimensional slice of a densified grid, and the two ways to read between its leaves.

use crate::cubic_patch::{Cell, Patch};
use crate::grid::Grid;
use crate::reading::{Place, Reading, line_between};

/// Latencies over rows and columns without gaps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    rows: Vec<u64>,
    columns: Vec<u64>,
    readings: Vec<Reading>,
}

impl Plane {
    /// The slice of `grid` at index `x` of its first axis: all rows that have leaves, and the columns
    /// that none of these rows lacks. `None` if nothing is left.
    pub(crate) fn of(grid: &Grid, x: usize) -> Option<Self> {
        let mut complete = vec![true; grid.axis(2).len()];
        let mut rows = Vec::new();
        for (y, &key) in grid.axis(1).iter().enumerate() {
            let row = grid.row(x, y);
            if row.iter().any(Option::is_some) {
                rows.push((key, row));
                for (complete, leaf) in complete.iter_mut().zip(row) {
                    *complete &= leaf.is_some();
                }
            }
        }
        let mut readings = Vec::with_capacity(rows.len() * complete.len());
        for (_, row) in &rows {
            let leaves = row.iter().zip(&complete);
            readings.extend(leaves.filter_map(|(leaf, complete)| leaf.filter(|_| *complete)));
        }
        let columns = grid.axis(2).iter().zip(&complete);
        (!readings.is_empty()).then(|| Self {
            rows: rows.iter().map(|(key, _)| *key).collect(),
            columns: columns
                .filter(|(_, complete)| **complete)
                .map(|(key, _)| *key)
                .collect(),
            readings,
        })
    }

    /// Ascending keys of the rows; not empty.
    pub(crate) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Ascending keys of the columns; not empty.
    pub(crate) fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// Whether (`row`, `column`) lies within the keys.
    pub(crate) fn contains(&self, row: u64, column: u64) -> bool {
        !Place::of(&row, &self.rows).is_beyond() && !Place::of(&column, &self.columns).is_beyond()
    }

    /// Straight along the columns, then straight along the rows.
    pub(crate) fn bilinear(&self, row: u64, column: u64) -> Reading {
        let (y, z) = (Place::of(&row, &self.rows), Place::of(&column, &self.columns));
        self.bilinear_at((row, y), (column, z))
    }

    /// [`Plane::bilinear`], the places of row and column being known.
    pub(crate) fn bilinear_at(&self, (row, y): (u64, Place), (column, z): (u64, Place)) -> Reading {
        let ((y0, y1), (z0, z1)) = (y.ends(), z.ends());
        let along_columns = |y: usize| {
            let lower = self.reading(y, z0);
            if z0 == z1 {
                return lower;
            }
            line_between(
                (self.columns[z0], self.columns[z1]),
                (lower, self.reading(y, z1)),
                column,
            )
        };
        let lower = along_columns(y0);
        if y0 == y1 {
            return lower;
        }
        line_between((self.rows[y0], self.rows[y1]), (lower, along_columns(y1)), row)
    }

    /// On the smooth surface over the cell; straight where only one coordinate lies between keys.
    pub(crate) fn cubic(&self, row: u64, column: u64) -> Reading {
        let (y, z) = (Place::of(&row, &self.rows), Place::of(&column, &self.columns));
        let (Place::Between(y0, _), Place::Between(z0, _)) = (y, z) else {
            return self.bilinear_at((row, y), (column, z));
        };
        let (patch, extrapolated) = self.patch(y0, z0);
        Reading {
            ms: patch.at(row as f64, column as f64),
            extrapolated,
        }
    }

    /// The smooth surface over the cell above row `y` and column `z` (indices, neither the last), and whether
    /// one of its corners is extrapolated.
    pub(crate) fn patch(&self, y: usize, z: usize) -> (Patch, bool) {
        let corners = [
            self.reading(y, z),
            self.reading(y, z + 1),
            self.reading(y + 1, z),
            self.reading(y + 1, z + 1),
        ];
        let patch = Patch::of(&Cell {
            y: (self.rows[y] as f64, self.rows[y + 1] as f64),
            z: (self.columns[z] as f64, self.columns[z + 1] as f64),
            values: corners.map(|corner| corner.ms),
        });
        (patch, corners.iter().any(|corner| corner.extrapolated))
    }

    fn reading(&self, y: usize, z: usize) -> Reading {
        self.readings[y * self.columns.len() + z]
    }
}
