//! The mistakes that fast float code makes, one test each, at every level of this CPU.

#![allow(clippy::unwrap_used)]

use anamnesis_kernels::float::{bf16, f16};
use anamnesis_kernels::*;

/// Decodes one code often enough to fill groups, tables and a ragged end; all elements must agree.
fn product<F: Format8, O: Output<Word = u16>>(level: Level, code: u8, scale: f32) -> u16 {
    let mut words = Vec::new();
    for length in [1, 100, 1100] {
        let codes = vec![code; length];
        let mut out = vec![0; 2 * length];
        assert_eq!(scaled::<F, O>(level, &codes, scale, &mut out), out.len());
        words.extend(out.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)));
        assert_eq!(
            scaled_block_rows::<F, O>(
                level,
                &codes,
                &vec![scale; length.div_ceil(128)],
                128,
                length.div_ceil(5),
                &mut out
            ),
            out.len()
        );
        words.extend(out.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)));
    }
    // NaN is one value here, whatever its sign and payload.
    let is_nan =
        |word: &u16| if O::NAME == "bf16" { bf16::decode(*word).is_nan() } else { f16::decode(*word).is_nan() };
    words.dedup_by(|a, b| a == b || is_nan(a) && is_nan(b));
    assert_eq!(words.len(), 1, "{code:#04X} × {scale:e} at {level} depends on the place: {words:04X?}");
    words[0]
}

/// A power of two, through `f64` because `f32::powi` gives zero for subnormal ones.
fn two_to(exponent: i32) -> f32 {
    2f64.powi(exponent) as f32
}

#[test]
fn subnormal_fp8_codes_are_exact() {
    for level in Level::available() {
        // 2⁻⁹, the least E4M3, and 3 × 2⁻¹⁶, an E5M2 subnormal.
        assert_eq!(product::<E4m3, Bf16>(level, 0x01, 1.0), 0x3B00);
        assert_eq!(product::<E5m2, Bf16>(level, 0x83, 1.0), 0xB840);
        assert_eq!(product::<E5m2, F16>(level, 0x01, 1.0), 0x0100);
    }
}

#[test]
fn nan_scales_stay_nan() {
    for level in Level::available() {
        for bits in [0x7FC0_0000, 0x7F80_0001, 0xFFFF_FFFF, 0x7FFF_FFFF, 0xFF80_0001u32] {
            for code in [0x00, 0x38, 0x80, 0xB8, 0x7F] {
                assert!(bf16::decode(product::<E4m3, Bf16>(level, code, f32::from_bits(bits))).is_nan());
                assert!(f16::decode(product::<E4m3, F16>(level, code, f32::from_bits(bits))).is_nan());
            }
        }
    }
}

#[test]
fn nan_codes_stay_nan() {
    for level in Level::available() {
        for scale in [0.0, 1.0, -1e-30, 1e30, f32::INFINITY] {
            assert!(bf16::decode(product::<E4m3, Bf16>(level, 0x7F, scale)).is_nan());
            assert!(bf16::decode(product::<E4m3, Bf16>(level, 0xFF, scale)).is_nan());
            assert!(f16::decode(product::<E5m2, F16>(level, 0xFD, scale)).is_nan());
            assert!(bf16::decode(product::<E4m3Fnuz, Bf16>(level, 0x80, scale)).is_nan());
        }
    }
}

#[test]
fn infinity_times_zero_is_nan() {
    for level in Level::available() {
        assert!(bf16::decode(product::<E4m3, Bf16>(level, 0x00, f32::INFINITY)).is_nan());
        assert!(bf16::decode(product::<E5m2, Bf16>(level, 0xFC, 0.0)).is_nan());
    }
}

#[test]
fn negative_zero_is_kept() {
    for level in Level::available() {
        assert_eq!(product::<E4m3, Bf16>(level, 0x80, 2.0), 0x8000);
        assert_eq!(product::<E4m3, Bf16>(level, 0x80, -2.0), 0x0000);
        assert_eq!(product::<E4m3, F16>(level, 0x38, -0.0), 0x8000);
        assert_eq!(product::<E5m2, F16>(level, 0xB8, -0.0), 0x0000);
    }
}

