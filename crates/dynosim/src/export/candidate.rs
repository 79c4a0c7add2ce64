//! The simulation that is to be handed off, out of a run spec or the result of a sweep.

use dynosim_spec::{Checked, RunSpec};
use serde_json::Value;

use super::error::ExportError;
use crate::answer::SCHEMA_VERSION;

/// One simulation, and where it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The simulation.
    pub run: RunSpec,
    /// What the sweep calls it, if it comes from one.
    pub state: Option<String>,
    /// What the user ought to know about the spec.
    pub warnings: Vec<String>,
}

impl Candidate {
    /// Reads a run spec, or the candidate of this rank (the best one by default) from a `result.json`.
    ///
    /// Of a result, only the list `candidates` is read, and of its objects `rank`, `state`, `run` and why the candidate is not
    /// feasible, if it is not.
    ///
    /// # Errors
    /// If the text is neither, or there is no such candidate.
    pub fn from_json(text: &str, rank: Option<u64>) -> Result<Self, ExportError> {
        let document: Value = serde_json::from_str(text).map_err(ExportError::Json)?;
        let version = document.get("schema_version").and_then(Value::as_u64).unwrap_or(0);
        if version > u64::from(SCHEMA_VERSION) {
            return Err(ExportError::NewerSchema { version });
        }
        if let Some(candidates) = document.get("candidates") {
            return Self::of_sweep(candidates, rank.unwrap_or(1));
        }
        if let Some(chosen) = document.get("chosen_mode") {
            let chosen = chosen.as_str().unwrap_or("agg").to_owned();
            return Err(ExportError::Comparison { chosen });
        }
        if document.get("spec").is_some() && document.get("mode").is_some() {
            return Err(ExportError::NoCandidates);
        }
        let Checked { value, mut warnings } = RunSpec::from_json(text)?;
        if let Some(rank) = rank {
            warnings.push(format!(
                "--candidate: {rank} has no effect on a run spec, which is a single candidate"
            ));
        }
        Ok(Self {
            run: value,
            state: None,
            warnings,
        })
    }

    fn of_sweep(candidates: &Value, rank: u64) -> Result<Self, ExportError> {
        let candidates = candidates.as_array().ok_or(ExportError::NoCandidates)?;
        if candidates.is_empty() {
            return Err(ExportError::NotExplained);
        }
        let rank_of = |candidate: &Value| candidate.get("rank").and_then(Value::as_u64);
        let Some(found) = candidates.iter().find(|candidate| rank_of(candidate) == Some(rank)) else {
            let ranks: Vec<u64> = candidates.iter().filter_map(rank_of).collect();
            let known = match (ranks.iter().min(), ranks.iter().max()) {
                (Some(first), Some(last)) => format!("{first} to {last}"),
                _ => "none".to_owned(),
            };
            return Err(ExportError::NoSuchRank { rank, known });
        };
        let run = found.get("run").ok_or(ExportError::NoCandidates)?;
        let bad = |source| ExportError::BadCandidate { rank, source };
        let Checked { value, mut warnings } = RunSpec::from_json(&run.to_string()).map_err(bad)?;
        warnings.extend(missed_bounds(found, rank));
        Ok(Self {
            run: value,
            state: found.get("state").and_then(Value::as_str).map(str::to_owned),
            warnings,
        })
    }
}

/// Says that a candidate is not feasible, if the result says so.
fn missed_bounds(candidate: &Value, rank: u64) -> Option<String> {
    let reason = candidate.get("record")?.get("infeasible_reason")?.as_str()?;
    Some(format!(
        "candidate {rank} does not meet what the sweep asked for: {reason}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(workers: u32) -> Value {
        json!({
            "engine": { "model": "Qwen/Qwen3-8B", "backend": "vllm" },
            "hardware": { "system": "h200_sxm" },
            "topology": { "workers": workers, "tp": 1 },
            "workload": { "isl": 100, "osl": 10, "requestCount": 4, "concurrency": 2 },
        })
    }

    fn result() -> String {
        let candidate =
            |rank, workers| json!({ "rank": rank, "state": format!("workers={workers}"), "run": run(workers) });
        json!({ "mode": "agg", "candidates": [candidate(1, 4), candidate(2, 2)] }).to_string()
    }

    #[test]
    fn candidates_are_found_by_rank() {
        let gpus = |rank| {
            Candidate::from_json(&result(), rank)
                .expect("there")
                .run
                .topology
                .total_gpus()
        };
        assert_eq!((gpus(None), gpus(Some(1)), gpus(Some(2))), (4, 4, 2));
        let error = Candidate::from_json(&result(), Some(3))
            .expect_err("not there")
            .to_string();
        assert_eq!(error, "--candidate: there is no candidate 3; there are 1 to 2");
    }

    #[test]
    fn run_specs_stand_alone() {
        let found = Candidate::from_json(&run(2).to_string(), Some(2)).expect("a spec");
        assert_eq!((found.run.topology.total_gpus(), found.state), (2, None));
        assert!(found.warnings[0].starts_with("--candidate: 2 has no effect"));
    }

    #[test]
    fn what_is_no_candidate_is_refused() {
        let refused = |text: String| Candidate::from_json(&text, None).expect_err("refused").to_string();
        assert!(refused("{".to_owned()).contains("is not JSON"));
        assert!(refused(json!({ "chosen_mode": "disagg" }).to_string()).contains("folder `disagg`"));
        assert!(refused(json!({ "mode": "agg", "spec": {} }).to_string()).contains("make the sweep again"));
        assert!(refused(json!({ "candidates": [{ "rank": 1 }] }).to_string()).contains("without `candidates`"));
        assert!(refused(json!({ "candidates": [] }).to_string()).contains("--quick"));
        assert!(refused(json!({ "schema_version": 99 }).to_string()).contains("newer version"));
        let missing = json!({ "rank": 1, "run": run(1), "record": { "infeasible_reason": "too late" } });
        let found = Candidate::from_json(&json!({ "candidates": [missing] }).to_string(), None).expect("there");
        assert!(
            found.warnings[0].contains("asked for: too late"),
            "{:?}",
            found.warnings
        );
        let mut wrong = run(1);
        wrong["topology"]["tp"] = 0.into();
        assert!(refused(json!({ "candidates": [{ "rank": 1, "run": wrong }] }).to_string()).contains("rank 1"));
        assert!(refused(json!({ "topology": {} }).to_string()).contains("is missing"));
    }
}
