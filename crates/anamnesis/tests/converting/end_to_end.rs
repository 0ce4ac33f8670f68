//! Quantised checkpoints convert to the files of three programs in sequence: the library that decodes them, the
//! llama.cpp converter and llama-quantize.

use crate::support::{Folder, fixture};
use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, CpuLevel, ParseLimits, Split};

/// The cases: a checkpoint and the resulting model.
fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("end_to_end")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".expected.gguf")?.to_owned())).collect();
    cases.sort();
    assert!(cases.len() >= 10, "{cases:?}");
    cases
}

fn open(case: &str) -> Checkpoint {
    Checkpoint::open(fixture("end_to_end").join(case), &ParseLimits::default()).unwrap()
}

fn expected(case: &str) -> Vec<u8> {
    std::fs::read(fixture("end_to_end").join(format!("{case}.expected.gguf"))).unwrap()
}

#[test]
fn every_scheme_gives_the_file_of_decoding_converting_and_quantising() {
    let target = ConvertTarget::parse("q4_k_m").unwrap();
    for case in cases() {
        for level in CpuLevel::available() {
            let plan = open(&case).plan_convert(target, &ConvertOptions::new().with_cpu_level(level)).unwrap();
            assert!(plan.stats().dequantized > 0, "{case}");
            let (bytes, _) = plan.to_bytes(|_| {}).unwrap();
            assert!(bytes == expected(&case), "{case} at {level}");
        }
    }
}

#[test]
fn a_quantised_checkpoint_split_into_files_has_the_same_tensors() {
    let target = ConvertTarget::parse("q4_k_m").unwrap();
    let (case, folder) = ("qwen3_gptq", Folder::new());
    let options = ConvertOptions::new().with_split(Split::AtMost { bytes: Some(20_000), tensors: None });
    let plan = open(case).plan_convert(target, &options).unwrap();
    plan.write(folder.path("model.gguf"), |_| {}).unwrap();
    let cut = Checkpoint::open(folder.path(&folder.names()[0]), &ParseLimits::default()).unwrap();
    assert!(cut.file_count() > 2);
    let whole = Checkpoint::from_bytes(expected(case), &ParseLimits::default()).unwrap();
    for tensor in plan.tensors() {
        let name = &tensor.name;
        assert_eq!(cut.tensor_data(name).unwrap(), whole.tensor_data(name).unwrap(), "{name}");
    }
}
