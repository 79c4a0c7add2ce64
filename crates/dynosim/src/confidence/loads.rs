//! Candidates simulated under one load after another, each once.

use dynosim_core::Scenario;
use dynosim_spec::{ReplayOptimizeSpec, WorkloadSpec};
use dynosim_sweep::{Record, State};
use serde::Serialize;

use super::load::{load_of, offered_rps, scaled};
use super::simulations::Simulations;
use crate::error::Error;

/// The load as it is.
pub(super) const AS_IT_IS: f64 = 1.0;

/// Figures of a candidate under one load; those that its report does not have are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiguresAtLoad {
    /// Factor on the load of the spec.
    pub factor: f64,
    /// The load, in the quantity of [`LoadSensitivity`](super::LoadSensitivity); a whole number of requests in flight.
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

/// Everything that was simulated under some load.
pub(super) struct Loads<'l, 'a> {
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
    pub(super) fn new(
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

    /// Places of all candidates.
    pub(super) fn places(&self) -> Vec<usize> {
        (0..self.states.len()).collect()
    }

    /// The records of these candidates at a factor, simulated now unless they were before.
    pub(super) fn records(&mut self, factor: f64, places: &[usize]) -> Result<Vec<Record>, Error> {
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

    /// Whether the spec has bounds, on means and percentiles or on single requests.
    pub(super) fn has_bounds(&self) -> bool {
        let records = self.runs.iter().flat_map(|run| run.records.iter().flatten());
        self.spec.sla.active_bounds().next().is_some()
            || records
                .into_iter()
                .any(|record| record.metric("goodput_share").is_some())
    }

    /// What is known of a candidate, by ascending factor.
    pub(super) fn figures(&self, place: usize) -> Vec<FiguresAtLoad> {
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
