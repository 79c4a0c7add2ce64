//! Which GPUs of which node each worker gets.

use super::worker_pool::WorkerPool;

/// A worker's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of its pool.
    pub(super) pool: usize,
    /// Index within the pool.
    pub(super) worker: u32,
    /// Node, from 0.
    pub(super) node: usize,
    /// First of its GPUs.
    pub(super) first_gpu: u32,
}

/// Puts every worker on the first node with as many free GPUs. Workers that are larger than a node have no place.
pub(super) fn places(pools: &[WorkerPool]) -> Option<Vec<Place>> {
    let mut used_gpus: Vec<u32> = Vec::new();
    let mut places = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        let gpus = pool.shape.gpus();
        if gpus > pool.gpus_per_node {
            return None;
        }
        for worker in 0..pool.workers {
            let has_room = |&used: &u32| used + gpus <= pool.gpus_per_node;
            let node = used_gpus.iter().position(has_room).unwrap_or_else(|| {
                used_gpus.push(0);
                used_gpus.len() - 1
            });
            places.push(Place {
                pool: index,
                worker,
                node,
                first_gpu: used_gpus[node],
            });
            used_gpus[node] += gpus;
        }
    }
    Some(places)
}
