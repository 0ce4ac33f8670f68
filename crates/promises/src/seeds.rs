//! First inputs for every target: the fixtures of the library, in the form that the target reads, and the committed inputs in
//! `fuzz/seeds`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The fixtures of the library.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../anamnesis/tests/fixtures");
/// Inputs found by fuzzing.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
/// Files of these bytes or more are not seeds: small ones are changed more often.
const MAX_BYTES: usize = 32 << 10;
/// Targets that do much with an input have smaller ones.
const SMALL_BYTES: usize = 8 << 10;
/// Data of a weight's parts in a seed.
const DATA_BYTES: usize = 256;

/// The seeds of a target.
#[must_use]
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = match target {
        "against_gguf" | "gguf" => files(["gguf"], ".gguf"),
        "against_safetensors" => small(safetensors(), SMALL_BYTES),
        "against_zip" => files(["npz"], ".npz"),
        "architecture" => files(["architectures"], "config.json"),
        "configuration" => files(FAMILIES.iter().flat_map(|(_, folders)| *folders).copied(), ".config.json"),
        "convert" => small(any(), SMALL_BYTES),
        "distributed" => pairs(&["dcp"], ".metadata", ".distcp"),
        "flax" => files(["flax"], ""),
        "hdf5" => files(["hdf5"], ".h5"),
        "importance" => importance(),
        "index" => small(safetensors(), SMALL_BYTES).iter().filter_map(|file| index(file)).collect(),
        "keras" => files(["hdf5"], ".keras"),
        "onnx" => files(["onnx", "onnx_quantised"], ".onnx"),
        "pickle" | "pth" => files(["pth"], ""),
        "remember" => safetensors(),
        "split_reads" => {
            small(any(), SMALL_BYTES).iter().map(|file| [b"\x01\x00\x07\xFF", &file[..]].concat()).collect()
        }
        "tar" => files(["nemo"], ".nemo"),
        "tensorflow" => pairs(&["tensorflow"], ".index", "-00000-of-00001"),
        "tflite" => files(["tflite"], ".tflite"),
        "vocabulary" => vocabularies(),
        "whisper" => files(["whisper"], ".bin"),
        _ => match FAMILIES.iter().find(|(family, _)| target.strip_prefix("scheme_") == Some(*family)) {
            Some((_, folders)) => parts(folders),
            None => patterns(),
        },
    };
    seeds.extend(read(&Path::new(FOUND).join(target)).into_iter().map(|(_, bytes)| bytes));
    seeds
}

/// The families of schemes, with the folders of their fixtures.
const FAMILIES: [(&str, &[&str]); 10] = [
    ("bitsandbytes", &["bnb", "bnb_models"]),
    ("codebooks", &["aqlm", "vptq", "bitnet"]),
    ("compressed_tensors", &["compressed_tensors"]),
    ("exllama", &["exl2", "exl3"]),
    ("fp8", &["fp8", "comfy"]),
    ("gptq_awq", &["gptq", "awq", "autoround", "marlin"]),
    ("hqq_quanto_torchao", &["hqq", "quanto", "torchao", "sinq", "eetq"]),
    ("microscaled", &["mxfp4", "modelopt", "quark", "fouroversix"]),
    ("mlx", &["mlx"]),
    ("others", &["gemma", "comfy"]),
];

/// All files of a folder and of those in it, in order.
fn read(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => found.extend(read(&path)),
            false => found.extend(fs::read(&path).ok().map(|bytes| (path, bytes))),
        }
    }
    found
}

/// The small files of these folders with this end.
fn files<'a>(folders: impl IntoIterator<Item = impl AsRef<str> + 'a>, end: &str) -> Vec<Vec<u8>> {
    let read = folders.into_iter().flat_map(|folder| read(&Path::new(FIXTURES).join(folder.as_ref())));
    let named = read.filter(|(path, _)| {
        let name = path.to_string_lossy();
        name.ends_with(end) && !name.contains(".expected.")
    });
    small(named.map(|(_, bytes)| bytes).collect(), MAX_BYTES)
}

fn small(mut files: Vec<Vec<u8>>, bytes: usize) -> Vec<Vec<u8>> {
    files.retain(|file| file.len() < bytes);
    files
}

fn safetensors() -> Vec<Vec<u8>> {
    files(FAMILIES.iter().flat_map(|(_, folders)| *folders).copied(), ".safetensors")
}

/// Files of several formats.
fn any() -> Vec<Vec<u8>> {
    let others = [files(["npz"], ".npz"), files(["gguf"], ".gguf"), files(["pth"], ""), files(["onnx"], ".onnx")];
    safetensors().into_iter().step_by(8).chain(others.concat()).collect()
}

