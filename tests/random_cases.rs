//! How property tests are run.

use proptest::test_runner::{Config, FileFailurePersistence};

/// This many random cases unless `PROPTEST_CASES` says otherwise; what failed once is kept beside the
/// test and tried again for ever.
pub(crate) fn random_cases(by_default: u32) -> Config {
    let wanted = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    Config {
        cases: wanted.unwrap_or(by_default),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    }
}
