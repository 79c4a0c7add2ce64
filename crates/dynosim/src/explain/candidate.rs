//! Why one candidate does as it does.

use dynosim_core::{Details, Outcome, PoolUse, TtftParts};
use dynosim_spec::{SlaSpec, WorkerRole};
use dynosim_sweep::{Record, State};
use serde::Serialize;

/// Requests that wait for less than this share of their time in the system are not held up.
const NOTEWORTHY_WAIT: f64 = 0.01;

/// How a candidate stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The best feasible one.
    Winner,
    /// Feasible, too.
    RunnerUp,
    /// Not feasible, but among the closest to it.
    NearMiss,
}

/// Why one candidate does as it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateExplanation {
    /// Its place among the candidates that are explained, from 1.
    pub rank: usize,
    /// The candidate as text.
    pub state: String,
    /// The candidate.
    #[serde(skip)]
    pub candidate: State,
    /// How it stands among the others.
    pub standing: Standing,
    /// GPUs that it occupies.
    pub gpus: u64,
    /// What it is ranked by, the more the better; `None` without a report.
    pub score: Option<f64>,
    /// Every bound with its margin, in the order of the spec.
    pub bounds: Vec<BoundMargin>,
    /// The bound with the least margin: the first to be missed, or the one that is missed by the most.
    pub binding: Option<BoundMargin>,
    /// What keeps it from being feasible.
    pub infeasible_reason: Option<String>,
    /// The pool that holds requests up.
    pub bottleneck: Bottleneck,
    /// What each pool did.
    pub pools: Vec<PoolUse>,
    /// The mean time to first token, part by part, milliseconds.
    pub mean_ttft_ms: TtftParts,
    /// Where prompt tokens came from.
    pub cache: CacheUse,
    /// How often requests lost their KV blocks to others.
    pub preemptions: u64,
    /// Share of the priced step time that rests on extrapolation.
    pub extrapolated_share: f64,
}

/// A bound of the SLA and how far a candidate is from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundMargin {
    /// Its key in the spec.
    pub name: &'static str,
    /// The metric that it bounds.
    pub metric: &'static str,
    /// The bound, milliseconds.
    pub bound_ms: f64,
    /// The metric, milliseconds.
    pub value_ms: f64,
    /// What is left of the bound as a share of it: 0.1 if the metric is 10 % below, -0.1 if it is 10 % above.
    pub margin: f64,
}

/// The pool that holds requests up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The pool that requests wait for the longest, or that they spend most of their time in if they hardly wait.
    pub pool: WorkerRole,
    /// Mean wait for it, milliseconds.
    pub mean_wait_ms: f64,
    /// That wait as a share of the mean time in the system, 0 to 1.
    pub share_of_latency: f64,
    /// Whether requests wait for it for more than 1 % of their time.
    pub holds_up: bool,
}

/// Where the prompt tokens of served requests came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CacheUse {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Of these, tokens found in a cache.
    pub reused_tokens: u64,
    /// Tokens that were computed.
    pub computed_tokens: u64,
}

impl CandidateExplanation {
    /// Explains a record by the run that it comes from, made in detail.
    pub(super) fn new(rank: usize, standing: Standing, record: &Record, sla: &SlaSpec, outcome: &Outcome) -> Self {
        let report = &outcome.report;
        let bounds = margins(record, sla);
        let mean_ttft_ms = outcome
            .details
            .as_ref()
            .map_or_else(TtftParts::default, Details::mean_ttft);
        let prompts = report.pools.first();
        let prompt_tokens = prompts.and_then(|pool| pool.prompt_tokens).unwrap_or(0);
        let reused_tokens = prompts.and_then(|pool| pool.reused_tokens).unwrap_or(0);
        Self {
            rank,
            state: record.state.to_string(),
            candidate: record.state,
            standing,
            gpus: record.total_gpus_used,
            score: record.score,
            binding: bounds.iter().copied().min_by(|a, b| a.margin.total_cmp(&b.margin)),
            bounds,
            infeasible_reason: record.infeasible_reason.clone(),
            bottleneck: Bottleneck::of(&report.pools, &mean_ttft_ms, report.e2e_latency.mean),
            pools: report.pools.clone(),
            mean_ttft_ms,
            cache: CacheUse {
                prompt_tokens,
                reused_tokens,
                computed_tokens: prompt_tokens.saturating_sub(reused_tokens),
            },
            preemptions: report.pools.iter().map(|pool| pool.preemptions).sum(),
            extrapolated_share: report.extrapolated_share,
        }
    }
}

