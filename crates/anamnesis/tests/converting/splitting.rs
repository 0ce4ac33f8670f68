//! Models split into several GGUF files like llama.cpp, byte for byte, all of them or none.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Folder, fixture};
use anamnesis::{
    AnamnesisError, CancelToken, Checkpoint, ConvertOptions, ConvertPlan, ConvertTarget, Dtype, Existing, ParseLimits,
    Request, Split,
};

const NINE_TENSORS: Split = Split::AtMost { bytes: None, tensors: Some(9) };

fn open(path: impl AsRef<Path>) -> Checkpoint {
    Checkpoint::open(path, &ParseLimits::default()).unwrap()
}

fn stored() -> Checkpoint {
    open(fixture("splits/stored/model-00001-of-00004.gguf"))
}

fn files(folder: impl AsRef<Path>) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// The files that a conversion writes.
fn written(input: &Checkpoint, target: &str, options: &ConvertOptions) -> BTreeMap<String, Vec<u8>> {
    let folder = Folder::new();
    let output = folder.path("out");
    std::fs::create_dir(&output).unwrap();
    let plan = input.plan_convert(ConvertTarget::parse(target).unwrap(), options).unwrap();
    let planned: Vec<_> = plan.files(output.join("model.gguf")).collect();
    plan.write(output.join("model.gguf"), |_| {}).unwrap();
    for (path, bytes) in planned {
        assert_eq!(std::fs::metadata(path).unwrap().len(), bytes);
    }
    files(output)
}

#[track_caller]
fn assert_same(found: &BTreeMap<String, Vec<u8>>, case: &str) {
    let wanted = files(fixture("splits").join(case));
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{case}");
    for (name, bytes) in &wanted {
        assert!(found[name] == *bytes, "{case}: {name} differs");
    }
}

#[test]
fn a_checkpoint_is_split_like_the_converter_splits_it() {
    let checkpoint = open(fixture("architectures/llama3"));
    for (case, split) in [("size", Split::AtMost { bytes: Some(8000), tensors: None }), ("tensors", NINE_TENSORS)] {
        for threads in [1, 3, 8] {
            let options = ConvertOptions::new().with_output_dtype(Dtype::BF16).with_split(split).with_threads(threads);
            assert_same(&written(&checkpoint, "gguf", &options), case);
        }
    }
}

#[test]
fn keep_split_gives_the_files_of_llama_quantize() {
    let options = ConvertOptions::new().with_split(Split::AsInput);
    for mix in ["q4_k_m", "q3_k_l"] {
        assert_same(&written(&stored(), mix, &options), &format!("kept_{mix}"));
    }
}

#[test]
fn split_files_are_read_as_one_model_with_the_same_tensors() {
    let whole = written(&stored(), "q4_k_m", &ConvertOptions::new());
    assert_eq!(whole.keys().collect::<Vec<_>>(), ["model.gguf"]);
    let whole = Checkpoint::from_bytes(whole["model.gguf"].clone(), &ParseLimits::default()).unwrap();
    assert!(whole.metadata().unwrap().iter().all(|(key, _)| !key.starts_with("split.")));
    for split in [NINE_TENSORS, Split::AtMost { bytes: Some(1), tensors: None }] {
        let folder = Folder::new();
        for (name, bytes) in written(&stored(), "q4_k_m", &ConvertOptions::new().with_split(split)) {
            folder.write(&name, bytes);
        }
        let names = folder.names();
        let cut = open(folder.path(&names[0]));
        assert_eq!(cut.file_count(), names.len());
        assert_eq!(cut.tensor_count(), whole.tensor_count());
        for tensor in whole.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).unwrap().tensors() {
            let name = &tensor.name;
            assert_eq!(cut.tensor_data(name).unwrap(), whole.tensor_data(name).unwrap(), "{name}");
        }
    }
}

#[test]
fn a_model_that_fits_into_one_file_has_the_given_name() {
    let options = ConvertOptions::new().with_split(Split::AtMost { bytes: Some(1 << 30), tensors: Some(1000) });
    let found = written(&stored(), "q8_0", &options);
    assert_eq!(found, written(&stored(), "q8_0", &ConvertOptions::new()));
}

#[test]
fn tensors_are_listed_with_the_number_of_their_file() {
    let options = ConvertOptions::new().with_split(NINE_TENSORS);
    let plan = stored().plan_convert(ConvertTarget::parse("q4_k_m").unwrap(), &options).unwrap();
    let numbers: Vec<_> = plan.tensors().map(|tensor| tensor.file).collect();
    assert!(numbers.is_sorted() && numbers.iter().filter(|&&number| number == 0).count() == 9, "{numbers:?}");
    assert_eq!(plan.total_bytes(), plan.files("x.gguf").map(|(_, bytes)| bytes).sum::<u64>());
}

#[test]
fn a_conversion_that_fails_in_the_last_file_leaves_none_behind() {
    let folder = Folder::new();
    for (name, mut bytes) in files(fixture("splits/stored")) {
        if name.starts_with("model-00004") {
            let start = bytes.len() - 5000;
            // NaN as F16.
            bytes[start..].fill(0x7E);
        }
        folder.write(&name, bytes);
    }
    let before = folder.names();
    let options = ConvertOptions::new().with_split(Split::AsInput).with_threads(1);
    let input = open(folder.path("model-00001-of-00004.gguf"));
    let plan = input.plan_convert(ConvertTarget::parse("q4_k_m").unwrap(), &options).unwrap();
    let result = plan.write(folder.path("quantised.gguf"), |_| {});
    assert!(matches!(result, Err(AnamnesisError::NotFinite { .. })), "{result:?}");
    assert_eq!(folder.names(), before);
}

