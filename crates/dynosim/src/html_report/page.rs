//! What a report shows, as plain values.

use serde::{Deserialize, Serialize};

use super::charts::{Distribution, HeatMap, LoadCurve, Pareto, Timeline};
use super::tables::{CandidateTable, TextTable};

/// A report: texts, then charts, then the table of everything that was tried.
///
/// Whatever is empty or `None` is left out, with its heading. Texts are plain text: they are escaped where they are
/// written, and never read as markup. Numbers that are not finite are not drawn; JSON has no such numbers, so a page that
/// holds any cannot be read back from JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportPage {
    /// The heading, and the title of the browser's window.
    pub title: String,
    /// The question that the report answers.
    pub subtitle: String,
    /// The answer, in a sentence.
    pub verdict: String,
    /// The answer in figures: a name and a value with its unit.
    pub facts: Vec<(String, String)>,
    /// What the reader has to know before believing the figures.
    pub notes: Vec<String>,
    /// All candidates by two figures.
    pub pareto: Option<Pareto>,
    /// Longer texts: why this candidate, and how sure the answer is.
    pub sections: Vec<TextSection>,
    /// How latencies are distributed.
    pub distributions: Vec<Distribution>,
    /// How candidates do under other loads.
    pub load_curves: Vec<LoadCurve>,
    /// Scores of worker splits.
    pub heat_maps: Vec<HeatMap>,
    /// What the pools of a deployment did over time.
    pub timelines: Vec<Timeline>,
    /// All candidates with all their figures.
    pub table: Option<CandidateTable>,
}

impl ReportPage {
    /// The table of candidates, if there are any.
    pub(super) fn candidates(&self) -> Option<&CandidateTable> {
        self.table.as_ref().filter(|table| !table.rows.is_empty())
    }
}

/// A text with a heading: paragraphs, then a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextSection {
    /// The heading.
    pub title: String,
    /// Paragraphs, in order.
    pub lines: Vec<String>,
    /// A table below them.
    pub table: Option<TextTable>,
}
