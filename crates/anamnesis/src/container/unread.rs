//! Formats of models that are known and not read, in one table.

use crate::error::{AnamnesisError, FileKind};

/// A format that is not read.
struct Unread {
    name: &'static str,
    /// Extensions without dots.
    extensions: &'static [&'static str],
    /// Bytes at an offset.
    magics: &'static [(usize, &'static [u8])],
    /// Files of a directory of this format.
    files: &'static [&'static str],
}

const UNREAD: [Unread; 8] = [
    Unread {
        name: "Orbax or zarr",
        extensions: &["ocdbt", "zarr"],
        magics: &[],
        files: &["_CHECKPOINT_METADATA", "manifest.ocdbt", ".zarray", ".zgroup", "zarr.json"],
    },
    Unread {
        name: "OpenVINO",
        extensions: &[],
        magics: &[(0, b"<?xml version=\"1.0\"?>\n<net "), (0, b"<net name="), (0, b"<?xml version=\"1.0\" ?>\n<net ")],
        files: &["openvino_model.xml", "openvino_model.bin"],
    },
    Unread {
        name: "Core ML",
        extensions: &["mlmodel", "mlpackage", "mlmodelc"],
        magics: &[],
        files: &["Manifest.json", "coremldata.bin"],
    },
    Unread { name: "ExecuTorch", extensions: &["pte", "ptd"], magics: &[(4, b"ET12"), (4, b"FT01")], files: &[] },
    Unread { name: "torch.export", extensions: &["pt2"], magics: &[], files: &[] },
    Unread {
        name: "Paddle",
        extensions: &["pdparams", "pdmodel", "pdiparams", "pdopt"],
        magics: &[],
        files: &["inference.pdiparams", "model_state.pdparams"],
    },
    // The magic number of a list of arrays, and zeros.
    Unread {
        name: "MXNet",
        extensions: &["params"],
        magics: &[(0, b"\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0")],
        files: &[],
    },
    Unread {
        name: "ggjt",
        extensions: &["ggjt", "ggml"],
        magics: &[(0, b"tjgg"), (0, b"fmgg"), (0, b"algg")],
        files: &[],
    },
];

fn refused(format: &Unread) -> AnamnesisError {
    let kind = FileKind::Unread(format.name);
    AnamnesisError::not_a_model(kind, format!("this is {kind}"))
}

/// The error for a file whose first bytes are those of a format that is not read.
pub(super) fn by_content(head: &[u8]) -> Option<AnamnesisError> {
    let begins = |(at, magic): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    UNREAD.iter().find(|format| format.magics.iter().any(begins)).map(refused)
}

/// The error for a file whose extension (lower case) is that of a format that is not read.
pub(super) fn by_extension(extension: &str) -> Option<AnamnesisError> {
    UNREAD.iter().find(|format| format.extensions.contains(&extension)).map(refused)
}

/// The error for a directory of this name that has files of a format that is not read.
pub(crate) fn unread_directory(name: &str, files: &[String]) -> Option<AnamnesisError> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let has_file = |format: &&Unread| format.files.iter().any(|known| files.iter().any(|file| file == known));
    by_extension(&extension.to_ascii_lowercase()).or_else(|| UNREAD.iter().find(has_file).map(refused))
}

#[cfg(test)]
mod tests {
    use super::super::registry::ALL;
    use super::*;

    #[test]
    fn no_format_is_both_read_and_refused() {
        for format in &UNREAD {
            for extension in format.extensions {
                assert!(ALL.iter().all(|about| !about.extensions.contains(extension)), "{extension}");
            }
            for (at, magic) in format.magics {
                let head = [&vec![0xff; *at][..], magic, &[0; 64]].concat();
                assert!(by_content(&head).is_some_and(|error| error.to_string().contains(format.name)));
            }
            for file in format.files {
                let error = unread_directory("model", &[(*file).to_owned()]).unwrap();
                assert!(error.to_string().contains(format.name), "{error}");
            }
        }
        assert!(unread_directory("model", &["config.json".to_owned()]).is_none());
        assert!(unread_directory("a.mlpackage", &[]).is_some());
    }
}
