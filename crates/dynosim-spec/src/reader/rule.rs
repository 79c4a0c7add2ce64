//! What a single value must be.

use std::path::PathBuf;

use serde_json::Value;

use crate::engine_args::Limit;

/// What a value of type `T` must be.
pub(crate) trait Rule<T> {
    /// What is wanted, so that it continues "must be".
    fn wanted(&self) -> String;

    /// The value that JSON spells, if it is one of type `T`.
    fn read(&self, json: &Value) -> Option<T>;

    /// Whether the value lies in the range.
    fn admits(&self, value: &T) -> bool;

    /// The value as shown in messages.
    fn show(&self, value: &T) -> String;

    /// The most that the type can hold, if JSON spells a number beyond it.
    fn exceeded(&self, _json: &Value) -> Option<u64> {
        None
    }

    /// Whether `null` is a value of its own instead of another way to leave the key out.
    fn takes_null(&self) -> bool {
        false
    }
}

/// A whole number within bounds; `200.0` is one too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    least: u64,
    most: u64,
}

impl Whole {
    /// At least `least`.
    pub(crate) const fn at_least(least: u64) -> Self {
        Self { least, most: u64::MAX }
    }

    /// This, and at most `most`.
    pub(crate) const fn at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }
}

impl<T: Copy + Into<u64> + TryFrom<u64>> Rule<T> for Whole {
    fn wanted(&self) -> String {
        let Self { least, most } = self;
        if *most == u64::MAX {
            format!("a whole number of at least {least}")
        } else {
            format!("a whole number from {least} to {most}")
        }
    }

    fn read(&self, json: &Value) -> Option<T> {
        whole(json).and_then(|number| T::try_from(number).ok())
    }

    fn admits(&self, value: &T) -> bool {
        (self.least..=self.most).contains(&(*value).into())
    }

    fn show(&self, value: &T) -> String {
        (*value).into().to_string()
    }

    fn exceeded(&self, json: &Value) -> Option<u64> {
        let most = if T::try_from(u64::MAX).is_ok() {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        json.as_f64().filter(|number| *number > most as f64).map(|_| most)
    }
}

/// The whole number that JSON spells, with or without a fraction of zero.
fn whole(json: &Value) -> Option<u64> {
    /// Above it, floats skip whole numbers, so a float would stand for several.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    json.as_u64().or_else(|| {
        let float = json.as_f64()?;
        let exact = float.fract() == 0.0 && (0.0..=EXACT).contains(&float);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
        exact.then_some(float as u64)
    })
}

/// A finite number within bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real {
    least: f64,
    most: f64,
    above: bool,
}

impl Real {
    /// A number of at least `least`.
    pub(crate) const fn at_least(least: f64) -> Self {
        Self {
            least,
            most: f64::MAX,
            above: false,
        }
    }

    /// A number above `bound`.
    pub(crate) const fn above(bound: f64) -> Self {
        Self {
            above: true,
            ..Self::at_least(bound)
        }
    }

    /// Any number.
    pub(crate) const fn any() -> Self {
        Self::at_least(f64::MIN)
    }

    /// The same, and at most `most`.
    pub(crate) const fn at_most(self, most: f64) -> Self {
        Self { most, ..self }
    }
}

impl Rule<f64> for Real {
    fn wanted(&self) -> String {
        let Self { least, most, above } = *self;
        let bounded = most < f64::MAX;
        match (above, bounded) {
            (true, true) => format!("a number above {least} and at most {most}"),
            (true, false) => format!("a number above {least}"),
            (false, true) => format!("a number from {least} to {most}"),
            (false, false) if least > f64::MIN => format!("a number of at least {least}"),
            (false, false) => "a number".to_owned(),
        }
    }

    fn read(&self, json: &Value) -> Option<f64> {
        json.as_f64()
    }

    fn admits(&self, value: &f64) -> bool {
        let enough = if self.above {
            *value > self.least
        } else {
            *value >= self.least
        };
        enough && *value <= self.most
    }

    fn show(&self, value: &f64) -> String {
        format!("{value:?}")
    }
}

/// True or false.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag;

impl Rule<bool> for Flag {
    fn wanted(&self) -> String {
        "true or false".to_owned()
    }

