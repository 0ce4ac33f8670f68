//! Mutations of GGUF files. A tensor is self-contained, so the mutations concern its entry and the metadata.
//!
//! Undetectable changes are skipped or counted as legitimate: two tensors of equal size with exchanged offsets or
//! names; another type or other dimensions with the same padded size.

use anamnesis::{Checkpoint, ParseLimits};

use super::case::{Truth, expected, paths};
use super::ggml_blocks::BLOCKS;
use super::gguf_file::{Entry, GgufFile};
use super::subject::remember;
use super::tally::Tally;
use super::trial::Amount;
use super::verdict::Verdict;
use crate::support::gguf::tag;
use crate::support::{Folder, Noise, Tensor};

/// Ids of the types that ggml has, removed ones included.
const TYPE_IDS: std::ops::Range<u32> = 0..43;

struct Case {
    name: String,
    file: GgufFile,
    truth: Truth,
}

struct Mutation {
    class: &'static str,
    what: String,
    legitimate: Option<&'static str>,
    file: GgufFile,
}

pub fn run(amount: Amount, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut noise = Noise(seed);
    for (name, path) in paths("gguf") {
        let Some(file) = GgufFile::read(&std::fs::read(&path).unwrap()) else { continue };
        let truth = truth(&file, &path.with_extension("expected.safetensors"));
        let case = Case { name, file, truth };
        try_case(&case, amount, &mut noise, &mut tally);
    }
    tally
}

/// Plain tensors are expected unchanged, the others as in the fixture.
fn truth(file: &GgufFile, path: &std::path::Path) -> Truth {
    let mut truth = Truth { weights: expected(path), ..Truth::default() };
    for Entry { name, dims, type_id, data, .. } in &file.tensors {
        let Some(dtype) = plain_type(*type_id) else { continue };
        let shape: Vec<_> = dims.iter().rev().map(|&dim| dim as usize).collect();
        let bytes = shape.iter().product::<usize>() * if dtype == "F32" { 4 } else { 2 };
        let tensor = Tensor { dtype: dtype.to_owned(), shape, data: data[..bytes].to_vec() };
        truth.weights.remove(name);
        truth.plain.insert(name.clone(), tensor);
    }
    truth
}

fn plain_type(type_id: u32) -> Option<&'static str> {
    match type_id {
        0 => Some("F32"),
        1 => Some("F16"),
        30 => Some("BF16"),
        _ => None,
    }
}

fn try_case(case: &Case, amount: Amount, noise: &mut Noise, tally: &mut Tally) {
    let untouched = attempt(case, &case.file);
    let sound = matches!(untouched, Verdict::Correct);
    tally.count(&case.name, "untouched", "", None, untouched);
    if !sound {
        return;
    }
    let mut mutations = entries(&case.file);
    mutations.extend(metadata(&case.file));
    mutations.extend(companions(&case.file));
    for mutation in mutations.iter().filter(|_| amount.takes(noise)) {
        let verdict = attempt(case, &mutation.file);
        tally.count(&case.name, mutation.class, &mutation.what, mutation.legitimate, verdict);
    }
    for (what, parts) in splits(&case.file).into_iter().filter(|_| amount.takes(noise)) {
        tally.count(&case.name, "split", &what, None, attempt_parts(case, &parts));
    }
}

fn attempt(case: &Case, file: &GgufFile) -> Verdict {
    let outcome = Checkpoint::from_bytes(file.write(), &ParseLimits::default()).and_then(|open| remember(&open));
    let stored = |name: &str| file.tensors.iter().any(|tensor| tensor.name == name);
    Verdict::of(outcome, &case.truth, stored)
}

fn attempt_parts(case: &Case, parts: &[(String, GgufFile)]) -> Verdict {
    let folder = Folder::new();
    for (name, part) in parts {
        folder.write(name, part.write());
    }
    let outcome = Checkpoint::open(folder.path(""), &ParseLimits::default()).and_then(|open| remember(&open));
    Verdict::of(outcome, &case.truth, |_| true)
}

/// The bytes of an entry, if its rows are whole blocks.
fn size(dims: &[u64], type_id: u32) -> Option<u64> {
    let (_, elements, bytes) = BLOCKS.into_iter().find(|(id, ..)| *id == type_id)?;
    let whole = dims.first().is_some_and(|row| row % elements == 0) && !dims.contains(&0);
    whole.then(|| dims.iter().product::<u64>() / elements * bytes)
}

