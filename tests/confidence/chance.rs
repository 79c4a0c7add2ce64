//! Repetitions over variations of the workload.

use dynosim::Scenario;
use dynosim::confidence::Spread;
use dynosim::spec::{BlockSize, GpuSpec, Workload};

use super::*;

/// A single request of 50 to 100 tokens.
fn one_drawn_prompt() -> SyntheticWorkload {
    SyntheticWorkload {
        length_range_ratio: 0.5,
        length_seed: 11,
        ..single_tokens(1, SyntheticLoad::Concurrency(1))
    }
}

/// The prompt lengths that the first seeds draw.
fn drawn_prompts(repeats: u32) -> Vec<f64> {
    let block_size = BlockSize::new(4).expect("not zero");
    let lengths = (0..repeats).map(|number| {
        let mut load = one_drawn_prompt();
        load.length_seed += u64::from(number);
        let workload = Workload::load(&WorkloadSpec::Synthetic(load), block_size).expect("is sound");
        f64::from(workload.requests()[0].input_tokens)
    });
    lengths.collect()
}

/// The first candidate takes a millisecond per prompt token, the other one as long as this for any prompt.
fn against_fixed(ms: f64, repeats: u32) -> Confidence {
    let spec = spec(WorkloadSpec::Synthetic(one_drawn_prompt()));
    let states = [workers(1, 1), workers(1, 2)];
    assess(&spec, [BY_TOKEN, fixed(ms)], &states, options(repeats, &[]))
}

#[test]
fn the_order_flips_as_often_as_prompts_are_long() {
    const REPEATS: u32 = 9;
    let lengths = drawn_prompts(REPEATS);
    let mut flips = Vec::new();
    // Prompts have 50 to 100 tokens.
    for ms in [49.5, 74.5, 100.5] {
        let expected = lengths.iter().filter(|&&length| ms < length).count();
        let found = against_fixed(ms, REPEATS);
        let pair = &found.repetitions.pairs[0];
        assert_eq!((pair.better, pair.equal), (expected, 0), "{ms} ms against {lengths:?}");
        assert_eq!(pair.flip_chance, Some((expected as f64 + 0.5) / 10.0));
        flips.push(expected);
    }
    assert_eq!((flips[0], flips[2]), (9, 0), "certain, and never");
    assert!((1..9).contains(&flips[1]), "sometimes");
}

#[test]
fn intervals_are_those_of_a_plain_recomputation() {
    const REPEATS: u32 = 7;
    /// 95 % quantile of Student's t with six degrees of freedom, from a printed table.
    const T: f64 = 1.943;
    let lengths = drawn_prompts(REPEATS);
    let mean = lengths.iter().sum::<f64>() / 7.0;
    let variance = lengths
        .iter()
        .map(|length| (length - mean) * (length - mean))
        .sum::<f64>()
        / 6.0;
    let half_width = T * (variance / 7.0).sqrt();
    let found = against_fixed(70.0, REPEATS);
    let spread = found.repetitions.candidates[0].figures["mean_e2e_latency_ms"];
    let [low, high] = spread.interval_90.expect("lengths differ");
    assert!((spread.mean - mean).abs() < 1e-6, "{spread:?}");
    assert!((low - (mean - half_width)).abs() < 0.01 && (high - (mean + half_width)).abs() < 0.01);
    // The difference of the scores: the score is the latency, negative.
    let difference = found.repetitions.pairs[0].score_difference.expect("both have scores");
    assert!((difference.mean - (mean - 70.0)).abs() < 1e-6, "{difference:?}");
    let fixed = &found.repetitions.candidates[1];
    assert!(!fixed.varies || fixed.figures["mean_e2e_latency_ms"].interval_90.is_none());
}

#[test]
fn without_chance_there_is_nothing_to_be_sure_of() {
    let spec = spec(WorkloadSpec::Synthetic(single_tokens(
        20,
        SyntheticLoad::Concurrency(2),
    )));
    let states = [workers(1, 1), workers(1, 2)];
    let found = assess(&spec, [fixed(10.0), fixed(12.0)], &states, options(5, &[]));
    assert!(!found.repetitions.varies);
    assert_eq!(found.repetitions.pairs[0].flip_chance, None);
    assert_eq!(found.repetitions.candidates[0].figures["score"].interval_90, None);
    let text = found.text();
    assert!(text.contains("came to exactly the same"), "{text}");
    assert!(text.contains("worse each time, score -20.0 %"), "{text}");
}

/// A metric of each variation, simulated one by one.
fn plain_variations(
    spec: &ReplayOptimizeSpec,
    times: [PromptTimes; 2],
    state: State,
    repeats: u32,
    metric: &str,
) -> Vec<f64> {
    let provider = provider(times);
    let values = (0..repeats).map(|number| {
        let mut spec = spec.clone();
        spec.seed += u64::from(number);
        let WorkloadSpec::Synthetic(load) = &mut spec.workload else {
            panic!("it is synthetic");
        };
        load.arrival_seed += u64::from(number);
        load.length_seed += u64::from(number);
        let (sessions, block_size) = (load.request_count, BlockSize::new(4).expect("not zero"));
        let workload = Workload::load(&spec.workload, block_size).expect("is sound");
        let workload = workload.rotated((sessions * number / repeats) as usize);
        let gpu = GpuSpec::find("h200_sxm").expect("is known");
        let scenario = Scenario::new(spec.engine.clone(), None, gpu, workload);
        let sweep = Sweep::new(&spec, scenario, &provider).expect("the spec is sound");
        let record = sweep.evaluate_states(&[state]).remove(0);
        record.metric(metric).expect("a report")
    });
    values.collect()
}

#[test]
fn repetitions_are_the_variations_one_by_one() {
    let spec = all_by_chance();
    let times = [BY_TOKEN, fixed(40.0)];
    let states = three_states();
    let found = assess(&spec, times, &states, options(4, &[1.0]));
    assert_eq!(found.evaluations, 12, "the load as it is was simulated already");
    let load = found.load.expect("arrivals can come faster");
    for (place, &state) in states.iter().enumerate() {
        for metric in ["mean_ttft_ms", "output_throughput_tok_s"] {
            let plain = plain_variations(&spec, times, state, 4, metric);
            assert!(
                plain.windows(2).all(|pair| pair[0].to_bits() != pair[1].to_bits()),
                "{plain:?}"
            );
            let figures = &found.repetitions.candidates[place].figures;
            assert_eq!(figures.get(metric), Spread::of(plain).as_ref(), "{metric} of {state}");
        }
        let as_it_is = plain_record(&spec, times, state).metric("mean_ttft_ms");
        assert_eq!(load.candidates[place].loads[0].mean_ttft_ms, as_it_is);
    }
}
