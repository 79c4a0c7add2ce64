//! How one worker spreads a model over its GPUs.

use std::fmt;

use serde::Serialize;

use crate::engine::Backend;
use crate::model::ModelSpec;

/// The GPUs of one worker and what each of them holds.
///
/// A dense model is cut into `tp` parts. A mixture-of-experts model may have several such groups
/// (`attention_dp`), each with its own sequences and KV cache, while the experts are spread over all GPUs
/// of the worker: `moe_ep` groups hold different experts, and the GPUs of a group hold `moe_tp` parts of each.
/// So `tp * attention_dp = moe_tp * moe_ep`, which is the number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ParallelShape {
    /// Parts that attention, and everything else but experts, is cut into (tensor parallel).
    pub tp: u32,
    /// Groups of `tp` GPUs that attend to different sequences (data parallel).
    #[serde(skip_serializing_if = "is_one")]
    pub attention_dp: u32,
    /// Parts that each expert is cut into; `None` is inferred, see [`ParallelShape::of_model`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_tp: Option<u32>,
    /// Groups of GPUs with different experts (expert parallel); `None` is inferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_ep: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

impl ParallelShape {
    /// `tp` GPUs that share everything; nothing is said about experts.
    pub const fn tensor(tp: u32) -> Self {
        Self {
            tp,
            attention_dp: 1,
            moe_tp: None,
            moe_ep: None,
        }
    }

    /// A shape whose experts are spread in this way.
    pub const fn experts(tp: u32, attention_dp: u32, moe_tp: u32, moe_ep: u32) -> Self {
        Self {
            tp,
            attention_dp,
            moe_tp: Some(moe_tp),
            moe_ep: Some(moe_ep),
        }
    }

    /// GPUs of a worker.
    pub const fn gpus(self) -> u32 {
        self.tp.saturating_mul(self.attention_dp)
    }

    /// Whether no size but the tensor-parallel one is anything but 1.
    pub const fn is_tensor_only(self) -> bool {
        self.attention_dp == 1 && matches!((self.moe_tp, self.moe_ep), (None | Some(1), None | Some(1)))
    }

    /// How experts are spread, as `(moe_tp, moe_ep)`. One that is not given follows from the other; without
    /// both, every GPU holds a part of every expert, as vLLM does unless told otherwise.
    ///
    /// # Errors
    ///
    /// Why there is no such spread: `tp * attention_dp` and `moe_tp * moe_ep` differ.
    pub fn spread(self) -> Result<(u32, u32), String> {
        let gpus = u64::from(self.tp) * u64::from(self.attention_dp);
        let found = match (self.moe_tp, self.moe_ep) {
            (None, None) => u32::try_from(gpus).ok().map(|gpus| (gpus, 1)),
            (Some(moe_tp), None) => partner(gpus, moe_tp).map(|moe_ep| (moe_tp, moe_ep)),
            (None, Some(moe_ep)) => partner(gpus, moe_ep).map(|moe_tp| (moe_tp, moe_ep)),
            (Some(moe_tp), Some(moe_ep)) => (u64::from(moe_tp) * u64::from(moe_ep) == gpus).then_some((moe_tp, moe_ep)),
        };
        found.ok_or_else(|| {
            let given = |name: &str, size: Option<u32>| size.map(|size| format!("{name} {size}"));
            let sizes = [given("moe_tp", self.moe_tp), given("moe_ep", self.moe_ep)];
            let sizes: Vec<String> = sizes.into_iter().flatten().collect();
            format!(
                "tp {} times attention_dp {} is {gpus}, which must equal moe_tp times moe_ep; {} cannot do that",
                self.tp,
                self.attention_dp,
                sizes.join(" with ")
            )
        })
    }

