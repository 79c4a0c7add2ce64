//! What every request may rely on.

use dynosim::spec::{Admission, Rules, SimTime};
use proptest::prelude::*;

use super::any_run::AnyRun;
use crate::random_cases::random_cases;

proptest! {
    #![proptest_config(random_cases(300))]

    #[test]
    fn every_request_is_served_once_or_rejected_with_a_reason(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        for (index, request) in served.requests.iter().enumerate() {
            let record = &served.outcome.requests[index];
            let tokens = served.token_times(index).len();
            prop_assert_eq!(tokens, record.output_tokens as usize);
            if served.is_rejected(index) {
                prop_assert_eq!((record.arrival, record.first_admission, tokens), (None, None, 0));
            } else {
                prop_assert_eq!(tokens, request.output_tokens as usize);
                prop_assert!(record.first_admission.is_some());
                prop_assert!(record.prefill_worker.is_some() && record.decode_worker.is_some());
            }
        }
        let mut rejected: Vec<u32> = served.report().rejections.iter().map(|rejection| rejection.request).collect();
        rejected.dedup();
        prop_assert_eq!(rejected.len(), served.report().rejections.len());
        prop_assert!(served.report().rejections.iter().all(|rejection| !rejection.reason.is_empty()));
    }

    #[test]
    fn time_never_goes_back_for_a_request(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        for (index, record) in served.outcome.requests.iter().enumerate() {
            let times = served.token_times(index);
            prop_assert!(times.is_sorted(), "request {}: {:?}", index, times);
            let (Some(arrival), Some(admission)) = (record.arrival, record.first_admission) else {
                prop_assert!(times.is_empty());
                continue;
            };
            prop_assert!(arrival <= admission);
            prop_assert!(times.iter().all(|&time| time >= admission.as_nanos()));
            prop_assert_eq!(times.first().copied(), Some(record.first_token.as_nanos()));
            prop_assert_eq!(times.last().copied(), Some(record.last_token.as_nanos()));
        }
    }

    #[test]
    fn a_turn_is_sent_when_the_one_before_is_answered_and_thought_about(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        for (index, request) in served.requests.iter().enumerate().filter(|(_, request)| request.turn > 0) {
            if let Some(arrival) = served.outcome.requests[index].arrival {
                let answered = served.outcome.requests[index - 1].last_token;
                prop_assert!(arrival >= answered + request.delay, "request {}", index);
            }
        }
    }

    #[test]
    fn open_loop_requests_arrive_when_they_are_scheduled(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        if run.case.closed_loop.is_some() {
            return Ok(());
        }
        for (request, record) in served.requests.iter().zip(&served.outcome.requests) {
            if request.turn == 0 && record.arrival.is_some() {
                prop_assert_eq!(record.arrival, Some(SimTime::ZERO + request.delay));
            }
        }
    }

    #[test]
    fn a_closed_loop_keeps_to_its_concurrency(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        let Admission::ClosedLoop { concurrency } = run.case.workload().admission() else { return Ok(()) };
        // The older rules forget requests whose KV is in transfer.
        let transfers = run.spec().engine.prefill_engine_args.is_some_and(|args| args.kv_bytes_per_token.is_some());
        if run.case.rules == Rules::Dynosim12 && transfers {
            return Ok(());
        }
        let in_flight_at = |instant: SimTime| {
            let in_flight = |record: &&dynosim::core::RequestRecord| {
                record.arrival.is_some_and(|arrival| arrival <= instant) && record.last_token > instant
            };
            served.outcome.requests.iter().filter(in_flight).count()
        };
        for arrival in served.outcome.requests.iter().filter_map(|record| record.arrival) {
            prop_assert!(in_flight_at(arrival) <= concurrency as usize);
        }
    }

    #[test]
    fn nothing_is_reused_beyond_the_prompt(run in AnyRun::any()) {
        let Some(served) = run.serve() else { return Ok(()) };
        for (request, record) in served.requests.iter().zip(&served.outcome.requests) {
            prop_assert!(record.reused_tokens <= request.input_tokens);
        }
    }

    #[test]
    fn the_same_spec_and_seed_give_the_same_result(run in AnyRun::any()) {
        let (Some(first), Some(second)) = (run.serve(), run.serve()) else { return Ok(()) };
        prop_assert_eq!(&first.outcome.report, &second.outcome.report);
        prop_assert_eq!(&first.outcome.requests, &second.outcome.requests);
        prop_assert_eq!(&first.outcome.token_times, &second.outcome.token_times);
        prop_assert_eq!(first.outcome.evictions, second.outcome.evictions);
    }

    #[test]
    fn a_session_alone_is_never_preempted(mut run in AnyRun::any()) {
        run.case.sessions.truncate(1);
        let Some(served) = run.serve() else { return Ok(()) };
        prop_assert!(served.outcome.requests.iter().all(|record| record.preemptions == 0));
    }
}
