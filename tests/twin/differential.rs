//! The simulator against its plain twin.

use std::collections::BTreeSet;

use dynosim::Error;
use dynosim::core::{Outcome, SimError, Stepping};
use dynosim::spec::{Rules, SimTime, WorkerId};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{Case, History, Life, Stuck, simulate};
use crate::random_cases::random_cases;

proptest! {
    #![proptest_config(random_cases(1500))]

    #[test]
    fn differential_vllm_v1_equals_its_plain_twin(case in Case::any(Rules::VllmV1)) {
        check(&case)?;
    }

    #[test]
    fn differential_vllm_v1_async_equals_its_plain_twin(case in Case::any(Rules::VllmV1Async)) {
        check(&case)?;
    }

    #[test]
    fn differential_dynosim_1_2_equals_its_plain_twin(case in Case::any(Rules::Dynosim12)) {
        check(&case)?;
    }
}

pub(super) fn check(case: &Case) -> Result<(), TestCaseError> {
    bulk_equals_single(case)?;
    match (case.simulate(), run_twin(case)) {
        (Ok(ours), Ok(expected)) => compare(case, &ours, &expected),
        (Err(Error::Simulation(SimError::NoProgress { .. })), Err(_)) => {
            prop_assert_eq!(case.rules, Rules::Dynosim12, "vllm-v1 always gets on");
            Ok(())
        }
        (Err(Error::Simulation(SimError::AllRejected { .. })), Ok(expected)) => {
            prop_assert!(expected.lives.iter().all(|life| life.rejected));
            Ok(())
        }
        (ours, expected) => Err(TestCaseError::fail(format!("{ours:?} against {expected:?}"))),
    }
}

/// Computing many decode steps at once changes nothing.
fn bulk_equals_single(case: &Case) -> Result<(), TestCaseError> {
    match (
        case.simulate_stepping(Stepping::Bulk),
        case.simulate_stepping(Stepping::Single),
    ) {
        (Ok(bulk), Ok(single)) => {
            prop_assert_eq!(bulk.requests, single.requests, "bulk against single steps");
            prop_assert_eq!(bulk.token_times, single.token_times);
            prop_assert_eq!(bulk.report, single.report);
            prop_assert_eq!(bulk.evictions, single.evictions);
            Ok(())
        }
        (Err(bulk), Err(single)) => {
            prop_assert_eq!(bulk.to_string(), single.to_string());
            Ok(())
        }
        (bulk, single) => Err(TestCaseError::fail(format!("{bulk:?} against {single:?}"))),
    }
}

fn run_twin(case: &Case) -> Result<History, Stuck> {
    simulate(&case.engine(), &case.topology, &case.workload(), &case.timing())
}

fn compare(case: &Case, ours: &Outcome, expected: &History) -> Result<(), TestCaseError> {
    let lives = lives(ours);
    for (index, (ours, expected)) in lives.iter().zip(&expected.lives).enumerate() {
        prop_assert_eq!(ours, expected, "request {}", index);
    }
    prop_assert_eq!(lives.len(), expected.lives.len());
    let always_caching = case.args.iter().all(|args| args.enable_prefix_caching == Some(true));
    if always_caching {
        prop_assert_eq!(ours.evictions, expected.evictions, "evictions");
    }
    Ok(())
}

/// The simulator's notes in the twin's words.
fn lives(outcome: &Outcome) -> Vec<Life> {
    let token_times = outcome.token_times.as_ref().expect("token times were kept");
    let mut lives: Vec<Life> = outcome
        .requests
        .iter()
        .zip(token_times)
        .map(|(record, times)| Life {
            arrival: record.arrival.map(SimTime::as_nanos),
            first_admission: record.first_admission.map(SimTime::as_nanos),
            reused_tokens: record.reused_tokens as usize,
            token_times: times.iter().map(|time| time.as_nanos()).collect(),
            preemptions: record.preemptions as usize,
            prefill_worker: record.prefill_worker.map(WorkerId::index),
            decode_worker: record.decode_worker.map(WorkerId::index),
            rejected: false,
        })
        .collect();
    for rejection in &outcome.report.rejections {
        lives[rejection.request as usize].rejected = true;
    }
    lives
}

/// The comparison is worth nothing if the cases are tame.
#[test]
fn random_cases_are_crowded() {
    let mut runner = TestRunner::deterministic();
    let mut preempting = 0;
    let mut evicting = 0;
    let mut reusing = 0;
    let mut rejecting = 0;
    let mut tied = 0;
    for index in 0..300 {
        let rules = if index % 2 == 0 {
            Rules::VllmV1
        } else {
            Rules::Dynosim12
        };
        let case = Case::any(rules).new_tree(&mut runner).expect("a case").current();
        let Ok(history) = run_twin(&case) else { continue };
        let lives = &history.lives;
        let tokens: Vec<u64> = lives.iter().flat_map(|life| &life.token_times).copied().collect();
        let instants: BTreeSet<u64> = tokens.iter().copied().collect();
        preempting += usize::from(lives.iter().any(|life| life.preemptions > 0));
        reusing += usize::from(lives.iter().any(|life| life.reused_tokens > 0));
        rejecting += usize::from(lives.iter().any(|life| life.rejected));
        evicting += usize::from(history.evictions > 0);
        tied += usize::from(instants.len() < tokens.len());
    }
    let seen = [preempting, evicting, reusing, rejecting, tied];
    assert!(seen.iter().all(|&cases| cases >= 40), "{seen:?} of 300");
}
