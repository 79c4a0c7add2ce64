//! Records that are part of the crate.

#[cfg(feature = "bundled")]
const TEXTS: &[&str] = &[
    include_str!("../../../../perfdata/calibrations/vllm_fp8_per_tensor.json"),
    include_str!("../../../../perfdata/calibrations/vllm_bfloat16.json"),
];

/// Nothing is embedded without the feature `bundled`.
#[cfg(not(feature = "bundled"))]
const TEXTS: &[&str] = &[];

/// The text of every bundled record.
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().copied()
}