#[test]
fn an_all_ones_nan_does_not_become_negative_zero() {
    for level in Level::available() {
        let mut out = [0; 2 * 33];
        assert_eq!(round_slice::<Bf16>(level, &[f32::from_bits(0x7FFF_FFFF); 33], &mut out), out.len());
        assert_eq!(out, [0xFF, 0x7F].repeat(33)[..]);
        assert_eq!(round_slice::<F16>(level, &[f32::from_bits(0xFFFF_FFFF); 33], &mut out), out.len());
        assert_eq!(out, [0xFF, 0xFF].repeat(33)[..]);
    }
}

#[test]
fn a_signalling_nan_does_not_become_infinity() {
    for level in Level::available() {
        let mut out = [0; 2 * 33];
        assert_eq!(round_slice::<Bf16>(level, &[f32::from_bits(0x7F80_0001); 33], &mut out), out.len());
        assert_eq!(out, [0xC0, 0x7F].repeat(33)[..]);
        assert_eq!(round_slice::<F16>(level, &[f32::from_bits(0x7F80_0001); 33], &mut out), out.len());
        assert_eq!(out, [0x00, 0x7E].repeat(33)[..]);
    }
}

#[test]
fn bf16_subnormals_are_not_flushed() {
    for level in Level::available() {
        // 2⁻¹²⁷ = 1 × 2⁻⁹ × 2⁻¹¹⁸ and the least BF16, 2⁻¹³³ = 2⁻⁹ × 2⁻¹²⁴.
        assert_eq!(product::<E4m3, Bf16>(level, 0x01, two_to(-118)), 0x0040);
        assert_eq!(product::<E4m3, Bf16>(level, 0x81, two_to(-124)), 0x8001);
        let mut out = [0; 2 * 33];
        assert_eq!(round_slice::<Bf16>(level, &[f32::from_bits(0x0001_8000); 33], &mut out), out.len());
        assert_eq!(out, [0x02, 0x00].repeat(33)[..]);
    }
}

#[test]
fn subnormal_products_are_rounded_to_nearest() {
    for level in Level::available() {
        // 3 × 2⁻⁹ × 2⁻¹⁴⁰ is an f32, 18.75 × 2⁻¹⁴⁹ is not.
        let mut out = [0; 4 * 33];
        assert_eq!(scaled::<E4m3, F32>(level, &[0x03; 33], two_to(-140), &mut out), out.len());
        assert_eq!(out, 3u32.to_le_bytes().repeat(33)[..]);
        assert_eq!(scaled::<E4m3, F32>(level, &[0x47; 33], f32::from_bits(5), &mut out), out.len());
        assert_eq!(out, 19u32.to_le_bytes().repeat(33)[..]);
        assert_eq!(product::<E4m3, Bf16>(level, 0x03, two_to(-140)), 0x0000);
    }
}

#[test]
fn large_scales_do_not_overflow_on_the_way() {
    for level in Level::available() {
        // 2⁻⁹ × 2¹²⁷ and 2 × 2¹²⁷.
        assert_eq!(product::<E4m3, Bf16>(level, 0x01, two_to(127)), 0x7A80);
        assert_eq!(product::<E4m3, Bf16>(level, 0x40, two_to(127)), 0x7F80);
        assert_eq!(product::<E4m3, Bf16>(level, 0x38, two_to(127)), 0x7F00);
    }
}

#[test]
fn f16_overflows_to_infinity_at_65520() {
    for level in Level::available() {
        let mut out = [0; 2 * 33];
        assert_eq!(round_slice::<F16>(level, &[65519.996; 33], &mut out), out.len());
        assert_eq!(out, [0xFF, 0x7B].repeat(33)[..]);
        assert_eq!(round_slice::<F16>(level, &[-65520.0; 33], &mut out), out.len());
        assert_eq!(out, [0x00, 0xFC].repeat(33)[..]);
    }
}
