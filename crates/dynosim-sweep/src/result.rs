//! What a search found.

use std::io::Write;
use std::time::Duration;

use dynosim_spec::{ReplayOptimizeSpec, SearchStrategy, Topology};
use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use crate::certificate::Certificate;
use crate::csv_table::write_csv;
use crate::engine_settings::EngineSettings;
use crate::error::SweepError;
use crate::outcome::{outcomes, same_outcome};
use crate::prune::Pruned;
use crate::ranking::{best, best_first};
use crate::record::Record;
use crate::state::Mode;
use crate::table::text_table;
use crate::worker_shapes::{KvCapacity, LeftOutTp};

/// The result of a search: best states, everything that was visited, and what to know about it.
///
/// Nothing in it but `host_time` depends on the host or on `maxParallelEvals`.
#[derive(Debug, Clone)]
pub struct OptimizationResult {
    /// Kinds of deployment that were searched.
    pub modes: Vec<Mode>,
    /// The spec.
    pub spec: ReplayOptimizeSpec,
    /// The best state that serves every request and meets every bound within the budget.
    pub best_feasible: Option<Record>,
    /// Of the other states, the one that is closest to doing so.
    pub best_infeasible: Option<Record>,
    /// Every visited state, in the order of first visits.
    pub evaluated: Vec<Record>,
    /// The feasible ones among them, best first.
    pub feasible: Vec<Record>,
    /// The feasible states that no other one beats in all metrics of `spec.pareto`, best in the first of them first. Where
    /// nothing is feasible, those among the states that serve every request.
    pub pareto: Vec<Record>,
    /// States that were left out on proof.
    pub pruned: Vec<Pruned>,
    /// What was seen of the space.
    pub certificate: Certificate,
    /// Simulations that were made; fewer than states where states are the same simulation.
    pub simulations: usize,
    /// Tensor-parallel sizes that cannot be used.
    pub left_out_tps: Vec<LeftOutTp>,
    /// KV capacity of every worker shape that was used.
    pub kv_capacity: Vec<KvCapacity>,
    /// What the user ought to know about the input.
    pub warnings: Vec<String>,
    /// How long the search took on this host. Not part of any output of the library.
    pub host_time: Duration,
}

impl OptimizationResult {
    /// The best feasible state or, without one, the state that is closest to being feasible.
    pub fn best(&self) -> Option<&Record> {
        self.best_feasible.as_ref().or(self.best_infeasible.as_ref())
    }

    /// The feasible state with the fewest GPUs; the best one among those with as few.
    pub fn fewest_gpus(&self) -> Option<&Record> {
        // They are sorted best first, and the first of equal ones is taken.
        self.feasible.iter().min_by_key(|record| record.total_gpus_used)
    }

    /// How many feasible outcomes besides the best one have a score within `share` of its score.
    /// States with the same workers and equal figures are one outcome.
    pub fn near_best(&self, share: f64) -> usize {
        let Some((best, score)) = self.best_feasible.as_ref().and_then(|best| Some((best, best.score?))) else {
            return 0;
        };
        let near = self.feasible.iter().filter(|record| {
            let distance = record.score.map(|other| (score - other).abs());
            distance.is_some_and(|distance| distance <= share * score.abs()) && !same_outcome(best, record)
        });
        outcomes(near, usize::MAX).len()
    }

    /// The best `most` feasible outcomes, best first: of states with equal workers and equal figures the first.
    pub fn best_outcomes(&self, most: usize) -> Vec<&Record> {
        first_of_each(&self.feasible.iter().collect::<Vec<_>>(), most)
    }

    /// The `most` infeasible states with different workers that one would like to have: closest to being feasible first
    /// among those that would beat the best feasible one if they were, and then among all others. Of states with the same
    /// workers the one that is closest. States without figures are left out.
    pub fn near_misses(&self, most: usize) -> Vec<&Record> {
        let best = self.best_feasible.as_ref().and_then(|best| best.score);
        let misses = self.evaluated.iter().filter(|record| !record.feasible);
        let mut misses: Vec<&Record> = misses.filter(|record| !record.metrics.is_empty()).collect();
        let is_desirable = |record: &Record| match (record.score, best) {
            (Some(score), Some(best)) => score > best,
            _ => best.is_none(),
        };
        misses.sort_by(|a, b| {
            let undesirable = |record: &Record| !is_desirable(record);
            undesirable(a).cmp(&undesirable(b)).then_with(|| best_first(a, b))
        });
        let mut seen: IndexSet<(Topology, EngineSettings)> = IndexSet::new();
        misses.retain(|record| seen.insert((record.state.topology, record.state.engine)));
        misses.truncate(most);
        misses
    }

    /// States whose simulation was given up.
    pub fn given_up(&self) -> usize {
        self.evaluated.iter().filter(|record| record.given_up).count()
    }

