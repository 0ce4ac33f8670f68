//! Weights given as slices: any lengths and sizes are decoded to exactly the values of the shape, or refused with a typed
//! error.

use anamnesis::lethe::gguf as blocks;
use anamnesis::{
    AnamnesisError, Bf16Out, BlockType, Dtype, F16Out, F32Out, FP4_CODEBOOK, GgufType, NF4_CODEBOOK, OutputElement,
    Result, dequantize_awq, dequantize_bnb_int8, dequantize_bnb4, dequantize_bnb4_double_quant, dequantize_fp8,
    dequantize_gguf, dequantize_gguf_blocks, dequantize_gptq, dequantize_nvfp4, dequantize_per_channel_fp8,
    dequantize_per_tensor_fp8, encode_bnb_int8, encode_bnb_int8_compute_scb, encode_bnb4, encode_bnb4_compute_absmax,
    encode_bnb4_double_quant,
};

use crate::input::Input;

const SCALES: [Dtype; 6] = [Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8E8M0, Dtype::F64, Dtype::I32];

/// A decoded weight has the bytes of its shape; an error is not an internal one.
fn held(result: Result<Vec<u8>>, elements: Option<usize>, bytes: usize) -> Option<Vec<u8>> {
    match result {
        Ok(values) => {
            assert_eq!(Some(values.len()), elements.and_then(|elements| elements.checked_mul(bytes)));
            Some(values)
        }
        Err(error) => {
            assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}");
            None
        }
    }
}

/// `with_output!(choice, E => body)`: the body with `E` as the type of the output.
macro_rules! with_output {
    ($choice:expr, $element:ident => $body:expr) => {
        match $choice % 3 {
            0 => {
                type $element = Bf16Out;
                $body
            }
            1 => {
                type $element = F16Out;
                $body
            }
            _ => {
                type $element = F32Out;
                $body
            }
        }
    };
}

/// FP8 in blocks, with a scale per row, or one of all.
pub fn fp8(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (kind, output, dtype) = (input.byte(), input.byte(), input.one(&SCALES));
    let (rows, cols, scales) = (input.size(), input.size(), input.below(64));
    let scale = input.bytes(scales);
    let weight = match kind & 4 {
        0 => input.bytes(rows.saturating_mul(cols)),
        _ => input.0,
    };
    with_output!(output, E => {
        let (result, elements) = match kind % 3 {
            0 => (dequantize_fp8::<E>(weight, scale, rows, cols, dtype), rows.checked_mul(cols)),
            1 => (dequantize_per_channel_fp8::<E>(weight, scale, rows, cols, dtype), rows.checked_mul(cols)),
            _ => (dequantize_per_tensor_fp8::<E>(weight, Input(scale).float()), Some(weight.len())),
        };
        held(result, elements, E::BYTES);
    });
}

/// GPTQ and AWQ.
pub fn packed(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (kind, output, dtype, bits) = (input.byte(), input.byte(), input.one(&SCALES), input.one(&[4, 8, 3, 0, 33]));
    let (mut inputs, mut outputs, mut group) = (input.size(), input.size(), input.size());
    // Most inputs have sizes that fit.
    let fits = kind & 4 == 0;
    if fits {
        (inputs, outputs) = (8 * (1 + inputs % 8), 8 * (1 + outputs % 4));
        group = [8, inputs, 0][group % 3];
    }
    let values = inputs.saturating_mul(outputs);
    let groups = inputs.checked_div(group).unwrap_or(1);
    let width = usize::from(bits);
    let size = |fitting: usize, input: &mut Input<'_>| if fits { fitting } else { input.below(256) };
    let scale_bytes =
        size(groups.saturating_mul(outputs).saturating_mul(if dtype == Dtype::F32 { 4 } else { 2 }), &mut input);
    let zero_bytes = size(groups.saturating_mul(outputs).saturating_mul(width) / 8, &mut input);
    let index_bytes = size(inputs.saturating_mul(4), &mut input);
    let mut padded = [0; 8192];
    let mut take = |count: usize| {
        let taken = input.bytes(count);
        if !fits || count > padded.len() {
            taken.to_vec()
        } else {
            padded[..count].fill(taken.first().copied().unwrap_or_default());
            padded[..taken.len()].copy_from_slice(taken);
            padded[..count].to_vec()
        }
    };
    let (scales, zeros, index) = (take(scale_bytes), take(zero_bytes), take(index_bytes));
    let weight = take(values.saturating_mul(width) / 8);
    let index = (kind & 2 == 0).then_some(&index[..]);
    with_output!(output, E => {
        let result = match kind % 2 {
            0 => dequantize_gptq::<E>(&weight, &scales, &zeros, index, inputs, outputs, group, bits, dtype),
            _ => dequantize_awq::<E>(&weight, &scales, &zeros, inputs, outputs, group, bits, dtype),
        };
        held(result, inputs.checked_mul(outputs), E::BYTES);
    });
}

