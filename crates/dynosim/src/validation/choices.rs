//! Decisions: whether simulations lead to the same deployment as measurements do.

use std::ops::RangeInclusive;

use dynosim_spec::LoadPoint;
use serde::Serialize;

use super::validator::ValidatedPoint;

/// Bounds on mean TPOT that choices are made under, in milliseconds.
const BOUNDS_MS: RangeInclusive<u32> = 9..=80;

/// What is chosen under every bound on TPOT from 9 to 80 ms, for every pair of lengths.
///
/// The best of the points with a mean TPOT within the bound is the one with the most output tokens per second and GPU;
/// of equals, the one with fewer GPUs, then lower concurrency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choices {
    /// Pairs of lengths times bounds.
    pub cases: usize,
    /// Cases in which simulations choose what measurements choose, or both find that nothing is within the bound.
    pub agreements: usize,
    /// Those of them in which both find that nothing is within the bound.
    pub empty: usize,
    /// Cases in which simulations find nothing within the bound, and measurements do.
    pub misses: usize,
    /// Cases in which the simulated choice exceeds the bound when measured.
    pub exceedances: usize,
    /// Largest share by which they exceed it; absent if none does.
    pub worst_exceedance: Option<f64>,
    /// Mean of the regrets; absent if measurements find nothing within any bound.
    pub mean_regret: Option<f64>,
    /// Largest of the regrets.
    pub worst_regret: Option<f64>,
    /// Every case, by lengths and bound.
    pub details: Vec<ChoiceCase>,
}

/// What is chosen for one pair of lengths under one bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChoiceCase {
    /// Prompt tokens.
    pub isl: u32,
    /// Output tokens.
    pub osl: u32,
    /// Bound on mean TPOT in milliseconds.
    pub bound_ms: u32,
    /// The best point by measurement; absent if none is within the bound.
    pub measured: Option<Choice>,
    /// The best point by simulation; absent if none is within the bound.
    pub simulated: Option<Choice>,
    /// Whether the two are the same.
    pub agrees: bool,
    /// Share of measured throughput that is lost by following the simulation: 1 - that of its choice / the best one,
    /// 0 if its choice exceeds the bound and has more, and 1 if it finds nothing. Absent if measurements find nothing.
    pub regret: Option<f64>,
    /// By what share the measured TPOT of the simulated choice exceeds the bound; absent if it does not.
    pub exceeds_by: Option<f64>,
}

/// A deployment and its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// GPUs of the worker.
    pub tp: u32,
    /// Requests in flight.
    pub concurrency: u32,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    load: LoadPoint,
    measured: Figures,
    simulated: Figures,
}

#[derive(Debug, Clone, Copy)]
struct Figures {
    tpot_ms: f64,
    output_tok_s_per_gpu: f64,
}

/// The choices among these points; those that lack a figure cannot be chosen.
pub(super) fn choices<'a>(points: impl IntoIterator<Item = &'a ValidatedPoint>) -> Choices {
    let mut candidates: Vec<Candidate> = points.into_iter().filter_map(candidate).collect();
    candidates.sort_by_key(|candidate| candidate.load);
    let mut shapes: Vec<(u32, u32)> = candidates
        .iter()
        .map(|candidate| (candidate.load.isl, candidate.load.osl))
        .collect();
    shapes.sort_unstable();
    shapes.dedup();
    let mut details = Vec::new();
    for (isl, osl) in shapes {
        let of_shape: Vec<Candidate> = candidates
            .iter()
            .filter(|candidate| (candidate.load.isl, candidate.load.osl) == (isl, osl))
            .copied()
            .collect();
        details.extend(BOUNDS_MS.map(|bound_ms| case(&of_shape, isl, osl, bound_ms)));
    }
    sum_up(details)
}

fn sum_up(details: Vec<ChoiceCase>) -> Choices {
    let regrets: Vec<f64> = details.iter().filter_map(|case| case.regret).collect();
    Choices {
        cases: details.len(),
        agreements: details.iter().filter(|case| case.agrees).count(),
        empty: details
            .iter()
            .filter(|case| case.simulated.is_none() && case.measured.is_none())
            .count(),
        misses: details
            .iter()
            .filter(|case| case.simulated.is_none() && case.measured.is_some())
            .count(),
        exceedances: details.iter().filter(|case| case.exceeds_by.is_some()).count(),
        worst_exceedance: details.iter().filter_map(|case| case.exceeds_by).max_by(f64::total_cmp),
        mean_regret: (!regrets.is_empty()).then(|| regrets.iter().sum::<f64>() / regrets.len() as f64),
        worst_regret: regrets.iter().copied().max_by(f64::total_cmp),
        details,
    }
}

