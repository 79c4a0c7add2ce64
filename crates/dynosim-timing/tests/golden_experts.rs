//! Figures of the reference (AIConfigurator 0.10.0 as called by ai-dynamo 1.2.1) for mixtures of experts. A few are
//! written down here; files with more of them are read where a folder `shared` lies beside the repository.

mod facts;

use std::fs;
use std::path::Path;

use dynosim_spec::{Backend, Deployment, ParallelShape};
use dynosim_timing::{
    Price, RooflineModel, RooflineTiming, StepShape, TableModel, TableTiming, TimingError, TimingModel,
    estimate_kv_tokens,
};
use facts::model;
use serde::Deserialize;

/// Largest relative error against a golden figure.
const TOLERANCE: f64 = 1e-7;

const MODELS: [&str; 3] = ["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B", "openai/gpt-oss-120b"];

fn on_vllm(name: &str, shape: ParallelShape) -> Deployment {
    Deployment {
        shape,
        ..facts::deployment(model(name), 1, Backend::Vllm)
    }
}

/// One price of prompts for every shape that files have.
const PREFILL: &str = "\
model,tp,moe_tp,moe_ep,dp,batch,prefix,new_tokens,ms
Qwen/Qwen3-30B-A3B,1,1,1,1,1,0,26216,722.7655110249931
Qwen/Qwen3-30B-A3B,2,2,1,1,21,1266,817,169.61157230713363
Qwen/Qwen3-30B-A3B,4,1,4,1,1,0,4564,59.96392067683796
Qwen/Qwen3-30B-A3B,8,1,8,1,33,0,1,7.845556061660036
Qwen/Qwen3-30B-A3B,1,1,4,4,8,4,7,12.093122506488468
Qwen/Qwen3-30B-A3B,4,4,1,1,56,0,2,9.542408319418822
Qwen/Qwen3-235B-A22B,4,1,4,1,2,0,7,29.661791743441878
Qwen/Qwen3-235B-A22B,8,1,8,1,4,11425,7735,1809.6821855113153
Qwen/Qwen3-235B-A22B,8,8,1,1,23,0,96,81.77200736204159
Qwen/Qwen3-235B-A22B,1,1,8,8,8,0,3427,10149.522787432577
openai/gpt-oss-120b,1,1,1,1,34,0,1686,1133.621285182706
openai/gpt-oss-120b,2,1,2,1,79,5,3,30.36760407028466
openai/gpt-oss-120b,4,1,4,1,78,0,1461,2204.592935983516
openai/gpt-oss-120b,8,1,8,1,3,0,545,68.4348715422114
openai/gpt-oss-120b,2,2,1,1,4,4,32,16.043184928586474
";

/// The same for decode steps.
const DECODE: &str = "\
model,tp,moe_tp,moe_ep,dp,batch,isl,osl,ms
Qwen/Qwen3-30B-A3B,1,1,1,1,1,26216,2,4.67020843205544
Qwen/Qwen3-30B-A3B,2,2,1,1,21,2083,2,8.36041313693792
Qwen/Qwen3-30B-A3B,4,1,4,1,1,4564,2,4.334247629340583
Qwen/Qwen3-30B-A3B,8,1,8,1,33,1,2,5.947562823788285
Qwen/Qwen3-30B-A3B,1,1,4,4,8,11,2,7.336558851090231
Qwen/Qwen3-30B-A3B,4,4,1,1,56,2,2,6.653766261593366
Qwen/Qwen3-235B-A22B,4,1,4,1,2,7,2,14.949576234671916
Qwen/Qwen3-235B-A22B,8,1,8,1,4,19160,2,20.158886566981316
Qwen/Qwen3-235B-A22B,8,8,1,1,23,96,2,17.00852850338774
Qwen/Qwen3-235B-A22B,1,1,8,8,8,3427,2,31.40400740445872
openai/gpt-oss-120b,1,1,1,1,34,1686,2,17.05946855959902
openai/gpt-oss-120b,2,1,2,1,79,8,2,22.239633123484854
openai/gpt-oss-120b,4,1,4,1,78,1461,2,23.36971982190196
openai/gpt-oss-120b,8,1,8,1,3,545,2,6.103276344443145
openai/gpt-oss-120b,2,2,1,1,4,36,2,5.660798488112816
";

/// Rows of the PREFILL or DECODE kind; a model that is not in [`MODELS`] is left out.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    model: String,
    tp: u32,
    moe_tp: u32,
    moe_ep: u32,
    dp: u32,
    batch: u32,
    #[serde(default)]
    prefix: u64,
    #[serde(default)]
    new_tokens: u64,
    #[serde(default)]
    isl: u64,
    #[serde(default)]
    osl: u32,
    ms: f64,
}

fn rows(text: &str) -> Vec<Row> {
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    let rows: Result<Vec<Row>, _> = rows.collect();
    let rows = rows.expect("golden rows are valid").into_iter();
    rows.filter(|row| MODELS.contains(&row.model.as_str())).collect()
}

/// A file of more rows; `None` where it is absent.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn more_rows(name: &str) -> Option<Vec<Row>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let path = workspace.join("../shared/golden/timing").join(name);
    let Ok(text) = fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    };
    Some(rows(&text))
}

