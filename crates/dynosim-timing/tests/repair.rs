//! Slices that cannot be true are replaced, and GPUs without tables are priced from those of another.

mod facts;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dynosim_spec::{Backend, Deployment, GpuSpec, ModelSpec};
use dynosim_timing::{
    OperatorCost, Remedy, RooflineTiming, StepShape, TableModel, TableTiming, TimingError, TimingModel, TimingProvider,
};
use facts::{deployment, model};

const LLAMA_FP8: &str = "nvidia/Llama-3.3-70B-Instruct-FP8";

fn tables(version: &str) -> TableTiming {
    TableTiming::new(Some(version.to_owned()))
}

fn bound(timing: &TableTiming, deployment: &Deployment) -> Arc<TableModel> {
    timing.bind_table(deployment).expect("tables cover the model")
}

fn prefill(model: &TableModel) -> Vec<OperatorCost> {
    model.prefill_operators(1, 8192, 0).expect("within reach")
}

fn decode(model: &TableModel) -> Vec<OperatorCost> {
    model.decode_operators(16, 4000).expect("within reach")
}

/// `repaired` costs what `donor` does in the operators whose names contain `part`, and what `published` does in all
/// others.
#[track_caller]
fn check_only(part: &str, repaired: &[OperatorCost], published: &[OperatorCost], donor: &[OperatorCost]) {
    for ((repaired, published), donor) in repaired.iter().zip(published).zip(donor) {
        let expected = if repaired.name.contains(part) { donor } else { published };
        assert_eq!(repaired, expected);
    }
    assert_ne!(repaired, published);
}

#[test]
fn prefill_attention_of_vllm_0_19_0_comes_from_0_14_0() {
    let deployment = deployment(model(LLAMA_FP8), 1, Backend::Vllm);
    let repaired = bound(&tables("0.19.0").repaired(true), &deployment);
    let (published, donor) = (
        bound(&tables("0.19.0"), &deployment),
        bound(&tables("0.14.0"), &deployment),
    );
    check_only("attention", &prefill(&repaired), &prefill(&published), &prefill(&donor));
    assert_eq!(decode(&repaired), decode(&published));

    let [repair] = repaired.repairs() else {
        panic!("{:?}", repaired.repairs());
    };
    assert_eq!(
        (repair.table, repair.to_version()),
        ("context_attention", Some("0.14.0"))
    );
    assert_eq!(
        repaired.warnings(),
        [
            "table context_attention of vllm 0.19.0 has latencies that cannot be right; the figures of vllm 0.14.0 are used \
          instead"
        ]
    );
    let message = repair.to_string();
    for part in [
        "vllm 0.19.0",
        "kv heads 8",
        "exceed the peak",
        "figures of vllm 0.14.0 are used instead",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let [published] = published.repairs() else {
        panic!("{:?}", published.repairs());
    };
    assert_eq!(published.remedy, Remedy::AsPublished);
    assert!(donor.repairs().is_empty() && donor.warnings().is_empty());
}

#[test]
fn all_reduces_that_fall_come_from_the_next_version() {
    for (backend, version, tp, newer) in [
        (Backend::Vllm, "0.14.0", 8, "0.19.0"),
        (Backend::Sglang, "0.5.6.post2", 2, "0.5.10"),
    ] {
        let deployment = deployment(model("Qwen/Qwen3-32B"), tp, backend);
        let repaired = bound(&tables(version).repaired(true), &deployment);
        let (published, donor) = (bound(&tables(version), &deployment), bound(&tables(newer), &deployment));
        check_only("ar", &ar(&repaired), &ar(&published), &ar(&donor));
        assert_eq!(repaired.repairs().len(), 1);
        assert_eq!(repaired.repairs()[0].to_version(), Some(newer));
    }
    let sound = deployment(model("Qwen/Qwen3-32B"), 4, Backend::Vllm);
    assert!(bound(&tables("0.14.0").repaired(true), &sound).repairs().is_empty());
}

/// The all-reduces, at a size for which each of the faulty slices is off: a step of few tokens.
fn ar(model: &TableModel) -> Vec<OperatorCost> {
    let mut operators = model.decode_operators(3, 4000).expect("within reach");
    operators.extend(model.prefill_operators(1, 150, 0).expect("within reach"));
    operators.retain(|operator| operator.name.contains("ar") || operator.name.contains("gemm"));
    operators
}

#[test]
fn without_a_sound_version_the_published_figures_count_as_extrapolated() {
    let small_heads = ModelSpec {
        head_dim: 64,
        ..model("Qwen/Qwen3-8B")
    };
    let deployment = deployment(small_heads, 1, Backend::Vllm);
    let step = StepShape::prefill(1, 8192, 0);
    let (kept, published) = (
        bound(&tables("0.14.0").repaired(true), &deployment),
        bound(&tables("0.14.0"), &deployment),
    );
    assert_eq!(kept.repairs().len(), 1);
    assert_eq!(kept.repairs()[0].remedy, Remedy::CountedAsExtrapolated);
    assert_eq!(kept.prefill(&step).ms.to_bits(), published.prefill(&step).ms.to_bits());
    let attention: f64 = (prefill(&kept).iter().filter(|operator| operator.name == "attention"))
        .map(|operator| operator.ms)
        .sum();
    let added = kept.prefill(&step).extrapolated_ms - published.prefill(&step).extrapolated_ms;
    assert!((added - attention).abs() < 1e-9, "{added} of {attention}");
    assert_eq!(
        kept.decode(&StepShape::decode(1, 100)),
        published.decode(&StepShape::decode(1, 100))
    );
}

/// A folder with tables of these versions of vLLM.
fn folder(name: &str, versions: &[&str]) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    for version in versions {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perfdata/h200_sxm/vllm_0.14.0");
        let to = root.join(format!("h200_sxm/vllm_{version}"));
        fs::create_dir_all(&to).expect("target folder is writable");
        for table in ["gemm", "context_attention", "generation_attention", "custom_allreduce"] {
            let text = fs::read_to_string(from.join(format!("{table}.json"))).expect("perfdata is complete");
            let text = text.replacen("\"0.14.0\"", &format!("\"{version}\""), 1);
            fs::write(to.join(format!("{table}.json")), text).expect("target folder is writable");
        }
    }
    root
}