    /// This shape with nothing left open, for a model that is served by `backend`. For dense models, and such that
    /// nothing is known about, that is [`ParallelShape::tensor`].
    ///
    /// # Errors
    ///
    /// Why such a worker cannot be: the GPUs for attention and for experts differ in number, the experts do
    /// not divide, vLLM is asked for both `moe_tp` and `moe_ep`, or the model has no experts.
    pub fn of_model(self, model: Option<&ModelSpec>, backend: Backend) -> Result<Self, String> {
        let Some(moe) = model.and_then(|model| model.moe.as_ref()) else {
            return if self.is_tensor_only() {
                Ok(Self::tensor(self.tp))
            } else {
                Err("attention_dp, moe_tp and moe_ep are for mixture-of-experts models; leave them out".to_owned())
            };
        };
        let (moe_tp, moe_ep) = self.spread()?;
        if backend == Backend::Vllm && moe_tp > 1 && moe_ep > 1 {
            return Err(format!(
                "vLLM does not cut experts (moe_tp {moe_tp}) that are spread over groups (moe_ep {moe_ep}); \
                 one of the two must be 1"
            ));
        }
        if moe_ep == 0 || !moe.experts.is_multiple_of(moe_ep) {
            return Err(format!(
                "moe_ep {moe_ep} does not divide the {} experts; choose a divisor",
                moe.experts
            ));
        }
        Ok(Self {
            moe_tp: Some(moe_tp),
            moe_ep: Some(moe_ep),
            ..self
        })
    }
}

/// What `size` has to be multiplied with to give `gpus`.
fn partner(gpus: u64, size: u32) -> Option<u32> {
    let size = u64::from(size);
    let fits = size != 0 && gpus.is_multiple_of(size);
    fits.then(|| u32::try_from(gpus / size).ok()).flatten()
}

/// The tensor-parallel size, and every other size that is not 1: `tp 4 moe_ep 4`.
impl fmt::Display for ParallelShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tp {}", self.tp)?;
        for (name, size) in self.other_sizes() {
            write!(f, " {name} {size}")?;
        }
        Ok(())
    }
}

impl ParallelShape {
    /// Names and values of the sizes beside `tp` that are not 1.
    pub fn other_sizes(self) -> impl Iterator<Item = (&'static str, u32)> {
        let sizes = [
            ("attention_dp", self.attention_dp),
            ("moe_tp", self.moe_tp.unwrap_or(1)),
            ("moe_ep", self.moe_ep.unwrap_or(1)),
        ];
        sizes.into_iter().filter(|&(_, size)| size != 1)
    }
}

#[cfg(test)]
mod tests {
    use super::ParallelShape;

    #[track_caller]
    fn check(shape: ParallelShape, expected: Result<(u32, u32), &str>) {
        match (shape.spread(), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn what_is_left_open_is_inferred() {
        let shape = |tp, attention_dp, moe_tp, moe_ep| ParallelShape {
            tp,
            attention_dp,
            moe_tp,
            moe_ep,
        };
        check(ParallelShape::tensor(4), Ok((4, 1)));
        check(shape(2, 4, None, None), Ok((8, 1)));
        check(shape(2, 2, None, Some(4)), Ok((1, 4)));
        check(shape(4, 1, Some(2), None), Ok((2, 2)));
        check(ParallelShape::experts(8, 1, 1, 8), Ok((1, 8)));
        check(
            shape(4, 1, Some(3), None),
            Err("tp 4 times attention_dp 1 is 4, which must equal moe_tp times moe_ep; moe_tp 3 cannot"),
        );
        check(ParallelShape::experts(2, 2, 2, 1), Err("moe_tp 2 with moe_ep 1 cannot"));
        check(shape(2, 1, None, Some(0)), Err("moe_ep 0 cannot"));
    }

    #[test]
    fn names_leave_out_what_is_one() {
        assert_eq!(ParallelShape::tensor(2).to_string(), "tp 2");
        assert_eq!(ParallelShape::experts(4, 1, 1, 4).to_string(), "tp 4 moe_ep 4");
        assert_eq!(
            ParallelShape::experts(1, 8, 8, 1).to_string(),
            "tp 1 attention_dp 8 moe_tp 8"
        );
    }
}
