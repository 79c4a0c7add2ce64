//! `dynosim timing`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::command::{Folder, dynosim, dynosim_with_input, golden};

/// Rows of a CSV file as cells; the header first.
fn rows(csv: &str) -> Vec<Vec<&str>> {
    csv.lines().map(|line| line.split(',').collect()).collect()
}

#[track_caller]
fn check(quantity: &str, options: &[&str], input: &str, expected: &str) {
    let args = [&["timing", quantity, "-"], options].concat();
    assert_eq!(dynosim_with_input(&args, input).succeeds().stdout, expected);
}

#[track_caller]
fn check_golden(quantity: &str, file: &str, options: &[&str]) {
    let path = golden("timing").join(file);
    let path = path.to_str().expect("a plain path");
    let args = [&["timing", quantity, path], options].concat();
    let output = dynosim(&args).succeeds().stdout;
    let rows = rows(&output);
    let column = |name: &str| rows[0].iter().position(|header| *header == name).expect("the column");
    let (expected, predicted) = (column("ms"), column("predicted"));
    assert_eq!(rows[0][predicted..], ["predicted", "extrapolated_share"]);
    assert!(rows.len() > 140);
    let mut shares = BTreeSet::new();
    for row in &rows[1..] {
        let number = |index: usize| row[index].parse::<f64>().expect("a number");
        let share = number(predicted + 1);
        assert!((0.0..=1.0).contains(&share), "{file}: {row:?}");
        shares.insert(row[predicted + 1]);
        let (expected, predicted) = (number(expected), number(predicted));
        assert!(
            (predicted - expected).abs() <= 1e-9 + 1e-6 * expected,
            "{file}: {row:?}"
        );
    }
    assert!(shares.contains("0") && shares.len() > 2, "{file}: {shares:?}");
}

#[test]
fn step_times_of_the_reference_agree() {
    let (vllm, sglang): (&[&str], &[&str]) = (&[], &["--backend", "sglang"]);
    check_golden("prefill", "prefill.csv", vllm);
    check_golden("prefill", "prefill_sglang_0.5.6.post2.csv", sglang);
    check_golden("decode", "decode.csv", vllm);
    check_golden("decode", "decode_sglang_0.5.6.post2.csv", sglang);
    let newer = &["--engine-version", "0.19.0"];
    check_golden("prefill", "prefill_vllm_0.19.0.csv", newer);
    check_golden("decode", "decode_vllm_0.19.0.csv", newer);
}

#[test]
fn impossible_figures_are_noted_and_replaced_if_asked_for() {
    let points = "model,tp,batch,isl,prefix,osl\nQwen/Qwen3-8B,1,1,8192,0,2\n";
    let predicted = |quantity: &str, options: &[&str], note: &str| {
        let ran = dynosim_with_input(&[&["timing", quantity, "-"], options].concat(), points).exits(0, note);
        assert_eq!(ran.stderr.is_empty(), note.is_empty(), "{ran:?}");
        let rows = rows(&ran.stdout);
        let [.., time, _share] = rows[1][..] else {
            panic!("too few columns: {rows:?}");
        };
        time.parse::<f64>().expect("a number")
    };
    let newer = &["--engine-version", "0.19.0"];
    let repaired = &["--engine-version", "0.19.0", "--repair"];
    let published = predicted(
        "prefill",
        newer,
        "note: table context_attention of vllm 0.19.0 cannot be right for bfloat16, bfloat16 kv, head_dim 128, kv heads 8",
    );
    let sound = predicted("prefill", repaired, "the figures of vllm 0.14.0 are used instead");
    assert!(published < 0.9 * sound, "{published}, {sound}");
    // A decode step needs no attention of prompts, and the rest is sound.
    let steps = [newer.as_slice(), repaired].map(|options| predicted("decode", options, ""));
    assert_eq!(steps[0].to_bits(), steps[1].to_bits());
    predicted(
        "decode",
        &["--system", "h100_sxm"],
        "note: no tables of h100_sxm: h200_sxm scaled",
    );
    predicted(
        "decode",
        &["--provider", "roofline", "--repair"],
        "warning: --repair has no effect",
    );
}

#[test]
fn capacities_of_the_reference_agree() {
    let path = golden("timing/capacity.csv");
    let ran = dynosim(&["timing", "capacity", path.to_str().expect("a plain path")]).exits(0, "no room for KV cache");
    for row in &rows(&ran.stdout)[1..] {
        let (expected, predicted) = (row[3], row[row.len() - 1]);
        let expected = if expected.starts_with("ERR") { "ERR" } else { expected };
        assert_eq!(predicted, expected, "{row:?}");
    }
    assert_eq!(ran.stderr.lines().count(), 2, "each reason once: {}", ran.stderr);
}

#[test]
fn columns_are_kept_and_win_over_options() {
    check(
        "capacity",
        &["--backend", "sglang"],
        "note,block_size,tp,model,backend,max_num_batched_tokens\n\
         \"a, b\",512,1,Qwen/Qwen3-32B,vllm,8192\n\
         c,512.0,1,Qwen/Qwen3-32B,,\n",
        "note,block_size,tp,model,backend,max_num_batched_tokens,predicted\n\
         \"a, b\",512,1,Qwen/Qwen3-32B,vllm,8192,488\n\
         c,512.0,1,Qwen/Qwen3-32B,,,454\n",
    );
}

