//! The functions of an assembly file, and the kernels that their symbols name.

use super::dialect::Level;

/// One function of an assembly file.
pub(super) struct Function<'a> {
    pub(super) symbol: &'a str,
    pub(super) lines: Vec<&'a str>,
}

/// Splits an assembly file into its functions.
pub(super) fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let label = line.strip_suffix(':').filter(|label| !label.starts_with([' ', '\t', '.', 'L']));
        if let Some(symbol) = label {
            functions.push(Function { symbol, lines: Vec::new() });
            inside = true;
        } else if line.trim_start().starts_with(".cfi_endproc") {
            inside = false;
        } else if let Some(function) = functions.last_mut().filter(|_| inside) {
            function.lines.push(line.trim());
        }
    }
    functions
}

/// The kernel and level of a symbol: its path up to the name of a level, then its type arguments.
pub(super) fn stamped_name(symbol: &str) -> Option<(String, Level)> {
    let names = identifiers(symbol.trim_start_matches('_').strip_prefix('R')?);
    let (position, level) = names.iter().enumerate().find_map(|(i, name)| Some((i, Level::named(name)?)))?;
    if names.first() != Some(&"anamnesis_kernels") {
        return None;
    }
    let types: Vec<_> =
        names[position..].iter().copied().filter(|name| name.starts_with(|c: char| c.is_uppercase())).collect();
    let path = names[1..position].join("::");
    Some((if types.is_empty() { path } else { format!("{path}::<{}>", types.join(", ")) }, level))
}

/// The identifiers of a mangled (v0) symbol, in order. Back references are skipped.
fn identifiers(mut mangled: &str) -> Vec<&str> {
    let mut names = Vec::new();
    while let Some(first) = mangled.chars().next() {
        if first.is_ascii_digit() {
            let digits = mangled.find(|c: char| !c.is_ascii_digit()).unwrap_or(mangled.len());
            let (length, rest) = mangled.split_at(digits);
            let rest = rest.strip_prefix('_').unwrap_or(rest);
            let Some((name, rest)) = length.parse().ok().and_then(|length| rest.split_at_checked(length)) else {
                break;
            };
            names.push(name);
            mangled = rest;
        } else if first == 'B' || first == 's' {
            // A back reference or a disambiguator: base-62 digits up to an underscore.
            mangled = mangled.split_once('_').map_or("", |(_, rest)| rest);
        } else {
            mangled = mangled.get(first.len_utf8()..).unwrap_or("");
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_contains_kernel_types_and_level() {
        let symbol = "_RINvNvNtCse1GA2XgrMUQ_17anamnesis_kernels6scaled6scaled2v3NtNtNtB6_5float4e4m34E4m3NtNtB6_6output4Bf16ECsBOR9aAJbdW_7stamped";
        assert_eq!(stamped_name(symbol), Some(("scaled::scaled::<E4m3, Bf16>".into(), Level::V3)));
        assert_eq!(stamped_name("_RNvNtCse1GA2XgrMUQ_17anamnesis_kernels6scaled6scaled"), None);
    }
}
