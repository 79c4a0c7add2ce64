//! Keys of a workload object, and what they must be.

use super::{DEFAULT_ARRIVAL_SEED, SyntheticLoad, SyntheticWorkload, TraceFormat, TraceWorkload, WorkloadSpec};
use crate::reader::{OneOf, Real, Section, Text, Whole};

const COUNT: Whole = Whole::at_least(1);
const NUMBER: Whole = Whole::at_least(0);
const SHARE: Real = Real::at_least(0.0).at_most(1.0);
const RANGE_RATIO: Real = Real::above(0.0).at_most(1.0);
const RATIO: Real = Real::above(0.0);
/// Thirty years, far within the simulated clock.
const SPAN_MS: Real = Real::at_least(0.0).at_most(1e12);

const LOADS: [&str; 3] = ["concurrency", "requestRate", "arrivalIntervalMs"];
const SYNTHETIC_ONLY: [&str; 14] = [
    "isl",
    "osl",
    "requestCount",
    "concurrency",
    "requestRate",
    "arrivalIntervalMs",
    "lengthRangeRatio",
    "lengthSeed",
    "sharedPrefixRatio",
    "numPrefixGroups",
    "sharedPrefixBlockSize",
    "turnsPerSession",
    "interTurnDelayMs",
    "arrivalSeed",
];
const TRACE_ONLY: [&str; 5] = [
    "traceFormat",
    "traceBlockSize",
    "traceReplayConcurrency",
    "traceSharedPrefixRatio",
    "traceNumPrefixGroups",
];

impl WorkloadSpec {
    /// What reading a workload begins with.
    pub(crate) fn blank() -> Self {
        Self::Synthetic(SyntheticWorkload::new(1, 1, 1, SyntheticLoad::Concurrency(1)))
    }

    /// Walks the fields.
    pub(crate) fn fields(&mut self, section: &mut Section<'_, '_>) {
        if section.reads() {
            *self = if section.has("traceFile") {
                Self::Trace(TraceWorkload::new("trace"))
            } else {
                Self::blank()
            };
        }
        match self {
            Self::Synthetic(synthetic) => synthetic.fields(section),
            Self::Trace(trace) => trace.fields(section),
        }
    }
}

impl SyntheticWorkload {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.accept(&["traceFile"]);
        let isl = section.required("isl", &mut self.isl, &COUNT);
        let osl = section.required("osl", &mut self.osl, &COUNT);
        if isl && osl && self.isl.checked_add(self.osl).is_none() {
            section.violation("osl", format!("isl + osl must be at most {}", u32::MAX));
        }
        let count = section.required("requestCount", &mut self.request_count, &COUNT);
        self.load.fields(section);
        section.optional("lengthRangeRatio", &mut self.length_range_ratio, &RANGE_RATIO);
        section.optional("lengthSeed", &mut self.length_seed, &NUMBER);
        let ratio = section.optional("sharedPrefixRatio", &mut self.shared_prefix_ratio, &SHARE);
        let groups = section.optional("numPrefixGroups", &mut self.num_prefix_groups, &NUMBER);
        if ratio && groups && self.shared_prefix_ratio > 0.0 && self.num_prefix_groups == 0 {
            section.violation(
                "numPrefixGroups",
                "must be at least 1 when sharedPrefixRatio is above 0",
            );
        }
        section.option("sharedPrefixBlockSize", &mut self.shared_prefix_block_size, &COUNT);
        let turns = section.optional("turnsPerSession", &mut self.turns_per_session, &COUNT);
        if count && turns && self.request_count.checked_mul(self.turns_per_session).is_none() {
            let message = format!("requestCount x turnsPerSession must be at most {}", u32::MAX);
            section.violation("turnsPerSession", message);
        }
        section.optional("interTurnDelayMs", &mut self.inter_turn_delay_ms, &SPAN_MS);
        section.optional("arrivalSeed", &mut self.arrival_seed, &NUMBER);
        section.optional("arrivalSpeedupRatio", &mut self.arrival_speedup_ratio, &RATIO);
        for key in section.present(&TRACE_ONLY) {
            section.violation(key, "only applies with traceFile");
        }
        section.accept(&TRACE_ONLY);
        self.warn_about_idle_fields(section);
    }

    fn warn_about_idle_fields(&self, section: &mut Section<'_, '_>) {
        if matches!(self.load, SyntheticLoad::Concurrency(_)) && !is_one(self.arrival_speedup_ratio) {
            section.idle("arrivalSpeedupRatio", "in a closed loop (concurrency)");
        }
        if !matches!(self.load, SyntheticLoad::RequestRate(_)) && self.arrival_seed != DEFAULT_ARRIVAL_SEED {
            section.idle("arrivalSeed", "without requestRate");
        }
        if !self.lengths_differ() && self.length_seed != 0 {
            section.idle("lengthSeed", "when lengthRangeRatio is 1");
        }
        if self.turns_per_session == 1 && self.inter_turn_delay_ms > 0.0 {
            section.idle("interTurnDelayMs", "when turnsPerSession is 1");
        }
        if self.num_prefix_groups > 0 && self.shared_prefix_ratio <= 0.0 {
            section.idle("numPrefixGroups", "when sharedPrefixRatio is 0");
        }
        if self.shared_prefix_block_size.is_some() && self.shared_prefix_ratio <= 0.0 {
            section.idle("sharedPrefixBlockSize", "when sharedPrefixRatio is 0");
        }
        let (sessions, turns) = (self.request_count, self.turns_per_session);
        if let SyntheticLoad::Concurrency(concurrency) = self.load
            && concurrency > sessions
        {
            let why = if turns == 1 {
                format!("beyond {sessions}: only {sessions} requests are ever in flight")
            } else {
                format!("beyond {sessions}: only {sessions} requests are ever in flight, one of each session")
            };
            section.idle("concurrency", &why);
        }
    }
}