/// Every row must be priced as `price` does, which is given its bound model.
#[track_caller]
fn check(rows: &[Row], price: impl Fn(&TableModel, &Row) -> Result<f64, TimingError>) {
    let timing = TableTiming::new(None);
    let mut largest = 0.0_f64;
    for row in rows {
        let shape = ParallelShape::experts(row.tp, row.dp, row.moe_tp, row.moe_ep);
        let bound = timing.bind_table(&on_vllm(&row.model, shape));
        let bound = bound.expect("tables cover the model");
        let ms = price(&bound, row).expect("within reach");
        let error = (ms - row.ms).abs() / row.ms;
        assert!(error <= TOLERANCE, "{row:?}: {ms}");
        largest = largest.max(error);
    }
    println!("{} rows: largest relative error {largest:e}", rows.len());
}

fn prefill(model: &TableModel, row: &Row) -> Result<f64, TimingError> {
    model.prefill_ms(row.batch, row.new_tokens, row.prefix)
}

fn decode(model: &TableModel, row: &Row) -> Result<f64, TimingError> {
    model.decode_ms(row.batch, row.isl, row.osl)
}

#[test]
fn every_shape_matches() {
    check(&rows(PREFILL), prefill);
    check(&rows(DECODE), decode);
}

#[test]
fn all_prices_match() {
    for (name, price) in [
        (
            "moe_prefill.csv",
            prefill as fn(&TableModel, &Row) -> Result<f64, TimingError>,
        ),
        ("moe_decode.csv", decode),
    ] {
        if let Some(rows) = more_rows(name) {
            assert_eq!(rows.len(), 134);
            check(&rows, price);
        }
    }
}

#[test]
fn capacities_match_exactly() {
    for (name, shape, tokens) in [
        (MODELS[0], ParallelShape::experts(4, 1, 1, 4), 4_731_785),
        (MODELS[0], ParallelShape::experts(2, 1, 2, 1), 2_055_570),
        (MODELS[2], ParallelShape::experts(2, 1, 1, 2), 2_740_941),
    ] {
        let found = estimate_kv_tokens(&on_vllm(name, shape)).expect("has room");
        assert_eq!(found, tokens, "{name} at {shape}");
    }
}

#[test]
fn steps_of_a_worker_are_those_of_its_largest_group() {
    let deployment = on_vllm(MODELS[0], ParallelShape::experts(1, 4, 1, 4));
    let bound = TableTiming::new(None)
        .bind_table(&deployment)
        .expect("tables cover the model");
    let (step, context) = (StepShape::decode(9, 9 * 500), 500);
    let expected = bound.decode_ms(3, context, 2).expect("within reach");
    assert_eq!(bound.decode(&step).ms.to_bits(), expected.to_bits());
    let expected = bound.prefill_ms(2, 700, 100).expect("within reach");
    let price = bound.prefill(&StepShape::prefill(5, 5 * 800, 5 * 100));
    assert_eq!(price.ms.to_bits(), expected.to_bits());
    // Rows of prices and single ones are the same.
    let mut prices = [Price::ZERO; 4];
    bound.decode_over_contexts(9, 499, &mut prices);
    assert_eq!(prices[1], bound.decode(&step));
}

#[test]
fn what_is_not_priced_is_refused() {
    #[track_caller]
    fn check(deployment: &Deployment, parts: &[&str]) {
        let error = TableTiming::new(None)
            .bind_table(deployment)
            .expect_err("is not priced");
        for part in parts {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    check(
        &on_vllm(MODELS[0], ParallelShape::experts(4, 1, 2, 2)),
        &["cannot run at tp 4 moe_tp 2 moe_ep 2", "one of the two must be 1"],
    );
    check(
        &on_vllm(MODELS[0], ParallelShape::experts(4, 2, 1, 4)),
        &["tp 4 times attention_dp 2 is 8, which must equal moe_tp times moe_ep"],
    );
    check(
        &on_vllm("Qwen/Qwen3-32B", ParallelShape::experts(2, 1, 1, 2)),
        &["are for mixture-of-experts models"],
    );
    // Not measured: an expert of width 768 in eight parts.
    check(
        &on_vllm(MODELS[0], ParallelShape::tensor(8)),
        &[
            "does not cover Qwen/Qwen3-30B-A3B at tp 8 moe_tp 8",
            "such experts with moe_tp 1 and moe_ep 1, 2, 4, 8, 16, 32, 64, 128; moe_tp 2 and moe_ep 1; moe_tp 4",
        ],
    );
    let sglang = Deployment {
        engine: facts::deployment(model(MODELS[0]), 1, Backend::Sglang).engine,
        ..on_vllm(MODELS[0], ParallelShape::tensor(1))
    };
    check(&sglang, &["for backend vllm only, not for sglang"]);
}

/// Errors of one phase, in percent, ascending.
fn roofline_errors(rows: &[Row], price: impl Fn(&RooflineModel, &Row) -> f64) -> Vec<f64> {
    let error = |row: &Row| {
        let shape = ParallelShape::experts(row.tp, row.dp, row.moe_tp, row.moe_ep);
        let bound = RooflineTiming.bind_roofline(&on_vllm(&row.model, shape));
        100.0 * (price(&bound.expect("facts are known"), row) / row.ms - 1.0).abs()
    };
    let mut errors: Vec<f64> = rows.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    println!(
        "median {:.0} %, largest {:.0} %",
        errors[errors.len() / 2],
        errors[errors.len() - 1]
    );
    errors
}

#[test]
fn the_roofline_is_near_the_reference() {
    let prefill = roofline_errors(&rows(PREFILL), |model, row| {
        model.prefill_ms(row.batch, row.new_tokens, row.prefix)
    });
    let decode = roofline_errors(&rows(DECODE), |model, row| model.decode_ms(row.batch, row.isl, row.osl));
    for errors in [prefill, decode] {
        assert!(
            errors[errors.len() / 2] < 20.0 && errors[errors.len() - 1] < 70.0,
            "{errors:?}"
        );
    }
}
