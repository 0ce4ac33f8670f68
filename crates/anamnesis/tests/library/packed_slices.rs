//! The slice functions of GPTQ, AWQ and BitsAndBytes give the values of the canonical libraries.

use crate::support::{Contents, Tensor, fixture, floats};
use anamnesis::{
    Dtype, F32Out, dequantize_awq, dequantize_bnb_int8, dequantize_bnb4, dequantize_bnb4_double_quant, dequantize_gptq,
};
use serde_json::Value;

/// One fixture: its tensors by the end of their names, its configuration, its one expected weight at F32.
struct Case {
    name: String,
    stored: Contents,
    config: Value,
    expected: Tensor,
}

impl Case {
    fn all(family: &str, wanted: impl Fn(&str) -> bool) -> Vec<Self> {
        let entries = std::fs::read_dir(fixture(family)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names = names.filter_map(|name| Some(name.strip_suffix(".expected.safetensors")?.to_owned()));
        let read = |name: String| {
            let file = |end: &str| fixture(&format!("{family}/{name}{end}"));
            let config =
                std::fs::read(file(".config.json")).ok().map(|text| serde_json::from_slice::<Value>(&text).unwrap());
            let expected = Contents::read(file(".expected.safetensors"));
            let expected = expected.tensors.into_iter().find(|(name, _)| name.ends_with(".weight.f32")).unwrap().1;
            let config = config.map_or(Value::Null, |config| config["quantization_config"].clone());
            Self { stored: Contents::read(file(".safetensors")), config, expected, name }
        };
        names.filter(|name| wanted(name)).map(read).collect()
    }

    fn find(&self, end: &str) -> Option<&Tensor> {
        self.stored.tensors.iter().find(|(name, _)| name.ends_with(end)).map(|(_, tensor)| tensor)
    }

    fn part(&self, end: &str) -> &Tensor {
        self.find(end).unwrap_or_else(|| panic!("{}: no {end}", self.name))
    }

    /// Compares `[in, out]` values with the expected `[out, in]`, bit for bit.
    fn assert_transposed(&self, values: &[u8]) {
        let [outputs, inputs] = self.expected.shape[..] else { panic!("{}: not a matrix", self.name) };
        let (found, wanted) = (floats(values), floats(&self.expected.data));
        assert_eq!(found.len(), wanted.len(), "{}", self.name);
        for output in 0..outputs {
            for input in 0..inputs {
                let (found, wanted) = (found[input * outputs + output], wanted[output * inputs + input]);
                assert_eq!(found.to_bits(), wanted.to_bits(), "{} [{output}, {input}]: {found} {wanted}", self.name);
            }
        }
    }

    fn scale_dtype(&self) -> Dtype {
        Dtype::from_name(&self.part(".scales").dtype).unwrap()
    }

    fn group_size(&self, inputs: usize) -> usize {
        self.config["group_size"].as_u64().map_or(inputs, |size| size as usize)
    }
}

#[test]
fn gptq_slices_of_the_first_format_are_exact() {
    let cases = Case::all("gptq", |name| name.ends_with("_v1"));
    let mut checked = 0;
    for case in &cases {
        let bits = case.config["bits"].as_u64().unwrap() as u8;
        let [outputs, inputs] = case.expected.shape[..] else { panic!("not a matrix") };
        let group_size = case.group_size(inputs);
        // For a zero point of all ones the slice function has its own rule: no carry, one past the codes.
        let is_all_ones = |&byte: &u8| if bits == 8 { byte == 0xff } else { byte >> 4 == 15 || byte & 15 == 15 };
        let has_all_ones = case.part(".qzeros").data.iter().any(is_all_ones);
        if !matches!(bits, 4 | 8) || !inputs.is_multiple_of(group_size) || has_all_ones {
            continue;
        }
        let index = case.find(".g_idx").map(|tensor| &tensor.data[..]);
        let parts = [".qweight", ".scales", ".qzeros"].map(|end| &case.part(end).data[..]);
        let [codes, scales, zeros] = parts;
        let dtype = case.scale_dtype();
        let values =
            dequantize_gptq::<F32Out>(codes, scales, zeros, index, inputs, outputs, group_size, bits, dtype).unwrap();
        case.assert_transposed(&values);
        checked += 1;
    }
    assert!(checked >= 8, "only {checked} of {} cases", cases.len());
}

#[test]
fn awq_slices_are_exact() {
    let cases = Case::all("awq", |_| true);
    assert!(cases.len() >= 5);
    for case in &cases {
        let [outputs, inputs] = case.expected.shape[..] else { panic!("not a matrix") };
        let [codes, scales, zeros] = [".qweight", ".scales", ".qzeros"].map(|end| &case.part(end).data[..]);
        let (group_size, dtype) = (case.group_size(inputs), case.scale_dtype());
        let values = dequantize_awq::<F32Out>(codes, scales, zeros, inputs, outputs, group_size, 4, dtype).unwrap();
        case.assert_transposed(&values);
    }
}

#[test]
fn four_bit_bitsandbytes_slices_are_exact() {
    let (mut plain, mut nested) = (0, 0);
    for case in Case::all("bnb", |name| name.starts_with("nf4")) {
        let (map, codes) = (&case.part(".quant_map").data, &case.part("_proj.weight").data);
        let state: Value = serde_json::from_slice(&case.part("bitsandbytes__nf4").data).unwrap();
        let block = state["blocksize"].as_u64().unwrap() as usize;
        let elements: usize = case.expected.shape.iter().product();
        if !elements.is_multiple_of(block) {
            continue;
        }
        let absmax = &case.part("weight.absmax").data;
        let values = match state["nested_offset"].as_f64() {
            None => {
                plain += 1;
                dequantize_bnb4::<F32Out>(codes, absmax, map, elements, block).unwrap()
            }
            Some(offset) => {
                nested += 1;
                let [scales, scale_map] = [".nested_absmax", ".nested_quant_map"].map(|end| &case.part(end).data);
                let nested_block = state["nested_blocksize"].as_u64().unwrap() as usize;
                dequantize_bnb4_double_quant::<F32Out>(
                    codes,
                    absmax,
                    map,
                    scales,
                    scale_map,
                    offset as f32,
                    elements,
                    block,
                    nested_block,
                )
                .unwrap()
            }
        };
        assert_eq!(values, case.expected.data, "{}", case.name);
    }
    assert!(plain >= 2 && nested >= 2, "{plain} plain, {nested} nested");
}

#[test]
fn eight_bit_bitsandbytes_slices_are_exact() {
    let cases = Case::all("bnb", |name| name.starts_with("int8"));
    assert!(!cases.is_empty());
    for case in cases {
        let [outputs, inputs] = case.expected.shape[..] else { panic!("not a matrix") };
        let values =
            dequantize_bnb_int8::<F32Out>(&case.part("_proj.weight").data, &case.part(".SCB").data, outputs, inputs)
                .unwrap();
        assert_eq!(values, case.expected.data, "{}", case.name);
    }
}
