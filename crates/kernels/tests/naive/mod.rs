//! Twins of the kernels, written from the formats' definitions, one element at a time and without any regard to speed.
//!
//! Values are calculated in `f64`, where every code of every format is exact; encoding searches all codes for the
//! nearest. BF16 and F16 rounding is that of the `half` crate.

#![allow(dead_code)]

pub mod encode;
pub mod packed;

use anamnesis_kernels::{Level, TopExponent, float};

/// How an eight-bit format lays out its bits and what it does at its ends.
struct Definition {
    mantissa_bits: u32,
    bias: i32,
    nan: fn(u8) -> bool,
    infinite: fn(u8) -> bool,
}

fn definition(format: &str) -> Definition {
    let never = |_| false;
    let negative_zero = |code| code == 0x80;
    match format {
        "e4m3" => Definition { mantissa_bits: 3, bias: 7, nan: |code| code & 0x7F == 0x7F, infinite: never },
        "e5m2" => Definition {
            mantissa_bits: 2,
            bias: 15,
            nan: |code| code & 0x7F > 0x7C,
            infinite: |code| code & 0x7F == 0x7C,
        },
        "e4m3fnuz" => Definition { mantissa_bits: 3, bias: 8, nan: negative_zero, infinite: never },
        "e5m2fnuz" => Definition { mantissa_bits: 2, bias: 16, nan: negative_zero, infinite: never },
        other => panic!("no definition of {other}"),
    }
}

/// The value of a code.
pub fn decode(format: &str, code: u8) -> f32 {
    if format == "e8m0" {
        return if code == 0xFF { f32::from_bits(0x7FC0_0000) } else { 2f64.powi(i32::from(code) - 127) as f32 };
    }
    let definition = definition(format);
    if (definition.nan)(code) {
        return match format {
            "e4m3" => f32::from_bits(u32::from(code & 0x80) << 24 | 0x7FF0_0000),
            "e5m2" => half::f16::from_bits(u16::from(code) << 8).to_f32(),
            _ => f32::from_bits(0x7FC0_0000),
        };
    }
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    if (definition.infinite)(code) {
        return sign * f32::INFINITY;
    }
    let exponent = i32::from(code & 0x7F) >> definition.mantissa_bits;
    let mantissa = f64::from(code & ((1 << definition.mantissa_bits) - 1)) / f64::from(1 << definition.mantissa_bits);
    let magnitude = if exponent == 0 {
        mantissa * 2f64.powi(1 - definition.bias)
    } else {
        (1.0 + mantissa) * 2f64.powi(exponent - definition.bias)
    };
    sign * magnitude as f32
}

/// The code nearest to a value, ties to the even code, found by trying all of them.
pub fn encode(format: &str, value: f32) -> u8 {
    if format == "e8m0" {
        return encode_e8m0(value);
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let unsigned_zero = format.ends_with("fnuz");
    if value.is_nan() {
        return if unsigned_zero { 0x80 } else { sign | 0x7F };
    }
    let finite = |code: &u8| decode(format, *code).is_finite();
    let largest = (0..=0x7Fu8).filter(finite).max().unwrap();
    let magnitude = f64::from(value).abs();
    // The end of the range lies half a step past the largest number; the tie belongs to the even neighbour, which for
    // all of these formats is the one outside.
    let step = f64::from(decode(format, largest)) - f64::from(decode(format, largest - 1));
    if magnitude >= f64::from(decode(format, largest)) + step / 2.0 {
        return match format {
            "e4m3" => sign | largest,
            "e5m2" => sign | 0x7C,
            _ => 0x80,
        };
    }
    let distance = |code: &u8| (f64::from(decode(format, *code)) - magnitude).abs();
    let code = (0..=0x7Fu8)
        .filter(finite)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))))
        .unwrap();
    if unsigned_zero && code == 0 { 0 } else { sign | code }
}

/// The nearest power of two; ties go up, and between 2^−127 and 2^−126 everything does.
fn encode_e8m0(value: f32) -> u8 {
    let magnitude = f64::from(value).abs();
    if !magnitude.is_finite() || magnitude >= 1.5 * 2f64.powi(127) {
        return 0xFF;
    }
    if magnitude <= 2f64.powi(-127) {
        return 0;
    }
    if magnitude < 2f64.powi(-126) {
        return 1;
    }
    (1..=254u8).rev().find(|code| magnitude >= 0.75 * 2f64.powi(i32::from(*code) - 127)).unwrap()
}

/// The bytes of one rounded value.
pub fn round(output: &str, value: f32) -> Vec<u8> {
    match output {
        "bf16" => half::bf16::from_f32(value).to_bits().to_le_bytes().to_vec(),
        "f16" => half::f16::from_f32(value).to_bits().to_le_bytes().to_vec(),
        "f32" => value.to_bits().to_le_bytes().to_vec(),
        other => panic!("no rounding to {other}"),
    }
}

/// A code's value under a scale: the code's NaN, unless the scale is NaN too.
pub fn scaled_value(value: f32, scale: f32) -> f32 {
    match (value.is_nan(), scale.is_nan()) {
        (true, false) => value,
        _ => arithmetic(value * scale),
    }
}

/// A result of arithmetic: every NaN is the one of ∞ × 0.
pub fn arithmetic(result: f32) -> f32 {
    if result.is_nan() { float::DEFAULT_NAN } else { result }
}

/// Rows of `cols` codes, column `j` times `scales[j / run]`; uncovered columns are not written.
pub fn scaled(format: &str, output: &str, codes: &[u8], scales: &[f32], run: usize, cols: usize, out: &mut [u8]) {
    let bytes = round(output, 0.0).len();
    for (i, code) in codes.iter().enumerate() {
        if let Some(scale) = scales.get(i % cols / run) {
            out[i * bytes..][..bytes].copy_from_slice(&round(output, scaled_value(decode(format, *code), *scale)));
        }
    }
}

/// E8M0 with either meaning of 255.
pub fn widen_e8m0(code: u8, top: TopExponent) -> f32 {
    match (code, top) {
        (0xFF, TopExponent::Infinity) => f32::INFINITY,
        _ => decode("e8m0", code),
    }
}

/// Whether two outputs agree: the same bits, NaN included.
pub fn same(_output: &str, found: &[u8], expected: &[u8]) -> bool {
    found == expected
}

/// Runs a kernel over two paints and holds the count it returns against the bytes that no longer differ.
pub fn assert_counted(bytes: usize, kernel: impl Fn(&mut [u8]) -> usize) {
    let (mut zeros, mut ones) = (vec![0; bytes], vec![0xFF; bytes]);
    let counts = (kernel(&mut zeros), kernel(&mut ones));
    let written = zeros.iter().zip(&ones).filter(|(zero, one)| zero == one).count();
    assert_eq!(counts, (written, written));
}

/// Levels are compared with each other by their bits, NaN included: a file does not depend on the CPU that writes it.
pub fn assert_same_bits(what: &str, width: usize, found: &[u8], portable: &[u8]) {
    let mut pairs = found.chunks(width).zip(portable.chunks(width)).enumerate();
    if let Some((i, (found, portable))) = pairs.find(|(_, (found, portable))| found != portable) {
        panic!("{what}, element {i}: {found:02X?}, portable {portable:02X?}");
    }
}

/// The numbers, with canonical NaNs, as kernels with an operand per element expect them.
pub fn canonical(level: Level, numbers: &[f32]) -> Vec<f32> {
    let mut numbers = numbers.to_vec();
    assert_eq!(anamnesis_kernels::canonical_nans(level, &mut numbers), numbers.len());
    numbers
}
