//! An answer as the page of a report.

mod candidates;
mod latencies;
mod other_loads;
mod splits;

use dynosim_core::PoolTimeline;
use dynosim_spec::RouterMode;
use dynosim_sweep::Record;

use super::Answer;
use crate::explain::text::{budget_lines, lines, percent, title};
use crate::html_report::{ReportPage, TextSection, Timeline};
use crate::question::question;
use crate::summary::sentence;

/// Everything of an answer that a report shows.
pub(super) fn page(answer: &Answer) -> ReportPage {
    let result = &answer.result;
    let verdict = sentence(&result.verdict());
    ReportPage {
        title: format!("{} on {}", result.spec.engine.model, result.spec.hardware.system),
        subtitle: question(&result.spec, &result.modes).trim_end().replace('\n', ". "),
        verdict,
        facts: facts(answer),
        notes: [answer.reservations(), result.warnings.clone()].concat(),
        pareto: candidates::pareto(result),
        sections: sections(answer),
        distributions: latencies::distributions(answer),
        load_curves: other_loads::curves(answer),
        heat_maps: splits::heat_map(result).into_iter().collect(),
        timelines: timelines(answer),
        table: candidates::table(result),
    }
}

/// What a candidate is called in charts.
fn name(rank: usize, record: &Record) -> String {
    format!("{rank}. {}", record.state.short_name())
}

fn facts(answer: &Answer) -> Vec<(String, String)> {
    let result = &answer.result;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    if let Some(best) = result.best() {
        let title = if best.feasible {
            "Best deployment"
        } else {
            "Closest deployment"
        };
        fact(title, best.state.short_name());
        if best.state.router.mode == RouterMode::KvRouter {
            let router = best.state.router;
            fact(
                "KV router",
                format!(
                    "overlap credit {}, prefill load scale {}",
                    router.overlap_score_credit, router.prefill_load_scale
                ),
            );
        }
        fact("GPUs", best.total_gpus_used.to_string());
        for (name, metric, unit, digits) in [
            ("Throughput", "output_throughput_tok_s", "tok/s", 1),
            ("Goodput", "goodput_rps", "requests/s", 3),
            ("Cost", "cost_per_million_output_tokens", "per million output tokens", 4),
            ("Mean TTFT", "mean_ttft_ms", "ms", 1),
            ("p95 TTFT", "p95_ttft_ms", "ms", 1),
            ("Mean TPOT", "mean_tpot_ms", "ms", 2),
            ("Mean end-to-end latency", "mean_e2e_latency_ms", "ms", 1),
        ] {
            if let Some(value) = best.metric(metric) {
                fact(name, format!("{value:.digits$} {unit}"));
            }
        }
        if let Some(share) = best.metric("prefix_cache_reused_ratio") {
            fact("Prompt tokens from a cache", percent(share));
        }
        if let Some(share) = best.extrapolated_share {
            fact("Step time extrapolated", percent(share));
        }
    }
    fact("Step times", answer.step_times.to_string());
    if let Some(physics) = answer.scenario.physics() {
        fact("Calibration", physics.calibration.name.clone());
    }
    fact("DynoSim", env!("CARGO_PKG_VERSION").to_owned());
    facts
}

fn sections(answer: &Answer) -> Vec<TextSection> {
    let section = |title: &str, lines: Vec<String>| TextSection {
        title: title.to_owned(),
        lines,
        table: None,
    };
    let mut sections = Vec::new();
    if let Some(explanation) = &answer.explanation {
        for candidate in &explanation.candidates {
            let name = candidate.candidate.short_name();
            let heading = format!("{}. {name} ({})", candidate.rank, title(candidate));
            let mut all = vec![candidate.state.clone()];
            all.extend(lines(candidate));
            all.extend(candidate.infeasible_reason.clone());
            sections.push(section(&heading, all));
        }
        sections.push(section("What would change it", budget_lines(explanation)));
    }
    if let Some(confidence) = &answer.confidence {
        let text = confidence.text();
        sections.push(section("How sure", text.lines().map(str::to_owned).collect()));
    }
    let certificate = answer.result.certificate.to_string();
    sections.push(section(
        "What was searched",
        certificate.lines().map(str::to_owned).collect(),
    ));
    sections.retain(|section| !section.lines.is_empty());
    sections
}

/// The pools of the first explained candidate over time.
fn timelines(answer: &Answer) -> Vec<Timeline> {
    let details = answer.detailed.first().and_then(|first| first.outcome.details.as_ref());
    let timelines = details.map_or(&[][..], |details| &details.timelines);
    timelines.iter().map(timeline).collect()
}

fn timeline(pool: &PoolTimeline) -> Timeline {
    let of = |figure: &dyn Fn(&dynosim_core::PoolSample) -> f64| pool.samples.iter().map(figure).collect();
    Timeline {
        pool: pool.role.to_string(),
        time_s: pool.at_instants().map(|(at, _)| at.as_ms() / 1000.0).collect(),
        waiting_requests: of(&|sample| f64::from(sample.waiting)),
        running_requests: of(&|sample| f64::from(sample.running)),
        kv_share: of(&|sample| sample.kv_in_use),
    }
}
