//! What an answer says, checked against its own files.

use std::collections::BTreeMap;

use dynosim::answer::{Answer, AnswerOptions, Answering};
use dynosim::spec::{ReplayOptimizeSpec, SearchStrategy};
use dynosim::sweep::{Mode, OptimizationResult, Sweep};
use dynosim::timing::TimingProvider;
use dynosim::{Scenario, sweep_scenario, timing_provider};
use serde_json::{Value, json};

/// A small sweep of both kinds of deployments whose best candidates differ, with bounds on everything.
pub(crate) fn spec() -> ReplayOptimizeSpec {
    let text = json!({
        "engine": {
            "model": "Qwen/Qwen3-32B", "backend": "vllm",
            "prefillEngineArgs": { "kv_bytes_per_token": 262_144, "kv_transfer_bandwidth": 25 },
            "decodeEngineArgs": {}
        },
        "hardware": { "system": "h200_sxm", "totalGpus": 4, "gpuHourPrice": 3.5 },
        "workload": {
            "isl": 3000, "osl": 40, "requestCount": 80, "requestRate": 6, "lengthRangeRatio": 0.5,
            "sharedPrefixRatio": 0.5, "numPrefixGroups": 4
        },
        "sla": { "ttft": 900, "p95Itl": 40, "p99E2eLatency": 4000, "perRequest": { "ttft": 500, "itl": 25 } },
        "router": { "mode": "both", "prefillLoadScales": [0, 1] },
        "search": { "strategy": "exhaustive" },
        "objective": "goodput"
    });
    let read = ReplayOptimizeSpec::from_json(&text.to_string());
    read.expect("the spec is valid").value
}

const BOTH: [Mode; 2] = [Mode::Agg, Mode::Disagg];

/// What a sweep over both kinds of deployments finds.
fn optimize(spec: &ReplayOptimizeSpec, scenario: Scenario, provider: &dyn TimingProvider) -> OptimizationResult {
    let sweep = Sweep::new(spec, scenario, provider).expect("a sweep");
    sweep.optimize(&BOTH).expect("there are candidates")
}

/// The same with everything built in.
fn found(spec: &ReplayOptimizeSpec) -> OptimizationResult {
    let scenario = sweep_scenario(spec, &BOTH).expect("a scenario");
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    optimize(spec, scenario, provider.as_ref())
}

fn without_repetitions() -> AnswerOptions {
    AnswerOptions {
        repeats: 0,
        ..AnswerOptions::default()
    }
}

pub(crate) fn answer(spec: &ReplayOptimizeSpec, options: AnswerOptions) -> Answer {
    let scenario = sweep_scenario(spec, &BOTH).expect("a scenario");
    let provider = timing_provider(&spec.timing, &spec.engine, None);
    let result = optimize(spec, scenario.clone(), provider.as_ref());
    let answering = Answering::new(result, &scenario, provider.as_ref()).with_options(options);
    answering.answer().expect("candidates can be simulated again")
}

fn file(answer: &Answer, name: &str) -> String {
    let files = answer.files().expect("plain values");
    let file = files.into_iter().find(|(file, _)| file == name);
    file.expect("the file is there").1
}

/// A row of `requests.csv` by column.
type Row = BTreeMap<String, String>;

fn rows(table: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    reader
        .deserialize()
        .map(|row| row.expect("a row per request"))
        .collect()
}

fn number(row: &Row, column: &str) -> Option<f64> {
    row.get(column)?.parse().ok()
}

