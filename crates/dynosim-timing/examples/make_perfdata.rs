//! Turns CSV extracts of measured kernel latencies into the JSON tables of `perfdata/`.
//!
//! `perfdata/README.md` says what the CSV files look like and where they come from:
//!
//! ```sh
//! cargo run --release -p dynosim-timing --example make_perfdata -- \
//!     --csv extracts/vllm_0.14.0 --system h200_sxm --engine vllm --engine-version 0.14.0 --out perfdata
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use csv::StringRecord;
use dynosim_spec::Backend;
use dynosim_timing::{
    AllReduceSlice, AttentionDtype, DecodeAttentionSlice, ExpertDtype, GemmDtype, GemmSlice, MoeSlice, NcclOperation,
    NcclSlice, PrefillAttentionSlice, TABLE_UNIT, TableFile, TableSlice,
};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as NameError, StrDeserializer};

/// Largest file that may go into the repository.
const MAX_BYTES: usize = 4 << 20;

/// Turns CSV extracts of measured kernel latencies into JSON tables.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with gemm, `context_attention`, `generation_attention` and `custom_allreduce` as .csv or .csv.gz; with
    /// `--experts` also moe and nccl.
    #[arg(long)]
    csv: PathBuf,
    /// GPU system that was measured.
    #[arg(long)]
    system: String,
    /// Engine whose kernels were timed.
    #[arg(long)]
    engine: Engine,
    /// Version of that engine.
    #[arg(long)]
    engine_version: String,
    /// Head sizes to keep.
    #[arg(long, value_delimiter = ',', default_value = "64,128")]
    head_dims: Vec<u64>,
    /// Head sizes of which rows with a sliding window are kept, too.
    #[arg(long, value_delimiter = ',')]
    windowed_head_dims: Vec<u64>,
    /// Experts to keep, each as <experts>x<experts per token>x<hidden size>x<width>; with any, moe and nccl are read.
    #[arg(long, value_delimiter = ',', value_parser = ExpertKey::parse)]
    experts: Vec<ExpertKey>,
    /// How tokens of the experts to keep were spread over them.
    #[arg(long, default_value = "power_law_1.2")]
    expert_distribution: String,
    /// Where the figures come from; goes into every file.
    #[arg(long, default_value = "AIConfigurator 0.10.0 (NVIDIA), measured on NVIDIA H200")]
    provenance: String,
    /// Licence of the figures.
    #[arg(long, default_value = "Apache-2.0")]
    license: String,
    /// The perfdata folder to write to.
    #[arg(long)]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Engine {
    Vllm,
    Sglang,
}

type Failure = Box<dyn Error>;

/// What tells the experts of one model from those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExpertKey {
    experts: u64,
    top_k: u64,
    hidden_size: u64,
    width: u64,
}

impl ExpertKey {
    fn parse(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u64>, _> = text.split('x').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[experts, top_k, hidden_size, width]) => Ok(Self {
                experts,
                top_k,
                hidden_size,
                width,
            }),
            _ => Err("four numbers with x between them are expected, as 128x8x2048x768".to_owned()),
        }
    }
}

/// The measured points of one slice, by coordinates.
#[derive(Debug, Default)]
struct Points<const AXES: usize> {
    ms: BTreeMap<[u64; AXES], f64>,
    sources: BTreeSet<String>,
}

impl<const AXES: usize> Points<AXES> {
    fn axis(&self, index: usize) -> Vec<u64> {
        let keys: BTreeSet<u64> = self.ms.keys().map(|at| at[index]).collect();
        keys.into_iter().collect()
    }

    fn sources(&self) -> Vec<String> {
        self.sources.iter().cloned().collect()
    }