/// Makes one figure of a table another one.
fn plant(root: &Path, version: &str, table: &str, figure: &str, planted: &str) {
    let path = root.join(format!("h200_sxm/vllm_{version}/{table}.json"));
    let text = fs::read_to_string(&path).expect("was copied");
    assert_eq!(text.matches(figure).count(), 1, "{figure} occurs once");
    fs::write(path, text.replace(figure, planted)).expect("is writable");
}

#[test]
fn a_planted_fault_is_repaired_from_the_nearest_sound_version() {
    let root = folder("planted", &["0.9.0", "0.10.0", "0.11.2"]);
    let on = |version: &str| tables(version).with_perfdata(&root).repaired(true);
    let tp2 = deployment(model("Qwen/Qwen3-8B"), 2, Backend::Vllm);
    assert!(bound(&on("0.10.0"), &tp2).repairs().is_empty());
    // The largest message of two GPUs, twice as fast as the links.
    let (figure, planted) = ("3.25678772", "1.1");
    let to = |version: &str| {
        let repairs = bound(&on(version), &tp2).repairs().to_vec();
        assert_eq!(repairs.len(), 1, "{repairs:?}");
        assert_eq!(repairs[0].table, "custom_allreduce");
        repairs[0].to_version().map(str::to_owned)
    };
    plant(&root, "0.10.0", "custom_allreduce", figure, planted);
    assert_eq!(to("0.10.0").as_deref(), Some("0.11.2"));
    plant(&root, "0.11.2", "custom_allreduce", figure, planted);
    assert_eq!(to("0.10.0").as_deref(), Some("0.9.0"));
    assert_eq!(to("0.11.2").as_deref(), Some("0.9.0"));
    // A table that is missing elsewhere is no help, and no harm.
    fs::remove_file(root.join("h200_sxm/vllm_0.9.0/custom_allreduce.json")).expect("was copied");
    assert_eq!(to("0.10.0"), None);
    assert!(
        bound(&on("0.10.0"), &deployment(model("Qwen/Qwen3-8B"), 1, Backend::Vllm))
            .repairs()
            .is_empty()
    );
}

fn on_gpu(name: &str, system: &str, tp: u32) -> Deployment {
    Deployment {
        gpu: Arc::new(GpuSpec::find(system).expect("is known")),
        ..deployment(model(name), tp, Backend::Vllm)
    }
}

