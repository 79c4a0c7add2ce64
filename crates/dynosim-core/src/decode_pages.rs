//! Decode prices by batch size and mean context, kept in pages of sums.
//!
//! Over an unchanged batch the mean context rises by exactly one per step, so a run of steps is a
//! stretch of contexts. Pages hold running sums of the very integers that single steps would add:
//! the length of a run is the difference of two of them, and a cut is a binary search. Only what runs
//! ask for is priced: at any time a page is filled from one context to another. Pages also
//! count how often each context was visited, which gives the gaps between tokens at the end.

use std::ops::Range;

use dynosim_spec::SimDuration;
use dynosim_timing::{Price, StepShape};

use crate::engine::PoolSetup;
use crate::error::SimError;
use crate::metrics::CountedGaps;
use crate::prices::StepTime;

/// Contexts per page.
const PAGE: usize = 32;

/// Where running sums start, far from either end of the numbers.
const ORIGIN: u64 = 1 << 63;

/// Prices of 32 adjacent mean contexts at one batch size, nanoseconds.
#[derive(Debug, Clone)]
struct Page {
    /// Batch size.
    seqs: u32,
    /// Contexts whose prices are known.
    filled: Range<u8>,
    /// Running sums over these, from an arbitrary start: `total[j] - total[i]` is the time of the contexts
    /// from `i` to before `j`.
    total: [u64; PAGE + 1],
    /// The same of the part that rests on extrapolation; `None` if there is no such part.
    extrapolated: Option<Box<[u64; PAGE + 1]>>,
    /// Differences of the visits from one context to the next.
    visits: [i32; PAGE + 1],
}

/// Where the pages of one batch size are; [`NOWHERE`] for one that nobody has asked for.
type Row = Vec<u32>;

const NOWHERE: u32 = u32::MAX;

/// The decode prices of one kind of worker, as far as they were asked for.
#[derive(Debug, Default)]
pub(crate) struct DecodePages {
    /// In the order in which they were asked for.
    pages: Vec<Page>,
    /// By batch size.
    rows: Vec<Row>,
    /// Whether some context of some page takes no time at all, and whether some price rests on extrapolation.
    has_zero: bool,
    has_extrapolated: bool,
}

/// A stretch of contexts within one page.
struct Slice {
    page: usize,
    from: usize,
    to: usize,
}

impl Slice {
    fn steps(&self) -> u32 {
        u32::try_from(self.to - self.from).expect("a page is short")
    }
}

impl DecodePages {
    /// Makes sure that `steps` steps from this mean context on can be priced.
    pub(crate) fn fill(&mut self, pool: &PoolSetup, seqs: u32, context: u64, steps: u32) -> Result<(), SimError> {
        let row_index = seqs as usize;
        if self.rows.len() <= row_index {
            self.rows.resize_with(row_index + 1, Row::new);
        }
        let row = &mut self.rows[row_index];
        for slice in slices(context, steps) {
            if row.len() <= slice.page {
                row.resize(slice.page + 1, NOWHERE);
            }
            if row[slice.page] == NOWHERE {
                row[slice.page] = u32::try_from(self.pages.len()).expect("fewer pages than memory has room for");
                self.pages.push(Page::starting_at(seqs, slice.from));
            }
            let page = &mut self.pages[row[slice.page] as usize];
            if page.lacks(&slice) {
                page.fill(pool, &slice)?;
                self.has_zero |= page.has_zero();
                self.has_extrapolated |= page.extrapolated.is_some();
            }
        }
        Ok(())
    }

    /// How many of `steps` steps from this mean context on take time before the first one that takes none.
    pub(crate) fn steps_with_time(&self, seqs: u32, context: u64, steps: u32) -> u32 {
        if !self.has_zero {
            return steps;
        }
        let mut before = 0;
        for slice in slices(context, steps) {
            let total = &self.page(seqs, &slice).total[slice.from..=slice.to];
            if let Some(zero) = total.windows(2).position(|ends| ends[0] == ends[1]) {
                return before + u32::try_from(zero).expect("a page is short");
            }
            before += slice.steps();
        }
        before
    }

    /// Time of `steps` steps from this mean context on.
    pub(crate) fn time(&self, seqs: u32, context: u64, steps: u32) -> SimDuration {
        let in_slice = |slice: Slice| {
            let total = &self.page(seqs, &slice).total;
            SimDuration::from_nanos(total[slice.to] - total[slice.from])
        };
        slices(context, steps).map(in_slice).sum()
    }

    /// How much of that rests on extrapolation.
    pub(crate) fn extrapolated_time(&self, seqs: u32, context: u64, steps: u32) -> SimDuration {
        if !self.has_extrapolated {
            return SimDuration::ZERO;
        }
        let in_slice = |slice: Slice| {
            let sums = self.page(seqs, &slice).extrapolated.as_ref()?;
            Some(SimDuration::from_nanos(sums[slice.to] - sums[slice.from]))
        };
        slices(context, steps).filter_map(in_slice).sum()
    }

