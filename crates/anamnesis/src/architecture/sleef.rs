//! Powers and softplus as torch computes them on CPUs with vector instructions.
//!
//! torch calls `Sleef_powf_u10` for whole vectors and the C library's `powf` for the values that are left. The former is right
//! to one unit in the last place, so that its bits have to be reproduced step by step: the logarithm and the exponential in
//! pairs of F32 whose sum is the value, with fused products. Only positive, finite bases and exponents from 0 to 1 occur.

use anamnesis_kernels::float::Fused;

/// Values that torch's loops over F32 take at once: two vectors of AVX-512.
const AT_ONCE: usize = 32;

/// `base ** exponents`, each as torch computes it in a list of this length.
pub(super) fn powers(base: f32, exponents: &[f32]) -> Vec<f32> {
    let in_vectors = exponents.len() / AT_ONCE * AT_ONCE;
    let power = |(place, &exponent): (usize, &f32)| match place < in_vectors {
        true => exponential(logarithm(base).times(exponent)),
        false => base.powf(exponent),
    };
    exponents.iter().enumerate().map(power).collect()
}

/// The values of a list of this length that torch computes in vectors, from the first on.
pub(super) const fn in_vectors(length: u64) -> u64 {
    length / AT_ONCE as u64 * AT_ONCE as u64
}

/// ln(1 + exp(x)), in vectors or by the C library; the value itself, if it is large.
pub(super) fn softplus(value: f32, is_in_vectors: bool) -> f32 {
    match is_in_vectors {
        _ if value > 20.0 => value,
        true => logarithm_of_next(single_exponential(value)),
        false => value.exp().ln_1p(),
    }
}

/// x / (1 + exp(-x)), in vectors or by the C library.
pub(super) fn silu(value: f32, is_in_vectors: bool) -> f32 {
    let exponential = if is_in_vectors { single_exponential(-value) } else { (-value).exp() };
    value / (1.0 + exponential)
}

/// `Sleef_expf_u10`.
fn single_exponential(value: f32) -> f32 {
    if value < -104.0 {
        return 0.0;
    }
    let whole = (value * std::f32::consts::LOG2_E).round_ties_even();
    let rest = whole.fused(-1.428_606_8e-6, whole.fused(-0.693_145_75, value));
    let series = [0.001_393_043_6f32, 0.008_333_361, 0.041_666_485, 0.166_666_67, 0.5];
    let series = series.into_iter().fold(0.000_198_527_62f32, |sum, term| sum.fused(rest, term));
    let sum = 1.0 + (rest * rest).fused(series, rest);
    let half = (whole / 2.0).floor();
    sum * 2f32.powi(half as i32) * 2f32.powi((whole - half) as i32)
}

/// `Sleef_log1pf_u10` of a positive number.
fn logarithm_of_next(value: f32) -> f32 {
    let scaled = (value + 1.0) * (1.0 / 0.75);
    let exponent = ((scaled.to_bits() >> 23) as i32 - 127) as f32;
    let power = 2f32.powi(-(exponent as i32));
    let mantissa = value.fused(power, power - 1.0);
    let two = 2.0 + mantissa;
    let ratio = Pair(mantissa, 0.0).over(Pair(two, 2.0 - two + mantissa));
    let square = ratio.0 * ratio.0;
    let series = 0.302_729_5f32.fused(square, 0.399_610_82).fused(square, 0.666_669_5);
    let whole = Pair(std::f32::consts::LN_2, -1.904_654_3e-9).times(exponent);
    let Pair(high, low) = whole.plus(Pair(ratio.0 * 2.0, ratio.1 * 2.0));
    let last = square * ratio.0 * series;
    let sum = high + last;
    sum + (high - sum + last + low)
}

/// A number as the sum of two, the second of which is what the first was rounded by.
#[derive(Debug, Clone, Copy)]
struct Pair(f32, f32);

impl Pair {
    /// The sum of two numbers of any order, exact.
    fn sum(a: f32, b: f32) -> Self {
        let high = a + b;
        let part = high - a;
        Self(high, (a - (high - part)) + (b - part))
    }

    fn plus_any(self, other: Self) -> Self {
        let Self(high, low) = Self::sum(self.0, other.0);
        Self(high, low + (self.1 + other.1))
    }

    fn plus_any_single(self, other: f32) -> Self {
        let Self(high, low) = Self::sum(self.0, other);
        Self(high, low + self.1)
    }

    /// The sum with a smaller one.
    fn plus(self, smaller: Self) -> Self {
        let high = self.0 + smaller.0;
        Self(high, self.0 - high + smaller.0 + self.1 + smaller.1)
    }

    fn times(self, other: f32) -> Self {
        let high = self.0 * other;
        Self(high, self.1.fused(other, self.0.fused(other, -high)))
    }

    fn times_pair(self, other: Self) -> Self {
        let high = self.0 * other.0;
        Self(high, self.0.fused(other.1, self.1.fused(other.0, self.0.fused(other.0, -high))))
    }

    fn squared(self) -> Self {
        let high = self.0 * self.0;
        Self(high, (self.0 + self.0).fused(self.1, self.0.fused(self.0, -high)))
    }

    fn over(self, other: Self) -> Self {
        let inverse = 1.0 / other.0;
        let high = self.0 * inverse;
        let rest = inverse.fused(self.0, -high);
        let of_inverse = (-other.1).fused(inverse, (-other.0).fused(inverse, 1.0));
        Self(high, high.fused(of_inverse, self.1.fused(inverse, rest)))
    }

