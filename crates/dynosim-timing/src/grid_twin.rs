//! The densified grid and its two look-ups once more, as plain maps without any indices.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::cubic_patch::{Cell, Patch};
use crate::grid::{Grid, Growth, Targets};
use crate::plane::Plane;
use crate::reading::Reading;

/// A latency, and whether it is extrapolated.
type Leaf = (f64, bool);
type Row = BTreeMap<u64, Leaf>;
type Slice = BTreeMap<u64, Row>;
type Map = BTreeMap<u64, Slice>;

fn around<V>(map: &BTreeMap<u64, V>, key: u64) -> (u64, u64) {
    let below = map.range(..key).next_back().map(|(key, _)| *key);
    let above = map.range(key + 1..).next().map(|(key, _)| *key);
    let keys: Vec<u64> = map.keys().copied().collect();
    match (below, above) {
        (Some(below), Some(above)) => (below, above),
        (None, _) => (keys[0], keys[1]),
        (_, None) => (keys[keys.len() - 2], keys[keys.len() - 1]),
    }
}

fn on_line(keys: (u64, u64), low: Leaf, high: Leaf, key: u64, growth: Growth) -> Leaf {
    let to = |value: f64| {
        if growth == Growth::Quadratic {
            value.sqrt()
        } else {
            value
        }
    };
    let from = |value: f64| {
        if growth == Growth::Quadratic {
            value * value
        } else {
            value
        }
    };
    let outside = key < keys.0 || key > keys.1;
    let (a, b) = (to(low.0), to(high.0));
    let value = if outside && b < a {
        a
    } else {
        a + (b - a) / (keys.1 as f64 - keys.0 as f64) * (key as f64 - keys.0 as f64)
    };
    (from(value), low.1 || high.1 || outside)
}

fn row_on_line(keys: (u64, u64), rows: (&Row, &Row), key: u64, growth: Growth) -> Row {
    let positive = |leaf: &Leaf| growth == Growth::Linear || leaf.0 >= 0.0;
    (rows.0.iter())
        .filter_map(|(z, low)| Some((*z, *low, *rows.1.get(z)?)))
        .filter(|(_, low, high)| positive(low) && positive(high))
        .map(|(z, low, high)| (z, on_line(keys, low, high, key, growth)))
        .collect()
}

fn densify(map: &mut Map, targets: Targets<'_>) {
    for slice in map.values_mut() {
        for row in slice.values_mut().filter(|row| row.len() > 1) {
            for &z in targets.keys[2] {
                if !row.contains_key(&z) {
                    let (low, high) = around(row, z);
                    let leaf = on_line((low, high), row[&low], row[&high], z, Growth::Linear);
                    row.insert(z, leaf);
                }
            }
        }
        for &y in targets.keys[1] {
            if !slice.contains_key(&y) && slice.len() > 1 {
                let (low, high) = around(slice, y);
                let row = row_on_line((low, high), (&slice[&low], &slice[&high]), y, targets.second_axis);
                if !row.is_empty() {
                    slice.insert(y, row);
                }
            }
        }
    }
    let measured = map.clone();
    for &x in targets.keys[0] {
        if !measured.contains_key(&x) && measured.len() > 1 {
            let (low, high) = around(&measured, x);
            let rows = measured[&low].iter().filter_map(|(y, row)| {
                let new = row_on_line((low, high), (row, measured[&high].get(y)?), x, Growth::Linear);
                (!new.is_empty()).then_some((*y, new))
            });
            let slice: Slice = rows.collect();
            if !slice.is_empty() {
                map.insert(x, slice);
            }
        }
    }
}

/// Reads a rectangular slice at a point within its keys.
fn read(slice: &Slice, y: u64, z: u64, smooth: bool) -> Leaf {
    let along_row = |row: &Row| {
        row.get(&z).copied().unwrap_or_else(|| {
            let (low, high) = around(row, z);
            on_line((low, high), row[&low], row[&high], z, Growth::Linear)
        })
    };
    if let Some(row) = slice.get(&y) {
        return along_row(row);
    }
    let (y0, y1) = around(slice, y);
    if !smooth || slice[&y0].contains_key(&z) {
        return on_line(
            (y0, y1),
            along_row(&slice[&y0]),
            along_row(&slice[&y1]),
            y,
            Growth::Linear,
        );
    }
    let (z0, z1) = around(&slice[&y0], z);
    let corners = [(y0, z0), (y0, z1), (y1, z0), (y1, z1)].map(|(y, z)| slice[&y][&z]);
    let cell = Cell {
        y: (y0 as f64, y1 as f64),
        z: (z0 as f64, z1 as f64),
        values: corners.map(|corner| corner.0),
    };
    let extrapolated = corners.iter().any(|corner| corner.1);
    (Patch::of(&cell).at(y as f64, z as f64), extrapolated)
}

