//! Safetensors against the `safetensors` crate: where both read a file, they find the same tensors; what one alone reads
//! belongs to a named class.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;

use anamnesis::{
    AnamnesisError, Fault, InspectInfo, ParseLimits, SafetensorsHeader,
    parse_safetensors_header_from_reader_with_limits, parse_safetensors_header_with_limits,
};
use safetensors::SafeTensors;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// A header as text; its metadata has no order of its own.
fn shown(header: &SafetensorsHeader) -> String {
    let mut header = header.clone();
    let metadata = header.metadata.take().map(BTreeMap::from_iter);
    format!("{header:?} {metadata:?}")
}

/// A header, or a typed error; a stream and a slice are read alike, and like `safetensors` reads them.
pub fn header(file: &[u8]) {
    let limits = ParseLimits::default().with_max_single_alloc(1 << 20).with_max_item_count(10_000);
    let streamed = parse_safetensors_header_from_reader_with_limits(file, &limits);
    let ours = parse_safetensors_header_with_limits(file, &limits);
    if let Ok(whole) = &ours {
        let streamed = streamed.expect("a header in memory is also read from a stream");
        assert_eq!(shown(whole), shown(&streamed));
        let data = file.len() - 8 - whole.header_size;
        assert!(whole.tensors.iter().all(|tensor| tensor.data_offsets.1 <= data));
        let _ = InspectInfo::from(whole).to_string();
    }
    match (ours, SafeTensors::deserialize(file)) {
        (Ok(ours), Ok(theirs)) => agree(&ours, &theirs, file),
        (Ok(ours), Err(error)) => assert!(is_ours_alone(&ours), "safetensors refuses the file: {error}"),
        (Err(error), Ok(_)) => assert!(is_theirs_alone(&error, file), "safetensors reads the file: {error}"),
        (Err(_), Err(_)) => {}
    }
}

/// Files that are read here and refused by `safetensors`: those with types that it does not know.
fn is_ours_alone(header: &SafetensorsHeader) -> bool {
    const THEIRS: [&str; 20] = [
        "BOOL",
        "F4",
        "F6_E2M3",
        "F6_E3M2",
        "U8",
        "I8",
        "F8_E5M2",
        "F8_E4M3",
        "F8_E4M3FNUZ",
        "F8_E5M2FNUZ",
        "F8_E8M0",
        "I16",
        "U16",
        "F16",
        "BF16",
        "I32",
        "U32",
        "F32",
        "F64",
        "C64",
    ];
    let known = |name: &str| THEIRS.contains(&name) || matches!(name, "I64" | "U64");
    header.tensors.iter().any(|tensor| !known(&tensor.dtype.to_string()))
}

/// Files that `safetensors` reads and that are refused here: those over a limit, with a key that occurs twice, or with a
/// tensor that is described by a list, or a type that is an object, which `serde` takes for a struct and an enum.
fn is_theirs_alone(error: &AnamnesisError, file: &[u8]) -> bool {
    if error.fault() == Fault::Limit {
        return true;
    }
    let length = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let text = end.and_then(|end| file.get(8..end)).unwrap_or_default();
    let Ok(Object(entries)) = serde_json::from_slice::<Object<Value>>(text) else { return false };
    let objects = serde_json::from_slice::<Object<Object<Value>>>(text).map_or(Vec::new(), |Object(objects)| objects);
    let mut tensors = entries.iter().filter(|(name, _)| name != "__metadata__");
    repeats_a_name(&entries)
        || objects.iter().any(|(_, Object(fields))| repeats_a_name(fields))
        || tensors.any(|(_, tensor)| !tensor["dtype"].is_string())
}

fn repeats_a_name<V>(entries: &[(String, V)]) -> bool {
    let mut names = HashSet::new();
    !entries.iter().all(|(name, _)| names.insert(name))
}

/// A JSON object with every entry of the text.
struct Object<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Object<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Object<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

fn agree(ours: &SafetensorsHeader, theirs: &SafeTensors<'_>, file: &[u8]) {
    assert_eq!(ours.tensors.len(), theirs.len());
    let data = &file[8 + ours.header_size..];
    for tensor in &ours.tensors {
        let view = theirs.tensor(&tensor.name).expect("both have the tensor");
        assert_eq!(view.shape(), tensor.shape, "{}", tensor.name);
        assert_eq!(view.dtype().to_string(), tensor.dtype.to_string(), "{}", tensor.name);
        assert_eq!(view.data(), &data[tensor.data_offsets.0..tensor.data_offsets.1], "{}", tensor.name);
    }
}