    fn normalised(self) -> Self {
        let high = self.0 + self.1;
        Self(high, self.0 - high + self.1)
    }
}

/// The natural logarithm of a positive, normal number.
fn logarithm(value: f32) -> Pair {
    let scaled = value * (1.0 / 0.75);
    let exponent = (scaled.to_bits() >> 23) as i32 - 127;
    let mantissa = f32::from_bits(value.to_bits().wrapping_sub((exponent as u32) << 23));
    let ratio = Pair::sum(-1.0, mantissa).over(Pair::sum(1.0, mantissa));
    let square = ratio.squared();
    let series = 0.240_320_35f32.fused(square.0, 0.285_112_68).fused(square.0, 0.400_008);
    let third = Pair(0.666_666_6, 3.691_838_6e-9);
    let whole = Pair(std::f32::consts::LN_2, -1.904_654_3e-9).times(exponent as f32);
    let sum = whole.plus(Pair(ratio.0 * 2.0, ratio.1 * 2.0));
    sum.plus(square.times_pair(ratio).times_pair(square.times(series).plus_any(third)))
}

/// The exponential of a pair that is neither very large nor very small.
fn exponential(value: Pair) -> f32 {
    let whole = ((value.0 + value.1) * std::f32::consts::LOG2_E).round_ties_even();
    let rest = value.plus_any_single(whole * -0.693_145_75).plus_any_single(whole * -1.428_606_8e-6).normalised();
    let series = [0.008_365_969f32, 0.041_671_082, 0.166_665_52, 0.499_999_85];
    let series = series.into_iter().fold(0.001_363_246_5f32, |sum, term| sum.fused(rest.0, term));
    let sum = rest.plus(rest.squared().times(series));
    let one = 1.0 + sum.0;
    let value = one + (1.0 - one + sum.0 + sum.1);
    value * 2f32.powi(whole as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of `softplus((torch.arange(72) * 19 - 600) / 64)` by torch 2.13 on x86-64 with AVX-512. The last 8 are not in
    /// whole vectors, and too large to depend on the C library.
    #[test]
    fn softplus_is_that_of_torch() {
        let values = (0..72i16).map(|index| f32::from(index * 19 - 600) / 64.0);
        let found: Vec<u32> =
            values.enumerate().map(|(at, x)| softplus(x, (at as u64) < in_vectors(72)).to_bits()).collect();
        #[rustfmt::skip]
        let wanted = [
            951180932, 955209853, 958466242, 962113665, 965855711, 969157545, 973339336, 976327969,
            980348795, 983612528, 987250573, 990999706, 994289696, 998478620, 1001451058, 1005444429,
            1008719681, 1012316812, 1016079954, 1019307000, 1023514627, 1026388831, 1030208558, 1033531520,
            1036859672, 1040699592, 1043520699, 1047138911, 1050147460, 1053001317, 1056494517, 1058825164,
            1061286402, 1064114537, 1066324226, 1068077068, 1069974035, 1071994536, 1073929837, 1075033238,
            1076169864, 1077332514, 1078515295, 1079713496, 1080923421, 1082136321, 1082749051, 1083364285,
            1083981391, 1084599897, 1085219448, 1085839777, 1086460686, 1087082026, 1087703687, 1088325587,
            1088947665, 1089569874, 1090192182, 1090666802, 1090978019, 1091289257, 1091600509, 1091911773,
            1092223045, 1092534323, 1092845606, 1093156892, 1093468181, 1093779472, 1094090764, 1094402057,
        ];
        assert_eq!(found, wanted);
    }

    /// The bits of `10000.0 ** (torch.arange(0, 168, 2, dtype=torch.float32) / 168)` by torch 2.13 on x86-64 with AVX-512. The
    /// last 20 are not in whole vectors.
    #[test]
    fn powers_are_those_of_torch() {
        let exponents: Vec<f32> = (0..168u8).step_by(2).map(|index| f32::from(index) / 168.0).collect();
        let found: Vec<u32> = powers(10_000.0, &exponents).into_iter().map(f32::to_bits).collect();
        #[rustfmt::skip]
        let wanted = [
            1065353216, 1066325321, 1067410078, 1068620541, 1069971277, 1071478542, 1073160475, 1074389570,
            1075436739, 1076605258, 1077909189, 1079364226, 1080987878, 1082465059, 1083475942, 1084603970,
            1085862719, 1087267337, 1088834727, 1090551396, 1091527251, 1092616192, 1093831325, 1095187270,
            1096700350, 1098388768, 1099590250, 1100641456, 1101814484, 1103123443, 1104584093, 1106214005,
            1107664530, 1108679310, 1109811691, 1111075293, 1112485331, 1114058765, 1115749701, 1116729319,
            1117822461, 1119042278, 1120403456, 1121922373, 1123617307, 1124791060, 1125846324, 1127023876,
            1128337888, 1129804165, 1131440368, 1132864130, 1133882828, 1135019571, 1136288050, 1137703526,
            1139283033, 1140948129, 1141931528, 1143028887, 1144253412, 1145619833, 1147144608, 1148846080,
            1149992011, 1151051345, 1152233433, 1153552513, 1155024453, 1156666968, 1158063859, 1159086486,
            1160227619, 1161500991, 1162921920, 1164507519, 1166146688, 1167133880, 1168235466, 1169464714,
            1170836412, 1172367069, 1174075095, 1175193092,
        ];
        assert_eq!(found, wanted);
    }
}
