//! Twins of the encoding kernels.

/// The code of a quotient: the entry with the same bits, else the first of those that are nearest; a negative quotient takes
/// the upper of two equal entries.
pub fn nearest(quotient: f32, map: &[f32; 16]) -> u8 {
    let same = (0..16).find(|&code| map[code].to_bits() == quotient.to_bits());
    let mut code = same.unwrap_or(0);
    if same.is_none() {
        let mut least = f32::INFINITY;
        for (candidate, entry) in map.iter().enumerate() {
            if (quotient - entry).abs() < least {
                least = (quotient - entry).abs();
                code = candidate;
            }
        }
    }
    if quotient.is_sign_negative() && code < 8 && map[code].to_bits() == map[code + 8].to_bits() {
        code += 8;
    }
    code as u8
}

/// The code of a quotient by limits: how many are not at or above it.
pub fn counted(quotient: f32, limits: &[f32; 15], codes: &[u8; 16]) -> u8 {
    codes[limits.iter().filter(|&&limit| !matches!(quotient.partial_cmp(&limit), Some(order) if order.is_le())).count()]
}

/// Two codes per byte, the first in the high nibble.
pub fn packed(codes: &[u8], last: u8) -> Vec<u8> {
    codes.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(last)).collect()
}

/// A value's steps, halves away from zero.
pub fn steps_away(value: f32, scale: f32) -> u8 {
    let step = scale / 127.0;
    if step == 0.0 {
        return 0;
    }
    // Not by `round`, which MinGW's library gets wrong below one half. The sum is exact in f64, and the cast truncates.
    let steps = f64::from(value / step);
    ((steps + 0.5f64.copysign(steps)) as i8).cast_unsigned()
}

/// A value's steps, halves to even.
pub fn steps_to_even(value: f32, scale: f32) -> u8 {
    (value * ((1.0 / scale) * 127.0)).round_ties_even().clamp(-128.0, 127.0) as i8 as u8
}

/// The largest magnitude, where NaN is larger than everything or counts for nothing.
pub fn largest(values: &[f32], with_nan: bool) -> f32 {
    if with_nan && values.iter().any(|value| value.is_nan()) {
        return f32::NAN;
    }
    values.iter().filter(|value| !value.is_nan()).fold(0.0, |largest, value| value.abs().max(largest))
}
