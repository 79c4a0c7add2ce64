//! The same candidates under a share and under multiples of the load.

use dynosim_core::Scenario;
use dynosim_spec::{ReplayOptimizeSpec, WorkloadSpec};
use dynosim_sweep::{Record, State};
use serde::Serialize;

use super::load::{LoadQuantity, load_of, offered_rps, scaled};
use super::narrowing::narrow;
use super::ranking::place_of_best;
use super::simulations::Simulations;
use crate::error::Error;

/// Share of requests that must keep all bounds per request for goodput to follow the load.
const FOLLOWS: f64 = 0.95;

/// The load as it is.
const AS_IT_IS: f64 = 1.0;

/// How candidates do under other loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSensitivity {
    /// What loads are measured in.
    pub quantity: LoadQuantity,
    /// The candidates, in order.
    pub candidates: Vec<CandidateLoads>,
    /// How far down the load may go before another candidate ranks better than the first one.
    pub winner_below: WinnerEdge,
    /// How far up it may go.
    pub winner_above: WinnerEdge,
}

/// One candidate under other loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateLoads {
    /// Its figures, by ascending factor: at all factors that were asked for, at 1, and where edges were looked for.
    pub loads: Vec<FiguresAtLoad>,
    /// Up to which load it keeps up.
    pub knee: Knee,
}

/// Figures of a candidate under one load; those that its report does not have are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiguresAtLoad {
    /// Factor on the load of the spec.
    pub factor: f64,
    /// The load, in the quantity of [`LoadSensitivity::quantity`]; a whole number of requests in flight.
    pub load: f64,
    /// Requests per second that are sent; `None` in a closed loop.
    pub offered_rps: Option<f64>,
    /// Output tokens per second.
    pub output_throughput_tok_s: Option<f64>,
    /// Requests per second that are served.
    pub request_throughput_rps: Option<f64>,
    /// Requests per second that keep all bounds per request; `None` without such bounds.
    pub goodput_rps: Option<f64>,
    /// Share of requests that keep them.
    pub goodput_share: Option<f64>,
    /// Mean time to first token, milliseconds.
    pub mean_ttft_ms: Option<f64>,
    /// 95th percentile of the time to first token, milliseconds.
    pub p95_ttft_ms: Option<f64>,
    /// Mean time per output token, milliseconds.
    pub mean_tpot_ms: Option<f64>,
    /// Mean time from arrival to last token, milliseconds.
    pub mean_e2e_latency_ms: Option<f64>,
    /// Whether all requests are served, all bounds of the SLA kept, and the budget.
    pub feasible: bool,
}

/// Up to which load a candidate keeps up.
///
/// It keeps up if it is feasible and, where the spec bounds single requests, if at least 95 % of requests keep all of these bounds
/// (their share is goodput over offered load: the same requests in the same time). The knee is before the smallest factor at which it
/// does not, narrowed down to 0.05; should it keep up again under more load, that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Knee {
    /// It keeps up to a factor within the range.
    Within {
        /// The largest factor at which it was seen to keep up, before the first at which it does not.
        factor: f64,
        /// The first at which it does not, at most 0.05 more.
        fails_at: f64,
    },
    /// It does not even keep up at the smallest factor.
    Below {
        /// The smallest factor.
        factor: f64,
    },
    /// It keeps up at every factor.
    Above {
        /// The largest factor.
        factor: f64,
    },
    /// The spec has no bounds, so no load is too much.
    NoBounds,
}

impl Knee {
    /// The largest factor at which the candidate was seen to keep up before it first does not; 0 if there is none.
    pub fn reach(&self) -> f64 {
        match *self {
            Self::Within { factor, .. } | Self::Above { factor } => factor,
            Self::Below { .. } => 0.0,
            Self::NoBounds => f64::INFINITY,
        }
    }
}

/// How far the load may change in one direction, from 1 on, before another candidate ranks better than the first one, by the
/// ranking of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WinnerEdge {
    /// None does.
    Stays {
        /// The last factor in this direction.
        factor: f64,
    },
    /// One does.
    Changes {
        /// The last factor at which the first candidate was seen to be best; `None` if it is not even at 1.
        best_until: Option<f64>,
        /// The first factor at which another one is, at most 0.05 away; 1 if that holds there.
        changes_at: f64,
        /// Place of the best candidate there, from 0.
        to: usize,
    },
}