/// The bytes of an entry with padding.
fn room(file: &GgufFile, entry: &Entry) -> Option<u64> {
    size(&entry.dims, entry.type_id).map(|bytes| bytes.next_multiple_of(file.alignment as u64))
}

const AS_LARGE: &str =
    "the type and the dimensions of a GGUF tensor are nowhere else, and take as many bytes with padding";

/// Wrong entries of tensors.
fn entries(file: &GgufFile) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut add = |class, what: String, index: usize, entry: Entry| {
        let old = &file.tensors[index];
        let same = room(file, &entry) == room(file, old) && entry.offset == old.offset;
        let mut file = file.clone();
        file.tensors[index] = entry;
        mutations.push(Mutation { class, what, legitimate: same.then_some(AS_LARGE), file });
    };
    for (index, tensor) in file.tensors.iter().enumerate() {
        for type_id in TYPE_IDS.filter(|id| *id != tensor.type_id) {
            add("type", format!("{} -> {type_id}", tensor.name), index, Entry { type_id, ..tensor.clone() });
        }
        let mut shapes = vec![
            tensor.dims.iter().rev().copied().collect(),
            vec![tensor.dims.iter().product()],
            [&tensor.dims[..], &[1]].concat(),
            [&[1], &tensor.dims[..]].concat(),
        ];
        for dim in 0..tensor.dims.len() {
            for size in [tensor.dims[dim] + 1, tensor.dims[dim] * 2, tensor.dims[dim] - 1, tensor.dims[dim] / 2, 0] {
                let mut dims = tensor.dims.clone();
                dims[dim] = size;
                shapes.push(dims);
            }
        }
        for dims in shapes.into_iter().filter(|dims| *dims != tensor.dims) {
            add("dimensions", format!("{} -> {dims:?}", tensor.name), index, Entry { dims, ..tensor.clone() });
        }
        let step = file.alignment as u64;
        for offset in [tensor.offset + step, tensor.offset.wrapping_sub(step), tensor.offset + 1, 0, u64::MAX - 31] {
            if offset != tensor.offset {
                add("offset", format!("{} -> {offset}", tensor.name), index, Entry { offset, ..tensor.clone() });
            }
        }
    }
    mutations.extend(exchanged(file));
    mutations
}

/// Two tensors with exchanged offsets, if their sizes differ.
fn exchanged(file: &GgufFile) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for a in 0..file.tensors.len() {
        for b in a + 1..file.tensors.len() {
            let (first, second) = (&file.tensors[a], &file.tensors[b]);
            if room(file, first) == room(file, second) {
                continue;
            }
            let mut changed = file.clone();
            (changed.tensors[a].offset, changed.tensors[b].offset) = (second.offset, first.offset);
            let what = format!("{} and {} exchanged", first.name, second.name);
            mutations.push(Mutation { class: "offset", what, legitimate: None, file: changed });
        }
    }
    mutations
}

/// Missing or changed metadata.
fn metadata(file: &GgufFile) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut GgufFile)| {
        let mut file = file.clone();
        change(&mut file);
        mutations.push(Mutation { class: "metadata", what, legitimate: None, file });
    };
    add("all gone".to_owned(), &|file| file.metadata.clear());
    add("version 2".to_owned(), &|file| file.version = 2);
    add("version 1".to_owned(), &|file| file.version = 1);
    add("bytes at the end".to_owned(), &|file| file.tail = vec![1; 64]);
    add("no bytes at the end".to_owned(), &|file| {
        if let Some(last) = file.tensors.last_mut() {
            last.data.truncate(last.data.len() / 2);
        }
    });
    for alignment in [0u32, 1, 2, 3, 8, 16, 64, 128, 256, 4096] {
        add(format!("alignment {alignment}"), &|file| {
            file.metadata.retain(|(key, ..)| key != "general.alignment");
            file.metadata.push(("general.alignment".to_owned(), tag::U32, alignment.to_le_bytes().to_vec()));
        });
    }
    add("alignment of another type".to_owned(), &|file| {
        file.metadata.push(("general.alignment".to_owned(), tag::U64, 64u64.to_le_bytes().to_vec()));
    });
    for (no, count) in [(0u16, 2u16), (1, 2), (5, 2), (0, 1), (0, 0)] {
        add(format!("split.no {no}, split.count {count}"), &|file| {
            file.metadata.push(("split.no".to_owned(), tag::U16, no.to_le_bytes().to_vec()));
            file.metadata.push(("split.count".to_owned(), tag::U16, count.to_le_bytes().to_vec()));
        });
    }
    mutations
}

