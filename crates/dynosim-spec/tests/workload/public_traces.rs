//! The public Mooncake traces, where they are at hand.

use dynosim_spec::{Request, SimDuration, TraceWorkload, Workload, WorkloadSpec};

use crate::support::{block, mooncake, public_trace};

#[track_caller]
fn check(name: &str, requests: usize, input_tokens: u64, output_tokens: u64, last_arrival: SimDuration) {
    let Some(trace_file) = public_trace(name) else { return };
    let spec = WorkloadSpec::Trace(TraceWorkload {
        trace_file,
        ..mooncake()
    });
    let workload = Workload::load(&spec, block(64)).expect("a good trace");
    let all = workload.requests();
    assert_eq!(all.len(), requests);
    let total = |tokens: fn(&Request) -> u32| all.iter().map(|request| u64::from(tokens(request))).sum::<u64>();
    assert_eq!(total(|request| request.input_tokens), input_tokens);
    assert_eq!(total(|request| request.output_tokens), output_tokens);
    assert_eq!(all.iter().map(|request| request.delay).max(), Some(last_arrival));
    assert!(all.iter().all(|request| request.turn == 0));
}

#[test]
fn the_public_traces_have_their_known_sizes() {
    let ms = |ms: u64| SimDuration::from_nanos(ms * 1_000_000);
    check(
        "conversation_trace.jsonl",
        12_031,
        144_793_823,
        4_122_048,
        ms(3_536_999),
    );
    check("synthetic_trace.jsonl", 3993, 61_194_628, 595_432, ms(1_022_025));
}
