//! Which slice prices a kernel, where the published one cannot be true.

use std::fmt;

use dynosim_spec::GpuSpec;

use crate::error::TimingError;
use crate::perfdata::TableSet;
use crate::scaling::scaled;
use crate::soundness::{PhysicalSlice, SliceFlaw};
use crate::table_file::engine_name;

/// A slice of a table that cannot be true, and what is used in its place; shown as a sentence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableRepair {
    /// Name of the table, for example `context_attention`.
    pub table: &'static str,
    /// What the slice fixes: number formats, heads, GPUs.
    pub slice: String,
    /// Why it cannot be true.
    pub reason: SliceFlaw,
    /// Serving engine.
    pub engine: &'static str,
    /// Engine version that the slice was published for.
    pub from_version: String,
    /// What is done about it.
    pub remedy: Remedy,
}

/// What is done about a slice that cannot be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// That of another version of the engine is used.
    OtherVersion {
        /// The version.
        to_version: String,
    },
    /// No other version has one that is sound: the published figures are used and count as extrapolated.
    CountedAsExtrapolated,
    /// The published figures are used as they are, because that was asked for.
    AsPublished,
}

impl TableRepair {
    /// The engine version whose slice is used instead, if there is one.
    pub fn to_version(&self) -> Option<&str> {
        match &self.remedy {
            Remedy::OtherVersion { to_version } => Some(to_version),
            Remedy::CountedAsExtrapolated | Remedy::AsPublished => None,
        }
    }
}

impl TableRepair {
    /// What readers of results ought to know about these, each table once if its figures were replaced.
    pub(crate) fn warnings(repairs: &[Self]) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        for repair in repairs {
            let Self {
                table,
                engine,
                from_version,
                ..
            } = repair;
            let warning = match &repair.remedy {
                Remedy::OtherVersion { to_version } => format!(
                    "table {table} of {engine} {from_version} has latencies that cannot be right; the figures of \
                     {engine} {to_version} are used instead"
                ),
                Remedy::CountedAsExtrapolated | Remedy::AsPublished => repair.to_string(),
            };
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        warnings
    }
}

impl fmt::Display for TableRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            slice,
            reason,
            engine,
            from_version,
            remedy,
        } = self;
        write!(
            f,
            "table {table} of {engine} {from_version} cannot be right for {slice}: {reason}; "
        )?;
        match remedy {
            Remedy::OtherVersion { to_version } => write!(f, "the figures of {engine} {to_version} are used instead"),
            Remedy::CountedAsExtrapolated => f.write_str(
                "no other version has sound figures, so these are used and their time counts as extrapolated",
            ),
            Remedy::AsPublished => f.write_str("they are used as published, because repair is off"),
        }
    }
}

/// What to do about slices that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairMode {
    /// Use them all the same.
    AsPublished,
    /// Use those of another version.
    Repaired,
}

/// Where the slices of a deployment come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SliceSource {
    /// The tables that were asked for.
    pub(crate) set: TableSet,
    /// Those of the engine's other versions on the same GPU, nearest first.
    pub(crate) others: Vec<TableSet>,
    /// The GPU they were measured on.
    pub(crate) measured: GpuSpec,
    /// The GPU to price.
    pub(crate) target: GpuSpec,
    pub(crate) mode: RepairMode,
}

/// A slice to price with.
#[derive(Debug)]
pub(crate) struct Chosen<S> {
    pub(crate) slice: S,
    /// Whether to believe it as a measurement of the target.
    pub(crate) standing: Standing,
    /// Present if the published slice cannot be true.
    pub(crate) repair: Option<TableRepair>,
}

/// What figures count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Measured,
    Extrapolated,
}

impl SliceSource {
    /// Whether the figures are those of another GPU.
    pub(crate) fn is_scaled(&self) -> bool {
        self.measured.name != self.target.name
    }

    /// The slice to use where `published` was asked for.
    ///
    /// # Errors
    /// If the table of another version is damaged.
    pub(crate) fn choose<S: PhysicalSlice>(&self, published: &S) -> Result<Chosen<S>, TimingError> {
        let (slice, repair) = match published.flaw(&self.measured) {
            None => (published.clone(), None),
            Some(reason) => {
                let (slice, remedy) = self.remedy(published)?;
                let repair = TableRepair {
                    table: S::TABLE,
                    slice: published.describe(),
                    reason,
                    engine: engine_name(self.set.engine),
                    from_version: self.set.version.clone(),
                    remedy,
                };
                (slice, Some(repair))
            }
        };
        let kept = (repair.as_ref()).is_some_and(|repair| repair.remedy == Remedy::CountedAsExtrapolated);
        let standing = if kept || self.is_scaled() {
            Standing::Extrapolated
        } else {
            Standing::Measured
        };
        let slice = if self.is_scaled() {
            scaled(slice, &self.measured, &self.target)
        } else {
            slice
        };
        Ok(Chosen {
            slice,
            standing,
            repair,
        })
    }

    fn remedy<S: PhysicalSlice>(&self, published: &S) -> Result<(S, Remedy), TimingError> {
        if self.mode == RepairMode::AsPublished {
            return Ok((published.clone(), Remedy::AsPublished));
        }
        for other in self.others.iter().filter(|other| other.has::<S>()) {
            let slices = other.load::<S>()?.slices;
            let same = slices
                .into_iter()
                .find(|slice| slice.describe() == published.describe());
            if let Some(sound) = same.filter(|slice| slice.flaw(&self.measured).is_none()) {
                let to_version = other.version.clone();
                return Ok((sound, Remedy::OtherVersion { to_version }));
            }
        }
        Ok((published.clone(), Remedy::CountedAsExtrapolated))
    }
}
