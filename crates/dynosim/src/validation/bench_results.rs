//! Measured points of benchmark clients' result files: `AIPerf`'s summary and `vllm bench serve`.

use dynosim_spec::LoadPoint;
use serde_json::Value;

use super::latencies::PerLatency;
use super::measured::MeasuredPoint;
use super::measured_error::MeasuredError;

/// What to do about a result file that lacks something.
const CURE: &str = "measure again, or write the figures into a CSV file with the columns tp, isl, osl, concurrency, \
                    ttft_mean_ms and tpot_mean_ms";

/// Reads the point of a result file, and notes on it. `ratio` is the shortest length as a share of the longest.
pub(super) fn read(
    file: &str,
    text: &str,
    ratio: f64,
    tp: Option<u32>,
) -> Result<(MeasuredPoint, Vec<String>), MeasuredError> {
    let root: Value = serde_json::from_str(text).map_err(|error| MeasuredError::Line {
        file: file.to_owned(),
        line: error.line() as u64,
        problem: format!("not valid JSON: {error}"),
    })?;
    let result = ResultFile { file, root: &root };
    let figures = if result.at("/mean_ttft_ms").is_some() {
        result.vllm_bench()?
    } else if result.at("/time_to_first_token").is_some() {
        result.aiperf()?
    } else {
        return Err(result.whole(
            "is neither a summary of AIPerf (key time_to_first_token) nor a result of vllm bench serve (key \
             mean_ttft_ms)",
        ));
    };
    let Some(tp) = tp else {
        return Err(
            result.whole("does not say on how many GPUs it was measured; give --tp, or topology.tp in the setup")
        );
    };
    let tokens = |key, mean_tokens: f64| {
        count(2.0 * mean_tokens / (1.0 + ratio)).ok_or_else(|| result.at_key(key, "is no length of at least 1 token"))
    };
    let load = LoadPoint {
        tp,
        isl: tokens("mean prompt length", figures.input_tokens)?,
        osl: tokens("mean output length", figures.output_tokens)?,
        concurrency: figures.concurrency,
        requests: figures.requests,
    };
    let point = MeasuredPoint {
        file: file.to_owned(),
        line: 1,
        load,
        mean_ms: figures.mean_ms,
        output_tok_s_per_gpu: None,
        kv_limited: false,
    };
    let failed = figures.failed;
    let note = format!("{file}: {failed} requests failed, and are no part of its means");
    Ok((point, (failed > 0).then_some(note).into_iter().collect()))
}

/// What a result file says, whoever wrote it.
struct Figures {
    concurrency: u32,
    /// Requests that were served.
    requests: u32,
    failed: u32,
    /// Mean over requests.
    input_tokens: f64,
    /// Mean over requests.
    output_tokens: f64,
    mean_ms: PerLatency<Option<f64>>,
}

/// A result file.
#[derive(Debug, Clone, Copy)]
struct ResultFile<'a> {
    file: &'a str,
    root: &'a Value,
}

