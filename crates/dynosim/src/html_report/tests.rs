use super::*;

/// Text that would do harm, or break the page, wherever it is not escaped.
const HOSTILE: &str =
    "</script></title></style>--><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{2028}\0{{}}";

fn scripts_end(html: &str) -> usize {
    html.matches("</script").count()
}

/// A page with every part, and the same text wherever there is text.
fn page_of(text: &str) -> ReportPage {
    let text = || text.to_owned();
    let axis = Axis {
        name: text(),
        unit: text(),
        scale: Scale::Linear,
    };
    let mark = Mark {
        label: text(),
        value: 1.0,
    };
    ReportPage {
        title: text(),
        subtitle: text(),
        verdict: text(),
        facts: vec![(text(), text())],
        notes: vec![text()],
        pareto: Some(Pareto {
            x: axis.clone(),
            y: axis.clone(),
            points: vec![ParetoPoint {
                label: text(),
                figures: vec![(text(), text())],
                x: 1.0,
                y: 2.0,
                ..Default::default()
            }],
        }),
        sections: vec![TextSection {
            title: text(),
            lines: vec![text()],
            table: Some(TextTable {
                columns: vec![text()],
                rows: vec![vec![text()]],
            }),
        }],
        distributions: vec![Distribution {
            axis: axis.clone(),
            curves: vec![CumulativeCurve::of(&text(), &[1.0, 2.0])],
            bounds: vec![mark.clone()],
        }],
        load_curves: vec![LoadCurve {
            x: axis.clone(),
            y: axis.clone(),
            curves: vec![LoadSeries {
                name: text(),
                points: vec![(1.0, 2.0)],
            }],
            marks: vec![mark.clone()],
            bounds: vec![mark],
        }],
        heat_maps: vec![HeatMap {
            title: text(),
            x: text(),
            y: text(),
            score: axis,
            cells: vec![HeatCell {
                x: 1,
                y: 1,
                score: Some(1.0),
                label: text(),
                feasible: true,
                is_best: true,
            }],
        }],
        timelines: vec![Timeline {
            pool: text(),
            time_s: vec![0.0, 1.0],
            waiting_requests: vec![0.0, 1.0],
            running_requests: vec![1.0, 1.0],
            kv_share: vec![0.1, 0.2],
        }],
        table: Some(CandidateTable {
            columns: vec![Column {
                name: text(),
                unit: text(),
                decimals: None,
            }],
            rows: vec![CandidateRow {
                cells: vec![Cell::Text(text())],
                feasible: true,
                is_best: false,
            }],
            initial_rows: 1,
        }),
    }
}

#[test]
fn no_text_becomes_markup() {
    let (plain, hostile) = (render(&page_of("plain")), render(&page_of(HOSTILE)));
    assert_eq!(scripts_end(&hostile), scripts_end(&plain));
    assert_eq!(hostile.matches('<').count(), plain.matches('<').count());
    assert!(!hostile.contains("alert(1)>"), "markup is left");
    assert!(
        !hostile.contains('\0'),
        "a character that browsers complain about is left"
    );
}

#[test]
fn the_data_in_a_page_are_the_page() {
    let page = page_of(HOSTILE);
    let html = render(&page);
    let (_, data) = html.split_once("id=\"report-data\">").expect("there are data");
    let (data, _) = data.split_once("</script>").expect("the data end");
    let back: ReportPage = serde_json::from_str(data).expect("the data are JSON");
    assert_eq!(back, page);
}

#[test]
fn nothing_is_fetched() {
    let html = render(&page_of("plain"));
    assert!(html.contains(POLICY));
    for reference in [
        "<link",
        "@import",
        "url(http",
        "<iframe",
        " src=\"",
        "fetch(",
        "XMLHttpRequest",
        "new WebSocket",
    ] {
        assert!(!html.contains(reference), "the page has {reference}");
    }
}

#[test]
fn what_is_absent_leaves_no_trace() {
    let html = render(&ReportPage {
        title: "Alone".to_owned(),
        ..ReportPage::default()
    });
    for part in [
        "<section",
        "<figure",
        "<dl",
        "<script",
        "<noscript",
        "class=\"verdict\"",
        "class=\"subtitle\"",
    ] {
        assert!(!html.contains(part), "an empty page has {part}");
    }
    assert!(html.contains("<h1 class=\"title\">Alone</h1>"));
}

#[test]
fn charts_without_marks_are_absent() {
    let nothing = f64::NAN;
    let page = ReportPage {
        pareto: Some(Pareto {
            points: vec![ParetoPoint {
                x: nothing,
                ..Default::default()
            }],
            ..Default::default()
        }),
        distributions: vec![Distribution::default()],
        load_curves: vec![LoadCurve {
            curves: vec![LoadSeries::default()],
            ..Default::default()
        }],
        heat_maps: vec![HeatMap::default()],
        timelines: vec![Timeline {
            time_s: vec![0.0],
            kv_share: vec![nothing],
            ..Default::default()
        }],
        table: Some(CandidateTable::default()),
        sections: vec![TextSection::default()],
        ..ReportPage::default()
    };
    let html = render(&page);
    assert!(!html.contains("<figure") && !html.contains("<section") && !html.contains("<script"));
}

#[test]
fn a_chart_is_found_by_its_position_beside_empty_ones() {
    let mut page = page_of("plain");
    page.distributions.insert(0, Distribution::default());
    let html = render(&page);
    assert!(html.contains("data-chart=\"distributions\" data-index=\"1\""));
    assert!(!html.contains("data-chart=\"distributions\" data-index=\"0\""));
}

#[test]
fn columns_of_numbers_are_aligned_right() {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let table = TextTable {
        columns: row(["Name", "Time"]),
        rows: vec![row(["a", "1.5 ms"]), row(["3b", "–"]), row(["c", ""])],
    };
    let section = TextSection {
        table: Some(table),
        ..TextSection::default()
    };
    let html = render(&ReportPage {
        sections: vec![section],
        ..ReportPage::default()
    });
    assert!(html.contains("<tr><th>Name</th><th class=\"number\">Time</th></tr>"));
    assert!(html.contains("<tr><td>a</td><td class=\"number\">1.5 ms</td></tr>"));
}

#[test]
fn pages_without_charts_leave_the_library_out() {
    let table = page_of("plain").table;
    let html = render(&ReportPage {
        table,
        ..ReportPage::default()
    });
    assert!(
        html.contains("id=\"table\"") && html.len() < 60_000,
        "{} bytes",
        html.len()
    );
}

#[test]
fn the_library_carries_its_licences_and_is_the_one_described() {
    let described = include_str!("../../assets/echarts/README.md");
    let first_line = ECHARTS.lines().nth(1).expect("an opening comment");
    assert!(first_line.starts_with("Apache ECharts 6.1.0 "), "{first_line}");
    assert!(described.contains("echarts 6.1.0"));
    for holder in [
        "The Apache Software Foundation",
        "Baidu Inc.",
        "Mike Bostock",
        "Microsoft Corporation",
    ] {
        assert!(ECHARTS.contains(holder), "{holder} is not named");
    }
    assert!(!ECHARTS.contains("</script"), "the library would end its element");
}
