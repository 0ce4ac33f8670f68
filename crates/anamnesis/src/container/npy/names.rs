//! Array names as file paths: an archive may be unpacked into a folder.

use crate::error::quoted;

/// Why a name is unsafe as a file path below a folder, on any system.
pub(super) fn unsafe_path_reason(name: &str) -> Option<String> {
    let is_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let why = if name.contains('\0') {
        "contains a NUL"
    } else if name.contains('\\') {
        "contains a backslash, a path separator on some systems"
    } else if name.starts_with('/') {
        "is an absolute path"
    } else if is_drive {
        "starts with a drive letter"
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
            assert!(unsafe_path_reason(name).is_some(), "{name:?}");
        }
        for name in ["a", "a/b", "a.b..c", "..a", "a../b", "layer:0", "model.1:weight", "a/./b"] {
            assert_eq!(unsafe_path_reason(name), None, "{name:?}");
        }
    }
}
