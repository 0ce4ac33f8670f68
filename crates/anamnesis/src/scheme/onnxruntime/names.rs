//! The names of decoded weights: those of the codes without the suffix that a quantiser appended.

/// Suffixes of codes; `#` stands for digits.
const SUFFIXES: [&str; 5] = ["_quantized", "_DQ_Q#", "_Q#G#", "_Q#", "_Bnb4"];
/// The last component of codes, and that of their weight.
const COMPONENT: (&str, &str) = (".qweight", ".weight");

/// The name of the weight of codes with this name.
pub(super) fn decoded(codes: &str) -> String {
    if let Some(module) = codes.strip_suffix(COMPONENT.0) {
        return format!("{module}{}", COMPONENT.1);
    }
    let without = SUFFIXES.iter().find_map(|suffix| without_suffix(codes, suffix));
    without.filter(|name| !name.is_empty()).unwrap_or(codes).to_owned()
}

/// `name` without a suffix.
fn without_suffix<'n>(name: &'n str, suffix: &str) -> Option<&'n str> {
    let mut rest = name;
    let mut pieces = suffix.split('#').rev();
    rest = rest.strip_suffix(pieces.next()?)?;
    for piece in pieces {
        let digits = rest.trim_end_matches(|character: char| character.is_ascii_digit());
        if digits.len() == rest.len() {
            return None;
        }
        rest = digits.strip_suffix(piece)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_suffix_is_removed() {
        for (codes, weight) in [
            ("w_quantized", "w"),
            ("w_DQ_Q4", "w"),
            ("w_Q4", "w"),
            ("w_Q4G32", "w"),
            ("w_Bnb4", "w"),
            ("a.qweight", "a.weight"),
            ("w_quantized_quantized", "w_quantized"),
            ("w_Q", "w_Q"),
            ("w_Q4G", "w_Q4G"),
            ("_quantized", "_quantized"),
            ("w", "w"),
        ] {
            assert_eq!(decoded(codes), weight, "{codes}");
        }
    }
}