#[test]
fn points_without_an_answer_do_not_stop_the_others() {
    let points =
        "model,tp,batch,isl,osl\nno/such,1,1,10,1\nQwen/Qwen3-8B,1,1,10,1\nno/such,2,1,10,1\nQwen/Qwen3-8B,3,1,10,1\n";
    let ran = dynosim_with_input(&["timing", "decode", "-"], points).exits(0, "unknown model `no/such`");
    let predicted: Vec<&str> = rows(&ran.stdout).iter().map(|row| row[5]).collect();
    assert_eq!(predicted, ["predicted", "ERR", "0", "ERR", "ERR"]);
    assert_eq!(ran.stderr.lines().count(), 2, "each reason once: {}", ran.stderr);
}

#[test]
fn a_file_is_written() {
    let folder = Folder::new();
    let points = folder.write("points.csv", "model,tp,batch,isl,prefix\nQwen/Qwen3-8B,1,1,512,0\n");
    let out = folder.path("out.csv");
    assert_eq!(
        dynosim(&["timing", "prefill", &points, "--out", &out])
            .succeeds()
            .stdout,
        ""
    );
    assert_eq!(folder.read("out.csv").lines().count(), 2);
}

#[test]
fn any_system_has_scaled_tables_and_a_roofline() {
    let points = "model,tp,batch,isl,prefix\nQwen/Qwen3-8B,1,1,512,0\n";
    let args = ["timing", "prefill", "-", "--system", "a100_sxm"];
    let scaled = dynosim_with_input(&args, points).exits(0, "note: no tables of a100_sxm: h200_sxm scaled");
    let roofline = dynosim_with_input(&[&args[..], &["--provider", "roofline"]].concat(), points).succeeds();
    // 16 bits per weight and two operations per token and weight, at 312e12 per second, take 26 ms.
    for ran in [scaled, roofline] {
        let ms = rows(&ran.stdout)[1][5].parse::<f64>().expect("a number");
        assert!((26.0..40.0).contains(&ms), "{ms}");
    }
    let eight_bits = points.replace("Qwen3-8B", "Qwen3-32B-FP8");
    dynosim_with_input(&args, &eight_bits).exits(0, "ERR from line 2 on: a100_sxm has no units for 8-bit floats");
}

#[test]
fn mistakes_in_points_say_where_they_are() {
    for (quantity, points, message) in [
        ("prefill", "model,tp,batch,isl\n", "line 1: no column prefix"),
        ("prefill", "", "line 1: no column model, tp"),
        (
            "decode",
            "model,tp,batch,isl,osl\nm,1,0,5,5\n",
            "line 2, column 3 (batch): is `0`",
        ),
        (
            "decode",
            "model,tp,batch,isl,osl\nm,1,1,5,5\n\nm,x,1,5,5\n",
            "line 4, column 2 (tp): is `x`",
        ),
        (
            "prefill",
            "model,tp,batch,isl,prefix\nm,1,1,5,6\n",
            "column 5 (prefix): is more than the isl of 5",
        ),
        ("prefill", "model,tp,batch,isl,prefix\nm,1,1,5\n", "line: 2"),
        (
            "prefill",
            "model,tp,batch,isl,prefix\n,1,1,5,0\n",
            "column 1 (model): is empty",
        ),
        (
            "capacity",
            "model,tp,block_size,memory_fraction\nm,1,1,2\n",
            "column 4 (memory_fraction): is `2`",
        ),
        (
            "capacity",
            "model,tp,block_size,backend\nm,1,1,trt\n",
            "column 4 (backend): is `trt`",
        ),
        (
            "capacity",
            "model,tp,block_size,predicted\nm,1,1,2\n",
            "has a column predicted already",
        ),
        (
            "prefill",
            "model,tp,batch,isl,prefix,extrapolated_share\nm,1,1,5,0,0\n",
            "has a column extrapolated_share already",
        ),
    ] {
        dynosim_with_input(&["timing", quantity, "-"], points).exits(2, message);
    }
}

#[test]
fn a_closed_output_is_no_mistake() {
    let points = golden("timing/prefill.csv");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dynosim"))
        .args(["timing", "prefill"])
        .arg(points)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).expect("is text");
    assert!(stderr.lines().all(|line| line.starts_with("note: table ")), "{stderr}");
}

/// Errors of the roofline in percent where the tables rest on measurements alone, ascending.
fn roofline_errors(quantity: &str, file: &str) -> Vec<f64> {
    let path = golden("timing").join(file);
    let path = path.to_str().expect("a plain path");
    let table = dynosim(&["timing", quantity, path]).succeeds().stdout;
    let roofline = dynosim(&["timing", quantity, path, "--provider", "roofline"])
        .succeeds()
        .stdout;
    let (table, roofline) = (rows(&table), rows(&roofline));
    let column = |name: &str| table[0].iter().position(|header| *header == name).expect("the column");
    let (isl, predicted, share) = (column("isl"), column("predicted"), column("extrapolated_share"));
    let number = |cell: &str| cell.parse::<f64>().expect("a number");
    let pairs = table.iter().zip(&roofline).skip(1);
    let measured = pairs.filter(|(row, _)| row[share] == "0" && number(row[isl]) <= 16_384.0);
    let errors = measured.map(|(row, other)| (number(row[predicted]), number(other[predicted])));
    let mut errors: Vec<f64> = errors
        .filter(|&(ms, _)| ms > 0.0)
        .map(|(ms, other)| 100.0 * (other / ms - 1.0).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// The README states these.
#[test]
fn the_roofline_is_as_near_as_it_says() {
    for (quantity, file, expected) in [
        ("prefill", "prefill.csv", [4.5, 18.3, 41.5]),
        ("decode", "decode.csv", [4.5, 22.1, 46.0]),
    ] {
        let errors = roofline_errors(quantity, file);
        let last = errors.len() - 1;
        let found = [errors[last / 2], errors[last * 9 / 10], errors[last]];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!(
                (found - expected).abs() < 0.2,
                "{quantity}: {found}, expected {expected}"
            );
        }
    }
}