    /// Latencies over the product of all axes, the last one fastest.
    fn flat_ms(&self) -> Vec<Option<f64>> {
        let mut coordinates = vec![[0; AXES]];
        for index in 0..AXES {
            let axis = self.axis(index);
            coordinates = (coordinates.iter())
                .flat_map(|at| {
                    axis.iter().map(move |&key| {
                        let mut at = *at;
                        at[index] = key;
                        at
                    })
                })
                .collect();
        }
        coordinates.iter().map(|at| self.ms.get(at).copied()).collect()
    }
}

/// One CSV file with its columns by name.
struct Extract {
    path: PathBuf,
    headers: StringRecord,
    rows: Vec<StringRecord>,
}

impl Extract {
    fn read(folder: &Path, table: &str) -> Result<Self, Failure> {
        let plain = folder.join(format!("{table}.csv"));
        let zipped = folder.join(format!("{table}.csv.gz"));
        let (path, reader): (PathBuf, Box<dyn Read>) = if plain.exists() {
            let file = File::open(&plain)?;
            (plain, Box::new(file))
        } else {
            let file = File::open(&zipped).map_err(|error| format!("{}: {error}", zipped.display()))?;
            (zipped, Box::new(GzDecoder::new(file)))
        };
        let mut reader = csv::Reader::from_reader(reader);
        let headers = reader.headers()?.clone();
        let rows = reader.records().collect::<Result<_, _>>()?;
        Ok(Self { path, headers, rows })
    }

    fn column(&self, name: &str) -> Result<usize, Failure> {
        let found = self.headers.iter().position(|header| header == name);
        Ok(found.ok_or_else(|| format!("{}: no column `{name}`", self.path.display()))?)
    }

    /// Groups the rows by `key`, which returns `None` for rows to leave out.
    fn group<K: Ord, const AXES: usize>(
        &self,
        axes: [&str; AXES],
        key: impl Fn(&StringRecord) -> Result<Option<K>, Failure>,
    ) -> Result<BTreeMap<K, Points<AXES>>, Failure> {
        let columns: Vec<usize> = axes.iter().map(|axis| self.column(axis)).collect::<Result<_, _>>()?;
        let (ms, source) = (self.column("ms")?, self.column("src")?);
        let mut slices: BTreeMap<K, Points<AXES>> = BTreeMap::new();
        for row in &self.rows {
            let Some(key) = key(row)? else { continue };
            let mut at = [0; AXES];
            for (coordinate, &column) in at.iter_mut().zip(&columns) {
                *coordinate = row[column].parse()?;
            }
            let points = slices.entry(key).or_default();
            points.sources.insert(row[source].to_owned());
            if points.ms.insert(at, row[ms].parse()?).is_some() {
                return Err(format!("{}: {at:?} occurs twice", self.path.display()).into());
            }
        }
        Ok(slices)
    }
}

/// A number format by its name in the CSV files; `None` for formats the tables do not have.
fn dtype<T: DeserializeOwned>(name: &str) -> Option<T> {
    T::deserialize(StrDeserializer::<NameError>::new(name)).ok()
}

fn gemm(extract: &Extract) -> Result<Vec<GemmSlice>, Failure> {
    let column = extract.column("dtype")?;
    let slices = extract.group(["m", "n", "k"], |row| Ok(dtype::<GemmDtype>(&row[column])))?;
    let slice = |(dtype, points): (GemmDtype, Points<3>)| GemmSlice {
        dtype,
        sources: points.sources(),
        m: points.axis(0),
        n: points.axis(1),
        k: points.axis(2),
        ms: points.flat_ms(),
    };
    Ok(slices.into_iter().map(slice).collect())
}

