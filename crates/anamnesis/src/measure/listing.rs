//! Hashes as text, and their comparison with a model.
//!
//! ```text
//! anamnesis-hash 1 stored
//! 5e0f…  BF16 [4096,4096] "model.layers.0.mlp.up_proj.weight"
//! 97c2…  BF16 [4096] "model.norm.weight"
//! 8d11…  model
//! ```
//!
//! The first line has the version of the format and the form: `stored`, `decoded-f32`, `decoded-bf16` or `decoded-f16`.
//! Every tensor has one line, sorted by the bytes of its name: SHA-256 in hexadecimal, two spaces, type, shape and name,
//! the last two in JSON without spaces. Control characters, line separators and marks of direction in names are written as
//! `\uXXXX`. The last line has the SHA-256 of all lines before it, each with its newline.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use super::hash::{HashForm, ModelHash, Sha256Digest, TensorHash};
use crate::catalog::{BlockType, Dtype, TargetDtype};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::sha256;

/// The start of the first line.
const MAGIC: &str = "anamnesis-hash 1 ";
/// The end of the last line.
const WHOLE: &str = "  model";

/// The names of all forms.
const FORMS: [(&str, HashForm); 4] = [
    ("stored", HashForm::Stored),
    ("decoded-f32", HashForm::Decoded(TargetDtype::F32)),
    ("decoded-bf16", HashForm::Decoded(TargetDtype::BF16)),
    ("decoded-f16", HashForm::Decoded(TargetDtype::F16)),
];

impl fmt::Display for HashForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(FORMS.iter().find(|(_, form)| form == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for TensorHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, dtype, shape, sha256 } = self;
        let lengths = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        write!(f, "{sha256}  {dtype} [{lengths}] ")?;
        for character in serde_json::Value::from(name.as_str()).to_string().chars() {
            match is_invisible(character) {
                true => write!(f, "\\u{:04x}", u32::from(character))?,
                false => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        writeln!(f, "{lines}{}{WHOLE}", sha256(lines.as_bytes()))
    }
}

/// Control characters, line separators and marks of direction, which are escaped in names.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A tensor whose hash is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashDifference {
    /// It is not in the model.
    Missing(String),
    /// It is not among the expected ones.
    Unexpected(String),
    /// Its bytes, its type or its shape differ.
    Changed {
        /// The expected hash.
        expected: TensorHash,
        /// The hash of the model.
        found: TensorHash,
    },
}

impl ModelHash {
    /// All lines but the last.
    pub(super) fn lines(&self) -> String {
        let mut lines = format!("{MAGIC}{}\n", self.form);
        for tensor in &self.tensors {
            lines += &tensor.to_string();
            lines.push('\n');
        }
        lines
    }

    /// Reads the text form.
    ///
    /// ```
    /// use anamnesis::ModelHash;
    /// let hash = ModelHash::parse("anamnesis-hash 1 stored\n3df2\n");
    /// assert!(hash.is_err());
    /// ```
    ///
    /// # Errors
    /// `Parse` if it is malformed, or if its last line is not the hash of the others.
    pub fn parse(text: &str) -> Result<Self> {
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        let form = first.trim_end_matches(['\r', '\n']).strip_prefix(MAGIC);
        let form = form.and_then(|name| FORMS.iter().find(|(known, _)| *known == name)).map(|(_, form)| *form);
        let form = form.ok_or_else(|| malformed(1, "is not the first line of hashes"))?;
        let (mut tensors, mut whole): (Vec<TensorHash>, Option<&str>) = (Vec::new(), None);
        for (number, line) in (2..).zip(text[first.len()..].split_inclusive('\n')) {
            let content = line.trim_end_matches(['\r', '\n']);
            if whole.is_some() {
                return Err(malformed(number, "follows the hash of the whole"));
            }
            if let Some(digits) = content.strip_suffix(WHOLE) {
                whole = Some(digits);
                continue;
            }
            let tensor = parse_line(content).ok_or_else(|| malformed(number, "is not the hash of a tensor"))?;
            if tensors.last().is_some_and(|last| last.name >= tensor.name) {
                return Err(malformed(number, "is not in order of name"));
            }
            tensors.push(tensor);
        }
        let hash = Self { form, tensors };
        match whole {
            Some(digits) if digits.eq_ignore_ascii_case(&hash.sha256()) => Ok(hash),
            Some(_) => Err(AnamnesisError::parse("the last line is not the SHA-256 of the lines before it")),
            None => Err(AnamnesisError::parse("the hash of the whole is missing: the last line is cut off")),
        }
    }

