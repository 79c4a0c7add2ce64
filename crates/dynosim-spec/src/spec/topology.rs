//! How many workers a deployment has, and what each of them is: the `topology` object of a run.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::engine::WorkerRole;
use crate::parallel_shape::ParallelShape;
use crate::reader::{Section, Whole};

/// Workers of a pool, and GPUs of a worker: as many as a sweep may use.
const COUNT: Whole = Whole::at_least(1).at_most(65_536);

/// Workers of each pool and GPUs of each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Every worker computes prompt and output.
    Aggregated {
        /// Workers, at least 1.
        workers: u32,
        /// GPUs of one worker.
        shape: ParallelShape,
    },
    /// Prompts and outputs are computed by separate pools.
    Disaggregated {
        /// Workers of the prefill pool, at least 1.
        prefill_workers: u32,
        /// Workers of the decode pool, at least 1.
        decode_workers: u32,
        /// GPUs of one prefill worker.
        prefill_shape: ParallelShape,
        /// GPUs of one decode worker.
        decode_shape: ParallelShape,
    },
}

/// One pool of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTopology {
    /// Part of a request's life that the pool serves.
    pub role: WorkerRole,
    /// Its workers.
    pub workers: u32,
    /// GPUs of one worker.
    pub shape: ParallelShape,
}

/// The keys of one pool, in the order in which documents have them.
struct PoolKeys {
    workers: &'static str,
    tp: &'static str,
    attention_dp: &'static str,
    moe_tp: &'static str,
    moe_ep: &'static str,
}

const AGGREGATED: PoolKeys = PoolKeys {
    workers: "workers",
    tp: "tp",
    attention_dp: "attentionDp",
    moe_tp: "moeTp",
    moe_ep: "moeEp",
};
const PREFILL: PoolKeys = PoolKeys {
    workers: "prefillWorkers",
    tp: "prefillTp",
    attention_dp: "prefillAttentionDp",
    moe_tp: "prefillMoeTp",
    moe_ep: "prefillMoeEp",
};
const DECODE: PoolKeys = PoolKeys {
    workers: "decodeWorkers",
    tp: "decodeTp",
    attention_dp: "decodeAttentionDp",
    moe_tp: "decodeMoeTp",
    moe_ep: "decodeMoeEp",
};

impl Topology {
    /// The pools, in the order in which a request passes through them.
    pub fn pools(&self) -> Vec<PoolTopology> {
        let pool = |role, workers, shape| PoolTopology { role, workers, shape };
        match *self {
            Self::Aggregated { workers, shape } => vec![pool(WorkerRole::Aggregated, workers, shape)],
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => vec![
                pool(WorkerRole::Prefill, prefill_workers, prefill_shape),
                pool(WorkerRole::Decode, decode_workers, decode_shape),
            ],
        }
    }

    /// GPUs that the deployment occupies.
    pub fn total_gpus(&self) -> u64 {
        self.pools()
            .iter()
            .map(|pool| u64::from(pool.workers) * u64::from(pool.shape.gpus()))
            .fold(0, u64::saturating_add)
    }

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        if section.reads() {
            let disaggregated = [PREFILL.workers, DECODE.workers, PREFILL.tp, DECODE.tp];
            let pools = [&disaggregated[..], &PREFILL.of_experts(), &DECODE.of_experts()].concat();
            let aggregated = [&[AGGREGATED.workers, AGGREGATED.tp][..], &AGGREGATED.of_experts()].concat();
            let (of_pools, of_one) = (section.present(&pools), section.present(&aggregated));
            if let ([pool, ..], [other, ..]) = (of_pools.as_slice(), of_one.as_slice()) {
                let message = format!(
                    "needs either workers and tp or {}, got both {other} and {pool}",
                    disaggregated.join(", ")
                );
                section.violation("", message);
                section.accept(&aggregated);
                section.accept(&pools);
                return;
            }
            let shape = ParallelShape::tensor(1);
            *self = if of_pools.is_empty() {
                Self::Aggregated { workers: 1, shape }
            } else {
                Self::Disaggregated {
                    prefill_workers: 1,
                    decode_workers: 1,
                    prefill_shape: shape,
                    decode_shape: shape,
                }
            };
        }
        match self {
            Self::Aggregated { workers, shape } => {
                section.required(AGGREGATED.workers, workers, &COUNT);
                AGGREGATED.shape(shape, section);
            }
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => {
                section.required(PREFILL.workers, prefill_workers, &COUNT);
                section.required(DECODE.workers, decode_workers, &COUNT);
                PREFILL.shape(prefill_shape, section);
                DECODE.shape(decode_shape, section);
            }
        }
    }
}

impl PoolKeys {
    const fn of_experts(&self) -> [&'static str; 3] {
        [self.attention_dp, self.moe_tp, self.moe_ep]
    }

    fn shape(&self, shape: &mut ParallelShape, section: &mut Section<'_, '_>) {
        let right = [
            section.required(self.tp, &mut shape.tp, &COUNT),
            section.optional(self.attention_dp, &mut shape.attention_dp, &COUNT),
            section.option(self.moe_tp, &mut shape.moe_tp, &COUNT),
            section.option(self.moe_ep, &mut shape.moe_ep, &COUNT),
        ];
        if right != [true; 4] || shape.is_tensor_only() {
            return;
        }
        if let Err(reason) = shape.spread() {
            section.violation(self.tp, reason);
        }
    }

    fn serialize<M: SerializeMap>(&self, shape: ParallelShape, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.tp, &shape.tp)?;
        if shape.attention_dp != 1 {
            map.serialize_entry(self.attention_dp, &shape.attention_dp)?;
        }
        for (key, size) in [(self.moe_tp, shape.moe_tp), (self.moe_ep, shape.moe_ep)] {
            if let Some(size) = size {
                map.serialize_entry(key, &size)?;
            }
        }
        Ok(())
    }
}

/// As documents have it; sizes that were not chosen are left out.
impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Aggregated { workers, shape } => {
                map.serialize_entry(AGGREGATED.workers, workers)?;
                AGGREGATED.serialize(*shape, &mut map)?;
            }
            Self::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => {
                map.serialize_entry(PREFILL.workers, prefill_workers)?;
                map.serialize_entry(DECODE.workers, decode_workers)?;
                PREFILL.serialize(*prefill_shape, &mut map)?;
                DECODE.serialize(*decode_shape, &mut map)?;
            }
        }
        map.end()
    }
}