/// Every active bound of which the record has the metric.
fn margins(record: &Record, sla: &SlaSpec) -> Vec<BoundMargin> {
    let margins = sla.active_bounds().filter_map(|bound| {
        let value_ms = record.metric(bound.metric)?;
        Some(BoundMargin {
            name: bound.name,
            metric: bound.metric,
            bound_ms: bound.bound_ms,
            value_ms,
            margin: 1.0 - value_ms / bound.bound_ms,
        })
    });
    margins.collect()
}

impl Bottleneck {
    /// Requests wait for the first pool before their prompt is computed, and for the second one after it.
    fn of(pools: &[PoolUse], ttft: &TtftParts, mean_e2e_ms: f64) -> Self {
        let share = |ms: f64| if mean_e2e_ms > 0.0 { ms / mean_e2e_ms } else { 0.0 };
        let first = pools.first().map_or(WorkerRole::Aggregated, |pool| pool.role);
        let second = pools.get(1).map_or(first, |pool| pool.role);
        let (wait_first, wait_second) = (ttft.queue, ttft.decode_queue);
        let (pool, mean_wait_ms) = if share(wait_first.max(wait_second)) > NOTEWORTHY_WAIT {
            if wait_first >= wait_second {
                (first, wait_first)
            } else {
                (second, wait_second)
            }
        } else {
            let in_second = mean_e2e_ms - (ttft.ingress + ttft.queue + ttft.prefill + ttft.transfer);
            if ttft.prefill >= in_second {
                (first, wait_first)
            } else {
                (second, wait_second)
            }
        };
        Self {
            pool,
            mean_wait_ms,
            share_of_latency: share(mean_wait_ms),
            holds_up: share(mean_wait_ms) > NOTEWORTHY_WAIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Vec<PoolUse> {
        [WorkerRole::Prefill, WorkerRole::Decode]
            .map(|role| PoolUse {
                role,
                workers: 1,
                busy_ms: 0.0,
                utilisation: 0.0,
                preemptions: 0,
                evicted_blocks: 0,
                prompt_tokens: None,
                reused_tokens: None,
            })
            .to_vec()
    }

    #[track_caller]
    fn check(ttft: TtftParts, mean_e2e_ms: f64, pool: WorkerRole, holds_up: bool) {
        let found = Bottleneck::of(&pools(), &ttft, mean_e2e_ms);
        assert_eq!((found.pool, found.holds_up), (pool, holds_up), "{found:?}");
    }

    #[test]
    fn requests_wait_for_the_bottleneck() {
        let waits = |queue: f64, decode_queue: f64| TtftParts {
            queue,
            prefill: 100.0,
            decode_queue,
            ..TtftParts::default()
        };
        check(waits(50.0, 5.0), 1000.0, WorkerRole::Prefill, true);
        check(waits(5.0, 50.0), 1000.0, WorkerRole::Decode, true);
        // Nobody waits: most of the time goes to tokens, or to prompts.
        check(waits(1.0, 1.0), 1000.0, WorkerRole::Decode, false);
        check(waits(0.0, 0.0), 150.0, WorkerRole::Prefill, false);
    }

    #[test]
    fn one_pool_is_its_own_bottleneck() {
        let mut pools = pools();
        pools.truncate(1);
        pools[0].role = WorkerRole::Aggregated;
        let found = Bottleneck::of(&pools, &TtftParts::default(), 10.0);
        assert_eq!((found.pool, found.holds_up), (WorkerRole::Aggregated, false));
    }
}
