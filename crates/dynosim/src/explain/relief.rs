//! What would make something feasible where nothing is.

use dynosim_spec::{SlaBound, SlaSpec};
use dynosim_sweep::{Record, best_first};
use serde::Serialize;

/// What would make something feasible.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relief {
    /// Every bound that would do if it alone gave way.
    pub single: Vec<Relaxation>,
    /// All bounds that would have to give way for the candidate that is closest to being feasible.
    pub joint: Vec<Relaxation>,
    /// The fewest GPUs with which a feasible candidate is found, if one is found at all.
    pub fewest_gpus: Option<u64>,
    /// Whether no smaller deployment is feasible, because all of them were tried; otherwise descents found it.
    pub proven: bool,
    /// That candidate as text.
    pub with_more_gpus: Option<String>,
    /// The largest budget that was tried.
    pub largest_budget: u32,
}

/// A bound that gives way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relaxation {
    /// Its key in the spec.
    pub name: &'static str,
    /// The bound as it is, milliseconds.
    pub from_ms: f64,
    /// What would do, milliseconds.
    pub to_ms: f64,
    /// The candidate that is feasible then, as text.
    pub state: String,
}

/// For each bound, what it would have to be for a candidate to meet all: the least that any does that meets the others.
/// Bounds for which there is none are left out.
pub(super) fn single(evaluated: &[Record], sla: &SlaSpec) -> Vec<Relaxation> {
    let bounds: Vec<SlaBound> = sla.active_bounds().collect();
    let relaxation = |bound: &SlaBound| {
        let others = bounds.iter().filter(|other| other.name != bound.name);
        let meets_others = |record: &&Record| {
            let mut others = others.clone();
            serves_all(record) && others.all(|other| record.metric(other.metric).is_some_and(|ms| ms <= other.bound_ms))
        };
        let candidates = evaluated.iter().filter(meets_others);
        let values = candidates.filter_map(|record| Some((record, record.metric(bound.metric)?)));
        let (record, to_ms) = values.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Relaxation {
            name: bound.name,
            from_ms: bound.bound_ms,
            to_ms,
            state: record.state.to_string(),
        })
    };
    bounds.iter().filter_map(relaxation).collect()
}

/// The bounds that the closest candidate misses, each with what it would have to be: of those that serve every request, the
/// one whose excesses add up to the least. None if every candidate rejects requests.
pub(super) fn joint(evaluated: &[Record], sla: &SlaSpec) -> Vec<Relaxation> {
    let serving = evaluated.iter().filter(|record| serves_all(record));
    let Some(closest) = serving.min_by(|a, b| best_first(a, b)) else {
        return Vec::new();
    };
    let missed = sla.active_bounds().filter_map(|bound| {
        let to_ms = closest.metric(bound.metric).filter(|&ms| ms > bound.bound_ms)?;
        Some(Relaxation {
            name: bound.name,
            from_ms: bound.bound_ms,
            to_ms,
            state: closest.state.to_string(),
        })
    });
    missed.collect()
}

/// Whether nothing but bounds stands against a candidate.
fn serves_all(record: &Record) -> bool {
    record.rejected_requests == Some(0)
}

/// Finds the fewest GPUs with which `feasible_gpus` finds something: asked for a budget, it says how many GPUs the smallest
/// feasible candidate within it has. Budgets double from `start` up to `most`, and are then halved towards the last one that
/// had none. Returns the number, if any, and the largest budget that was tried.
pub(super) fn fewest_gpus<E>(
    start: u32,
    most: u32,
    mut feasible_gpus: impl FnMut(u32) -> Result<Option<u64>, E>,
) -> Result<(Option<u64>, u32), E> {
    let mut without = start;
    let mut largest = start;
    let mut fewest = None;
    while fewest.is_none() && largest < most {
        without = largest;
        largest = largest.saturating_mul(2).min(most);
        fewest = feasible_gpus(largest)?;
    }
    let Some(mut fewest) = fewest else {
        return Ok((None, largest));
    };
    let mut without = u64::from(without);
    while without + 1 < fewest {
        let middle = without.midpoint(fewest);
        match feasible_gpus(u32::try_from(middle).unwrap_or(u32::MAX))? {
            Some(found) => fewest = found.min(middle),
            None => without = middle,
        }
    }
    Ok((Some(fewest), largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(needed: u64, start: u32, most: u32, expected: Option<u64>) {
        let mut asked = 0;
        let found = fewest_gpus(start, most, |budget| -> Result<Option<u64>, ()> {
            asked += 1;
            Ok((u64::from(budget) >= needed).then_some(needed.max(u64::from(budget) - 1)))
        });
        assert_eq!(found.expect("nothing fails").0, expected);
        assert!(asked <= 20, "{asked}");
    }

    #[test]
    fn the_fewest_gpus_are_found() {
        check(17, 16, 128, Some(17));
        check(31, 16, 128, Some(31));
        check(32, 16, 128, Some(32));
        check(33, 16, 128, Some(33));
        check(128, 16, 128, Some(128));
        check(129, 16, 128, None);
        check(3, 1, 4, Some(3));
    }
}