/// The plan of a conversion into four files, with a token that cancels it.
fn cancellable(input: &Path, mix: &str) -> (ConvertPlan, CancelToken) {
    let token = CancelToken::new();
    let options = ConvertOptions::new().with_split(NINE_TENSORS).with_threads(1).with_cancel(token.clone());
    let plan = open(input).plan_convert(ConvertTarget::parse(mix).unwrap(), &options).unwrap();
    (plan, token)
}

/// Cancels the conversion while it writes, again until some but not all of its files are finished. Returns their number.
fn interrupt(folder: &Folder, input: &Path) -> usize {
    let output = folder.path("out.gguf");
    for attempt in 0..1000 {
        let (plan, token) = cancellable(input, "q4_k_m");
        let result = plan.write(&output, |progress| {
            if progress.bytes * 10 > progress.total_bytes * (attempt % 10) {
                token.cancel();
            }
        });
        match result {
            Ok(_) => remove_outputs(folder),
            Err(error) => {
                assert!(matches!(error, AnamnesisError::Cancelled), "{error}");
                assert!(folder.names().iter().all(|name| !name.starts_with("out")), "{:?}", folder.names());
                if let Some(stage) = plan.unfinished(&output) {
                    return files(stage).keys().filter(|name| name.ends_with(".gguf")).count();
                }
            }
        }
    }
    panic!("no run was interrupted after its first file");
}

fn remove_outputs(folder: &Folder) {
    for name in folder.names().iter().filter(|name| name.starts_with("out")) {
        std::fs::remove_file(folder.path(name)).unwrap();
    }
}

#[test]
fn an_interrupted_conversion_is_resumed_by_the_same_one_only() {
    let folder = Folder::new();
    let input = folder.path("input.gguf");
    for (_, bytes) in written(&stored(), "gguf", &ConvertOptions::new()) {
        std::fs::write(&input, bytes).unwrap();
    }
    let outputs = |folder: &Folder| {
        let mut found = files(folder.path(""));
        found.retain(|name, _| name.starts_with("out"));
        found
    };
    let output = folder.path("out.gguf");
    cancellable(&input, "q4_k_m").0.write(&output, |_| {}).unwrap();
    let whole = outputs(&folder);
    remove_outputs(&folder);

    let finished = interrupt(&folder, &input);
    assert!(finished > 0);
    let (plan, _) = cancellable(&input, "q4_k_m");
    let report = plan.write(&output, |_| {}).unwrap();
    assert_eq!(report.kept.len(), finished);
    assert!(outputs(&folder) == whole);
    assert_eq!(plan.unfinished(&output), None);
    remove_outputs(&folder);

    // Another conversion starts again, and so does the same of an input that has changed since.
    interrupt(&folder, &input);
    let (other, _) = cancellable(&input, "q8_0");
    assert_eq!(other.write(&output, |_| {}).unwrap().kept, Vec::<std::path::PathBuf>::new());
    assert_eq!(other.unfinished(&output), None);
    remove_outputs(&folder);
    interrupt(&folder, &input);
    let modified = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    std::fs::File::options().write(true).open(&input).unwrap().set_modified(modified).unwrap();
    let report = cancellable(&input, "q4_k_m").0.write(&output, |_| {}).unwrap();
    assert!(report.kept.is_empty());
    assert!(outputs(&folder) == whole);
}

#[test]
fn one_existing_file_stops_the_conversion_before_anything_is_written() {
    let folder = Folder::new();
    folder.write("model-00003-of-00004.gguf", "mine");
    let options = ConvertOptions::new().with_split(NINE_TENSORS).with_existing(Existing::Refuse);
    let plan = stored().plan_convert(ConvertTarget::parse("q4_k_m").unwrap(), &options).unwrap();
    let error = plan.write(folder.path("model.gguf"), |_| {}).unwrap_err().to_string();
    assert!(error.contains("model-00003-of-00004.gguf: exists already"), "{error}");
    assert_eq!(folder.names(), ["model-00003-of-00004.gguf"]);
}

#[test]
fn no_file_of_the_input_is_overwritten() {
    let folder = Folder::new();
    for (name, bytes) in files(fixture("splits/stored")) {
        folder.write(&name, bytes);
    }
    let input = open(folder.path("model-00001-of-00004.gguf"));
    let plan = input.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new().with_split(Split::AsInput)).unwrap();
    let error = plan.write(folder.path("model.gguf"), |_| {}).unwrap_err().to_string();
    assert!(error.contains("the output is the input itself"), "{error}");
    assert_eq!(files(fixture("splits/stored")).len(), folder.names().len());
}

#[test]
fn invalid_split_options_are_refused() {
    let refused = |checkpoint: &Checkpoint, target: &str, split: Split| {
        let options = ConvertOptions::new().with_split(split);
        let target = ConvertTarget::parse(target).unwrap();
        match checkpoint.plan_convert(target, &options).map(|plan| plan.to_bytes(|_| {})) {
            Ok(Err(AnamnesisError::Request(Request::Contradiction { why, .. }))) => why,
            Err(AnamnesisError::Request(Request::Contradiction { why, .. })) => why,
            other => panic!("{:?}", other.map(|bytes| bytes.map(|_| ()))),
        }
    };
    assert!(refused(&stored(), "safetensors", NINE_TENSORS).contains("only a GGUF output"));
    let checkpoint = open(fixture("architectures/llama3"));
    assert!(refused(&checkpoint, "gguf", Split::AsInput).contains("not a split GGUF model"));
    assert!(refused(&stored(), "q4_k_m", NINE_TENSORS).contains("not into one stream"));
}
