//! What the binary does: output, files and exit codes.

mod bad_input;
mod calibrate;
mod command;
mod diff;
mod experts;
mod export;
mod long_work;
#[cfg(feature = "parquet")]
mod parquet;
mod readme;
mod run;
mod sweep;
mod timing;
mod validate;

use command::dynosim;

#[test]
fn version_and_help_are_there() {
    let version = dynosim(&["--version"]).succeeds();
    assert_eq!(version.stdout, format!("dynosim {}\n", env!("CARGO_PKG_VERSION")));
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["sweep", "--help"],
        &["merge", "--help"],
        &["diff", "--help"],
        &["timing", "--help"],
        &["validate", "--help"],
        &["calibrate", "--help"],
        &["export", "--help"],
    ] {
        assert!(dynosim(args).succeeds().stdout.contains("Examples:"), "{args:?}");
    }
}

#[test]
fn models_and_systems_are_listed_name_first() {
    let first_words = |command: &str| -> Vec<String> {
        let lines = dynosim(&[command]).succeeds().stdout;
        let words = lines.lines().filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect()
    };
    assert!(first_words("models").contains(&"Qwen/Qwen3-32B".to_owned()));
    assert!(first_words("systems").contains(&"h200_sxm".to_owned()));
}
