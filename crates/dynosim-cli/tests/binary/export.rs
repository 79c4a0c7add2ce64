//! `dynosim export`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::command::{Folder, dynosim, dynosim_with_input, golden};
use crate::run::small_run;

const FILES: [&str; 5] = ["dgd.yaml", "serve.sh", "bench.sh", "trace.jsonl", "expected.json"];

fn bash(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let variables = variables.iter().copied();
    Command::new("bash")
        .args(args)
        .envs(variables)
        .output()
        .expect("bash is there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exports a spec, and checks the syntax of its scripts.
#[track_caller]
fn export(folder: &Folder, spec: &Value, args: &[&str]) -> String {
    let out = folder.path("out");
    let args = [&["export", "-", "--out", &out], args].concat();
    let ran = dynosim_with_input(&args, &spec.to_string()).succeeds();
    for name in FILES {
        assert!(folder.has(&format!("out/{name}")), "{name}");
    }
    for script in ["out/serve.sh", "out/bench.sh"] {
        let checked = bash(&["-n", &folder.path(script)], &[]);
        assert!(checked.status.success(), "{script}: {}", text(&checked.stderr));
    }
    ran.stderr
}

fn disaggregated(backend: &str) -> Value {
    let mut spec = small_run();
    spec["engine"]["backend"] = backend.into();
    spec["topology"] = json!({ "prefillWorkers": 2, "prefillTp": 4, "decodeWorkers": 3, "decodeTp": 2 });
    spec["router"] = json!({ "mode": "kv_router" });
    spec
}

#[test]
fn runs_are_handed_off() {
    let mut on_sglang = small_run();
    on_sglang["engine"]["backend"] = "sglang".into();
    for spec in [small_run(), on_sglang, disaggregated("vllm"), disaggregated("sglang")] {
        let folder = Folder::new();
        let stderr = export(&folder, &spec, &[]);
        assert!(stderr.contains("warning: a chat template adds tokens"), "{stderr}");
        assert!(folder.read("out/dgd.yaml").contains("nvidia.com/v1beta1"));
        assert_eq!(folder.read("out/trace.jsonl").lines().count(), 20);
        assert_eq!(folder.json("out/expected.json")["request_count"]["avg"], 20.0);
    }
}

#[cfg(unix)]
#[test]
fn scripts_are_executable() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    export(&folder, &small_run(), &[]);
    for (name, executable) in [("serve.sh", true), ("bench.sh", true), ("dgd.yaml", false)] {
        let mode = fs::metadata(folder.path(&format!("out/{name}")))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o100 != 0, executable, "{name}");
    }
}

#[test]
fn equal_runs_give_equal_files() {
    let (one, other) = (Folder::new(), Folder::new());
    export(&one, &disaggregated("vllm"), &[]);
    export(&other, &disaggregated("vllm"), &[]);
    for name in FILES {
        let name = format!("out/{name}");
        assert_eq!(one.read(&name), other.read(&name));
    }
}

#[test]
fn candidates_of_a_sweep_are_handed_off() {
    let folder = Folder::new();
    let candidate = |rank: u32, workers: u32| {
        let mut run = small_run();
        run["topology"]["workers"] = workers.into();
        json!({ "rank": rank, "state": format!("tp=1 workers={workers}"), "run": run })
    };
    let result = json!({ "mode": "agg", "candidates": [candidate(1, 3), candidate(2, 1)] }).to_string();
    let file = folder.write("results/result.json", &result);
    let out = folder.path("out");
    let workers = || folder.read("out/serve.sh").matches("vllm serve").count();
    for (candidate, args, expected) in [(&file, &[][..], 3), (&folder.path("results"), &["--candidate", "2"], 1)] {
        let args = [&["export", candidate, "--out", &out], args].concat();
        let ran = dynosim(&args).succeeds();
        assert!(
            ran.stdout.contains(&format!("of tp=1 workers={expected} written to")),
            "{}",
            ran.stdout
        );
        assert_eq!(workers(), expected);
    }
    dynosim(&["export", &file, "--candidate", "3", "--out", &out])
        .exits(2, "there is no candidate 3; there are 1 to 2");
}

