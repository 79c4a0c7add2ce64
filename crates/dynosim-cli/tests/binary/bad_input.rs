//! Whatever is wrong is said in a message, with exit code 2 for input and 1 for failure.

use serde_json::{Value, json};

use crate::command::{Folder, dynosim, dynosim_with_input};
use crate::run::small_run;
use crate::sweep::small_sweep;

const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n";

/// A spec with one value put in another's place, by JSON pointer.
fn with(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    spec.pointer_mut(parent).expect("it is there")[key] = value;
    spec
}

#[track_caller]
fn run_exits(spec: &Value, code: i32, message: &str) {
    dynosim_with_input(&["run", "-"], &spec.to_string()).exits(code, message);
}

#[track_caller]
fn sweep_exits(spec: &Value, code: i32, message: &str) {
    dynosim_with_input(&["sweep", "-"], &spec.to_string()).exits(code, message);
}

#[test]
fn arguments() {
    for args in [
        &["frobnicate"][..],
        &["run"],
        &["run", "a", "b"],
        &["run", "a", "--no-such-flag"],
        &["sweep", "a", "--mode", "both"],
        &["sweep", "a", "--max-parallel-evals", "0"],
        &["timing", "prefil", "a"],
        &["timing", "prefill", "a", "--backend", "trtllm"],
    ] {
        dynosim(args).exits(2, "--help");
    }
    dynosim(&["timing", "prefill", "-", "--system", "h200-sxm"]).exits(2, "did you mean `h200_sxm`?");
}

#[test]
fn files_that_are_not_there() {
    for command in [
        &["run", "no-such.json"][..],
        &["sweep", "no-such.json"],
        &["timing", "decode", "no-such.csv"],
    ] {
        dynosim(command).exits(2, "cannot read no-such");
    }
    let folder = Folder::new();
    dynosim(&["run", &folder.path("")]).exits(2, "cannot read");
}

#[test]
fn specs_that_are_not_specs() {
    for command in ["run", "sweep"] {
        dynosim_with_input(&[command, "-"], "").exits(2, "standard input: not valid JSON");
        dynosim_with_input(&[command, "-"], "{\"engine\": {]").exits(2, "not valid JSON at line 1");
        dynosim_with_input(&[command, "-"], "[1, 2]").exits(2, "error: ");
        dynosim_with_input(&[command, "-"], "null").exits(2, "error: ");
        dynosim_with_input(&[command, "-"], "{}").exits(2, "engine");
    }
    let folder = Folder::new();
    let spec = folder.write("broken.json", "{");
    dynosim(&["run", &spec]).exits(2, "broken.json: not valid JSON");
}

#[test]
fn values_that_make_no_sense() {
    let run = small_run;
    run_exits(
        &with(run(), "/engine/bakend", "vllm".into()),
        2,
        "did you mean `backend`?",
    );
    run_exits(&with(run(), "/engine/backend", "trtllm".into()), 2, "engine.backend");
    run_exits(&with(run(), "/topology/workers", 0.into()), 2, "topology.workers");
    run_exits(&with(run(), "/topology/tp", json!(-1)), 2, "topology.tp");
    run_exits(&with(run(), "/workload/isl", json!(1e30)), 2, "workload.isl");
    run_exits(&with(run(), "/workload/requestCount", 0.into()), 2, "requestCount");
    run_exits(
        &with(run(), "/workload/sharedPrefixRatio", json!(0.5)),
        2,
        "numPrefixGroups",
    );
    run_exits(&with(run(), "/workload/requestRate", json!(1)), 2, "requestRate");
    run_exits(
        &with(run(), "/hardware/system", "h2o".into()),
        2,
        "unknown GPU system `h2o`",
    );
    run_exits(&with(run(), "/sla", json!({ "ttft": 1 })), 2, "it belongs to a sweep");
    let sweep = small_sweep;
    sweep_exits(
        &with(sweep(), "/hardware", json!({ "system": "h200_sxm" })),
        2,
        "totalGpus",
    );
    sweep_exits(&with(sweep(), "/objective", "speed".into()), 2, "objective");
    sweep_exits(
        &with(sweep(), "/router/overlapCredits", json!([2])),
        2,
        "overlapCredits",
    );
    sweep_exits(&with(sweep(), "/maxParallelEvals", 0.into()), 2, "maxParallelEvals");
}

#[test]
fn models_that_nothing_is_known_about() {
    let unpinned = |spec| with(spec, "/engine/baseEngineArgs", json!({}));
    let misspelt = |spec| with(unpinned(spec), "/engine/model", "Qwen/Qwen-32B".into());
    run_exits(&misspelt(small_run()), 2, "did you mean `Qwen/Qwen3-32B`?");
    sweep_exits(&misspelt(small_sweep()), 2, "did you mean `Qwen/Qwen3-32B`?");
    let table = |spec| with(spec, "/timing/provider", "table".into());
    run_exits(&table(small_run()), 2, "some-model");
    sweep_exits(&table(small_sweep()), 2, "some-model");
}

