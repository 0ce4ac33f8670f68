//! The searches of ggml for the scale of a sub-block.

/// Magnitudes below this count as nothing.
pub const NOTHING: f32 = 1e-15;

/// The nearest whole number, halves to even, as ggml finds it: from the lowest bits of a sum with a large number.
pub fn whole(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007F_FFFF) as i32 - 0x0040_0000
}

/// The bits of the nearest F16, and what they stand for.
pub fn to_half(value: f32) -> (u16, f32) {
    let half = half::f16::from_f32(value);
    (half.to_bits(), half.to_f32())
}

/// The value of the largest magnitude, the first of several, and that magnitude.
pub fn extreme(values: &[f32]) -> (f32, f32) {
    let (mut found, mut size) = (0.0, 0.0);
    for &value in values {
        if value.abs() > size {
            (found, size) = (value, value.abs());
        }
    }
    (found, size)
}

/// The sum of squares.
pub fn energy(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// What values weigh by their importance: more, the larger they are.
pub fn weigh(values: &[f32], importance: &[f32], variance: f32) -> Vec<f32> {
    values.iter().zip(importance).map(|(value, weight)| weight * (variance + value * value).sqrt()).collect()
}

/// Codes around zero: the scale with the least weighted error of nineteen that are tried, and the codes from zero on.
pub fn around(values: &[f32], weights: &[f32], half: i32) -> (f32, Vec<u8>) {
    let (extreme, size) = extreme(values);
    if size < NOTHING {
        return (0.0, vec![0; values.len()]);
    }
    let code = |inverse: f32, value: f32| whole(inverse * value).min(half - 1).max(-half);
    let sums = |inverse: f32| {
        let (mut products, mut squares) = (0.0, 0.0);
        for (&value, weight) in values.iter().zip(weights) {
            let code = code(inverse, value) as f32;
            products += weight * value * code;
            squares += weight * code * code;
        }
        (products, squares)
    };
    let mut kept = -half as f32 / extreme;
    let (products, squares) = sums(kept);
    let mut scale = if squares == 0.0 { 0.0 } else { products / squares };
    let mut best = scale * products;
    for step in (-9..=9).filter(|step| *step != 0) {
        let inverse = -(half as f32 + 0.1 * step as f32) / extreme;
        let (products, squares) = sums(inverse);
        if squares > 0.0 && products * products > best * squares {
            (kept, scale) = (inverse, products / squares);
            best = scale * products;
        }
    }
    (scale, values.iter().map(|&value| (half + code(kept, value)) as u8).collect())
}

/// Codes around zero, values weighing as their squares: those of one scale, each changed where that is better, five times over.
pub fn mended(values: &[f32], half: i32) -> (f32, Vec<u8>) {
    let (extreme, size) = extreme(values);
    if size < NOTHING {
        return (0.0, vec![0; values.len()]);
    }
    let limited = |code: i32| code.min(half - 1).max(-half);
    let inverse = -half as f32 / extreme;
    let mut codes: Vec<i32> = values.iter().map(|&value| limited(whole(inverse * value))).collect();
    let (mut products, mut squares) = (0.0, 0.0);
    for (&value, &code) in values.iter().zip(&codes) {
        products += value * value * value * code as f32;
        squares += value * value * code as f32 * code as f32;
    }
    for _ in 0..5 {
        let mut is_changed = false;
        for (&value, code) in values.iter().zip(&mut codes) {
            let (weight, old) = (value * value, *code as f32);
            let other_products = products - weight * value * old;
            if other_products > 0.0 {
                let other_squares = squares - weight * old * old;
                let changed = limited(whole(value * other_squares / other_products));
                let new_products = other_products + weight * value * changed as f32;
                let new_squares = other_squares + weight * changed as f32 * changed as f32;
                let is_better = new_products * new_products * squares > products * products * new_squares;
                if changed != *code && new_squares > 0.0 && is_better {
                    (*code, products, squares) = (changed, new_products, new_squares);
                    is_changed = true;
                }
            }
        }
        if !is_changed {
            break;
        }
    }
    let scale = if squares > 0.0 { products / squares } else { 0.0 };
    (scale, codes.iter().map(|code| (code + half) as u8).collect())
}

/// What [`above`] tries: the first step, how far it is to the next, how many there are, and how errors count.
#[derive(Clone, Copy)]
pub struct Tries {
    pub first: f32,
    pub step: f32,
    pub count: i32,
    pub by_size: bool,
}

/// What is tried where values have an importance.
pub const IMPORTANT: Tries = Tries { first: -0.9, step: 0.05, count: 36, by_size: false };

/// Codes above a minimum: scale, how far the minimum is below zero, and codes.
pub fn above(values: &[f32], weights: &[f32], top: i32, tries: Tries) -> (f32, f32, Vec<u8>) {
    let (mut low, mut high) = (values[0], values[0]);
    let (mut weight_sum, mut value_sum) = (weights[0], weights[0] * values[0]);
    for (&value, weight) in values.iter().zip(weights).skip(1) {
        low = if value < low { value } else { low };
        high = if value > high { value } else { high };
        weight_sum += weight;
        value_sum += weight * value;
    }
    low = if low > 0.0 { 0.0 } else { low };
    if high == low {
        return (0.0, -low, vec![0; values.len()]);
    }
    let codes_of = |inverse: f32, low: f32| -> Vec<u8> {
        values.iter().map(|&value| whole(inverse * (value - low)).min(top).max(0) as u8).collect()
    };
    let error_of = |codes: &[u8], scale: f32, low: f32| {
        let mut sum = 0.0;
        for ((&value, weight), &code) in values.iter().zip(weights).zip(codes) {
            let apart = scale * f32::from(code) + low - value;
            sum += weight * if tries.by_size { apart.abs() } else { apart * apart };
        }
        sum
    };
    let inverse = top as f32 / (high - low);
    let mut scale = 1.0 / inverse;
    let mut kept = codes_of(inverse, low);
    let mut best = error_of(&kept, scale, low);
    for number in 0..=tries.count {
        let codes = codes_of((tries.first + tries.step * number as f32 + top as f32) / (high - low), low);
        let (mut sum, mut squares, mut products) = (0.0, 0.0, 0.0);
        for ((&value, weight), &code) in values.iter().zip(weights).zip(&codes) {
            let code = f32::from(code);
            sum += weight * code;
            squares += weight * code * code;
            products += weight * code * value;
        }
        let spread = weight_sum * squares - sum * sum;
        if spread > 0.0 {
            let mut tried_scale = (weight_sum * products - value_sum * sum) / spread;
            let mut tried_low = (squares * value_sum - sum * products) / spread;
            if tried_low > 0.0 {
                (tried_scale, tried_low) = (products / squares, 0.0);
            }
            let error = error_of(&codes, tried_scale, tried_low);
            if error < best {
                (best, kept, scale, low) = (error, codes, tried_scale, tried_low);
            }
        }
    }
    (scale, -low, kept)
}

/// Codes of scales, which are not negative, and their scale: the best of nine, then codes changed where that is better.
pub fn of_scales(values: &[f32], weights: &[f32], top: i32) -> (f32, Vec<u8>) {
    let largest = values.iter().fold(0.0, |largest, &value| if largest > value { largest } else { value });
    if largest < NOTHING {
        return (0.0, vec![0; values.len()]);
    }
    let error_of = |codes: &[i32], scale: f32| {
        let mut sum = 0.0;
        for ((value, weight), &code) in values.iter().zip(weights).zip(codes) {
            let apart = value - scale * code as f32;
            sum += weight * apart * apart;
        }
        sum
    };
    let mut kept = top as f32 / largest;
    let codes: Vec<i32> = values.iter().map(|value| i32::from(whole(kept * value) as u8)).collect();
    let mut best = error_of(&codes, 1.0 / kept);
    for step in (-4..=4).filter(|step| *step != 0) {
        let inverse = (0.1 * step as f32 + top as f32) / largest;
        let codes: Vec<i32> = values.iter().map(|value| whole(inverse * value).min(top)).collect();
        let error = error_of(&codes, 1.0 / inverse);
        if error < best {
            (best, kept) = (error, inverse);
        }
    }
    let (mut products, mut squares) = (0.0, 0.0);
    let mut codes: Vec<u8> = Vec::new();
    for (value, weight) in values.iter().zip(weights) {
        let code = whole(kept * value).min(top);
        codes.push(code as u8);
        products += weight * value * code as f32;
        squares += weight * code as f32 * code as f32;
    }
    for _ in 0..5 {
        let mut is_changed = false;
        for ((value, weight), code) in values.iter().zip(weights).zip(&mut codes) {
            let old = f32::from(*code);
            let (other_products, other_squares) = (products - weight * value * old, squares - weight * old * old);
            if other_products > 0.0 && other_squares > 0.0 {
                let changed = whole(value * other_squares / other_products).min(top);
                let new_products = other_products + weight * value * changed as f32;
                let new_squares = other_squares + weight * changed as f32 * changed as f32;
                let is_better = new_products * new_products * squares > products * products * new_squares;
                if changed != i32::from(*code) && is_better {
                    (*code, products, squares) = (changed as u8, new_products, new_squares);
                    is_changed = true;
                }
            }
        }
        if !is_changed {
            break;
        }
    }
    (if squares > 0.0 { products / squares } else { 0.0 }, codes)
}