impl LoadSensitivity {
    /// Simulates the candidates at these factors and where edges lie between them. `base` holds the records of the
    /// load as it is. `None` if the load cannot be scaled.
    pub(super) fn simulate(
        spec: &ReplayOptimizeSpec,
        scenario: &Scenario,
        states: &[State],
        factors: &[f64],
        base: Vec<Record>,
        simulations: &mut Simulations<'_>,
    ) -> Result<Option<Self>, Error> {
        if scaled(&spec.workload, AS_IT_IS).is_none() {
            return Ok(None);
        }
        let mut loads = Loads::new(spec, scenario, states, base, simulations);
        let factors = with_one(factors);
        let all: Vec<usize> = (0..states.len()).collect();
        for &factor in &factors {
            loads.records(factor, &all)?;
        }
        let knees: Vec<Knee> = all
            .iter()
            .map(|&place| loads.knee(place, &factors))
            .collect::<Result<_, Error>>()?;
        let at_one = factors.iter().position(|&factor| factor >= AS_IT_IS).unwrap_or(0);
        let downwards: Vec<f64> = factors[..=at_one].iter().rev().copied().collect();
        let winner_below = loads.winner_edge(&downwards)?;
        let winner_above = loads.winner_edge(&factors[at_one..])?;
        let candidates = knees.into_iter().enumerate().map(|(place, knee)| CandidateLoads {
            loads: loads.figures(place),
            knee,
        });
        Ok(Some(Self {
            quantity: load_of(&spec.workload).1,
            candidates: candidates.collect(),
            winner_below,
            winner_above,
        }))
    }
}

/// The factors ascending, each once, and 1.
fn with_one(factors: &[f64]) -> Vec<f64> {
    let mut factors = factors.to_vec();
    factors.push(AS_IT_IS);
    factors.sort_unstable_by(f64::total_cmp);
    factors.dedup();
    factors
}

/// Whether a candidate keeps up with the load, as [`Knee`] says.
fn keeps_up(record: &Record) -> bool {
    let share = record.metric("goodput_share");
    record.feasible && share.is_none_or(|share| share >= FOLLOWS)
}

/// Everything that was simulated under some load.
struct Loads<'l, 'a> {
    spec: &'l ReplayOptimizeSpec,
    states: &'l [State],
    simulations: &'l mut Simulations<'a>,
    /// Distinct workloads.
    runs: Vec<LoadRun>,
    /// Factors with the number of their workload: several if these round to the same number of requests in flight.
    factors: Vec<(f64, usize)>,
}

/// Candidates under one load.
struct LoadRun {
    workload: WorkloadSpec,
    offered_rps: Option<f64>,
    records: Vec<Option<Record>>,
}

impl<'l, 'a> Loads<'l, 'a> {
    fn new(
        spec: &'l ReplayOptimizeSpec,
        scenario: &Scenario,
        states: &'l [State],
        base: Vec<Record>,
        simulations: &'l mut Simulations<'a>,
    ) -> Self {
        let as_it_is = LoadRun {
            workload: spec.workload.clone(),
            offered_rps: offered_rps(scenario.workload()),
            records: base.into_iter().map(Some).collect(),
        };
        Self {
            spec,
            states,
            simulations,
            runs: vec![as_it_is],
            factors: vec![(AS_IT_IS, 0)],
        }
    }

    /// The records of these candidates at a factor, simulated now unless they were before.
    fn records(&mut self, factor: f64, places: &[usize]) -> Result<Vec<Record>, Error> {
        let number = self.number(factor);
        let run = &self.runs[number];
        let missing: Vec<usize> = places
            .iter()
            .filter(|&&place| run.records[place].is_none())
            .copied()
            .collect();
        if !missing.is_empty() {
            let spec = ReplayOptimizeSpec {
                workload: run.workload.clone(),
                ..self.spec.clone()
            };
            let scenario = self.simulations.scenario(&spec)?;
            let offered_rps = offered_rps(scenario.workload());
            let states: Vec<State> = missing.iter().map(|&place| self.states[place]).collect();
            let records = self.simulations.evaluate(&spec, scenario, &states)?;
            let run = &mut self.runs[number];
            run.offered_rps = offered_rps;
            for (place, record) in missing.into_iter().zip(records) {
                run.records[place] = Some(record);
            }
        }
        let run = &self.runs[number];
        Ok(places.iter().filter_map(|&place| run.records[place].clone()).collect())
    }

    /// The number of the workload at a factor.
    fn number(&mut self, factor: f64) -> usize {
        let known = self.factors.iter().find(|(known, _)| known.total_cmp(&factor).is_eq());
        if let Some(&(_, number)) = known {
            return number;
        }
        let workload = scaled(&self.spec.workload, factor).unwrap_or_else(|| self.spec.workload.clone());
        let same = self.runs.iter().position(|run| run.workload == workload);
        let number = same.unwrap_or_else(|| {
            self.runs.push(LoadRun {
                workload,
                offered_rps: None,
                records: vec![None; self.states.len()],
            });
            self.runs.len() - 1
        });
        self.factors.push((factor, number));
        number
    }

