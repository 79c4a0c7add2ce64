//! Phases of requests, timelines of pools and what pools did, against records and token times.

use std::sync::Arc;

use dynosim::core::{Details, Outcome, PoolTimeline, RequestPhases, RequestRecord, SimError, Stepping};
use dynosim::spec::{Backend, Calibration, Constant, Deployment, Rules, SimDuration, SimTime, Topology, WeightFormat};
use dynosim::{Error, Run};
use proptest::prelude::*;

use super::any_run::AnyRun;
use crate::random_cases::random_cases;

/// A run with details, whose clients are some way off where rules know of such.
fn play(run: &AnyRun, stepping: Stepping) -> Option<(Outcome, Details)> {
    let outcome = simulate(run, Some(stepping))?;
    let details = outcome.details.clone().expect("details were kept");
    Some((outcome, details))
}

/// What comes of a run, with details if steps are to be computed in some way; `None` if it has no end or serves nobody.
fn simulate(run: &AnyRun, with_details: Option<Stepping>) -> Option<Outcome> {
    let spec = run.spec();
    let mut calibration = Calibration::neutral("far clients", Backend::Vllm, WeightFormat::Bfloat16);
    for (key, value) in [
        ("ingressMs", 0.5),
        ("ingressUsPerToken", 100.0),
        ("egressMs", 0.25),
        ("resendMs", 1.0),
    ] {
        *calibration.constants.get_mut(key).expect("a constant") = Some(Constant::new(value, "this test"));
    }
    let timing = run.case.timing();
    let provider = |_: &Deployment| Ok(Arc::clone(&timing));
    let run = Run::new(&spec).workload(run.case.workload()).keep_token_times();
    let run = run.timing(&provider).calibration(calibration);
    let run = match with_details {
        Some(stepping) => run.stepping(stepping).keep_details(),
        None => run,
    };
    match run.simulate() {
        Ok(outcome) => Some(outcome),
        Err(Error::Simulation(SimError::AllRejected { .. } | SimError::NoProgress { .. })) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A request that was served.
#[derive(Debug, Clone, Copy)]
struct Life {
    at_router: SimTime,
    admitted: SimTime,
    prompt_done: SimTime,
    last_token: SimTime,
    phases: RequestPhases,
}

fn lives(outcome: &Outcome, details: &Details) -> Vec<Life> {
    let served = outcome.requests.iter().zip(&details.requests);
    let life = |(record, phases): (&RequestRecord, &Option<RequestPhases>)| {
        let phases = (*phases)?;
        let egress = phases.ttft.egress;
        Some(Life {
            at_router: record.arrival? + phases.ttft.ingress,
            admitted: record.first_admission?,
            prompt_done: phases.prompt_done,
            last_token: SimTime::ZERO + (record.last_token - (SimTime::ZERO + egress)),
            phases,
        })
    };
    served.filter_map(life).collect()
}

/// How many lives are between two of their instants at `now`.
fn between(
    lives: &[Life],
    now: SimTime,
    from: impl Fn(&Life) -> Option<SimTime>,
    to: impl Fn(&Life) -> SimTime,
) -> u32 {
    let is_between = |life: &&Life| from(life).is_some_and(|from| from <= now) && now < to(life);
    u32::try_from(lives.iter().filter(is_between).count()).expect("few requests")
}

proptest! {
    #![proptest_config(random_cases(300))]

    #[test]
    fn differential_details_change_nothing(run in AnyRun::any()) {
        let without = simulate(&run, None);
        let with = simulate(&run, Some(Stepping::Bulk));
        prop_assert_eq!(without.is_some(), with.is_some());
        let (Some(without), Some(with)) = (without, with) else { return Ok(()) };
        prop_assert!(without.details.is_none() && with.details.is_some());
        prop_assert_eq!(without.report, with.report);
        prop_assert_eq!(without.requests, with.requests);
        prop_assert_eq!(without.token_times, with.token_times);
        prop_assert_eq!(without.evictions, with.evictions);
    }

    #[test]
    fn differential_details_are_the_same_in_bulk_and_single(run in AnyRun::any()) {
        let (Some((_, bulk)), Some((_, single))) = (play(&run, Stepping::Bulk), play(&run, Stepping::Single)) else {
            return Ok(());
        };
        prop_assert_eq!(&bulk.requests, &single.requests);
        for (bulk, single) in bulk.timelines.iter().zip(&single.timelines) {
            for (one, other) in bulk.at_instants().zip(single.at_instants()) {
                prop_assert_eq!(one, other, "{} pool", bulk.role);
            }
        }
        prop_assert_eq!(bulk.timelines, single.timelines);
    }

    #[test]
    fn phases_follow_each_other_and_sum_up_to_ttft(run in AnyRun::any()) {
        let Some((outcome, details)) = play(&run, Stepping::Bulk) else { return Ok(()) };
        let is_split = matches!(run.case.topology, Topology::Disaggregated { .. });
        prop_assert_eq!(details.requests.len(), outcome.requests.len());
        for (record, phases) in outcome.requests.iter().zip(&details.requests) {
            prop_assert_eq!(record.counts(), phases.is_some());
            let (Some(phases), Some(arrival), Some(admitted)) = (phases, record.arrival, record.first_admission) else {
                continue;
            };
            prop_assert_eq!(phases.ttft.total(), record.first_token - arrival);
            let first_token = record.first_token - (SimTime::ZERO + phases.ttft.egress);
            let landed = phases.kv_landed.unwrap_or(phases.prompt_done);
            let decoding = phases.decode_admission.unwrap_or(landed);
            let instants = [
                arrival + phases.ttft.ingress,
                admitted,
                phases.prompt_done,
                landed,
                decoding,
                SimTime::ZERO + first_token,
            ];
            prop_assert!(instants.is_sorted(), "{:?}", instants);
            prop_assert_eq!(phases.ttft.queue, instants[1] - instants[0]);
            prop_assert_eq!(phases.ttft.prefill, instants[2] - instants[1]);
            prop_assert_eq!((phases.kv_landed.is_some(), phases.decode_admission.is_some()), (is_split, is_split));
            let is_async = run.case.rules == Rules::VllmV1Async && run.spec().engine.backend == Backend::Vllm;
            prop_assert_eq!(phases.ttft.egress > SimDuration::ZERO, is_async);
            prop_assert_eq!(phases.ttft.ingress > SimDuration::ZERO, is_async);
        }
        let mean_ms: f64 = details.mean_ttft().named().iter().map(|(_, ms)| ms).sum();
        prop_assert!((mean_ms - outcome.report.ttft.mean).abs() <= 1e-9 * mean_ms.max(1.0));
    }

    #[test]
    fn oracle_timelines_follow_from_the_lives_of_requests(run in AnyRun::any()) {
        let Some((outcome, details)) = play(&run, Stepping::Bulk) else { return Ok(()) };
        let lives = lives(&outcome, &details);
        let fused = run.case.rules == Rules::VllmV1Async || run.spec().engine.backend == Backend::Sglang;
        for (timeline, pool) in details.timelines.iter().zip(&outcome.report.pools) {
            for (now, sample) in timeline.at_instants() {
                prop_assert!(sample.busy_workers <= timeline.workers);
                prop_assert_eq!(sample.busy_workers > 0, sample.waiting + sample.running > 0);
                prop_assert!(sample.kv_in_use + sample.kv_cached <= 1.0 + 1e-12);
                prop_assert!(sample.running > 0 || sample.kv_in_use == 0.0);
                let (here, running) = match timeline.role.to_string().as_str() {
                    "prefill" => (
                        between(&lives, now, |life| Some(life.at_router), |life| life.prompt_done),
                        between(&lives, now, |life| Some(life.admitted), |life| life.prompt_done),
                    ),
                    "decode" => (
                        between(&lives, now, |life| life.phases.kv_landed, |life| life.last_token),
                        between(&lives, now, |life| life.phases.decode_admission, |life| life.last_token),
                    ),
                    _ => (
                        between(&lives, now, |life| Some(life.at_router), |life| life.last_token),
                        between(&lives, now, |life| Some(life.admitted), |life| life.last_token),
                    ),
                };
                // Where a step's prompts are done before its end, a request may have its last token before that, too.
                let exact = fused || timeline.role.to_string() != "aggregated";
                prop_assert!(sample.waiting + sample.running >= here);
                if exact {
                    prop_assert_eq!(sample.waiting + sample.running, here, "{} at {}", timeline.role, now);
                }
                if pool.preemptions == 0 {
                    prop_assert!(sample.running >= running);
                    prop_assert!(!exact || sample.running == running, "{} at {}", timeline.role, now);
                }
            }
        }
    }

    #[test]
    fn timelines_cover_the_run(run in AnyRun::any()) {
        let Some((outcome, details)) = play(&run, Stepping::Bulk) else { return Ok(()) };
        let last_token = lives(&outcome, &details).iter().map(|life| life.last_token).max().expect("somebody is served");
        for PoolTimeline { period, samples, .. } in &details.timelines {
            let end = SimTime::ZERO + *period * samples.len() as u64;
            prop_assert!(end > last_token, "{} samples every {}", samples.len(), period);
            let long_enough = last_token >= SimTime::from_nanos(3_125_000);
            prop_assert!(samples.len() <= 400 && (samples.len() > 200 || !long_enough), "{}", samples.len());
        }
    }

    #[test]
    fn pools_add_up_to_the_run(run in AnyRun::any()) {
        let Some((outcome, details)) = play(&run, Stepping::Bulk) else { return Ok(()) };
        let report = &outcome.report;
        let roles: Vec<_> = run.case.topology.pools().iter().map(|pool| (pool.role, pool.workers)).collect();
        let found: Vec<_> = report.pools.iter().map(|pool| (pool.role, pool.workers)).collect();
        prop_assert_eq!(found, roles);
        let preemptions: u64 = outcome.requests.iter().map(|record| u64::from(record.preemptions)).sum();
        prop_assert_eq!(report.pools.iter().map(|pool| pool.preemptions).sum::<u64>(), preemptions);
        prop_assert_eq!(report.pools.iter().map(|pool| pool.evicted_blocks).sum::<u64>(), outcome.evictions);
        prop_assert_eq!(report.pools[0].prompt_tokens, Some(report.total_input_tokens));
        let reused: u64 = outcome.requests.iter().map(|record| u64::from(record.reused_tokens)).sum();
        let reused_by_prefill = report.pools[0].reused_tokens.expect("prompts are computed here");
        if let [_, decode] = &report.pools[..] {
            prop_assert!(reused_by_prefill <= reused);
            prop_assert_eq!((decode.prompt_tokens, decode.reused_tokens), (None, None));
        } else {
            prop_assert_eq!(reused_by_prefill, reused);
        }
        for (pool, timeline) in report.pools.iter().zip(&details.timelines) {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&pool.utilisation), "{}", pool.utilisation);
            let share = pool.busy_ms / (f64::from(pool.workers) * report.duration_ms).max(f64::MIN_POSITIVE);
            prop_assert!((pool.utilisation - share).abs() < 1e-12);
            // Whoever is seen in a step spends time in steps.
            let seen_busy = timeline.samples.iter().any(|sample| sample.busy_workers > 0);
            prop_assert!(!seen_busy || pool.busy_ms > 0.0);
        }
    }
}