#[test]
fn budgets_that_are_too_small() {
    sweep_exits(
        &with(small_sweep(), "/hardware/totalGpus", 1.into()),
        2,
        "a budget of 1 GPU is too small",
    );
    let large = with(small_sweep(), "/engine/model", "meta-llama/Meta-Llama-3.1-405B".into());
    sweep_exits(&large, 2, "error: ");
}

#[test]
fn traces() {
    let folder = Folder::new();
    let traced = |spec, file: &str| with(spec, "/workload", json!({ "traceFile": file }));
    for (file, message) in [
        ("inline".to_owned(), "write the requests to a file"),
        ("no-such.jsonl".to_owned(), "no-such.jsonl cannot be opened"),
        (folder.path(""), "is a directory"),
        (folder.write("empty.jsonl", ""), "holds no requests"),
        (folder.write("lfs.jsonl", LFS_POINTER), "Git LFS pointer"),
        (folder.write("text.jsonl", "{\"timestamp\": 0}\n"), "line 1"),
    ] {
        run_exits(&traced(small_run(), &file), 2, message);
        sweep_exits(&traced(small_sweep(), &file), 2, message);
    }
    let here = std::env::current_dir().expect("there is one");
    let place = format!("starts at the working directory, which is {}", here.display());
    run_exits(&traced(small_run(), "no-such.jsonl"), 2, &place);
    sweep_exits(&traced(small_sweep(), "no-such.jsonl"), 2, &place);
}

#[test]
fn tables_that_are_not_tables() {
    let folder = Folder::new();
    let priced = |spec| {
        let spec = with(spec, "/engine/model", "Qwen/Qwen3-8B".into());
        with(spec, "/timing/provider", "table".into()).to_string()
    };
    let (run, sweep) = (priced(small_run()), priced(small_sweep()));
    let points = folder.write("points.csv", "model,tp,batch,isl,prefix\nQwen/Qwen3-8B,1,1,512,0\n");
    for (name, content, message) in [
        ("lfs", LFS_POINTER, "Git LFS pointer"),
        ("cut", "{\"schema\": 1, ", "is damaged or not a table"),
        ("other", "{}", "table "),
    ] {
        for table in ["gemm", "context_attention", "generation_attention", "custom_allreduce"] {
            for version in ["0.14.0", "0.19.0"] {
                folder.write(&format!("{name}/h200_sxm/vllm_{version}/{table}.json"), content);
            }
        }
        let perfdata = folder.path(name);
        dynosim_with_input(&["run", "-", "--perfdata", &perfdata], &run).exits(2, message);
        dynosim_with_input(&["sweep", "-", "--perfdata", &perfdata], &sweep).exits(2, message);
        dynosim(&["timing", "prefill", &points, "--perfdata", &perfdata]).exits(2, message);
    }
    let nowhere = folder.path("nowhere");
    dynosim_with_input(&["run", "-", "--perfdata", &nowhere], &run).exits(2, "cannot read");
    dynosim(&["timing", "prefill", &points, "--perfdata", &nowhere]).exits(2, "cannot read");
    dynosim(&["timing", "prefill", &points, "--engine-version", "9.9"]).exits(2, "versions with tables: 0.14.0");
}

#[test]
fn simulations_that_fail() {
    let tiny = with(small_run(), "/engine/baseEngineArgs", json!({ "num_gpu_blocks": 2 }));
    run_exits(&tiny, 1, "every request is rejected");
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let below_a_file = format!("{file}/out");
    let run = small_run().to_string();
    dynosim_with_input(&["run", "-", "--report", &below_a_file], &run).exits(1, "file");
    let (nowhere, report) = (folder.path("no/folder"), folder.path("no/folder/report.json"));
    let no_folder = format!("there is no folder {nowhere}");
    dynosim_with_input(&["run", "-", "--report", &report], &run).exits(1, &no_folder);
    dynosim_with_input(&["run", "-", "--requests", &report], &run).exits(1, &no_folder);
    assert!(!folder.has("no"), "nothing is made");
    dynosim_with_input(&["run", "-", "--report", "-", "--requests", "-"], &run).exits(2, "cannot both go");
    dynosim_with_input(&["run", "-", "--report", "same", "--requests", "same"], &run)
        .exits(2, "cannot both go to same");
    dynosim_with_input(&["run", "-", "--requests", &folder.path("")], &run).exits(1, "cannot write");
    dynosim_with_input(&["sweep", "-", "--out", &file], &small_sweep().to_string()).exits(1, "cannot make the folder");
    let points = "model,tp,batch,isl,prefix\n";
    dynosim_with_input(&["timing", "prefill", "-", "--out", &below_a_file], points).exits(1, "file");
}
