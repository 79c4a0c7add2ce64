//! Measured points: the load, and what was measured under it.

use dynosim_spec::{LoadPoint, MeasuredSetup};
use indexmap::IndexMap;
use serde::Serialize;

use super::bench_results;
use super::latencies::PerLatency;
use super::measured_csv;
use super::measured_error::MeasuredError;

/// A load, and the means that were measured under it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// File that it was read from.
    pub file: String,
    /// Its line there, from 1.
    pub line: u64,
    /// The load.
    pub load: LoadPoint,
    /// Means over requests in milliseconds, above 0; absent if not measured.
    pub mean_ms: PerLatency<Option<f64>>,
    /// Output tokens per second and GPU as given, above 0; absent if not given.
    pub output_tok_s_per_gpu: Option<f64>,
    /// Whether the KV cache was too small for the load, so that requests waited for room.
    pub kv_limited: bool,
}

/// Measured points of one setup.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredPoints {
    /// The points in order of files and lines, no two of the same load.
    pub points: Vec<MeasuredPoint>,
    /// Files that say themselves on how many GPUs their points were measured.
    pub files_with_tp: Vec<String>,
    /// What the reader of results ought to know about the files.
    pub notes: Vec<String>,
}

impl MeasuredPoints {
    /// Reads files, each given by name and text, in any mix of three formats, which are told apart by content.
    ///
    /// - **CSV** with a header line. Columns: `tp`, `isl`, `osl`, `concurrency`, `ttft_mean_ms` and
    ///   `tpot_mean_ms`; a latency may be empty where it was not measured. Optional: `kv_limited` (0 or 1),
    ///   `derived_output_tok_s_per_gpu`, and `requests` (ten times the concurrency). Others are named in a note.
    /// - **`AIPerf`**'s summary, `profile_export_aiperf.json`: one point.
    /// - A result file of **`vllm bench serve`**: one point.
    ///
    /// The last two hold mean lengths. A point's lengths are the greatest ones, so means are multiplied by 2 / (1 + r),
    /// r being the setup's `lengthRangeRatio`, and rounded. They do not say how many GPUs were used: that is `tp`, else
    /// `topology.tp` of the setup. A column `tp` wins over both.
    ///
    /// # Errors
    /// If a file is in none of the formats, a value is missing or impossible, there is no point, or two points are of
    /// the same load.
    pub fn read(files: &[(&str, &str)], setup: &MeasuredSetup, tp: Option<u32>) -> Result<Self, MeasuredError> {
        let mut read = Self::default();
        let tp = tp.or(setup.topology.map(|topology| topology.tp));
        for (file, text) in files {
            let text = text.trim_start_matches('\u{feff}');
            if text.trim_start().starts_with('{') {
                let (point, notes) = bench_results::read(file, text, setup.workload.length_range_ratio, tp)?;
                read.points.push(point);
                read.notes.extend(notes);
            } else {
                let (points, notes, has_tp) = measured_csv::read(file, text, tp)?;
                read.files_with_tp.extend(has_tp.then(|| (*file).to_owned()));
                read.points.extend(points);
                read.notes.extend(notes);
            }
        }
        read.check_that_loads_differ()?;
        Ok(read)
    }

    fn check_that_loads_differ(&self) -> Result<(), MeasuredError> {
        let mut seen: IndexMap<LoadPoint, &MeasuredPoint> = IndexMap::new();
        for point in &self.points {
            // A run may be longer, but it is the same point of a curve.
            let load = LoadPoint {
                requests: 0,
                ..point.load
            };
            if let Some(first) = seen.insert(load, point) {
                let LoadPoint {
                    tp,
                    isl,
                    osl,
                    concurrency,
                    ..
                } = load;
                return Err(MeasuredError::Line {
                    file: point.file.clone(),
                    line: point.line,
                    problem: format!(
                        "repeats tp {tp}, isl {isl}, osl {osl}, concurrency {concurrency} of {}, line {}; keep one of \
                         them, or their mean",
                        first.file, first.line
                    ),
                });
            }
        }
        Ok(())
    }
}
