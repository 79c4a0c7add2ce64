//! Whether requests arrived faster than they were served.

use dynosim_core::{Outcome, RequestRecord};
use dynosim_spec::SimTime;

/// Fewer requests than this show no trend.
const FEWEST_REQUESTS: usize = 8;

/// Time after the last arrival, as a share of the time from the first to the last arrival.
const LONG_DRAIN: f64 = 0.2;

/// How much longer than the first quarter of requests the last one waits for first tokens.
const LONG_WAIT: f64 = 2.0;

/// Says so if arrivals of an open loop outran service.
///
/// They did if the last token comes more than 20 % of the arrival span after the last arrival, and the last
/// quarter of requests to arrive waits more than twice as long for its first tokens, on average, as the
/// first quarter. The second condition spares short runs of long requests.
pub(crate) fn overload_warning(outcome: &Outcome) -> Option<String> {
    let mut served: Vec<(SimTime, &RequestRecord)> = outcome
        .requests
        .iter()
        .filter(|record| record.counts())
        .filter_map(|record| Some((record.arrival?, record)))
        .collect();
    if served.len() < FEWEST_REQUESTS {
        return None;
    }
    served.sort_by_key(|&(arrival, _)| arrival);
    let (first, last) = (served.first()?.0, served.last()?.0);
    let end = served.iter().map(|(_, record)| record.last_token).max()?;
    let drains_long = end.since(last).as_ms() > LONG_DRAIN * last.since(first).as_ms();
    let quarter = served.len() / 4;
    let early = mean_ttft_ms(&served[..quarter]);
    let late = mean_ttft_ms(&served[served.len() - quarter..]);
    (drains_long && late > LONG_WAIT * early).then(|| {
        format!(
            "arrivals outran service: latencies grow with the number of requests (mean TTFT {early:.0} ms of the \
             first quarter of requests, {late:.0} ms of the last)"
        )
    })
}

fn mean_ttft_ms(requests: &[(SimTime, &RequestRecord)]) -> f64 {
    let sum: f64 = requests
        .iter()
        .map(|(arrival, record)| record.first_token.since(*arrival).as_ms())
        .sum();
    sum / requests.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use dynosim_core::Report;

    use super::*;

    /// Requests one millisecond apart, the first token of each `wait(i)` ms after its arrival, the last one
    /// `decode_ms` later.
    #[track_caller]
    fn check(requests: u64, wait: impl Fn(u64) -> u64, decode_ms: u64, expected: bool) {
        let ms = |ms: u64| SimTime::from_nanos(1_000_000 * ms);
        let records = (0..requests).map(|index| RequestRecord {
            arrival: Some(ms(index)),
            first_admission: Some(ms(index)),
            first_token: ms(index + wait(index)),
            last_token: ms(index + wait(index) + decode_ms),
            output_tokens: 2,
            ..RequestRecord::default()
        });
        let outcome = Outcome {
            report: Report::default(),
            requests: records.collect(),
            token_times: None,
            evictions: 0,
            details: None,
        };
        assert_eq!(overload_warning(&outcome).is_some(), expected);
    }

    #[test]
    fn growing_queues_are_pointed_out() {
        check(100, |index| 1 + index, 5, true);
        check(100, |_| 5, 5, false);
        // Long requests at the end of a short run are no queue.
        check(100, |_| 5, 500, false);
        // A queue that is worked off while requests still arrive.
        check(100, |index| if index > 90 { 10 } else { 1 }, 5, false);
        check(4, |index| 1 + 10 * index, 5, false);
    }

    #[test]
    fn few_requests_can_queue_up() {
        check(8, |index| 1 + 10 * index, 0, true);
    }
}