/// What a report says, recomputed from requests alone, in the simplest way.
fn recomputed(rows: &[Row]) -> BTreeMap<String, f64> {
    let column = |name: &str| -> Vec<f64> { rows.iter().filter_map(|row| number(row, name)).collect() };
    let sum = |name: &str, of: &dyn Fn(&Row) -> bool| -> f64 {
        rows.iter()
            .filter(|row| of(row))
            .filter_map(|row| number(row, name))
            .sum()
    };
    let served = |row: &Row| number(row, "ttft_ms").is_some();
    let mut figures = BTreeMap::new();
    let completed = column("ttft_ms").len() as f64;
    let duration_ms = column("last_token_ms").into_iter().fold(0.0, f64::max);
    let seconds = duration_ms / 1000.0;
    let (input, output) = (sum("input_tokens", &served), sum("output_tokens", &served));
    let good = rows.iter().filter(|row| {
        let keeps = |name: &str, bound: f64| number(row, name).is_none_or(|ms| ms <= bound);
        served(row) && keeps("ttft_ms", 500.0) && keeps("tpot_ms", 25.0)
    });
    let good = good.count() as f64;
    let gaps: f64 = rows
        .iter()
        .filter(|row| served(row))
        .filter_map(|row| number(row, "output_tokens"))
        .map(|n| n - 1.0)
        .sum();
    let between = sum("last_token_ms", &served) - sum("first_token_ms", &served);
    for (name, value) in [
        ("num_requests", rows.len() as f64),
        ("completed_requests", completed),
        ("duration_ms", duration_ms),
        ("total_input_tokens", input),
        ("total_output_tokens", output),
        ("processed_tokens", input + output),
        ("request_throughput_rps", completed / seconds),
        ("input_throughput_tok_s", input / seconds),
        ("output_throughput_tok_s", output / seconds),
        ("total_throughput_tok_s", (input + output) / seconds),
        ("prefix_cache_reused_ratio", sum("reused_tokens", &served) / input),
        ("goodput_rps", good / seconds),
        ("goodput_share", good / rows.len() as f64),
        ("mean_itl_ms", between / gaps),
    ] {
        figures.insert(name.to_owned(), value);
    }
    let second: Vec<f64> = rows
        .iter()
        .filter_map(|row| Some(number(row, "second_token_ms")? - number(row, "first_token_ms")?))
        .collect();
    for (name, mut values) in [
        ("ttft_ms", column("ttft_ms")),
        ("tpot_ms", column("tpot_ms")),
        ("e2e_latency_ms", column("e2e_latency_ms")),
        ("ttst_ms", second),
    ] {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let at = |percent: usize| values[((count - 1) * percent + 50) / 100];
        for (figure, value) in [
            ("mean", mean),
            ("std", (squares / count as f64).sqrt()),
            ("min", values[0]),
            ("max", values[count - 1]),
            ("median", at(50)),
            ("p75", at(75)),
            ("p90", at(90)),
            ("p95", at(95)),
            ("p99", at(99)),
        ] {
            figures.insert(format!("{figure}_{name}"), value);
        }
    }
    figures
}

#[track_caller]
fn check_close(name: &str, found: f64, expected: f64) {
    let scale = expected.abs().max(1e-6);
    assert!(
        (found - expected).abs() <= 1e-9 * scale.max(1.0),
        "{name}: {found} instead of {expected}"
    );
}