/// Invalid scales of NVFP4 tensors.
fn companions(file: &GgufFile) -> Vec<Mutation> {
    let Some(weight) = file.tensors.iter().find(|tensor| tensor.type_id == 40) else { return Vec::new() };
    let module = weight.name.strip_suffix("weight").unwrap_or(&weight.name);
    let end = file.tensors.iter().map(|tensor| tensor.offset + tensor.data.len() as u64).max().unwrap_or(0);
    let scale = |name: &str, dims: &[u64], type_id: u32| Entry {
        name: format!("{module}{name}"),
        dims: dims.to_vec(),
        type_id,
        offset: end.next_multiple_of(file.alignment as u64),
        data: [2f32.to_le_bytes(), 2f32.to_le_bytes()].concat(),
    };
    let scales = [
        scale("scale", &[2], 0),
        scale("scale", &[1], 26),
        scale("scale", &[2], 1),
        scale("SCALE", &[2], 0),
        scale("scales", &[2], 0),
        scale("weight_scale", &[2], 0),
        scale("weight.scale", &[2], 0),
        scale("scale_2", &[2], 0),
    ];
    let add = |scale: Entry| {
        let what = format!("{} of type {} {:?} added", scale.name, scale.type_id, scale.dims);
        let mut file = file.clone();
        file.tensors.push(scale);
        Mutation { class: "companion", what, legitimate: None, file }
    };
    scales.into_iter().map(add).collect()
}

/// The file in two parts, one of which is missing or has other metadata.
fn splits(file: &GgufFile) -> Vec<(String, Vec<(String, GgufFile)>)> {
    if file.tensors.len() < 2 {
        return Vec::new();
    }
    let cut = file.tensors.len() / 2;
    let part = |no: u16, count: u16, total: i32, tensors: &[Entry]| {
        let mut part = GgufFile { tensors: tensors.to_vec(), ..file.clone() };
        let start = part.tensors.first().map_or(0, |tensor| tensor.offset);
        part.tensors.iter_mut().for_each(|tensor| tensor.offset -= start);
        part.metadata.push(("split.no".to_owned(), tag::U16, no.to_le_bytes().to_vec()));
        part.metadata.push(("split.count".to_owned(), tag::U16, count.to_le_bytes().to_vec()));
        part.metadata.push(("split.tensors.count".to_owned(), tag::I32, total.to_le_bytes().to_vec()));
        part
    };
    let total = file.tensors.len() as i32;
    let (head, tail) = file.tensors.split_at(cut);
    let name = |no: u32| format!("model-{no:05}-of-00002.gguf");
    let both = |a: GgufFile, b: GgufFile| vec![(name(1), a), (name(2), b)];
    let (first, second) = (part(0, 2, total, head), part(1, 2, total, tail));
    let unlabelled = |file: &GgufFile| {
        let mut file = file.clone();
        file.metadata.retain(|(key, ..)| !key.starts_with("split."));
        file
    };
    vec![
        ("as it should be".to_owned(), both(first.clone(), second.clone())),
        ("without the first part".to_owned(), vec![(name(2), second.clone())]),
        ("without the second part".to_owned(), vec![(name(1), first.clone())]),
        ("exchanged".to_owned(), both(second.clone(), first.clone())),
        ("the first twice".to_owned(), both(first.clone(), first.clone())),
        ("a count too high".to_owned(), both(part(0, 3, total, head), part(1, 3, total, tail))),
        ("a number twice".to_owned(), both(first.clone(), part(0, 2, total, tail))),
        ("tensors missing".to_owned(), both(first.clone(), part(1, 2, total, &tail[..tail.len() - 1]))),
        ("the first unlabelled".to_owned(), both(unlabelled(&first), second.clone())),
        ("the second unlabelled".to_owned(), both(first.clone(), unlabelled(&second))),
        ("a part under a name of its own".to_owned(), vec![("model.gguf".to_owned(), first)]),
    ]
}
