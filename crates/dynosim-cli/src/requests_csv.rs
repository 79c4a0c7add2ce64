//! One line per request.

use dynosim::Outcome;
use dynosim::core::{RequestPhases, RequestRecord};
use dynosim::spec::{Request, SimTime, WorkerId, Workload};

use crate::error::CliError;

const COLUMNS: [&str; 17] = [
    "request",
    "session",
    "turn",
    "input_tokens",
    "output_tokens",
    "arrival_ms",
    "first_admission_ms",
    "first_token_ms",
    "last_token_ms",
    "ttft_ms",
    "tpot_ms",
    "e2e_latency_ms",
    "reused_tokens",
    "preemptions",
    "prefill_worker",
    "decode_worker",
    "rejection",
];

/// Columns of how a request came to its first token, in the order of [`TtftParts`](dynosim::core::TtftParts), and of
/// its second one.
const PHASE_COLUMNS: [&str; 8] = [
    "ingress_ms",
    "queue_ms",
    "prefill_ms",
    "transfer_ms",
    "decode_queue_ms",
    "first_step_ms",
    "egress_ms",
    "second_token_ms",
];

/// The requests of a run as CSV. Cells that mean nothing for a request are empty; times count from the
/// start of the run. The phases of requests are there if the run has kept details.
pub(crate) fn requests_csv(workload: &Workload, outcome: &Outcome) -> Result<String, CliError> {
    let mut rejections = vec![""; workload.requests().len()];
    for rejection in &outcome.report.rejections {
        rejections[rejection.request as usize] = &rejection.reason;
    }
    let phases = outcome.details.as_ref().map_or(&[][..], |details| &details.requests);
    let phases = phases.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let mut csv = csv::Writer::from_writer(Vec::new());
    let rows = workload
        .requests()
        .iter()
        .zip(&outcome.requests)
        .zip(rejections)
        .zip(phases);
    let written = csv.write_record(COLUMNS.iter().chain(&PHASE_COLUMNS)).and_then(|()| {
        (0_u32..)
            .zip(rows)
            .try_for_each(|(id, (((request, record), rejection), phases))| {
                csv.write_record(
                    line(id, request, record, rejection)
                        .into_iter()
                        .chain(phase_cells(record, phases)),
                )
            })
    });
    let text = written
        .map_err(|error| error.to_string())
        .and_then(|()| csv.into_inner().map_err(|error| error.to_string()))
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
    text.map_err(|error| CliError::Failure(format!("the requests cannot be written as CSV: {error}")))
}

fn line(id: u32, request: &Request, record: &RequestRecord, rejection: &str) -> [String; COLUMNS.len()] {
    let served = record.counts();
    let since_arrival = |at: SimTime| {
        let arrival = record.arrival.filter(|_| served);
        arrival.map_or_else(String::new, |arrival| (at - arrival).as_ms().to_string())
    };
    let if_served = |at: SimTime| time(Some(at).filter(|_| served));
    let tpot_ms = (served && record.output_tokens > 1)
        .then(|| (record.last_token - record.first_token).as_ms() / f64::from(record.output_tokens - 1));
    [
        id.to_string(),
        request.session.to_string(),
        request.turn.to_string(),
        request.input_tokens.to_string(),
        record.output_tokens.to_string(),
        time(record.arrival),
        time(record.first_admission),
        if_served(record.first_token),
        if_served(record.last_token),
        since_arrival(record.first_token),
        tpot_ms.map_or_else(String::new, |ms| ms.to_string()),
        since_arrival(record.last_token),
        record.reused_tokens.to_string(),
        record.preemptions.to_string(),
        worker(record.prefill_worker),
        worker(record.decode_worker),
        rejection.to_owned(),
    ]
}

/// How the request came to its first token, and when it had its second one.
fn phase_cells(record: &RequestRecord, phases: Option<&RequestPhases>) -> [String; PHASE_COLUMNS.len()] {
    let mut cells = <[String; PHASE_COLUMNS.len()]>::default();
    if let Some(phases) = phases {
        for (cell, (_, part)) in cells.iter_mut().zip(phases.ttft.named()) {
            *cell = part.as_ms().to_string();
        }
    }
    let has_second = record.counts() && record.output_tokens > 1;
    cells[PHASE_COLUMNS.len() - 1] = time(Some(record.second_token).filter(|_| has_second));
    cells
}

fn time(at: Option<SimTime>) -> String {
    at.map_or_else(String::new, |at| at.as_ms().to_string())
}

fn worker(id: Option<WorkerId>) -> String {
    id.map_or_else(String::new, |id| id.get().to_string())
}