#[derive(Debug, Clone)]
struct Case {
    axes: [Vec<u64>; 3],
    ms: Vec<Option<f64>>,
    targets: [Vec<u64>; 3],
    growth: Growth,
}

fn case(gaps: f64) -> impl Strategy<Value = Case> {
    let keys = || prop::collection::btree_set(1_u64..40, 1..5).prop_map(|keys| keys.into_iter().collect::<Vec<_>>());
    let targets = || prop::collection::vec(1_u64..60, 0..6);
    let growth = prop_oneof![Just(Growth::Linear), Just(Growth::Quadratic)];
    let axes = [keys(), keys(), keys()];
    (axes, [targets(), targets(), targets()], growth).prop_flat_map(move |(axes, targets, growth)| {
        let cells: usize = axes.iter().map(Vec::len).product();
        let leaf = (0.01_f64..10.0, 0.0_f64..1.0).prop_map(move |(ms, luck)| (luck >= gaps).then_some(ms));
        prop::collection::vec(leaf, cells).prop_map(move |ms| Case {
            axes: axes.clone(),
            ms,
            targets: targets.clone(),
            growth,
        })
    })
}

impl Case {
    fn grid(&self) -> Grid {
        let axes = [&self.axes[0][..], &self.axes[1][..], &self.axes[2][..]];
        Grid::densified(axes, &self.ms, self.targets(), |_| f64::NEG_INFINITY)
    }

    fn map(&self) -> Map {
        let mut map = Map::new();
        let mut ms = self.ms.iter();
        for &x in &self.axes[0] {
            for &y in &self.axes[1] {
                for &z in &self.axes[2] {
                    if let Some(Some(ms)) = ms.next() {
                        map.entry(x).or_default().entry(y).or_default().insert(z, (*ms, false));
                    }
                }
            }
        }
        densify(&mut map, self.targets());
        map
    }

    fn targets(&self) -> Targets<'_> {
        Targets {
            keys: [&self.targets[0], &self.targets[1], &self.targets[2]],
            second_axis: self.growth,
        }
    }
}

fn same(reading: Reading, leaf: Leaf) -> bool {
    let close = (reading.ms - leaf.0).abs() <= 1e-9 * leaf.0.abs().max(1.0);
    close && reading.extrapolated == leaf.1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn differential_densified_grids_agree(case in case(0.3)) {
        let (grid, map) = (case.grid(), case.map());
        for (x, &x_key) in grid.axis(0).iter().enumerate() {
            for (y, &y_key) in grid.axis(1).iter().enumerate() {
                for (z, &z_key) in grid.axis(2).iter().enumerate() {
                    let leaf = map.get(&x_key).and_then(|slice| slice.get(&y_key)).and_then(|row| row.get(&z_key));
                    match (grid.leaf(x, y, z), leaf) {
                        (Some(reading), Some(leaf)) => prop_assert!(same(reading, *leaf), "{reading:?} {leaf:?}"),
                        (reading, leaf) => prop_assert!(reading.is_none() && leaf.is_none(), "{reading:?} {leaf:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn differential_look_ups_agree(case in case(0.0), y in 1_u64..60, z in 1_u64..60) {
        let (grid, map) = (case.grid(), case.map());
        for (x, x_key) in grid.axis(0).iter().enumerate() {
            let Some(plane) = Plane::of(&grid, x) else { continue };
            let slice = &map[x_key];
            // Steep lines extended below zero leave gaps on the quadratic scale; then the two differ on purpose.
            let complete = slice.values().all(|row| row.keys().eq(plane.columns()));
            if complete && plane.contains(y, z) {
                prop_assert!(same(plane.bilinear(y, z), read(slice, y, z, false)));
                prop_assert!(same(plane.cubic(y, z), read(slice, y, z, true)));
            }
        }
    }
}
