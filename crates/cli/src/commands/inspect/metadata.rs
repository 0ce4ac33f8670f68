//! `inspect --metadata`: prints the metadata of a file with types.

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, GgufMetadataArray, GgufMetadataValue, Request};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::suggest::{closest_dotted, did_you_mean};
use crate::ui::{Column, Printer, Table};

type Entry = (String, GgufMetadataValue);

/// Maximum characters of a string, and items of an array, in the list.
const LISTED_CHARS: usize = 72;
const LISTED_ITEMS: usize = 6;
/// The same for a single value.
const WHOLE_CHARS: usize = 1 << 20;
const WHOLE_ITEMS: usize = 1000;
/// Maximum number of suggested keys.
const SUGGESTIONS: usize = 5;

/// All entries, or the requested one.
pub(super) fn entries(checkpoint: &Checkpoint, key: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let mut entries = checkpoint.metadata()?;
    let Some(key) = key else { return Ok(entries) };
    match entries.iter().position(|(name, _)| name == key) {
        Some(index) => Ok(vec![entries.swap_remove(index)]),
        None => Err(unknown(key, &entries)),
    }
}

/// Prints the list, or the requested value.
pub(super) fn print(entries: &[Entry], key: Option<&str>, printer: &Printer) -> Result<(), Failure> {
    match entries {
        [] => printer.text("no metadata"),
        [(_, value)] if key.is_some() => printer.text(whole(value)),
        entries => {
            let mut table = Table::new([Column::Left("KEY"), Column::Left("TYPE"), Column::Flexible("VALUE")]);
            for (key, value) in entries {
                table.row([key.clone(), type_name(value), shown(value)]);
            }
            printer.table(&table)
        }
    }
}

/// The entries as JSON, in the form accepted by `--gguf-metadata`.
pub(super) fn document(entries: &[Entry]) -> Value {
    entries.iter().map(|(key, value)| (key.clone(), typed(value))).collect()
}

fn unknown(key: &str, entries: &[Entry]) -> Failure {
    let names = entries.iter().map(|(name, _)| name.as_str());
    let near: Vec<_> =
        closest_dotted(key, names, SUGGESTIONS).iter().map(|name| printable(name, LISTED_CHARS)).collect();
    let advice = match did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>()) {
        Some(question) => question,
        None if entries.is_empty() => "there is no metadata at all".to_owned(),
        None => format!("--metadata alone lists all {}", entries.len()),
    };
    let error = AnamnesisError::Request(Request::UnknownKey { key: key.to_owned() });
    Failure::Refused { error, advice: Some(advice) }
}

/// Match arms for all numeric types, of a value or of an array.
macro_rules! each_number {
    ($value:expr, $of:ident, $held:ident => $number:expr, $($other:pat => $otherwise:expr),* $(,)?) => {
        match $value {
            $of::U8($held) => ("u8", $number),
            $of::I8($held) => ("i8", $number),
            $of::U16($held) => ("u16", $number),
            $of::I16($held) => ("i16", $number),
            $of::U32($held) => ("u32", $number),
            $of::I32($held) => ("i32", $number),
            $of::U64($held) => ("u64", $number),
            $of::I64($held) => ("i64", $number),
            $of::F32($held) => ("f32", $number),
            $of::F64($held) => ("f64", $number),
            $of::Bool($held) => ("bool", $number),
            $($other => $otherwise,)*
        }
    };
}

/// The type of a value, and its text if it is a number.
fn scalar(value: &GgufMetadataValue) -> (&'static str, String) {
    each_number!(value, GgufMetadataValue, number => number.to_string(),
        GgufMetadataValue::String(text) => ("string", text.clone()),
        GgufMetadataValue::Array(_) => ("array", String::new()))
}

/// The item type of an array, and its first items as text.
fn items(array: &GgufMetadataArray, most: usize) -> (&'static str, Vec<String>) {
    each_number!(array, GgufMetadataArray, numbers => numbers.iter().take(most).map(ToString::to_string).collect(),
    GgufMetadataArray::String(texts) => {
        ("string", texts.iter().take(most).map(|text| format!("\"{}\"", cut(text, LISTED_CHARS))).collect())
    },
    GgufMetadataArray::Array(arrays) => {
        ("array", arrays.iter().take(most).map(|inner| listed(inner, LISTED_ITEMS)).collect())
    })
}

