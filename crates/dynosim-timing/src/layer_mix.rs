//! Attention of an average layer, where some layers have a sliding window.

use std::ops::Range;

use crate::operators::AttentionOverContext;
use crate::reading::Reading;

/// Attention without a window, and with one if some of the layers have it.
#[derive(Debug)]
pub(crate) struct LayerMix<A> {
    full: A,
    windowed: Option<Windowed<A>>,
}

/// Attention over a window, and the share of the layers that have it.
#[derive(Debug)]
pub(crate) struct Windowed<A> {
    pub(crate) share: f64,
    pub(crate) attention: A,
}

impl<A> LayerMix<A> {
    pub(crate) const fn new(full: A, windowed: Option<Windowed<A>>) -> Self {
        Self { full, windowed }
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

    /// The mean over all layers of what one layer takes `at` some point.
    pub(crate) fn mean<'a>(&'a self, at: impl Fn(&'a A) -> Reading) -> Reading {
        let full = at(&self.full);
        let Some(Windowed { share, attention }) = &self.windowed else {
            return full;
        };
        let windowed = at(attention);
        Reading {
            ms: share * windowed.ms + (1.0 - share) * full.ms,
            extrapolated: windowed.extrapolated || full.extrapolated,
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
        if self.windowed.is_none() {
            return self.full.over(kv_tokens, found);
        }
        for kv_tokens in kv_tokens {
            found(self.at(kv_tokens));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the layers takes 2 ms, the others a millisecond per token.
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
        let mut found = Vec::new();
        mix.over(6..10, |reading| found.push(reading));
        assert_eq!(found, [6, 7, 8, 9].map(|kv_tokens| mix.at(kv_tokens)));
        let full = LayerMix::new(Layer(None), None);
        assert_eq!(full.at(6), Reading::measured(6.0));
    }
}
