//! The map of the code in `CONTRIBUTING.md` shows what is there.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the root that the map may lead to.
const ROOT_FOLDERS: [&str; 6] = ["crates/", "examples/", "tests/", "benches/", "perfdata/", ".ci/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contributing() -> String {
    fs::read_to_string(root().join("CONTRIBUTING.md")).expect("the file can be read")
}

/// What stands between backticks outside of code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let outside_blocks = text.split("```").step_by(2);
    outside_blocks
        .flat_map(|prose| prose.split('`').skip(1).step_by(2))
        .collect()
}

/// Files and folders of a folder that need a place on the map: `x/` needs none beside `x.rs`.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let names = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        match (path.is_dir(), path.with_extension("rs").exists()) {
            (true, true) => None,
            (true, false) => Some(format!("{name}/")),
            (false, _) => Some(name).filter(|name| name != "lib.rs"),
        }
    });
    names.collect()
}

#[test]
fn every_source_file_is_on_the_map() {
    let text = contributing();
    for entry in fs::read_dir(root().join("crates")).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("a plain name");
        let heading = format!("\n### {name}\n");
        let (_, section) = text
            .split_once(&heading)
            .unwrap_or_else(|| panic!("no section on {name}"));
        let section = section.split("\n##").next().unwrap_or(section);
        let on_map = quoted(section);
        for source in sources(&path.join("src")) {
            assert!(on_map.contains(&source.as_str()), "{name}: {source} is not on the map");
        }
        let files = on_map.iter().filter(|place| is_file_name(place));
        for file in files {
            let there = path.join("src").join(file).exists() || is_in_a_folder(&path.join("src"), file);
            assert!(there, "{name}: {file} is on the map but not there");
        }
    }
}

fn is_file_name(place: &str) -> bool {
    Path::new(place).extension().is_some_and(|extension| extension == "rs") && !place.contains('/')
}

/// Whether a folder directly below has this file.
fn is_in_a_folder(folder: &Path, file: &str) -> bool {
    let mut entries = fs::read_dir(folder).expect("the folder can be read");
    entries.any(|entry| entry.expect("an entry").path().join(file).is_file())
}

#[test]
fn every_path_leads_somewhere() {
    let text = contributing();
    let paths = quoted(&text).into_iter().filter(|place| {
        let from_root = ROOT_FOLDERS.iter().any(|folder| place.starts_with(folder));
        from_root && !place.contains(' ')
    });
    let mut followed = 0;
    for path in paths {
        assert!(root().join(path).exists(), "{path} is not there");
        followed += 1;
    }
    assert!(followed >= 20, "only {followed} paths found");
}

#[test]
fn the_checks_are_those_of_ci() {
    let ci = fs::read_to_string(root().join(".ci/run")).expect("the file can be read");
    let steps: Vec<String> = ci
        .lines()
        .filter_map(|line| line.split_once("step cargo"))
        .map(|(variables, command)| format!("{variables}cargo{command}"))
        .collect();
    assert!(steps.len() >= 5, "{steps:?}");
    assert!(
        contributing().contains(&format!("```sh\n{}\n```", steps.join("\n"))),
        "the local checks should be\n{}",
        steps.join("\n")
    );
}
