//! `Checkpoint::weights` reports shape, number of values, family and codes of every quantised weight.

use crate::support::{Folder, Model, fixture};
use anamnesis::{
    Checkpoint, Evidence, InspectInfo, InspectOptions, ParseLimits, QuantScheme, WeightSummary,
    parse_safetensors_header,
};

/// The weights of a fixture with its own configuration.
fn weights(name: &str) -> Vec<WeightSummary> {
    let model = std::fs::read(fixture(&format!("{name}.safetensors"))).unwrap();
    let config = std::fs::read(fixture(&format!("{name}.config.json"))).unwrap();
    let folder = Folder::new();
    folder.write("config.json", config);
    let path = folder.write("model.safetensors", model);
    let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
    let weights = checkpoint.weights();
    // The summary matches the decoded weight.
    for weight in &weights {
        let decoded = checkpoint.decode::<f32>(&weight.name).unwrap();
        let shape = weight.shape.as_deref().unwrap();
        assert_eq!((shape.iter().product(), weight.values), (decoded.len(), Some(decoded.len() as u64)));
    }
    weights
}

#[test]
fn every_scheme_reports_bits_groups_and_format() {
    let of = |name: &str| {
        let weight = weights(name).swap_remove(0);
        let coding = weight.coding;
        (weight.family, coding.format, coding.bits, coding.group_size, coding.block_shape)
    };
    let coded = |family, format: &str, bits, group_size, block_shape| {
        (family, format.to_owned(), Some(bits), group_size, block_shape)
    };
    assert_eq!(of("gptq/int4_g16_asym_v1"), coded(QuantScheme::Gptq, "gptq", 4, Some(16), None));
    assert_eq!(of("awq/gemm_g32"), coded(QuantScheme::Awq, "gemm", 4, Some(32), None));
    // The block size is stored in a companion, which is read.
    assert_eq!(of("bnb/nf4_allcodes").1, "NF4");
    assert_eq!(of("bnb/fp4_nested_b64_bfloat16"), coded(QuantScheme::Bnb4, "FP4", 4, Some(64), None));
    let (family, format, bits, group_size, block_shape) = of("bnb/int8");
    assert_eq!((family, format.as_str(), bits, group_size), (QuantScheme::BnbInt8, "INT8", Some(8), None));
    assert!(matches!(block_shape, Some((1, _))));
    assert_eq!(of("fp8/ct_block"), coded(QuantScheme::FineGrainedFp8, "E4M3", 8, None, Some((128, 128))));
}

#[test]
fn gguf_blocks_report_their_type() {
    let checkpoint = Checkpoint::open(fixture("gguf/several_types.gguf"), &ParseLimits::default()).unwrap();
    let weights = checkpoint.weights();
    assert!(!weights.is_empty());
    for weight in weights {
        assert_eq!((weight.family, &weight.coding.evidence), (QuantScheme::Ggml, &Evidence::Type));
        assert!(weight.scheme.contains(&weight.coding.format), "{weight:?}");
        assert!(weight.coding.bits.is_some_and(|bits| (1..=8).contains(&bits)), "{weight:?}");
    }
}

#[test]
fn a_companion_that_cannot_be_read_leaves_the_shape_unknown() {
    let model = Model::new()
        .tensor("a.weight", "U8", &[32, 1], &[0; 32])
        .floats("a.weight.absmax", &[1], &[1.0])
        .floats("a.weight.quant_map", &[16], &[0.0; 16])
        .tensor("a.weight.quant_state.bitsandbytes__nf4", "U8", &[1], b"{");
    let weights = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap().weights();
    assert_eq!((&weights[0].shape, weights[0].values, weights[0].coding.group_size), (&None, None, None));
}

#[test]
fn a_format_that_is_refused_has_its_name_in_every_report() {
    let model = Model::new()
        .tensor("a.trellis", "I16", &[1, 1, 8], &[0; 16])
        .tensor("a.suh", "F16", &[2], &[0; 4])
        .tensor("a.svh", "F16", &[2], &[0; 4]);
    let header = parse_safetensors_header(&model.bytes()).unwrap();
    assert_eq!(header.scheme, QuantScheme::Refused("EXL3"));
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    let infos = [InspectInfo::from(&header), checkpoint.inspect(&InspectOptions::new())];
    for info in infos {
        assert_eq!((info.format, info.undecoded, info.decoded_size()), (header.scheme, 1, None));
        assert!(info.to_string().contains("24 B (EXL3) -> unknown (BF16)"), "{info}");
    }
}