#[test]
fn numbers_follow_from_the_requests() {
    let answer = answer(&spec(), without_repetitions());
    let document: Value = serde_json::from_str(&file(&answer, "result.json")).expect("JSON");
    let requests = rows(&file(&answer, "requests.csv"));
    let candidates = document["candidates"].as_array().expect("a list");
    assert!(candidates.len() >= 4, "winner, runners-up and near misses");
    let kinds: Vec<&Value> = candidates.iter().map(|candidate| &candidate["standing"]).collect();
    assert!(
        kinds.contains(&&json!("winner")) && kinds.contains(&&json!("near_miss")),
        "{kinds:?}"
    );
    for (candidate, why) in candidates
        .iter()
        .zip(document["explanation"]["candidates"].as_array().expect("a list"))
    {
        let rank = candidate["rank"].to_string();
        let of_candidate: Vec<Row> = requests
            .iter()
            .filter(|row| row["candidate"] == rank)
            .cloned()
            .collect();
        let figures = recomputed(&of_candidate);
        let record = &candidate["record"];
        for (name, &expected) in &figures {
            check_close(name, record[name].as_f64().expect("a number"), expected);
        }
        // What is not there are figures of single gaps, and what the state and the bounds say.
        let gpus = record["total_gpus_used"].as_f64().expect("a number");
        check_close(
            "throughput_per_gpu_tok_s",
            record["throughput_per_gpu_tok_s"].as_f64().expect("a number"),
            figures["output_throughput_tok_s"] / gpus,
        );
        let cost = gpus * 3.5 * figures["duration_ms"] / 3_600_000.0 / (figures["total_output_tokens"] / 1e6);
        check_close(
            "cost",
            record["cost_per_million_output_tokens"].as_f64().expect("a number"),
            cost,
        );
        assert_eq!(record["score"], record["goodput_rps"]);

        let served = of_candidate.iter().filter(|row| number(row, "ttft_ms").is_some());
        let served: Vec<&Row> = served.collect();
        for part in [
            "ingress",
            "queue",
            "prefill",
            "transfer",
            "decode_queue",
            "first_step",
            "egress",
        ] {
            let column = format!("{part}_ms");
            let sum: f64 = served.iter().filter_map(|row| number(row, &column)).sum();
            check_close(
                part,
                why["mean_ttft_ms"][part].as_f64().expect("a number"),
                sum / served.len() as f64,
            );
        }
        let reused: f64 = served.iter().filter_map(|row| number(row, "reused_tokens")).sum();
        check_close(
            "reused_tokens",
            why["cache"]["reused_tokens"].as_f64().expect("a number"),
            reused,
        );
        let preemptions: f64 = of_candidate.iter().filter_map(|row| number(row, "preemptions")).sum();
        check_close(
            "preemptions",
            why["preemptions"].as_f64().expect("a number"),
            preemptions,
        );
        for bound in why["bounds"].as_array().expect("a list") {
            let metric = bound["metric"].as_str().expect("a name");
            check_close(metric, bound["value_ms"].as_f64().expect("a number"), figures[metric]);
        }
    }
}

#[test]
fn candidates_are_simulations_of_their_own() {
    let answer = answer(&spec(), without_repetitions());
    let document: Value = serde_json::from_str(&file(&answer, "result.json")).expect("JSON");
    for candidate in document["candidates"].as_array().expect("a list") {
        let run = dynosim::RunSpec::from_json(&candidate["run"].to_string()).expect("a valid run");
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
        let report = dynosim::run(&run.value).expect("it runs").report;
        for (name, value) in report.metrics() {
            assert_eq!(
                candidate["record"][&name].as_f64(),
                Some(value),
                "{name} of {}",
                candidate["state"]
            );
        }
    }
}

#[test]
fn candidates_with_blocks_of_their_own_serve_the_same_requests() {
    let mut spec = spec();
    spec.search.engine_args.block_size = vec![16, 48];
    spec.router.mode = dynosim::spec::SweepRouterMode::RoundRobin;
    let answer = answer(&spec, without_repetitions());
    let document: Value = serde_json::from_str(&file(&answer, "result.json")).expect("JSON");
    let mut sizes = std::collections::BTreeSet::new();
    for candidate in document["candidates"].as_array().expect("a list") {
        let run = dynosim::RunSpec::from_json(&candidate["run"].to_string()).expect("a valid run");
        let report = dynosim::run(&run.value).expect("it runs").report;
        assert_eq!(candidate["record"]["mean_ttft_ms"].as_f64(), Some(report.ttft.mean));
        sizes.insert(candidate["record"]["block_size"].to_string());
    }
    assert_eq!(sizes.len(), 2, "{sizes:?}");
}

#[test]
fn the_least_number_of_gpus_holds_for_other_budgets() {
    let mut spec = spec();
    spec.hardware.min_gpus = Some(4);
    let answer = answer(&spec, without_repetitions());
    let explanation = answer.explanation.as_ref().expect("it was asked for");
    assert!(explanation.fewer_gpus.is_none(), "{:?}", explanation.fewer_gpus);
    let more = explanation.more_gpus.as_ref().expect("something is feasible");
    assert!(more.change.is_some_and(|change| change >= 0.0), "{more:?}");
}

