//! Packed weights with malformed companions are refused by name, before anything is written.

use std::collections::BTreeMap;

use crate::support::{Folder, Model, TARGETS, assert_mentions, le_bytes};
use serde_json::{Value, json};

/// Tensors by name, so that a case can change or remove one of a valid weight.
#[derive(Clone)]
struct Weight(BTreeMap<&'static str, (&'static str, Vec<usize>, Vec<u8>)>);

impl Weight {
    fn with(mut self, name: &'static str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.0.insert(name, (dtype, shape.to_vec(), bytes));
        self
    }

    fn without(mut self, name: &str) -> Self {
        assert!(self.0.remove(name).is_some(), "{name}");
        self
    }

    fn staged(&self, config: Option<&Value>) -> Folder {
        let add = |model: Model, (name, (dtype, shape, bytes)): (&&str, &(&str, Vec<usize>, Vec<u8>))| {
            model.tensor(name, dtype, shape, bytes)
        };
        Folder::staged(&self.0.iter().fold(Model::new(), add).bytes(), config)
    }

    #[track_caller]
    fn is_sound(&self, config: Option<&Value>) {
        let folder = self.staged(config);
        for target in TARGETS {
            if let Err(error) = folder.remember(target) {
                panic!("{error}");
            }
        }
    }

    #[track_caller]
    fn is_refused(&self, config: Option<&Value>, words: &[&str]) {
        assert_mentions(&self.staged(config).refused().to_string(), words);
    }
}

fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

// GPTQ and AWQ

/// 32 inputs in two groups, 8 outputs, four bits, with activation order.
fn gptq() -> Weight {
    let index: Vec<i32> = (0..32).map(|input| input % 2).collect();
    Weight(BTreeMap::new())
        .with("a.qweight", "I32", &[4, 8], vec![0x5a; 128])
        .with("a.qzeros", "I32", &[2, 1], vec![0x77; 8])
        .with("a.scales", "F16", &[2, 8], vec![0x3c; 32])
        .with("a.g_idx", "I32", &[32], integers(&index))
}

/// The same size in the AWQ layout.
fn awq() -> Weight {
    gptq().without("a.g_idx").with("a.qweight", "I32", &[32, 1], vec![0x5a; 128])
}

fn config(method: &str, bits: impl Into<Value>, group_size: impl Into<Value>) -> Value {
    let (bits, group_size): (Value, Value) = (bits.into(), group_size.into());
    json!({"quantization_config": {"quant_method": method, "bits": bits, "group_size": group_size, "version": "gemm"}})
}

#[test]
fn a_group_index_that_contradicts_the_group_size_or_is_missing_is_refused() {
    let config = |more: Value| {
        let mut section = json!({"quant_method": "gptq", "bits": 4, "group_size": 16, "checkpoint_format": "gptq"});
        section.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"quantization_config": section})
    };
    gptq().is_sound(Some(&config(json!({}))));
    // 32 inputs in two groups are 16 each, not 20 and 12.
    gptq().is_refused(Some(&config(json!({"group_size": 20}))), &["\"a.qweight\"", "group 0", "groups of 20"]);
    let uneven: Vec<i32> = (0..32).map(|input| i32::from(input > 10)).collect();
    let uneven = gptq().with("a.g_idx", "I32", &[32], integers(&uneven));
    uneven.is_refused(Some(&config(json!({}))), &["\"a.qweight\"", "11 inputs in group 0"]);
    let twin = gptq()
        .with("b.qweight", "I32", &[4, 8], vec![0x5a; 128])
        .with("b.qzeros", "I32", &[2, 1], vec![0x77; 8])
        .with("b.scales", "F16", &[2, 8], vec![0x3c; 32]);
    twin.is_refused(None, &["\"b.qweight\"", "\"b.g_idx\"", "other weights"]);
}

