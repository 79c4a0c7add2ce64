//! One line per request.

use std::io::Write;

use dynosim_core::{Outcome, RequestPhases, RequestRecord};
use dynosim_spec::{Request, SimTime, WorkerId, Workload};

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

/// Columns of how a request came to its first token, in the order of [`TtftParts`](dynosim_core::TtftParts), and of
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

/// Writes the requests of a run as CSV. Cells that mean nothing for a request are empty; times count from the
/// start of the run. The phases of requests are there if the run has kept details.
///
/// # Errors
/// If writing fails.
pub fn write_requests_csv(workload: &Workload, outcome: &Outcome, writer: impl Write) -> Result<(), csv::Error> {
    let mut table = csv::Writer::from_writer(writer);
    table.write_record(COLUMNS.iter().chain(&PHASE_COLUMNS))?;
    for cells in rows(workload, outcome) {
        table.write_record(cells)?;
    }
    table.flush()?;
    Ok(())
}

/// Writes the requests of runs of several candidates over one workload, as [`write_requests_csv`] does, with the number of
/// the candidate in front.
pub(crate) fn write_candidates_csv<'o>(
    workload: &Workload,
    candidates: impl IntoIterator<Item = (usize, &'o Outcome)>,
    writer: impl Write,
) -> Result<(), csv::Error> {
    let mut table = csv::Writer::from_writer(writer);
    table.write_record(["candidate"].iter().chain(&COLUMNS).chain(&PHASE_COLUMNS))?;
    for (number, outcome) in candidates {
        let number = number.to_string();
        for cells in rows(workload, outcome) {
            table.write_record(std::iter::once(number.clone()).chain(cells))?;
        }
    }
    table.flush()?;
    Ok(())
}

/// The cells of each request.
fn rows(workload: &Workload, outcome: &Outcome) -> impl Iterator<Item = impl Iterator<Item = String>> {
    let mut rejections = vec![""; workload.requests().len()];
    for rejection in &outcome.report.rejections {
        rejections[rejection.request as usize] = &rejection.reason;
    }
    let phases = outcome.details.as_ref().map_or(&[][..], |details| &details.requests);
    let phases = phases.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let requests = workload.requests().iter().zip(&outcome.requests);
    (0_u32..)
        .zip(requests.zip(rejections).zip(phases))
        .map(|(id, (((request, record), rejection), phases))| {
            let line = line(id, request, record, rejection);
            line.into_iter().chain(phase_cells(record, phases))
        })
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
