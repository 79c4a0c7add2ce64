//! Headless Chromium opens reports and says what it sees.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use dynosim::answer::AnswerOptions;
use dynosim::html_report::{ReportPage, render};
use serde::Deserialize;
use serde_json::Value;

use super::sample;
use crate::answer;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// If this variable is set, tests without a browser fail instead of being skipped.
const REQUIRED: &str = "DYNOSIM_REQUIRE_BROWSER";
const PATIENCE: Duration = Duration::from_secs(120);
const PROBE: &str = include_str!("probe.js");

/// The page around a report: a frame of the wanted size, for windows cannot be as narrow as phones are. It keeps what the
/// probe within the frame tells.
fn frame((width, height): (u32, u32)) -> String {
    format!(
        "<!doctype html><meta name=\"color-scheme\" content=\"light dark\"><script>\n\
         addEventListener('message', (told) => {{ document.documentElement.dataset.probe = told.data; }});\n\
         </script><iframe src=\"report.html\" width=\"{width}\" height=\"{height}\" style=\"border: 0\"></iframe>"
    )
}

/// What the probe in the page found.
#[derive(Debug, Deserialize)]
struct Seen {
    errors: String,
    charts: Vec<Chart>,
    page_width: u32,
    window_width: u32,
    is_dark: bool,
    texts_before: Vec<String>,
    texts_printing: Vec<String>,
    tip: String,
    /// The names of elements that reports do not have.
    foreign: Vec<String>,
    table: Table,
}

#[derive(Debug, Deserialize)]
struct Chart {
    kind: String,
    is_drawn: bool,
    paths: usize,
}

#[derive(Debug, Deserialize)]
struct Table {
    initial_rows: usize,
    all_rows: usize,
    ascending: Vec<f64>,
    descending: Vec<f64>,
    sorts: Vec<String>,
    best_rows: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Dark = 0,
    Light = 1,
}

fn browser() -> Option<&'static str> {
    let runs = |name: &&str| {
        let mut command = Command::new(name);
        let status = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let found = BROWSERS.into_iter().find(runs);
    let is_required = std::env::var_os(REQUIRED).is_some();
    assert!(
        found.is_some() || !is_required,
        "{REQUIRED} is set, but none of {BROWSERS:?} runs"
    );
    if found.is_none() {
        eprintln!("skipped: none of {BROWSERS:?} is installed");
    }
    found
}

/// What the browser sees of a page; `None` without a browser.
fn open(page: &ReportPage, scheme: Scheme, size: (u32, u32)) -> Option<Seen> {
    let browser = browser()?;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let html = render(page);
    let (before_end, end) = html.rsplit_once("</body>").expect("the page has an end");
    let probed = format!("{before_end}<script>{PROBE}</script></body>{end}");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("the page can be written");
    write("report.html", &probed);
    write("frame.html", &frame(size));
    let dom = dump_dom(browser, folder.path(), scheme);
    let (_, rest) = dom
        .split_once(" data-probe=\"")
        .unwrap_or_else(|| panic!("the probe did not run to its end"));
    let (json, _) = rest.split_once('"').expect("an attribute ends");
    let json = json
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", "\u{a0}");
    let seen = serde_json::from_str(&json.replace("&amp;", "&"));
    Some(seen.unwrap_or_else(|error| panic!("{error} in {json}")))
}

/// The elements of the page around the report, once nothing happens any more.
fn dump_dom(browser: &str, folder: &Path, scheme: Scheme) -> String {
    let output = folder.join("dom.html");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--blink-settings=preferredColorScheme={}", scheme as u32));
    command.args([
        "--window-size=1400,1000",
        "--hide-scrollbars",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]);
    command.arg(format!("file://{}", folder.join("frame.html").display()));
    command
        .stdout(File::create(&output).expect("a file can be made"))
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the browser starts");
    let step = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    while child.try_wait().expect("the browser can be waited for").is_none() {
        if waited >= PATIENCE {
            child.kill().expect("the browser can be ended");
            panic!("the browser did not end within {PATIENCE:?}");
        }
        sleep(step);
        waited += step;
    }
    fs::read_to_string(&output).expect("the browser writes UTF-8")
}

