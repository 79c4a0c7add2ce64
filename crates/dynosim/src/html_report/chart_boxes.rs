//! Which charts a page has, and what is written above each.

use super::charts::{CumulativeCurve, Distribution, HeatMap, LoadCurve, LoadSeries, Pareto, Timeline};
use super::page::ReportPage;

/// Charts of one kind, under one heading.
pub(super) struct ChartPart {
    /// The field of [`ReportPage`], by which the script finds the data.
    pub(super) kind: &'static str,
    pub(super) heading: &'static str,
    /// How to read the charts.
    pub(super) hint: &'static str,
    pub(super) boxes: Vec<ChartBox>,
}

/// The place of a chart.
pub(super) struct ChartBox {
    /// Its position in the field.
    pub(super) index: usize,
    pub(super) title: String,
}

/// The kinds in the order of the page, without charts that would be empty.
pub(super) fn chart_parts(page: &ReportPage) -> [ChartPart; 5] {
    [
        ChartPart {
            kind: "pareto",
            heading: "Candidates",
            hint: "Each mark is a deployment that was simulated: point at it for its figures. Crosses break a bound.",
            boxes: boxes(page.pareto.as_slice(), Pareto::title),
        },
        ChartPart {
            kind: "distributions",
            heading: "Latencies of requests",
            hint: "The share of requests whose latency is at most the value below.",
            boxes: boxes(&page.distributions, Distribution::title),
        },
        ChartPart {
            kind: "load_curves",
            heading: "Under other loads",
            hint: "What becomes of the same deployments when more or fewer requests arrive.",
            boxes: boxes(&page.load_curves, LoadCurve::title),
        },
        ChartPart {
            kind: "heat_maps",
            heading: "Sizes",
            hint: "Hollow, crossed cells break a bound; empty ones were not simulated.",
            boxes: boxes(&page.heat_maps, HeatMap::title),
        },
        ChartPart {
            kind: "timelines",
            heading: "Over time",
            hint: "What the pools of the best deployment did, second by second of simulated time.",
            boxes: boxes(&page.timelines, Timeline::title),
        },
    ]
}

/// Whether a page draws anything.
pub(super) fn has_charts(page: &ReportPage) -> bool {
    chart_parts(page).iter().any(|part| !part.boxes.is_empty())
}

/// Places of the charts that have a title, which is those that show anything.
fn boxes<T>(charts: &[T], title: impl Fn(&T) -> Option<String>) -> Vec<ChartBox> {
    let titles = charts.iter().map(title).enumerate();
    titles
        .filter_map(|(index, title)| Some(ChartBox { index, title: title? }))
        .collect()
}

impl Pareto {
    fn title(&self) -> Option<String> {
        let shown = self
            .points
            .iter()
            .any(|point| point.x.is_finite() && point.y.is_finite());
        shown.then(|| format!("{} by {}", self.y.name, self.x.name))
    }
}

impl Distribution {
    fn title(&self) -> Option<String> {
        let any = |curve: &CumulativeCurve| any_finite(&curve.points);
        self.curves.iter().any(any).then(|| self.axis.name.clone())
    }
}

impl LoadCurve {
    fn title(&self) -> Option<String> {
        let any = |series: &LoadSeries| any_finite(&series.points);
        self.curves.iter().any(any).then(|| self.y.name.clone())
    }
}

impl HeatMap {
    fn title(&self) -> Option<String> {
        let title = if self.title.is_empty() {
            &self.score.name
        } else {
            &self.title
        };
        (!self.cells.is_empty()).then(|| title.clone())
    }
}

impl Timeline {
    fn title(&self) -> Option<String> {
        let length = self.time_s.len();
        let series = [&self.waiting_requests, &self.running_requests, &self.kv_share];
        let mut values = series.iter().flat_map(|series| series.iter().take(length));
        values
            .any(|value| value.is_finite())
            .then(|| format!("Pool: {}", self.pool))
    }
}

fn any_finite(points: &[(f64, f64)]) -> bool {
    points.iter().any(|(x, y)| x.is_finite() && y.is_finite())
}
