//! The README keeps its word: its commands work, its specs are complete, its output is real.

use std::fs;

use crate::command::{Folder, dynosim_at_root, dynosim_with_input, root};

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("the README can be read")
}

/// The code blocks of a language, in order.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    let rest = text.split(open.as_str()).skip(1);
    rest.filter_map(|block| block.split("```").next()).collect()
}

#[test]
fn commands_work() {
    let folder = Folder::new();
    let readme = readme();
    let lines = blocks(&readme, "sh").into_iter().flat_map(str::lines);
    let commands = lines.filter_map(|line| line.strip_prefix("dynosim "));
    let mut run = 0;
    for command in commands {
        let command = command.split('#').next().unwrap_or(command);
        let in_folder = |word: &str| match word.strip_prefix("results") {
            Some(_) => folder.path(word),
            None => word.to_owned(),
        };
        let args: Vec<String> = command.split_whitespace().map(in_folder).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = dynosim_at_root(&args);
        // Differences are what `diff` looks for.
        let ran = if args[0] == "diff" {
            ran.ends_quietly(1)
        } else {
            ran.succeeds()
        };
        assert_ne!(ran.stdout, "", "{command}");
        run += 1;
    }
    assert!(run >= 10, "only {run} commands found");
}

#[test]
fn printed_output_is_real() {
    let printed = dynosim_at_root(&["run", "examples/specs/run_agg.json"])
        .succeeds()
        .stdout;
    assert!(
        readme().contains(&printed),
        "put this into the README if it is right:\n{printed}"
    );
}

/// The tables that are used by default need a repair, of which every run tells.
fn is_about_tables(line: &str) -> bool {
    line.ends_with("the figures of vllm 0.14.0 are used instead")
}

#[test]
fn specs_are_complete() {
    let readme = readme();
    let [run, sweep] = blocks(&readme, "json")[..] else {
        panic!("a run and a sweep are expected");
    };
    for (command, spec) in [("run", run), ("sweep", sweep)] {
        let ran = dynosim_with_input(&[command, "-"], spec).succeeds();
        let mut warnings = ran.stderr.lines().filter(|line| line.starts_with("warning"));
        assert!(warnings.all(is_about_tables), "{}", ran.stderr);
    }
}

#[test]
fn every_spec_file_runs_without_a_warning_and_is_named() {
    let readme = readme();
    let specs = fs::read_dir(root().join("examples/specs")).expect("the folder can be read");
    for spec in specs {
        let name = spec.expect("and its entries").file_name();
        let path = format!("examples/specs/{}", name.to_str().expect("a plain name"));
        let command = if path.contains("sweep") { "sweep" } else { "run" };
        let ran = dynosim_at_root(&[command, &path]).succeeds();
        // Step times that nobody has measured are what the roofline's spec is about.
        let expected = |line: &str| {
            path.contains("roofline") && line.contains("step times are estimates") || is_about_tables(line)
        };
        let mut warnings = ran.stderr.lines().filter(|line| line.starts_with("warning"));
        assert!(warnings.all(expected), "{path}: {}", ran.stderr);
        assert!(readme.contains(&path), "the README does not name {path}");
    }
}

#[test]
fn examples_that_it_names_exist() {
    let readme = readme();
    let names = readme.split("--example ").skip(1);
    for name in names.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()) {
        let examples = root().join("examples");
        let there = examples.join(format!("{name}.rs")).exists() || examples.join(name).join("main.rs").exists();
        assert!(there, "{name}");
    }
}
