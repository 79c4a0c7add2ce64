//! `dynosim diff`.

use serde_json::{Value, json};

use crate::command::{Folder, dynosim, dynosim_with_input};
use crate::sweep::small_sweep;

/// Makes a result and gives its folder.
fn result(folder: &Folder, name: &str, mode: &str, spec: &Value) -> String {
    let out = folder.path(name);
    dynosim_with_input(&["sweep", "-", "--mode", mode, "--out", &out], &spec.to_string()).succeeds();
    out
}

/// Compares two results that differ, as text; differences are no error message.
#[track_caller]
fn differ(args: &[&str]) -> String {
    let mut all = vec!["diff"];
    all.extend(args);
    dynosim(&all).ends_quietly(1).stdout
}

#[test]
fn equal_results_do_not_differ() {
    let folder = Folder::new();
    let one = result(&folder, "one", "disagg", &small_sweep());
    let two = result(&folder, "two", "disagg", &small_sweep());
    let ran = dynosim(&["diff", &one, &two]).ends_quietly(0);
    assert_eq!(ran.stdout, "Nothing differs\n");
    let ran = dynosim(&["diff", &format!("{one}/result.json"), &two, "--json"]).ends_quietly(0);
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["question"], json!([]));
}

#[test]
fn what_differs_is_told_in_few_lines() {
    let folder = Folder::new();
    let mut spec = small_sweep();
    let old = result(&folder, "old", "compare", &spec);
    spec["workload"]["osl"] = 14.into();
    spec["hardware"]["totalGpus"] = 5.into();
    spec["sla"] = json!({ "ttft": 60 });
    let new = result(&folder, "new", "compare", &spec);
    let text = differ(&[&old, &new]);
    for line in [
        "spec.workload.osl: 12 -> 14\n",
        "spec.hardware.totalGpus: 6 -> 5\n",
        "spec.sla.ttft: (none) -> 60",
        "Best (chosen): ",
        "  output_throughput_tok_s: ",
        "Counts: agg.space: 38 -> 28, ",
        " only in the first, ",
        "  now infeasible: ",
        "  score of tp=",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    assert!(text.lines().count() <= 40, "{text}");
    let json: Value = serde_json::from_str(&differ(&[&old, &new, "--json"])).expect("JSON");
    let figures = json["best"][0]["figures"].as_array().expect("a list");
    let figure = &figures[0];
    let number = |key: &str| figure[key].as_f64().expect("a number");
    assert!(
        (number("difference") - (number("new") - number("old"))).abs() < 1e-9,
        "{figure}"
    );
    assert!(
        json["candidates"][0]["scores"]
            .as_array()
            .is_some_and(|scores| scores.len() == 10)
    );
}

#[test]
fn results_of_other_versions_can_be_compared() {
    let folder = Folder::new();
    let old = result(&folder, "old", "agg", &small_sweep());
    let mut document = folder.json("old/result.json");
    let keys = document.as_object_mut().expect("an object");
    keys.shift_remove("certificate");
    keys.insert("verdict".to_owned(), json!({ "text": "new here" }));
    keys.insert(
        "inputs".to_owned(),
        json!([{ "what": "dynosim", "value": "0.2.0", "sha256": "a" }]),
    );
    keys.insert("versions".to_owned(), json!({ "dynosim": "0.2.0" }));
    let new = folder.write("new/result.json", &document.to_string());
    let text = differ(&[&old, &new]);
    for line in [
        "Input ",
        "versions: (none) -> {\"dynosim\":\"0.2.0\"}\n",
        "Counts: certificate: {",
        "Also: verdict\n",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    assert!(!text.contains("Best"), "{text}");
}

#[test]
fn what_is_no_result_is_trouble() {
    let folder = Folder::new();
    let one = result(&folder, "one", "agg", &small_sweep());
    dynosim(&["diff", &one, &folder.path("nothing")]).exits(2, "nothing: cannot be read");
    let other = folder.write("other.json", "{\"name\": 1}");
    dynosim(&["diff", &one, &other]).exits(2, "is no result of a sweep");
    let broken = folder.write("broken.json", "{");
    dynosim(&["diff", &broken, &one]).exits(2, "broken.json: is no JSON");
}
