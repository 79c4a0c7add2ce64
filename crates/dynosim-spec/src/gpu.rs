//! Facts about GPU systems.

use serde::Serialize;

use crate::error::SpecError;
use crate::nearest::nearest;

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
    /// Streaming multiprocessors, which work side by side.
    pub multiprocessors: u32,
}

impl GpuSpec {
    /// The GPU system with this name.
    ///
    /// Figures are the vendors' data-sheet rates as listed by `AIConfigurator` 0.10.0. Between the nodes of a
    /// `gb200` rack of 72 GPUs the links are as fast as within a node.
    ///
    /// # Errors
    ///
    /// [`SpecError::UnknownSystem`] with the nearest name and all known ones.
    ///
    /// ```
    /// use dynosim_spec::GpuSpec;
    ///
    /// let gpu = GpuSpec::find("h200_sxm")?;
    /// assert_eq!(gpu.gpus_per_node, 8);
    /// # Ok::<(), dynosim_spec::SpecError>(())
    /// ```
    pub fn find(system: &str) -> Result<Self, SpecError> {
        let Some(row) = SYSTEMS.iter().find(|row| row.name == system) else {
            return Err(SpecError::UnknownSystem {
                name: system.to_owned(),
                nearest: nearest(system, Self::known_names()).map(str::to_owned),
                known: Self::known_names().map(str::to_owned).collect(),
            });
        };
        Ok(Self {
            name: row.name.to_owned(),
            memory_bandwidth: row.memory_bandwidth,
            memory_bytes: row.memory_bytes,
            bf16_flops: row.bf16_flops,
            fp8_flops: row.fp8_flops,
            intra_node_bandwidth: row.intra_node_bandwidth,
            inter_node_bandwidth: row.inter_node_bandwidth,
            gpus_per_node: row.gpus_per_node,
            multiprocessors: row.multiprocessors,
        })
    }

    /// Names of all known GPU systems.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        SYSTEMS.iter().map(|row| row.name)
    }
}

/// A row of [`SYSTEMS`]: a [`GpuSpec`] whose name is static.
struct Row {
    name: &'static str,
    memory_bandwidth: f64,
    memory_bytes: u64,
    bf16_flops: f64,
    fp8_flops: Option<f64>,
    intra_node_bandwidth: f64,
    inter_node_bandwidth: f64,
    gpus_per_node: u32,
    multiprocessors: u32,
}

const SYSTEMS: &[Row] = &[
    Row {
        name: "h200_sxm",
        memory_bandwidth: 4.8e12,
        memory_bytes: 151_397_597_184,
        bf16_flops: 989e12,
        fp8_flops: Some(1978e12),
        intra_node_bandwidth: 450e9,
        inter_node_bandwidth: 50e9,
        gpus_per_node: 8,
        multiprocessors: 132,
    },
    Row {
        name: "h100_sxm",
        memory_bandwidth: 3.35e12,
        memory_bytes: 85_899_345_920,
        bf16_flops: 989e12,
        fp8_flops: Some(1978e12),
        intra_node_bandwidth: 450e9,
        inter_node_bandwidth: 50e9,
        gpus_per_node: 8,
        multiprocessors: 132,
    },
    Row {
        name: "h100_pcie",
        memory_bandwidth: 2.0e12,
        memory_bytes: 85_899_345_920,
        bf16_flops: 756.5e12,
        fp8_flops: Some(1513e12),
        intra_node_bandwidth: 64e9,
        inter_node_bandwidth: 50e9,
        gpus_per_node: 8,
        multiprocessors: 114,
    },
    Row {
        name: "a100_sxm",
        memory_bandwidth: 2.039e12,
        memory_bytes: 85_899_345_920,
        bf16_flops: 312e12,
        fp8_flops: None,
        intra_node_bandwidth: 300e9,
        inter_node_bandwidth: 25e9,
        gpus_per_node: 8,
        multiprocessors: 108,
    },
    Row {
        name: "l40s",
        memory_bandwidth: 0.864e12,
        memory_bytes: 48_305_799_168,
        bf16_flops: 362.05e12,
        fp8_flops: Some(733e12),
        intra_node_bandwidth: 32e9,
        inter_node_bandwidth: 50e9,
        gpus_per_node: 8,
        multiprocessors: 142,
    },
    Row {
        name: "b200_sxm",
        memory_bandwidth: 7.7e12,
        memory_bytes: 193_273_528_320,
        bf16_flops: 2250e12,
        fp8_flops: Some(4500e12),
        intra_node_bandwidth: 900e9,
        inter_node_bandwidth: 100e9,
        gpus_per_node: 8,
        multiprocessors: 148,
    },
    Row {
        name: "b300_sxm",
        memory_bandwidth: 7.75e12,
        memory_bytes: 288_400_343_040,
        bf16_flops: 2250e12,
        fp8_flops: Some(4500e12),
        intra_node_bandwidth: 900e9,
        inter_node_bandwidth: 100e9,
        gpus_per_node: 8,
        multiprocessors: 148,
    },
    Row {
        name: "gb200",
        memory_bandwidth: 8.0e12,
        memory_bytes: 198_674_743_296,
        bf16_flops: 2500e12,
        fp8_flops: Some(5000e12),
        intra_node_bandwidth: 900e9,
        inter_node_bandwidth: 900e9,
        gpus_per_node: 4,
        multiprocessors: 148,
    },
];

#[cfg(test)]
mod tests {
    use super::GpuSpec;

    #[test]
    fn every_known_system_is_found() {
        for name in GpuSpec::known_names() {
            let gpu = GpuSpec::find(name).expect("listed systems are known");
            assert_eq!(gpu.name, name);
            assert!(gpu.fp8_flops.is_none_or(|fp8| fp8 > gpu.bf16_flops), "{name}");
        }
    }

    #[test]
    fn an_unknown_system_is_answered_with_the_nearest() {
        let error = GpuSpec::find("H200-SXM").expect_err("the spelling is wrong");
        assert_eq!(
            error.to_string(),
            "unknown GPU system `H200-SXM`, did you mean `h200_sxm`? (known: h200_sxm, h100_sxm, h100_pcie, \
             a100_sxm, l40s, b200_sxm, b300_sxm, gb200)"
        );
    }
}
