//! Measurements of one GPU, scaled to another.

use dynosim_spec::GpuSpec;

use crate::soundness::{PhysicalSlice, cells, roofline_ms};

/// `slice`, measured on `measured`, as it would be on `target`.
///
/// A call costs what it costs to start, which is taken to be the shortest latency of the slice and the same on
/// both GPUs (the host, the launch and the first wait do not depend on the GPU's rates), and the rest, which is
/// multiplied by the ratio of the two GPUs' roofline times of this very call. So a call bound by memory follows the
/// bandwidth, one bound by arithmetic the peak rate of its number format, and an all-reduce the links; a call
/// that is bound by one on `measured` and by the other on `target` gets the ratio of the two limits.
pub(crate) fn scaled<S: PhysicalSlice>(slice: S, measured: &GpuSpec, target: &GpuSpec) -> S {
    let start_ms = slice
        .ms()
        .iter()
        .flatten()
        .copied()
        .min_by(f64::total_cmp)
        .unwrap_or(0.0);
    let ms = cells(&slice).map(|(keys, ms)| {
        let on = |gpu| roofline_ms(slice.needs(keys, gpu));
        let (there, here) = (on(measured), on(target));
        let ratio = if there > 0.0 { here / there } else { 1.0 };
        ms.map(|ms| start_ms + (ms - start_ms) * ratio)
    });
    let ms = ms.collect();
    slice.with_ms(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precision::{ExpertDtype, GemmDtype};
    use crate::table_file::{AllReduceSlice, GemmSlice, MoeSlice, TableSlice};

    fn gpu(name: &str) -> GpuSpec {
        GpuSpec::find(name).expect("is known")
    }

    /// Four calls of a weight of 4096 x 4096: two bound by memory, two by arithmetic on all GPUs here.
    fn gemm(dtype: GemmDtype) -> GemmSlice {
        GemmSlice {
            dtype,
            sources: Vec::new(),
            m: vec![1, 16, 4096, 16384],
            n: vec![4096],
            k: vec![4096],
            ms: vec![Some(0.010), Some(0.011), Some(0.200), Some(0.800)],
        }
    }

    #[track_caller]
    fn check(dtype: GemmDtype, target: &str, memory_ratio: f64, arithmetic_ratio: f64) {
        let slice = scaled(gemm(dtype), &gpu("h200_sxm"), &gpu(target));
        let expected = [
            0.010,
            0.010 + 0.001 * memory_ratio,
            0.010 + 0.190 * arithmetic_ratio,
            0.010 + 0.790 * arithmetic_ratio,
        ];
        for (found, expected) in slice.ms().iter().flatten().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{target}: {found}, {expected}");
        }
    }

    #[test]
    fn each_call_follows_what_bounds_it() {
        check(GemmDtype::Bfloat16, "h200_sxm", 1.0, 1.0);
        check(GemmDtype::Bfloat16, "h100_sxm", 4.8 / 3.35, 1.0);
        check(GemmDtype::Bfloat16, "a100_sxm", 4.8 / 2.039, 989.0 / 312.0);
        check(GemmDtype::Fp8Block, "b200_sxm", 4.8 / 7.7, 1978.0 / 4500.0);
        check(GemmDtype::Fp8, "l40s", 4.8 / 0.864, 1978.0 / 733.0);
    }

    #[test]
    fn experts_follow_what_bounds_them() {
        let slice = MoeSlice {
            dtype: ExpertDtype::Fp8Block,
            distribution: "power_law_1.2".to_owned(),
            topk: 8,
            num_experts: 128,
            hidden_size: 4096,
            inter_size: 1536,
            moe_tp_size: 1,
            moe_ep_size: 1,
            sources: Vec::new(),
            num_tokens: vec![1, 2, 65_536],
            ms: vec![Some(0.05), Some(0.07), Some(10.05)],
        };
        let slice = scaled(slice, &gpu("h200_sxm"), &gpu("b200_sxm"));
        let expected = [0.05, 0.05 + 0.02 * 4.8 / 7.7, 0.05 + 10.0 * 989.0 / 2250.0];
        for (found, expected) in slice.ms().iter().flatten().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        }
    }

    #[test]
    fn all_reduces_follow_the_links_and_gaps_stay() {
        let slice = AllReduceSlice {
            tp: 2,
            sources: Vec::new(),
            elements: vec![128, 1024, 1 << 20],
            ms: vec![Some(0.005), None, Some(0.025)],
        };
        let slice = scaled(slice, &gpu("h200_sxm"), &gpu("b200_sxm"));
        assert_eq!(slice.ms, [Some(0.005), None, Some(0.005 + 0.02 / 2.0)]);
    }
}
