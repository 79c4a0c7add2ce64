//! `bench.sh`: the load that was simulated, put on a real deployment by AIPerf 0.13.
//!
//! There are two forms. *Replay* sends the requests of `trace.jsonl`, the very ones that were simulated. *Drawn* has
//! AIPerf draw requests of its own by the same rules, where it knows them: equal lengths, single turns, at most a pool of
//! prefixes. Both are the same where there is nothing to draw, and then drawn is the default, because it needs no file; else
//! replay is, because other gaps and other prefixes are another load.

use std::fmt::Write;

use dynosim_spec::{Backend, RequestId, RunSpec, SyntheticLoad, SyntheticWorkload, Workload, WorkloadSpec};

use super::Part;
use super::shell;
use super::trace_file::TraceFile;

/// The name of an engine in commands.
pub(super) const fn engine_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Vllm => "vllm",
        Backend::Sglang => "sglang",
    }
}

/// The script, without the heading.
pub(super) fn bench(spec: &RunSpec, workload: &Workload, trace: &TraceFile) -> Part {
    let drawn = Drawn::of(&spec.workload, workload, trace);
    let default = match &drawn {
        Some(drawn) if drawn.is_exact => "drawn",
        _ => "replay",
    };
    let mut text = beginning(spec, default, drawn.as_ref());
    text.push_str(&case("replay", &replay(trace)));
    if let Some(drawn) = &drawn {
        text.push_str(&case("drawn", &drawn.options()));
    }
    let forms = if drawn.is_some() { "replay or drawn" } else { "replay" };
    let _ = write!(
        text,
        "*)\n    echo \"bench.sh: the form must be {forms}, got $FORM\" >&2\n    exit 2\n    ;;\nesac\n\n\
         \"${{AIPERF:-aiperf}}\" profile \"${{common[@]}}\" \"${{load[@]}}\"\n\n"
    );
    text.push_str(&vllm_bench(spec, trace, drawn.as_ref()));
    Part {
        text,
        warnings: warnings(trace, drawn.as_ref()),
    }
}

fn beginning(spec: &RunSpec, default: &str, drawn: Option<&Drawn>) -> String {
    let model = shell::word(&spec.engine.model);
    let forms = match drawn {
        None => "#   bash bench.sh            replays trace.jsonl\n".to_owned(),
        Some(_) => format!(
            "#   bash bench.sh replay     replays trace.jsonl: the requests that were simulated\n\
             #   bash bench.sh drawn      has AIPerf draw requests of the same kind\n\
             #   bash bench.sh            is `{default}`{}\n",
            match default {
                "drawn" => ": there is nothing random about this load but texts, so both are the same",
                _ => ": AIPerf draws other gaps or prefixes than were simulated",
            }
        ),
    };
    format!(
        "#!/usr/bin/env bash\n\
         {forms}\
         # Variables: URLS (one or more, separated by spaces), MODEL, TOKENIZER, ARTIFACTS (folder of results), AIPERF.\n\
         # Needs AIPerf 0.13: pip install aiperf==0.13.0. Compare profile_export_aiperf.json with expected.json.\n\
         set -euo pipefail\n\
         here=$(cd \"$(dirname \"${{BASH_SOURCE[0]}}\")\" && pwd)\n\
         MODEL=${{MODEL:-{model}}}\n\
         FORM=${{1:-{default}}}\n\
         read -r -a urls <<<\"${{URLS:-http://localhost:8000}}\"\n\n\
         common=(\n    \
             --model \"$MODEL\" --tokenizer \"${{TOKENIZER:-$MODEL}}\"\n    \
             --endpoint-type chat --streaming --extra-inputs ignore_eos:true\n    \
             --random-seed {} --artifact-dir \"${{ARTIFACTS:-artifacts}}\" --ui none\n\
         )\n\
         for url in \"${{urls[@]}}\"; do\n    common+=(--url \"$url\")\ndone\n\n\
         case $FORM in\n",
        spec.seed
    )
}

fn case(form: &str, options: &[String]) -> String {
    format!(
        "{form})\n    load=(\n        {}\n    )\n    ;;\n",
        options.join("\n        ")
    )
}

fn replay(trace: &TraceFile) -> Vec<String> {
    let mut options = vec![
        "--input-file \"$here/trace.jsonl\" --custom-dataset-type mooncake_trace".to_owned(),
        format!("--isl-block-size {}", trace.block_tokens),
    ];
    options.push(match trace.concurrency {
        // Times are divided by the speed-up already.
        None => "--fixed-schedule --fixed-schedule-auto-offset".to_owned(),
        Some(concurrency) => format!("--concurrency {concurrency} --request-count {}", trace.rows),
    });
    options
}

/// A load that AIPerf can draw itself.
#[derive(Debug)]
struct Drawn<'a> {
    spec: &'a SyntheticWorkload,
    requests: usize,
    /// Tokens of a prefix, as simulated in whole blocks; 0 without prefixes.
    prefix_tokens: u32,
    /// Whether nothing is drawn but texts.
    is_exact: bool,
}

impl<'a> Drawn<'a> {
    /// `None` if AIPerf knows no such load.
    fn of(spec: &'a WorkloadSpec, workload: &Workload, trace: &TraceFile) -> Option<Self> {
        let WorkloadSpec::Synthetic(spec) = spec else {
            return None;
        };
        let has_prefixes = !workload.prompts().path(RequestId::new(0)).is_empty();
        let prefix_tokens = if has_prefixes {
            workload.prompts().content_block().tokens()
        } else {
            0
        };
        let all_at_once = matches!(spec.load, SyntheticLoad::ArrivalIntervalMs(gap_ms) if gap_ms <= 0.0);
        let known = spec.turns_per_session == 1
            && !spec.lengths_differ()
            && trace.left_out == 0
            && prefix_tokens < spec.isl
            && !all_at_once;
        known.then_some(Self {
            spec,
            requests: trace.rows,
            prefix_tokens,
            is_exact: !has_prefixes && !matches!(spec.load, SyntheticLoad::RequestRate(_)),
        })
    }

