//! The result of a sweep, for people.

use std::fmt::Write;

use dynosim_spec::WorkerRole;
use dynosim_sweep::{KvCapacity, OptimizationResult, Record, text_table};

/// The result of a sweep as text: the best state, the `rows` best simulations, and what candidates were
/// made of. Where no state is feasible, it says by how much the closest ones miss their bounds.
///
/// Warnings are left out: they go where warnings go.
pub fn summary(result: &OptimizationResult, rows: usize) -> String {
    let mut text = format!("{}\n", sentence(&result.verdict()));
    let closest_first;
    let (title, records) = if result.best_feasible.is_some() {
        ("Best feasible states", result.feasible.as_slice())
    } else {
        closest_first = by_penalty(&result.evaluated);
        ("Closest states", closest_first.as_slice())
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n{title} (a row per distinct simulation, {} were made):\n{}",
        result.simulations,
        text_table(result.mode, records, rows)
    );
    let extrapolated = result.best().and_then(|best| best.extrapolated_share).unwrap_or(0.0);
    if extrapolated >= 0.01 {
        let _ = writeln!(
            text,
            "\n{:.0} % of the step time of the {} state rests on extrapolation beyond what was measured.",
            100.0 * extrapolated,
            if result.best_feasible.is_some() {
                "best"
            } else {
                "closest"
            }
        );
    }
    text.push_str("\nKV capacity of a worker:\n");
    for capacity in &result.kv_capacity {
        let _ = writeln!(text, "  {}", kv_capacity(capacity));
    }
    if !result.left_out_tps.is_empty() {
        text.push_str("\nLeft out:\n");
        for left_out in &result.left_out_tps {
            let _ = writeln!(
                text,
                "  {} tp {}: {}",
                role_name(left_out.role),
                left_out.tp,
                left_out.reason
            );
        }
    }
    text
}

fn sentence(clause: &str) -> String {
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

fn kv_capacity(capacity: &KvCapacity) -> String {
    let source = match capacity.blocks_estimated {
        Some(estimated) if estimated == capacity.blocks_used => "estimated".to_owned(),
        Some(estimated) => format!("pinned; about {estimated} fit"),
        None => "pinned".to_owned(),
    };
    format!(
        "{:<10} tp {:<2} {:>7} blocks of {} tokens, {source}",
        role_name(capacity.role),
        capacity.tp,
        capacity.blocks_used,
        capacity.block_size
    )
}

const fn role_name(role: WorkerRole) -> &'static str {
    match role {
        WorkerRole::Aggregated => "aggregated",
        WorkerRole::Prefill => "prefill",
        WorkerRole::Decode => "decode",
    }
}
