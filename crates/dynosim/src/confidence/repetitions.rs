//! The same candidates over variations of the workload, and whether that changes their order.

use std::cmp::Ordering;

use dynosim_core::Scenario;
use dynosim_spec::ReplayOptimizeSpec;
use dynosim_sweep::{Record, State, best_first};
use indexmap::IndexMap;
use serde::Serialize;

use super::simulations::{Simulations, with_workload};
use super::spread::Spread;
use super::variation::Variation;
use crate::error::Error;

/// Metrics whose spread is told, besides the score; those that a report does not have are left out.
const METRICS: [&str; 12] = [
    "output_throughput_tok_s",
    "throughput_per_gpu_tok_s",
    "mean_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2e_latency_ms",
    "p99_e2e_latency_ms",
    "goodput_rps",
    "goodput_share",
    "cost_per_million_output_tokens",
];

/// What repetitions came to. All candidates serve the same variations (common random numbers).
///
/// The first repetition is the one by which the sweep has chosen its best candidate, so figures favour that one a
/// little. Repetitions of a trace, or of a workload without random numbers, hold the same requests: they show what
/// depends on where the workload begins, and no more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repetitions {
    /// The variations; the first one is the workload itself.
    pub variations: Vec<Variation>,
    /// Whether anything about any candidate differs between repetitions. If not, nothing in the workload or the
    /// routers depends on seeds or on where the workload begins, and repetitions say nothing on how sure the order is.
    pub varies: bool,
    /// The candidates, in order.
    pub candidates: Vec<CandidateRepetitions>,
    /// The first candidate against each of the others, in order.
    pub pairs: Vec<Pair>,
}

/// The repetitions of one candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateRepetitions {
    /// Whether anything about it differs between repetitions.
    pub varies: bool,
    /// Repetitions in which it serves all requests, keeps all bounds and is within the budget.
    pub feasible: usize,
    /// Why it is not feasible in the first repetition in which it is not.
    pub infeasible_reason: Option<String>,
    /// Spread of the score and of the main metrics by name, over the repetitions that have them. The score is what the
    /// objective maximises: output tokens per second, or a mean latency in milliseconds with its sign turned round.
    pub figures: IndexMap<String, Spread>,
}

/// The first candidate, called the winner, against another one, repetition by repetition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Place of the other candidate, from 0.
    pub other: usize,
    /// Repetitions in which the other one ranks better, by the ranking of the sweep.
    pub better: usize,
    /// Repetitions in which both rank equally; the winner stays ahead then.
    pub equal: usize,
    /// All repetitions.
    pub repetitions: usize,
    /// Chance that the other one ranks better in a further repetition: `(better + 0.5) / (repetitions + 1)`, the mean
    /// of the posterior of a share under Jeffreys' prior, Beta(1/2, 1/2) (see Brown, Cai and `DasGupta`, Interval
    /// Estimation for a Binomial Proportion, Statistical Science 16, 2001). A few repetitions in which it never happens
    /// do not make it impossible. `None` if neither candidate varies: then the order is as it is, and there is no
    /// chance about it.
    pub flip_chance: Option<f64>,
    /// Spread of the score of the other less that of the winner, in the same repetition; above 0 is better. `None`
    /// if there is no repetition in which both have a score.
    pub score_difference: Option<Spread>,
    /// Mean of that difference as a share of the size of the winner's mean score in the same repetitions. `None`
    /// without a difference, and if that score is 0.
    pub relative_difference: Option<f64>,
}