    fn read(&self, json: &Value) -> Option<bool> {
        json.as_bool()
    }

    fn admits(&self, _value: &bool) -> bool {
        true
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A text that is not empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text;

impl Rule<String> for Text {
    fn wanted(&self) -> String {
        "a text that is not empty".to_owned()
    }

    fn read(&self, json: &Value) -> Option<String> {
        json.as_str().map(str::to_owned)
    }

    fn admits(&self, value: &String) -> bool {
        !value.is_empty()
    }

    fn show(&self, value: &String) -> String {
        format!("{value:?}")
    }
}

impl Rule<PathBuf> for Text {
    fn wanted(&self) -> String {
        Rule::<String>::wanted(self)
    }

    fn read(&self, json: &Value) -> Option<PathBuf> {
        json.as_str().map(PathBuf::from)
    }

    fn admits(&self, value: &PathBuf) -> bool {
        !value.as_os_str().is_empty()
    }

    fn show(&self, value: &PathBuf) -> String {
        format!("{:?}", value.display().to_string())
    }
}

/// `null`, or what the inner rule wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrNull<R>(pub(crate) R);

impl<T, R: Rule<T>> Rule<Option<T>> for OrNull<R> {
    fn wanted(&self) -> String {
        format!("{} or null", self.0.wanted())
    }

    fn read(&self, json: &Value) -> Option<Option<T>> {
        if json.is_null() {
            Some(None)
        } else {
            self.0.read(json).map(Some)
        }
    }

    fn admits(&self, value: &Option<T>) -> bool {
        value.as_ref().is_none_or(|value| self.0.admits(value))
    }

    fn show(&self, value: &Option<T>) -> String {
        value
            .as_ref()
            .map_or_else(|| "null".to_owned(), |value| self.0.show(value))
    }

    fn exceeded(&self, json: &Value) -> Option<u64> {
        self.0.exceeded(json)
    }

    fn takes_null(&self) -> bool {
        true
    }
}

impl Rule<Limit> for OrNull<Whole> {
    fn wanted(&self) -> String {
        Rule::<Option<u32>>::wanted(self)
    }

    fn read(&self, json: &Value) -> Option<Limit> {
        let limit: Option<u32> = self.read(json)?;
        Some(limit.map_or(Limit::Unlimited, Limit::AtMost))
    }

    fn admits(&self, value: &Limit) -> bool {
        self.admits(&value.get())
    }

    fn show(&self, value: &Limit) -> String {
        self.show(&value.get())
    }

    fn exceeded(&self, json: &Value) -> Option<u64> {
        Rule::<Option<u32>>::exceeded(self, json)
    }

    fn takes_null(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{OrNull, Real, Rule, Whole};
    use crate::engine_args::Limit;

    #[test]
    fn whole_numbers_may_be_spelled_as_floats() {
        let check = |json: Value, expected: Option<u32>| assert_eq!(Whole::at_least(0).read(&json), expected, "{json}");
        check(json!(7), Some(7));
        check(json!(7.0), Some(7));
        check(json!(7.5), None);
        check(json!(-1), None);
        check(json!(-1.0), None);
        check(json!("7"), None);
        check(json!(4_294_967_295_u64), Some(u32::MAX));
        check(json!(4_294_967_296_u64), None);
    }

    #[test]
    fn seeds_are_exact_up_to_the_largest() {
        let seed: Option<u64> = Whole::at_least(0).read(&json!(u64::MAX));
        assert_eq!(seed, Some(u64::MAX));
    }

    #[test]
    fn null_is_a_limit_of_its_own() {
        let rule = OrNull(Whole::at_least(1));
        let limit: Option<Limit> = rule.read(&Value::Null);
        assert_eq!(limit, Some(Limit::Unlimited));
        assert!(!rule.admits(&Limit::AtMost(0)));
    }

    #[test]
    fn numbers_that_are_none_are_never_admitted() {
        for rule in [Real::at_least(0.0), Real::above(0.0), Real::any()] {
            assert!(!rule.admits(&f64::NAN));
            assert!(!rule.admits(&f64::INFINITY));
        }
        assert!(!Real::above(0.0).admits(&0.0));
        assert!(Real::at_least(0.0).at_most(1.0).admits(&1.0));
    }
}