#[track_caller]
fn check(scheme: Scheme, size: (u32, u32)) {
    let Some(seen) = open(&sample::page(), scheme, size) else {
        return;
    };
    assert_eq!(seen.errors, "");
    assert_eq!(seen.is_dark, scheme == Scheme::Dark);
    assert_eq!(seen.charts.len(), 8);
    for chart in &seen.charts {
        assert!(chart.is_drawn && chart.paths > 3, "{chart:?}");
    }
    assert_eq!(seen.window_width, size.0);
    assert!(
        seen.page_width <= seen.window_width,
        "{} > {}",
        seen.page_width,
        seen.window_width
    );
    assert!(
        seen.tip.contains("Output throughput") && seen.tip.contains("Mean TPOT"),
        "{}",
        seen.tip
    );
    // Paper is light: only on a dark screen do colours change.
    assert_eq!(seen.texts_before != seen.texts_printing, scheme == Scheme::Dark);
    check_table(&seen.table);
}

#[track_caller]
fn check_table(table: &Table) {
    let sample = sample::page().table.expect("the sample has a table");
    assert_eq!(
        (table.initial_rows, table.all_rows),
        (sample.initial_rows, sample.rows.len())
    );
    assert_eq!(table.sorts, ["none", "ascending", "descending", "none"]);
    assert!(table.ascending.is_sorted() && table.ascending.first() < table.ascending.last());
    assert!(table.descending.iter().rev().is_sorted() && table.descending.len() == sample.initial_rows);
    assert_eq!(table.best_rows, 1);
}

#[test]
fn light_and_wide() {
    check(Scheme::Light, (1280, 900));
}

#[test]
fn dark_and_wide() {
    check(Scheme::Dark, (1280, 900));
}

#[test]
fn light_on_a_phone() {
    check(Scheme::Light, (390, 844));
}

#[test]
fn dark_on_a_phone() {
    check(Scheme::Dark, (390, 844));
}

/// Puts markup into every text of a page, but the names of scales.
fn poison(value: &mut Value) {
    match value {
        Value::String(text) => {
            text.push_str("</script><script>throw 1</script><img src=x onerror='throw 2'>\u{2028}\"<b>'&amp;{{}}");
        }
        Value::Array(values) => values.iter_mut().for_each(poison),
        Value::Object(fields) => {
            let texts = fields.iter_mut().filter(|(name, _)| *name != "scale");
            texts.for_each(|(_, value)| poison(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let mut json = serde_json::to_value(sample::page()).expect("pages become JSON");
    poison(&mut json);
    let page: ReportPage = serde_json::from_value(json).expect("texts are free");
    let Some(seen) = open(&page, Scheme::Light, (390, 844)) else {
        return;
    };
    assert_eq!(seen.errors, "");
    assert_eq!(seen.foreign, [""; 0]);
    assert!(seen.charts.iter().all(|chart| chart.is_drawn), "{:?}", seen.charts);
    assert!(seen.tip.contains("<img src=x"), "the tip shows the text: {}", seen.tip);
    assert!(
        seen.page_width <= seen.window_width,
        "{} > {}",
        seen.page_width,
        seen.window_width
    );
    assert!(seen.charts.iter().any(|chart| chart.kind == "timelines"));
}

#[test]
fn the_report_of_an_answer_draws() {
    let options = AnswerOptions {
        repeats: 2,
        load_factors: vec![0.5, 2.0],
        ..AnswerOptions::default()
    };
    let page = answer::answer(&answer::spec(), options).page();
    let Some(seen) = open(&page, Scheme::Dark, (390, 844)) else {
        return;
    };
    assert_eq!(seen.errors, "");
    for chart in &seen.charts {
        assert!(chart.is_drawn && chart.paths > 3, "{chart:?}");
    }
    let charts = 1 + page.distributions.len() + page.load_curves.len() + page.heat_maps.len() + page.timelines.len();
    assert_eq!(seen.charts.len(), charts);
    assert!(page.distributions.len() == 2 && page.load_curves.len() == 4 && page.heat_maps.len() == 1);
    assert!(seen.page_width <= seen.window_width, "{seen:?}");
    assert!(seen.foreign.is_empty());
}