/// A file with its length in front, and another.
fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u32).to_le_bytes(), first, second].concat()
}

/// Every file with the first end, and the largest of its folder with the second.
fn pairs(folders: &[&str], first: &str, second: &str) -> Vec<Vec<u8>> {
    let all: Vec<_> = folders.iter().flat_map(|folder| read(&Path::new(FIXTURES).join(folder))).collect();
    let of_end = |end: &str| {
        let end = end.to_owned();
        all.iter().filter(move |(path, _)| path.to_string_lossy().ends_with(&end))
    };
    let pair = |(path, bytes): &(PathBuf, Vec<u8>)| {
        let near = of_end(second).filter(|(other, _)| other.parent() == path.parent());
        near.max_by_key(|(_, data)| data.len()).map(|(_, data)| joined(bytes, data))
    };
    of_end(first).filter_map(pair).collect()
}

/// The names, types and shapes of a safetensors file.
fn header(file: &[u8]) -> Option<Map<String, Value>> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let text = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    match serde_json::from_slice(text).ok()? {
        Value::Object(header) => Some(header),
        _ => None,
    }
}

/// Weights as [parts](crate::parts), with the configuration of their fixture.
fn parts(folders: &[&str]) -> Vec<Vec<u8>> {
    let all = folders.iter().flat_map(|folder| read(&Path::new(FIXTURES).join(folder)));
    let models = all.filter(|(path, _)| {
        let name = path.to_string_lossy();
        name.ends_with(".safetensors") && !name.contains(".expected.")
    });
    let seed = |(path, file): (PathBuf, Vec<u8>)| {
        let config = fs::read(path.with_extension("config.json")).unwrap_or_default();
        let config = serde_json::from_slice::<Value>(&config).map_or(String::new(), |config| config.to_string());
        let mut list = String::new();
        for (name, entry) in header(&file)?.iter().filter(|(name, _)| *name != "__metadata__") {
            let shape = entry["shape"].as_array()?.iter().map(|dim| format!(" {dim}")).collect::<String>();
            list += &format!("{name} {}{shape}\n", entry["dtype"].as_str()?);
        }
        let data = &file[file.len().saturating_sub(DATA_BYTES)..];
        Some([config.as_bytes(), b"\0", list.as_bytes(), b"\0", data].concat())
    };
    models.filter_map(seed).collect()
}

/// An index for a file, and the file.
fn index(file: &[u8]) -> Option<Vec<u8>> {
    let header = header(file)?;
    let names = header.keys().filter(|name| *name != "__metadata__");
    let map: Map<String, Value> = names.map(|name| (name.clone(), json!("model-00001-of-00001.safetensors"))).collect();
    let total = file.len() as u64 - 8 - u64::from_le_bytes(*file.first_chunk()?);
    let text = json!({ "metadata": { "total_size": total }, "weight_map": map }).to_string();
    Some(joined(text.as_bytes(), file))
}

/// Importance matrices of the legacy format, and GGUF files.
fn importance() -> Vec<Vec<u8>> {
    let mut legacy = 2i32.to_le_bytes().to_vec();
    for name in ["blk.0.ffn_up.weight", "blk.0.attn_q.weight"] {
        legacy.extend((name.len() as i32).to_le_bytes());
        legacy.extend(name.as_bytes());
        legacy.extend(1i32.to_le_bytes());
        legacy.extend(8i32.to_le_bytes());
        legacy.extend((0..8).flat_map(|value| (value as f32).to_le_bytes()));
    }
    legacy.extend(1i32.to_le_bytes());
    legacy.extend(8i32.to_le_bytes());
    legacy.extend(b"text.raw");
    [vec![legacy], small(files(["gguf"], ".gguf"), SMALL_BYTES)].concat()
}

/// Vocabularies and cards, each behind the byte of its kind.
fn vocabularies() -> Vec<Vec<u8>> {
    let kinds = ["tokenizer.model", "tokenizer.json", "tekken.json", "README.md"];
    let seed = |(path, bytes): (PathBuf, Vec<u8>)| {
        let kind = kinds.iter().position(|kind| path.ends_with(kind))? as u8;
        Some([&[kind][..], &bytes].concat())
    };
    small(read(&Path::new(FIXTURES).join("vocabularies")).into_iter().filter_map(seed).collect(), MAX_BYTES)
}

/// Bytes without a meaning, for targets whose inputs are choices and data.
fn patterns() -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..64).map(|index| (0..8 + 4 * index).map(|_| next()).collect()).collect()
}