    fn knee(&mut self, place: usize, factors: &[f64]) -> Result<Knee, Error> {
        if !self.has_bounds() {
            return Ok(Knee::NoBounds);
        }
        let mut last_holding = None;
        for &factor in factors {
            if self.keeps_up_at(factor, place)? {
                last_holding = Some(factor);
                continue;
            }
            let Some(holding) = last_holding else {
                return Ok(Knee::Below { factor });
            };
            let [factor, fails_at] = narrow(holding, factor, |factor| self.keeps_up_at(factor, place))?;
            return Ok(Knee::Within { factor, fails_at });
        }
        Ok(Knee::Above {
            factor: last_holding.unwrap_or(AS_IT_IS),
        })
    }

    fn has_bounds(&self) -> bool {
        let records = self.runs.iter().flat_map(|run| run.records.iter().flatten());
        self.spec.sla.active_bounds().next().is_some()
            || records
                .into_iter()
                .any(|record| record.metric("goodput_share").is_some())
    }

    fn keeps_up_at(&mut self, factor: f64, place: usize) -> Result<bool, Error> {
        Ok(self.records(factor, &[place])?.iter().all(keeps_up))
    }

    /// Goes through these factors, the first of which is 1.
    fn winner_edge(&mut self, factors: &[f64]) -> Result<WinnerEdge, Error> {
        let mut best_until = None;
        for &factor in factors {
            if self.best_at(factor)? == 0 {
                best_until = Some(factor);
                continue;
            }
            let mut changes_at = factor;
            if let Some(holding) = best_until {
                let [holding, failing] = narrow(holding, factor, |factor| Ok::<_, Error>(self.best_at(factor)? == 0))?;
                (best_until, changes_at) = (Some(holding), failing);
            }
            return Ok(WinnerEdge::Changes {
                best_until,
                changes_at,
                to: self.best_at(changes_at)?,
            });
        }
        Ok(WinnerEdge::Stays {
            factor: best_until.unwrap_or(AS_IT_IS),
        })
    }

    /// Place of the best candidate at a factor.
    fn best_at(&mut self, factor: f64) -> Result<usize, Error> {
        let all: Vec<usize> = (0..self.states.len()).collect();
        Ok(place_of_best(&self.records(factor, &all)?).unwrap_or(0))
    }

    /// What is known of a candidate, by ascending factor.
    fn figures(&self, place: usize) -> Vec<FiguresAtLoad> {
        let mut factors = self.factors.clone();
        factors.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let figures = factors.into_iter().filter_map(|(factor, number)| {
            let run = &self.runs[number];
            let record = run.records[place].as_ref()?;
            let metric = |name| record.metric(name);
            Some(FiguresAtLoad {
                factor,
                load: load_of(&run.workload).0,
                offered_rps: run.offered_rps,
                output_throughput_tok_s: metric("output_throughput_tok_s"),
                request_throughput_rps: metric("request_throughput_rps"),
                goodput_rps: metric("goodput_rps"),
                goodput_share: metric("goodput_share"),
                mean_ttft_ms: metric("mean_ttft_ms"),
                p95_ttft_ms: metric("p95_ttft_ms"),
                mean_tpot_ms: metric("mean_tpot_ms"),
                mean_e2e_latency_ms: metric("mean_e2e_latency_ms"),
                feasible: record.feasible,
            })
        });
        figures.collect()
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Objective, ParallelShape, Topology};
    use dynosim_sweep::RouterState;
    use indexmap::IndexMap;

    use super::*;

    #[track_caller]
    fn check(feasible: bool, goodput_share: Option<f64>, expected: bool) {
        let share = goodput_share.map(|share| ("goodput_share".to_owned(), share));
        let record = Record {
            state: State {
                topology: Topology::Aggregated {
                    workers: 1,
                    shape: ParallelShape::tensor(1),
                },
                router: RouterState::round_robin(),
            },
            simulation: 0,
            metrics: IndexMap::from_iter(share),
            rejected_requests: Some(0),
            extrapolated_share: None,
            total_gpus_used: 1,
            objective: Objective::Throughput,
            score: None,
            given_up: false,
            feasible,
            violation_penalty: 0.0,
            infeasible_reason: None,
        };
        assert_eq!(keeps_up(&record), expected);
    }

    #[test]
    fn goodput_follows_while_nearly_all_requests_keep_their_bounds() {
        check(true, None, true);
        check(false, None, false);
        check(true, Some(0.95), true);
        check(true, Some(0.949), false);
        check(true, Some(f64::NAN), false);
        check(false, Some(1.0), false);
    }

    #[test]
    fn the_load_as_it_is_belongs_to_all() {
        assert_eq!(with_one(&[2.0, 0.5, 2.0]), [0.5, 1.0, 2.0]);
        assert_eq!(with_one(&[]), [1.0]);
    }
}