impl ResultFile<'_> {
    fn vllm_bench(self) -> Result<Figures, MeasuredError> {
        if let Some(rate) = self.at("/request_rate").filter(|rate| rate.as_str() != Some("inf")) {
            let problem = format!("is {rate}; only closed loops can be compared, so leave --request-rate out");
            return Err(self.at_key("request_rate", &problem));
        }
        let requests = self.count("/completed")?;
        Ok(Figures {
            concurrency: self.count("/max_concurrency")?,
            requests,
            failed: self.at("/failed").and_then(number).and_then(count).unwrap_or(0),
            input_tokens: self.positive("/total_input_tokens")? / f64::from(requests),
            output_tokens: self.positive("/total_output_tokens")? / f64::from(requests),
            mean_ms: PerLatency {
                ttft: self.latency("/mean_ttft_ms")?,
                tpot: self.latency("/mean_tpot_ms")?,
            },
        })
    }

    fn aiperf(self) -> Result<Figures, MeasuredError> {
        if self.at("/was_cancelled") == Some(&Value::Bool(true)) {
            return Err(self.at_key(
                "was_cancelled",
                &format!("is true, so the figures are incomplete; {CURE}"),
            ));
        }
        if self.at("/is_complete") == Some(&Value::Bool(false)) {
            return Err(self.at_key("is_complete", &format!("is false; {CURE}")));
        }
        for key in ["/time_to_first_token/unit", "/inter_token_latency/unit"] {
            if let Some(unit) = self.at(key).filter(|unit| unit.as_str() != Some("ms")) {
                return Err(self.at_key(&dotted(key), &format!("is {unit}; it must be \"ms\"")));
            }
        }
        Ok(Figures {
            concurrency: self.aiperf_concurrency()?,
            requests: self.count("/request_count/avg")?,
            failed: self
                .at("/error_request_count/avg")
                .and_then(number)
                .and_then(count)
                .unwrap_or(0),
            input_tokens: self.positive("/input_sequence_length/avg")?,
            output_tokens: self.positive("/output_sequence_length/avg")?,
            mean_ms: PerLatency {
                ttft: self.latency("/time_to_first_token/avg")?,
                tpot: self.latency("/inter_token_latency/avg")?,
            },
        })
    }

    /// The requests in flight: the only `concurrency` of the configuration beside warm-up, else what the command
    /// line says.
    fn aiperf_concurrency(self) -> Result<u32, MeasuredError> {
        let mut found = Vec::new();
        if let Some(config) = self.at("/input_config") {
            collect_concurrencies(config, &mut found);
        }
        found.dedup();
        if let [concurrency] = found[..] {
            return Ok(concurrency);
        }
        let command = self.at("/run_info/cli_command").and_then(Value::as_str).unwrap_or("");
        let given = command.split_whitespace().skip_while(|word| *word != "--concurrency");
        given
            .into_iter()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .filter(|&concurrency| concurrency > 0)
            .ok_or_else(|| self.at_key("input_config", &format!("names no single concurrency; {CURE}")))
    }

    fn latency(self, pointer: &str) -> Result<Option<f64>, MeasuredError> {
        self.at(pointer).map(|_| self.positive(pointer)).transpose()
    }

    fn positive(self, pointer: &str) -> Result<f64, MeasuredError> {
        let found = self.at(pointer);
        let value = found.and_then(number).filter(|number| *number > 0.0);
        value.ok_or_else(|| self.no("a number above 0", pointer))
    }

    fn count(self, pointer: &str) -> Result<u32, MeasuredError> {
        let found = self.at(pointer);
        let value = found.and_then(number).and_then(count);
        value.ok_or_else(|| self.no("a whole number of at least 1", pointer))
    }

    fn no(self, wanted: &str, pointer: &str) -> MeasuredError {
        let found = self
            .at(pointer)
            .map_or("is missing".to_owned(), |value| format!("is {value}"));
        self.at_key(&dotted(pointer), &format!("{found}; it must be {wanted}; {CURE}"))
    }

    fn at_key(self, key: &str, problem: &str) -> MeasuredError {
        MeasuredError::Key {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem: problem.to_owned(),
        }
    }

    fn whole(self, problem: &str) -> MeasuredError {
        MeasuredError::File {
            file: self.file.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

impl<'a> ResultFile<'a> {
    /// What stands at a JSON pointer, unless that is `null`.
    fn at(self, pointer: &str) -> Option<&'a Value> {
        self.root.pointer(pointer).filter(|value| !value.is_null())
    }
}

/// Every `concurrency` in a configuration, but for those of a warm-up.
fn collect_concurrencies(config: &Value, found: &mut Vec<u32>) {
    let inner: Vec<&Value> = match config {
        Value::Object(object) => {
            found.extend(object.get("concurrency").and_then(number).and_then(count));
            let entries = object.iter().filter(|(key, _)| !key.to_lowercase().contains("warmup"));
            entries.map(|(_, value)| value).collect()
        }
        Value::Array(items) => items
            .iter()
            .filter(|item| item.get("name").and_then(Value::as_str) != Some("warmup"))
            .collect(),
        _ => return,
    };
    for value in inner {
        collect_concurrencies(value, found);
    }
}

/// A number, also if it is spelt as text.
fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    number.is_finite().then_some(number)
}

/// The number of things that is nearest, if it is at least 1.
fn count(number: f64) -> Option<u32> {
    let whole = number.round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and in range"
    )]
    (1.0..=f64::from(u32::MAX)).contains(&whole).then_some(whole as u32)
}

