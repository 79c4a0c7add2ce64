//! Versions of Dynamo.

use std::fmt;
use std::str::FromStr;

use dynosim_spec::Backend;

use super::error::ExportError;

/// A released version of Dynamo, 0.5.0 to 1.6: those whose options are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DynamoVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl DynamoVersion {
    /// The newest one whose options are known.
    pub const NEWEST: Self = Self::new(1, 6, 1);

    /// Names of things like `major.minor.patch`, not checked.
    pub(super) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Whether it is this release or a later one.
    pub(super) fn since(self, major: u32, minor: u32) -> bool {
        self >= Self::new(major, minor, 0)
    }

    /// Version of the engine in the runtime image, where it is known.
    pub(super) fn engine_version(self, backend: Backend) -> Option<&'static str> {
        let (vllm, sglang) = match (self.major, self.minor, self.patch) {
            (1, 6, 1) => ("0.31.0", "0.5.21"),
            (1, 5, 1) => ("0.28.0", "0.5.18"),
            (1, 4, 2) => ("0.26.0", "0.5.16"),
            (1, 2, 1) => ("0.20.1", "0.5.11"),
            (1, 0, 2) => ("0.16.0", "0.5.9"),
            _ => return None,
        };
        Some(match backend {
            Backend::Vllm => vllm,
            Backend::Sglang => sglang,
        })
    }
}

impl Default for DynamoVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for DynamoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for DynamoVersion {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        let refuse = |reason| ExportError::DynamoVersion {
            given: text.to_owned(),
            reason,
        };
        let version = numbers(text).ok_or_else(|| refuse("it is three numbers with dots between them"))?;
        if version.since(1, 7) {
            return Err(refuse(
                "options of later versions are not known, and 1.7 drops those of the router",
            ));
        }
        if !version.since(0, 5) {
            return Err(refuse("options of earlier versions are not known"));
        }
        Ok(version)
    }
}

fn numbers(text: &str) -> Option<DynamoVersion> {
    let mut numbers = text.split('.').map(|part| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let mut next = || numbers.next().flatten();
    let version = DynamoVersion::new(next()?, next()?, next()?);
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text: &str| text.parse::<DynamoVersion>().expect("known");
        assert!(version("0.9.1") < version("1.0.2"));
        assert!(version("1.6.1").since(1, 6) && !version("1.5.10").since(1, 6));
        assert_eq!(version("1.2.1").to_string(), "1.2.1");
        assert_eq!(DynamoVersion::default().engine_version(Backend::Sglang), Some("0.5.21"));
    }

    #[test]
    fn unknown_versions_are_refused() {
        for (text, reason) in [
            ("1.7.0", "drops those of the router"),
            ("0.4.9", "earlier versions"),
            ("1.6", "three numbers"),
            ("1.6.1.1", "three numbers"),
            ("v1.6.1", "three numbers"),
            ("1.+6.1", "three numbers"),
            ("1.6.99999999999", "three numbers"),
        ] {
            let error = text.parse::<DynamoVersion>().expect_err(text).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
