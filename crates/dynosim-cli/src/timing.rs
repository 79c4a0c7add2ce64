//! Step times and KV capacities for a file of points.

mod points;
mod predictor;

use std::collections::BTreeSet;

use dynosim::spec::GpuSpec;

use crate::args::{Quantity, TimingArgs};
use crate::error::CliError;
use crate::output;
use crate::spec;

use points::{Point, Points};
use predictor::{Predictor, Refusal, Shape};

/// Predicts every point of a file.
pub(crate) fn timing(args: &TimingArgs) -> Result<(), CliError> {
    GpuSpec::find(&args.system).map_err(|error| CliError::input(&error))?;
    let text = spec::read_text(&args.points)?;
    let file = spec::name(&args.points);
    let points = Points::read(&file, &text)?;
    points.check_columns(required_columns(args.quantity))?;
    let mut predictor = Predictor::new(args);
    let mut reasons = BTreeSet::new();
    let mut predicted = Vec::new();
    for point in points.iter() {
        match predict(&mut predictor, args.quantity, point)? {
            Ok(value) => predicted.push(value),
            Err(reason) => {
                if !reasons.contains(&reason) {
                    output::note(&format!("{file}: ERR from line {} on: {reason}", point.line()));
                    reasons.insert(reason);
                }
                predicted.push("ERR".to_owned());
            }
        }
    }
    let table = points.with_predictions(&predicted)?;
    match &args.out {
        Some(path) => output::write(path, &table),
        None => output::print(&table),
    }
}

const fn required_columns(quantity: Quantity) -> &'static [&'static str] {
    match quantity {
        Quantity::Prefill => &["model", "tp", "batch", "isl", "prefix"],
        Quantity::Decode => &["model", "tp", "batch", "isl", "osl"],
        Quantity::Capacity => &["model", "tp", "block_size"],
    }
}

/// The figure for a point, or why there is none. The outer error ends the command.
fn predict(
    predictor: &mut Predictor<'_>,
    quantity: Quantity,
    point: Point<'_>,
) -> Result<Result<String, String>, CliError> {
    let shape = Shape::of(point)?;
    let figure = match quantity {
        Quantity::Prefill => {
            let batch = point.count("batch")?;
            let (isl, prefix) = (point.whole("isl")?, point.whole("prefix")?);
            let Some(new_tokens) = isl.checked_sub(prefix) else {
                return Err(point.mistake("prefix", &format!("is more than the isl of {isl}")));
            };
            (predictor.prefill_ms(&shape, batch, new_tokens, prefix)).map(|ms| ms.to_string())
        }
        Quantity::Decode => {
            let (batch, isl, osl) = (point.count("batch")?, point.whole("isl")?, point.count("osl")?);
            (predictor.decode_ms(&shape, batch, isl, osl)).map(|ms| ms.to_string())
        }
        Quantity::Capacity => {
            let block_size = point.count("block_size")?;
            (predictor.kv_tokens(&shape)).map(|tokens| (tokens / u64::from(block_size)).to_string())
        }
    };
    match figure {
        Ok(figure) => Ok(Ok(figure)),
        Err(Refusal::Point(reason)) => Ok(Err(reason)),
        Err(Refusal::All(error)) => Err(error),
    }
}
