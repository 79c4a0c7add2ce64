//! The result of a sweep, for people.

use std::fmt::Write;

use dynosim_spec::Objective;
use dynosim_sweep::{KvCapacity, Mode, OptimizationResult, Record, left_out_by_reason, text_table};

use crate::question::{gpus, is_open_loop, kv_transfer, question};
use crate::step_times::StepTimes;

/// Scores that differ by less than this share are much the same.
const NEAR: f64 = 0.01;

/// Columns of the shape of a worker that is not longer: `tp 16`.
const SHAPE_WIDTH: usize = 5;

const OPEN_LOOP: &str = "
Worth knowing
Requests arrive at given times, so no deployment can put out more than is asked for, and how the last requests drain
decides which throughput is best. Where throughput hardly differs, objective mean_e2e_latency or mean_ttft tells more.
";

const OPEN_LOOP_PER_GPU: &str = "
Worth knowing
Requests arrive at given times, so throughput per GPU and cost are about the number of GPUs, and how the last requests drain
decides between deployments with as many. Between those, latencies tell more.
";

/// The result of a sweep as text: the question, the best state, the `rows` best outcomes, and what
/// candidates were made of. Where no state is feasible, it says by how much the closest ones miss their bounds.
///
/// Warnings are left out: they go where warnings go. Step times are taken to come from the provider that
/// the spec names; [`summary_with_step_times`] is for others.
pub fn summary(result: &OptimizationResult, rows: usize) -> String {
    let spec = &result.spec;
    let step_times = StepTimes::built_in(&spec.timing, &spec.engine, &spec.hardware, None);
    summary_with_step_times(result, rows, &step_times)
}

/// As [`summary()`], naming these step times.
pub fn summary_with_step_times(result: &OptimizationResult, rows: usize, step_times: &StepTimes) -> String {
    summary_with_reservations(result, rows, step_times, &[])
}

/// As [`summary_with_step_times`], with these reservations about the best state beside it.
pub(crate) fn summary_with_reservations(
    result: &OptimizationResult,
    rows: usize,
    step_times: &StepTimes,
    reservations: &[String],
) -> String {
    let mut text = question(&result.spec, &result.modes);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Step times: {step_times}");
    if result.modes.contains(&Mode::Disagg) {
        let _ = writeln!(text, "KV transfer: {}", kv_transfer(&result.spec.engine));
    }
    let _ = writeln!(text, "\n{}", sentence(&result.verdict()));
    for reservation in reservations {
        let _ = writeln!(text, "Mind: {reservation}");
    }
    text.push_str(&alternatives(result));
    let closest_first;
    let (title, records) = if result.best_feasible.is_some() {
        ("Best feasible states", result.feasible.as_slice())
    } else {
        closest_first = by_penalty(&result.evaluated);
        ("Closest states", closest_first.as_slice())
    };
    let _ = write!(
        text,
        "\n{title} (a row per distinct outcome; {} simulations were made):\n{}",
        result.simulations,
        text_table(&result.modes, records, rows)
    );
    let _ = write!(text, "\n{}", result.certificate);
    text.push_str(&extrapolation(result, step_times));
    text.push_str("\nKV capacity of a worker:\n");
    let names = result.kv_capacity.iter().map(|capacity| capacity.shape.to_string());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    for capacity in &result.kv_capacity {
        let _ = writeln!(text, "  {}", kv_capacity(capacity, width.max(SHAPE_WIDTH)));
    }
    if !result.left_out_tps.is_empty() {
        text.push_str("\nLeft out:\n");
        for line in left_out_by_reason(&result.left_out_tps) {
            let _ = writeln!(text, "  {line}");
        }
    }
    if is_open_loop(&result.spec.workload) {
        match result.spec.objective {
            Objective::Throughput => text.push_str(OPEN_LOOP),
            Objective::ThroughputPerGpu | Objective::Cost => text.push_str(OPEN_LOOP_PER_GPU),
            _ => {}
        }
    }
    text
}

/// Feasible states that one might prefer to the best one.
fn alternatives(result: &OptimizationResult) -> String {
    let mut text = String::new();
    let Some(best) = &result.best_feasible else {
        return text;
    };
    match result.near_best(NEAR) {
        0 => {}
        1 => text.push_str("1 other state is within 1 % of it\n"),
        others => {
            let _ = writeln!(text, "{others} other states are within 1 % of it");
        }
    }
    let fewest = result.fewest_gpus();
    if let Some(fewest) = fewest.filter(|fewest| fewest.total_gpus_used < best.total_gpus_used) {
        let _ = writeln!(
            text,
            "Fewest GPUs that meet the bounds: {} ({}, {:.1} tok/s)",
            fewest.state,
            gpus(fewest.total_gpus_used, ""),
            fewest.metric("output_throughput_tok_s").unwrap_or(0.0)
        );
    }
    text
}

fn extrapolation(result: &OptimizationResult, step_times: &StepTimes) -> String {
    let share = result.best().and_then(|best| best.extrapolated_share).unwrap_or(0.0);
    if share < 0.01 {
        return String::new();
    }
    let state = if result.best_feasible.is_some() {
        "best"
    } else {
        "closest"
    };
    let rests_on = if step_times.rest_on_measurements() {
        "rests on extrapolation beyond what was measured"
    } else {
        "is of kernels that the roofline was never calibrated on"
    };
    format!(
        "\n{:.0} % of the step time of the {state} state {rests_on}.\n",
        100.0 * share
    )
}

pub(crate) fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn by_penalty(evaluated: &[Record]) -> Vec<Record> {
    let mut records = evaluated.to_vec();
    records.sort_by(|a, b| a.violation_penalty.total_cmp(&b.violation_penalty));
    records
}

/// A line whose shape takes `width` columns.
fn kv_capacity(capacity: &KvCapacity, width: usize) -> String {
    let source = match capacity.blocks_estimated {
        Some(estimated) if estimated == capacity.blocks_used => "estimated".to_owned(),
        Some(estimated) => format!("pinned; about {estimated} fit"),
        None => "pinned".to_owned(),
    };
    format!(
        "{:<10} {:<width$} {:>7} blocks of {} tokens, {source}",
        capacity.role.to_string(),
        capacity.shape.to_string(),
        capacity.blocks_used,
        capacity.block_size
    )
}
