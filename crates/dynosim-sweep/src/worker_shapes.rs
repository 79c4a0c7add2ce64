//! Workers of every role and parallel shape that a sweep may use, bound once.

use dynosim_core::{Scenario, SimError, WorkerShape};
use dynosim_spec::{ParallelShape, WorkerRole};
use dynosim_timing::{TimingError, TimingProvider};
use indexmap::IndexMap;
use serde::Serialize;

/// A parallel shape that cannot be used; for dense models, a tensor-parallel size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LeftOutTp {
    /// Role of the workers.
    pub role: WorkerRole,
    /// GPUs of one worker.
    #[serde(flatten)]
    pub shape: ParallelShape,
    /// Why such a worker cannot be had.
    pub reason: String,
}

/// KV capacity of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct KvCapacity {
    /// Role of the workers.
    pub role: WorkerRole,
    /// GPUs of one worker.
    #[serde(flatten)]
    pub shape: ParallelShape,
    /// Tokens per block.
    pub block_size: u32,
    /// Blocks that simulations gave the worker: as pinned, else as estimated.
    pub blocks_used: u32,
    /// Blocks that fit by the timing provider's estimate; `None` if it has none.
    pub blocks_estimated: Option<u32>,
}

/// Worker shapes by role and parallel shape, ascending within a role.
#[derive(Debug)]
pub(crate) struct WorkerShapes {
    shapes: IndexMap<(WorkerRole, ParallelShape), Result<WorkerShape, String>>,
}

impl WorkerShapes {
    /// Binds every shape that the provider offers, for each of these roles.
    pub(crate) fn bind(scenario: &Scenario, provider: &dyn TimingProvider, roles: &[WorkerRole]) -> Self {
        let backend = scenario.engine().backend;
        let mut offered = provider.parallel_shapes(scenario.model(), scenario.gpu(), backend);
        offered.retain(|shape| shape.gpus() > 0);
        offered.sort_unstable();
        offered.dedup();
        let keys = (roles.iter()).flat_map(|&role| offered.iter().map(move |&shape| (role, shape)));
        Self {
            shapes: keys
                .map(|(role, shape)| ((role, shape), bind(scenario, provider, role, shape)))
                .collect(),
        }
    }

    /// The shape, or why there is none.
    pub(crate) fn get(&self, role: WorkerRole, shape: ParallelShape) -> Result<&WorkerShape, String> {
        match self.shapes.get(&(role, shape)) {
            Some(Ok(shape)) => Ok(shape),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err(format!(
                "{shape} is not among the sizes that the timing provider offers"
            )),
        }
    }

    /// Shapes that workers of this role can have, ascending.
    pub(crate) fn usable(&self, role: WorkerRole) -> Vec<ParallelShape> {
        let usable = self.shapes.iter().filter(|(key, shape)| key.0 == role && shape.is_ok());
        usable.map(|(key, _)| key.1).collect()
    }

    /// Shapes that were tried in vain.
    pub(crate) fn left_out(&self) -> Vec<LeftOutTp> {
        let left_out = self.shapes.iter().filter_map(|(&(role, shape), bound)| {
            let reason = bound.as_ref().err()?.clone();
            Some(LeftOutTp { role, shape, reason })
        });
        left_out.collect()
    }

    /// The shapes among `used`, in their order here.
    pub(crate) fn among(&self, used: &[(WorkerRole, ParallelShape)]) -> Vec<&WorkerShape> {
        let shapes = self.shapes.iter().filter(|(key, _)| used.contains(key));
        shapes.filter_map(|(_, shape)| shape.as_ref().ok()).collect()
    }
}

impl KvCapacity {
    pub(crate) fn of(shape: &WorkerShape) -> Self {
        Self {
            role: shape.deployment.engine.role,
            shape: shape.deployment.shape,
            block_size: shape.deployment.engine.block_size.tokens(),
            blocks_used: shape.num_gpu_blocks,
            blocks_estimated: shape.estimated_blocks,
        }
    }
}

fn bind(
    scenario: &Scenario,
    provider: &dyn TimingProvider,
    role: WorkerRole,
    shape: ParallelShape,
) -> Result<WorkerShape, String> {
    let bound = scenario
        .worker_shape(role, shape, provider)
        .map_err(|error: SimError| error.to_string())?;
    // Pinned blocks do not make room on a GPU that the weights fill.
    match provider.kv_capacity_tokens(&bound.deployment) {
        Ok(0) => Err(format!("no room for KV cache at {shape}")),
        // Without facts there is nothing to hold against what the user has pinned.
        Ok(_) | Err(TimingError::UnknownModel { .. }) => Ok(bound),
        Err(error) => Err(error.to_string()),
    }
}
