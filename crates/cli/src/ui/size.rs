//! Sizes in bytes, for input and output: KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB powers of 1024.

/// Units of printed sizes, each 1000 times the previous one.
const PRINTED: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];

/// Formats a size with three significant digits: `999 B`, `4.77 MB`, `12.0 GB`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in PRINTED {
        // 999.5 would round to four digits.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Units of printed counts, each 1000 times the previous one.
const COUNTED: [&str; 6] = ["K", "M", "B", "T", "Qa", "Qi"];

/// Formats a count with three significant digits: `999`, `4.77 M`, `8.03 B`.
pub(crate) fn count(count: u64) -> String {
    let text = size(count);
    let unit = PRINTED.iter().zip(COUNTED).find_map(|(unit, name)| Some((text.strip_suffix(unit)?, name)));
    match unit {
        Some((number, name)) => format!("{number}{name}"),
        None => count.to_string(),
    }
}

/// Bytes per unit, by its name in lower case.
const TYPED: [(&str, u64); 14] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

/// Maximum decimal places of a size.
const MAX_DECIMALS: usize = 12;

/// Parses `500MB`, `2.2 GB`, `5G`, `4GiB`, or bytes; a single letter is a decimal unit. Fractions of a byte are
/// truncated.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let parsed = TYPED.iter().find_map(|(unit, bytes)| {
        let number = lower.strip_suffix(unit)?.trim_end();
        number.ends_with(|last: char| last.is_ascii_digit()).then(|| scaled(number, *bytes)).flatten()
    });
    parsed.filter(|&bytes| bytes > 0).ok_or_else(|| {
        "a size is a number of bytes, or one with KB, MB, GB, TB or KiB, MiB, GiB, TiB, like 5GB, 2.2MB or 512MiB"
            .into()
    })
}

/// `number` times `unit`, exactly; `None` if it is not a decimal number, or too large.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > MAX_DECIMALS {
        return None;
    }
    let power = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()? * u128::from(unit) / power;
    let bytes = u128::from(whole.parse::<u64>().ok()?).checked_mul(u128::from(unit))?.checked_add(part)?;
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_with_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 KB"),
            (1_536, "1.54 KB"),
            (9_994, "9.99 KB"),
            (9_995, "10.0 KB"),
            (99_949, "99.9 KB"),
            (99_950, "100 KB"),
            (999_499, "999 KB"),
            (999_500, "1.00 MB"),
            (4_770_000, "4.77 MB"),
            (4_670_885_068, "4.67 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn counts_have_letters_for_their_thousands() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1.00 K"), (8_030_261_248, "8.03 B"), (u64::MAX, "18.4 Qi")]
        {
            assert_eq!(count(number), text, "{number}");
        }
    }

    #[test]
    fn sizes_are_read_with_decimal_and_binary_units_and_fractions() {
        let cases = [
            ("1", 1),
            ("4096", 4096),
            ("12 B", 12),
            ("500MB", 500_000_000),
            ("5GB", 5_000_000_000),
            ("5 gb", 5_000_000_000),
            ("4GiB", 4 << 30),
            ("2KiB", 2048),
            ("5G", 5_000_000_000),
            ("2k", 2_000),
            ("3 M", 3_000_000),
            ("1T", 1_000_000_000_000),
            ("2.2MB", 2_200_000),
            ("0.5GiB", 1 << 29),
            ("1.5k", 1_500),
            ("2.0005KB", 2_000),
            ("8.333333333333GB", 8_333_333_333),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        let wrong = ["", "0", "0.0", "GB", "G", "5Gi", "-1", "+1", "5GBB", "99999999999TB", "99999999999999999999"];
        for text in wrong.into_iter().chain(["5 5", "1.", ".5", "1.5.5", "1e3", "1,5GB", "inf", "0.1", "NaN"]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printed_sizes_can_be_parsed() {
        for bytes in [1, 999, 1_234, 56_789, 987_654_321, 12_300_000_000] {
            let typed = parse(&size(bytes)).unwrap();
            assert!(typed.abs_diff(bytes) * 200 <= bytes, "{bytes} {typed}");
        }
    }
}
