//! One noun, one meaning: no type visible beyond its room shares its name with those of two other rooms, and none
//! shadows the prelude.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::architecture::files;

/// Names of the prelude. An alias of `Result` for the error of a crate is usual.
const PRELUDE: [&str; 17] = [
    "Box", "Clone", "Copy", "Default", "Drop", "Eq", "Fn", "From", "Into", "Iterator", "Option", "Ord", "Send",
    "String", "Sync", "ToOwned", "Vec",
];

/// The type that a line declares with visibility beyond its file.
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
fn no_type_name_is_shared_by_three_rooms_or_shadows_the_prelude() {
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