#[test]
fn symmetric_zero_points_in_the_other_format_are_refused() {
    let config = |format: &str, sym: bool| json!({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": sym, "checkpoint_format": format}});
    let v2 = || gptq().with("a.qzeros", "I32", &[2, 1], vec![0x88; 8]);
    gptq().is_sound(Some(&config("gptq", true)));
    v2().is_sound(Some(&config("gptq_v2", true)));
    gptq().is_refused(Some(&config("gptq_v2", true)), &["\"a.qweight\"", "all zero points are 7", "v2"]);
    v2().is_refused(Some(&config("gptq", true)), &["\"a.qweight\"", "all zero points are 8", "v1"]);
    // Asymmetric codes may have any zero point.
    gptq().is_sound(Some(&config("gptq_v2", false)));
}

#[test]
fn the_sound_weights_of_these_tests_are_decoded() {
    gptq().is_sound(None);
    gptq().is_sound(Some(&config("gptq", 4, 16)));
    awq().is_sound(Some(&config("awq", 4, 16)));
    nf4().is_sound(None);
    nested().is_sound(None);
    int8().is_sound(None);
}

#[test]
fn a_group_index_out_of_range_is_refused() {
    for wrong in [2, -1, i32::MAX, i32::MIN] {
        for place in [0, 31] {
            let mut index = vec![0; 32];
            index[place] = wrong;
            gptq().with("a.g_idx", "I32", &[32], integers(&index)).is_refused(None, &["a.", &wrong.to_string()]);
        }
    }
}

#[test]
fn a_group_index_of_the_wrong_length_or_type_is_refused() {
    gptq().with("a.g_idx", "I32", &[31], vec![0; 124]).is_refused(None, &["\"a.g_idx\"", "[31]"]);
    gptq().with("a.g_idx", "I64", &[32], vec![0; 256]).is_refused(None, &["\"a.g_idx\"", "I64"]);
}

#[test]
fn shapes_of_packed_companions_must_match() {
    for weight in [gptq(), awq()] {
        for (shape, bytes) in [([1, 1], 4), ([2, 2], 16), ([2, 0], 0), ([3, 1], 12), ([0, 1], 0)] {
            weight.clone().with("a.qzeros", "I32", &shape, vec![0; bytes]).is_refused(None, &["a.q"]);
        }
        for (shape, bytes) in [([2, 7], 28), ([1, 8], 16), ([0, 8], 0), ([2, 0], 0)] {
            weight.clone().with("a.scales", "F16", &shape, vec![0; bytes]).is_refused(None, &["a.q"]);
        }
        weight.clone().with("a.scales", "F16", &[16], vec![0; 32]).is_refused(None, &["a."]);
        weight.clone().with("a.scales", "I16", &[2, 8], vec![0; 32]).is_refused(None, &["a.scales", "I16"]);
        weight.clone().with("a.qzeros", "F32", &[2, 1], vec![0; 8]).is_refused(None, &["a.qzeros", "F32"]);
    }
}

#[test]
fn missing_companions_of_packed_weights_are_named() {
    for (weight, method) in [(gptq(), "gptq"), (awq(), "awq")] {
        let config = config(method, 4, 16);
        for companion in ["a.qzeros", "a.scales"] {
            weight.clone().without(companion).is_refused(Some(&config), &["\"a.qweight\"", companion]);
        }
    }
}

#[test]
fn configured_bits_that_contradict_the_shapes_are_refused() {
    for (weight, method) in [(gptq(), "gptq"), (awq(), "awq")] {
        for bits in [0, 2, 8, 33, -4] {
            weight.is_refused(Some(&config(method, bits, 16)), &["a.qweight"]);
        }
    }
}

#[test]
fn configured_groups_that_contradict_the_shapes_are_refused() {
    for (weight, method) in [(gptq(), "gptq"), (awq(), "awq")] {
        for size in [0, -2, 1, 5, 32, 64, -1] {
            weight.is_refused(Some(&config(method, 4, size)), &["a.qweight"]);
        }
    }
}

// BitsAndBytes

fn state(shape: Value, block: impl Into<Value>) -> Vec<u8> {
    let block: Value = block.into();
    json!({"quant_type": "nf4", "blocksize": block, "dtype": "bfloat16", "shape": shape}).to_string().into_bytes()
}

const STATE: &str = "a.weight.quant_state.bitsandbytes__nf4";

/// 8 × 16 values in two blocks.
fn nf4() -> Weight {
    let state = state(json!([8, 16]), 64);
    Weight(BTreeMap::new())
        .with("a.weight", "U8", &[64, 1], vec![0x5a; 64])
        .with("a.weight.absmax", "F32", &[2], le_bytes(&[1.0, 2.0]))
        .with("a.weight.quant_map", "F32", &[16], le_bytes(&[0.5; 16]))
        .with(STATE, "U8", &[state.len()], state)
}

/// The same with quantised scales.
fn nested() -> Weight {
    let state = json!({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [8, 16],
        "nested_blocksize": 256, "nested_offset": 0.25, "nested_dtype": "float32"});
    let state = state.to_string().into_bytes();
    nf4()
        .with("a.weight.absmax", "U8", &[2], vec![3, 4])
        .with("a.weight.nested_absmax", "F32", &[1], le_bytes(&[1.0]))
        .with("a.weight.nested_quant_map", "F32", &[256], le_bytes(&[0.5; 256]))
        .with(STATE, "U8", &[state.len()], state)
}

fn int8() -> Weight {
    Weight(BTreeMap::new())
        .with("a.weight", "I8", &[4, 6], vec![7; 24])
        .with("a.SCB", "F32", &[4], le_bytes(&[1.0; 4]))
        .with("a.weight_format", "U8", &[], vec![0])
}

#[test]
fn an_inconsistent_quant_state_is_refused() {
    let huge = 1u64 << 32;
    let shapes = [
        json!([8, 17]),
        json!([huge, huge]),
        json!([huge, huge, 2]),
        json!([-8, 16]),
        json!([8.0, 16]),
        json!("8x16"),
        json!(null),
        json!([u64::MAX]),
        json!([0]),
        json!([]),
    ];
    for shape in shapes {
        let state = state(shape, 64);
        nf4().with(STATE, "U8", &[state.len()], state).is_refused(None, &["\"a.weight\""]);
    }
    for block in [json!(0), json!(-64), json!(63), json!(32), json!(128), json!("64"), json!(null), json!(u64::MAX)] {
        let state = state(json!([8, 16]), block);
        nf4().with(STATE, "U8", &[state.len()], state).is_refused(None, &["\"a.weight\""]);
    }
}

#[test]
fn a_description_that_is_not_json_is_refused() {
    for text in [&b""[..], b"{", b"\xff\xfe", b"[]", b"null"] {
        nf4().with(STATE, "U8", &[text.len()], text.to_vec()).is_refused(None, &["\"a.weight\""]);
    }
    let deep = "[".repeat(50_000).into_bytes();
    nf4().with(STATE, "U8", &[deep.len()], deep).is_refused(None, &["\"a.weight\""]);
    nf4().with(STATE, "U8", &[1 << 20], vec![b' '; 1 << 20]).is_refused(None, &["\"a.weight\""]);
}

#[test]
fn tables_of_the_wrong_length_are_refused() {
    for length in [0, 1, 15, 17, 256] {
        let map = le_bytes(&vec![0.5; length]);
        nf4().with("a.weight.quant_map", "F32", &[length], map).is_refused(None, &["\"a.weight\""]);
    }
    for length in [0, 16, 255, 257] {
        let map = le_bytes(&vec![0.5; length]);
        nested().with("a.weight.nested_quant_map", "F32", &[length], map).is_refused(None, &["\"a.weight\""]);
    }
}

#[test]
fn scales_of_the_wrong_number_or_type_are_refused() {
    for length in [0, 1, 3] {
        let absmax = le_bytes(&vec![1.0; length]);
        nf4().with("a.weight.absmax", "F32", &[length], absmax).is_refused(None, &["\"a.weight\""]);
    }
    for length in [0, 2] {
        let absmax = le_bytes(&vec![1.0; length]);
        nested().with("a.weight.nested_absmax", "F32", &[length], absmax).is_refused(None, &["\"a.weight\""]);
    }
    nf4().with("a.weight.absmax", "F16", &[2], vec![0; 4]).is_refused(None, &["\"a.weight\"", "F16"]);
    for length in [0, 3, 5, 6, 24] {
        int8().with("a.SCB", "F32", &[length], le_bytes(&vec![1.0; length])).is_refused(None, &["\"a.SCB\""]);
    }
    int8().with("a.SCB", "F16", &[4], vec![0; 8]).is_refused(None, &["\"a.SCB\"", "F16"]);
}

#[test]
fn missing_companions_of_four_bit_weights_are_named() {
    for companion in ["a.weight.absmax", "a.weight.quant_map"] {
        nf4().without(companion).is_refused(None, &[companion]);
    }
    for companion in ["a.weight.nested_absmax", "a.weight.nested_quant_map"] {
        nested().without(companion).is_refused(None, &[companion]);
    }
    nf4().without("a.weight").is_refused(None, &["\"a.weight\""]);
    int8().without("a.weight").is_refused(None, &["\"a.SCB\"", "\"a.weight\""]);
}

#[test]
fn nested_scales_need_their_offset() {
    let state = state(json!([8, 16]), 64);
    nested().with(STATE, "U8", &[state.len()], state).is_refused(None, &["\"a.weight\""]);
}

#[test]
fn every_member_of_a_quant_state_is_validated() {
    let members = |changes: &[(&str, Option<Value>)]| {
        let mut state = json!({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [8, 16],
            "nested_blocksize": 256, "nested_offset": 0.25, "nested_dtype": "float32"});
        for (key, value) in changes {
            let members = state.as_object_mut().unwrap();
            match value {
                Some(value) => members.insert((*key).to_owned(), value.clone()),
                None => members.remove(*key),
            };
        }
        let state = state.to_string().into_bytes();
        nested().with(STATE, "U8", &[state.len()], state)
    };
    members(&[("dtype", None), ("quant_type", None), ("nested_dtype", None)]).is_sound(None);
    for (key, value) in [
        ("nested_blocksize", None),
        ("nested_blocksize", Some(json!(0))),
        ("nested_blocksize", Some(json!("256"))),
        ("nested_blocksize", Some(json!(256.5))),
        ("nested_offset", None),
        ("nested_offset", Some(json!("0.25"))),
        ("nested_dtype", Some(json!("float16"))),
        ("quant_type", Some(json!("fp4"))),
        ("quant_type", Some(json!(4))),
        ("dtype", Some(json!(16))),
    ] {
        members(&[(key, value)]).is_refused(None, &["\"a.weight\"", key]);
    }
}

#[test]
fn two_descriptions_of_one_weight_are_refused() {
    let state = state(json!([8, 16]), 64);
    let second = "a.weight.quant_state.bitsandbytes__fp4";
    nf4().with(second, "U8", &[state.len()], state).is_refused(None, &["\"a.weight\"", "two"]);
}

#[test]
fn symmetric_zero_points_that_are_packed_otherwise_than_the_format_says_are_refused() {
    // 32 codes of three bits take three words, one after the other or in planes of two bits and of one.
    let straight = |zero: u32| {
        let bits = (0..32u32).fold(0u128, |bits, at| bits | u128::from(zero) << (3 * at));
        bits.to_le_bytes()[..12].to_vec()
    };
    let planes = |zero: u32| {
        let low = u32::MAX / 3 * (zero & 3);
        integers(&[low as i32, low as i32, if zero & 4 == 0 { 0 } else { -1 }])
    };
    let weight = |zeros: Vec<u8>| {
        gptq()
            .without("a.g_idx")
            .with("a.qweight", "I32", &[3, 32], vec![0x5a; 384])
            .with("a.qzeros", "I32", &[1, 3], zeros)
            .with("a.scales", "F16", &[1, 32], vec![0x3c; 64])
    };
    let config = |format: Option<&str>, sym: Option<bool>| {
        let mut section = json!({"quant_method": "gptq", "bits": 3, "group_size": 32});
        format.inspect(|format| section["checkpoint_format"] = json!(format));
        sym.inspect(|sym| section["sym"] = json!(sym));
        Some(json!({"quantization_config": section}))
    };
    for sym in [None, Some(true), Some(false)] {
        weight(planes(4)).is_sound(config(Some("gptq_p"), sym).as_ref());
        weight(straight(4)).is_sound(config(Some("gptq_v2"), sym).as_ref());
        for zero in [3, 4] {
            let words = ["\"a.qweight\"", "zero points", "one after the other", "in planes"];
            weight(straight(zero)).is_refused(config(Some("gptq_p"), sym).as_ref(), &words);
            for format in [None, Some("gptq"), Some("gptq_v2")] {
                weight(planes(zero)).is_refused(config(format, sym).as_ref(), &words);
            }
        }
    }
    // Zero points that differ are those of neither.
    weight(integers(&[0x1234_5678, 0x0fed_cba9, 0x7654_3210])).is_sound(config(Some("gptq_p"), Some(false)).as_ref());
}