    /// One sentence on the outcome: the best state, or what is wrong with the closest one.
    pub fn verdict(&self) -> String {
        let visited = self.evaluated.len();
        let given_up = match self.given_up() {
            0 => String::new(),
            given_up => format!(", {given_up} given up"),
        };
        if let Some(best) = &self.best_feasible {
            let feasible = self.feasible.len();
            return format!(
                "best of {visited} visited states, {feasible} of them feasible{given_up}: {}",
                best.state
            );
        }
        match &self.best_infeasible {
            Some(nearest) => format!(
                "none of {} is feasible{}; the closest is {}: {}",
                if self.certificate.is_complete() {
                    format!("all {} states", self.certificate.space)
                } else {
                    format!("{visited} visited states")
                },
                match self.certificate.strategy {
                    SearchStrategy::Descent => " (a wider search.beam visits more, search.strategy exhaustive all)",
                    SearchStrategy::Exhaustive => "",
                },
                nearest.state,
                nearest.infeasible_reason.as_deref().unwrap_or("unknown reason")
            ),
            None => "no state was visited".to_owned(),
        }
    }

    /// The best `rows` feasible simulations as a text table; without any, those that are closest to
    /// being feasible. See [`text_table`].
    pub fn table(&self, rows: usize) -> String {
        if !self.feasible.is_empty() {
            return text_table(&self.modes, &self.feasible, rows);
        }
        let mut records: Vec<&Record> = self.evaluated.iter().collect();
        records.sort_by(|a, b| best_first(a, b));
        text_table(&self.modes, records, rows)
    }

    /// Writes all visited states as CSV; see [`write_csv`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_evaluated_csv(&self, writer: impl Write) -> Result<(), SweepError> {
        write_csv(&self.modes, &self.evaluated, writer)
    }

    /// Writes the feasible states as CSV, best first; see [`write_csv`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_feasible_csv(&self, writer: impl Write) -> Result<(), SweepError> {
        write_csv(&self.modes, &self.feasible, writer)
    }

    /// Writes the states of the trade-off as CSV; see [`write_csv`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_pareto_csv(&self, writer: impl Write) -> Result<(), SweepError> {
        write_csv(&self.modes, &self.pareto, writer)
    }

    /// Writes the states that were left out as CSV: state, bound and proof.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_pruned_csv(&self, writer: impl Write) -> Result<(), SweepError> {
        let mut table = csv::Writer::from_writer(writer);
        table.write_record(["state", "bound", "proof"])?;
        for Pruned { state, bound, proof } in &self.pruned {
            table.write_record([&state.to_string(), bound.name(), proof])?;
        }
        table.flush().map_err(csv::Error::from)?;
        Ok(())
    }

    /// The result as a JSON document, the same for every host and any `maxParallelEvals`: mode,
    /// spec, best states, counts, capacities, left-out sizes and warnings.
    ///
    /// # Errors
    /// If the spec names a trace file whose path is not valid Unicode.
    pub fn to_json(&self) -> Result<String, SweepError> {
        let mut document = Map::new();
        let mode = match self.modes.as_slice() {
            [mode] => serde_json::to_value(mode)?,
            _ => json!("all"),
        };
        document.insert("mode".to_owned(), mode);
        document.insert("spec".to_owned(), serde_json::to_value(&self.spec)?);
        document.extend(self.findings()?);
        Ok(format!("{:#}\n", Value::Object(document)))
    }

    /// Everything but kind and spec, as parts of a JSON document.
    ///
    /// # Errors
    /// If something cannot be written as JSON.
    pub fn findings(&self) -> Result<Map<String, Value>, SweepError> {
        let mut findings = Map::new();
        let mut counts = json!({
            "evaluated": self.evaluated.len(),
            "feasible": self.feasible.len(),
            "simulations": self.simulations,
        });
        if self.spec.search.stop_hopeless {
            counts["given_up"] = json!(self.given_up());
        }
        for (key, value) in [
            ("best_feasible", serde_json::to_value(&self.best_feasible)?),
            ("best_infeasible", serde_json::to_value(&self.best_infeasible)?),
            ("counts", counts),
            ("certificate", serde_json::to_value(&self.certificate)?),
            ("kv_capacity", serde_json::to_value(&self.kv_capacity)?),
            ("left_out_tps", serde_json::to_value(&self.left_out_tps)?),
            ("warnings", serde_json::to_value(&self.warnings)?),
        ] {
            findings.insert(key.to_owned(), value);
        }
        Ok(findings)
    }
}

/// The first record of each of the first `most` outcomes.
pub(crate) fn first_of_each<'r>(records: &[&'r Record], most: usize) -> Vec<&'r Record> {
    let outcomes = outcomes(records.iter().copied(), most);
    outcomes
        .into_iter()
        .filter_map(|outcome| outcome.first().copied())
        .collect()
}

/// The feasible records, best first, and the best one of the others.
pub(crate) fn sift<'r>(evaluated: impl IntoIterator<Item = &'r Record>) -> (Vec<Record>, Option<Record>) {
    let (mut feasible, infeasible): (Vec<&Record>, Vec<&Record>) =
        evaluated.into_iter().partition(|record| record.feasible);
    feasible.sort_by(|a, b| best_first(a, b));
    (feasible.into_iter().cloned().collect(), best(infeasible).cloned())
}
