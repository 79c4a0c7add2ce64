//! Hand-checked examples of the `vllm-v1` rules, in `rules-v1.md`.

use std::fs;

use dynosim::spec::Rules;

use super::support::{golden_dir, goldens, request_times};

#[test]
fn vllm_v1_examples_agree_to_the_last_digit() {
    let text = fs::read_to_string(golden_dir().join("rules-v1.md")).expect("the examples");
    let goldens = goldens(&golden_dir().join("engine"));
    let mut checked = 0;
    let mut differences = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let (name, lines) = section.split_once('\n').expect("a heading");
        let golden = goldens
            .iter()
            .find(|golden| golden.name == name)
            .expect("an engine example");
        let mut spec = golden.run_spec(None);
        spec.engine.rules = Rules::VllmV1;
        let ours: Vec<String> = request_times(&golden.simulate(&spec))
            .iter()
            .zip(0..)
            .map(|(request, index)| {
                let tokens: Vec<String> = request.token_times_ms.iter().map(|ms| format!("{ms:.6}")).collect();
                format!(
                    "- r{index} arrives {:.6}, admitted {:.6}, reuses {}: {}",
                    request.arrival_ms,
                    request.first_admit_ms,
                    request.reused_tokens,
                    tokens.join(", ")
                )
            })
            .collect();
        let expected: Vec<&str> = lines.lines().filter(|line| line.starts_with("- ")).collect();
        checked += expected.len();
        if ours != expected {
            differences.push(format!(
                "{name}:\n{}\nexpected\n{}",
                ours.join("\n"),
                expected.join("\n")
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(checked >= 24, "only {checked} requests compared");
}
