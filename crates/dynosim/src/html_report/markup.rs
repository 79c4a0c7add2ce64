//! The parts of a page that need no script: texts, and the boxes that the script fills.

use std::fmt::Write;

use super::chart_boxes::{ChartPart, chart_parts};
use super::escape::Escaped;
use super::page::{ReportPage, TextSection};
use super::tables::{CandidateTable, TextTable};

/// Everything within the body, apart from scripts.
pub(super) fn body(page: &ReportPage) -> String {
    let [pareto, others @ ..] = chart_parts(page);
    let mut html = header(page);
    html.push_str("<main>\n");
    html.push_str(&facts(&page.facts));
    html.push_str(&notes(&page.notes));
    html.push_str(&charts(&pareto));
    html.push_str(&sections(&page.sections));
    for part in &others {
        html.push_str(&charts(part));
    }
    if let Some(table) = page.candidates() {
        html.push_str(&candidates(table));
    }
    html.push_str("</main>\n");
    let version = env!("CARGO_PKG_VERSION");
    html + &format!("<footer>Simulated with DynoSim {version}</footer>\n")
}

/// An element with a text, or nothing if there is none.
fn element(tag: &str, class: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<{tag} class=\"{class}\">{}</{tag}>\n", Escaped(text))
}

fn header(page: &ReportPage) -> String {
    let title = element("h1", "title", &page.title);
    let subtitle = element("p", "subtitle", &page.subtitle);
    let verdict = element("p", "verdict", &page.verdict);
    format!("<header>\n{title}{subtitle}{verdict}</header>\n")
}

fn facts(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut html = "<dl class=\"facts\">\n".to_owned();
    for (name, value) in facts {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", Escaped(name), Escaped(value));
    }
    html + "</dl>\n"
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items = notes.iter().map(|note| format!("<li>{}</li>\n", Escaped(note)));
    let items: String = items.collect();
    format!(
        "<section class=\"notes\" aria-labelledby=\"notes\">\n<h2 id=\"notes\">Notes</h2>\n<ul>\n{items}</ul>\n</section>\n"
    )
}

fn charts(part: &ChartPart) -> String {
    if part.boxes.is_empty() {
        return String::new();
    }
    let ChartPart {
        kind,
        heading,
        hint,
        boxes,
    } = part;
    let mut html = format!(
        "<section aria-labelledby=\"{kind}\">\n<h2 id=\"{kind}\">{heading}</h2>\n<p class=\"hint\">{hint}</p>\n\
         <div class=\"charts\">\n"
    );
    for chart in boxes {
        let title = Escaped(&chart.title);
        let _ = writeln!(
            html,
            "<figure class=\"card\"><figcaption>{title}</figcaption><div class=\"legend\"></div>\
             <div class=\"plot\" data-chart=\"{kind}\" data-index=\"{}\" role=\"img\" aria-label=\"{title}\"></div></figure>",
            chart.index,
        );
    }
    html + "</div>\n<noscript><p class=\"hint\">Charts need JavaScript.</p></noscript>\n</section>\n"
}

fn sections(sections: &[TextSection]) -> String {
    let sections: String = sections.iter().map(section).collect();
    if sections.is_empty() {
        return String::new();
    }
    format!("<div class=\"texts\">\n{sections}</div>\n")
}

fn section(section: &TextSection) -> String {
    let title = element("h2", "text-title", &section.title);
    let lines: String = section.lines.iter().map(|line| element("p", "line", line)).collect();
    let table = section.table.as_ref().map(text_table).unwrap_or_default();
    if title.is_empty() && lines.is_empty() && table.is_empty() {
        return String::new();
    }
    format!("<section class=\"text\">\n{title}{lines}{table}</section>\n")
}

fn text_table(table: &TextTable) -> String {
    let width = table.rows.iter().map(Vec::len).fold(table.columns.len(), usize::max);
    if width == 0 {
        return String::new();
    }
    let numeric: Vec<bool> = (0..width).map(|column| is_numeric(table, column)).collect();
    let row = |tag: &str, cells: &[String]| -> String {
        let cells = numeric.iter().enumerate().map(|(column, numeric)| {
            let text = cells.get(column).map_or("", String::as_str);
            let class = if *numeric { " class=\"number\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", Escaped(text))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = row("th", &table.columns);
    let body: String = table.rows.iter().map(|cells| row("td", cells)).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">\
         <table><thead>{head}</thead><tbody>\n{body}</tbody></table></div>\n"
    )
}

/// Whether a column holds numbers: every cell that holds anything starts with a digit or a sign.
fn is_numeric(table: &TextTable, column: usize) -> bool {
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    let mut cells = cells.map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).peekable();
    cells.peek().is_some()
        && cells.all(|cell| cell.starts_with(|first: char| first.is_ascii_digit() || "+-−–~±<>≤≥".contains(first)))
}

/// The box of the table of candidates, and the controls of it.
fn candidates(table: &CandidateTable) -> String {
    let count = table.rows.len();
    format!(
        "<section aria-labelledby=\"candidates\">\n<h2 id=\"candidates\">All candidates</h2>\n\
         <p class=\"hint\">Select a heading to sort by it, again to reverse, and once more to return to the order of rank.</p>\n\
         <div class=\"controls\"><label>Filter <input type=\"search\" id=\"filter\" autocomplete=\"off\" \
         placeholder=\"words, such as tp 4\"></label><output id=\"shown\" for=\"filter\"></output></div>\n\
         <div class=\"scroll card\" tabindex=\"0\" role=\"region\" aria-labelledby=\"candidates\">\
         <table id=\"table\"></table></div>\n\
         <button type=\"button\" id=\"show-all\" hidden>Show all {count}</button>\n\
         <noscript><p class=\"hint\">The table needs JavaScript.</p></noscript>\n</section>\n"
    )
}
