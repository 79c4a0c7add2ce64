//! Mooncake traces: one request per line, its prompt given as content ids.

use std::io::BufRead;

use rustc_hash::FxHashMap;

use super::lines::Lines;
use super::mooncake_row::MooncakeRow;
use super::row_error::TraceRowError;
use crate::units::{BlockSize, SimDuration};
use crate::workload::{Admission, Request, Workload, WorkloadBuilder};
use crate::workload_error::{MAX_REQUESTS, WorkloadError};

/// Content ids that a trace may have, so that every one of them can get a node.
const MAX_IDS: u64 = 1 << 31;

/// Reads a whole trace; `speedup` divides all times.
pub(super) fn read<R: BufRead>(
    mut lines: Lines<'_, R>,
    block_size: BlockSize,
    admission: Admission,
    speedup: f64,
) -> Result<Workload, WorkloadError> {
    let path = lines.path();
    let mut trace = Trace::new(block_size, admission);
    while let Some((line, text)) = lines.next_row()? {
        let row = MooncakeRow::parse(text, block_size);
        row.and_then(|row| trace.add(line, row))
            .map_err(|problem| problem.at(path, line))?;
        if trace.requests.len() as u64 > MAX_REQUESTS {
            return Err(WorkloadError::TooManyRequests);
        }
    }
    trace.into_workload(path, speedup)
}

/// The rows read so far.
struct Trace {
    block_size: BlockSize,
    admission: Admission,
    requests: Vec<TraceRequest>,
    ids: Vec<u64>,
    sessions: Vec<Session>,
    session_by_id: FxHashMap<String, u32>,
}

struct TraceRequest {
    session: u32,
    turn: u32,
    input_tokens: u32,
    output_tokens: u32,
    /// First turn: its timestamp; later turns: the think time.
    time_ms: f64,
    first_id: usize,
    end_id: usize,
    line: usize,
}

/// What later rows of a session build on.
#[derive(Default)]
struct Session {
    turns: u32,
    last_timestamp: Option<f64>,
}

impl Trace {
    fn new(block_size: BlockSize, admission: Admission) -> Self {
        Self {
            block_size,
            admission,
            requests: Vec::new(),
            ids: Vec::new(),
            sessions: Vec::new(),
            session_by_id: FxHashMap::default(),
        }
    }

    fn add(&mut self, line: usize, row: MooncakeRow) -> Result<(), TraceRowError> {
        let index = self.session_of(row.session_id);
        let session = &mut self.sessions[index as usize];
        let time_ms = match (session.turns, self.admission) {
            (0, Admission::OpenLoop) => first_turn(row.delay, row.timestamp)?.ok_or(TraceRowError::NoTimestamp)?,
            (0, Admission::ClosedLoop { .. }) => match first_turn(row.delay, row.timestamp)? {
                Some(value) if value < 0.0 => return Err(TraceRowError::NegativeTimestamp { value }),
                _ => 0.0,
            },
            _ => think_time(row.delay, row.timestamp, session.last_timestamp)?,
        };
        let first_id = self.ids.len();
        self.ids.extend_from_slice(&row.hash_ids);
        if self.ids.len() as u64 > MAX_IDS {
            return Err(TraceRowError::TooManyBlocks {
                max: MAX_IDS,
                block_tokens: self.block_size.tokens(),
            });
        }
        self.requests.push(TraceRequest {
            session: index,
            turn: session.turns,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            time_ms,
            first_id,
            end_id: self.ids.len(),
            line,
        });
        session.turns += 1;
        session.last_timestamp = row.timestamp.or(session.last_timestamp);
        Ok(())
    }

    /// The session with this id; a new one if the id is new or missing.
    fn session_of(&mut self, id: Option<String>) -> u32 {
        let new = u32::try_from(self.sessions.len()).expect("there are fewer sessions than requests");
        let session = id.map_or(new, |id| *self.session_by_id.entry(id).or_insert(new));
        if session == new {
            self.sessions.push(Session::default());
        }
        session
    }

    fn into_workload(mut self, path: &str, speedup: f64) -> Result<Workload, WorkloadError> {
        // The sort is stable: turns keep the order of the file.
        self.requests.sort_by_key(|request| request.session);
        let first_turns = self.requests.iter().filter(|request| request.turn == 0);
        let Some(start_ms) = first_turns.map(|request| request.time_ms).reduce(f64::min) else {
            return Err(WorkloadError::Empty { path: path.to_owned() });
        };
        let mut builder = WorkloadBuilder::new(self.block_size);
        for request in &self.requests {
            let (field, time_ms) = match request.turn {
                0 => ("timestamp", request.time_ms - start_ms),
                _ => ("delay", request.time_ms),
            };
            let value = time_ms / speedup;
            let delay = SimDuration::from_ms(value)
                .ok_or_else(|| TraceRowError::BeyondClock { field, value }.at(path, request.line))?;
            builder.push(
                Request {
                    session: request.session,
                    turn: request.turn,
                    input_tokens: request.input_tokens,
                    output_tokens: request.output_tokens,
                    delay,
                },
                self.ids[request.first_id..request.end_id].iter().copied(),
            );
        }
        Ok(builder.build(self.admission))
    }
}

/// The timestamp of a first turn, which nothing may be waiting for.
fn first_turn(delay: Option<f64>, timestamp: Option<f64>) -> Result<Option<f64>, TraceRowError> {
    match delay {
        Some(value) if value != 0.0 => Err(TraceRowError::DelayOnFirstTurn { value }),
        _ => Ok(timestamp),
    }
}

/// Think time of a later turn: as given, or between its timestamp and the one before, or none.
fn think_time(delay: Option<f64>, timestamp: Option<f64>, previous: Option<f64>) -> Result<f64, TraceRowError> {
    match (delay, timestamp, previous) {
        (Some(delay), _, _) if delay < 0.0 => Err(TraceRowError::Value {
            field: "delay".to_owned(),
            value: delay.to_string(),
            expected: "a number of milliseconds from 0",
        }),
        (Some(delay), _, _) => Ok(delay),
        (None, None, _) => Ok(0.0),
        (None, Some(value), None) => Err(TraceRowError::NothingToCountFrom { value }),
        (None, Some(value), Some(previous)) if value < previous => {
            Err(TraceRowError::TimestampBackwards { value, previous })
        }
        (None, Some(value), Some(previous)) => Ok(value - previous),
    }
}
