//! All-reduces from measured tables.

use dynosim_spec::GpuSpec;

use crate::curve::{Above, Curve};
use crate::reading::Reading;
use crate::repair::Standing;
use crate::table_file::AllReduceSlice;

/// All-reduce of one tensor-parallel group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AllReduce {
    curve: Curve,
    /// Slower links between nodes, for groups that span several.
    factor: f64,
}

impl AllReduce {
    /// GPUs of the measured group that prices a group of `tp`: at most a node.
    pub(crate) fn measured_group(tp: u32, gpu: &GpuSpec) -> u32 {
        tp.min(gpu.gpus_per_node)
    }

    /// Prices a group of `tp` GPUs from the measurements of [`AllReduce::measured_group`]; `None` without any.
    pub(crate) fn of(slice: &AllReduceSlice, tp: u32, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
        let points = slice.elements.iter().zip(&slice.ms);
        let points = points.filter_map(|(&elements, ms)| Some((elements, Reading::measured((*ms)?))));
        let curve = Curve::new(points, Above::Line)?;
        Some(Self {
            curve: match standing {
                Standing::Measured => curve,
                Standing::Extrapolated => curve.extrapolated(),
            },
            factor: Self::between_nodes(tp, gpu),
        })
    }

    /// In a ring each GPU sends `(tp - 1) / tp` of the message twice, between nodes over the slower link.
    fn between_nodes(tp: u32, gpu: &GpuSpec) -> f64 {
        let node = Self::measured_group(tp, gpu);
        if tp <= node {
            return 1.0;
        }
        let (tp, node) = (f64::from(tp), f64::from(node));
        (tp - 1.0) / tp * node / (node - 1.0) * gpu.intra_node_bandwidth / gpu.inter_node_bandwidth
    }

    /// Latency of a message of `elements` 16-bit elements.
    pub(crate) fn at(&self, elements: u64) -> Reading {
        let spans_nodes = self.factor > 1.0;
        self.curve.at(elements).scaled(self.factor).or_extrapolated(spans_nodes)
    }
}
