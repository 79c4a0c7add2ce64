//! Planted faults are found, and nothing is in what could be true.

use proptest::prelude::*;

use super::*;
use crate::precision::{AttentionDtype, ExpertDtype, GemmDtype};
use crate::table_file::NcclOperation;

fn h200() -> GpuSpec {
    GpuSpec::find("h200_sxm").expect("is known")
}

/// Latencies that kernels at a share of the peak would have: a start, the roofline, and noise of up to 2 %.
fn sound<S: PhysicalSlice>(slice: S, efficiency: f64, start_ms: f64, noise: &[f64]) -> S {
    let ms = cells(&slice).zip(noise.iter().cycle()).map(|((keys, _), noise)| {
        let busy_ms = roofline_ms(slice.needs(keys, &h200())) / efficiency;
        Some((start_ms + busy_ms) * (1.0 + noise))
    });
    let ms = ms.collect();
    slice.with_ms(ms)
}

/// `slice` with another latency at one place.
fn with_fault<S: PhysicalSlice>(slice: S, index: usize, ms: f64) -> S {
    let mut all = slice.ms().to_vec();
    all[index] = Some(ms);
    slice.with_ms(all)
}

fn gaps(cells: usize) -> Vec<Option<f64>> {
    vec![None; cells]
}

fn gemm() -> GemmSlice {
    GemmSlice {
        dtype: GemmDtype::Fp8,
        sources: Vec::new(),
        m: vec![1, 16, 17, 256, 8192],
        n: vec![128, 4096, 65_536],
        k: vec![128, 8192],
        ms: gaps(5 * 3 * 2),
    }
}

fn prefill() -> PrefillAttentionSlice {
    PrefillAttentionSlice {
        fmha_dtype: AttentionDtype::Bfloat16,
        kv_dtype: AttentionDtype::Fp8,
        kv_heads: 8,
        head_dim: 128,
        window: 0,
        sources: Vec::new(),
        n: vec![16, 32, 64],
        s: vec![1, 512, 16_384],
        b: vec![1, 4],
        ms: gaps(3 * 3 * 2),
    }
}

fn decode() -> DecodeAttentionSlice {
    DecodeAttentionSlice {
        kv_dtype: AttentionDtype::Bfloat16,
        kv_heads: 0,
        head_dim: 64,
        window: 0,
        sources: Vec::new(),
        n: vec![8, 64],
        b: vec![1, 64],
        s: vec![2, 1024, 65_536],
        ms: gaps(2 * 2 * 3),
    }
}

fn all_reduce(tp: u64) -> AllReduceSlice {
    let elements: Vec<u64> = (7..30).map(|power| 1 << power).collect();
    AllReduceSlice {
        tp,
        sources: Vec::new(),
        ms: gaps(elements.len()),
        elements,
    }
}

fn windowed() -> PrefillAttentionSlice {
    PrefillAttentionSlice {
        window: 128,
        ..prefill()
    }
}

fn experts(dtype: ExpertDtype) -> MoeSlice {
    MoeSlice {
        dtype,
        distribution: "power_law_1.2".to_owned(),
        topk: 8,
        num_experts: 128,
        hidden_size: 2048,
        inter_size: 768,
        moe_tp_size: 1,
        moe_ep_size: 4,
        sources: Vec::new(),
        num_tokens: vec![1, 64, 4096, 65_536],
        ms: gaps(4),
    }
}

fn nccl() -> NcclSlice {
    let AllReduceSlice { elements, ms, .. } = all_reduce(8);
    NcclSlice {
        op: NcclOperation::AllGather,
        gpus: 8,
        sources: Vec::new(),
        elements,
        ms,
    }
}

/// A sound slice is left in peace; one latency beyond the slack of what binds it is found, one within is not.
#[track_caller]
fn check_peak<S: PhysicalSlice>(slice: S, efficiency: f64, noise: &[f64], index: usize) -> Result<(), TestCaseError> {
    let gpu = h200();
    let slice = sound(slice, efficiency, 0.005, noise);
    prop_assert_eq!(slice.flaw(&gpu), None);
    let index = index % slice.ms().len();
    let (keys, _) = cells(&slice).nth(index).expect("within");
    let believed_ms = slice.needs(keys, &gpu).map(|(resource, ms)| ms / resource.slack());
    let least_ms = believed_ms[0].max(believed_ms[1]);
    let faulty = with_fault(slice.clone(), index, 0.99 * least_ms);
    match faulty.flaw(&gpu) {
        Some(SliceFlaw::BeyondPeak { latencies: 1, at, .. }) => prop_assert_eq!(at, place(&slice, keys)),
        other => prop_assert!(false, "{other:?}"),
    }
    let fast = with_fault(slice, index, 1.01 * least_ms).flaw(&gpu);
    prop_assert!(!matches!(fast, Some(SliceFlaw::BeyondPeak { .. })), "{fast:?}");
    Ok(())
}