/// A JSON pointer as a path of keys.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vllm() -> Value {
        json!({
            "backend": "vllm", "num_prompts": 80, "request_rate": "inf", "max_concurrency": 8, "completed": 80,
            "failed": 0, "total_input_tokens": 72000, "total_output_tokens": 8000,
            "mean_ttft_ms": 120.5, "mean_tpot_ms": 11.25
        })
    }

    fn aiperf() -> Value {
        json!({
            "schema_version": "1.4", "is_complete": true, "was_cancelled": false,
            "input_config": { "phases": [{ "name": "warmup", "concurrency": 2 }, { "name": "profiling", "concurrency": 8 }] },
            "request_count": { "unit": "requests", "avg": 80.0 },
            "time_to_first_token": { "unit": "ms", "avg": 120.5, "p50": 100.0 },
            "inter_token_latency": { "unit": "ms", "avg": 11.25 },
            "input_sequence_length": { "unit": "tokens", "avg": 900.0 },
            "output_sequence_length": { "unit": "tokens", "avg": 100.0 }
        })
    }

    fn with(mut file: Value, pointer: &str, value: Value) -> Value {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        file.pointer_mut(parent).expect("it is there")[key] = value;
        file
    }

    fn read_value(value: &Value, ratio: f64) -> Result<(MeasuredPoint, Vec<String>), MeasuredError> {
        read("r.json", &value.to_string(), ratio, Some(4))
    }

    #[test]
    fn both_clients_give_the_same_point() {
        for file in [vllm(), aiperf()] {
            let (point, notes) = read_value(&file, 0.8).expect("it is complete");
            let load = LoadPoint {
                requests: 80,
                ..LoadPoint::new(4, 1000, 111, 8)
            };
            assert_eq!(point.load, load);
            assert_eq!((point.mean_ms.ttft, point.mean_ms.tpot), (Some(120.5), Some(11.25)));
            assert!(notes.is_empty());
            let (point, _) = read_value(&file, 1.0).expect("it is complete");
            assert_eq!((point.load.isl, point.load.osl), (900, 100));
        }
    }

    #[test]
    fn the_command_line_tells_the_concurrency_too() {
        let mut file = with(aiperf(), "/input_config", json!({}));
        file["run_info"] = json!({ "cli_command": "aiperf profile --model m --concurrency 16 --streaming" });
        let (point, _) = read_value(&file, 1.0).expect("it is complete");
        assert_eq!(point.load.concurrency, 16);
    }

    #[test]
    fn failed_requests_are_noted() {
        let (_, notes) = read_value(&with(vllm(), "/failed", json!(3)), 1.0).expect("it is usable");
        assert_eq!(notes, ["r.json: 3 requests failed, and are no part of its means"]);
    }

    #[track_caller]
    fn check(file: &Value, expected: &str) {
        let error = read_value(file, 1.0).expect_err("there is a mistake");
        let message = error.to_string();
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        check(&json!({}), "r.json: is neither a summary of AIPerf");
        check(
            &with(vllm(), "/request_rate", json!(4.0)),
            "r.json: request_rate: is 4.0; only closed loops",
        );
        check(
            &with(vllm(), "/max_concurrency", json!(null)),
            "r.json: max_concurrency: is missing; it must be a whole number of at least 1; measure again",
        );
        check(
            &with(vllm(), "/completed", json!(0)),
            "r.json: completed: is 0; it must be",
        );
        check(
            &with(vllm(), "/mean_ttft_ms", json!(-1)),
            "r.json: mean_ttft_ms: is -1; it must be a number",
        );
        check(
            &with(aiperf(), "/was_cancelled", json!(true)),
            "r.json: was_cancelled: is true",
        );
        check(
            &with(aiperf(), "/is_complete", json!(false)),
            "r.json: is_complete: is false",
        );
        check(
            &with(aiperf(), "/time_to_first_token/unit", json!("s")),
            "r.json: time_to_first_token.unit: is \"s\"; it must be \"ms\"",
        );
        check(
            &with(
                aiperf(),
                "/input_config",
                json!({ "a": { "concurrency": 1 }, "b": { "concurrency": 2 } }),
            ),
            "r.json: input_config: names no single concurrency",
        );
        let error = read("r.json", "{\n nope", 1.0, None).expect_err("it is not JSON");
        assert!(error.to_string().starts_with("r.json, line 2: not valid JSON"));
        let error = read("r.json", &vllm().to_string(), 1.0, None).expect_err("tp is missing");
        assert!(error.to_string().contains("give --tp, or topology.tp in the setup"));
    }
}
