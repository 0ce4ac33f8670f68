//! Models of whisper.cpp: tensors of every block type, hyperparameters, filters and vocabulary.

use crate::support::{Contents, Folder, TARGETS, assert_mentions, difference, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, FileKind, Format, GgufMetadataValue, ParseLimits, verify,
};

fn tiny() -> Vec<u8> {
    std::fs::read(fixture("whisper/ggml-tiny.bin")).unwrap()
}

fn open(bytes: &[u8]) -> anamnesis::Result<Checkpoint> {
    Checkpoint::from_bytes(bytes.to_vec(), &ParseLimits::default())
}

/// The offset of the file type among the hyperparameters.
const FILE_TYPE: usize = 4 + 10 * 4;

#[test]
fn a_model_has_the_values_it_was_written_with() {
    let folder = Folder::new();
    let checkpoint = Checkpoint::open(fixture("whisper/ggml-tiny.bin"), &ParseLimits::default()).unwrap();
    assert_eq!((checkpoint.format(), checkpoint.tensor_count(), checkpoint.notes().len()), (Format::Whisper, 50, 0));
    let output = folder.path("out.safetensors");
    let plan = checkpoint.plan_convert(ConvertTarget::Safetensors, &ConvertOptions::new()).unwrap();
    plan.write(&output, |_| {}).unwrap();
    let (expected, found) = (Contents::read(fixture("whisper/ggml-tiny.expected.safetensors")), Contents::read(output));
    assert_eq!(found.names(), expected.names());
    for (name, wanted) in &expected.tensors {
        assert_eq!(difference(wanted, &found.tensors[name]), None, "{name}");
    }
    let metadata = found.metadata.unwrap();
    assert_eq!(metadata["whisper.encoder.context_length"], "12");
    assert!(metadata["tokenizer.ggml.tokens"].starts_with("[\"!\",\"\u{120}the\","));
    assert_eq!(serde_json::from_str::<Vec<f32>>(&metadata["whisper.filters.data"]).unwrap().len(), 20);
}

#[test]
fn every_block_type_is_decoded_as_in_gguf() {
    let checkpoint = Checkpoint::open(fixture("whisper/ggml-blocks.bin"), &ParseLimits::default()).unwrap();
    let mut compared = 0;
    for target in TARGETS {
        let suffix = target.to_string().to_lowercase();
        for tensor in checkpoint.decoded(target) {
            let tensor = tensor.unwrap();
            let (case, name) = tensor.name.split_once('/').unwrap();
            let expected = Contents::read(fixture(&format!("gguf/{case}.expected.safetensors")));
            let wanted = &expected.tensors[&format!("{name}.{suffix}")];
            assert_eq!((&tensor.shape, tensor.data == wanted.data), (&wanted.shape, true), "{case} {target}");
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * 26);
}

#[test]
fn hyperparameters_filters_and_vocabulary_are_metadata_of_a_gguf_file() {
    let folder = Folder::new();
    let path = folder.path("out.gguf");
    let checkpoint = open(&tiny()).unwrap();
    let plan = checkpoint.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).unwrap();
    plan.write(&path, |_| {}).unwrap();
    let written = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    let metadata: std::collections::BTreeMap<_, _> = written.metadata().unwrap().into_iter().collect();
    for (key, value) in checkpoint.metadata().unwrap() {
        assert_eq!(metadata[&key], value, "{key}");
    }
    assert_eq!(metadata["general.architecture"].as_string(), Some("whisper"));
    assert_eq!(metadata["whisper.encoder.mels_count"], GgufMetadataValue::U32(4));
    let tokens = metadata["tokenizer.ggml.tokens"].as_array().unwrap().as_string_slice().unwrap();
    assert_eq!(tokens, ["!", "\u{120}the", "Ã¼", "âĤ", "\u{100}", "", "\u{10a}"]);
}

#[test]
fn no_prefix_passes_for_the_model() {
    let whole = tiny();
    let mut at_a_border = 0;
    for end in 0..whole.len() {
        match open(&whole[..end]) {
            Err(error) => assert!(
                matches!(error, AnamnesisError::Parse { .. } | AnamnesisError::NotAModel { .. }),
                "{end}: {error}"
            ),
            // The format does not record the number of tensors.
            Ok(cut) => {
                assert_mentions(&cut.notes()[0].to_string(), &["not in the file", "cut off"]);
                at_a_border += 1;
            }
        }
    }
    assert_eq!(at_a_border, 49);
    let folder = Folder::new();
    assert!(verify(folder.write("ggml-whole.bin", &whole)).unwrap().problems.is_empty());
    let last = whole.len() - 3 * 4 - 4 - "decoder.blocks.0.cross_attn.out.bias".len() - 8 * 4;
    assert!(open(&whole[..last]).is_ok());
    assert!(!verify(folder.write("ggml-cut.bin", &whole[..last])).unwrap().problems.is_empty());
}

#[test]
fn blocks_of_an_order_that_only_the_version_shows_are_refused() {
    let only_q5 = |file_type: i32| {
        let mut file = tiny();
        file[FILE_TYPE..FILE_TYPE + 4].copy_from_slice(&file_type.to_le_bytes());
        let head = [2i32, 1, 6, 32, 1].into_iter().flat_map(i32::to_le_bytes);
        file.extend(head.chain(*b"w").chain([0; 22]));
        open(&file).unwrap()
    };
    let error = only_q5(8).plan(anamnesis::TargetDtype::F32).err().unwrap();
    assert_mentions(&error.to_string(), &["\"w\"", "Q5_0", "version 0", "another order"]);
    assert!(only_q5(1008).plan(anamnesis::TargetDtype::F32).is_err());
    assert!(only_q5(2008).plan(anamnesis::TargetDtype::F32).is_ok());
}

#[test]
fn counts_and_lengths_are_checked_before_memory_is_spent() {
    let whole = tiny();
    let with = |at: usize, number: i32| {
        let mut file = whole.clone();
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        open(&file).err().unwrap_or_else(|| panic!("{number} at {at}")).to_string()
    };
    let tokens = 4 + 13 * 4 + 20 * 4;
    let tensor = tokens + 4 + 7 * 4 + 1 + 4 + 2 + 2 + 1 + 1;
    for number in [-1, i32::MIN, i32::MAX] {
        for at in [52, tokens, tokens + 4, tensor, tensor + 4, tensor + 8, tensor + 12, tensor + 16] {
            with(at, number);
        }
    }
    assert_mentions(&with(4, -1), &["vocab_size", "negative"]);
    assert_mentions(&with(tensor, 5), &["rank is 5"]);
    assert_mentions(&with(tensor + 8, 4), &["type 4 (Q4_2)"]);
    assert_mentions(&with(tensor + 8, 2), &["8", "blocks of 32"]);
    assert_mentions(&with(tensor + 12, 0), &["dimension is 0"]);
}

#[test]
fn other_models_with_the_magic_are_an_older_format() {
    let mut file = tiny();
    // A GPT-2 model has six hyperparameters and no filters.
    file[40] = 77;
    match open(&file).err() {
        Some(AnamnesisError::NotAModel { kind: FileKind::Ggml, .. }) => {}
        other => panic!("{other:?}"),
    }
}
