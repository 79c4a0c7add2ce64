//! An explanation for people.

use std::fmt::Write;

use dynosim_core::{PoolUse, TtftParts};

use super::Explanation;
use super::candidate::{Bottleneck, BoundMargin, CandidateExplanation, Standing};
use super::neighbours::BudgetChange;
use super::relief::{Relaxation, Relief};

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
    let mut lines: Vec<String> = candidate.binding.iter().map(binding).collect();
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

fn binding(bound: &BoundMargin) -> String {
    let BoundMargin {
        name,
        metric,
        bound_ms,
        value_ms,
        margin,
    } = bound;
    let (what, share) = if *margin >= 0.0 {
        ("to spare", *margin)
    } else {
        ("too much", -margin)
    };
    let title = if *margin >= 0.0 {
        "tightest bound"
    } else {
        "missed bound"
    };
    format!(
        "{title}: sla.{name}, {metric} {value_ms:.1} of {bound_ms} ms, {} {what}",
        percent(share)
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
        format!("bottleneck: none that requests wait for; most of their time goes to the {pool} pool")
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
    let budget = change.budget;
    match (&change.best, change.change) {
        (Some(best), Some(share)) if share > 0.0 => {
            format!("{budget} GPUs buy {}: {best}", percent(share))
        }
        _ => format!("More GPUs: {budget} buy nothing that a descent finds"),
    }
}

fn fewer_gpus(change: &BudgetChange) -> String {
    let budget = change.budget;
    match (&change.best, change.change) {
        (Some(best), Some(share)) if share < 0.0 => {
            format!("{budget} GPUs cost {}: {best}", percent(-share))
        }
        (Some(best), Some(share)) if share > 0.0 => {
            format!("{budget} GPUs are even better by {}: {best}", percent(share))
        }
        (Some(best), _) => format!("{budget} GPUs do as well: {best}"),
        (None, _) if change.proven => format!("{budget} GPUs cannot meet the bounds: every deployment was tried"),
        (None, _) => format!("{budget} GPUs do not meet the bounds, as far as a descent finds"),
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
            format!("sla.{name} {to_ms:.1} instead of {from_ms} ms")
        });
        let joint: Vec<String> = joint.collect();
        if let Some(first) = relief.joint.first() {
            lines.push(format!(
                "No bound alone would do; together {}: {}",
                joint.join(" and "),
                first.state
            ));
        }
    }
    lines.push(match (relief.fewest_gpus, &relief.with_more_gpus) {
        (Some(gpus), Some(state)) => format!("{gpus} GPUs would do within all bounds: {state}"),
        _ => format!(
            "More GPUs do not help: up to {}, a descent finds nothing within all bounds",
            relief.largest_budget
        ),
    });
    lines
}

/// A share as text, with a digit behind the point.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_say_whether_they_are_kept() {
        let margin = |margin: f64| BoundMargin {
            name: "ttft",
            metric: "mean_ttft_ms",
            bound_ms: 200.0,
            value_ms: 200.0 * (1.0 - margin),
            margin,
        };
        assert_eq!(
            binding(&margin(0.25)),
            "tightest bound: sla.ttft, mean_ttft_ms 150.0 of 200 ms, 25.0 % to spare"
        );
        assert_eq!(
            binding(&margin(-0.5)),
            "missed bound: sla.ttft, mean_ttft_ms 300.0 of 200 ms, 50.0 % too much"
        );
    }

    #[test]
    fn other_budgets_are_told() {
        let change = |change: Option<f64>| BudgetChange {
            budget: 9,
            best: change.map(|_| "state".to_owned()),
            score: change,
            proven: false,
            change,
        };
        assert_eq!(more_gpus(&change(Some(0.125))), "9 GPUs buy 12.5 %: state");
        assert_eq!(
            more_gpus(&change(Some(0.0))),
            "More GPUs: 9 buy nothing that a descent finds"
        );
        assert_eq!(fewer_gpus(&change(Some(-0.5))), "9 GPUs cost 50.0 %: state");
        assert_eq!(fewer_gpus(&change(Some(0.0))), "9 GPUs do as well: state");
        assert_eq!(
            fewer_gpus(&change(None)),
            "9 GPUs do not meet the bounds, as far as a descent finds"
        );
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
