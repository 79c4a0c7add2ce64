//! Facts about GPU systems.

use serde::Serialize;

/// A GPU and the node it sits in. SI units: bytes, bytes per second, floating-point operations per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuSpec {
    /// System identifier, for example `h200_sxm`.
    pub name: String,
    /// Peak memory bandwidth.
    pub memory_bandwidth: f64,
    /// Memory of one GPU.
    pub memory_bytes: u64,
    /// Peak dense 16-bit rate.
    pub bf16_flops: f64,
    /// Peak dense 8-bit floating-point rate; `None` where the hardware has none.
    pub fp8_flops: Option<f64>,
    /// Link bandwidth within a node, per GPU and direction.
    pub intra_node_bandwidth: f64,
    /// Link bandwidth between nodes, per GPU and direction.
    pub inter_node_bandwidth: f64,
    /// GPUs of one node.
    pub gpus_per_node: u32,
}
