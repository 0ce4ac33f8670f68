//! Tensors quantised in memory by the name of an encoding, and decoded from their parts.

use crate::support::{Model, Noise};
use anamnesis::{
    BlockType, Checkpoint, ConvertOptions, ConvertTarget, Dtype, Encoded, MemoryTensor, MemoryTensors, OpenOptions,
    ParseLimits, encode, encode_tensors,
};

const SHAPE: [usize; 2] = [128, 256];

fn values() -> Vec<f32> {
    let mut noise = Noise(3);
    (0..SHAPE.iter().product()).map(|_| noise.scale() / 100.0).collect()
}

/// The parts of an encoded tensor, opened again from memory.
fn reopened(encoded: &Encoded) -> Checkpoint {
    let part = |(name, dtype, shape): (&str, Dtype, &[usize])| MemoryTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        data: encoded.data(name).unwrap().unwrap().into_owned(),
    };
    let mut options = OpenOptions::new();
    options.config = encoded.configuration().map(|text| text.to_owned().into());
    let tensors = MemoryTensors::new(encoded.parts().map(part).collect(), &[].into()).unwrap();
    Checkpoint::from_positioned(tensors, &options).unwrap()
}

#[test]
fn every_target_encodes_the_bytes_of_a_converted_file() {
    let values = values();
    let file = Model::new().floats("layer.weight", &SHAPE, &values).bytes();
    let mut refused = Vec::new();
    for target in ConvertTarget::all().filter(|target| target.is_quantized()) {
        let Ok(encoded) = encode(target.name(), &values, &SHAPE) else {
            refused.push(target.name());
            continue;
        };
        let options = ConvertOptions::new().with_keep_names(true).with_quantized("*").unwrap();
        let plain = Checkpoint::from_bytes_with(file.clone(), &OpenOptions::new().with_plain(true)).unwrap();
        let (bytes, _) = plain.plan_convert(target, &options).unwrap().to_bytes(|_| {}).unwrap();
        let converted = Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap();
        for (name, ..) in encoded.parts() {
            let (found, wanted) = (encoded.data(name).unwrap(), converted.tensor_data(name).unwrap());
            assert_eq!(found, wanted, "{} {name}", target.name());
        }
    }
    // Experts alone, and block types that need an importance matrix.
    assert_eq!(refused, ["gpt-oss", "q2_k_s", "iq3_xxs", "iq2_m", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s"]);
}

#[test]
fn parts_are_decoded_from_memory() {
    let values = values();
    for name in ["nf4", "fp8", "gptq-4bit", "awq-4bit", "mxfp4", "nvfp4"] {
        let encoded = encode(name, &values, &SHAPE).unwrap();
        let decoded: Vec<f32> = encoded.decode("layer.weight").unwrap();
        assert_eq!(reopened(&encoded).decode::<f32>("layer.weight").unwrap(), decoded, "{name}");
        let error: f32 = decoded.iter().zip(&values).map(|(a, b)| (a - b).abs()).sum::<f32>() / values.len() as f32;
        assert!(error < 0.02, "{name}: {error}");
    }
}

#[test]
fn a_block_type_is_used_for_all_rows_or_refused() {
    let values = values();
    let is_q4_k = |encoded: &Encoded| {
        encoded.parts().all(|(_, dtype, _)| matches!(dtype, Dtype::Block(block) if block == BlockType::Q4_K))
    };
    for name in ["q4_k", "Q4_K"] {
        assert!(is_q4_k(&encode(name, &values, &SHAPE).unwrap()), "{name}");
    }
    let error = encode("q4_k", &values, &[128, 256 - 32, 1]).err().unwrap().to_string();
    assert!(error.contains("layer.weight"), "{error}");
    let error = encode("q4_k", &values[..96 * 64], &[64, 96]).err().unwrap().to_string();
    assert!(error.contains("Q4_K") && error.contains("96"), "{error}");
}

#[test]
fn requests_that_cannot_be_met_are_refused_by_name() {
    let error = |name: &str, values: &[f32], shape: &[usize]| encode(name, values, shape).err().unwrap().to_string();
    assert!(error("q4_z", &[], &[0]).contains("q4_z"));
    assert!(error("nf4", &[1.0; 4], &[2, 3]).contains("layer.weight"));
    let integers = MemoryTensor { name: "ids".to_owned(), dtype: Dtype::I32, shape: vec![1], data: vec![0; 4] };
    let tensors = MemoryTensors::new(vec![integers], &[].into()).unwrap();
    assert!(encode_tensors("nf4", tensors, ConvertOptions::new()).is_err());
}