impl Repetitions {
    /// Simulates the candidates over `repeats` variations. Also returns the records of the workload itself.
    pub(super) fn simulate(
        spec: &ReplayOptimizeSpec,
        scenario: &Scenario,
        states: &[State],
        repeats: u32,
        simulations: &mut Simulations<'_>,
    ) -> Result<(Self, Vec<Record>), Error> {
        let sessions = scenario.workload().session_count();
        let variations: Vec<Variation> = (0..repeats)
            .map(|number| Variation::new(spec, sessions, number, repeats))
            .collect();
        let mut rounds: Vec<Vec<Record>> = Vec::new();
        for variation in &variations {
            let seeded = variation.seeded(spec);
            let scenario = if seeded.workload == spec.workload {
                scenario.clone()
            } else {
                simulations.scenario(&seeded)?
            };
            let rotated = scenario.workload().rotated(variation.first_session);
            rounds.push(simulations.evaluate(&seeded, with_workload(&scenario, rotated), states)?);
        }
        let first = rounds.first().cloned().unwrap_or_default();
        Ok((Self::of(variations, &rounds), first))
    }

    /// What comes of these rounds of records, one record per candidate in each.
    fn of(variations: Vec<Variation>, rounds: &[Vec<Record>]) -> Self {
        let count = rounds.first().map_or(0, Vec::len);
        let of_candidate =
            |place: usize| -> Vec<&Record> { rounds.iter().filter_map(|round| round.get(place)).collect() };
        let candidates: Vec<CandidateRepetitions> = (0..count)
            .map(|place| CandidateRepetitions::of(&of_candidate(place)))
            .collect();
        let pairs = (1..count).map(|other| {
            let varies = candidates[0].varies || candidates[other].varies;
            Pair::of(other, &of_candidate(0), &of_candidate(other), varies)
        });
        Self {
            variations,
            varies: candidates.iter().any(|candidate| candidate.varies),
            pairs: pairs.collect(),
            candidates,
        }
    }
}

impl CandidateRepetitions {
    fn of(records: &[&Record]) -> Self {
        let score = ("score", Spread::of(records.iter().filter_map(|record| record.score)));
        let metrics = METRICS.iter().map(|&name| {
            let values = records.iter().filter_map(|record| record.metric(name));
            (name, Spread::of(values))
        });
        let figures = [score].into_iter().chain(metrics);
        let infeasible = records.iter().find(|record| !record.feasible);
        Self {
            varies: records.windows(2).any(|pair| !same_figures(pair[0], pair[1])),
            feasible: records.iter().filter(|record| record.feasible).count(),
            infeasible_reason: infeasible.and_then(|record| record.infeasible_reason.clone()),
            figures: figures
                .filter_map(|(name, spread)| Some((name.to_owned(), spread?)))
                .collect(),
        }
    }
}

/// Whether two simulations of a state came to the same.
fn same_figures(a: &Record, b: &Record) -> bool {
    a.feasible == b.feasible && a.infeasible_reason == b.infeasible_reason && a.metrics == b.metrics
}

impl Pair {
    fn of(other: usize, winner: &[&Record], others: &[&Record], varies: bool) -> Self {
        let both = || winner.iter().zip(others);
        let orders = || both().map(|(winner, other)| best_first(other, winner));
        let better = orders().filter(|order| order.is_lt()).count();
        let repetitions = winner.len();
        let scores: Vec<(f64, f64)> = both()
            .filter_map(|(winner, other)| Some((winner.score?, other.score?)))
            .collect();
        let score_difference = Spread::of(scores.iter().map(|(winner, other)| other - winner));
        let size = Spread::of(scores.iter().map(|(winner, _)| *winner)).map(|spread| spread.mean.abs());
        Self {
            other,
            better,
            equal: orders().filter(|&order| order == Ordering::Equal).count(),
            repetitions,
            flip_chance: varies.then(|| (better as f64 + 0.5) / (repetitions as f64 + 1.0)),
            score_difference,
            relative_difference: score_difference
                .zip(size.filter(|size| *size > 0.0))
                .map(|(difference, size)| difference.mean / size),
        }
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Objective, ParallelShape, Topology};
    use dynosim_sweep::{Metrics, RouterState};

    use super::*;

