//! Latency over one axis, read between measured points.

use crate::axis::Axis;
use crate::reading::{Place, Reading, line_between};
use crate::repair::Standing;

/// How a [`Curve`] goes on above its last key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Above {
    /// Along the line through the last two points.
    Line,
    /// In proportion to the last point.
    Proportional,
}

/// Latency over one axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    axis: Axis,
    points: Vec<Point>,
    above: Above,
}

/// A reading and the rise per unit of the axis to the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    reading: Reading,
    slope: f64,
}

impl Curve {
    /// A curve through `points`, ascending; `None` without any.
    pub(crate) fn new(points: impl IntoIterator<Item = (u64, Reading)>, above: Above) -> Option<Self> {
        let (keys, readings): (Vec<u64>, Vec<Reading>) = points.into_iter().unzip();
        if keys.is_empty() {
            return None;
        }
        let rises = readings.windows(2).map(|pair| pair[1].ms - pair[0].ms);
        let runs = keys.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64);
        let slopes = rises.zip(runs).map(|(rise, run)| rise / run).chain([0.0]);
        let points = readings.iter().zip(slopes);
        Some(Self {
            points: points.map(|(&reading, slope)| Point { reading, slope }).collect(),
            axis: Axis::new(keys),
            above,
        })
    }

    /// The same latencies, all of them counted as extrapolated unless they stand as measurements.
    pub(crate) fn standing(mut self, standing: Standing) -> Self {
        if standing == Standing::Extrapolated {
            for point in &mut self.points {
                point.reading.extrapolated = true;
            }
        }
        self
    }

    /// Largest value that the rule of the measured range still answers; `None` if any.
    pub(crate) fn limit(&self) -> Option<u64> {
        match self.above {
            Above::Line => None,
            Above::Proportional => self.axis.keys().last().copied(),
        }
    }

    /// Latency at `x`: on a key, on the line between two, or beyond them.
    pub(crate) fn at(&self, x: u64) -> Reading {
        match self.axis.place(x) {
            Place::At(index) => self.points[index].reading,
            Place::Between(lower, upper) => {
                let point = self.points[lower];
                let run = x as f64 - self.axis.keys()[lower] as f64;
                Reading {
                    ms: point.reading.ms + point.slope * run,
                    extrapolated: point.reading.extrapolated || self.points[upper].reading.extrapolated,
                }
            }
            Place::Beyond(lower, upper) => self.beyond(lower, upper, x),
        }
    }

    fn beyond(&self, lower: usize, upper: usize, x: u64) -> Reading {
        let keys = (self.axis.keys()[lower], self.axis.keys()[upper]);
        let readings = (self.points[lower].reading, self.points[upper].reading);
        if self.above == Above::Proportional && x > keys.1 {
            return readings.1.scaled(x as f64 / keys.1 as f64).or_extrapolated(true);
        }
        line_between(keys, readings, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_points_a_curve_is_their_line() {
        let points = [
            (3, Reading::measured(0.7)),
            (10, Reading::measured(0.1).or_extrapolated(true)),
        ];
        let curve = Curve::new(points, Above::Line).expect("has points");
        for x in 4..10 {
            assert_eq!(curve.at(x), line_between((3, 10), (points[0].1, points[1].1), x));
        }
    }

    #[test]
    fn proportional_curves_scale_their_last_point() {
        let points = [(1, Reading::measured(1.0)), (4, Reading::measured(2.0))];
        let curve = Curve::new(points, Above::Proportional).expect("has points");
        assert_eq!(curve.at(4), Reading::measured(2.0));
        assert_eq!(
            curve.at(8),
            Reading {
                ms: 4.0,
                extrapolated: true
            }
        );
        assert!(curve.at(0).extrapolated);
        assert!(!curve.at(2).extrapolated);
    }
}
