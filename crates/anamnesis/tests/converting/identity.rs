//! A conversion into a directory is resumed only with the plan that began it.

use std::path::Path;

use crate::support::pickle::{Pickle, torch_archive};
use crate::support::zip::{Entry, archive};
use crate::support::{Contents, Folder, Model, le_bytes};
use anamnesis::{
    AnamnesisError, Cast, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Dtype, Existing, OpenOptions,
    RememberOptions, Selection,
};

/// A training checkpoint: two models with the same names and shapes but different values.
fn training() -> Folder {
    training_of(["0", "1"], [0, 0], &[2, 1], |[model, ema]| {
        let stored = |key: &str, values: &[f32]| Entry::stored(&format!("archive/data/{key}"), &le_bytes(values));
        vec![stored("0", model), stored("1", ema)]
    })
}

/// The same with views of these strides and offsets into storages.
fn training_of(
    keys: [&str; 2],
    offsets: [i64; 2],
    strides: &[i64; 2],
    storages: impl Fn([&[f32]; 2]) -> Vec<Entry>,
) -> Folder {
    let elements = if keys[0] == keys[1] { 8 } else { 4 };
    let mut pickle = Pickle::new().raw(b"}");
    for ((part, key), offset) in ["model", "ema"].into_iter().zip(keys).zip(offsets) {
        pickle = pickle.text(part).raw(b"}").text("w").tensor(key, elements, offset, &[2, 2], strides);
        pickle = pickle.raw(b"s").raw(b"s");
    }
    let mut entries = vec![Entry::stored("archive/data.pkl", &pickle.stop())];
    entries.extend(storages([&[1.0; 4], &[2.0; 4]]));
    let folder = Folder::new();
    folder.write("pytorch_model.bin", archive(&entries));
    folder
}

/// Converts a checkpoint into the directory `out`, which may be unfinished.
fn convert(
    input: &Path,
    out: &Path,
    open: &OpenOptions,
    target: ConvertTarget,
    options: &ConvertOptions,
) -> anamnesis::Result<Vec<String>> {
    convert_part(input, out, open, (target, options), DirectoryOptions::new())
}

/// Begins a conversion of one shard into the directory `out`: the second of two parts has nothing to write.
fn begin(input: &Path, out: &Path, open: &OpenOptions, target: ConvertTarget, options: &ConvertOptions) {
    let part = DirectoryOptions::new().with_part("2/2".parse().unwrap());
    convert_part(input, out, open, (target, options), part).unwrap();
}

fn convert_part(
    input: &Path,
    out: &Path,
    open: &OpenOptions,
    (target, options): (ConvertTarget, &ConvertOptions),
    directory: DirectoryOptions,
) -> anamnesis::Result<Vec<String>> {
    let checkpoint = Checkpoint::open_with(input, open)?;
    let plan = checkpoint.plan_convert_directory(target, options, &directory)?;
    let report = plan.write(out, &RememberOptions::new().with_existing(Existing::Refuse), |_| {})?;
    Ok(report.kept)
}

/// Converting the second model is refused where the first was begun, and the first resumes.
fn refuses_the_other_model(what: &str, folder: &Folder) {
    let out = Folder::new();
    let out = out.path("out");
    let run = |part: &str| {
        let open = OpenOptions::new().with_select(part);
        convert(&folder.path(""), &out, &open, ConvertTarget::Safetensors, &ConvertOptions::new())
    };
    let open = OpenOptions::new().with_select("model");
    begin(&folder.path(""), &out, &open, ConvertTarget::Safetensors, &ConvertOptions::new());
    let error = run("ema").expect_err(what);
    let AnamnesisError::OtherPlan { difference } = &error else { panic!("{what}: {error}") };
    assert_eq!(difference, "its tensors come from other parts of the input", "{what}");
    assert!(run("model").unwrap().is_empty(), "{what}");
    assert_eq!(Contents::read(out.join("model.safetensors")).floats("w"), [1.0; 4], "{what}");
    assert_eq!(run("model").unwrap(), ["model.safetensors"], "{what}");
}