    fn own_tokens(&self) -> u32 {
        self.spec.isl - self.prefix_tokens
    }

    fn options(&self) -> Vec<String> {
        let SyntheticWorkload { osl, load, .. } = *self.spec;
        let requests = self.requests;
        let mut options = vec![
            format!("--isl {} --isl-stddev 0 --osl {osl} --osl-stddev 0", self.own_tokens()),
            format!("--extra-inputs min_tokens:{osl}"),
        ];
        if self.prefix_tokens > 0 {
            options.push(format!(
                "--num-prefix-prompts {} --prefix-prompt-length {}",
                self.spec.num_prefix_groups, self.prefix_tokens
            ));
        }
        options.push(match load {
            SyntheticLoad::Concurrency(concurrency) => {
                format!("--concurrency {}", u64::from(concurrency).min(requests as u64))
            }
            SyntheticLoad::RequestRate(_) => format!("--request-rate {} --arrival-pattern poisson", self.rate()),
            SyntheticLoad::ArrivalIntervalMs(_) => {
                format!("--request-rate {} --arrival-pattern constant", self.rate())
            }
        });
        // Fewer entries than requests would be used again, and found in caches.
        options.push(format!("--request-count {requests} --num-dataset-entries {requests}"));
        options
    }

    /// Requests per second of an open loop, with its speed-up.
    fn rate(&self) -> f64 {
        let speedup = self.spec.arrival_speedup_ratio;
        match self.spec.load {
            SyntheticLoad::Concurrency(_) => f64::INFINITY,
            SyntheticLoad::RequestRate(per_second) => per_second * speedup,
            SyntheticLoad::ArrivalIntervalMs(gap_ms) => 1000.0 / gap_ms * speedup,
        }
    }
}

fn warnings(trace: &TraceFile, drawn: Option<&Drawn>) -> Vec<String> {
    let mut warnings = Vec::new();
    if trace.has_turns && trace.concurrency.is_some() {
        warnings.push(
            "turns of a session are sent as requests of their own as places become free, without think time and without \
             waiting for the turn before: AIPerf would repeat earlier turns in the prompt"
                .to_owned(),
        );
    } else if trace.has_turns {
        warnings.push(
            "later turns are sent at the times at which the simulation sent them, not after the turn before has \
             completed: AIPerf would repeat earlier turns in the prompt"
                .to_owned(),
        );
    }
    if trace.left_out > 0 {
        warnings.push(format!(
            "{} requests that were rejected in the simulation are left out",
            trace.left_out
        ));
    }
    if drawn.is_some_and(|drawn| drawn.prefix_tokens > 0) {
        warnings.push(
            "with `drawn`, AIPerf draws which prompt has which prefix, so cache hits differ from those simulated"
                .to_owned(),
        );
    }
    warnings
}

/// The same load by the client of vLLM, as comments.
fn vllm_bench(spec: &RunSpec, trace: &TraceFile, drawn: Option<&Drawn>) -> String {
    let common = "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --ignore-eos";
    let options = match (drawn, trace.concurrency) {
        (Some(drawn), _) => vllm_drawn(drawn),
        (None, None) => vec![
            "--dataset-name timed_trace --dataset-path trace.jsonl".to_owned(),
            format!(
                "--timed-trace-chunk-hash-size {} --num-prompts {}",
                trace.block_tokens, trace.rows
            ),
        ],
        (None, Some(_)) => {
            return "# `vllm bench serve` has no closed loop over a file, so there is no equivalent of it.\n"
                .to_owned();
        }
    };
    let mut text = "# The same by the client of vLLM, whose texts differ:\n".to_owned();
    let command = format!(
        "vllm bench serve --backend openai-chat --endpoint /v1/chat/completions --base-url http://localhost:8000 --model {}",
        shell::word(&spec.engine.model)
    );
    let command = shell::lines(&command, options.into_iter().chain([common.to_owned()]), "");
    for line in command.lines() {
        let _ = writeln!(text, "#   {line}");
    }
    text
}

fn vllm_drawn(drawn: &Drawn) -> Vec<String> {
    let SyntheticWorkload { osl, load, .. } = *drawn.spec;
    let requests = drawn.requests;
    let lengths = if drawn.prefix_tokens > 0 {
        format!(
            "--dataset-name prefix_repetition --prefix-repetition-prefix-len {} --prefix-repetition-suffix-len {} \
             --prefix-repetition-num-prefixes {} --prefix-repetition-output-len {osl}",
            drawn.prefix_tokens,
            drawn.own_tokens(),
            drawn.spec.num_prefix_groups
        )
    } else {
        format!(
            "--dataset-name random --random-input-len {} --random-output-len {osl}",
            drawn.own_tokens()
        )
    };
    let arrivals = match load {
        SyntheticLoad::Concurrency(concurrency) => format!("--max-concurrency {concurrency}"),
        SyntheticLoad::RequestRate(_) => format!("--request-rate {} --burstiness 1", drawn.rate()),
        // Gaps of a gamma distribution with such a shape are equal for all that matters.
        SyntheticLoad::ArrivalIntervalMs(_) => format!("--request-rate {} --burstiness 1000000", drawn.rate()),
    };
    vec![lengths, format!("{arrivals} --num-prompts {requests}")]
}
