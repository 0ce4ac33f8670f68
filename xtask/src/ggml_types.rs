//! `cargo xtask ggml-types`: compares the supported GGUF tensor types with those of the `gguf` package, which follows
//! ggml.

use std::process::Command;

use anamnesis::GgufType;

/// Prints the version of the package, then per type: id, name, elements and bytes per block.
const SCRIPT: &str = "\
import importlib.metadata
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
print(importlib.metadata.version('gguf'))
for kind in GGMLQuantizationType:
    print(kind.value, kind.name, *GGML_QUANT_SIZES.get(kind, (0, 0)))
";

/// Types whose size in the package is outdated: id, elements and bytes per block, and why.
const OUTDATED: [(TypeRow, &str); 1] = [((9, 32, 40), "the scale and the sum of a block are F16 in ggml")];

/// Id, elements per block, bytes per block.
type TypeRow = (u32, usize, usize);

/// A type of the package.
#[derive(Debug, PartialEq, Eq)]
struct PackageType {
    name: String,
    row: TypeRow,
}

pub(crate) fn run() -> Result<(), String> {
    let answer = run_script()?;
    let (version, theirs) = parse(&answer)?;
    let differences = differences(&theirs);
    for kind in GgufType::all().filter(|kind| theirs.iter().all(|other| other.row.0 != *kind as u32)) {
        println!("{kind} (id {}) is supported, but not in gguf {version}", kind as u32);
    }
    if differences.is_empty() {
        println!("all {} types of gguf {version} are supported", theirs.len());
        return Ok(());
    }
    Err(format!("gguf {version} has different types:\n  {}", differences.join("\n  ")))
}

/// Runs the script.
fn run_script() -> Result<String, String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(&python).args(["-c", SCRIPT]).output();
    let output = output.map_err(|error| format!("{python}: {error}; set PYTHON to another interpreter"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("No module named 'gguf'") {
        return Err(format!("{python} has no gguf package; `{python} -m pip install -U gguf` installs it"));
    }
    if !output.status.success() {
        return Err(format!("{python} failed:\n{stderr}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The version and the types of the package.
fn parse(text: &str) -> Result<(&str, Vec<PackageType>), String> {
    let mut lines = text.lines();
    let version = lines.next().ok_or("the gguf package printed nothing")?;
    let theirs = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, name, elements, bytes] = words[..] else { return None };
        let row = (id.parse().ok()?, elements.parse().ok()?, bytes.parse().ok()?);
        Some(PackageType { name: name.to_owned(), row })
    });
    let theirs = theirs.collect::<Option<Vec<_>>>().filter(|theirs| !theirs.is_empty());
    Ok((version, theirs.ok_or_else(|| format!("cannot parse the types of the gguf package:\n{text}"))?))
}

/// The types of the package that are not supported or differ.
fn differences(theirs: &[PackageType]) -> Vec<String> {
    let mut differences = Vec::new();
    for PackageType { name, row } in theirs {
        let (id, elements, bytes) = *row;
        let Some(ours) = GgufType::all().find(|kind| *kind as u32 == id) else {
            differences
                .push(format!("{name} (id {id}, blocks of {elements} elements, {bytes} bytes) is not supported"));
            continue;
        };
        let (our_elements, our_bytes) = (ours.block_size(), ours.type_size().unwrap_or(0));
        if let Some((_, why)) = OUTDATED.iter().find(|(outdated, _)| outdated == row) {
            println!("{name} has {bytes} bytes there and {our_bytes} here: {why}");
        } else if (ours.to_string(), our_elements, our_bytes) != (name.clone(), elements, bytes) {
            differences.push(format!(
                "id {id} is {name} with blocks of {elements} elements, {bytes} bytes; \
                 here it is {ours} with {our_elements} elements, {our_bytes} bytes"
            ));
        }
    }
    differences
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_missing_or_differ_are_listed() {
        let (version, theirs) = parse("1.2\n0 F32 1 4\n2 Q4_0 32 20\n9 Q8_1 32 40\n900 NEW 64 9\n").unwrap();
        assert_eq!(version, "1.2");
        let found = differences(&theirs);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("id 2 is Q4_0") && found[0].contains("20 bytes"), "{}", found[0]);
        assert!(found[1].contains("NEW (id 900") && found[1].contains("is not supported"), "{}", found[1]);
    }

    #[test]
    fn unexpected_output_is_an_error() {
        assert!(parse("").is_err() && parse("1.2\n").is_err() && parse("1.2\n0 F32 one 4\n").is_err());
    }
}
