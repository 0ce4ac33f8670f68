//! The exponential of F32 as torch computes it on CPUs with AVX-512.
//!
//! torch calls `vmsExp` of MKL in its mode of high accuracy, which is wrong in the last place for 1 % of all numbers: the
//! result depends on its steps. The steps below give its bits for every F32 (measured with MKL 2024.2). MKL has other steps for
//! CPUs without AVX-512, whose results differ from these for 4 % (AVX2) or 2 % (SSE 4.2) of all numbers; files of llama.cpp's
//! converter are usually written with AVX-512.

use anamnesis_kernels::float::Fused;

/// The powers of 2 between 1 and 2, in steps of 1/32.
#[rustfmt::skip]
const POWERS: [u32; 32] = [
    0x3f80_0000, 0x3f82_cd87, 0x3f85_aac3, 0x3f88_980f, 0x3f8b_95c2, 0x3f8e_a43a, 0x3f91_c3d3, 0x3f94_f4f0,
    0x3f98_37f0, 0x3f9b_8d3a, 0x3f9e_f532, 0x3fa2_7043, 0x3fa5_fed7, 0x3fa9_a15b, 0x3fad_583f, 0x3fb1_23f6,
    0x3fb5_04f3, 0x3fb8_fbaf, 0x3fbd_08a4, 0x3fc1_2c4d, 0x3fc5_672a, 0x3fc9_b9be, 0x3fce_248c, 0x3fd2_a81e,
    0x3fd7_44fd, 0x3fdb_fbb8, 0x3fe0_ccdf, 0x3fe5_b907, 0x3fea_c0c7, 0x3fef_e4ba, 0x3ff5_257d, 0x3ffa_83b3,
];
/// The relative errors of [`POWERS`].
#[rustfmt::skip]
const ERRORS: [u32; 32] = [
    0x0000_0000, 0xb34a_3a0b, 0x3346_cb69, 0xb36e_d17f, 0xb24e_0611, 0xb351_7dda, 0x334b_2481, 0xb315_86de,
    0x3309_2801, 0xb2e6_f467, 0x331b_85f2, 0x3099_b6f1, 0xb305_1aa9, 0xb2e2_a0db, 0xb200_6c56, 0xb336_5942,
    0x3293_02ae, 0x32c5_95dc, 0xb302_e5a2, 0xb28e_10a1, 0x31b3_d0e5, 0xb31a_472c, 0x31d1_daf2, 0xb305_bf64,
    0xb27c_e183, 0xb2f2_6443, 0xb1b4_b0da, 0xb1da_8a8f, 0xb1d2_90be, 0xb2d5_b899, 0x31b0_a147, 0xb215_6afc,
];
const STEPS: i32 = POWERS.len() as i32;
/// ln 2 as the sum of two numbers.
const LN_2: [f32; 2] = [std::f32::consts::LN_2, -1.904_654_3e-9];
/// (exp(x) - 1 - x) / x² is about the first and x times the second.
const SERIES: [f32; 2] = [0.500_014_66, 0.166_671_56];
/// The logarithm of the largest power of 2 whose inverse is a normal number. Beyond it results are rounded once.
const LARGE: f32 = 87.336_54;

/// exp(x)
pub(super) fn exponential(value: f32) -> f32 {
    if value.is_nan() || value.abs() >= LARGE {
        return f64::from(value).exp() as f32;
    }
    let steps = (f64::from(value) * f64::from(std::f32::consts::LOG2_E) * f64::from(STEPS)).floor() as i32;
    let place = steps.rem_euclid(STEPS) as usize;
    let whole = steps as f32 / STEPS as f32;
    let rest = (-whole).fused(LN_2[1], (-whole).fused(LN_2[0], value));
    let series = SERIES[1].fused(rest, SERIES[0]);
    let (power, error) = (f32::from_bits(POWERS[place]), f32::from_bits(ERRORS[place]));
    let part = (rest * rest).fused(series, rest + error);
    power.fused(part, power) * 2f32.powi(steps.div_euclid(STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of numbers and of `torch.exp` of them, by torch 2.13 on x86-64 with AVX-512: numbers whose exponentials it
    /// does not round to the nearest F32, and the ends of the range.
    #[rustfmt::skip]
    const OF_TORCH: [(u32, u32); 24] = [
        (0x3f87_34dc, 0x4038_0baf), (0x3f8c_d175, 0x4040_4b41), (0x4094_5381, 0x42ce_187e), (0xc04e_d6f9, 0x3d21_b983),
        (0x3f9d_ef01, 0x405b_ce00), (0x4016_9bcf, 0x4128_5121), (0xc03c_d8d0, 0x3d56_39f0), (0x40a5_47bd, 0x432f_09e9),
        (0xbdc4_82cc, 0x3f68_93ec), (0x3fd4_b52f, 0x40a8_9901), (0xc0a6_6bac, 0x3bb4_a686), (0xc066_ba58, 0x3cde_b12a),
        (0x409a_5164, 0x42f8_88e4), (0xbfce_7fef, 0x3e4c_03cb), (0xc028_50e0, 0x3d93_a049), (0x406e_6b20, 0x4225_eeca),
        (0xc0b6_738a, 0x3b5a_ee06), (0xc05f_7c88, 0x3cf9_5eb6), (0xc074_8782, 0x3cb3_7e81), (0x40aa_3383, 0x434c_22e7),
        (0xbeba_4e9e, 0x3f31_e9cf), (0x40bf_aeb8, 0x43c7_b90f), (0xc0a0_eb32, 0x3bd6_8a4e), (0xc06e_715e, 0x3cc5_66ff),
    ];

    #[test]
    fn exponentials_are_those_of_torch() {
        for (value, wanted) in OF_TORCH {
            let found = exponential(f32::from_bits(value));
            assert_eq!(found.to_bits(), wanted, "exp({})", f32::from_bits(value));
            assert_ne!(found, f64::from(f32::from_bits(value)).exp() as f32);
        }
    }

    #[test]
    fn the_ends_of_the_range_are_exact() {
        assert_eq!(exponential(0.0), 1.0);
        assert_eq!(exponential(f32::from_bits(1)), 1.0);
        assert_eq!((exponential(89.0), exponential(-104.0)), (f32::INFINITY, 0.0));
        assert_eq!((exponential(f32::INFINITY), exponential(f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
        assert!(exponential(f32::NAN).is_nan());
        assert!(exponential(-87.336_53) >= f32::MIN_POSITIVE);
    }
}
