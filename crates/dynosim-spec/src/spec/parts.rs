//! Small objects that both documents contain.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::{Backend, Rules};
use crate::reader::{Choice, Flag, OneOf, Presence, Real, Section, Text, Whole};

/// The GPUs: the `hardware` object of a spec.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareSpec {
    /// GPU system, for example `h200_sxm` (see `GpuSpec::find`).
    pub system: String,
    /// GPUs that a candidate of a sweep may use, at least 1; a single run does not need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_gpus: Option<u32>,
    /// GPUs that a candidate of a sweep uses at least; `None` is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gpus: Option<u32>,
    /// Price of a GPU for an hour, in any currency, above 0; what the price of tokens in a sweep follows from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hour_price: Option<f64>,
}

impl HardwareSpec {
    /// This GPU system, without a budget.
    pub fn new(system: impl Into<String>) -> Self {
        Self {
            system: system.into(),
            total_gpus: None,
            min_gpus: None,
            gpu_hour_price: None,
        }
    }

    /// The same system with a budget.
    #[must_use]
    pub fn with_budget(self, total_gpus: u32) -> Self {
        Self {
            total_gpus: Some(total_gpus),
            ..self
        }
    }

    /// Walks the fields of a document that needs a budget, or has no use for one.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>, budget: Presence) {
        section.required(("system", "gpuSku"), &mut self.system, &Text);
        let right = section.option("totalGpus", &mut self.total_gpus, &Whole::at_least(1));
        let least = section.option("minGpus", &mut self.min_gpus, &Whole::at_least(1));
        section.option("gpuHourPrice", &mut self.gpu_hour_price, &Real::above(0.0));
        match budget {
            Presence::Required if right && self.total_gpus.is_none() => {
                section.violation("totalGpus", "is missing; must be a whole number of at least 1");
            }
            Presence::Required => {
                if let (true, Some(least), Some(most)) = (right && least, self.min_gpus, self.total_gpus)
                    && least > most
                {
                    section.violation(
                        "minGpus",
                        format!("must be at most totalGpus, which is {most}, got {least}"),
                    );
                }
            }
            Presence::Optional => {
                for key in ["totalGpus", "minGpus"] {
                    section.idle(key, "in a single run, whose topology says how many GPUs it uses");
                }
                section.idle("gpuHourPrice", "in a single run; a sweep reports what tokens cost");
            }
        }
    }
}

/// Where step times come from: the `timing` object of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimingSpec {
    /// Kind of timing model.
    pub provider: TimingKind,
    /// Engine version whose measurements are meant; only tables have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// Whether measurements that cannot be true are replaced by sound ones of another version, see
    /// [`repairs`](Self::repairs); only tables have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
    /// What the engine adds to its kernels, under rules `vllm-v1-async`: the path of a
    /// [`Calibration`](crate::Calibration), or [`TimingSpec::NO_CALIBRATION`]. `None` is the bundled record for the engine
    /// and the model's weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<String>,
    /// Parts of a step that are left out, to see what they are worth; rules `vllm-v1-async` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<StepTerm>,
}

/// A part of the physics of a step that can be left out of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepTerm {
    /// Steps are scheduled one step ahead; without it, when the step before has ended.
    Pipeline,
    /// Prompts and generated tokens share one pass; without it, they are priced apart and added.
    FusedPass,
    /// Each prompt's attention is priced by its own length; without it, all by the mean length.
    PromptSquares,
    /// Steps that only generate are padded to a CUDA graph's size.
    GraphPadding,
    /// Attention of generated tokens splits the KV cache of long sequences over the GPU; without it, it is priced as
    /// the table has it. A calibrated bandwidth replaces both.
    SplitKv,
    /// Large matrix multiplications of real data are slower than measured.
    GemmDerate,
    /// Every all-reduce costs more than in a table measured without waiting for other ranks.
    AllReduceCall,
    /// The small kernels beside attention (rotary embedding, KV write, norms of queries and keys) run in steps that
    /// only generate, too.
    SideKernels,
    /// The constant of every step.
    StepConstant,
    /// The way of requests and tokens between client and scheduler.
    Client,
}

impl StepTerm {
    /// Every term.
    pub const ALL: &[Self] = &[
        Self::Pipeline,
        Self::FusedPass,
        Self::PromptSquares,
        Self::GraphPadding,
        Self::SplitKv,
        Self::GemmDerate,
        Self::AllReduceCall,
        Self::SideKernels,
        Self::StepConstant,
        Self::Client,
    ];
}

/// The word for it in a spec.
impl fmt::Display for StepTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word())
    }
}

impl TimingSpec {
    /// The calibration in which every constant is neutral.
    pub const NO_CALIBRATION: &str = "none";

    /// The engine version, with the default filled in: 0.5.6.post2 for SGLang; for vLLM 0.19.0, whose matrix
    /// products were measured without a separate quantisation, or 0.14.0 under the rules of the reference or
    /// close to it, as the reference has it.
    pub fn engine_version(&self, backend: Backend, rules: Rules) -> &str {
        self.engine_version.as_deref().unwrap_or(match (backend, rules) {
            (Backend::Vllm, Rules::VllmV1Async) => "0.19.0",
            (Backend::Vllm, Rules::VllmV1 | Rules::Dynosim12) => "0.14.0",
            (Backend::Sglang, _) => "0.5.6.post2",
        })
    }

    /// Whether measurements that cannot be true are replaced: as given, else under all rules but `dynosim-1.2`,
    /// whose purpose is to agree with a simulator that uses them.
    pub fn repairs(&self, rules: Rules) -> bool {
        self.repair.unwrap_or(rules != Rules::Dynosim12)
    }

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        let known = section.optional("provider", &mut self.provider, &OneOf);
        section.option("engineVersion", &mut self.engine_version, &Text);
        section.option("repair", &mut self.repair, &Flag);
        section.option("calibration", &mut self.calibration, &Text);
        section.list_or_none("without", &mut self.without, &OneOf);
        if known && self.provider != TimingKind::Table {
            let given = [
                ("engineVersion", self.engine_version.is_some()),
                ("repair", self.repair.is_some()),
            ];
            for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                section.warn(key, "only has an effect with provider table");
            }
        }
    }
}

/// Kind of timing model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimingKind {
    /// Interpolates measured operator tables.
    #[default]
    Table,
    /// Peak rates of the GPU with calibrated efficiencies.
    Roofline,
    /// The polynomials of the reference, the same for every model and GPU.
    Polynomial,
}