    /// The differences between these expected hashes and those of a model, in order of name.
    #[must_use]
    pub fn differences(&self, model: &Self) -> Vec<HashDifference> {
        let mut differences = Vec::new();
        let (mut expected, mut found) = (self.tensors.iter().peekable(), model.tensors.iter().peekable());
        loop {
            let order = match (expected.peek(), found.peek()) {
                (None, None) => return differences,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(expected), Some(found)) => expected.name.cmp(&found.name),
            };
            let expected = if order.is_le() { expected.next() } else { None };
            let found = if order.is_ge() { found.next() } else { None };
            match (expected, found) {
                (Some(expected), Some(found)) if expected != found => {
                    let (expected, found) = (expected.clone(), found.clone());
                    differences.push(HashDifference::Changed { expected, found });
                }
                (Some(_), Some(_)) | (None, None) => {}
                (Some(expected), None) => differences.push(HashDifference::Missing(expected.name.clone())),
                (None, Some(found)) => differences.push(HashDifference::Unexpected(found.name.clone())),
            }
        }
    }
}

impl fmt::Display for HashDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "tensor {} is missing", quoted(name)),
            Self::Unexpected(name) => write!(f, "tensor {} is not among the expected ones", quoted(name)),
            Self::Changed { expected, found } => {
                write!(f, "tensor {}: ", quoted(&found.name))?;
                match (expected.dtype == found.dtype, expected.shape == found.shape) {
                    (false, _) => write!(f, "its type is {}, {} was expected", found.dtype, expected.dtype),
                    (_, false) => write!(f, "its shape is {:?}, {:?} was expected", found.shape, expected.shape),
                    _ => write!(f, "its SHA-256 is {}, {} was expected", found.sha256, expected.sha256),
                }
            }
        }
    }
}

fn malformed(line: usize, why: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("line {line} {why}"))
}

/// A line of one tensor.
fn parse_line(line: &str) -> Option<TensorHash> {
    let (digits, rest) = line.split_once("  ")?;
    let (dtype, rest) = rest.split_once(' ')?;
    let (shape, name) = rest.strip_prefix('[')?.split_once("] ")?;
    let lengths = shape.split(',').filter(|_| !shape.is_empty());
    Some(TensorHash {
        name: serde_json::from_str(name).ok()?,
        dtype: parse_dtype(dtype)?,
        shape: lengths.map(|length| length.parse().ok()).collect::<Option<_>>()?,
        sha256: parse_digest(digits)?,
    })
}

fn parse_dtype(name: &str) -> Option<Dtype> {
    let block = || BlockType::all().find(|block| block.name() == name).map(Dtype::Block);
    Dtype::from_name(name).or_else(block)
}

fn parse_digest(digits: &str) -> Option<Sha256Digest> {
    let mut digest = [0; 32];
    let pairs = digits.as_bytes().as_chunks::<2>().0;
    if digits.len() != 64 || pairs.len() != digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    Some(Sha256Digest(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ModelHash {
        let tensor = |name: &str, shape: &[usize]| TensorHash {
            name: name.to_owned(),
            dtype: Dtype::BF16,
            shape: shape.to_vec(),
            sha256: Sha256Digest([0xab; 32]),
        };
        let mut blocks = tensor("blocks", &[256]);
        blocks.dtype = Dtype::Block(BlockType::Q4_K);
        let tensors =
            vec![tensor("a \"quoted\"\nname", &[2, 3]), blocks, tensor("scalar", &[]), tensor("ß\u{202e}\u{9b}", &[0])];
        ModelHash { form: HashForm::Decoded(TargetDtype::F16), tensors }
    }

    #[test]
    fn text_is_read_as_it_is_written() {
        let text = example().to_string();
        assert_eq!(text.lines().count(), 6);
        assert!(text.contains(r#""ß\u202e\u009b""#) && text.chars().all(|c| c == '\n' || !is_invisible(c)), "{text}");
        assert_eq!(ModelHash::parse(&text).unwrap(), example());
        assert_eq!(ModelHash::parse(&text.replace('\n', "\r\n")).unwrap(), example());
    }

    #[test]
    fn altered_text_is_refused() {
        let text = example().to_string();
        let without_line = |skip: usize| -> String {
            text.split_inclusive('\n').enumerate().filter(|(index, _)| *index != skip).map(|(_, line)| line).collect()
        };
        for bad in [
            String::new(),
            text.replace("abab", "cdcd"),
            text.replace("hash 1", "hash 2"),
            text.replace("[2,3]", "[3,2]"),
            text.replace("[2,3]", "[2,-3]"),
            without_line(1),
            without_line(5),
            format!("{text}{text}"),
            text.replace("BF16", "BF17"),
        ] {
            assert!(ModelHash::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn differences_are_listed_by_name() {
        let (expected, mut found) = (example(), example());
        found.tensors[0].name = "another".to_owned();
        found.tensors[2].sha256 = Sha256Digest([0; 32]);
        let texts: Vec<String> = expected.differences(&found).iter().map(HashDifference::to_string).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].ends_with("is missing") && texts[1].contains("\"another\" is not among"), "{texts:?}");
        assert!(texts[2].starts_with("tensor \"scalar\": its SHA-256 is 0000"), "{texts:?}");
        assert!(expected.differences(&expected).is_empty());
    }
}
