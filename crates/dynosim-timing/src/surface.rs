//! A plane that is read over and over.

use std::sync::OnceLock;

use crate::axis::Axis;
use crate::cubic_patch::Patch;
use crate::plane::Plane;
use crate::reading::{Place, Reading};

/// A [`Plane`] that remembers the smooth surface over each of its cells once it was read there, because
/// finding it takes many times longer than reading it.
#[derive(Debug)]
pub(crate) struct Surface {
    plane: Plane,
    rows: Axis,
    columns: Axis,
    /// One per row and column, in that order; boxed, because few cells are ever read.
    patches: Box<[OnceLock<Box<SolvedPatch>>]>,
}

#[derive(Debug)]
struct SolvedPatch {
    patch: Patch,
    extrapolated: bool,
}

impl Surface {
    pub(crate) fn new(plane: Plane) -> Self {
        let (rows, columns) = (plane.rows(), plane.columns());
        Self {
            patches: (0..rows.len() * columns.len()).map(|_| OnceLock::new()).collect(),
            rows: Axis::new(rows.to_vec()),
            columns: Axis::new(columns.to_vec()),
            plane,
        }
    }

    /// Exactly [`Plane::cubic`].
    pub(crate) fn cubic(&self, row: u64, column: u64) -> Reading {
        let (y, z) = (self.rows.place(row), self.columns.place(column));
        let (Place::Between(y0, _), Place::Between(z0, _)) = (y, z) else {
            return self.plane.bilinear_at((row, y), (column, z));
        };
        let index = y0 * self.columns.keys().len() + z0;
        let solved = self.patches[index].get_or_init(|| {
            let (patch, extrapolated) = self.plane.patch(y0, z0);
            Box::new(SolvedPatch { patch, extrapolated })
        });
        Reading {
            ms: solved.patch.at(row as f64, column as f64),
            extrapolated: solved.extrapolated,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::{Grid, Growth, Targets};

    fn keys() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::btree_set(1_u64..40, 1..6).prop_map(|keys| keys.into_iter().collect())
    }

    fn plane() -> impl Strategy<Value = Plane> {
        (keys(), keys()).prop_flat_map(|(rows, columns)| {
            let leaf = (0.01_f64..10.0).prop_map(Some);
            prop::collection::vec(leaf, rows.len() * columns.len()).prop_map(move |ms| {
                let targets = Targets {
                    keys: [&[], &[30], &[]],
                    second_axis: Growth::Linear,
                };
                let grid = Grid::densified([&[1], &rows, &columns], &ms, targets, |_| 0.0);
                Plane::of(&grid, 0).expect("has leaves")
            })
        })
    }

    proptest! {
        #[test]
        fn differential_remembered_patches_read_as_fresh_ones(plane in plane()) {
            let surface = Surface::new(plane.clone());
            // The second time all patches are solved already.
            for _ in 0..2 {
                for (row, column) in (0..45).flat_map(|row| (0..45).map(move |column| (row, column))) {
                    let (found, fresh) = (surface.cubic(row, column), plane.cubic(row, column));
                    prop_assert_eq!(found.ms.to_bits(), fresh.ms.to_bits());
                    prop_assert_eq!(found.extrapolated, fresh.extrapolated);
                }
            }
        }
    }
}
