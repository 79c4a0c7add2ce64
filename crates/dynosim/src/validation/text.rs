//! A validation for people.

use std::fmt::Write;

use super::choices::Choices;
use super::curves::Curve;
use super::error_summary::{ErrorGroup, ErrorSummary};
use super::latencies::{LatencyKind, PerLatency};
use super::validator::{ValidatedPoint, Validation};
use crate::aligned_table::table;

/// What stands in the place of a figure that is not there.
const NOTHING: &str = "-";

/// What was compared, the points, the errors, the curves, the choices and the notes.
pub(super) fn text(validation: &Validation) -> String {
    let setup = &validation.setup;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} on {}, {} points, {}",
        setup.engine.model,
        setup.hardware.system,
        validation.points.len(),
        match validation.seeds {
            1 => "one draw of lengths each".to_owned(),
            seeds => format!("means over {seeds} draws of lengths each"),
        }
    );
    let _ = writeln!(text, "Step times: {}", validation.step_times);
    if let Some(calibration) = &validation.calibration {
        let _ = writeln!(text, "Calibration: {}", calibration.name);
    }
    text.push('\n');
    text.push_str(&table(&point_rows(&validation.points)));
    text.push_str("\nRelative errors of means (simulated less measured, over measured):\n");
    text.push_str(&table(&group_rows(validation)));
    text.push_str(&band_lines(validation));
    if !validation.curves.is_empty() {
        text.push_str("\nErrors of curves over concurrency, each divided by its value at the lowest concurrency:\n");
        text.push_str(&table(&curve_rows(&validation.curves, &validation.shape_errors)));
    }
    text.push_str("\nMost output tokens per second and GPU within a mean TPOT of 9, 10, ... 80 ms:\n");
    text.push_str(&choice_line("", &validation.choices));
    if let Some(choices) = &validation.choices_with_kv_limited {
        text.push_str(&choice_line("with points at the KV limit: ", choices));
    }
    for note in &validation.notes {
        let _ = write!(text, "\nnote: {note}");
    }
    if !validation.notes.is_empty() {
        text.push('\n');
    }
    text
}

/// Where measurements lie around simulations.
fn band_lines(validation: &Validation) -> String {
    let mut text = String::new();
    for kind in LatencyKind::ALL {
        if let Some(band) = validation.error_bands.get(kind) {
            let _ = writeln!(
                text,
                "Nine in ten of {} measured {} lie between {:.3} and {:.3} times the simulated ones.",
                band.points,
                kind.name(),
                band.low,
                band.high
            );
        }
    }
    text
}

fn point_rows(points: &[ValidatedPoint]) -> Vec<Vec<String>> {
    let titles = [
        "tp",
        "isl",
        "osl",
        "conc",
        "TTFT ms",
        "simulated",
        "error %",
        "spread %",
        "TPOT ms",
        "simulated",
        "error %",
        "spread %",
        "",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for point in points {
        let load = point.measured.load;
        let mut row: Vec<String> = [load.tp, load.isl, load.osl, load.concurrency]
            .iter()
            .map(u32::to_string)
            .collect();
        for kind in LatencyKind::ALL {
            let spread = point
                .simulated
                .as_ref()
                .and_then(|simulated| simulated.mean_ms.get(kind).as_ref()?.spread);
            row.push(ms(*point.measured.mean_ms.get(kind)));
            row.push(ms(point.simulated_ms(kind)));
            row.push(signed_percent(*point.errors.get(kind)));
            row.push(spread.map_or_else(|| NOTHING.to_owned(), percent));
        }
        row.push(match (&point.failure, point.measured.kv_limited) {
            (Some(_), _) => "failed".to_owned(),
            (None, true) => "KV limit".to_owned(),
            (None, false) => String::new(),
        });
        rows.push(row);
    }
    rows
}

fn group_rows(validation: &Validation) -> Vec<Vec<String>> {
    let mut rows = vec![summary_titles("points")];
    for group in &validation.groups {
        let name = match group.group {
            ErrorGroup::All => "all".to_owned(),
            ErrorGroup::Tp { tp } => format!("tp {tp}"),
            ErrorGroup::Shape { isl, osl } => format!("isl {isl}, osl {osl}"),
            ErrorGroup::KvLimited => "at the KV limit".to_owned(),
        };
        rows.push(summary_row(name, &group.errors));
    }
    rows
}

fn curve_rows(curves: &[Curve], all: &PerLatency<Option<ErrorSummary>>) -> Vec<Vec<String>> {
    let mut rows = vec![summary_titles("curve"), summary_row("all".to_owned(), all)];
    for curve in curves {
        let name = format!("tp {}, isl {}, osl {}", curve.tp, curve.isl, curve.osl);
        let errors = PerLatency::of(|kind| curve.curves.get(kind).as_ref().map(|curve| curve.errors));
        rows.push(summary_row(name, &errors));
    }
    rows
}

/// Titles of a table of summaries.
pub(crate) fn summary_titles(what: &str) -> Vec<String> {
    let mut titles = vec![what.to_owned()];
    for kind in LatencyKind::ALL {
        let name = kind.name();
        titles.push(format!("{name} points"));
        titles.extend(["mean |error| %", "bias %", "worst %"].map(str::to_owned));
    }
    titles
}

/// A row of such a table.
pub(crate) fn summary_row(name: String, errors: &PerLatency<Option<ErrorSummary>>) -> Vec<String> {
    let mut row = vec![name];
    for kind in LatencyKind::ALL {
        let summary = errors.get(kind);
        row.push(summary.map_or(0, |summary| summary.points).to_string());
        row.push(summary.map_or_else(|| NOTHING.to_owned(), |summary| percent(summary.mean_absolute)));
        row.push(signed_percent(summary.map(|summary| summary.bias)));
        row.push(signed_percent(summary.map(|summary| summary.worst)));
    }
    row
}

fn choice_line(title: &str, choices: &Choices) -> String {
    let regret = match (choices.mean_regret, choices.worst_regret) {
        (Some(mean), Some(worst)) => format!(
            "; following the simulation loses {} % of measured throughput on average, {} % at worst",
            percent(mean),
            percent(worst)
        ),
        _ => String::new(),
    };
    let misses = match choices.misses {
        0 => String::new(),
        cases => format!(" (it finds nothing within the bound in {cases} cases where there is something)"),
    };
    let exceedances = choices.worst_exceedance.map_or_else(String::new, |worst| {
        let cases = choices.exceedances;
        format!(
            ", and exceeds the bound in {cases} cases, by {} % at most",
            percent(worst)
        )
    });
    let empty = match choices.empty {
        0 => String::new(),
        cases => format!(" (in {cases} of them nothing is within the bound, by both)"),
    };
    format!(
        "  {title}same tp and concurrency as measured in {} of {} cases{empty}{regret}{misses}{exceedances}\n",
        choices.agreements, choices.cases
    )
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.2}"))
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

fn signed_percent(share: Option<f64>) -> String {
    share.map_or_else(|| NOTHING.to_owned(), |share| format!("{:+.2}", 100.0 * share))
}