/// BitsAndBytes, in both directions: encoding what was decoded with the same scales gives the same values again.
pub fn bnb(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (kind, output, block, nested_block) = (input.byte(), input.byte(), input.size(), input.size());
    let elements = if kind & 8 == 0 { 2 * input.below(64) } else { input.size() };
    let map = if kind & 16 == 0 { NF4_CODEBOOK } else { FP4_CODEBOOK };
    let map: Vec<u8> = map.iter().flat_map(|value| value.to_le_bytes()).collect();
    let blocks = elements.checked_div(block).unwrap_or(1);
    let absmax = input.bytes(blocks.saturating_mul(4));
    match kind % 4 {
        0 => {
            let weight = input.bytes(elements / 2);
            with_output!(output, E => {
                held(dequantize_bnb4::<E>(weight, absmax, &map, elements, block), Some(elements), E::BYTES);
            });
            let Ok(values) = dequantize_bnb4::<Bf16Out>(weight, absmax, &map, elements, block) else { return };
            let codes = encode_bnb4(&values, absmax, &map, elements, block).expect("decoded values are encoded");
            assert_eq!(codes.len(), weight.len());
            let again = dequantize_bnb4::<Bf16Out>(&codes, absmax, &map, elements, block).expect("and decoded again");
            let ordinary = absmax.as_chunks::<4>().0.iter().all(|scale| {
                let scale = f32::from_le_bytes(*scale);
                (1e-30..1e30).contains(&scale)
            });
            assert!(!ordinary || again == values, "values survive their own scales");
        }
        1 => {
            let nested_map: Vec<u8> = (0..256).flat_map(|code| (code as f32 / 127.0 - 1.0).to_le_bytes()).collect();
            let (codes, offset) = (input.bytes(blocks), input.float());
            let nested = input.bytes(4 * blocks.div_ceil(nested_block.max(1)).min(64));
            let weight = input.0;
            with_output!(output, E => {
                let result = dequantize_bnb4_double_quant::<E>(
                    weight, codes, &map, nested, &nested_map, offset, elements, block, nested_block,
                );
                held(result, Some(elements), E::BYTES);
            });
            let result = encode_bnb4_double_quant(
                weight,
                codes,
                &map,
                nested,
                &nested_map,
                offset,
                elements,
                block,
                nested_block,
            );
            held(result, elements.checked_div(2), 1);
        }
        2 => {
            let (rows, cols) = (blocks, block);
            let weight = input.bytes(rows.saturating_mul(cols));
            with_output!(output, E => {
                held(dequantize_bnb_int8::<E>(weight, absmax, rows, cols), rows.checked_mul(cols), E::BYTES);
            });
            let Ok(values) = dequantize_bnb_int8::<Bf16Out>(weight, absmax, rows, cols) else { return };
            let codes = encode_bnb_int8(&values, absmax, rows, cols).expect("decoded values are encoded");
            assert_eq!(codes.len(), weight.len());
        }
        _ => {
            let values = input.0;
            let count = if kind & 8 == 0 { values.len() / 2 } else { elements };
            if let Ok((codes, scales)) = encode_bnb4_compute_absmax(values, &map, count, block) {
                assert_eq!((codes.len(), scales.len()), (count / 2, 4 * count.checked_div(block).unwrap_or(0)));
            }
            let rows = count.checked_div(block).unwrap_or(0);
            if let Ok((codes, scales)) = encode_bnb_int8_compute_scb(values, rows, block) {
                assert_eq!((Some(codes.len()), scales.len()), (rows.checked_mul(block), 4 * rows));
            }
        }
    }
}

/// NVFP4.
pub fn nvfp4(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (kind, output, mut rows, mut cols, global) =
        (input.byte(), input.byte(), input.size(), input.size(), input.float());
    if kind & 1 == 0 {
        (rows, cols) = (rows % 8, 16 * (cols % 8));
    }
    let scales = input.bytes(rows.saturating_mul(cols) / 16);
    let weight = input.bytes(rows.saturating_mul(cols) / 2);
    with_output!(output, E => {
        held(dequantize_nvfp4::<E>(weight, scales, global, rows, cols), rows.checked_mul(cols), E::BYTES);
    });
}

/// Blocks of GGUF, at once and one by one, and encoded again.
pub fn gguf(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (kind, output, number) = (input.byte(), input.byte(), input.byte());
    let Some(dtype) = GgufType::all().nth(usize::from(number) % GgufType::all().len()) else { return };
    let size = dtype.type_size().unwrap_or(1);
    let data = &input.0[..input.0.len().min(4 * size)];
    let elements = match kind & 1 {
        0 => data.len() / size * dtype.block_size(),
        _ => input.size(),
    };
    let data = if kind & 2 == 0 { &data[..data.len() / size * size] } else { data };
    with_output!(output, E => {
        let whole = held(dequantize_gguf::<E>(data, dtype, elements), Some(elements), E::BYTES);
        let mut pieces = Vec::new();
        let streamed = dequantize_gguf_blocks::<E, _>(data, dtype, elements, |values| {
            pieces.extend_from_slice(values);
            Ok(())
        });
        assert_eq!(whole.is_some(), streamed.is_ok());
        assert!(whole.is_none_or(|whole| whole == pieces));
    });
    let Ok(values) = dequantize_gguf::<F32Out>(data, dtype, elements) else { return };
    let values: Vec<f32> = values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let Some(block) = BlockType::all().find(|block| block.name().eq_ignore_ascii_case(&dtype.to_string())) else {
        return;
    };
    let importance = vec![1.0; values.len()];
    if values.iter().all(|value| value.is_finite())
        && let Ok(encoded) = blocks::encode(block, &values, (kind & 4 > 0).then_some(&importance[..]))
    {
        assert_eq!(encoded.len(), data.len(), "{dtype}");
    }
}
