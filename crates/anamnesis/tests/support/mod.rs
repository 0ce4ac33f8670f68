//! Shared test helpers: building and reading safetensors files, staging model directories, comparing bits.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

pub mod gguf;
mod kept;
pub mod onnx;
pub mod pickle;
pub mod time;
pub mod zip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, CpuLevel, RememberOptions, TargetDtype};
use serde_json::{Map, Value, json};

pub const TARGETS: [TargetDtype; 3] = [TargetDtype::F32, TargetDtype::BF16, TargetDtype::F16];

/// A safetensors file under construction; tensors are laid out in the order they are added.
#[derive(Clone, Default)]
pub struct Model {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl Model {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        let entry = self.header.entry("__metadata__").or_insert_with(|| json!({}));
        entry[key] = json!(value);
        self
    }

    pub fn tensor(mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) -> Self {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, self.data.len()]});
        assert!(self.header.insert(name.to_owned(), entry).is_none(), "{name} twice");
        self
    }

    pub fn floats(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        self.tensor(name, "F32", shape, &le_bytes(values))
    }

    pub fn bytes(&self) -> Vec<u8> {
        raw(Value::Object(self.header.clone()).to_string(), &self.data)
    }
}

/// A file with exactly this header text.
pub fn raw(header: impl AsRef<[u8]>, data: &[u8]) -> Vec<u8> {
    let header = header.as_ref();
    kept::kept([&(header.len() as u64).to_le_bytes(), header, data].concat())
}

pub fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// A tensor as a file stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// A safetensors file, read without the library under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    pub tensors: BTreeMap<String, Tensor>,
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Contents {
    pub fn of(bytes: &[u8]) -> Self {
        let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..data]).unwrap();
        let metadata = header.remove("__metadata__").and_then(|value| serde_json::from_value(value).unwrap());
        let tensor = |(name, entry): (String, Value)| {
            let [start, end]: [usize; 2] = serde_json::from_value(entry["data_offsets"].clone()).unwrap();
            let shape = serde_json::from_value(entry["shape"].clone()).unwrap();
            let dtype = entry["dtype"].as_str().unwrap().to_owned();
            (name, Tensor { dtype, shape, data: bytes[data + start..data + end].to_vec() })
        };
        Self { tensors: header.into_iter().map(tensor).collect(), metadata }
    }

    pub fn read(path: impl AsRef<Path>) -> Self {
        Self::of(&std::fs::read(path).unwrap())
    }

    pub fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    /// The values of an F32 tensor.
    pub fn floats(&self, name: &str) -> Vec<f32> {
        assert_eq!(self.tensors[name].dtype, "F32", "{name}");
        floats(&self.tensors[name].data)
    }
}

/// A temporary model directory.
pub struct Folder(tempfile::TempDir);

/// The name of the sidecar with an object per module, which SINQ writes.
pub const SIDECAR: &str = "model.safetensors.index.json.meta.json";

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A directory as models are published: `model.safetensors` and, if given, `config.json`.
    pub fn staged(model: &[u8], config: Option<&Value>) -> Self {
        let folder = Self::new();
        folder.write("model.safetensors", model);
        if let Some(config) = config {
            folder.write("config.json", config.to_string());
        }
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn model(&self) -> PathBuf {
        self.path("model.safetensors")
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Decodes the model through files.
    pub fn remember(&self, target: TargetDtype) -> anamnesis::Result<Contents> {
        let output = self.path("out.safetensors");
        anamnesis::parse(self.model())?.remember(&output, target)?;
        Ok(Contents::read(output))
    }

    /// Decodes the model in memory with the instructions of a CPU level.
    pub fn remember_at(&self, level: CpuLevel, target: TargetDtype) -> anamnesis::Result<Contents> {
        let options = RememberOptions::new().with_cpu_level(level);
        let bytes = anamnesis::parse(self.model())?.remember_to_bytes_with_options(target, options)?;
        Ok(Contents::of(&bytes))
    }

    /// The error of a model that must be refused; checks that no file appears in the directory.
    pub fn refused(&self) -> AnamnesisError {
        let before = self.names();
        let outcome = self.remember(TargetDtype::BF16);
        assert_eq!(self.names(), before, "a refusal leaves the directory as it was");
        match outcome {
            Err(error) => error,
            Ok(contents) => panic!("decoded to {:?}", contents.names()),
        }
    }
}

/// Decodes a model and its configuration to F32.
pub fn remember(model: &Model, config: Option<&Value>) -> Contents {
    Folder::staged(&model.bytes(), config).remember(TargetDtype::F32).unwrap_or_else(|error| panic!("{error}"))
}

/// The error of a model that must be refused.
pub fn refused(model: &Model, config: Option<&Value>) -> AnamnesisError {
    Folder::staged(&model.bytes(), config).refused()
}

/// The reason of a `Parse` error.
pub fn parse_reason(error: AnamnesisError) -> String {
    match error {
        AnamnesisError::Parse { reason } => reason,
        other => panic!("expected a parse error, got {other:?}"),
    }
}

/// The tag of a `LimitExceeded` error.
pub fn limit_tag(error: AnamnesisError) -> &'static str {
    match error {
        AnamnesisError::LimitExceeded { limit, .. } => limit,
        other => panic!("expected a limit, got {other:?}"),
    }
}

#[track_caller]
pub fn assert_mentions(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

/// The difference of two tensors; NaN equals NaN, everything else is compared by its bits.
pub fn difference(want: &Tensor, got: &Tensor) -> Option<String> {
    if (&want.dtype, &want.shape) != (&got.dtype, &got.shape) {
        return Some(format!("{} {:?}, wanted {} {:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    let (width, exponent) = match want.dtype.as_str() {
        "F32" => (4, 0x7f80_0000),
        "BF16" => (2, 0x7f80),
        "F16" => (2, 0x7c00),
        _ => return (want.data != got.data).then(|| "the bytes differ".to_owned()),
    };
    let bits = |chunk: &[u8]| chunk.iter().rev().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte));
    let is_nan = |bits: u32| bits & ((1 << (8 * width - 1)) - 1) > exponent;
    let pairs = || want.data.chunks(width).map(bits).zip(got.data.chunks(width).map(bits));
    let differs = |&(_, (want, got)): &(usize, (u32, u32))| want != got && !(is_nan(want) && is_nan(got));
    let mut found = pairs().enumerate().filter(differs);
    let (index, (want, got)) = found.next()?;
    Some(format!("{} values differ, the first at {index}: {got:#x}, wanted {want:#x}", found.count() + 1))
}

/// A small generator of reproducible noise (SplitMix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }

    /// A finite scale of ordinary size and either sign.
    pub fn scale(&mut self) -> f32 {
        (self.below(2_000_001) as f32 - 1_000_000.0) / 65_536.0
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path)
}

/// The F32 value of each code of an eight-bit float format, from the reference library.
pub fn code_table(format: &str) -> [f32; 256] {
    let expected = Contents::read(fixture("codes/codes.expected.safetensors"));
    expected.floats(&format!("{format}.f32")).try_into().unwrap()
}

/// `values` as little-endian elements of `target`, rounded by another library.
pub fn rounded(values: &[f32], target: TargetDtype) -> Vec<u8> {
    match target {
        TargetDtype::F32 => le_bytes(values),
        TargetDtype::BF16 => values.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect(),
        TargetDtype::F16 => values.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes()).collect(),
        other => panic!("{other} has no oracle here"),
    }
}