#[test]
fn bad_input_is_explained() {
    let folder = Folder::new();
    let out = folder.path("out");
    let refused = |args: &[&str], message: &str| {
        let args = [&["export", "-", "--out", &out], args].concat();
        dynosim_with_input(&args, &small_run().to_string()).exits(2, message);
        assert!(!folder.has("out"), "nothing is made before arguments are checked");
    };
    refused(
        &["--dynamo-version", "1.7.0"],
        "--dynamo-version: must be 0.5.0 to 1.6.x",
    );
    refused(
        &["--dynamo-version", "1.1.1", "--api-version", "v1beta1"],
        "choose v1alpha1",
    );
    refused(&["--name", "Qwen"], "--name: must be lower-case");
    refused(&["--namespace", "a_b"], "--namespace: must be");
    let piped = |text: &str, message: &str| {
        dynosim_with_input(&["export", "-", "--out", &out], text).exits(2, message);
    };
    piped("{", "standard input: is not JSON");
    piped(r#"{"chosen_mode": "agg"}"#, "which is in the folder `agg`");
    piped(r#"{"mode": "agg", "spec": {}}"#, "make the sweep again");
    dynosim(&["export", &folder.path("none"), "--out", &out]).exits(2, "cannot read");
}

/// A program that writes down its arguments, one on each line.
fn note_taker(folder: &Folder) -> String {
    let program = folder.write("aiperf", "#!/usr/bin/env bash\nprintf '%s\\n' \"$@\"\n");
    let made = bash(&["-c", &format!("chmod +x {program}")], &[]);
    assert!(made.status.success());
    program
}

#[test]
fn scripts_take_names_for_what_they_are() {
    let folder = Folder::new();
    let name = "it's $HOME/\"a }model\" `date`";
    let mut spec = small_run();
    spec["engine"]["model"] = name.into();
    export(&folder, &spec, &[]);
    let aiperf = note_taker(&folder);
    let variables = [("AIPERF", aiperf.as_str()), ("URLS", "http://a:1 http://b:2")];
    let ran = bash(&[&folder.path("out/bench.sh"), "replay"], &variables);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let args = text(&ran.stdout);
    let args: Vec<&str> = args.lines().collect();
    assert_eq!(args[..5], ["profile", "--model", name, "--tokenizer", name]);
    let urls: Vec<&str> = args
        .windows(2)
        .filter(|pair| pair[0] == "--url")
        .map(|pair| pair[1])
        .collect();
    assert_eq!(urls, ["http://a:1", "http://b:2"]);
    let ran = bash(&[&folder.path("out/bench.sh"), "other"], &variables);
    assert_eq!(ran.status.code(), Some(2), "an unknown form is refused");
}

/// The Python of an environment with AIPerf: `DYNOSIM_TEST_AIPERF` is its folder, or anything else to have one made.
fn python_with_aiperf(folder: &Folder) -> Option<PathBuf> {
    let wish = env::var("DYNOSIM_TEST_AIPERF").ok().filter(|wish| !wish.is_empty())?;
    let python = Path::new(&wish).join("bin/python");
    if python.exists() {
        return Some(python);
    }
    let home = folder.path("venv");
    let python = Path::new(&home).join("bin/python");
    let run = |program: &Path, args: &[&str]| {
        let ran = Command::new(program).args(args).output().expect("Python is there");
        assert!(ran.status.success(), "{}", text(&ran.stderr));
    };
    run(Path::new("python3"), &["-m", "venv", &home]);
    run(&python, &["-m", "pip", "install", "--quiet", "aiperf==0.13.0"]);
    Some(python)
}

/// AIPerf's own code accepts every form of every load, and makes prompts of the lengths that were simulated.
#[test]
fn aiperf_accepts_what_is_written() {
    let folder = Folder::new();
    let Some(python) = python_with_aiperf(&folder) else {
        return;
    };
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aiperf_check.py");
    let stand_in = format!(
        "#!/usr/bin/env bash\nexec {} {} \"$@\"\n",
        python.display(),
        check.display()
    );
    let stand_in = folder.write("aiperf", &stand_in);
    assert!(bash(&["-c", &format!("chmod +x {stand_in}")], &[]).status.success());
    let synthetic = |more: Value| {
        let mut workload = json!({ "isl": 500, "osl": 10, "requestCount": 30 });
        workload
            .as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        workload
    };
    let sample = golden("../../examples/data/sample_trace.jsonl");
    for (workload, has_drawn) in [
        (synthetic(json!({ "concurrency": 4 })), true),
        (synthetic(json!({ "requestRate": 5 })), true),
        (synthetic(json!({ "arrivalIntervalMs": 30 })), true),
        (synthetic(json!({ "arrivalIntervalMs": 0 })), false),
        (
            synthetic(json!({ "concurrency": 4, "sharedPrefixRatio": 0.5, "numPrefixGroups": 3 })),
            true,
        ),
        (
            synthetic(
                json!({ "requestRate": 5, "sharedPrefixRatio": 0.5, "numPrefixGroups": 3, "lengthRangeRatio": 0.2 }),
            ),
            false,
        ),
        (
            synthetic(json!({ "concurrency": 4, "turnsPerSession": 3, "interTurnDelayMs": 100 })),
            false,
        ),
        (json!({ "traceFile": sample, "arrivalSpeedupRatio": 3 }), false),
        (json!({ "traceFile": sample, "traceReplayConcurrency": 5 }), false),
    ] {
        let mut spec = small_run();
        spec["workload"] = workload.clone();
        export(&folder, &spec, &[]);
        let forms: &[&str] = if has_drawn { &["replay", "drawn"] } else { &["replay"] };
        for form in forms {
            let ran = bash(&[&folder.path("out/bench.sh"), form], &[("AIPERF", stand_in.as_str())]);
            assert!(
                ran.status.success(),
                "{form} of {workload}: {}{}",
                text(&ran.stdout),
                text(&ran.stderr)
            );
            let told = text(&ran.stdout);
            let told: Value = serde_json::from_str(told.lines().last().unwrap_or_default()).expect("JSON");
            let requests = folder.read("out/trace.jsonl").lines().count();
            assert_eq!(told["requests"], requests, "{form} of {workload}: {told}");
        }
    }
}