#[test]
fn gpus_without_tables_are_scaled_and_say_so() {
    let timing = TableTiming::new(None).repaired(true);
    let long = StepShape::decode(32, 32 * 8000);
    for system in GpuSpec::known_names().filter(|&system| system != "h200_sxm") {
        let model = bound(&timing, &on_gpu("Qwen/Qwen3-8B", system, 2));
        let warnings = model.warnings();
        assert_eq!(warnings.len(), 1, "{system}: {warnings:?}");
        assert!(
            warnings[0].starts_with(&format!("no tables of {system}: h200_sxm scaled")),
            "{warnings:?}"
        );
        for price in [model.decode(&long), model.prefill(&StepShape::prefill(2, 8000, 100))] {
            // What is not priced from tables goes by the GPU's own bandwidth.
            let share = price.extrapolated_ms / price.ms;
            assert!(share > 0.85 && share <= 1.0, "{system}: {share}");
        }
    }
    assert!(
        bound(&timing, &on_gpu("Qwen/Qwen3-8B", "h200_sxm", 2))
            .warnings()
            .is_empty()
    );
}

#[track_caller]
fn check_ratio(found: f64, limit: f64) {
    // Starting calls costs the same everywhere, so that no step gets as much slower or faster as the rates.
    let (least, most) = if limit > 1.0 {
        (0.85 * limit, limit)
    } else {
        (limit, 1.2 * limit)
    };
    assert!((least..=most).contains(&found), "{found} where the limit is {limit}");
}

#[test]
fn scaled_times_follow_what_bounds_them() {
    let timing = TableTiming::new(None);
    let ratio = |system: &str, step: StepShape| {
        let price = |system: &str| {
            let model = bound(&timing, &on_gpu("Qwen/Qwen3-8B", system, 1));
            (model.prefill(&step).ms).max(model.decode(&step).ms)
        };
        price(system) / price("h200_sxm")
    };
    let (decode, prefill) = (StepShape::decode(8, 8 * 30_000), StepShape::prefill(1, 8192, 0));
    check_ratio(ratio("h100_sxm", decode), 4.8 / 3.35);
    check_ratio(ratio("l40s", decode), 4.8 / 0.864);
    check_ratio(ratio("b200_sxm", decode), 4.8 / 7.7);
    check_ratio(ratio("a100_sxm", prefill), 989.0 / 312.0);
    check_ratio(ratio("b200_sxm", prefill), 989.0 / 2250.0);
    // On H100 only the bandwidth differs.
    assert!((1.0..1.1).contains(&ratio("h100_sxm", prefill)));
}

#[test]
fn scaling_and_the_roofline_agree_roughly() {
    for system in GpuSpec::known_names() {
        let deployment = on_gpu("Qwen/Qwen3-32B", system, 4);
        let scaled = TableTiming::new(None).bind(&deployment).expect("is scaled");
        let roofline = RooflineTiming.bind(&deployment).expect("facts are known");
        for batch in [1, 16, 128] {
            let step = StepShape::decode(batch, u64::from(batch) * 2000);
            let ratio = scaled.decode(&step).ms / roofline.decode(&step).ms;
            assert!((0.7..1.5).contains(&ratio), "{system}, decode of {batch}: {ratio}");
        }
        for tokens in [500, 2000, 8000] {
            let step = StepShape::prefill(1, tokens, 0);
            let ratio = scaled.prefill(&step).ms / roofline.prefill(&step).ms;
            assert!((0.7..1.5).contains(&ratio), "{system}, prompt of {tokens}: {ratio}");
        }
    }
}

#[test]
fn eight_bits_need_units_for_them() {
    let bind = |name, system| TableTiming::new(None).bind_table(&on_gpu(name, system, 2)).map(|_| ());
    let Err(error @ TimingError::NoEightBitUnits { .. }) = bind(LLAMA_FP8, "a100_sxm") else {
        panic!("an error was expected");
    };
    let message = error.to_string();
    for part in [
        "a100_sxm has no units for 8-bit floats",
        "fp8",
        LLAMA_FP8,
        "h200_sxm",
        "choose a 16-bit checkpoint",
    ] {
        assert!(message.contains(part), "{message}");
    }
    bind(LLAMA_FP8, "h100_sxm").expect("has units");
    bind("Qwen/Qwen3-8B", "a100_sxm").expect("needs none");
}

#[test]
fn measured_systems_have_names() {
    let find =
        |system| TableTiming::new(None).measured_system(&GpuSpec::find(system).expect("is known"), Backend::Vllm);
    assert_eq!(find("h200_sxm").expect("is measured"), "h200_sxm");
    assert_eq!(find("gb200").expect("is scaled"), "h200_sxm");
}
