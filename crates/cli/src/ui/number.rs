//! Numbers in few characters.

/// A number with three significant digits: `0`, `-0.0312`, `1.23`, `123`, `1.23e-5`, `NaN`.
pub(crate) fn short(value: f64) -> String {
    digits(value, 3)
}

/// A number with some significant digits.
pub(crate) fn digits(value: f64, digits: usize) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if magnitude.is_infinite() {
        if value > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else if value == 0.0 {
        "0".to_owned()
    } else if (0.001..9999.5).contains(&magnitude) {
        let decimals = (digits as f64 - 1.0 - magnitude.log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.*e}", digits.saturating_sub(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1.00"),
            (-0.031_24, "-0.0312"),
            (0.001, "0.00100"),
            (0.000_12, "1.2e-4"),
            (123.4, "123"),
            (9999.0, "9999"),
            (123_456.0, "1.2e5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
