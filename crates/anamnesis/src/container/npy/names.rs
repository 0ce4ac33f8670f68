//! Names of arrays, which are names of files to whoever unpacks an archive.

use crate::error::quoted;

/// Why a name would lead somewhere else than below the folder it is unpacked into, where it would: on any system, as nobody
/// knows where that will be.
pub(super) fn leaves_folder(name: &str) -> Option<String> {
    let is_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let why = if name.contains('\0') {
        "has a NUL in it"
    } else if name.contains('\\') {
        "has a backslash in it, which parts folders on some systems"
    } else if name.starts_with('/') {
        "begins at the root of a file system"
    } else if is_drive {
        "begins with the letter of a drive"
    } else if name.split('/').any(|part| part == "..") {
        "leaves its folder"
    } else {
        return None;
    };
    Some(format!("the name {} {why}", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder_on_every_system() {
        for name in ["../a", "a/../../b", "a/..", "/a", "\\\\server\\a", "a\\..\\b", "C:a", "c:/a", "a\0b", ".."] {
            assert!(leaves_folder(name).is_some(), "{name:?}");
        }
        for name in ["a", "a/b", "a.b..c", "..a", "a../b", "layer:0", "model.1:weight", "a/./b"] {
            assert_eq!(leaves_folder(name), None, "{name:?}");
        }
    }
}
