//! Simulated against measured latencies as an SVG image.
//!
//! Written by hand: the image takes its colours from the reader's light or dark scheme, which is a matter of a style
//! sheet that plotting libraries do not write.

use std::fmt::Write;

use super::latencies::LatencyKind;
use super::validator::{ValidatedPoint, Validation};

const PANEL: f64 = 380.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 64.0;
const GAP: f64 = 90.0;
const WIDTH: f64 = 2.0 * (LEFT + PANEL) + GAP - LEFT + 20.0;
const LEGEND_TOP: f64 = TOP + PANEL + 66.0;
const LEGEND_LINE: f64 = 20.0;

/// Colours of worker sizes that can be told apart on light and dark ground, and by most readers who see few colours.
const COLOURS: [&str; 6] = ["#0a84c6", "#d9772b", "#2a9d6f", "#b0569c", "#8a8f2a", "#7a7f87"];

/// Without variables, which not every viewer knows.
const STYLE: &str = "
  .ground { fill: #ffffff; }
  text { fill: #1f2328; font: 13px sans-serif; }
  .title { font-size: 15px; font-weight: bold; }
  .frame, .equal, .tenth { fill: none; stroke: #1f2328; }
  .tenth { stroke-dasharray: 4 4; stroke-opacity: 0.6; }
  .grid { stroke: #d0d7de; }
  .mark { stroke-width: 1.5; fill-opacity: 0.75; }
  .hollow { fill-opacity: 0; }
  .key { fill: none; stroke: #1f2328; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; }
    text { fill: #e6edf3; }
    .frame, .equal, .tenth, .key { stroke: #e6edf3; }
    .grid { stroke: #3d444d; }
  }
";

/// Two panels, TTFT and TPOT, with logarithmic axes: a mark on the diagonal is a point simulated as measured; dashed lines
/// are 10 % off. Colours tell worker sizes, forms tell lengths, hollow marks are points at the KV limit.
pub(super) fn svg(validation: &Validation) -> String {
    let points = &validation.points;
    let keys = Keys::of(points);
    let height = LEGEND_TOP + LEGEND_LINE * keys.lines() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Simulated against measured latencies</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n"
    );
    let setup = &validation.setup;
    let title = format!("{} on {}", setup.engine.model, setup.hardware.system);
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>",
        escaped(&title)
    );
    for (index, kind) in LatencyKind::ALL.into_iter().enumerate() {
        let left = LEFT + index as f64 * (PANEL + GAP);
        svg.push_str(&panel(points, kind, left, &keys));
    }
    svg.push_str(&keys.legend());
    svg.push_str("</svg>\n");
    svg
}

/// The worker sizes and lengths that occur, in order.
struct Keys {
    tps: Vec<u32>,
    shapes: Vec<(u32, u32)>,
}

impl Keys {
    fn of(points: &[ValidatedPoint]) -> Self {
        let mut tps: Vec<u32> = points.iter().map(|point| point.measured.load.tp).collect();
        let mut shapes: Vec<(u32, u32)> = points
            .iter()
            .map(|point| (point.measured.load.isl, point.measured.load.osl))
            .collect();
        tps.sort_unstable();
        tps.dedup();
        shapes.sort_unstable();
        shapes.dedup();
        Self { tps, shapes }
    }

    fn lines(&self) -> usize {
        self.tps.len().max(self.shapes.len())
    }

    fn colour(&self, tp: u32) -> &'static str {
        let index = self.tps.iter().position(|&known| known == tp).unwrap_or(0);
        COLOURS[index % COLOURS.len()]
    }

    fn form(&self, shape: (u32, u32)) -> usize {
        self.shapes.iter().position(|&known| known == shape).unwrap_or(0)
    }

    fn legend(&self) -> String {
        let mut legend = String::new();
        for (line, tp) in self.tps.iter().enumerate() {
            let y = LEGEND_TOP + LEGEND_LINE * line as f64;
            let paint = painted("mark", self.colour(*tp));
            legend.push_str(&mark(0, LEFT + 6.0, y - 4.0, &paint, ""));
            let _ = writeln!(legend, "<text x=\"{}\" y=\"{y}\">tp {tp}</text>", LEFT + 20.0);
        }
        for (line, (isl, osl)) in self.shapes.iter().enumerate() {
            let (x, y) = (LEFT + 120.0, LEGEND_TOP + LEGEND_LINE * line as f64);
            legend.push_str(&mark(line, x + 6.0, y - 4.0, "class=\"key\"", ""));
            let _ = writeln!(legend, "<text x=\"{}\" y=\"{y}\">isl {isl}, osl {osl}</text>", x + 20.0);
        }
        let x = LEFT + PANEL + GAP;
        for (line, text) in ["hollow: at the KV limit", "dashed: 10 % off"].into_iter().enumerate() {
            let y = LEGEND_TOP + LEGEND_LINE * line as f64;
            let _ = writeln!(legend, "<text x=\"{x}\" y=\"{y}\">{text}</text>");
        }
        legend
    }
}

/// A logarithmic axis, the same for both directions of a panel.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    /// An axis with room for these values and a little more; from 1 to 10 if there are none.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if most <= 0.0 {
            return Self { least: 1.0, most: 10.0 };
        }
        Self {
            least: least / 1.25,
            most: most * 1.25,
        }
    }

    /// Where a value lies, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value / self.least).ln() / (self.most / self.least).ln()
    }

    /// 1, 2 and 5 times powers of ten within the axis; fewer, if it spans more than two of them.
    fn ticks(&self) -> Vec<f64> {
        let digits: &[f64] = match (self.most / self.least).log10() {
            ..=2.0 => &[1.0, 2.0, 5.0],
            ..=4.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(self.least.log10().floor());
        while power <= self.most {
            ticks.extend(digits.iter().map(|digit| digit * power));
            power *= 10.0;
        }
        ticks.retain(|tick| (self.least..=self.most).contains(tick));
        ticks
    }
}

fn panel(points: &[ValidatedPoint], kind: LatencyKind, left: f64, keys: &Keys) -> String {
    let known: Vec<(&ValidatedPoint, f64, f64)> = points
        .iter()
        .filter_map(|point| Some((point, (*point.measured.mean_ms.get(kind))?, point.simulated_ms(kind)?)))
        .collect();
    let axis = Axis::of(known.iter().flat_map(|&(_, measured, simulated)| [measured, simulated]));
    let x = |value: f64| left + PANEL * axis.place(value);
    let y = |value: f64| TOP + PANEL * (1.0 - axis.place(value));
    let (right, bottom, name) = (left + PANEL, TOP + PANEL, kind.name());
    let mut panel = String::new();
    for tick in axis.ticks() {
        let _ = writeln!(
            panel,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}M{left} {y:.1}H{right}\"/>\n\
             <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{tick}</text>\n\
             <text x=\"{beside}\" y=\"{middle:.1}\" text-anchor=\"end\">{tick}</text>",
            x = x(tick),
            y = y(tick),
            below = bottom + 18.0,
            beside = left - 6.0,
            middle = y(tick) + 4.0,
        );
    }
    for (class, factor) in [("equal", 1.0), ("tenth", 1.1), ("tenth", 1.0 / 1.1)] {
        let (from, to) = (
            axis.least * 1.0_f64.max(1.0 / factor),
            axis.most * 1.0_f64.min(1.0 / factor),
        );
        let _ = writeln!(
            panel,
            "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            x(from),
            y(from * factor),
            x(to),
            y(to * factor)
        );
    }
    let _ = writeln!(
        panel,
        "<rect class=\"frame\" x=\"{left}\" y=\"{TOP}\" width=\"{PANEL}\" height=\"{PANEL}\"/>\n\
         <text x=\"{left}\" y=\"{}\">simulated mean {name}, ms</text>\n\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">measured mean {name}, ms</text>",
        TOP - 10.0,
        bottom + 38.0
    );
    for (point, measured, simulated) in known {
        let load = point.measured.load;
        let tip = format!(
            "tp {}, isl {}, osl {}, concurrency {}: measured {measured:.2} ms, simulated {simulated:.2} ms ({:+.1} %)",
            load.tp,
            load.isl,
            load.osl,
            load.concurrency,
            100.0 * (simulated / measured - 1.0)
        );
        let class = if point.measured.kv_limited {
            "mark hollow"
        } else {
            "mark"
        };
        let paint = painted(class, keys.colour(load.tp));
        let form = keys.form((load.isl, load.osl));
        panel.push_str(&mark(form, x(measured), y(simulated), &paint, &tip));
    }
    panel
}

