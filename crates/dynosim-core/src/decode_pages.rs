//! Decode prices by batch size and mean context, kept in pages of sums.
//!
//! Over an unchanged batch the mean context rises by exactly one per step, so a run of steps is a
//! stretch of contexts. Pages hold running sums of the very integers that single steps would add:
//! the length of a run is the difference of two of them, and a cut is a binary search. Pages also
//! count how often each context was visited, which gives the gaps between tokens at the end.

use dynosim_spec::SimDuration;
use dynosim_timing::StepShape;

use crate::engine::PoolSetup;
use crate::error::SimError;
use crate::metrics::GapTally;
use crate::prices::StepTime;

/// Contexts per page.
const PAGE: usize = 32;

/// Number of a page that is not filled yet.
const UNFILLED: u32 = u32::MAX;

/// Prices of 32 adjacent mean contexts at one batch size, nanoseconds.
#[derive(Debug, Clone)]
struct Page {
    /// `total[i]` is the time of the first `i` contexts.
    total: [u64; PAGE + 1],
    extrapolated: [u64; PAGE + 1],
    /// Differences of the visits from one context to the next.
    visits: [i32; PAGE + 1],
    /// Whether some context takes no time at all.
    has_zero: bool,
}

/// The decode prices of one kind of worker, as far as they were asked for.
#[derive(Debug, Default)]
pub(crate) struct DecodePages {
    /// By batch size, then by page of contexts: number of the page.
    rows: Vec<Vec<u32>>,
    pages: Vec<Page>,
}

/// Contexts of one batch size within one page.
struct Slice {
    page: usize,
    from: usize,
    to: usize,
}

impl DecodePages {
    /// Makes sure that `steps` steps from this mean context on can be priced.
    pub(crate) fn fill(&mut self, pool: &PoolSetup, seqs: u32, context: u64, steps: u32) -> Result<(), SimError> {
        let seqs_index = seqs as usize;
        if self.rows.len() <= seqs_index {
            self.rows.resize_with(seqs_index + 1, Vec::new);
        }
        let (first, last) = (page_of(context), page_of(context + u64::from(steps.max(1)) - 1));
        let row = &mut self.rows[seqs_index];
        if row.len() <= last {
            row.resize(last + 1, UNFILLED);
        }
        for (number, page) in (first..).zip(&mut row[first..=last]) {
            if *page == UNFILLED {
                *page = u32::try_from(self.pages.len()).expect("fewer pages than memory holds");
                self.pages.push(Page::fill(pool, seqs, number)?);
            }
        }
        Ok(())
    }

    /// How many of `steps` steps from this mean context on take time before the first one that takes none.
    pub(crate) fn steps_with_time(&self, seqs: u32, context: u64, steps: u32) -> u32 {
        let mut before = 0;
        for Slice { page, from, to } in self.slices(seqs, context, steps) {
            let page = &self.pages[page];
            if page.has_zero {
                let zero = page.total[from..=to].windows(2).position(|ends| ends[0] == ends[1]);
                if let Some(zero) = zero {
                    return before + u32::try_from(zero).expect("a page is short");
                }
            }
            before += u32::try_from(to - from).expect("a page is short");
        }
        before
    }

    /// Time of `steps` steps from this mean context on.
    pub(crate) fn time(&self, seqs: u32, context: u64, steps: u32) -> StepTime {
        let mut time = StepTime::default();
        for slice in self.slices(seqs, context, steps) {
            let page = &self.pages[slice.page];
            time.total += SimDuration::from_nanos(page.total[slice.to] - page.total[slice.from]);
            let extrapolated = page.extrapolated[slice.to] - page.extrapolated[slice.from];
            time.extrapolated += SimDuration::from_nanos(extrapolated);
        }
        time
    }

    /// The fewest steps, of `steps` at most, that take at least `span`.
    pub(crate) fn steps_until(&self, seqs: u32, context: u64, steps: u32, span: SimDuration) -> u32 {
        let mut before = 0;
        let mut left = span.as_nanos();
        for slice in self.slices(seqs, context, steps) {
            let page = &self.pages[slice.page];
            let start = page.total[slice.from];
            if page.total[slice.to] - start >= left {
                let within = page.total[slice.from..=slice.to].partition_point(|&end| end - start < left);
                return before + u32::try_from(within).expect("a page is short");
            }
            left -= page.total[slice.to] - start;
            before += u32::try_from(slice.to - slice.from).expect("a page is short");
        }
        steps
    }

    /// Counts one visit of each of `steps` contexts from this one on.
    pub(crate) fn visit(&mut self, seqs: u32, context: u64, steps: u32) {
        for Slice { page, from, to } in slices(&self.rows[seqs as usize], context, steps) {
            let visits = &mut self.pages[page].visits;
            visits[from] += 1;
            visits[to] -= 1;
        }
    }

    /// Adds a gap per visit and sequence to the tally, and forgets the visits.
    pub(crate) fn drain_visits(&mut self, gaps: &mut GapTally) {
        for (seqs, row) in (0_u64..).zip(&self.rows) {
            for &page in row.iter().filter(|&&page| page != UNFILLED) {
                let page = &mut self.pages[page as usize];
                let mut visits = 0_i64;
                gaps.extend((0..PAGE).filter_map(|at| {
                    visits += i64::from(page.visits[at]);
                    let times = u64::try_from(visits).ok().filter(|&times| times > 0)?;
                    Some((
                        SimDuration::from_nanos(page.total[at + 1] - page.total[at]),
                        times * seqs,
                    ))
                }));
                page.visits = [0; PAGE + 1];
            }
        }
    }

    fn slices(&self, seqs: u32, context: u64, steps: u32) -> impl Iterator<Item = Slice> + '_ {
        slices(&self.rows[seqs as usize], context, steps)
    }
}

impl Page {
    fn fill(pool: &PoolSetup, seqs: u32, number: usize) -> Result<Self, SimError> {
        let mut page = Self {
            total: [0; PAGE + 1],
            extrapolated: [0; PAGE + 1],
            visits: [0; PAGE + 1],
            has_zero: false,
        };
        for at in 0..PAGE {
            let context = (number * PAGE + at) as u64;
            let time = pool.decode_time(&StepShape::decode(seqs, context * u64::from(seqs)))?;
            page.total[at + 1] = page.total[at] + time.total.as_nanos();
            page.has_zero |= time.total == SimDuration::ZERO;
            page.extrapolated[at + 1] = page.extrapolated[at] + time.extrapolated.as_nanos();
        }
        Ok(page)
    }
}

fn page_of(context: u64) -> usize {
    usize::try_from(context).expect("contexts fit the address space") / PAGE
}

fn slices(row: &[u32], context: u64, steps: u32) -> impl Iterator<Item = Slice> + use<'_> {
    let mut at = usize::try_from(context).expect("contexts fit the address space");
    let end = at + steps as usize;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let number = at / PAGE;
            let stop = end.min((number + 1) * PAGE);
            let slice = Slice {
                page: row[number] as usize,
                from: at % PAGE,
                to: stop - number * PAGE,
            };
            at = stop;
            slice
        })
    })
}