impl SyntheticLoad {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        if section.reads() {
            let given = section.present(&LOADS);
            section.accept(&LOADS);
            *self = match given.as_slice() {
                ["concurrency"] => Self::Concurrency(1),
                ["requestRate"] => Self::RequestRate(1.0),
                ["arrivalIntervalMs"] => Self::ArrivalIntervalMs(0.0),
                [] => {
                    section.violation("", format!("needs exactly one of {}, got none", LOADS.join(", ")));
                    return;
                }
                several => {
                    let several = several.join(" and ");
                    section.violation("", format!("needs exactly one of {}, got {several}", LOADS.join(", ")));
                    return;
                }
            };
        }
        match self {
            Self::Concurrency(concurrency) => section.required("concurrency", concurrency, &COUNT),
            Self::RequestRate(rate) => section.required("requestRate", rate, &RATIO),
            Self::ArrivalIntervalMs(interval) => section.required("arrivalIntervalMs", interval, &SPAN_MS),
        };
    }
}

impl TraceWorkload {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.required("traceFile", &mut self.trace_file, &Text);
        let format = section.optional("traceFormat", &mut self.trace_format, &OneOf);
        section.optional("traceBlockSize", &mut self.trace_block_size, &COUNT);
        section.optional("arrivalSpeedupRatio", &mut self.arrival_speedup_ratio, &RATIO);
        let concurrency = section.option("traceReplayConcurrency", &mut self.trace_replay_concurrency, &COUNT);
        let ratio = section.optional("traceSharedPrefixRatio", &mut self.trace_shared_prefix_ratio, &SHARE);
        let groups = section.optional("traceNumPrefixGroups", &mut self.trace_num_prefix_groups, &NUMBER);
        if ratio && groups && self.trace_shared_prefix_ratio > 0.0 && self.trace_num_prefix_groups == 0 {
            let message = "must be at least 1 when traceSharedPrefixRatio is above 0";
            section.violation("traceNumPrefixGroups", message);
        }
        let agentic = self.trace_format == TraceFormat::AppliedComputeAgentic;
        if format && concurrency && agentic && self.trace_replay_concurrency.is_none() {
            let message =
                "is missing; traceFormat applied_compute_agentic needs it, because such traces have no timestamps";
            section.violation("traceReplayConcurrency", message);
        }
        for key in section.present(&SYNTHETIC_ONLY) {
            section.warn(key, "is ignored because traceFile is given");
        }
        section.accept(&SYNTHETIC_ONLY);
        if self.trace_replay_concurrency.is_some() && !is_one(self.arrival_speedup_ratio) {
            section.idle("arrivalSpeedupRatio", "in a closed loop (traceReplayConcurrency)");
        }
        if !agentic {
            for (key, given) in [
                ("traceSharedPrefixRatio", self.trace_shared_prefix_ratio > 0.0),
                ("traceNumPrefixGroups", self.trace_num_prefix_groups > 0),
            ] {
                if given {
                    section.idle(key, "unless traceFormat is applied_compute_agentic");
                }
            }
        } else if self.trace_num_prefix_groups > 0 && self.trace_shared_prefix_ratio <= 0.0 {
            section.idle("traceNumPrefixGroups", "when traceSharedPrefixRatio is 0");
        }
    }
}

fn is_one(ratio: f64) -> bool {
    ratio.to_bits() == 1.0_f64.to_bits()
}
