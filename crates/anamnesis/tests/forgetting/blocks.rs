//! Quantising GGUF models to ggml blocks: copies, notes and refusals.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, Dtype, GgufMetadataValue as Value, GgufType, GgufWriteTensor,
    Importance, ParseLimits, write_gguf_to_writer,
};

const QUERY: &str = "blk.0.attn_q.weight";
const DOWN: &str = "blk.0.ffn_down.weight";

/// A model of two matrices whose rows have this many values.
fn model(row: usize) -> Vec<u8> {
    let value = |index: usize| ((index * 7919 % 1009) as f32 - 504.0) / 700.0;
    let bytes: Vec<u8> = (0..4 * row).flat_map(|index| value(index).to_le_bytes()).collect();
    let shape = [row, 4];
    let tensor = |name| GgufWriteTensor { name, shape: &shape, dtype: GgufType::F32, data: &bytes };
    let number = |key: &str, number| (format!("llama.{key}"), Value::U32(number));
    let mut metadata: HashMap<String, Value> = [number("block_count", 1), number("attention.head_count", 1)].into();
    metadata.insert("general.architecture".to_owned(), Value::String("llama".to_owned()));
    let mut file = Cursor::new(Vec::new());
    write_gguf_to_writer(&mut file, &[tensor(QUERY), tensor(DOWN)], &metadata).unwrap();
    file.into_inner()
}

/// The output and the notes of a conversion.
fn converted(input: &[u8], target: &str, options: &ConvertOptions) -> Result<(Vec<u8>, Vec<String>), String> {
    let checkpoint = Checkpoint::from_bytes(input.to_vec(), &ParseLimits::default()).unwrap();
    let target = ConvertTarget::parse(target).map_err(|error| error.to_string())?;
    let plan = checkpoint.plan_convert(target, options).map_err(|error| error.to_string())?;
    let (bytes, _) = plan.to_bytes(|_| ()).map_err(|error| error.to_string())?;
    Ok((bytes, plan.notes().iter().map(ToString::to_string).collect()))
}

fn quantised(input: &[u8], target: &str) -> (Vec<u8>, Vec<String>) {
    converted(input, target, &ConvertOptions::new()).unwrap()
}

fn values(file: &[u8]) -> [Vec<f32>; 2] {
    let checkpoint = Checkpoint::from_bytes(file.to_vec(), &ParseLimits::default()).unwrap();
    [QUERY, DOWN].map(|name| checkpoint.decode::<f32>(name).unwrap())
}

#[test]
fn blocks_that_already_have_the_target_type_are_copied() {
    for target in ["q8_0", "q4_0", "q6_k"] {
        let (once, _) = quantised(&model(256), target);
        let (twice, notes) = quantised(&once, target);
        assert!(once == twice, "{target}");
        assert!(notes.iter().all(|note| !note.contains("already quantized")), "{target}: {notes:?}");
    }
}

#[test]
fn quantised_inputs_are_decoded_to_f32_first_with_a_note() {
    let (eight, _) = quantised(&model(256), "q8_0");
    let mut exactly = ConvertOptions::new();
    exactly.output_dtype = Some(Dtype::F32);
    let (decoded, _) = converted(&eight, "gguf", &exactly).unwrap();
    let (expected, none) = quantised(&decoded, "q4_k_m");
    let (found, notes) = quantised(&eight, "q4_k_m");
    assert_eq!(values(&found), values(&expected));
    assert!(none.iter().all(|note| !note.contains("already quantized")), "{none:?}");
    assert!(notes.iter().any(|note| note.starts_with("2 weights are already quantized")), "{notes:?}");
}

#[test]
fn rows_that_blocks_do_not_divide_are_noted_with_both_types() {
    for (row, target, expected) in [
        (96, "q4_k_m", "Q5_0 instead of Q4_K"),
        (96, "q6_k", "Q8_0 instead of Q6_K"),
        (33, "q8_0", "F16 instead of Q8_0"),
    ] {
        let (_, notes) = quantised(&model(row), target);
        let note = notes.iter().find(|note| note.contains(expected));
        assert!(note.is_some_and(|note| note.contains(QUERY)), "{target}: {notes:?}");
    }
    let (_, notes) = quantised(&model(256), "q4_k_m");
    assert!(notes.iter().all(|note| !note.contains("instead")), "{notes:?}");
}

/// Options with an importance matrix of these entries.
fn with_importance(entries: &[(&str, Vec<f32>)]) -> ConvertOptions {
    let mut importance = Importance::default();
    importance.weights = entries.iter().map(|(name, weights)| ((*name).to_owned(), weights.clone().into())).collect();
    let mut options = ConvertOptions::new();
    options.quantise.blocks = options.quantise.blocks.with_importance(Arc::new(importance));
    options
}

#[test]
fn an_importance_matrix_of_another_model_is_refused_by_name() {
    let of = |weights: Vec<f32>| with_importance(&[(QUERY, weights), (DOWN, vec![1.0; 256])]);
    let with = |value: f32| {
        let mut weights = vec![1.0; 256];
        weights[77] = value;
        of(weights)
    };
    for (options, expected) in [
        (of(vec![1.0; 255]), "255 values"),
        (of(vec![1.0; 512]), "512 values"),
        (of(Vec::new()), "0 values"),
        (with(f32::NAN), "the value NaN"),
        (with(f32::INFINITY), "the value inf"),
        (with(-1.0), "the value -1"),
        (of(vec![0.0; 256]), "zero throughout"),
    ] {
        let error = converted(&model(256), "q4_k_m", &options).unwrap_err();
        assert!(error.contains(expected) && error.contains(QUERY), "{error}");
    }
    let of_another = with_importance(&[("blk.7.attn_q.weight", vec![1.0; 256])]);
    let error = converted(&model(256), "q4_k_m", &of_another).unwrap_err();
    assert!(error.contains("belongs to another model"), "{error}");
}

#[test]
fn types_that_need_an_importance_matrix_name_the_tensor_without_an_entry() {
    let error = converted(&model(256), "iq2_xxs", &ConvertOptions::new()).unwrap_err();
    assert!(error.contains("importance") && error.contains("blk.0."), "{error}");
    let some = with_importance(&[(DOWN, vec![1.0; 256])]);
    let error = converted(&model(256), "iq2_xxs", &some).unwrap_err();
    assert!(error.contains(QUERY), "{error}");
    let all = with_importance(&[(QUERY, vec![1.0; 256]), (DOWN, vec![1.0; 256])]);
    assert!(converted(&model(256), "iq2_xxs", &all).is_ok());
}
