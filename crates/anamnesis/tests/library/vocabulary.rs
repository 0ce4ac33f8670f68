//! One noun, one meaning: a type that is visible beyond its room does not share its name with those of two others, and none
//! shadows a name of the prelude.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::architecture::files;

/// Names that every module has in scope. An alias of `Result` for a crate's own error is usual.
const PRELUDE: [&str; 17] = [
    "Box", "Clone", "Copy", "Default", "Drop", "Eq", "Fn", "From", "Into", "Iterator", "Option", "Ord", "Send",
    "String", "Sync", "ToOwned", "Vec",
];

/// The type that a line declares for more than its own file.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub "))?;
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
    rest.split(|character: char| !character.is_alphanumeric() && character != '_').next()
}

/// The room of a file: its first folder, and in rooms that have one for each member, that folder.
fn room(source: &Path, file: &Path) -> String {
    let parts: Vec<_> = file.strip_prefix(source).unwrap().iter().map(|part| part.to_string_lossy()).collect();
    let depth = if matches!(parts[0].as_ref(), "scheme" | "container" | "architecture") { 2 } else { 1 };
    parts.iter().take(depth.min(parts.len() - 1)).map(AsRef::as_ref).collect::<Vec<&str>>().join("/")
}

#[test]
fn no_noun_has_three_meanings_and_none_is_taken_from_the_prelude() {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut taken = Vec::new();
    for name in ["anamnesis", "kernels", "cli"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        for (path, text) in files(&source) {
            for noun in text.lines().filter_map(declared) {
                if PRELUDE.contains(&noun) {
                    taken.push(format!("{noun} in {}", path.display()));
                }
                rooms.entry(noun.to_owned()).or_default().insert(format!("{name} {}", room(&source, &path)));
            }
        }
    }
    assert!(rooms.len() > 300, "only {} types were found", rooms.len());
    assert!(taken.is_empty(), "{taken:?}");
    let shared: Vec<_> = rooms.iter().filter(|(_, rooms)| rooms.len() > 2).collect();
    assert!(shared.is_empty(), "{shared:#?}");
}
