//! Markers in the header or in tensors of a file determine how its weights are decoded.

use crate::support::{Folder, Model, assert_mentions, floats, parse_reason, refused, remember};
use anamnesis::{AnamnesisError, TargetDtype};
use serde_json::{Value, json};

/// 1.0 in E4M3.
const ONE: u8 = 0x38;

/// A matrix of ones in eight-bit floats.
fn ones(model: Model, module: &str, shape: [usize; 2]) -> Model {
    model.tensor(&format!("{module}.weight"), "F8_E4M3", &shape, &vec![ONE; shape[0] * shape[1]])
}

fn marker(model: Model, module: &str, object: &Value) -> Model {
    let text = object.to_string();
    model.tensor(&format!("{module}.comfy_quant"), "U8", &[text.len()], text.as_bytes())
}

fn header(model: Model, module: &str, object: &Value) -> Model {
    let layers = json!({"format_version": "1.0", "layers": {module: object}});
    model.metadata("_quantization_metadata", &layers.to_string())
}

/// The same model with either marker.
fn both(model: &Model, object: &Value) -> [Model; 2] {
    [marker(model.clone(), "a", object), header(model.clone(), "a", object)]
}

fn unsupported(error: AnamnesisError) -> (String, String) {
    match error {
        AnamnesisError::Unsupported { format, detail } => (format, detail),
        other => panic!("expected an unsupported format, got {other:?}"),
    }
}

#[test]
fn eight_bit_floats_are_scaled_according_to_their_marker() {
    let scaled =
        |shape: &[usize], scales: &[f32]| ones(Model::new(), "a", [2, 2]).floats("a.weight_scale", shape, scales);
    for (model, object, wanted) in [
        (scaled(&[], &[3.0]), json!({"format": "float8_e4m3fn", "full_precision_matrix_mult": true}), [3.0; 4]),
        (scaled(&[1], &[3.0]), json!({"format": "float8_e4m3fn"}), [3.0; 4]),
        (scaled(&[2], &[3.0, 5.0]), json!({"format": "float8_e4m3fn_rowwise"}), [3.0, 3.0, 5.0, 5.0]),
        (
            scaled(&[2, 2], &[3.0, 5.0, 7.0, 9.0]),
            json!({"format": "float8_e4m3fn_blockwise", "group_size": 1}),
            [3.0, 5.0, 7.0, 9.0],
        ),
        (
            scaled(&[1, 2], &[3.0, 5.0]),
            json!({"format": "float8_e4m3fn_blockwise", "params": {"group_size": 1}}),
            [0.0; 4],
        ),
    ] {
        for marked in both(&model, &object) {
            if wanted[0] == 0.0 {
                // Two rows in blocks of one row need two rows of scales.
                assert_mentions(&parse_reason(refused(&marked, None)), &["\"a.weight_scale\"", "[1, 2]"]);
                continue;
            }
            let output = remember(&marked, None);
            assert_eq!(floats(&output.tensors["a.weight"].data), wanted, "{object}");
            assert_eq!(output.names(), ["a.weight"]);
            let keys = output.metadata.unwrap_or_default();
            assert!(!keys.contains_key("_quantization_metadata"), "what it says is no longer true");
        }
    }
}

#[test]
fn scales_that_the_marker_contradicts_are_refused() {
    let model = ones(Model::new(), "a", [2, 2]).floats("a.weight_scale", &[2], &[3.0, 5.0]);
    for marked in both(&model, &json!({"format": "float8_e4m3fn"})) {
        assert_mentions(&parse_reason(refused(&marked, None)), &["\"a.weight_scale\"", "[2]"]);
    }
    for marked in both(&ones(Model::new(), "a", [2, 2]), &json!({"format": "float8_e4m3fn"})) {
        assert_mentions(&parse_reason(refused(&marked, None)), &["\"a.weight\"", "has no scale"]);
    }
}

#[test]
fn scales_in_tiles_are_read_in_the_order_of_the_tiles() {
    // Scales in tiles have the same shape as those in rows: row 1 of the first column is byte 16.
    let mut scales = [127; 512];
    scales[16] = 128;
    let model = ones(Model::new(), "a", [128, 128]).tensor("a.weight_scale", "F8_E8M0", &[128, 4], &scales);
    for marked in both(&model, &json!({"format": "mxfp8"})) {
        let values = remember(&marked, None).floats("a.weight");
        let doubled: Vec<_> = (0..values.len()).filter(|at| values[*at] != 1.0).collect();
        assert_eq!(doubled, (128..160).collect::<Vec<_>>());
    }
}