#[test]
fn bounds_that_give_way_do_not_help_who_cannot_serve_all() {
    let mut spec = spec();
    spec.engine.prefill_engine_args = None;
    spec.engine.decode_engine_args = None;
    // Room for the shorter half of the requests.
    spec.engine.base_engine_args.num_gpu_blocks = Some(36);
    spec.search.prune = dynosim::spec::Prune::None;
    let answer = answer(&spec, without_repetitions());
    let explanation = answer.explanation.as_ref().expect("it was asked for");
    let relief = explanation.relief.as_ref().expect("nothing is feasible");
    assert!(relief.single.is_empty() && relief.joint.is_empty(), "{relief:?}");
    assert!(explanation.text().contains("no deployment serves every request"));
}

#[test]
fn answers_do_not_depend_on_threads() {
    let options = AnswerOptions {
        repeats: 2,
        load_factors: vec![0.5, 2.0],
        ..AnswerOptions::default()
    };
    let files = |threads: u32| {
        let mut spec = spec();
        spec.max_parallel_evals = Some(threads);
        let answer = answer(&spec, options.clone());
        (answer.files().expect("plain values"), answer.text(5))
    };
    let (alone, together) = (files(1), files(3));
    assert!(alone == together);
    let names: Vec<&str> = alone.0.iter().map(|(name, _)| name.as_str()).collect();
    for name in [
        "result.json",
        "evaluated.csv",
        "feasible.csv",
        "pareto.csv",
        "requests.csv",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    for part in [
        "Exhaustive search: ",
        "\nWhy\n",
        "How sure",
        "tightest bound first: sla.",
    ] {
        assert!(alone.1.contains(part), "{part} in {}", alone.1);
    }
}

#[test]
fn where_nothing_is_feasible_the_way_out_is_told() {
    let mut spec = spec();
    spec.sla.ttft = Some(60.0);
    spec.sla.p99_e2e_latency = None;
    let answer = answer(&spec, without_repetitions());
    assert!(answer.result.feasible.is_empty());
    let explanation = answer.explanation.as_ref().expect("it was asked for");
    assert!(explanation.more_gpus.is_none() && explanation.fewer_gpus.is_none());
    let relief = explanation.relief.as_ref().expect("nothing is feasible");
    // What a bound would have to be makes a candidate feasible, and a little less does not.
    let relaxed = relief
        .single
        .iter()
        .find(|relaxation| relaxation.name == "ttft")
        .expect("TTFT alone would do");
    for (bound, expected) in [(relaxed.to_ms, true), (relaxed.to_ms * 0.999, false)] {
        spec.sla.ttft = Some(bound);
        let found = found(&spec);
        assert_eq!(!found.feasible.is_empty(), expected, "{bound}");
    }
    let text = explanation.text();
    assert!(text.contains("sla.ttft alone would have to be"), "{text}");
    assert!(
        text.contains("meet all bounds (") || text.contains("More GPUs: up to"),
        "{text}"
    );
    assert!(relief.fewest_gpus.is_none_or(|fewest| fewest > 4));
}

#[test]
fn other_budgets_are_really_better_or_worse() {
    let spec = spec();
    let answer = answer(&spec, without_repetitions());
    let explanation = answer.explanation.as_ref().expect("it was asked for");
    let best = answer
        .result
        .best_feasible
        .as_ref()
        .expect("wide bounds")
        .score
        .expect("a report");
    for change in [&explanation.more_gpus, &explanation.fewer_gpus].into_iter().flatten() {
        let mut spec = spec.clone();
        spec.hardware.total_gpus = Some(change.budget);
        if !change.proven {
            spec.search.strategy = SearchStrategy::Descent;
        }
        let found = found(&spec);
        let score = found.best_feasible.as_ref().and_then(|best| best.score);
        assert_eq!(change.score, score);
        let expected = score.map(|score| (score - best) / best.abs());
        assert_eq!(change.change, expected);
    }
}
