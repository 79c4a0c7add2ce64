//! Collective operations from measured tables: all-reduces, and exchanges between data-parallel groups.

use dynosim_spec::GpuSpec;

use crate::curve::{Above, Curve};
use crate::operators::Dispatch;
use crate::reading::Reading;
use crate::repair::Standing;
use crate::table_file::{AllReduceSlice, NcclSlice};

/// One collective operation of one group of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Collective {
    curve: Curve,
    /// Slower links between nodes, for groups that span several.
    factor: f64,
}

impl Collective {
    /// GPUs of the measured group that prices a group of `tp`: at most a node.
    pub(crate) fn measured_group(tp: u32, gpu: &GpuSpec) -> u32 {
        tp.min(gpu.gpus_per_node)
    }

    /// Prices all-reduces of `tp` GPUs from the measurements of [`Collective::measured_group`]; `None` without any.
    pub(crate) fn all_reduce(slice: &AllReduceSlice, tp: u32, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
        Self::through((&slice.elements, &slice.ms), tp, gpu, standing)
    }

    /// The same for an operation of NCCL.
    pub(crate) fn nccl(slice: &NcclSlice, gpus: u32, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
        Self::through((&slice.elements, &slice.ms), gpus, gpu, standing)
    }

    fn through((elements, ms): (&[u64], &[Option<f64>]), gpus: u32, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
        let points = elements.iter().zip(ms);
        let points = points.filter_map(|(&elements, ms)| Some((elements, Reading::measured((*ms)?))));
        let curve = Curve::new(points, Above::Line)?;
        Some(Self {
            curve: curve.standing(standing),
            factor: Self::between_nodes(gpus, gpu),
        })
    }

    /// In a ring each GPU sends `(tp - 1) / tp` of the message, between nodes over the slower link.
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

/// How data-parallel groups exchange tokens: all gather them before the experts, and sum up afterwards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchange {
    pub(crate) all_gather: Collective,
    pub(crate) reduce_scatter: Collective,
}

impl Exchange {
    /// Latency for `elements` 16-bit elements of all GPUs together.
    pub(crate) fn at(&self, dispatch: Dispatch, elements: u64) -> Reading {
        match dispatch {
            Dispatch::Before => self.all_gather.at(elements),
            Dispatch::After => self.reduce_scatter.at(elements),
        }
    }
}
