//! The cases: every fixture with its configuration and expected values, surrounded by plain tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::subject::{Stored, Subject};
use crate::support::{Contents, Tensor, fixture, le_bytes};

/// The expected result.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// The decoded weights, as F32.
    pub weights: BTreeMap<String, Tensor>,
    /// Tensors that must be copied unchanged.
    pub plain: BTreeMap<String, Tensor>,
    /// Whether the library loses the sign of zero.
    pub unsigned_zeros: bool,
}

/// A safetensors checkpoint and its expected result.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub subject: Subject,
    pub truth: Truth,
    /// The weights and their companions.
    pub parts: BTreeSet<String>,
    /// Its configuration, regardless of the file in a trial.
    pub config: Value,
}

/// The prefix of a second copy of every weight, so that a mutilated weight is not the only one.
const TWIN: &str = "twin.";

impl Case {
    fn read(path: &Path, name: String) -> Self {
        let beside = |end: &str| path.with_file_name(format!("{}{end}", stem(path)));
        let [config, sidecar] = [".config.json", ".sidecar.json"].map(|end| std::fs::read(beside(end)).ok());
        let subject = Subject::of(&std::fs::read(path).unwrap(), config, sidecar);
        let weights = expected(&beside(".expected.safetensors"));
        let unsigned_zeros = name.contains("/fp4");
        let is_plain = |stored: &&Stored| {
            let float = ["F32", "F16", "BF16"].contains(&stored.tensor.dtype.as_str());
            float
                && !weights.contains_key(&stored.name)
                // Companions of VPTQ.
                && !["centroids.weight", "weight_bias"].iter().any(|end| stored.name.ends_with(end))
                // The last two are parameters of state spaces.
                && ["bias", ".weight", ".A_log", ".D"].iter().any(|end| stored.name.ends_with(end))
        };
        let plain: BTreeMap<_, _> = subject
            .tensors
            .iter()
            .filter(is_plain)
            .map(|stored| (stored.name.clone(), stored.tensor.clone()))
            .collect();
        let names = subject.tensors.iter().map(|stored| stored.name.clone());
        let parts = names.filter(|name| !plain.contains_key(name)).collect();
        let config = subject.config_json().unwrap_or_default();
        let mut case = Self { name, subject, truth: Truth { weights, plain, unsigned_zeros }, parts, config };
        case.surround();
        case
    }

    /// Adds typical plain tensors.
    fn surround(&mut self) {
        let halves = |count: usize| (0..count).flat_map(|index| [index as u8, 0x3c]).collect::<Vec<_>>();
        let numbers = (0..6i64).flat_map(i64::to_le_bytes).collect();
        let plain = [
            ("model.embed_tokens.weight", "F16", vec![6, 4], halves(24)),
            ("model.norm.weight", "BF16", vec![4], halves(4)),
            ("model.rotary_emb.inv_freq", "F32", vec![2], le_bytes(&[1.0, 0.5])),
            ("model.vision.embeddings.position_ids", "I64", vec![1, 6], numbers),
            ("logit_scale", "F32", vec![], le_bytes(&[2.5])),
        ];
        for (name, dtype, shape, data) in plain {
            if self.subject.find(name).is_some() {
                continue;
            }
            let tensor = Tensor { dtype: dtype.to_owned(), shape, data };
            self.truth.plain.insert(name.to_owned(), tensor.clone());
            self.subject.tensors.push(Stored { name: name.to_owned(), tensor });
        }
    }

    /// The same with a second copy of every weight.
    pub fn with_twin(&self) -> Self {
        let mut case = self.clone();
        for stored in self.subject.tensors.iter().filter(|stored| self.parts.contains(&stored.name)) {
            case.subject.tensors.push(Stored { name: format!("{TWIN}{}", stored.name), tensor: stored.tensor.clone() });
        }
        for (name, tensor) in self.truth.plain.iter().filter(|(name, _)| name.ends_with(".bias")) {
            let (name, tensor) = (format!("{TWIN}{name}"), tensor.clone());
            case.subject.tensors.push(Stored { name: name.clone(), tensor: tensor.clone() });
            case.truth.plain.insert(name, tensor);
        }
        let twins = self.truth.weights.iter().map(|(name, tensor)| (format!("{TWIN}{name}"), tensor.clone()));
        case.truth.weights.extend(twins);
        case
    }

    /// The stored weights and companions, without weights that have no companion, whose entry is the only source of
    /// information.
    pub fn parts(&self) -> impl Iterator<Item = &Stored> {
        let has_companions = self.parts.iter().any(|name| !self.truth.weights.contains_key(name));
        self.subject.tensors.iter().filter(move |stored| has_companions && self.parts.contains(&stored.name))
    }
}

/// The expectation's F32 tensors.
pub fn expected(path: &Path) -> BTreeMap<String, Tensor> {
    let tensors = Contents::read(path).tensors.into_iter();
    tensors.filter_map(|(name, tensor)| Some((name.strip_suffix(".f32")?.to_owned(), tensor))).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Every case with this ending: the fixtures, and those of the corpus in `AMN_CORPUS`.
pub fn paths(ending: &str) -> Vec<(String, PathBuf)> {
    let corpus = std::env::var_os("AMN_CORPUS").map(PathBuf::from);
    let mut found = Vec::new();
    for (prefix, root) in [("", Some(fixture(""))), ("corpus/", corpus)] {
        let Some(root) = root else { continue };
        for family in sorted(&root).into_iter().filter(|path| path.is_dir()) {
            for path in sorted(&family) {
                let expected = path.with_file_name(format!("{}.expected.safetensors", stem(&path)));
                if path.extension().is_some_and(|end| end == ending) && expected.is_file() {
                    let family = family.file_name().unwrap().to_string_lossy();
                    found.push((format!("{prefix}{family}/{}", stem(&path)), path));
                }
            }
        }
    }
    found
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Every safetensors case, or those whose names have a prefix in `AMN_CASES`.
pub fn cases() -> Vec<Case> {
    let mut paths = paths("safetensors");
    assert!(paths.len() >= 140, "only {} cases", paths.len());
    if let Ok(chosen) = std::env::var("AMN_CASES") {
        paths.retain(|(name, _)| chosen.split(',').any(|start| name.starts_with(start)));
    }
    paths.into_iter().map(|(name, path)| Case::read(&path, name)).collect()
}
