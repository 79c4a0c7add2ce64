//! Sweeps that are interrupted, resumed, made in parts and put together.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::command::{Folder, dynosim};

/// A second of simulations or so.
fn long_sweep() -> Value {
    json!({
        "engine": { "model": "some-model", "backend": "vllm", "baseEngineArgs": { "num_gpu_blocks": 1000 } },
        "hardware": { "system": "h200_sxm", "totalGpus": 6 },
        "workload": {
            "isl": 600, "osl": 60, "requestCount": 3000, "concurrency": 24,
            "sharedPrefixRatio": 0.5, "numPrefixGroups": 3
        },
        "router": { "mode": "both", "overlapCredits": [0.5, 1.0], "prefillLoadScales": [0, 1] },
        "search": { "strategy": "exhaustive" },
        "timing": { "provider": "polynomial" },
        "maxParallelEvals": 2,
    })
}

fn short_sweep() -> Value {
    let mut spec = long_sweep();
    spec["workload"]["requestCount"] = 100.into();
    spec
}

/// Paths of all files in a folder, and what they hold.
fn files(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![Path::new(folder).to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("it can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("it can be read");
                let name = path.strip_prefix(folder).expect("it is in there");
                found.insert(name.display().to_string(), bytes);
            }
        }
    }
    found
}

fn begin(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
    let command = command.args(args).stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the binary was built")
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("there is a command `kill`").success(), "{name}");
}

/// Numbers that look random; `SplitMix64`.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Goes on until the sweep is finished, as a user would: with what is in the folder, if anything is.
#[track_caller]
fn finish(spec: &str, mode: &str, out: &str) {
    let journal = Path::new(out).join("journal.jsonl");
    let result = Path::new(out).join("result.json");
    if journal.exists() {
        let ran = dynosim(&["sweep", spec, "--mode", mode, "--resume", out]).succeeds();
        assert!(ran.stderr.contains("simulations are known from"), "{ran:?}");
    } else if !result.exists() {
        dynosim(&["sweep", spec, "--mode", mode, "--out", out]).succeeds();
    }
    assert!(!journal.exists(), "all is in the results");
}

#[cfg(unix)]
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "signals are spread over the time that a sweep takes on this host"
)]
fn sweeps_that_are_killed_and_resumed_end_with_the_same_bytes() {
    let folder = Folder::new();
    let spec = folder.write("spec.json", &long_sweep().to_string());
    let modes = ["compare", "disagg"];
    let expected = modes.map(|mode| {
        let out = folder.path(mode);
        let start = Instant::now();
        dynosim(&["sweep", &spec, "--mode", mode, "--out", &out]).succeeds();
        (files(&out), start.elapsed())
    });
    let mut state = 20;
    let (mut stopped, mut killed) = (0, 0);
    for round in 0..20 {
        let (mode, (expected, duration)) = (modes[round % 2], &expected[round % 2]);
        let out = folder.path(&format!("out{round}"));
        let mut child = begin(&["sweep", &spec, "--mode", mode, "--out", &out]);
        // A twentieth of the run further on each time, give or take.
        let twentieths = round as f64 + random(&mut state) as f64 / u64::MAX as f64;
        let after = duration.mul_f64(twentieths / 20.0);
        thread::sleep(after);
        if round % 4 < 2 {
            signal(&child, "-INT");
        } else {
            child.kill().expect("it is ours");
        }
        let ended = child.wait_with_output().expect("it ends");
        let told = String::from_utf8(ended.stderr).expect("text");
        let journal = Path::new(&out).join("journal.jsonl");
        match ended.status.code() {
            Some(130) => {
                stopped += 1;
                assert!(journal.exists(), "after {after:?}: {told}");
                assert!(told.contains("interrupted; go on with: dynosim sweep"), "{told}");
                check_partial_result(&out);
            }
            Some(code) => assert_eq!(code, 0, "after {after:?}: {told}"),
            None => killed += usize::from(journal.exists()),
        }
        finish(&spec, mode, &out);
        assert!(files(&out) == *expected, "other bytes after a signal at {after:?}");
    }
    assert!(stopped >= 3 && killed >= 3, "{stopped} stopped, {killed} killed");
}