fn type_name(value: &GgufMetadataValue) -> String {
    match value {
        GgufMetadataValue::Array(array) => format!("{}[{}]", items(array, 0).0, array.len()),
        other => scalar(other).0.to_owned(),
    }
}

/// A value in the list.
fn shown(value: &GgufMetadataValue) -> String {
    match value {
        GgufMetadataValue::Array(array) => listed(array, LISTED_ITEMS),
        GgufMetadataValue::String(text) => cut(text, LISTED_CHARS),
        other => scalar(other).1,
    }
}

/// A single value. Line breaks of a string are kept.
fn whole(value: &GgufMetadataValue) -> String {
    match value {
        GgufMetadataValue::Array(array) => {
            let mut lines = items(array, WHOLE_ITEMS).1;
            if let Some(more) = array.len().checked_sub(WHOLE_ITEMS + 1) {
                lines.push(format!("and {} more; --json prints all", more + 1));
            }
            lines.join("\n")
        }
        GgufMetadataValue::String(text) => {
            let lines = text.lines().map(|line| printable(line, WHOLE_CHARS));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => scalar(other).1,
    }
}

fn listed(array: &GgufMetadataArray, most: usize) -> String {
    let (_, mut shown) = items(array, most);
    if array.len() > most {
        shown.push(format!("… {} in total", array.len()));
    }
    format!("[{}]", shown.join(", "))
}

/// A string escaped for a terminal; if it is cut, its length is appended.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    let start = printable(text, most);
    if count > most { format!("{start} ({count} characters)") } else { start }
}

fn typed(value: &GgufMetadataValue) -> Value {
    let (name, value) = each_number!(value, GgufMetadataValue, number => number_document(*number),
        GgufMetadataValue::String(text) => ("string", text.as_str().into()),
        GgufMetadataValue::Array(array) => return typed_array(array));
    json!({ "type": name, "value": value })
}

fn typed_array(array: &GgufMetadataArray) -> Value {
    let (name, value) = each_number!(array, GgufMetadataArray,
        numbers => numbers.iter().map(|number| number_document(*number)).collect::<Value>(),
        GgufMetadataArray::String(texts) => ("string", texts.as_slice().into()),
        GgufMetadataArray::Array(arrays) => ("array", arrays.iter().map(typed_array).collect()));
    json!({ "type": "array", "item_type": name, "value": value })
}

/// A number; NaN and infinities as strings.
fn number_document<T: Into<Value> + ToString + Copy>(number: T) -> Value {
    match number.into() {
        Value::Null => number.to_string().into(),
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_document() {
        assert_eq!(number_document(f32::NAN), "NaN");
        assert_eq!(number_document(f64::NEG_INFINITY), "-inf");
        assert_eq!(number_document(u64::MAX), json!(u64::MAX));
        assert_eq!(number_document(0.1f32), json!(f64::from(0.1f32)));
        let nested = GgufMetadataArray::Array(vec![GgufMetadataArray::Bool(vec![true])]);
        let inner = json!({ "type": "array", "item_type": "bool", "value": [true] });
        assert_eq!(typed_array(&nested), json!({ "type": "array", "item_type": "array", "value": [inner] }));
    }

    #[test]
    fn long_values_are_cut_in_the_list_only() {
        let text = GgufMetadataValue::String(format!("{}\nlast\u{1b}", "x".repeat(100)));
        assert!(shown(&text).ends_with("… (106 characters)"), "{}", shown(&text));
        assert!(whole(&text).ends_with("x\nlast\\u{1b}"));
        let array = GgufMetadataValue::Array(Box::new(GgufMetadataArray::I32((0..1002).collect())));
        assert_eq!(
            (type_name(&array).as_str(), shown(&array).as_str()),
            ("i32[1002]", "[0, 1, 2, 3, 4, 5, … 1002 in total]")
        );
        assert!(whole(&array).ends_with("\n999\nand 2 more; --json prints all"));
    }
}