fn prefill_attention(extract: &Extract, kept: &Kept<'_>) -> Result<Vec<PrefillAttentionSlice>, Failure> {
    let (fmha, kv) = (extract.column("fmha_dtype")?, extract.column("kv_dtype")?);
    let heads = HeadColumns::of(extract)?;
    let slices = extract.group(["n", "s", "b"], |row| {
        let formats = dtype::<AttentionDtype>(&row[fmha]).zip(dtype::<AttentionDtype>(&row[kv]));
        Ok(formats.zip(heads.layout(row, kept)?))
    })?;
    let slice =
        |(((fmha_dtype, kv_dtype), (kv_heads, head_dim, window)), points): (_, Points<3>)| PrefillAttentionSlice {
            fmha_dtype,
            kv_dtype,
            kv_heads,
            head_dim,
            window,
            sources: points.sources(),
            n: points.axis(0),
            s: points.axis(1),
            b: points.axis(2),
            ms: points.flat_ms(),
        };
    Ok(slices.into_iter().map(slice).collect())
}

fn decode_attention(extract: &Extract, kept: &Kept<'_>) -> Result<Vec<DecodeAttentionSlice>, Failure> {
    let kv = extract.column("kv_dtype")?;
    let heads = HeadColumns::of(extract)?;
    let slices = extract.group(["n", "b", "s"], |row| {
        Ok(dtype::<AttentionDtype>(&row[kv]).zip(heads.layout(row, kept)?))
    })?;
    let slice = |((kv_dtype, (kv_heads, head_dim, window)), points): (_, Points<3>)| DecodeAttentionSlice {
        kv_dtype,
        kv_heads,
        head_dim,
        window,
        sources: points.sources(),
        n: points.axis(0),
        b: points.axis(1),
        s: points.axis(2),
        ms: points.flat_ms(),
    };
    Ok(slices.into_iter().map(slice).collect())
}

/// Columns that say which heads a row is about.
struct HeadColumns {
    kv_heads: usize,
    head_dim: usize,
    window: usize,
}

impl HeadColumns {
    fn of(extract: &Extract) -> Result<Self, Failure> {
        Ok(Self {
            kv_heads: extract.column("n_kv")?,
            head_dim: extract.column("head_dim")?,
            window: extract.column("window")?,
        })
    }

    /// KV heads, head size and window of a row; `None` for those that are not wanted.
    fn layout(&self, row: &StringRecord, kept: &Kept<'_>) -> Result<Option<(u64, u64, u64)>, Failure> {
        let (kv_heads, head_dim) = (row[self.kv_heads].parse()?, row[self.head_dim].parse()?);
        let window = row[self.window].parse()?;
        let wanted = match window {
            0 => kept.head_dims.contains(&head_dim),
            _ => kept.windowed_head_dims.contains(&head_dim),
        };
        Ok(wanted.then_some((kv_heads, head_dim, window)))
    }
}

/// Head sizes to keep, without and with a sliding window.
struct Kept<'a> {
    head_dims: &'a [u64],
    windowed_head_dims: &'a [u64],
}

fn all_reduce(extract: &Extract) -> Result<Vec<AllReduceSlice>, Failure> {
    let column = extract.column("tp")?;
    let slices = extract.group(["elements"], |row| Ok(Some(row[column].parse::<u64>()?)))?;
    let slice = |(tp, points): (u64, Points<1>)| AllReduceSlice {
        tp,
        sources: points.sources(),
        elements: points.axis(0),
        ms: points.flat_ms(),
    };
    Ok(slices.into_iter().map(slice).collect())
}

