//! ONNX models give the tensors that onnx reads, and the weights that ONNX Runtime computes.

use std::path::PathBuf;

use crate::support::onnx::{FLOAT, INT8, UINT8, bytes, external, floats, graph, model, node, number, tensor};
use crate::support::{Contents, Folder, TARGETS, assert_mentions, difference, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, CpuLevel, Format, OpenOptions, ParseLimits, RememberOptions, Selection, TargetDtype,
    detect_format,
};

/// The cases of a family: a model, or a directory with `model.onnx`, and the expected tensors.
fn cases(family: &str) -> Vec<(String, PathBuf, Contents)> {
    let entries = std::fs::read_dir(fixture(family)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names
        .filter_map(|file| {
            let name = file.strip_suffix(".expected.safetensors")?.to_owned();
            let paths = [format!("{family}/{name}.onnx"), format!("{family}/{name}/model.onnx")];
            let path = paths.iter().map(|path| fixture(path)).find(|path| path.is_file()).unwrap();
            Some((name, path, Contents::read(fixture(&format!("{family}/{file}")))))
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn open(path: &PathBuf) -> Checkpoint {
    let options = OpenOptions::new().with_skip_unsupported(true);
    Checkpoint::open_with(path, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn remembered(checkpoint: &Checkpoint, target: TargetDtype, level: CpuLevel) -> Contents {
    let options = RememberOptions::new().with_cpu_level(level);
    Contents::of(&checkpoint.plan(target).unwrap().to_bytes(&options).unwrap())
}

#[test]
fn every_fixture_gives_the_tensors_that_onnx_reads() {
    let cases = cases("onnx");
    assert!(cases.len() >= 7, "{}", cases.len());
    for (name, path, expected) in cases {
        let found = remembered(&open(&path), TargetDtype::F32, CpuLevel::default());
        assert_eq!(found.names(), expected.names(), "{name}");
        for (tensor, wanted) in &expected.tensors {
            assert_eq!(found.tensors[tensor], *wanted, "{name}: {tensor}");
        }
    }
}

#[test]
fn every_quantised_fixture_gives_the_values_of_onnx_runtime() {
    let cases = cases("onnx_quantised");
    assert!(cases.len() >= 40, "{}", cases.len());
    for (name, path, expected) in cases {
        let checkpoint = open(&path);
        for (target, suffix) in TARGETS.into_iter().zip(["f32", "bf16", "f16"]) {
            for level in CpuLevel::available() {
                let found = remembered(&checkpoint, target, level);
                let is_other = |name: &str| ["f32", "bf16", "f16"].iter().any(|end| name.ends_with(&format!(".{end}")));
                let wanted = |name: &str| {
                    let weight = expected.tensors.get(&format!("{name}.{suffix}"));
                    weight.or_else(|| expected.tensors.get(name).filter(|_| !is_other(name)))
                };
                let mut names: Vec<&str> = expected
                    .names()
                    .into_iter()
                    .filter_map(|name| match name.strip_suffix(&format!(".{suffix}")) {
                        Some(weight) => Some(weight),
                        None => Some(name).filter(|name| !is_other(name)),
                    })
                    .collect();
                names.sort_unstable();
                assert_eq!(found.names(), names, "{name}");
                for (tensor, found) in &found.tensors {
                    assert_eq!(difference(wanted(tensor).unwrap(), found), None, "{name}: {tensor} {target} {level:?}");
                }
            }
        }
    }
}

#[test]
fn a_model_is_detected_by_its_content_and_read_alike_from_bytes() {
    let folder = Folder::new();
    for (name, path, _) in cases("onnx").into_iter().filter(|(name, ..)| name != "external") {
        let content = std::fs::read(&path).unwrap();
        let copy = folder.write("renamed.bin", &content);
        assert_eq!(detect_format(&copy).unwrap(), Format::Onnx, "{name}");
        let options = OpenOptions::new().with_skip_unsupported(true);
        let from_bytes = Checkpoint::from_bytes_with(content, &options).unwrap();
        let level = CpuLevel::default();
        let whole = remembered(&open(&path), TargetDtype::F32, level);
        assert_eq!(remembered(&from_bytes, TargetDtype::F32, level), whole, "{name}");
    }
}

#[test]
fn inspecting_shows_opsets_producer_and_operators() {
    let checkpoint = open(&fixture("onnx_quantised/dynamic.onnx"));
    let facts = checkpoint.facts().unwrap();
    assert_mentions(&facts.title, &["ONNX IR version"]);
    let value = |label: &str| facts.entries.iter().find(|fact| fact.label == label).unwrap().value.clone();
    assert_mentions(&value("Opsets"), &["ai.onnx 21"]);
    assert_mentions(&value("Producer"), &["onnx.quantize"]);
    assert_mentions(&value("Operators"), &["MatMulInteger 2", "DynamicQuantizeLinear"]);
}

#[test]
fn unsupported_tensors_prevent_a_conversion_unless_they_are_left_out() {
    let path = fixture("onnx/unsupported.onnx");
    let checkpoint = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    let error = checkpoint.plan(TargetDtype::F32).map(drop).unwrap_err();
    assert_mentions(&error.to_string(), &["\"text\"", "STRING"]);
    assert_mentions(&open(&path).notes()[0].to_string(), &["left out 1 tensor", "\"text\""]);
}

#[test]
fn external_data_stays_beneath_the_model() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("model")).unwrap();
    folder.write("secret.bin", [0; 8]);
    folder.write("model/data.bin", [0; 8]);
    let refused = |properties: &[(&str, &str)]| {
        let content = model(&graph(&[], &[external("w", &[2], properties)]));
        let path = folder.write("model/model.onnx", content);
        Checkpoint::open(path, &ParseLimits::default()).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&[("location", "data.bin")]), None);
    assert_eq!(refused(&[("location", "./data.bin"), ("offset", "0"), ("length", "8")]), None);
    let absolute = folder.path("secret.bin");
    for location in ["../secret.bin", "a/../../secret.bin", absolute.to_str().unwrap(), "", "..\\secret.bin", "."] {
        assert_mentions(&refused(&[("location", location)]).unwrap(), &["\"w\"", "the model names the file"]);
    }
    for (offset, length) in [("4", "8"), ("0", "9"), ("9", "0"), ("18446744073709551615", "8"), ("0", "4")] {
        let properties = [("location", "data.bin"), ("offset", offset), ("length", length)];
        assert_mentions(&refused(&properties).unwrap(), &["\"w\""]);
    }
    for (key, value) in [("offset", "-1"), ("length", "0x8"), ("offset", ""), ("length", " 8")] {
        assert_mentions(&refused(&[("location", "data.bin"), (key, value)]).unwrap(), &[key]);
    }
    assert_mentions(&refused(&[("offset", "0")]).unwrap(), &["no location"]);
    assert_mentions(&refused(&[("location", "other.bin")]).unwrap(), &["no such file"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret.bin", folder.path("model/out.bin")).unwrap();
        std::os::unix::fs::symlink("data.bin", folder.path("model/link.bin")).unwrap();
        for location in ["out.bin", "link.bin"] {
            assert_mentions(&refused(&[("location", location)]).unwrap(), &["link"]);
        }
    }
    let content = model(&graph(&[], &[external("w", &[2], &[("location", "data.bin")])]));
    let error = Checkpoint::from_bytes(content, &ParseLimits::default()).err().unwrap();
    assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
}

#[test]
fn an_output_never_replaces_external_data() {
    let folder = Folder::new();
    folder.write("data.safetensors", [0; 8]);
    let content = model(&graph(&[], &[external("w", &[2], &[("location", "data.safetensors")])]));
    let checkpoint = Checkpoint::open(folder.write("model.onnx", content), &ParseLimits::default()).unwrap();
    let plan = checkpoint.plan(TargetDtype::F32).unwrap();
    assert!(plan.write(folder.path("data.safetensors"), &RememberOptions::new(), |_| {}).is_err());
    assert_eq!(std::fs::read(folder.path("data.safetensors")).unwrap(), [0; 8]);
}

/// Codes, scales and a zero point.
fn parts() -> Vec<Vec<u8>> {
    vec![
        tensor("w_quantized", INT8, &[2, 2], &[1, 2, 3, 0xff]),
        floats("w_scale", &[], &[0.5]),
        tensor("w_zero_point", INT8, &[], &[1]),
    ]
}

fn opened(nodes: &[Vec<u8>], tensors: &[Vec<u8>]) -> Checkpoint {
    Checkpoint::from_bytes(model(&graph(nodes, tensors)), &ParseLimits::default()).unwrap()
}

fn decoded(checkpoint: &Checkpoint) -> anamnesis::Result<Contents> {
    Ok(Contents::of(&checkpoint.plan(TargetDtype::F32)?.to_bytes(&Default::default())?))
}

#[test]
fn companions_are_found_by_edges_and_not_by_names() {
    let mut tensors = parts();
    // Parts of a weight by their names, which nothing reads.
    tensors.push(tensor("m.qweight", UINT8, &[2, 2], &[1; 4]));
    tensors.push(floats("m.scales", &[2], &[1.0; 2]));
    let dequantise = node("DequantizeLinear", "", &["w_quantized", "w_scale", "w_zero_point"], &[]);
    let found = decoded(&opened(&[dequantise], &tensors)).unwrap();
    assert_eq!(found.names(), ["m.qweight", "m.scales", "w"]);
    assert_eq!(found.floats("w"), [0.0, 0.5, 1.0, -1.0]);
}

#[test]
fn a_companion_that_something_else_reads_is_kept() {
    let dequantise = node("DequantizeLinear", "", &["w_quantized", "w_scale", "w_zero_point"], &[]);
    let quantise = node("QuantizeLinear", "", &["x", "w_scale", "w_zero_point"], &[]);
    let found = decoded(&opened(&[dequantise.clone(), quantise], &parts())).unwrap();
    assert_eq!(found.names(), ["w", "w_scale", "w_zero_point"]);
    // A second reader of the same weight is no other use.
    assert_eq!(decoded(&opened(&[dequantise.clone(), dequantise], &parts())).unwrap().names(), ["w"]);
}

#[test]
fn a_weight_that_is_read_in_two_ways_is_refused() {
    let tensors = [parts(), vec![floats("other", &[], &[2.0])]].concat();
    let dequantise = |scale| node("DequantizeLinear", "", &["w_quantized", scale], &[]);
    let error = decoded(&opened(&[dequantise("w_scale"), dequantise("other")], &tensors)).unwrap_err();
    assert_mentions(&error.to_string(), &["\"w_quantized\"", "different scales"]);
}

#[test]
fn operators_with_unknown_arithmetic_are_refused_by_name() {
    for (operator, domain) in [("QAttention", "com.microsoft"), ("QMoE", "com.microsoft"), ("Codes", "my.domain")] {
        let error = decoded(&opened(&[node(operator, domain, &["x", "w_quantized"], &[])], &parts())).unwrap_err();
        assert_mentions(&error.to_string(), &["\"w_quantized\"", operator]);
    }
    // Floats and single zero points are not codes.
    let harmless = node("BiasGelu", "com.microsoft", &["x", "w_scale", "w_zero_point"], &[]);
    assert_eq!(decoded(&opened(&[harmless], &parts())).unwrap().names().len(), 3);
}

#[test]
fn integer_operators_find_scales_by_name_or_keep_the_codes() {
    let multiply = node("MatMulInteger", "", &["x", "w_quantized", "", "w_zero_point"], &[]);
    let scale = node("Mul", "", &["y", "w_scale"], &[]);
    assert_eq!(decoded(&opened(&[multiply, scale], &parts())).unwrap().names(), ["w"]);
    let codes = tensor("codes", INT8, &[2, 2], &[1, 2, 3, 4]);
    let checkpoint = opened(&[node("MatMulInteger", "", &["x", "codes"], &[])], &[codes]);
    assert_eq!(decoded(&checkpoint).unwrap().tensors["codes"].dtype, "I8");
    assert_mentions(&checkpoint.oddities().join("\n"), &["\"codes\"", "MatMulInteger", "scales are not known"]);
}

#[test]
fn inconsistent_weights_are_refused_with_their_name() {
    let wrong = |nodes: Vec<u8>, more: Vec<u8>| {
        let error = decoded(&opened(&[nodes], &[parts(), vec![more]].concat())).unwrap_err();
        assert_mentions(&error.to_string(), &["\"w_quantized\""]);
    };
    let three = || floats("three", &[3], &[1.0; 3]);
    let dequantise = |inputs: &[&str], settings: &[(&str, i64)]| node("DequantizeLinear", "", inputs, settings);
    wrong(dequantise(&["w_quantized", "three"], &[]), three());
    wrong(dequantise(&["w_quantized", "w_scale"], &[("block_size", 2)]), three());
    wrong(dequantise(&["w_quantized", "three"], &[("axis", 7)]), three());
    wrong(dequantise(&["w_quantized", "w_scale", "three"], &[]), three());
    wrong(dequantise(&["w_quantized", "computed"], &[]), three());
    wrong(dequantise(&["w_quantized", "w_zero_point"], &[]), three());
    let bits =
        |settings: &[(&str, i64)]| node("MatMulNBits", "com.microsoft", &["x", "w_quantized", "w_scale"], settings);
    for settings in [
        &[("K", 4), ("N", 4), ("bits", 4), ("block_size", 16)][..],
        &[("K", 4), ("N", -4), ("bits", 4), ("block_size", 16)],
        &[("K", i64::MAX), ("N", i64::MAX), ("bits", 4), ("block_size", 16)],
        &[("K", 4), ("N", 4), ("bits", 3), ("block_size", 16)],
        &[("N", 4), ("bits", 4), ("block_size", 16)],
    ] {
        wrong(bits(settings), three());
    }
}

#[test]
fn packed_codes_in_the_order_of_a_kernel_are_refused() {
    let codes = tensor("w", UINT8, &[1, 1, 16], &[0; 16]);
    let settings = [("K", 32), ("N", 1), ("bits", 4), ("block_size", 32)];
    let read = |more: &[(&str, i64)]| {
        let settings = [&settings[..], more].concat();
        let multiply = node("MatMulNBits", "com.microsoft", &["x", "w", "s"], &settings);
        decoded(&opened(&[multiply], &[codes.clone(), floats("s", &[1], &[1.0])]))
    };
    assert_eq!(read(&[]).unwrap().floats("w"), [-8.0; 32]);
    assert_eq!(read(&[("weight_prepacked", 0)]).unwrap().floats("w"), [-8.0; 32]);
    assert_mentions(&read(&[("weight_prepacked", 1)]).unwrap_err().to_string(), &["weight_prepacked"]);
}

#[test]
fn a_selected_weight_keeps_the_companions_that_it_shares() {
    let dequantise = |codes| node("DequantizeLinear", "", &[codes, "w_scale", "w_zero_point"], &[]);
    let other = tensor("v_quantized", INT8, &[1], &[5]);
    let content =
        model(&graph(&[dequantise("w_quantized"), dequantise("v_quantized")], &[parts(), vec![other]].concat()));
    let selection = Selection::new().with_name("w");
    let options = OpenOptions::new().with_selection(selection);
    let checkpoint = Checkpoint::from_bytes_with(content, &options).unwrap();
    let found = decoded(&checkpoint).unwrap();
    assert_eq!(found.names(), ["w"]);
    assert_eq!(found.floats("w"), [0.0, 0.5, 1.0, -1.0]);
}

#[test]
fn an_index_beyond_the_groups_is_refused() {
    let index = |last: i32| {
        let entries: Vec<u8> = (0..32).flat_map(|at| if at == 31 { last } else { at / 16 }.to_le_bytes()).collect();
        let settings = [("K", 32), ("N", 1), ("bits", 4), ("block_size", 16)];
        let multiply = node("MatMulNBits", "com.microsoft", &["x", "w", "s", "", "g"], &settings);
        let tensors = [
            tensor("w", UINT8, &[1, 2, 8], &[0x77; 16]),
            floats("s", &[1, 2], &[1.0, 2.0]),
            tensor("g", 6, &[32], &entries),
        ];
        decoded(&opened(&[multiply], &tensors))
    };
    assert_eq!(index(1).unwrap().floats("w")[30..], [-2.0, -2.0]);
    for wrong in [2, -1, i32::MAX] {
        assert_mentions(&index(wrong).unwrap_err().to_string(), &["group index"]);
    }
}

#[test]
fn values_outside_their_type_are_refused() {
    let typed = |code: u64, value: u64| {
        let content = [number(1, 1), number(2, code), bytes(8, "w"), number(5, value)].concat();
        Checkpoint::from_bytes(model(&graph(&[], &[content])), &ParseLimits::default())
    };
    assert!(typed(UINT8, 255).is_ok() && typed(INT8, u64::MAX).is_ok() && typed(9, 1).is_ok());
    for (code, value) in [(UINT8, 256), (UINT8, u64::MAX), (INT8, 128), (9, 2), (10, 65_536), (6, 1 << 31)] {
        assert_mentions(&typed(code, value).err().unwrap().to_string(), &["\"w\"", "is not one of"]);
    }
    assert!(typed(FLOAT, 1).is_err());
}