#[test]
fn powers_of_two_that_may_be_in_the_order_of_a_kernel_are_refused_where_nothing_says_it() {
    let model = |rows: usize, cols: usize, dtype: &str| {
        let scales = rows * cols / 32;
        ones(Model::new(), "a", [rows, cols]).tensor("a.weight_scale", dtype, &[rows, cols / 32], &vec![127; scales])
    };
    for (rows, cols) in [(128, 128), (256, 128), (128, 512)] {
        let (format, detail) = unsupported(refused(&model(rows, cols, "F8_E8M0"), None));
        assert_eq!(format, "MXFP8");
        assert_mentions(&detail, &["\"a.weight\"", "\"a.weight_scale\"", "ComfyUI"]);
    }
    // The shape tells it where no tile is whole, and a configuration everywhere.
    assert_eq!(remember(&model(127, 128, "F8_E8M0"), None).floats("a.weight")[0], 1.0);
    assert_eq!(remember(&model(128, 96, "F8_E8M0"), None).floats("a.weight")[0], 1.0);
    let config = json!({"quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp8-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp8-quantized", "weights": {"num_bits": 8,
        "type": "float", "strategy": "group", "group_size": 32, "symmetric": true}}}}});
    assert_eq!(remember(&model(128, 128, "F8_E8M0"), Some(&config)).floats("a.weight")[0], 1.0);
}

#[test]
fn unknown_formats_are_refused_by_their_names() {
    let integers = Model::new().tensor("a.weight", "I8", &[2, 2], &[1; 4]).floats("a.weight_scale", &[2, 1], &[1.0; 2]);
    let floats = ones(Model::new(), "a", [2, 2]).floats("a.weight_scale", &[], &[3.0]);
    for model in [&integers, &floats] {
        for marked in both(model, &json!({"format": "new"})) {
            let (name, detail) = unsupported(refused(&marked, None));
            assert_eq!(name, "ComfyUI");
            assert_mentions(&detail, &["\"a.weight\"", "\"new\""]);
        }
        for marked in both(model, &json!({"format": 8})) {
            assert_mentions(&parse_reason(refused(&marked, None)), &["format is 8", "text is needed"]);
        }
    }
    for marked in both(&floats, &json!({"convrot": true})) {
        assert_mentions(&unsupported(refused(&marked, None)).1, &["\"a.weight\"", "names no format"]);
    }
    for marked in both(&integers, &json!({"per_row": true})) {
        assert_eq!(remember(&marked, None).floats("a.weight"), [1.0; 4], "integers without a format are INT8");
    }
}

#[test]
fn marked_weights_whose_parts_or_options_do_not_fit_are_refused() {
    let integers =
        |rows: usize, cols: usize| Model::new().tensor("a.weight", "I8", &[rows, cols], &vec![1; rows * cols]);
    let scaled = |rows: usize, cols: usize| integers(rows, cols).floats("a.weight_scale", &[rows, 1], &vec![1.0; rows]);
    for (model, object, words) in [
        (scaled(2, 6), json!({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 4}), "groups of 4"),
        (scaled(2, 8), json!({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 8}), "8 columns"),
        (scaled(2, 8), json!({"format": "int8_tensorwise", "convrot": "yes"}), "convrot"),
        (scaled(2, 8), json!({"format": "int8_blockwise", "group_size": 2}), "[1, 4]"),
        (scaled(2, 8), json!({"format": "int8_blockwise", "group_size": 3}), "blocks of 3"),
        (scaled(2, 8), json!({"format": "int8_blockwise", "group_size": 0}), "positive"),
        (scaled(2, 8).floats("a.weight_scale_2", &[], &[1.0]), json!({"format": "nvfp4"}), "I8"),
        (scaled(2, 8), json!({"format": "int8_tensorwise", "per_row": false}), "per_row"),
        (integers(2, 8), json!({"format": "int8_tensorwise"}), "\"a.weight_scale\""),
        (integers(2, 8).floats("a.weight_scale", &[2], &[1.0; 2]), json!({"format": "int8_tensorwise"}), "[2]"),
        (scaled(2, 8), json!({"format": "awq_w4a16"}), "\"a.weight_zeros\""),
        (scaled(2, 8), json!({"format": "svdquant_w4a4"}), "\"a.weight_proj_down\""),
        (scaled(2, 8), json!({"format": "asym_w4a8_int8"}), "\"a.weight_s_rel\""),
    ] {
        for marked in both(&model, &object) {
            assert_mentions(&parse_reason(refused(&marked, None)), &["\"a.weight\"", words]);
        }
    }
    let nvfp4 = Model::new()
        .tensor("a.weight", "U8", &[2, 8], &[0; 16])
        .tensor("a.weight_scale", "F8_E4M3", &[128, 4], &[ONE; 512])
        .floats("a.weight_scale_2", &[], &[1.0]);
    let format = json!({"format": "nvfp4"});
    assert_eq!(remember(&marker(nvfp4.clone(), "a", &format), None).floats("a.weight"), [0.0; 32]);
    let smoothed = marker(nvfp4.floats("a.pre_quant_scale", &[16], &[1.0; 16]), "a", &format);
    assert_mentions(&unsupported(refused(&smoothed, None)).1, &["\"a.weight\"", "\"a.pre_quant_scale\""]);
}

