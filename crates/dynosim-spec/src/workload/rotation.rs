//! The same workload, begun at another point of itself.

use std::ops::Range;

use super::{Admission, PromptPaths, Workload};
use crate::units::SimDuration;

impl Workload {
    /// Number of sessions; without later turns, of requests.
    pub fn session_count(&self) -> usize {
        self.requests.iter().filter(|request| request.turn == 0).count()
    }

    /// The same sessions, the first `sessions` of them (modulo their number) moved behind the others.
    ///
    /// Requests keep their session, turn, lengths, prompt and think time; their [`RequestId`](crate::RequestId) is that
    /// of their new place. In a closed loop sessions come in the rotated order. In an open loop they are taken in order
    /// of arrival, and arrival times turn with them: the first arrival is as late as before, gaps between neighbours
    /// stay as they are, and where the end meets the beginning the gap is the mean of all gaps, rounded down to
    /// a nanosecond. No rotation is the workload itself, in its order.
    #[must_use]
    pub fn rotated(&self, sessions: usize) -> Self {
        let mut spans = self.session_spans();
        if spans.is_empty() || sessions.is_multiple_of(spans.len()) {
            return self.clone();
        }
        let is_open = self.admission == Admission::OpenLoop;
        if is_open {
            spans.sort_by_key(|span| self.requests[span.start].delay);
        }
        let cut = sessions % spans.len();
        let times: Vec<u64> = spans
            .iter()
            .map(|span| self.requests[span.start].delay.as_nanos())
            .collect();
        spans.rotate_left(cut);
        let mut rotated = self.in_order(&spans);
        if is_open {
            rotated.arrive_at(&rotated_times(&times, cut));
        }
        rotated
    }

    /// Where the requests of each session are.
    fn session_spans(&self) -> Vec<Range<usize>> {
        let starts: Vec<usize> = (0..self.requests.len())
            .filter(|&index| self.requests[index].turn == 0)
            .collect();
        let ends = starts.iter().skip(1).copied().chain([self.requests.len()]);
        starts.iter().zip(ends).map(|(&start, end)| start..end).collect()
    }

    /// The requests of these stretches, one stretch after the other.
    fn in_order(&self, spans: &[Range<usize>]) -> Self {
        let order = || spans.iter().cloned().flatten();
        let mut nodes = Vec::with_capacity(self.prompts.nodes.len());
        let mut ends = Vec::with_capacity(self.prompts.ends.len());
        for index in order() {
            nodes.extend_from_slice(self.prompts.path_at(index));
            ends.push(nodes.len());
        }
        Self {
            requests: order().map(|index| self.requests[index]).collect(),
            admission: self.admission,
            prompts: PromptPaths {
                nodes,
                ends,
                ..self.prompts
            },
        }
    }

    /// Lets sessions arrive at these times, nanoseconds from the start, in order.
    fn arrive_at(&mut self, times: &[u64]) {
        let first_turns = self.requests.iter_mut().filter(|request| request.turn == 0);
        for (request, &time) in first_turns.zip(times) {
            request.delay = SimDuration::from_nanos(time);
        }
    }
}

