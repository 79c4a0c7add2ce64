//! A fitted calibration for people.

use std::fmt::Write;

use super::calibrator::CalibrationFit;
use crate::aligned_table::table;
use crate::validation::{ErrorSummary, PerLatency, summary_row, summary_titles};

/// The constants, the errors before and after, what is not explained, and the notes.
pub(super) fn text(fit: &CalibrationFit) -> String {
    let constants = match fit.constants.len() {
        1 => "1 constant".to_owned(),
        several => format!("{several} constants"),
    };
    let mut text = format!(
        "{constants} fitted to {} points, {} simulations of all of them\n\n",
        fit.points, fit.evaluations
    );
    text.push_str(&table(&constant_rows(fit)));
    text.push_str("\nRelative errors of means (simulated less measured, over measured):\n");
    text.push_str(&table(&error_rows(fit)));
    if fit.unexplained.is_empty() {
        text.push_str("\nNo point is beyond 3 robust standard deviations.\n");
    } else {
        text.push_str("\nBeyond 3 robust standard deviations, so not explained:\n");
    }
    for figure in &fit.unexplained {
        let load = figure.point.load;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  tp {}, isl {}, osl {}, concurrency {}: {} {:+.2} % ({:.1} standard deviations)",
            load.tp,
            load.isl,
            load.osl,
            load.concurrency,
            figure.latency.name(),
            100.0 * figure.error,
            figure.sigmas
        );
    }
    for note in &fit.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn constant_rows(fit: &CalibrationFit) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["constant", "before", "fitted", "standard error"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for constant in &fit.constants {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
        rows.push(vec![
            constant.key.to_owned(),
            figure(constant.before),
            figure(constant.after),
            figure(constant.std_error),
        ]);
    }
    rows
}

fn error_rows(fit: &CalibrationFit) -> Vec<Vec<String>> {
    let mut rows = vec![summary_titles("fitted points")];
    let mut add = |name: &str, errors: &PerLatency<Option<ErrorSummary>>| {
        rows.push(summary_row(name.to_owned(), errors));
    };
    add("before", &fit.before);
    add("after", &fit.after);
    if let Some(errors) = &fit.cross_validated {
        add("each isl/osl by the others", errors);
    }
    if let Some([before, after]) = &fit.held_out {
        add("other tp, before", before);
        add("other tp, after", after);
    }
    rows
}