    /// The fewest steps, of `steps` at most, that take at least `span`.
    pub(crate) fn steps_until(&self, seqs: u32, context: u64, steps: u32, span: SimDuration) -> u32 {
        let mut before = 0;
        let mut left = span.as_nanos();
        for slice in slices(context, steps) {
            let total = &self.page(seqs, &slice).total[slice.from..=slice.to];
            let (start, end) = (total[0], total[total.len() - 1]);
            if end - start >= left {
                let within = total.partition_point(|&end| end - start < left);
                return before + u32::try_from(within).expect("a page is short");
            }
            left -= end - start;
            before += slice.steps();
        }
        steps
    }

    /// Counts one visit of each of `steps` contexts from this one on.
    pub(crate) fn visit(&mut self, seqs: u32, context: u64, steps: u32) {
        let row = &self.rows[seqs as usize];
        for Slice { page, from, to } in slices(context, steps) {
            let visits = &mut self.pages[row[page] as usize].visits;
            visits[from] += 1;
            visits[to] -= 1;
        }
    }

    fn page(&self, seqs: u32, slice: &Slice) -> &Page {
        // A run is priced before anybody asks for its times.
        &self.pages[self.rows[seqs as usize][slice.page] as usize]
    }
}

/// A gap per visit and sequence.
impl CountedGaps for DecodePages {
    fn for_each(&self, mut found: impl FnMut(SimDuration, u64)) {
        for page in &self.pages {
            let mut visits = 0_i64;
            for at in usize::from(page.filled.start)..usize::from(page.filled.end) {
                visits += i64::from(page.visits[at]);
                if visits > 0 {
                    let gap = page.total[at + 1] - page.total[at];
                    found(
                        SimDuration::from_nanos(gap),
                        visits.cast_unsigned() * u64::from(page.seqs),
                    );
                }
            }
        }
    }
}

impl Page {
    /// A page that is filled from this context on, and not beyond it yet.
    #[expect(clippy::cast_possible_truncation, reason = "a page is short")]
    fn starting_at(seqs: u32, context: usize) -> Self {
        Self {
            seqs,
            filled: context as u8..context as u8,
            total: [ORIGIN; PAGE + 1],
            extrapolated: None,
            visits: [0; PAGE + 1],
        }
    }

    fn lacks(&self, slice: &Slice) -> bool {
        slice.from < usize::from(self.filled.start) || slice.to > usize::from(self.filled.end)
    }

    fn has_zero(&self) -> bool {
        let filled = usize::from(self.filled.start)..=usize::from(self.filled.end);
        self.total[filled].windows(2).any(|ends| ends[0] == ends[1])
    }

    /// Fills the page over a slice, and over what lies between that and what is filled.
    #[expect(clippy::cast_possible_truncation, reason = "a page is short")]
    fn fill(&mut self, pool: &PoolSetup, slice: &Slice) -> Result<(), SimError> {
        let seqs = self.seqs;
        let first_context = (slice.page * PAGE) as u64;
        let mut prices = [Price::ZERO; PAGE];
        let (from, to) = (usize::from(self.filled.start), usize::from(self.filled.end));
        let time_of = |at: usize, price: Price| {
            let context = first_context + at as u64;
            pool.decode_step_time(price, || StepShape::decode(seqs, context * u64::from(seqs)))
        };
        if slice.to > to {
            let prices = &mut prices[to..slice.to];
            pool.timing
                .decode_over_contexts(seqs, first_context + to as u64, prices);
            for (at, &mut price) in (to..).zip(prices) {
                let time = time_of(at, price)?;
                let total = self.total[at].checked_add(time.total.as_nanos());
                self.total[at + 1] = total.ok_or(SimError::ClockExhausted)?;
                if let Some(sums) = self.extrapolated_with(time) {
                    sums[at + 1] = sums[at] + time.extrapolated.as_nanos();
                }
            }
            self.filled.end = slice.to as u8;
        }
        if slice.from < from {
            let prices = &mut prices[slice.from..from];
            pool.timing
                .decode_over_contexts(seqs, first_context + slice.from as u64, prices);
            for (at, &mut price) in (slice.from..from).zip(prices).rev() {
                let time = time_of(at, price)?;
                let total = self.total[at + 1].checked_sub(time.total.as_nanos());
                self.total[at] = total.ok_or(SimError::ClockExhausted)?;
                if let Some(sums) = self.extrapolated_with(time) {
                    sums[at] = sums[at + 1] - time.extrapolated.as_nanos();
                }
            }
            self.filled.start = slice.from as u8;
        }
        Ok(())
    }

    /// The sums over extrapolated parts, if there has been any such part, this one included.
    fn extrapolated_with(&mut self, time: StepTime) -> Option<&mut [u64; PAGE + 1]> {
        if time.extrapolated > SimDuration::ZERO && self.extrapolated.is_none() {
            self.extrapolated = Some(Box::new([ORIGIN; PAGE + 1]));
        }
        self.extrapolated.as_deref_mut()
    }
}

/// The pages that `steps` contexts from this one on lie in.
fn slices(context: u64, steps: u32) -> impl Iterator<Item = Slice> {
    let mut at = usize::try_from(context).expect("contexts fit the address space");
    let end = at + steps as usize;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let page = at / PAGE;
            let stop = end.min((page + 1) * PAGE);
            let slice = Slice {
                page,
                from: at % PAGE,
                to: stop - page * PAGE,
            };
            at = stop;
            slice
        })
    })
}