fn moe(extract: &Extract, kept: &[ExpertKey], distribution: &str) -> Result<Vec<MoeSlice>, Failure> {
    let columns = [
        "num_experts",
        "topk",
        "hidden_size",
        "inter_size",
        "moe_tp_size",
        "moe_ep_size",
    ];
    let columns: Vec<usize> = (columns.iter().map(|name| extract.column(name))).collect::<Result<_, _>>()?;
    let (format, spread) = (extract.column("dtype")?, extract.column("distribution")?);
    let slices = extract.group(["num_tokens"], |row| {
        let numbers: Vec<u64> = columns
            .iter()
            .map(|&column| row[column].parse())
            .collect::<Result<_, _>>()?;
        let (&[experts, top_k, hidden_size, width, moe_tp, moe_ep], true) =
            (numbers.as_slice(), &row[spread] == distribution)
        else {
            return Ok(None);
        };
        let key = ExpertKey {
            experts,
            top_k,
            hidden_size,
            width,
        };
        let index = kept.iter().position(|wanted| *wanted == key);
        let format = dtype::<ExpertDtype>(&row[format]);
        Ok(index.zip(format).map(|(index, dtype)| (index, dtype, moe_tp, moe_ep)))
    })?;
    let slice = |((index, dtype, moe_tp_size, moe_ep_size), points): (_, Points<1>)| {
        let key: ExpertKey = kept[index];
        MoeSlice {
            dtype,
            distribution: distribution.to_owned(),
            topk: key.top_k,
            num_experts: key.experts,
            hidden_size: key.hidden_size,
            inter_size: key.width,
            moe_tp_size,
            moe_ep_size,
            sources: points.sources(),
            num_tokens: points.axis(0),
            ms: points.flat_ms(),
        }
    };
    Ok(slices.into_iter().map(slice).collect())
}

/// The 16-bit rows of the operations that tables have.
fn nccl(extract: &Extract) -> Result<Vec<NcclSlice>, Failure> {
    let (format, op, gpus) = (extract.column("dtype")?, extract.column("op")?, extract.column("gpus")?);
    let slices = extract.group(["elements"], |row| {
        let operation = dtype::<NcclOperation>(&row[op]).filter(|_| &row[format] == "half");
        Ok(operation.zip(Some(row[gpus].parse::<u64>()?)))
    })?;
    let slice = |((op, gpus), points): (_, Points<1>)| NcclSlice {
        op,
        gpus,
        sources: points.sources(),
        elements: points.axis(0),
        ms: points.flat_ms(),
    };
    Ok(slices.into_iter().map(slice).collect())
}

fn write<S: TableSlice>(arguments: &Arguments, slices: Vec<S>) -> Result<(), Failure> {
    let (engine, engine_name) = match arguments.engine {
        Engine::Vllm => (Backend::Vllm, "vllm"),
        Engine::Sglang => (Backend::Sglang, "sglang"),
    };
    let count = slices.len();
    let text = serde_json::to_string(&TableFile {
        table: S::TABLE.to_owned(),
        system: arguments.system.clone(),
        engine,
        engine_version: arguments.engine_version.clone(),
        provenance: arguments.provenance.clone(),
        license: arguments.license.clone(),
        unit: TABLE_UNIT.to_owned(),
        slices,
    })?;
    let folder = (arguments.out)
        .join(&arguments.system)
        .join(format!("{engine_name}_{}", arguments.engine_version));
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.json", S::TABLE));
    if text.len() > MAX_BYTES {
        return Err(format!(
            "{}: {} bytes, at most {MAX_BYTES} are allowed",
            path.display(),
            text.len()
        )
        .into());
    }
    fs::write(&path, &text)?;
    println!("{}: {count} slices, {} bytes", path.display(), text.len());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let read = |table| Extract::read(&arguments.csv, table);
    write(&arguments, gemm(&read(GemmSlice::TABLE)?)?)?;
    let kept = Kept {
        head_dims: &arguments.head_dims,
        windowed_head_dims: &arguments.windowed_head_dims,
    };
    write(
        &arguments,
        prefill_attention(&read(PrefillAttentionSlice::TABLE)?, &kept)?,
    )?;
    write(
        &arguments,
        decode_attention(&read(DecodeAttentionSlice::TABLE)?, &kept)?,
    )?;
    write(&arguments, all_reduce(&read(AllReduceSlice::TABLE)?)?)?;
    if arguments.experts.is_empty() {
        return Ok(());
    }
    let experts = moe(
        &read(MoeSlice::TABLE)?,
        &arguments.experts,
        &arguments.expert_distribution,
    )?;
    write(&arguments, experts)?;
    write(&arguments, nccl(&read(NcclSlice::TABLE)?)?)
}
