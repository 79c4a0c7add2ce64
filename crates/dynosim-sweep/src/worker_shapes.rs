//! Workers of every role and tensor-parallel size that a sweep may use, bound once.

use dynosim_core::{Scenario, SimError, WorkerShape};
use dynosim_spec::WorkerRole;
use dynosim_timing::{TimingError, TimingProvider};
use indexmap::IndexMap;
use serde::Serialize;

/// A tensor-parallel size that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOutTp {
    /// Role of the workers.
    pub role: WorkerRole,
    /// GPUs of one worker.
    pub tp: u32,
    /// Why such a worker cannot be had.
    pub reason: String,
}

/// KV capacity of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KvCapacity {
    /// Role of the workers.
    pub role: WorkerRole,
    /// GPUs of one worker.
    pub tp: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// Blocks that simulations gave the worker: as pinned, else as estimated.
    pub blocks_used: u32,
    /// Blocks that fit by the timing provider's estimate; `None` if it has none.
    pub blocks_estimated: Option<u32>,
}

/// Worker shapes by role and tensor-parallel size, ascending within a role.
#[derive(Debug)]
pub(crate) struct WorkerShapes {
    shapes: IndexMap<(WorkerRole, u32), Result<WorkerShape, String>>,
}

impl WorkerShapes {
    /// Binds every size that the provider offers, for each of these roles.
    pub(crate) fn bind(scenario: &Scenario, provider: &dyn TimingProvider, roles: &[WorkerRole]) -> Self {
        let mut tps = provider.tp_shapes(scenario.model(), scenario.gpu());
        tps.retain(|&tp| tp > 0);
        tps.sort_unstable();
        tps.dedup();
        let keys = roles.iter().flat_map(|&role| tps.iter().map(move |&tp| (role, tp)));
        Self {
            shapes: keys
                .map(|(role, tp)| ((role, tp), bind(scenario, provider, role, tp)))
                .collect(),
        }
    }

    /// The shape, or why there is none.
    pub(crate) fn get(&self, role: WorkerRole, tp: u32) -> Result<&WorkerShape, String> {
        match self.shapes.get(&(role, tp)) {
            Some(Ok(shape)) => Ok(shape),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err(format!(
                "tp {tp} is not among the sizes that the timing provider offers"
            )),
        }
    }

    /// Sizes that workers of this role can have, ascending.
    pub(crate) fn usable_tps(&self, role: WorkerRole) -> Vec<u32> {
        let usable = self.shapes.iter().filter(|(key, shape)| key.0 == role && shape.is_ok());
        usable.map(|(key, _)| key.1).collect()
    }

    /// Sizes that were tried in vain.
    pub(crate) fn left_out(&self) -> Vec<LeftOutTp> {
        let left_out = self.shapes.iter().filter_map(|(&(role, tp), shape)| {
            let reason = shape.as_ref().err()?.clone();
            Some(LeftOutTp { role, tp, reason })
        });
        left_out.collect()
    }

    /// The shapes among `used`, in their order here.
    pub(crate) fn among(&self, used: &[(WorkerRole, u32)]) -> Vec<&WorkerShape> {
        let shapes = self.shapes.iter().filter(|(key, _)| used.contains(key));
        shapes.filter_map(|(_, shape)| shape.as_ref().ok()).collect()
    }
}

impl KvCapacity {
    pub(crate) fn of(shape: &WorkerShape) -> Self {
        Self {
            role: shape.deployment.engine.role,
            tp: shape.deployment.tp,
            block_size: shape.deployment.engine.block_size.tokens(),
            blocks_used: shape.num_gpu_blocks,
            blocks_estimated: shape.estimated_blocks,
        }
    }
}

fn bind(scenario: &Scenario, provider: &dyn TimingProvider, role: WorkerRole, tp: u32) -> Result<WorkerShape, String> {
    let shape = scenario
        .worker_shape(role, tp, provider)
        .map_err(|error: SimError| error.to_string())?;
    // Pinned blocks do not make room on a GPU that the weights fill.
    match provider.kv_capacity_tokens(&shape.deployment) {
        Ok(0) => Err(format!("no room for KV cache at tp {tp}")),
        // Without facts there is nothing to hold against what the user has pinned.
        Ok(_) | Err(TimingError::UnknownModel { .. }) => Ok(shape),
        Err(error) => Err(error.to_string()),
    }
}