/// Attributes that give a mark its class and colour.
fn painted(class: &str, colour: &str) -> String {
    format!("class=\"{class}\" fill=\"{colour}\" stroke=\"{colour}\"")
}

/// A mark of one of six forms, with these attributes and this text to be shown under the pointer.
fn mark(form: usize, x: f64, y: f64, paint: &str, tip: &str) -> String {
    let corners: &[(f64, f64)] = match form % 6 {
        0 => &[],
        1 => &[(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)],
        2 => &[(0.0, -5.5), (5.5, 4.5), (-5.5, 4.5)],
        3 => &[(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)],
        4 => &[(-5.5, -4.5), (5.5, -4.5), (0.0, 5.5)],
        _ => &[(-6.0, -2.0), (6.0, -2.0), (6.0, 2.0), (-6.0, 2.0)],
    };
    let tip = if tip.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", escaped(tip))
    };
    if corners.is_empty() {
        return format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" {paint}>{tip}</circle>\n");
    }
    let corners: Vec<String> = corners
        .iter()
        .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy))
        .collect();
    format!("<polygon points=\"{}\" {paint}>{tip}</polygon>\n", corners.join(" "))
}

/// Text that may stand in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_within_the_axis() {
        let axis = Axis {
            least: 8.0,
            most: 130.0,
        };
        assert_eq!(axis.ticks(), [10.0, 20.0, 50.0, 100.0]);
        let wide = Axis {
            least: 8.0,
            most: 3100.0,
        };
        assert_eq!(wide.ticks(), [10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]);
        assert_eq!((axis.place(8.0), axis.place(130.0)), (0.0, 1.0));
        assert_eq!(Axis::of([].into_iter()).ticks(), [1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b & c"), "a&lt;b &amp; c");
    }
}
