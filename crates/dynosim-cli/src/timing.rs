//! Step times and KV capacities for a file of points.

mod points;
mod predictor;

use std::collections::BTreeSet;

use dynosim::spec::GpuSpec;

use crate::args::{ProviderArg, Quantity, TimingArgs};
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
    let added = added_columns(args.quantity);
    points.check_columns(required_columns(args.quantity), added)?;
    // All of it is read before anything is predicted, so that mistakes in the file come first.
    let questions: Vec<Question> = points
        .iter()
        .map(|point| Question::of(args.quantity, point))
        .collect::<Result<_, _>>()?;
    if args.repair && (args.provider != ProviderArg::Table || args.quantity == Quantity::Capacity) {
        output::note("warning: --repair has no effect, because no step is priced from tables");
    }
    let mut predictor = Predictor::new(args);
    let mut reasons = BTreeSet::new();
    let mut predicted = Vec::new();
    for (point, question) in points.iter().zip(&questions) {
        match predict(&mut predictor, question) {
            Ok(cells) => predicted.push(cells),
            Err(Refusal::All(error)) => return Err(error),
            Err(Refusal::Point(reason)) => {
                if !reasons.contains(&reason) {
                    output::note(&format!("{file}: ERR from line {} on: {reason}", point.line()));
                    reasons.insert(reason);
                }
                let mut cells = vec!["ERR".to_owned()];
                cells.resize(added.len(), String::new());
                predicted.push(cells);
            }
        }
    }
    for note in predictor.notes(args.quantity) {
        output::note(&format!("note: {note}"));
    }
    let table = points.with_columns(added, &predicted)?;
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

const fn added_columns(quantity: Quantity) -> &'static [&'static str] {
    match quantity {
        Quantity::Prefill | Quantity::Decode => &["predicted", "extrapolated_share"],
        Quantity::Capacity => &["predicted"],
    }
}

/// What a point asks for.
#[derive(Debug)]
struct Question {
    shape: Shape,
    of: Quantities,
}

#[derive(Debug)]
enum Quantities {
    Prefill { batch: u32, new_tokens: u64, prefix: u64 },
    Decode { batch: u32, isl: u64, osl: u32 },
    Capacity { block_size: u32 },
}

impl Question {
    fn of(quantity: Quantity, point: Point<'_>) -> Result<Self, CliError> {
        let shape = Shape::of(point)?;
        let of = match quantity {
            Quantity::Prefill => {
                let (batch, isl, prefix) = (point.count("batch")?, point.whole("isl")?, point.whole("prefix")?);
                let new_tokens = isl.checked_sub(prefix);
                let new_tokens =
                    new_tokens.ok_or_else(|| point.mistake("prefix", &format!("is more than the isl of {isl}")))?;
                Quantities::Prefill {
                    batch,
                    new_tokens,
                    prefix,
                }
            }
            Quantity::Decode => Quantities::Decode {
                batch: point.count("batch")?,
                isl: point.whole("isl")?,
                osl: point.count("osl")?,
            },
            Quantity::Capacity => Quantities::Capacity {
                block_size: point.count("block_size")?,
            },
        };
        Ok(Self { shape, of })
    }
}

/// The cells of the added columns.
fn predict(predictor: &mut Predictor<'_>, question: &Question) -> Result<Vec<String>, Refusal> {
    let shape = &question.shape;
    let prediction = match question.of {
        Quantities::Prefill {
            batch,
            new_tokens,
            prefix,
        } => predictor.prefill(shape, batch, new_tokens, prefix)?,
        Quantities::Decode { batch, isl, osl } => predictor.decode(shape, batch, isl, osl)?,
        Quantities::Capacity { block_size } => {
            let blocks = predictor.kv_blocks(shape, block_size)?;
            return Ok(vec![blocks.to_string()]);
        }
    };
    Ok(vec![
        prediction.ms.to_string(),
        rounded(prediction.extrapolated_share()).to_string(),
    ])
}

/// The number with nine significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.8e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_digits_are_kept() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (1.0 / 3.0, "0.333333333"),
            (0.000_123_456_789_9, "0.00012345679"),
        ] {
            assert_eq!(rounded(number).to_string(), expected);
        }
    }
}
