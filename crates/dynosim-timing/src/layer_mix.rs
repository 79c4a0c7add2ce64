//! Attention of an average layer, where some layers have a sliding window.

use std::ops::Range;

use crate::operators::AttentionOverContext;
use crate::reading::Reading;

/// Attention without a window, and with one if some of the layers have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerMix<A> {
    full: A,
    windowed: Option<Windowed<A>>,
}

/// Attention over a window, and the share of the layers that have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windowed<A> {
    pub(crate) share: f64,
    pub(crate) attention: A,
}

/// Lengths for which latencies are kept at a time.
const STRETCH: usize = 64;

impl<A> Windowed<A> {
    /// The mean over all layers of what layers with the window take, and the others.
    fn mean(&self, windowed: Reading, full: Reading) -> Reading {
        Reading {
            ms: self.share * windowed.ms + (1.0 - self.share) * full.ms,
            extrapolated: windowed.extrapolated || full.extrapolated,
        }
    }
}

impl<A> LayerMix<A> {
    pub(crate) const fn new(full: A, windowed: Option<Windowed<A>>) -> Self {
        Self { full, windowed }
    }

    /// The same layers, those of either kind in a form of their own.
    pub(crate) fn by_kind<B>(self, full: impl FnOnce(A) -> B, windowed: impl FnOnce(A) -> B) -> LayerMix<B> {
        LayerMix {
            full: full(self.full),
            windowed: self.windowed.map(|layers| Windowed {
                share: layers.share,
                attention: windowed(layers.attention),
            }),
        }
    }

    /// Attention without a window.
    pub(crate) fn into_full(self) -> A {
        self.full
    }

    /// The same layers in another form.
    pub(crate) fn map<'a, B>(&'a self, form: impl Fn(&'a A) -> B) -> LayerMix<B> {
        LayerMix {
            full: form(&self.full),
            windowed: self.windowed.as_ref().map(|windowed| Windowed {
                share: windowed.share,
                attention: form(&windowed.attention),
            }),
        }
    }

    /// [`LayerMix::map`] into a form that may be missing.
    pub(crate) fn try_map<B, E>(&self, mut form: impl FnMut(&A) -> Result<B, E>) -> Result<LayerMix<B>, E> {
        Ok(LayerMix {
            full: form(&self.full)?,
            windowed: match &self.windowed {
                Some(windowed) => Some(Windowed {
                    share: windowed.share,
                    attention: form(&windowed.attention)?,
                }),
                None => None,
            },
        })
    }

    /// The mean over all layers of what one layer takes `at` some point.
    pub(crate) fn mean<'a>(&'a self, at: impl Fn(&'a A) -> Reading) -> Reading {
        let full = at(&self.full);
        match &self.windowed {
            Some(windowed) => windowed.mean(at(&windowed.attention), full),
            None => full,
        }
    }

    /// The smaller of what both kinds of layers have.
    pub(crate) fn least<'a, B: Ord>(&'a self, of: impl Fn(&'a A) -> B) -> B {
        let full = of(&self.full);
        match &self.windowed {
            Some(windowed) => full.min(of(&windowed.attention)),
            None => full,
        }
    }
}

impl<A: AttentionOverContext> AttentionOverContext for LayerMix<A> {
    fn at(&self, kv_tokens: u64) -> Reading {
        self.mean(|attention| attention.at(kv_tokens))
    }

    fn over(&self, kv_tokens: Range<u64>, mut found: impl FnMut(Reading)) {
        let Some(windowed) = &self.windowed else {
            return self.full.over(kv_tokens, found);
        };
        // Each kind of layers goes through a stretch of lengths at its own speed.
        let mut full = [Reading::ZERO; STRETCH];
        let mut start = kv_tokens.start;
        while start < kv_tokens.end {
            let end = kv_tokens.end.min(start.saturating_add(STRETCH as u64));
            let mut free = full.iter_mut();
            self.full.over(start..end, |reading| {
                if let Some(place) = free.next() {
                    *place = reading;
                }
            });
            let mut known = full.iter();
            windowed.attention.over(start..end, |reading| {
                if let Some(&full) = known.next() {
                    found(windowed.mean(reading, full));
                }
            });
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many milliseconds, or one per token.
    struct Layer(Option<f64>);

    impl AttentionOverContext for Layer {
        fn at(&self, kv_tokens: u64) -> Reading {
            Reading::measured(self.0.unwrap_or(kv_tokens as f64)).or_extrapolated(kv_tokens > 8)
        }
    }

    #[test]
    fn layers_count_by_their_share() {
        let windowed = Windowed {
            share: 0.25,
            attention: Layer(Some(2.0)),
        };
        let mix = LayerMix::new(Layer(None), Some(windowed));
        assert_eq!(mix.at(6), Reading::measured(5.0));
        let full = LayerMix::new(Layer(None), None);
        assert_eq!(full.at(6), Reading::measured(6.0));
    }

    #[test]
    fn stretches_of_lengths_are_single_ones() {
        for share in [0.0, 0.5, 0.3, 1.0] {
            let windowed = Windowed {
                share,
                attention: Layer(Some(2.0)),
            };
            let mix = LayerMix::new(Layer(None), Some(windowed));
            for lengths in [0..0, 3..4, 1..65, 5..70, 2..300] {
                let mut found = Vec::new();
                mix.over(lengths.clone(), |reading| found.push(reading));
                assert_eq!(
                    found,
                    lengths.map(|kv_tokens| mix.at(kv_tokens)).collect::<Vec<Reading>>()
                );
            }
        }
    }
}
