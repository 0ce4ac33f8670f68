//! The public names, paths and signatures of earlier versions; this file must compile.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;

use crate::support::{Folder, Model};
use anamnesis::{
    AnamnesisError, ConvertOptions, ConvertStats, ConvertTarget, Format, InspectSummary, ParseLimits, QuantScheme,
    Result,
};

fn model() -> Vec<u8> {
    Model::new().floats("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0]).bytes()
}

#[test]
fn conversions_are_at_the_root() {
    let _: fn(&Path, ConvertTarget, &Path, &ConvertOptions) -> Result<ConvertStats> = anamnesis::convert;
    let folder = Folder::staged(&model(), None);
    let mut calls = 0;
    let (target, options) = (ConvertTarget::Gguf, ConvertOptions::new());
    let stats =
        anamnesis::convert_with_progress(&folder.model(), target, &folder.path("out.gguf"), &options, || calls += 1);
    assert_eq!((stats.unwrap().tensors, calls), (1, 1));
    let (again, _): (Vec<u8>, ConvertStats) = anamnesis::convert_bytes(&model(), target, &options).unwrap();
    let (bytes, _) = anamnesis::convert_bytes_with_progress(&model(), target, &options, || calls += 1).unwrap();
    assert_eq!(again, bytes);
    assert_eq!((bytes, calls), (std::fs::read(folder.path("out.gguf")).unwrap(), 2));
}

#[test]
fn formats_of_bytes_are_detected_or_refused() {
    assert_eq!(anamnesis::detect_format_from_bytes(&model()).unwrap(), Format::Safetensors);
    assert_eq!(
        anamnesis::convert::detect_format_from_bytes(b"GGUF\x03\0\0\0").unwrap(),
        anamnesis::convert::Format::Gguf
    );
    let limits = ParseLimits::unbounded().with_max_single_alloc(3);
    let error = anamnesis::detect_format_from_bytes_with_limits(&model(), &limits).unwrap_err();
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "max_single_alloc_bytes", .. }), "{error}");
    let _: fn(&Path) -> Result<Format> = anamnesis::convert::detect_format;
}

#[test]
fn an_expansion_is_a_number_of_bytes() {
    let half = Model::new().tensor("w", "F8_E4M3", &[4], &[0x38; 4]).bytes();
    let info = anamnesis::parse_bytes(half).unwrap().inspect();
    let bytes: u64 = info.expansion();
    assert_eq!(bytes, 4);
}

#[test]
fn nvfp4_has_its_name() {
    assert_eq!(QuantScheme::Nvfp4.to_string(), "NVIDIA NVFP4 (ModelOpt), 16-value blocks");
}

#[test]
fn module_paths_resolve_to_their_names() {
    let token = anamnesis::cancel::CancelToken::new();
    let options = anamnesis::model::RememberOptions::new().with_cancel(token);
    assert!(options.cancel.is_some());
    assert_eq!(anamnesis::lethe::bnb_writer::NF4_BLOCK_SIZE, 64);
    use anamnesis::remember::output::{Bf16Out, F16Out, F32Out, OutputElement};
    assert_eq!([Bf16Out::BYTES, F16Out::BYTES, F32Out::BYTES], [2, 2, 4]);
}

#[test]
fn options_of_conversions_have_the_members_of_runs() {
    let mut options = ConvertOptions::new().with_threads(0).with_cancel(anamnesis::CancelToken::new());
    assert_eq!((options.threads, options.cancel.is_some()), (Some(1), true));
    options.threads = Some(3);
    options.cancel = None;
    assert_eq!((options.run.threads, options.run.cancel.is_none(), options.output_dtype), (Some(3), true, None));
}

#[test]
fn output_types_are_compared_and_hashed() {
    fn holds<T: PartialEq + Eq + Hash + Copy>(value: T) -> bool {
        HashSet::from([value]).contains(&value)
    }
    assert!(holds(anamnesis::Bf16Out) && holds(anamnesis::F16Out) && holds(anamnesis::F32Out));
}

#[test]
fn small_constructors_are_constant() {
    const LIMITS: ParseLimits = ParseLimits::unbounded().with_max_item_count(3);
    const OPTIONS: anamnesis::RememberOptions = anamnesis::RememberOptions::new();
    const INSPECT: anamnesis::InspectOptions =
        anamnesis::InspectOptions::new().with_output_dtype(anamnesis::TargetDtype::F32);
    const EXTENSION: &str = ConvertTarget::BnbNf4.extension();
    const SUFFIX: &str = ConvertTarget::BnbNf4.suffix();
    assert_eq!((LIMITS.max_item_count(), OPTIONS.threads), (3, None));
    assert_eq!((INSPECT.output_dtype.byte_size(), EXTENSION, SUFFIX), (4, "safetensors", "bnb-nf4"));
}
