//! How sure an answer is, for people.

use std::fmt::Write;

use dynosim_spec::Objective;

use super::assessment::Confidence;
use super::load::LoadQuantity;
use super::load_sensitivity::{Knee, LoadSensitivity, WinnerEdge};
use super::model_error::ModelError;
use super::repetitions::{Pair, Repetitions};
use super::spread::Spread;

/// Other candidates that get a line each.
const PAIRS: usize = 3;

/// Everything that matters, the winner first.
pub(super) fn text(confidence: &Confidence) -> String {
    let repetitions = &confidence.repetitions;
    let mut lines = vec![headline(repetitions)];
    lines.push(format!("  1. {}: {}", confidence.candidates[0], winner(confidence)));
    for pair in repetitions.pairs.iter().take(PAIRS) {
        lines.push(format!(
            "  {}. {}: {}, {}",
            pair.other + 1,
            confidence.candidates[pair.other],
            against_winner(pair, confidence.model_error.as_ref()),
            how_often_feasible(repetitions, pair.other)
        ));
    }
    if let Some(more) = repetitions.pairs.len().checked_sub(PAIRS).filter(|more| *more > 0) {
        lines.push(format!("  {more} more in the JSON result"));
    }
    lines.push(model_error(confidence.model_error.as_ref()));
    match &confidence.load {
        Some(load) => lines.extend(load_lines(load)),
        None => lines.push("Other loads: not tried (no factors given, or all requests arrive at once)".to_owned()),
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn headline(repetitions: &Repetitions) -> String {
    let count = repetitions.variations.len();
    if repetitions.varies {
        return format!(
            "How sure: {count} repetitions, the first as in the search, the others with other seeds and begun at other points of the \
             workload, the same for all candidates"
        );
    }
    format!(
        "How sure: {count} repetitions with other seeds and other beginnings came to exactly the same: nothing here is left to \
         chance, so repetitions cannot tell how sure the order is"
    )
}

fn winner(confidence: &Confidence) -> String {
    let winner = &confidence.repetitions.candidates[0];
    let mut parts = Vec::new();
    let objective = confidence.objective;
    let name = match objective {
        Objective::Throughput | Objective::ThroughputPerGpu => "output",
        Objective::Goodput => "goodput",
        Objective::MeanTtft => "mean TTFT",
        Objective::MeanE2eLatency => "mean E2E",
        Objective::P99Ttft => "p99 TTFT",
        Objective::P99Itl => "p99 TPOT",
        Objective::P99E2eLatency => "p99 E2E",
        Objective::MinGpus => "size",
        Objective::Cost => "cost",
    };
    if let Some(spread) = winner.figures.get(objective.metric()) {
        parts.push(format!("{name} {}", mean_with_interval(spread, 1.0, objective.unit())));
    }
    parts.push(how_often_feasible(&confidence.repetitions, 0));
    parts.join(", ")
}

fn how_often_feasible(repetitions: &Repetitions, place: usize) -> String {
    let candidate = &repetitions.candidates[place];
    match (&candidate.infeasible_reason, candidate.feasible) {
        (None, _) => "feasible in all".to_owned(),
        (Some(reason), 0) => format!("feasible in none: {reason}"),
        (Some(reason), feasible) => format!(
            "feasible in {feasible} of {}, otherwise {reason}",
            repetitions.variations.len()
        ),
    }
}

/// A mean, and what is known of it, all times `scale`.
fn mean_with_interval(spread: &Spread, scale: f64, unit: &str) -> String {
    let mean = spread.mean * scale;
    // Prices and rates of requests are small numbers.
    let digits = if mean.abs() < 100.0 { 3 } else { 1 };
    match spread.interval_90 {
        Some([low, high]) => {
            format!(
                "{mean:.digits$} {unit} (90 % interval of the mean, Student's t: {:.digits$} to {:.digits$})",
                low * scale,
                high * scale
            )
        }
        None if spread.count > 1 => format!("{mean:.digits$} {unit} each time"),
        None => format!("{mean:.digits$} {unit} in one repetition"),
    }
}

fn against_winner(pair: &Pair, error: Option<&ModelError>) -> String {
    let mut parts = Vec::new();
    if pair.equal == pair.repetitions {
        return "ranks equally in every repetition".to_owned();
    }
    match pair.flip_chance {
        Some(chance) => parts.push(format!(
            "ranks better in {} of {}, chance of that about {:.0} %",
            pair.better,
            pair.repetitions,
            100.0 * chance
        )),
        None if pair.better > 0 => parts.push("ranks better each time".to_owned()),
        None => parts.push("ranks worse each time".to_owned()),
    }
    parts.extend(score_difference(pair));
    let covered = error
        .zip(pair.relative_difference)
        .is_some_and(|(error, difference)| error.covers(difference));
    if covered {
        parts.push("within the error of the model".to_owned());
    }
    parts.join(", ")
}

/// The difference of the scores in percent of the winner's.
fn score_difference(pair: &Pair) -> Option<String> {
    let difference = pair.score_difference?;
    let relative = pair.relative_difference?;
    let Some(interval) = difference.interval_90 else {
        return Some(format!("score {:+.1} %", 100.0 * relative));
    };
    // A difference has an interval only if it varies, and then a mean of 0 would be the rarest of accidents.
    let scale = if difference.mean.abs() > 0.0 {
        100.0 * relative / difference.mean
    } else {
        0.0
    };
    let [low, high] = interval.map(|end| end * scale);
    Some(format!("score {:+.1} % ({low:+.1} to {high:+.1})", 100.0 * relative))
}

fn model_error(error: Option<&ModelError>) -> String {
    let Some(error) = error else {
        return "Error of the model: unknown, nothing comparable was measured; it adds to all of the above".to_owned();
    };
    let reservation = if error.as_validated {
        ""
    } else {
        "these deployments are of another kind than those measured, so more is possible; "
    };
    let direction = if error.common < 0.0 { "below" } else { "above" };
    format!(
        "Error of the model: {reservation}measured latencies were {:.0} % {direction} simulated ones, give or take \
         {differing:.0} % ({}). The first part, if candidates share it, does not change their order; differences below \
         {differing:.0} % are within the error of the model",
        100.0 * error.common.abs(),
        error.basis,
        differing = 100.0 * error.differing,
    )
}

fn load_lines(load: &LoadSensitivity) -> Vec<String> {
    let loads = &load.candidates[0];
    let at = |factor: f64| {
        let figures = loads
            .loads
            .iter()
            .find(|figures| figures.factor.total_cmp(&factor).is_eq());
        let quantity = figures.map(|figures| quantity(load.quantity, figures.load));
        quantity.map_or_else(String::new, |quantity| format!(" ({quantity})"))
    };
    let rule = if loads.loads.iter().any(|figures| figures.goodput_share.is_some()) {
        "keeps up (bounds kept, 95 % of requests good)"
    } else {
        "keeps its bounds"
    };
    let knee = match loads.knee {
        Knee::Within { factor, fails_at } => {
            format!(
                "1. {rule} up to {}{}, no longer at {fails_at}",
                times(factor),
                at(factor)
            )
        }
        Knee::Below { factor } => format!("1. never {rule}, not even at {}{}", times(factor), at(factor)),
        Knee::Above { factor } => format!("1. {rule} up to {} at least{}", times(factor), at(factor)),
        Knee::NoBounds => "no load is too much, because sla has no bounds".to_owned(),
    };
    let mut lines = vec![format!(
        "Other loads, with the seeds of the search: {knee}{}",
        others_reach(load)
    )];
    if load.candidates.len() > 1 {
        lines.push(format!("  {}", winner_range(load)));
    }
    lines
}

/// `the load`, or `1.2 times the load`.
fn times(factor: f64) -> String {
    if (factor - 1.0).abs() < f64::EPSILON {
        "the load as it is".to_owned()
    } else {
        format!("{factor} times the load")
    }
}

/// Up to which load the other candidates keep up.
fn others_reach(load: &LoadSensitivity) -> String {
    let others = load.candidates.iter().enumerate().skip(1).take(PAIRS);
    let reaches = others.map(|(place, candidate)| match candidate.knee {
        Knee::Below { .. } => format!("; {}. at none of these", place + 1),
        Knee::NoBounds => String::new(),
        Knee::Above { factor } => format!("; {}. up to {factor} at least", place + 1),
        Knee::Within { factor, .. } => format!("; {}. up to {factor}", place + 1),
    });
    reaches.collect()
}

fn winner_range(load: &LoadSensitivity) -> String {
    let edge = |edge: WinnerEdge| match edge {
        WinnerEdge::Stays { factor } => (factor, None),
        WinnerEdge::Changes {
            best_until,
            changes_at,
            to,
        } => (best_until.unwrap_or(changes_at), Some((changes_at, to))),
    };
    let ((from, below), (to, above)) = (edge(load.winner_below), edge(load.winner_above));
    if let WinnerEdge::Changes {
        best_until: None, to, ..
    } = load.winner_above
    {
        return format!("number {} ranks better even at the load as it is", to + 1);
    }
    let mut text = format!("1. stays the best of these from {from} to {to} times the load");
    for (at, place) in [below, above].into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = write!(text, "; at {at} number {} is", place + 1);
    }
    text
}

fn quantity(quantity: LoadQuantity, load: f64) -> String {
    match quantity {
        LoadQuantity::SessionsPerSecond => format!("{load:.2} arrivals/s"),
        LoadQuantity::RequestsInFlight => format!("{load:.0} in flight"),
        LoadQuantity::ArrivalSpeedup => format!("arrivals {load:.2} times as fast"),
    }
}
