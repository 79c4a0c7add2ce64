//! Ascending keys among which a value is located without a search.

use crate::reading::Place;

/// Every power of two is divided into this many buckets, as a power of two.
const BUCKET_BITS: u32 = 3;

/// Ascending keys, and for each bucket of values the keys before it.
///
/// Buckets are an eighth of a power of two wide. Tables have their keys at powers of two or hardly denser
/// than buckets, so that one look into the list of buckets and a key or two give the place of any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    keys: Vec<u64>,
    /// For each bucket how many keys are smaller than all of its values; the last one is the first above
    /// all keys.
    keys_before: Vec<u32>,
}

impl Axis {
    /// An axis of `keys`, ascending and not empty.
    pub(crate) fn new(keys: Vec<u64>) -> Self {
        let last = keys.last().copied().unwrap_or_default();
        let mut keys_before = Vec::with_capacity(bucket(last) + 2);
        for (count, &key) in (0..).zip(&keys) {
            // All buckets up to that of the key have the keys before it, unless they have fewer already.
            let buckets = keys_before.len().max(bucket(key) + 1);
            keys_before.resize(buckets, count);
        }
        keys_before.push(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        Self { keys, keys_before }
    }

    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// How many keys are not larger than `value`.
    pub(crate) fn keys_up_to(&self, value: u64) -> usize {
        let bucket = bucket(value).min(self.keys_before.len() - 1);
        self.keys_up_to_from(self.keys_before[bucket] as usize, value)
    }

    /// [`Axis::keys_up_to`], at least `count` keys being known not to be larger than `value`.
    pub(crate) fn keys_up_to_from(&self, mut count: usize, value: u64) -> usize {
        while self.keys.get(count).is_some_and(|&key| key <= value) {
            count += 1;
        }
        count
    }

    /// The place of `value`, as [`Place::of`] finds it.
    pub(crate) fn place(&self, value: u64) -> Place {
        let (upper, last) = (self.keys_up_to(value), self.keys.len() - 1);
        let Some(lower) = upper.checked_sub(1) else {
            return Place::Beyond(0, last.min(1));
        };
        if self.keys[lower] == value {
            Place::At(lower)
        } else if upper > last {
            Place::Beyond(last.saturating_sub(1), last)
        } else {
            Place::Between(lower, upper)
        }
    }
}

/// The bucket of a value: its power of two and the bits that follow the leading one. Never decreasing.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 500 buckets")]
const fn bucket(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(power @ BUCKET_BITS..) => {
            let buckets_below = (power - BUCKET_BITS) << BUCKET_BITS;
            buckets_below as usize + (value >> (power - BUCKET_BITS)) as usize
        }
        // Small values have a bucket each.
        _ => value as usize,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = u64> {
        (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
    }

    fn keys() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::btree_set(value(), 1..100).prop_map(|keys| keys.into_iter().collect())
    }

    proptest! {
        #[test]
        fn differential_places_are_those_of_a_search(keys in keys(), values in prop::collection::vec(value(), 100)) {
            let axis = Axis::new(keys.clone());
            let near = keys.iter().flat_map(|key| [key.saturating_sub(1), *key, key.saturating_add(1)]);
            for value in near.chain(values) {
                prop_assert_eq!(axis.keys_up_to(value), keys.partition_point(|&key| key <= value));
                prop_assert_eq!(axis.place(value), Place::of(&value, &keys));
            }
        }
    }

    #[test]
    fn buckets_follow_one_another() {
        for value in 0..10_000 {
            assert!((0..=1).contains(&(bucket(value + 1) - bucket(value))), "{value}");
        }
        assert_eq!(
            (bucket(7), bucket(8), bucket(15), bucket(16), bucket(18)),
            (7, 8, 15, 16, 17)
        );
        assert_eq!(bucket(u64::MAX), 495);
    }
}
