//! What every running request is charged for at the worker it was sent to.

use dynosim_spec::{RequestId, SegmentId, WorkerId};

use crate::active_blocks::Footprint;

/// The charge of one request.
#[derive(Debug, Clone)]
pub(crate) struct Booking {
    worker: WorkerId,
    prefill_tokens: u32,
    shared: Vec<SegmentId>,
    own_blocks: u32,
}

impl Booking {
    /// The blocks it counts for.
    pub(crate) fn footprint(&self) -> Footprint<'_> {
        Footprint {
            shared: &self.shared,
            own_blocks: self.own_blocks,
        }
    }
}

/// The charges of all running requests, and the prefill tokens they add up to on each worker.
#[derive(Debug, Clone)]
pub(crate) struct Bookings {
    /// Whole numbers, far from where `f64` has gaps.
    prefill_tokens: Vec<f64>,
    /// Where in `charges` a request's charge is, while it runs.
    slots: Vec<Option<u32>>,
    /// Charges of running requests, and buffers of past ones for requests to come.
    charges: Vec<Booking>,
    free_slots: Vec<u32>,
}

impl Bookings {
    /// No running requests on `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            prefill_tokens: vec![0.0; workers],
            slots: Vec::new(),
            charges: Vec::new(),
            free_slots: Vec::new(),
        }
    }

    /// Prefill tokens booked on each worker.
    pub(crate) fn prefill_tokens(&self) -> &[f64] {
        &self.prefill_tokens
    }

    /// Where a running request was sent.
    pub(crate) fn worker(&self, request: RequestId) -> Option<WorkerId> {
        let slot = (*self.slots.get(request.index())?)?;
        Some(self.charges[slot as usize].worker)
    }

    /// Charges `worker` for a request that is not running yet.
    pub(crate) fn open(&mut self, request: RequestId, worker: WorkerId, prefill_tokens: u32, footprint: Footprint<'_>) {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.charges.push(Booking {
                worker,
                prefill_tokens: 0,
                shared: Vec::new(),
                own_blocks: 0,
            });
            u32::try_from(self.charges.len() - 1).expect("no more bookings than request ids")
        });
        let booking = &mut self.charges[slot as usize];
        booking.worker = worker;
        booking.prefill_tokens = prefill_tokens;
        booking.shared.clear();
        booking.shared.extend_from_slice(footprint.shared);
        booking.own_blocks = footprint.own_blocks;

        if self.slots.len() <= request.index() {
            self.slots.resize(request.index() + 1, None);
        }
        self.slots[request.index()] = Some(slot);
        self.prefill_tokens[worker.index()] += f64::from(prefill_tokens);
    }

    /// The prompt of `request` is computed: takes its prefill tokens off `worker`.
    pub(crate) fn prefill_done(&mut self, worker: WorkerId, request: RequestId) {
        if let Some(slot) = self.slot(worker, request) {
            let done = std::mem::take(&mut self.charges[slot as usize].prefill_tokens);
            self.prefill_tokens[worker.index()] -= f64::from(done);
        }
    }

    /// `request` has left `worker`: ends its charge and tells what it was.
    pub(crate) fn close(&mut self, worker: WorkerId, request: RequestId) -> Option<&Booking> {
        let slot = self.slot(worker, request)?;
        self.prefill_done(worker, request);
        self.slots[request.index()] = None;
        self.free_slots.push(slot);
        Some(&self.charges[slot as usize])
    }

    /// The slot of a request if it runs on `worker`; reports about any other request are no concern of ours.
    fn slot(&self, worker: WorkerId, request: RequestId) -> Option<u32> {
        let slot = (*self.slots.get(request.index())?)?;
        (self.charges[slot as usize].worker == worker).then_some(slot)
    }
}
