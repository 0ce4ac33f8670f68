//! NumPy's names of element types.

use super::literal::Literal;
use crate::catalog::Dtype;
use crate::container::numpy::{CODES, number_bytes, unread_numbers, without_order};
use crate::error::{AnamnesisError, Remedy, Result, quoted};

/// How an array's elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    pub dtype: Dtype,
    /// The width of numbers whose highest byte comes first; 1 where nothing is to be swapped.
    pub swap_bytes: usize,
}

/// Codes that only these files have. Types of `ml_dtypes` have no letter of their own.
const OTHER_CODES: [(&str, Dtype); 3] = [("V2", Dtype::BF16), ("f1", Dtype::F8E5M2), ("?", Dtype::Bool)];

/// Types that are written as bytes without a meaning. `ml_dtypes` does so too, but for E5M2, whose name `f1` NumPy does not
/// load.
const UNNAMED: [Dtype; 5] = [Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F8E4M3Fnuz, Dtype::F8E5M2Fnuz, Dtype::F8E8M0];

impl Element {
    /// The element type that `descr` describes; `told` is what the caller says it is.
    pub(super) fn new(name: &str, descr: &Literal, told: Option<Dtype>) -> Result<Self> {
        let Literal::Text(text) = descr else {
            return Err(refusal(name, "is an array of records", &shown(descr)));
        };
        let code = without_order(text);
        let known = codes().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
        let dtype = match (told, known) {
            (Some(told), _) if Some(told.byte_size()) == item_bytes(code) && told.byte_len(1).is_some() => told,
            (Some(told), _) => {
                let reason =
                    format!("array {} is of type {}, which is not as wide as {told}", quoted(name), quoted(text));
                return Err(AnamnesisError::parse(reason));
            }
            (None, Some(known)) => known,
            (None, None) if code == "V1" => {
                let error = refusal(name, "is of a one-byte type that its file does not name", &quoted(text));
                return Err(error.with_remedy(Remedy::NameType { array: name.to_owned() }));
            }
            (None, None) => return Err(refusal(name, &meaning(code), &quoted(text))),
        };
        Ok(Self { dtype, swap_bytes: if text.starts_with('>') { number_bytes(dtype) } else { 1 } })
    }
}

/// The types that a file tells.
fn codes() -> impl Iterator<Item = &'static (&'static str, Dtype)> {
    CODES.iter().chain(&OTHER_CODES)
}

/// How NumPy writes a type, on a little-endian machine; `None` where it has none.
pub(super) fn descr_of(dtype: Dtype) -> Option<String> {
    if UNNAMED.contains(&dtype) {
        return Some(String::from("<V1"));
    }
    let (code, _) = codes().find(|(_, known)| *known == dtype)?;
    let order = if matches!(dtype, Dtype::Bool | Dtype::U8 | Dtype::I8) { '|' } else { '<' };
    Some(format!("{order}{code}"))
}

/// Bytes of an element of a type whose name ends in them; not of those that count something else.
fn item_bytes(code: &str) -> Option<usize> {
    let digits = code.strip_prefix(['b', 'u', 'i', 'f', 'V'])?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// What an array of an unknown type is.
fn meaning(code: &str) -> String {
    if let Some(numbers) = unread_numbers(code) {
        return format!("holds {numbers}");
    }
    let what = match code.as_bytes() {
        [b'O', ..] => "holds Python objects, which are not read",
        [b'V', ..] => "holds bytes without a meaning",
        [b'U' | b'S' | b'a' | b'T', ..] => "holds text",
        [b'M' | b'm', ..] => "holds dates or times",
        _ => "is of an unknown type",
    };
    what.to_owned()
}

fn refusal(name: &str, what: &str, descr: &str) -> AnamnesisError {
    AnamnesisError::unsupported("NPY", format!("array {} {what} (dtype {descr})", quoted(name)))
}

fn shown(descr: &Literal) -> String {
    quoted(&descr.to_string())
}