#[test]
fn another_part_of_a_training_checkpoint_is_another_conversion() {
    let apart = |key: &str, values: &[f32]| Entry::stored(&format!("archive/data/{key}"), &le_bytes(values));
    let packed = |key: &str, values: &[f32]| Entry::deflated(&format!("archive/data/{key}"), &le_bytes(values));
    let one = |[model, ema]: [&[f32]; 2]| [model, ema].concat();
    let transposed = &[1, 2];
    let cases = [
        ("whole storages", training()),
        ("transposed", training_of(["0", "1"], [0, 0], transposed, |[m, e]| vec![apart("0", m), apart("1", e)])),
        ("transposed in one storage", training_of(["0", "0"], [0, 4], transposed, |both| vec![apart("0", &one(both))])),
        ("side by side in one storage", training_of(["0", "0"], [0, 4], &[2, 1], |both| vec![apart("0", &one(both))])),
        ("deflated", training_of(["0", "1"], [0, 0], &[2, 1], |[m, e]| vec![packed("0", m), packed("1", e)])),
        ("both", training_of(["0", "1"], [0, 0], transposed, |[m, e]| vec![packed("0", m), packed("1", e)])),
        ("both in one storage", training_of(["0", "0"], [0, 4], transposed, |both| vec![packed("0", &one(both))])),
    ];
    for (what, folder) in cases {
        refuses_the_other_model(what, &folder);
    }
}

#[test]
fn another_order_of_the_same_bytes_is_another_conversion() {
    let view = |pickle: Pickle, part: &str, strides: &[i64]| {
        pickle.text(part).raw(b"}").text("w").tensor("0", 4, 0, &[2, 2], strides).raw(b"s").raw(b"s")
    };
    let pickle = view(view(Pickle::new().raw(b"}"), "model", &[1, 2]), "ema", &[2, 1]).stop();
    let (folder, out) = (Folder::new(), Folder::new());
    folder.write("pytorch_model.bin", torch_archive(&pickle, &[&le_bytes(&[1.0, 2.0, 3.0, 4.0])]));
    let run = |part: &str| {
        let open = OpenOptions::new().with_select(part);
        convert(&folder.path(""), &out.path("out"), &open, ConvertTarget::Safetensors, &ConvertOptions::new())
    };
    let open = OpenOptions::new().with_select("model");
    begin(&folder.path(""), &out.path("out"), &open, ConvertTarget::Safetensors, &ConvertOptions::new());
    assert!(matches!(run("ema"), Err(AnamnesisError::OtherPlan { .. })));
}

#[test]
fn every_option_that_changes_a_byte_changes_the_plan() {
    let values: Vec<f32> = (0..256).map(|value| value as f32 * 0.01 - 1.0).collect();
    let model = Model::new().floats("a.weight", &[4, 64], &values).floats("b.weight", &[4, 64], &values);
    let folder = Folder::staged(&model.bytes(), Some(&serde_json::json!({ "torch_dtype": "float32" })));
    let new = ConvertOptions::new;
    let nf4 = ConvertTarget::BnbNf4;
    let plain = ConvertTarget::Safetensors;
    let begun = [
        (nf4, new(), "goes on"),
        (nf4, new().with_measure(true), "goes on"),
        (nf4, new().with_threads(3), "goes on"),
        (ConvertTarget::BnbFp4, new(), "it holds a bnb-nf4 conversion, this one is bnb-fp4"),
        (plain, new(), "it holds a bnb-nf4 conversion, this one is safetensors"),
        (nf4, new().with_block_size(128), "other names, types or shapes"),
        (nf4, new().with_double_quant(true), "other names, types or shapes"),
        (nf4, new().with_allow_nonfinite(true), "decoded or quantised in another way"),
        (nf4, new().with_kept("b.*").unwrap(), "other names, types or shapes"),
        (nf4, new().with_selection(Selection::new().with_prefix("x.")), "other names, types or shapes"),
        (nf4, new().with_cast(Cast::All).with_output_dtype(Dtype::F16), "this one is F16"),
    ];
    for (target, options, outcome) in begun {
        let out = Folder::new();
        let out = out.path("out");
        begin(&folder.path(""), &out, &OpenOptions::new(), nf4, &new());
        match (convert(&folder.path(""), &out, &OpenOptions::new(), target, &options), outcome) {
            (Ok(kept), "goes on") => assert!(kept.is_empty()),
            (Err(AnamnesisError::OtherPlan { difference }), words) => {
                assert!(difference.contains(words), "{words}: {difference}");
            }
            (other, words) => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn a_file_with_the_right_size_and_another_header_is_rewritten() {
    let (folder, out) = (training(), Folder::new());
    let out = out.path("out");
    let run = || {
        let open = OpenOptions::new().with_select("model");
        convert(&folder.path(""), &out, &open, ConvertTarget::Safetensors, &ConvertOptions::new()).unwrap()
    };
    run();
    let written = std::fs::read(out.join("model.safetensors")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let open = OpenOptions::new().with_select("model");
    begin(&folder.path(""), &out, &open, ConvertTarget::Safetensors, &ConvertOptions::new());
    let mut other = written.clone();
    other[20] ^= 1;
    std::fs::write(out.join("model.safetensors"), &other).unwrap();
    assert!(run().is_empty());
    assert!(std::fs::read(out.join("model.safetensors")).unwrap() == written);
}