proptest! {
    #[test]
    fn a_latency_beyond_the_peak_is_found(
        efficiency in 0.05..0.8,
        noise in prop::collection::vec(-0.02..0.02, 1..40),
        index in any::<usize>(),
    ) {
        check_peak(gemm(), efficiency, &noise, index)?;
        check_peak(prefill(), efficiency, &noise, index)?;
        check_peak(decode(), efficiency, &noise, index)?;
        check_peak(all_reduce(8), efficiency, &noise, index)?;
        check_peak(windowed(), efficiency, &noise, index)?;
        check_peak(experts(ExpertDtype::Fp8Block), efficiency, &noise, index)?;
        check_peak(experts(ExpertDtype::W4a16Mxfp4), efficiency, &noise, index)?;
        check_peak(nccl(), efficiency, &noise, index)?;
    }

    #[test]
    fn a_falling_all_reduce_is_found(
        efficiency in 0.2..0.7,
        noise in prop::collection::vec(-0.02..0.02, 1..40),
        index in 1_usize..16,
        depth in 0.3..0.92,
    ) {
        let slice = sound(all_reduce(4), efficiency, 0.005, &noise);
        prop_assert_eq!(slice.flaw(&h200()), None);
        let before = slice.ms()[..index].iter().flatten().copied().fold(0.0, f64::max);
        let flaw = with_fault(slice.clone(), index, depth * before).flaw(&h200());
        prop_assert!(flaw.is_some());
        // Too slow a latency shows at the next one.
        let after = slice.ms()[index].expect("is measured");
        let flaw = with_fault(slice, index - 1, after / depth).flaw(&h200());
        prop_assert!(matches!(flaw, Some(SliceFlaw::Falling { .. })), "{flaw:?}");
    }

    #[test]
    fn matrix_products_may_fall(noise in prop::collection::vec(0.0..3.0, 1..40)) {
        prop_assert_eq!(sound(gemm(), 0.8, 0.005, &noise).flaw(&h200()), None);
    }
}

#[test]
fn attention_that_falls_with_its_heads_is_found() {
    let slice = sound(prefill(), 0.05, 0.005, &[0.0]);
    // More heads take a quarter of the time, which is still below the peak.
    let ms: Vec<Option<f64>> = (cells(&slice))
        .map(|([n, ..], ms)| ms.map(|ms| if n == 64 { ms / 12.0 } else { ms }))
        .collect();
    let flaw = slice.with_ms(ms).flaw(&h200()).expect("is faulty");
    assert!(
        matches!(&flaw, SliceFlaw::Falling { latencies: 6, of: 12, at, .. } if at.starts_with("n = 64")),
        "{flaw}"
    );
}

#[test]
fn gaps_are_no_fault() {
    assert_eq!(gemm().flaw(&h200()), None);
    assert_eq!(all_reduce(2).flaw(&h200()), None);
}

#[test]
fn flaws_say_where_and_how_much() {
    let slice = with_fault(sound(prefill(), 0.5, 0.005, &[0.0]), 17, 0.157);
    assert_eq!(
        slice.flaw(&h200()).expect("is faulty").to_string(),
        "1 of 18 latencies exceed the peak of the GPU (worst: 0.1570 ms at n = 64, s = 16384, b = 4, where the \
         arithmetic takes 17.7879 ms at the peak rate)"
    );
    let slice = with_fault(sound(all_reduce(8), 0.5, 0.005, &[0.0]), 3, 0.0040);
    assert_eq!(
        slice.flaw(&h200()).expect("is faulty").to_string(),
        "1 of 22 latencies fall although the work grows (worst: 0.0040 ms at elements = 1024 after 0.0050 ms for less)"
    );
}

/// What the checks find in the built-in tables. `perfdata/README.md` judges it.
#[cfg(feature = "bundled")]
mod built_in {
    use super::*;
    use crate::perfdata::{Perfdata, TableSet};

    fn flawed<S: PhysicalSlice>(set: &TableSet, found: &mut Vec<String>) {
        for slice in set.load::<S>().expect("is valid").slices {
            if let Some(flaw) = slice.flaw(&h200()) {
                println!("{}: {}: {flaw}", set.path::<S>(), slice.describe());
                found.push(format!("{} {}: {}", set.version, S::TABLE, slice.describe()));
            }
        }
    }

    fn attention(version: &str, head_dim: u64, window: &str) -> Vec<String> {
        let formats = ["bfloat16", "fp8"];
        let slice = |kv: &str, heads: u64| {
            format!("{version} context_attention: bfloat16, {kv} kv, head_dim {head_dim}, kv heads {heads}{window}")
        };
        (formats.iter())
            .flat_map(|kv| [1, 2, 4, 8].map(|heads| slice(kv, heads)))
            .collect()
    }

    #[test]
    fn faults_are_known() {
        let sets = Perfdata::Bundled.table_sets().expect("are built in");
        assert_eq!(sets.len(), 4);
        let mut found = Vec::new();
        for set in &sets {
            flawed::<GemmSlice>(set, &mut found);
            flawed::<PrefillAttentionSlice>(set, &mut found);
            flawed::<DecodeAttentionSlice>(set, &mut found);
            flawed::<AllReduceSlice>(set, &mut found);
            if set.has::<MoeSlice>() {
                flawed::<MoeSlice>(set, &mut found);
                flawed::<NcclSlice>(set, &mut found);
            }
        }
        found.sort_unstable();
        let mut expected = vec![
            "0.5.6.post2 custom_allreduce: tp 2".to_owned(),
            "0.14.0 custom_allreduce: tp 8".to_owned(),
        ];
        // The rows with 64 elements per head are the same in both versions.
        for version in ["0.14.0", "0.19.0"] {
            expected.extend(attention(version, 64, ""));
            expected.extend(attention(version, 64, ", window 128"));
        }
        expected.extend(attention("0.19.0", 128, ""));
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
