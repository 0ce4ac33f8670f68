//! Writing a `quant_state` as Python's `json.dumps` does.

use std::fmt::Write;

use super::super::nested::NESTED_BLOCK_SIZE;
use super::super::tables::QuantType;
use crate::catalog::TargetDtype;

/// The `quant_state` of a weight of `shape` and original type `dtype`; `nested_offset` is the mean of quantised scales.
pub(crate) fn quant_state_json(
    quant_type: QuantType,
    block_size: usize,
    dtype: TargetDtype,
    shape: &[usize],
    nested_offset: Option<f32>,
) -> String {
    let dtype = match dtype {
        TargetDtype::BF16 => "bfloat16",
        TargetDtype::F16 => "float16",
        TargetDtype::F32 => "float32",
    };
    let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let mut json = format!(
        r#"{{"quant_type": "{}", "blocksize": {block_size}, "dtype": "{dtype}", "shape": [{}]"#,
        quant_type.name(),
        shape.join(", ")
    );
    if let Some(offset) = nested_offset {
        json += &format!(r#", "nested_blocksize": {NESTED_BLOCK_SIZE}, "nested_dtype": "float32", "nested_offset": "#);
        json += &python_float(f64::from(offset));
    }
    json.push('}');
    json
}

/// A finite number as Python's `repr` writes it: the shortest digits that round-trip, with an exponent outside 1e-4 to
/// 1e16.
fn python_float(value: f64) -> String {
    let shortest = format!("{value:e}");
    // The same number of digits, but rounded half to even.
    let fraction_digits = shortest.find('e').unwrap_or(0).saturating_sub(2);
    let even = format!("{value:.fraction_digits$e}");
    let scientific = if even.parse() == Ok(value) { even } else { shortest };
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mut text = digits.to_owned();
        // Writing to a string cannot fail.
        let _ = write!(text, "e{sign}{:02}", exponent.abs());
        return text;
    }
    let decimals = usize::try_from(fraction_digits as i32 - exponent).unwrap_or(0).max(1);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        // The texts were printed by Python 3.11.
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.12850570678710938, "0.12850570678710938"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1e-05"),
            (1.2345e-7, "1.2345e-07"),
            (9.999999350456404e-39, "9.999999350456404e-39"),
            (123456.0, "123456.0"),
            (138.867_584_228_515_63, "138.86758422851562"),
            (120.0, "120.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (3.4028234663852886e38, "3.4028234663852886e+38"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }
}