    /// A feasible record with this throughput; an infeasible one if it is negative.
    fn record(throughput: f64) -> Record {
        let feasible = throughput >= 0.0;
        Record {
            state: State::new(
                Topology::Aggregated {
                    workers: 1,
                    shape: ParallelShape::tensor(1),
                },
                RouterState::round_robin(),
            ),
            simulation: 0,
            metrics: Metrics::from_iter([
                ("output_throughput_tok_s".to_owned(), throughput.abs()),
                ("mean_e2e_latency_ms".to_owned(), 1.0),
            ]),
            gpu_hour_price: None,
            rejected_requests: Some(0),
            extrapolated_share: Some(0.0),
            total_gpus_used: 1,
            objective: Objective::Throughput,
            score: Some(throughput.abs()),
            given_up: false,
            feasible,
            violation_penalty: if feasible { 0.0 } else { 1.0 },
            infeasible_reason: (!feasible).then(|| "too slow".to_owned()),
        }
    }

    /// Repetitions of two candidates with these throughputs.
    fn repetitions(winner: &[f64], other: &[f64]) -> Repetitions {
        let rounds: Vec<Vec<Record>> = winner
            .iter()
            .zip(other)
            .map(|(&winner, &other)| vec![record(winner), record(other)])
            .collect();
        Repetitions::of(Vec::new(), &rounds)
    }

    #[track_caller]
    fn check(winner: &[f64], other: &[f64], better: usize, equal: usize, flip_chance: Option<f64>) {
        let found = repetitions(winner, other);
        let [pair] = &found.pairs[..] else {
            panic!("one pair instead of {:?}", found.pairs);
        };
        assert_eq!(
            (pair.better, pair.equal, pair.flip_chance),
            (better, equal, flip_chance)
        );
        assert_eq!(found.varies, flip_chance.is_some());
    }

    #[test]
    fn flips_are_counted_within_repetitions() {
        let winner = [10.0, 20.0, 30.0, 40.0];
        // Always a little worse, although worse by far in the mean of single repetitions.
        check(&winner, &[9.0, 19.0, 29.0, 39.0], 0, 0, Some(0.1));
        check(&winner, &[11.0, 21.0, 31.0, 41.0], 4, 0, Some(0.9));
        check(&winner, &[11.0, 20.0, 29.0, 39.0], 1, 1, Some(0.3));
        // What keeps no bound ranks behind, whatever its throughput.
        check(&winner, &[-11.0, -21.0, -31.0, -41.0], 0, 0, Some(0.1));
    }

    #[test]
    fn without_variation_there_is_no_chance() {
        check(&[10.0; 5], &[9.0; 5], 0, 0, None);
        check(&[10.0; 5], &[10.0; 5], 0, 5, None);
        let found = repetitions(&[10.0; 5], &[9.0; 5]);
        let spread = found.candidates[0].figures["score"];
        assert_eq!((spread.interval_90, spread.std_dev), (None, Some(0.0)));
    }

    #[test]
    fn differences_are_paired() {
        let found = repetitions(&[10.0, 20.0, 30.0], &[9.0, 18.0, 27.0]);
        let difference = found.pairs[0].score_difference.expect("all have scores");
        assert_eq!((difference.mean, difference.min, difference.max), (-2.0, -3.0, -1.0));
        // Standard deviation 1; t of 2 degrees is 2.919986.
        let [low, high] = difference.interval_90.expect("they differ");
        let half_width = 2.919_986 / 3.0_f64.sqrt();
        assert!((low + 2.0 + half_width).abs() < 1e-9 && (high + 2.0 - half_width).abs() < 1e-9);
        assert!((found.pairs[0].relative_difference.expect("the score is not 0") + 0.1).abs() < 1e-12);
    }

    #[test]
    fn feasible_repetitions_are_counted() {
        let found = repetitions(&[10.0, -10.0, -10.0], &[9.0; 3]);
        let winner = &found.candidates[0];
        assert_eq!(
            (winner.feasible, winner.infeasible_reason.as_deref()),
            (1, Some("too slow"))
        );
        assert!(winner.varies && !found.candidates[1].varies);
    }
}
