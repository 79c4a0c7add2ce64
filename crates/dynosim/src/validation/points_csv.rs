//! Points as CSV.

use super::latencies::LatencyKind;
use super::validator::ValidatedPoint;

const COLUMNS: [&str; 17] = [
    "tp",
    "isl",
    "osl",
    "concurrency",
    "requests",
    "kv_limited",
    "measured_ttft_mean_ms",
    "simulated_ttft_mean_ms",
    "ttft_error",
    "ttft_spread",
    "measured_tpot_mean_ms",
    "simulated_tpot_mean_ms",
    "tpot_error",
    "tpot_spread",
    "measured_output_tok_s_per_gpu",
    "simulated_output_tok_s_per_gpu",
    "extrapolated_share",
];

/// One line per point below a header. Numbers are the shortest that read back as the same `f64`.
pub(super) fn points_csv(points: &[ValidatedPoint]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for point in points {
        text.push_str(&cells(point).join(","));
        text.push('\n');
    }
    text
}

fn cells(point: &ValidatedPoint) -> Vec<String> {
    let load = point.measured.load;
    let mut cells: Vec<String> = [load.tp, load.isl, load.osl, load.concurrency, load.requests]
        .iter()
        .map(u32::to_string)
        .collect();
    cells.push(u8::from(point.measured.kv_limited).to_string());
    let simulated = point.simulated.as_ref();
    for kind in LatencyKind::ALL {
        let spread = simulated.and_then(|simulated| simulated.mean_ms.get(kind).as_ref()?.spread);
        cells.extend([
            number(*point.measured.mean_ms.get(kind)),
            number(point.simulated_ms(kind)),
            number(*point.errors.get(kind)),
            number(spread),
        ]);
    }
    cells.extend([
        number(point.measured_tok_s_per_gpu),
        number(simulated.and_then(|simulated| simulated.output_tok_s_per_gpu)),
        number(simulated.map(|simulated| simulated.extrapolated_share)),
    ]);
    cells
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
