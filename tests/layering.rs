//! Crates depend downwards only.

use std::fs;
use std::path::PathBuf;

/// What each crate may depend on, of the crates of this workspace.
const LAYERS: [(&str, &[&str]); 7] = [
    ("dynosim-spec", &[]),
    ("dynosim-timing", &["dynosim-spec"]),
    ("dynosim-router", &["dynosim-spec"]),
    ("dynosim-core", &["dynosim-spec", "dynosim-timing", "dynosim-router"]),
    (
        "dynosim-sweep",
        &["dynosim-spec", "dynosim-timing", "dynosim-router", "dynosim-core"],
    ),
    (
        "dynosim",
        &[
            "dynosim-spec",
            "dynosim-timing",
            "dynosim-router",
            "dynosim-core",
            "dynosim-sweep",
        ],
    ),
    ("dynosim-cli", &["dynosim"]),
];

#[test]
fn crates_depend_downwards_only() {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: Vec<String> = fs::read_dir(&crates)
        .expect("the crates folder can be read")
        .map(|entry| {
            entry
                .expect("and its entries")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort_unstable();
    let mut known: Vec<&str> = LAYERS.iter().map(|&(name, _)| name).collect();
    known.sort_unstable();
    assert_eq!(found, known, "every crate has its layer");
    for (name, allowed) in LAYERS {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml")).expect("a crate has a manifest");
        let dependencies = manifest
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|word| word.starts_with("dynosim") && *word != name);
        for dependency in dependencies {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}
