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
    // All of it is read before anything is predicted, so that mistakes in the file come first.
    let questions: Vec<Question> = points
        .iter()
        .map(|point| Question::of(args.quantity, point))
        .collect::<Result<_, _>>()?;
    let mut predictor = Predictor::new(args);
    let mut reasons = BTreeSet::new();
    let mut predicted = Vec::new();
    for (point, question) in points.iter().zip(&questions) {
        match predict(&mut predictor, question) {
            Ok(figure) => predicted.push(figure),
            Err(Refusal::All(error)) => return Err(error),
            Err(Refusal::Point(reason)) => {
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

fn predict(predictor: &mut Predictor<'_>, question: &Question) -> Result<String, Refusal> {
    let shape = &question.shape;
    let ms = match question.of {
        Quantities::Prefill {
            batch,
            new_tokens,
            prefix,
        } => predictor.prefill_ms(shape, batch, new_tokens, prefix)?,
        Quantities::Decode { batch, isl, osl } => predictor.decode_ms(shape, batch, isl, osl)?,
        Quantities::Capacity { block_size } => {
            let blocks = predictor.kv_tokens(shape)? / u64::from(block_size);
            return Ok(blocks.to_string());
        }
    };
    Ok(ms.to_string())
}