#[test]
fn a_marker_of_another_type_than_the_weight_is_refused() {
    let model = ones(Model::new(), "a", [2, 2]).floats("a.weight_scale", &[], &[3.0]);
    for marked in both(&model, &json!({"format": "float8_e5m2"})) {
        assert_mentions(&parse_reason(refused(&marked, None)), &["\"a.weight\"", "F8_E4M3", "\"float8_e5m2\""]);
    }
    let model = ones(Model::new(), "a", [2, 2]).floats("a.scale_weight", &[], &[3.0]);
    let old =
        |dtype: &str| model.clone().tensor("scaled_fp8", dtype, &[1], if dtype == "F32" { &[0; 4] } else { &[0] });
    for dtype in ["F8_E4M3", "F32"] {
        assert_eq!(remember(&old(dtype), None).floats("a.weight"), [3.0; 4], "{dtype}");
    }
    let reason = parse_reason(refused(&old("F8_E5M2"), None));
    assert_mentions(&reason, &["\"a.weight\"", "F8_E4M3", "tensor \"scaled_fp8\""]);
    assert_mentions(&unsupported(refused(&old("U8"), None)).1, &["\"scaled_fp8\"", "U8"]);
}

#[test]
fn markers_that_contradict_each_other_or_cannot_be_read_are_refused() {
    let model = ones(Model::new(), "a", [2, 2]).floats("a.weight_scale", &[], &[3.0]);
    let format = |name: &str| json!({"format": name});
    let marked = header(marker(model.clone(), "a", &format("float8_e4m3fn")), "a", &format("mxfp8"));
    assert_mentions(
        &parse_reason(refused(&marked, None)),
        &["\"a.comfy_quant\"", "\"mxfp8\"", "_quantization_metadata"],
    );
    let same = header(marker(model.clone(), "a", &format("float8_e4m3fn")), "a", &format("float8_e4m3fn"));
    assert_eq!(remember(&same, None).floats("a.weight"), [3.0; 4]);
    for marked in [
        model.clone().tensor("a.comfy_quant", "U8", &[3], b"{x}"),
        model.clone().floats("a.comfy_quant", &[1], &[1.0]),
        model.clone().metadata("_quantization_metadata", "{}"),
        model.clone().metadata("_quantization_metadata", r#"{"layers": {"a": "float8_e4m3fn"}}"#),
        header(model.clone(), "b", &format("float8_e4m3fn")),
    ] {
        assert_eq!(unsupported(refused(&marked, None)).0, "ComfyUI");
    }
    let lone = marker(model, "b", &format("float8_e4m3fn"));
    assert_mentions(&parse_reason(refused(&lone, None)), &["\"b.comfy_quant\"", "\"b.weight\""]);
}

#[test]
fn the_header_of_every_file_of_a_set_counts() {
    let folder = Folder::new();
    let weight = |module: &str| {
        ones(Model::new(), module, [128, 128]).tensor(
            &format!("{module}.weight_scale"),
            "F8_E8M0",
            &[128, 4],
            &[127; 512],
        )
    };
    let [first, second] = ["a", "b"].map(weight);
    let mark = |model: Model, module: &str| header(model, module, &json!({"format": "mxfp8"}));
    folder.write("model-00001-of-00002.safetensors", mark(first, "a").bytes());
    folder.write("model-00002-of-00002.safetensors", mark(second, "b").bytes());
    let checkpoint = anamnesis::Checkpoint::open(folder.path("."), &Default::default()).unwrap();
    let problems: Vec<_> = checkpoint.inspect(&Default::default()).problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, [""; 0]);
    assert!(checkpoint.plan(TargetDtype::F32).is_ok());
}

#[test]
fn a_marker_of_a_whole_file_is_a_small_tensor() {
    let model = ones(Model::new(), "a", [2, 2]).floats("a.scale_weight", &[], &[3.0]);
    let marked = model.tensor("scaled_fp8", "F8_E4M3", &[2, 2], &[0; 4]);
    assert_mentions(&unsupported(refused(&marked, None)).1, &["\"scaled_fp8\"", "[2, 2]"]);
}
