//! The slice functions: the bits of the reference, and typed errors for inconsistent arguments.

use crate::support::{Contents, Tensor, assert_mentions, difference, fixture, floats, le_bytes, parse_reason, rounded};
use anamnesis::{
    Bf16Out, Dtype, F16Out, F32Out, OutputElement, dequantize_fp8, dequantize_fp8_to_bf16, dequantize_per_channel_fp8,
    dequantize_per_channel_fp8_to_bf16, dequantize_per_tensor_fp8, dequantize_per_tensor_fp8_to_bf16,
};

/// The weight of a fixture, its scale, and where the expectation is.
struct Case {
    weight: Tensor,
    scale: Tensor,
    expected: Contents,
    name: String,
}

fn case(path: &str) -> Case {
    let input = Contents::read(fixture(&format!("fp8/{path}.safetensors")));
    let expected = Contents::read(fixture(&format!("fp8/{path}.expected.safetensors")));
    let name = expected.names()[0].rsplit_once('.').unwrap().0.to_owned();
    let scale = input.tensors.iter().find(|(key, _)| key.starts_with(&name) && key.contains("scale")).unwrap().1;
    Case { weight: input.tensors[&name].clone(), scale: scale.clone(), expected, name }
}

impl Case {
    fn rows(&self) -> usize {
        self.weight.shape[0]
    }

    fn cols(&self) -> usize {
        self.weight.shape[1]
    }

    fn scale_dtype(&self) -> Dtype {
        Dtype::from_name(&self.scale.dtype).unwrap()
    }

    fn check<E: OutputElement>(&self, data: Vec<u8>) {
        let key = format!("{}.{}", self.name, E::DTYPE.to_string().to_lowercase());
        let got = Tensor { dtype: E::DTYPE.to_string(), shape: self.weight.shape.clone(), data };
        assert_eq!(difference(&self.expected.tensors[&key], &got), None, "{key}");
    }
}

#[test]
fn blocks_decode_to_the_bits_of_the_reference() {
    let paths = [
        "block128_allcodes",
        "block128_tall_f32",
        "block128_tall_bf16",
        "block128_tall_f16",
        "block128_wide_f32",
        "block128_wide_bf16",
        "block128_wide_f16",
        "ragged_both",
        "ragged_columns",
        "ragged_one_column",
        "ragged_row",
    ];
    for path in paths {
        let case = case(path);
        let (weight, scale, dtype) = (&case.weight.data, &case.scale.data, case.scale_dtype());
        case.check::<F32Out>(dequantize_fp8::<F32Out>(weight, scale, case.rows(), case.cols(), dtype).unwrap());
        case.check::<F16Out>(dequantize_fp8::<F16Out>(weight, scale, case.rows(), case.cols(), dtype).unwrap());
        case.check::<Bf16Out>(dequantize_fp8_to_bf16(weight, scale, case.rows(), case.cols(), dtype).unwrap());
    }
}

#[test]
fn rows_decode_to_the_bits_of_the_reference() {
    for path in
        ["e4m3_row_column", "e4m3_row_column_bf16", "e4m3_row_vector", "special_scales_f32", "special_scales_f16"]
    {
        let case = case(path);
        let (weight, scale, dtype) = (&case.weight.data, &case.scale.data, case.scale_dtype());
        let (rows, cols) = (case.rows(), case.cols());
        case.check::<F32Out>(dequantize_per_channel_fp8::<F32Out>(weight, scale, rows, cols, dtype).unwrap());
        case.check::<F16Out>(dequantize_per_channel_fp8::<F16Out>(weight, scale, rows, cols, dtype).unwrap());
        case.check::<Bf16Out>(dequantize_per_channel_fp8_to_bf16(weight, scale, rows, cols, dtype).unwrap());
    }
}

#[test]
fn tensors_decode_to_the_bits_of_the_reference() {
    for path in ["e4m3_tensor_scalar", "e4m3_tensor_vector"] {
        let case = case(path);
        let (weight, scale) = (&case.weight.data, floats(&case.scale.data)[0]);
        case.check::<F32Out>(dequantize_per_tensor_fp8::<F32Out>(weight, scale).unwrap());
        case.check::<F16Out>(dequantize_per_tensor_fp8::<F16Out>(weight, scale).unwrap());
        case.check::<Bf16Out>(dequantize_per_tensor_fp8_to_bf16(weight, scale).unwrap());
    }
}

#[test]
fn more_columns_of_scales_than_needed_are_skipped() {
    // Three columns instead of one, and four instead of two; using a surplus one would change the result.
    let narrow = le_bytes(&[2.0, f32::NAN, f32::NAN, 3.0, f32::NAN, f32::NAN]);
    let values = floats(&dequantize_fp8::<F32Out>(&[0x38; 130 * 2], &narrow, 130, 2, Dtype::F32).unwrap());
    assert!(values[..256].iter().all(|&value| value == 2.0) && values[256..] == [3.0; 4]);
    let wide = le_bytes(&[2.0, 5.0, f32::NAN, f32::NAN]);
    let values = floats(&dequantize_fp8::<F32Out>(&[0x38; 2 * 130], &wide, 2, 130, Dtype::F32).unwrap());
    assert_eq!((values[127], values[128], values[257], values[258]), (2.0, 5.0, 2.0, 5.0));
}

