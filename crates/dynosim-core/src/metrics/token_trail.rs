//! When a request emitted its tokens, as much of it as metrics need.

use dynosim_spec::{RequestId, SimTime};

use super::recorder::Recorder;

/// First, second and latest token of a request that is being served.
///
/// Kept with the request's progress on its worker and noted down once, when it is finished.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokenTrail {
    pub(super) first: SimTime,
    pub(super) second: SimTime,
    pub(super) last: SimTime,
    pub(super) tokens: u32,
}

impl TokenTrail {
    /// When the latest token left the engine.
    pub(crate) fn latest(&self) -> SimTime {
        self.last
    }

    /// Tokens that have left the engine.
    pub(crate) fn count(&self) -> u32 {
        self.tokens
    }

    /// Notes down `steps` tokens that were counted for a whole batch, the latest one at `last`.
    pub(crate) fn catch_up(&mut self, steps: u32, last: SimTime) {
        debug_assert!(self.tokens > 1, "the first two tokens are noted one by one");
        self.tokens += steps;
        self.last = last;
    }

    /// One more token leaves the engine.
    pub(crate) fn emit(&mut self, request: RequestId, at: SimTime, recorder: &mut Recorder) {
        match self.tokens {
            0 => self.first = at,
            1 => self.second = at,
            _ => {}
        }
        if self.tokens > 0 {
            recorder.gaps.add(at - self.last, 1);
        }
        self.last = at;
        self.tokens += 1;
        recorder.keep_token_time(request, at);
    }

    /// `steps` more tokens leave the engine in as many steps of a run, the first one at `first_end`
    /// and the last one at `last_end`. The gaps between them are counted for the whole batch.
    pub(crate) fn emit_run(&mut self, steps: u32, first_end: SimTime, last_end: SimTime, recorder: &mut Recorder) {
        debug_assert!(self.tokens > 0, "a run continues requests that have tokens");
        if self.tokens == 1 {
            self.second = first_end;
        }
        recorder.gaps.add(first_end - self.last, 1);
        self.last = last_end;
        self.tokens += steps;
    }
}
