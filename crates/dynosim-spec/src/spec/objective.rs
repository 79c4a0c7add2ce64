//! What the best deployment of a sweep is best at.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a sweep ranks deployments by that serve every request and meet every bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Output tokens per second, the more the better.
    #[default]
    Throughput,
    /// Output tokens per second and GPU, the more the better.
    ThroughputPerGpu,
    /// Requests per second that meet all bounds on single requests, the more the better.
    Goodput,
    /// Mean time to first token, the shorter the better.
    MeanTtft,
    /// Mean time from arrival to last token, the shorter the better.
    MeanE2eLatency,
    /// 99th percentile of the time to first token, the shorter the better.
    P99Ttft,
    /// 99th percentile of the time per output token (TPOT of each request), the shorter the better.
    P99Itl,
    /// 99th percentile of the time from arrival to last token, the shorter the better.
    P99E2eLatency,
    /// GPUs, the fewer the better.
    MinGpus,
    /// Price of a million output tokens, the lower the better; needs the price of a GPU hour.
    Cost,
}

impl Objective {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Throughput,
        Self::ThroughputPerGpu,
        Self::Goodput,
        Self::MeanTtft,
        Self::MeanE2eLatency,
        Self::P99Ttft,
        Self::P99Itl,
        Self::P99E2eLatency,
        Self::MinGpus,
        Self::Cost,
    ];

    /// Its name in specs and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::ThroughputPerGpu => "throughput_per_gpu",
            Self::Goodput => "goodput",
            Self::MeanTtft => "mean_ttft",
            Self::MeanE2eLatency => "mean_e2e_latency",
            Self::P99Ttft => "p99_ttft",
            Self::P99Itl => "p99_itl",
            Self::P99E2eLatency => "p99_e2e_latency",
            Self::MinGpus => "min_gpus",
            Self::Cost => "cost",
        }
    }

    /// The column of results that it is about.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Throughput => "output_throughput_tok_s",
            Self::ThroughputPerGpu => "throughput_per_gpu_tok_s",
            Self::Goodput => "goodput_rps",
            Self::MeanTtft => "mean_ttft_ms",
            Self::MeanE2eLatency => "mean_e2e_latency_ms",
            Self::P99Ttft => "p99_ttft_ms",
            Self::P99Itl => "p99_tpot_ms",
            Self::P99E2eLatency => "p99_e2e_latency_ms",
            Self::MinGpus => "total_gpus_used",
            Self::Cost => "cost_per_million_output_tokens",
        }
    }

    /// Whether more of that is better.
    pub const fn is_more_better(self) -> bool {
        matches!(self, Self::Throughput | Self::ThroughputPerGpu | Self::Goodput)
    }

    /// The unit of that in results; empty where there is none, or where the spec chooses it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "tok/s",
            Self::ThroughputPerGpu => "tok/s per GPU",
            Self::Goodput => "requests/s",
            Self::MeanTtft | Self::MeanE2eLatency | Self::P99Ttft | Self::P99Itl | Self::P99E2eLatency => "ms",
            Self::MinGpus => "GPUs",
            Self::Cost => "per million output tokens",
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_documents() {
        for objective in Objective::ALL {
            let word = serde_json::to_value(objective).expect("a word");
            assert_eq!(word, objective.name());
        }
    }
}
