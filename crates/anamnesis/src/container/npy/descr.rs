//! Element types of NPY headers (`descr`).

use super::literal::Literal;
use crate::catalog::Dtype;
use crate::container::numpy::{CODES, number_bytes, unread_numbers, without_order};
use crate::error::{AnamnesisError, Remedy, Result, quoted};

/// The element type of an array and its byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    pub dtype: Dtype,
    /// The width of big-endian numbers; 1 if the byte order is already little-endian.
    pub swap_bytes: usize,
}

/// Codes that occur in NPY headers only: `ml_dtypes` types, and an alias of bool.
const OTHER_CODES: [(&str, Dtype); 3] = [("V2", Dtype::BF16), ("f1", Dtype::F8E5M2), ("?", Dtype::Bool)];

/// Types written as void bytes (`V1`). `ml_dtypes` does so too, except for E5M2, whose code `f1` NumPy cannot load.
const VOID_TYPES: [Dtype; 5] = [Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F8E4M3Fnuz, Dtype::F8E5M2Fnuz, Dtype::F8E8M0];

impl Element {
    /// Parses `descr`. `dtype_override` is the type given by the caller.
    pub(super) fn new(name: &str, descr: &Literal, dtype_override: Option<Dtype>) -> Result<Self> {
        let Literal::Text(text) = descr else {
            return Err(refusal(name, "is an array of records", &shown(descr)));
        };
        let code = without_order(text);
        let known = codes().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
        let dtype = match (dtype_override, known) {
            (Some(dtype_override), _)
                if Some(dtype_override.byte_size()) == item_bytes(code) && dtype_override.byte_len(1).is_some() =>
            {
                dtype_override
            }
            (Some(dtype_override), _) => {
                let reason = format!(
                    "array {} has type {}, which does not have the width of {dtype_override}",
                    quoted(name),
                    quoted(text)
                );
                return Err(AnamnesisError::parse(reason));
            }
            (None, Some(known)) => known,
            (None, None) if code == "V1" => {
                let error = refusal(name, "has a one-byte type that the file does not identify", &quoted(text));
                return Err(error.with_remedy(Remedy::NameType { array: name.to_owned() }));
            }
            (None, None) => return Err(refusal(name, &describe_type(code), &quoted(text))),
        };
        Ok(Self { dtype, swap_bytes: if text.starts_with('>') { number_bytes(dtype) } else { 1 } })
    }
}

/// All codes that identify a type.
fn codes() -> impl Iterator<Item = &'static (&'static str, Dtype)> {
    CODES.iter().chain(&OTHER_CODES)
}

/// NumPy's code for a type, little-endian; `None` if there is none.
pub(super) fn descr_of(dtype: Dtype) -> Option<String> {
    if VOID_TYPES.contains(&dtype) {
        return Some(String::from("<V1"));
    }
    let (code, _) = codes().find(|(_, known)| *known == dtype)?;
    let order = if matches!(dtype, Dtype::Bool | Dtype::U8 | Dtype::I8) { '|' } else { '<' };
    Some(format!("{order}{code}"))
}

/// The width of an element, if the code ends in it; the digits of strings and dates mean something else.
fn item_bytes(code: &str) -> Option<usize> {
    let digits = code.strip_prefix(['b', 'u', 'i', 'f', 'V'])?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Describes the content of an array of an unsupported type.
fn describe_type(code: &str) -> String {
    if let Some(numbers) = unread_numbers(code) {
        return format!("holds {numbers}");
    }
    let what = match code.as_bytes() {
        [b'O', ..] => "holds Python objects, which are not supported",
        [b'V', ..] => "holds untyped bytes",
        [b'U' | b'S' | b'a' | b'T', ..] => "holds text",
        [b'M' | b'm', ..] => "holds dates or times",
        _ => "has an unknown type",
    };
    what.to_owned()
}

fn refusal(name: &str, what: &str, descr: &str) -> AnamnesisError {
    AnamnesisError::unsupported("NPY", format!("array {} {what} (dtype {descr})", quoted(name)))
}

fn shown(descr: &Literal) -> String {
    quoted(&descr.to_string())
}