/// Ascending times, at least two, with their first `cut` gaps moved to the end, and the mean gap in between.
fn rotated_times(times: &[u64], cut: usize) -> Vec<u64> {
    let (first, last) = (times[0], times[times.len() - 1]);
    let seam = (last - first) / (times.len() as u64 - 1);
    let gap = |pair: &[u64]| pair[1] - pair[0];
    let later = times[cut..].windows(2).map(gap);
    let earlier = times[..cut].windows(2).map(gap);
    let mut time = first;
    let after_gap = |gap: u64| {
        time += gap;
        time
    };
    [0].into_iter()
        .chain(later)
        .chain([seam])
        .chain(earlier)
        .map(after_gap)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::units::BlockSize;
    use crate::workload::{Request, WorkloadBuilder};

    /// Sessions with these arrivals; session `i` has `i % 3 + 1` turns 7 ns apart, and content of its own and of a
    /// group.
    fn workload(arrivals: &[u64], admission: Admission) -> Workload {
        let mut builder = WorkloadBuilder::new(BlockSize::new(4).expect("not zero"));
        for (session, &arrival) in (0..).zip(arrivals) {
            for turn in 0..=session % 3 {
                let request = Request {
                    session,
                    turn,
                    input_tokens: 12 + session,
                    output_tokens: 100 + 10 * session + turn,
                    delay: SimDuration::from_nanos(if turn == 0 { arrival } else { 7 }),
                };
                builder.push(request, [u64::from(session % 2), u64::from(session), u64::from(turn)]);
            }
        }
        builder.build(admission)
    }

    /// Every request with its prompt, without the arrival of a session.
    fn contents(workload: &Workload) -> Vec<(Request, Vec<u32>)> {
        let ids = (0..).map(RequestId::new);
        let contents = ids.zip(workload.requests()).map(|(id, &request)| {
            let delay = if request.turn == 0 {
                SimDuration::ZERO
            } else {
                request.delay
            };
            (Request { delay, ..request }, workload.prompts().path(id).to_vec())
        });
        contents.collect()
    }

    fn sorted(mut contents: Vec<(Request, Vec<u32>)>) -> Vec<(Request, Vec<u32>)> {
        contents.sort_by_key(|(request, _)| (request.session, request.turn));
        contents
    }

    /// Session and arrival of every first turn, in order.
    fn arrivals(workload: &Workload) -> Vec<(u32, u64)> {
        let first_turns = workload.requests().iter().filter(|request| request.turn == 0);
        first_turns
            .map(|request| (request.session, request.delay.as_nanos()))
            .collect()
    }

    const CLOSED: Admission = Admission::ClosedLoop { concurrency: 2 };

    #[test]
    fn arrivals_turn_with_their_sessions() {
        // Gaps 10, 20, 30, 40; their mean is 25.
        let workload = workload(&[5, 15, 35, 65, 105], Admission::OpenLoop);
        let check = |sessions, expected: [(u32, u64); 5]| {
            assert_eq!(arrivals(&workload.rotated(sessions)), expected, "{sessions}");
        };
        check(0, [(0, 5), (1, 15), (2, 35), (3, 65), (4, 105)]);
        check(2, [(2, 5), (3, 35), (4, 75), (0, 100), (1, 110)]);
        check(4, [(4, 5), (0, 30), (1, 40), (2, 60), (3, 90)]);
        check(7, [(2, 5), (3, 35), (4, 75), (0, 100), (1, 110)]);
    }

    #[test]
    fn sessions_are_taken_in_order_of_arrival() {
        let workload = workload(&[30, 0, 10], Admission::OpenLoop);
        assert_eq!(arrivals(&workload.rotated(1)), [(2, 0), (0, 20), (1, 35)]);
    }

    #[test]
    fn closed_loops_keep_file_order() {
        let workload = workload(&[30, 0, 10, 20], CLOSED);
        assert_eq!(arrivals(&workload.rotated(3)), [(3, 20), (0, 30), (1, 0), (2, 10)]);
        assert_eq!(workload.rotated(3).admission(), CLOSED);
    }

    #[test]
    fn requests_are_a_permutation_with_prompts_and_think_times() {
        for admission in [Admission::OpenLoop, CLOSED] {
            let workload = workload(&[0, 3, 3, 9, 11, 20, 21], admission);
            assert_eq!(workload.session_count(), 7);
            for sessions in 0..9 {
                let rotated = workload.rotated(sessions);
                assert_eq!(sorted(contents(&rotated)), sorted(contents(&workload)));
                assert_eq!(rotated.prompts().node_count(), workload.prompts().node_count());
                let mut turned = contents(&workload);
                let moved = workload
                    .requests()
                    .iter()
                    .filter(|request| (request.session as usize) < sessions % 7);
                turned.rotate_left(moved.count());
                assert_eq!(contents(&rotated), turned, "turns of a session stay adjacent");
            }
        }
    }

    #[test]
    fn no_rotation_changes_nothing() {
        let arrivals_out_of_order = [30, 0, 10];
        let workload = workload(&arrivals_out_of_order, Admission::OpenLoop);
        for sessions in [0, 3, 6] {
            let rotated = workload.rotated(sessions);
            assert_eq!(rotated.requests(), workload.requests());
            assert_eq!(contents(&rotated), contents(&workload));
        }
    }

    #[test]
    fn a_single_session_cannot_turn() {
        let workload = workload(&[5], Admission::OpenLoop);
        assert_eq!(arrivals(&workload.rotated(1)), [(0, 5)]);
        let nothing = WorkloadBuilder::new(BlockSize::new(4).expect("not zero")).build(CLOSED);
        assert_eq!(nothing.rotated(3).requests(), []);
    }
}
