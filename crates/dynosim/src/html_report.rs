//! A result as one HTML file: texts, charts and a table to sort, for a browser without a network.
//!
//! [`render`] takes a [`ReportPage`], which is plain values. What it makes needs nothing else: the script that draws,
//! Apache ECharts, is within the file, and its content security policy forbids every request. Reports follow the
//! reader's light or dark scheme, fit phones and can be printed.
//!
//! ```
//! use dynosim::html_report::{Axis, Pareto, ParetoPoint, ReportPage, render};
//!
//! let page = ReportPage {
//!     title: "Qwen3-8B on 8 H200".to_owned(),
//!     verdict: "Run 4 workers of TP 2.".to_owned(),
//!     facts: vec![("Throughput".to_owned(), "9,120 tok/s".to_owned())],
//!     pareto: Some(Pareto {
//!         x: Axis::new("Mean TTFT", "ms").logarithmic(),
//!         y: Axis::new("Throughput", "tok/s"),
//!         points: vec![ParetoPoint {
//!             label: "4 x TP 2".to_owned(),
//!             x: 210.0,
//!             y: 9_120.0,
//!             feasible: true,
//!             on_front: true,
//!             is_best: true,
//!             ..ParetoPoint::default()
//!         }],
//!     }),
//!     ..ReportPage::default()
//! };
//! let html = render(&page);
//! assert!(html.starts_with("<!doctype html>") && html.contains("Run 4 workers of TP 2."));
//! ```
//!
//! Every chart's box gets the attribute `data-drawn="true"` once the library says that it is done and marks can be
//! seen. Errors of the script are collected in `data-errors` of the root element.

mod chart_boxes;
mod charts;
mod escape;
mod markup;
mod page;
mod tables;

pub use charts::{
    Axis, CumulativeCurve, Distribution, HeatCell, HeatMap, LoadCurve, LoadSeries, Mark, Pareto, ParetoPoint, Scale,
    Timeline,
};
pub use page::{ReportPage, TextSection};
pub use tables::{CandidateRow, CandidateTable, Cell, Column, TextTable};

use escape::{Escaped, script_json};

/// The parts of Apache ECharts that reports draw with; `assets/echarts/README.md` says how it is made.
const ECHARTS: &str = include_str!("../assets/echarts/echarts.min.js");
const STYLE: &str = include_str!("html_report/style.css");

/// The page's own script, in the order in which its parts need each other.
const SCRIPTS: [&str; 11] = [
    include_str!("html_report/script/errors.js"),
    include_str!("html_report/script/numbers.js"),
    include_str!("html_report/script/theme.js"),
    include_str!("html_report/script/axes.js"),
    include_str!("html_report/script/chart.js"),
    include_str!("html_report/script/pareto.js"),
    include_str!("html_report/script/lines.js"),
    include_str!("html_report/script/heat_map.js"),
    include_str!("html_report/script/timeline.js"),
    include_str!("html_report/script/table.js"),
    include_str!("html_report/script/start.js"),
];

/// No requests: styles and scripts are those within the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The report as an HTML file, some 600 KiB and the data.
///
/// Equal pages give equal bytes. What is empty or absent in the page leaves no trace in the report.
pub fn render(page: &ReportPage) -> String {
    let has_charts = chart_boxes::has_charts(page);
    let scripts = if has_charts || page.candidates().is_some() {
        scripts(page, has_charts)
    } else {
        String::new()
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}{scripts}</body>\n</html>\n",
        Escaped(&page.title),
        markup::body(page),
    )
}

/// The data and everything that draws them.
fn scripts(page: &ReportPage, has_charts: bool) -> String {
    let library = if has_charts { ECHARTS } else { "" };
    format!(
        "<script type=\"application/json\" id=\"report-data\">{}</script>\n<script>\n{library}</script>\n\
         <script>\n(() => {{\n'use strict';\n{}}})();\n</script>\n",
        script_json(page),
        SCRIPTS.join("\n"),
    )
}

#[cfg(test)]
mod tests;