fn candidate(point: &ValidatedPoint) -> Option<Candidate> {
    let simulated = point.simulated.as_ref()?;
    Some(Candidate {
        load: point.measured.load,
        measured: Figures {
            tpot_ms: point.measured.mean_ms.tpot?,
            output_tok_s_per_gpu: point.measured_tok_s_per_gpu?,
        },
        simulated: Figures {
            tpot_ms: simulated.mean_ms.tpot?.ms,
            output_tok_s_per_gpu: simulated.output_tok_s_per_gpu?,
        },
    })
}

fn case(candidates: &[Candidate], isl: u32, osl: u32, bound_ms: u32) -> ChoiceCase {
    let bound = f64::from(bound_ms);
    let measured = best(candidates, bound, |candidate| candidate.measured);
    let simulated = best(candidates, bound, |candidate| candidate.simulated);
    let choice = |candidate: Option<Candidate>| {
        candidate.map(|Candidate { load, .. }| Choice {
            tp: load.tp,
            concurrency: load.concurrency,
        })
    };
    let got = simulated.map_or(0.0, |chosen| chosen.measured.output_tok_s_per_gpu);
    let exceeds_by = simulated.map_or(0.0, |chosen| chosen.measured.tpot_ms / bound - 1.0);
    ChoiceCase {
        isl,
        osl,
        bound_ms,
        measured: choice(measured),
        simulated: choice(simulated),
        agrees: choice(measured) == choice(simulated),
        regret: measured.map(|best| (1.0 - got / best.measured.output_tok_s_per_gpu).max(0.0)),
        exceeds_by: (exceeds_by > 0.0).then_some(exceeds_by),
    }
}

/// The candidate with the highest throughput of those within the bound; of equals, the first.
fn best(candidates: &[Candidate], bound_ms: f64, figures: impl Fn(&Candidate) -> Figures) -> Option<Candidate> {
    let within = candidates
        .iter()
        .filter(|candidate| figures(candidate).tpot_ms <= bound_ms);
    within.copied().reduce(|best, candidate| {
        if figures(&candidate).output_tok_s_per_gpu > figures(&best).output_tok_s_per_gpu {
            candidate
        } else {
            best
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tp: u32, concurrency: u32, measured: (f64, f64), simulated: (f64, f64)) -> Candidate {
        let figures = |(tpot_ms, output_tok_s_per_gpu)| Figures {
            tpot_ms,
            output_tok_s_per_gpu,
        };
        Candidate {
            load: LoadPoint::new(tp, 100, 10, concurrency),
            measured: figures(measured),
            simulated: figures(simulated),
        }
    }

    /// Under this bound: what measurements and simulations choose, regret and excess.
    #[track_caller]
    fn check(bound_ms: u32, chosen: [Option<(u32, u32)>; 2], regret: Option<f64>, exceeds_by: Option<f64>) {
        let candidates = [
            at(1, 4, (20.0, 200.0), (18.0, 220.0)),
            at(1, 8, (30.0, 300.0), (24.0, 400.0)),
            at(2, 8, (15.0, 160.0), (21.0, 160.0)),
        ];
        let case = case(&candidates, 100, 10, bound_ms);
        let found = [case.measured, case.simulated].map(|choice| choice.map(|choice| (choice.tp, choice.concurrency)));
        assert_eq!(found, chosen);
        assert_eq!(case.agrees, chosen[0] == chosen[1]);
        assert_eq!((case.regret, case.exceeds_by), (regret, exceeds_by));
    }

    #[test]
    fn the_best_point_within_a_bound_is_chosen() {
        check(10, [None, None], None, None);
        check(16, [Some((2, 8)), None], Some(1.0), None);
        check(18, [Some((2, 8)), Some((1, 4))], Some(0.0), Some(20.0 / 18.0 - 1.0));
        check(20, [Some((1, 4)), Some((1, 4))], Some(0.0), None);
        check(25, [Some((1, 4)), Some((1, 8))], Some(0.0), Some(30.0 / 25.0 - 1.0));
        check(30, [Some((1, 8)), Some((1, 8))], Some(0.0), None);
    }

    #[test]
    fn regret_is_the_share_of_throughput_that_is_lost() {
        let candidates = [
            at(1, 4, (10.0, 100.0), (10.0, 90.0)),
            at(1, 8, (10.0, 80.0), (10.0, 95.0)),
        ];
        let regret = case(&candidates, 100, 10, 10).regret.expect("there is a best point");
        assert!((regret - 0.2).abs() < 1e-15);
    }

    #[test]
    fn cases_are_counted() {
        let case = |agrees, regret, exceeds_by| ChoiceCase {
            isl: 1,
            osl: 1,
            bound_ms: 9,
            measured: None,
            simulated: None,
            agrees,
            regret,
            exceeds_by,
        };
        let choices = sum_up(vec![
            case(true, None, None),
            case(true, Some(0.0), None),
            case(false, Some(0.25), Some(0.1)),
        ]);
        assert_eq!((choices.cases, choices.agreements, choices.exceedances), (3, 2, 1));
        assert_eq!((choices.mean_regret, choices.worst_regret), (Some(0.125), Some(0.25)));
    }
}
