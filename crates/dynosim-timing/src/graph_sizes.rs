//! The batch sizes for which an engine has captured CUDA graphs.

/// Largest captured size, whatever the settings.
const LARGEST: u64 = 512;

/// Distance of the sizes from 8 on.
const STRIDE: u64 = 8;

/// Steps that only generate run at the next larger of these sizes: 1, 2, 4, then the multiples of 8 up to twice the
/// requests that may run at once, and 512 at most. Larger steps run as they are, without a graph.
///
/// Source: vLLM's documentation of its CUDA graph capture sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GraphSizes {
    /// The largest captured size; 0 if there are no graphs.
    largest: u64,
}

impl GraphSizes {
    /// No padding.
    pub(crate) const NONE: Self = Self { largest: 0 };

    /// Sizes of an engine that runs so many requests at once, `None` for any number.
    pub(crate) fn of(max_num_seqs: Option<u32>) -> Self {
        let wanted = max_num_seqs.map_or(LARGEST, |seqs| 2 * u64::from(seqs));
        let largest = match wanted.min(LARGEST) {
            wanted @ STRIDE.. => wanted / STRIDE * STRIDE,
            wanted @ 4.. => wanted.min(4),
            wanted => wanted,
        };
        Self { largest }
    }

    /// The size at which a step of `batch` sequences runs.
    pub(crate) fn padded(self, batch: u64) -> u64 {
        if batch > self.largest {
            return batch;
        }
        match batch {
            0..=2 => batch,
            3..=4 => 4,
            // Where 8 was not captured, 4 is the largest size.
            _ => batch.next_multiple_of(STRIDE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GraphSizes;

    #[track_caller]
    fn check(max_num_seqs: Option<u32>, padded: &[(u64, u64)]) {
        let sizes = GraphSizes::of(max_num_seqs);
        for &(batch, expected) in padded {
            assert_eq!(sizes.padded(batch), expected, "{batch} of {max_num_seqs:?}");
        }
    }

    #[test]
    fn steps_are_padded_to_the_next_captured_size() {
        check(
            None,
            &[
                (1, 1),
                (2, 2),
                (3, 4),
                (5, 8),
                (8, 8),
                (9, 16),
                (505, 512),
                (512, 512),
                (513, 513),
            ],
        );
        check(Some(4), &[(3, 4), (5, 8), (8, 8), (9, 9)]);
        check(Some(13), &[(17, 24), (24, 24), (25, 25)]);
        check(Some(3), &[(3, 4), (5, 5)]);
        check(Some(1), &[(1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn without_graphs_nothing_is_padded() {
        for batch in 0..20 {
            assert_eq!(GraphSizes::NONE.padded(batch), batch);
        }
    }
}