#[test]
fn too_few_scales_are_refused() {
    let scales = le_bytes(&[1.0; 8]);
    for count in [0, 1, 3, 5] {
        let reason = parse_reason(
            dequantize_fp8::<F32Out>(&[0; 129 * 129], &scales[..count * 4], 129, 129, Dtype::F32).unwrap_err(),
        );
        assert_mentions(&reason, &[&format!("{count} scales"), "129x129"]);
    }
    for count in [0, 2, 4] {
        let scales = &scales[..count * 4];
        let reason = parse_reason(dequantize_per_channel_fp8::<F32Out>(&[0; 6], scales, 3, 2, Dtype::F32).unwrap_err());
        assert_mentions(&reason, &[&format!("{count} scales"), "3 rows"]);
    }
}

#[test]
fn weights_of_the_wrong_length_are_refused() {
    let scale = le_bytes(&[1.0; 4]);
    for (rows, cols) in [(2, 3), (3, 3), (0, 0), (5, 1), (4, usize::MAX), (usize::MAX, usize::MAX), (usize::MAX, 2)] {
        for result in [
            dequantize_fp8_to_bf16(&[0; 4], &scale, rows, cols, Dtype::F32),
            dequantize_per_channel_fp8_to_bf16(&[0; 4], &scale, rows, cols, Dtype::F32),
        ] {
            assert_mentions(&parse_reason(result.unwrap_err()), &["4 bytes", &rows.to_string()]);
        }
    }
}

#[test]
fn sizes_at_the_end_of_the_address_space_do_not_wrap() {
    let one = le_bytes(&[1.0]);
    let block = |scale: &[u8], rows, cols| dequantize_fp8::<F32Out>(&[], scale, rows, cols, Dtype::F32);
    let row = |scale: &[u8], rows, cols| dequantize_per_channel_fp8::<F32Out>(&[], scale, rows, cols, Dtype::F32);
    assert!(block(&[], usize::MAX, 0).unwrap().is_empty());
    assert!(row(&[], 0, usize::MAX).unwrap().is_empty());
    for refused in
        [block(&one, usize::MAX, 0), block(&[], 0, usize::MAX), row(&one, usize::MAX, 0), row(&[], usize::MAX, 0)]
    {
        assert_mentions(&parse_reason(refused.unwrap_err()), &[&usize::MAX.to_string(), "scales"]);
    }
}

#[test]
fn scales_of_other_types_or_in_part_are_refused() {
    for dtype in [Dtype::F64, Dtype::U8, Dtype::F8E4M3, Dtype::F8E8M0, Dtype::I32] {
        for result in [
            dequantize_fp8_to_bf16(&[0], &[0; 8], 1, 1, dtype),
            dequantize_per_channel_fp8_to_bf16(&[0], &[0; 8], 1, 1, dtype),
        ] {
            assert_mentions(&parse_reason(result.unwrap_err()), &[&dtype.to_string()]);
        }
    }
    for (dtype, bytes) in [(Dtype::F32, 5), (Dtype::F32, 2), (Dtype::BF16, 3), (Dtype::F16, 1)] {
        parse_reason(dequantize_fp8_to_bf16(&[0], &vec![0; bytes], 1, 1, dtype).unwrap_err());
        parse_reason(dequantize_per_channel_fp8_to_bf16(&[0], &vec![0; bytes], 1, 1, dtype).unwrap_err());
    }
}

#[test]
fn empty_slices_decode_to_empty_slices() {
    assert!(dequantize_fp8_to_bf16(&[], &[], 0, 0, Dtype::F32).unwrap().is_empty());
    assert!(dequantize_per_channel_fp8_to_bf16(&[], &[], 0, 7, Dtype::F32).unwrap().is_empty());
    assert!(dequantize_per_tensor_fp8_to_bf16(&[], 1.0).unwrap().is_empty());
}

#[test]
fn output_elements_round_as_the_reference_does() {
    let encode = Contents::read(fixture("codes/encode.safetensors"));
    let values = encode.floats("input");
    let check = |name: &str, dtype: &str, data: Vec<u8>| {
        let got = Tensor { dtype: dtype.into(), shape: vec![values.len()], data };
        assert_eq!(difference(&encode.tensors[name], &got), None, "{name}");
    };
    let mut out = vec![0; values.len() * 2];
    Bf16Out::write_scratch(&values, &mut out);
    check("to_bf16", "BF16", out.clone());
    check("to_bf16", "BF16", rounded(&values, anamnesis::TargetDtype::BF16));
    F16Out::write_scratch(&values, &mut out);
    check("to_f16", "F16", out);
    let mut out = vec![0; values.len() * 4];
    F32Out::write_scratch(&values, &mut out);
    check("input", "F32", out);
    assert_eq!((Bf16Out::BYTES, F16Out::BYTES, F32Out::BYTES), (2, 2, 4));
}