/// What an interrupted sweep has written, if any simulation had ended, says that it is not finished.
#[track_caller]
fn check_partial_result(out: &str) {
    let Ok(text) = fs::read_to_string(Path::new(out).join("result.json")) else {
        return;
    };
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["finished"], false, "{text}");
}

#[test]
fn a_reader_that_goes_away_leaves_a_finished_sweep() {
    let folder = Folder::new();
    let spec = folder.write("spec.json", &short_sweep().to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
    let command = command
        .args(["sweep", &spec, "--out", &folder.path("out")])
        .stdin(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
    assert!(folder.has("out/result.json") && !folder.has("out/journal.jsonl"));
}

#[test]
fn shards_put_together_give_the_same_bytes() {
    let folder = Folder::new();
    let spec = folder.write("spec.json", &short_sweep().to_string());
    let (whole, merged) = (folder.path("whole"), folder.path("merged"));
    let plain = dynosim(&["sweep", &spec, "--mode", "compare", "--out", &whole]).succeeds();
    let shards: Vec<String> = (1..=7).map(|shard| folder.path(&format!("shard-{shard}"))).collect();
    for pair in (0..7).collect::<Vec<_>>().chunks(2) {
        let pair = pair.iter().map(|&index| {
            let shard = format!("{}/7", index + 1);
            let args = [
                "sweep",
                &spec,
                "--mode",
                "compare",
                "--shard",
                &shard,
                "--out",
                &shards[index],
            ];
            begin(&args)
        });
        for child in pair.collect::<Vec<_>>() {
            let ended = child.wait_with_output().expect("it ends");
            assert!(ended.status.success(), "{ended:?}");
        }
    }
    let mut args = vec!["merge", &spec, "--mode", "compare", "--out", &merged];
    // Their order makes no difference.
    args.extend(shards.iter().rev().map(String::as_str));
    let ran = dynosim(&args).succeeds();
    assert!(files(&merged) == files(&whole), "other files");
    assert_eq!(ran.stdout, plain.stdout);
    assert!(!ran.stderr.contains("were in no shard"), "{}", ran.stderr);
    assert!(files(&shards[0]).keys().eq(["journal.jsonl"]), "a shard is its journal");

    let missing = dynosim(&["merge", &spec, "--mode", "compare", &shards[0], &shards[1], &shards[3]]);
    let missing = missing.exits(2, "shard 3/7 is missing: dynosim sweep ");
    assert!(
        missing.stderr.contains("--mode compare --shard 3/7 --out shard-3"),
        "{}",
        missing.stderr
    );
    dynosim(&["merge", &spec, "--mode", "compare", &shards[0], &shards[0]]).exits(2, "are both shard 1/7");
    dynosim(&["merge", &spec, &shards[0]]).exits(2, "mode: compare and disagg");
    dynosim(&["merge", &spec, "--mode", "compare", &folder.path("whole")]).exits(2, "cannot read");
}

#[test]
fn shards_that_are_not_complete_are_named_and_can_be_resumed() {
    let folder = Folder::new();
    let spec = folder.write("spec.json", &short_sweep().to_string());
    let (one, two) = (folder.path("one"), folder.path("two"));
    dynosim(&["sweep", &spec, "--shard", "1/2", "--out", &one]).succeeds();
    dynosim(&["sweep", &spec, "--shard", "2/2", "--out", &two]).succeeds();
    let journal = folder.read("two/journal.jsonl");
    assert!(journal.ends_with("{\"complete\":true}\n"), "{journal}");
    // Killed in the middle of a line.
    folder.write("two/journal.jsonl", &journal[..journal.len() / 2]);
    let merged = ["merge", &spec, &one, &two];
    dynosim(&merged).exits(2, "shard 2/2 is not complete: dynosim sweep ");
    dynosim(&["sweep", &spec, "--shard", "2/2", "--out", &two]).exits(2, "go on with --resume ");
    dynosim(&["sweep", &spec, "--shard", "1/2", "--resume", &two]).exits(2, "is the journal of shard 2/2, not of 1/2");
    dynosim(&["sweep", &spec, "--resume", &two]).exits(0, "simulations are known");
    let again = dynosim(&["sweep", &spec, "--resume", &two]).succeeds();
    assert!(again.stdout.contains("Shard 2/2 is complete"), "{}", again.stdout);
    dynosim(&merged).succeeds();
    dynosim(&["sweep", &spec, "--shard", "2/2", "--out", &two]).exits(2, "holds the whole of shard 2/2");
    // A simulation that no journal holds is made.
    let fewer: Vec<&str> = journal.lines().collect();
    let (last, fewer) = fewer.split_last().expect("lines");
    folder.write(
        "two/journal.jsonl",
        &format!("{}\n{last}\n", fewer[..fewer.len() - 1].join("\n")),
    );
    dynosim(&merged).exits(0, "1 simulations were in no shard and have been made");
}

#[test]
fn journals_of_other_sweeps_are_refused() {
    let folder = Folder::new();
    let mut spec = short_sweep();
    let first = folder.write("spec.json", &spec.to_string());
    let out = folder.path("out");
    dynosim(&["sweep", &first, "--resume", &out]).exits(2, "there is nothing to resume in ");
    dynosim(&["sweep", &first, "--shard", "1/1", "--out", &out]).succeeds();
    dynosim(&["sweep", &first, "--out", &out]).exits(2, "holds the whole of shard 1/1");
    spec["workload"]["isl"] = 601.into();
    let other = folder.write("other.json", &spec.to_string());
    dynosim(&["sweep", &other, "--resume", &out]).exits(2, "(there and here; spec: workload.isl: 600 -> 601)");
    dynosim(&["sweep", &first, "--mode", "agg", "--resume", &out]).exits(2, "mode: disagg and agg");

    let journal = folder.read("out/journal.jsonl");
    folder.write("out/journal.jsonl", "{\"name\": \"something else\"}\n");
    dynosim(&["sweep", &first, "--resume", &out]).exits(2, "line 1: this is not the first line of a journal");
    folder.write("out/journal.jsonl", &journal.replacen("{\"key\"", "{\"quay\"", 1));
    dynosim(&["sweep", &first, "--resume", &out]).exits(2, "line 2: it is damaged");

    let done = folder.path("done");
    dynosim(&["sweep", &first, "--out", &done]).succeeds();
    dynosim(&["sweep", &first, "--resume", &done]).exits(2, "its result is complete");
}

#[test]
fn shards_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let mut spec = short_sweep();
    let exhaustive = folder.write("spec.json", &spec.to_string());
    let out = folder.path("out");
    let shard = |spec: &str, shard: &str| dynosim(&["sweep", spec, "--shard", shard, "--out", &out]);
    shard(&exhaustive, "8/7").exits(2, "there are shards 1/7 to 7/7");
    shard(&exhaustive, "seven").exits(2, "a shard is NUMBER/COUNT");
    dynosim(&["sweep", &exhaustive, "--shard", "1/7"]).exits(2, "--shard needs --out DIR");
    spec["search"]["strategy"] = "descent".into();
    let descent = folder.write("descent.json", &spec.to_string());
    shard(&descent, "1/7").exits(2, "set search.strategy to exhaustive");
    spec["hardware"]["totalGpus"] = 1.into();
    let small = folder.write("small.json", &spec.to_string());
    dynosim(&["sweep", &small, "--out", &out]).exits(2, "a budget of 1 GPU is too small");
    assert!(
        !folder.has("out/journal.jsonl"),
        "what cannot be begun need not be resumed"
    );
}
