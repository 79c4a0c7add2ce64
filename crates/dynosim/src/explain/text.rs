//! An explanation for people.

use std::fmt::Write;

use dynosim_core::{PoolUse, TtftParts};

use super::Explanation;
use super::candidate::{Bottleneck, BoundMargin, CandidateExplanation, Standing};
use super::neighbours::BudgetChange;
use super::relief::{Relaxation, Relief};
use crate::question::gpus;

pub(super) fn text(explanation: &Explanation) -> String {
    let mut text = String::new();
    for candidate in &explanation.candidates {
        let _ = writeln!(text, "{}. {} ({})", candidate.rank, candidate.state, title(candidate));
        for line in lines(candidate) {
            let _ = writeln!(text, "   {line}");
        }
    }
    for line in budget_lines(explanation) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// `winner, 16 GPUs`.
pub(crate) fn title(candidate: &CandidateExplanation) -> String {
    let standing = match candidate.standing {
        Standing::Winner => "winner",
        Standing::RunnerUp => "runner-up",
        Standing::NearMiss => "near miss",
    };
    let noun = if candidate.gpus == 1 { "GPU" } else { "GPUs" };
    format!("{standing}, {} {noun}", candidate.gpus)
}

/// What there is to say about a candidate, a sentence each.
pub(crate) fn lines(candidate: &CandidateExplanation) -> Vec<String> {
    let mut lines: Vec<String> = bounds(&candidate.bounds).into_iter().collect();
    lines.push(bottleneck(&candidate.bottleneck));
    lines.push(ttft(&candidate.mean_ttft_ms));
    let busy: Vec<String> = candidate.pools.iter().map(busy).collect();
    let cache = candidate.cache;
    let reused = percent(cache.reused_tokens as f64 / (cache.prompt_tokens as f64).max(1.0));
    lines.push(format!(
        "busy: {}; {reused} of prompt tokens from a cache; {} preemptions; {} of step time extrapolated",
        busy.join(", "),
        candidate.preemptions,
        percent(candidate.extrapolated_share)
    ));
    lines
}

/// What other budgets and bounds would change, a sentence each.
pub(crate) fn budget_lines(explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(more) = &explanation.more_gpus {
        lines.push(more_gpus(more));
    }
    if let Some(fewer) = &explanation.fewer_gpus {
        lines.push(fewer_gpus(fewer));
    }
    if let Some(relief) = &explanation.relief {
        lines.extend(relief_lines(relief));
    }
    lines
}

/// Every bound, the one with the least margin first; `None` without any.
fn bounds(bounds: &[BoundMargin]) -> Option<String> {
    let mut bounds: Vec<&BoundMargin> = bounds.iter().collect();
    bounds.sort_by(|a, b| a.margin.total_cmp(&b.margin));
    let tightest = bounds.first()?;
    let title = if tightest.margin >= 0.0 {
        "tightest bound"
    } else {
        "missed bound"
    };
    let bounds: Vec<String> = bounds.into_iter().map(margin).collect();
    Some(format!("{title} first: {}", bounds.join("; ")))
}

fn margin(bound: &BoundMargin) -> String {
    let BoundMargin {
        name,
        metric,
        bound_ms,
        value_ms,
        margin,
    } = bound;
    let what = if *margin >= 0.0 { "to spare" } else { "too much" };
    format!(
        "sla.{name}, {metric} {value_ms:.1} of {bound_ms} ms, {} {what}",
        percent(margin.abs())
    )
}

fn bottleneck(bottleneck: &Bottleneck) -> String {
    let Bottleneck {
        pool,
        mean_wait_ms,
        share_of_latency,
        holds_up,
    } = bottleneck;
    if *holds_up {
        format!(
            "bottleneck: the {pool} pool, for which requests wait {mean_wait_ms:.1} ms, {} of their time",
            percent(*share_of_latency)
        )
    } else {
        format!(
            "bottleneck: none; requests wait for less than 1 % of their time, and spend most of it in the {pool} pool"
        )
    }
}

fn ttft(parts: &TtftParts) -> String {
    let total: f64 = parts.named().into_iter().map(|(_, ms)| ms).sum();
    let there: Vec<String> = parts
        .named()
        .into_iter()
        .filter(|&(_, ms)| ms > 0.0)
        .map(|(name, ms)| format!("{ms:.1} {}", name.replace('_', " ")))
        .collect();
    format!("mean TTFT {total:.1} ms = {}", there.join(" + "))
}

fn busy(pool: &PoolUse) -> String {
    format!("{} {}", pool.role, percent(pool.utilisation))
}

fn more_gpus(change: &BudgetChange) -> String {
    let more = format!(
        "With up to {}, more than the budget",
        gpus(u64::from(change.budget), "")
    );
    match (&change.best, change.change) {
        (Some(best), Some(share)) if share > 0.0 => format!("{more}: {} better, {best}", percent(share)),
        _ if change.proven => format!("{more}: nothing better exists"),
        _ => format!("{more}: a descent finds nothing better"),
    }
}

fn fewer_gpus(change: &BudgetChange) -> String {
    let fewer = format!(
        "With up to {}, fewer than the best uses",
        gpus(u64::from(change.budget), "")
    );
    match (&change.best, change.change) {
        (Some(best), Some(share)) if share < 0.0 => format!("{fewer}: {} worse, {best}", percent(-share)),
        (Some(best), Some(share)) if share > 0.0 => format!("{fewer}: even {} better, {best}", percent(share)),
        (Some(best), _) => format!("{fewer}: as good, {best}"),
        (None, _) if change.proven => format!("{fewer}: no deployment meets the bounds; every one was tried"),
        (None, _) => format!("{fewer}: a descent finds nothing that meets the bounds"),
    }
}

fn relief_lines(relief: &Relief) -> Vec<String> {
    let mut lines = Vec::new();
    for Relaxation {
        name,
        from_ms,
        to_ms,
        state,
    } in &relief.single
    {
        lines.push(format!(
            "sla.{name} alone would have to be {to_ms:.1} instead of {from_ms} ms: {state}"
        ));
    }
    if relief.single.is_empty() {
        let joint = relief.joint.iter().map(|relaxation| {
            let Relaxation {
                name, from_ms, to_ms, ..
            } = relaxation;
            format!("sla.{name} {} instead of {from_ms} ms", rounded_up(*to_ms))
        });
        let joint: Vec<String> = joint.collect();
        lines.push(match relief.joint.first() {
            Some(first) => format!(
                "No bound alone would do; together {}: {}",
                joint.join(" and "),
                first.state
            ),
            None => {
                "No bound would do: no deployment serves every request; give workers more KV cache, or send shorter \
                     requests"
                    .to_owned()
            }
        });
    }
    lines.push(match (relief.fewest_gpus, &relief.with_more_gpus) {
        (Some(count), Some(state)) => {
            let who = if relief.proven {
                "the fewest that do: every deployment of fewer was tried"
            } else {
                "found by descents, which do not rule out fewer"
            };
            format!("{} meet all bounds ({who}): {state}", gpus(count, ""))
        }
        _ => format!(
            "More GPUs: up to {}, a descent finds nothing within all bounds",
            relief.largest_budget
        ),
    });
    lines
}

/// Milliseconds with two digits behind the point, rounded up: a bound of so much is kept.
fn rounded_up(ms: f64) -> f64 {
    (ms * 100.0).ceil() / 100.0
}

/// A share as text, with a digit behind the point.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_margin_comes_first() {
        let margin = |name: &'static str, margin: f64| BoundMargin {
            name,
            metric: "mean_ttft_ms",
            bound_ms: 200.0,
            value_ms: 200.0 * (1.0 - margin),
            margin,
        };
        assert_eq!(
            bounds(&[margin("e2eLatency", 0.5), margin("ttft", 0.25)]).as_deref(),
            Some(
                "tightest bound first: sla.ttft, mean_ttft_ms 150.0 of 200 ms, 25.0 % to spare; \
                 sla.e2eLatency, mean_ttft_ms 100.0 of 200 ms, 50.0 % to spare"
            )
        );
        assert_eq!(
            bounds(&[margin("ttft", -0.5)]).as_deref(),
            Some("missed bound first: sla.ttft, mean_ttft_ms 300.0 of 200 ms, 50.0 % too much")
        );
        assert_eq!(bounds(&[]), None);
    }

    #[test]
    fn other_budgets_are_told() {
        let change = |change: Option<f64>, proven: bool| BudgetChange {
            budget: 1,
            best: change.map(|_| "state".to_owned()),
            score: change,
            proven,
            change,
        };
        let more = "With up to 1 GPU, more than the budget";
        assert_eq!(
            more_gpus(&change(Some(0.125), false)),
            format!("{more}: 12.5 % better, state")
        );
        assert_eq!(
            more_gpus(&change(Some(0.0), false)),
            format!("{more}: a descent finds nothing better")
        );
        assert_eq!(
            more_gpus(&change(Some(0.0), true)),
            format!("{more}: nothing better exists")
        );
        let fewer = "With up to 1 GPU, fewer than the best uses";
        assert_eq!(
            fewer_gpus(&change(Some(-0.5), true)),
            format!("{fewer}: 50.0 % worse, state")
        );
        assert_eq!(fewer_gpus(&change(Some(0.0), true)), format!("{fewer}: as good, state"));
        assert_eq!(
            fewer_gpus(&change(None, true)),
            format!("{fewer}: no deployment meets the bounds; every one was tried")
        );
    }

    #[test]
    fn relaxed_bounds_are_kept_as_printed() {
        for (ms, expected) in [(10.3444, 10.35), (13.92, 13.92), (1.0, 1.0)] {
            assert!((rounded_up(ms) - expected).abs() < 1e-9 && rounded_up(ms) >= ms);
        }
    }

    #[test]
    fn parts_that_are_nothing_are_left_out() {
        let parts = TtftParts {
            queue: 10.0,
            prefill: 2.5,
            decode_queue: 1.0,
            ..TtftParts::default()
        };
        assert_eq!(
            ttft(&parts),
            "mean TTFT 13.5 ms = 10.0 queue + 2.5 prefill + 1.0 decode queue"
        );
    }
}
