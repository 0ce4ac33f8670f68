//! Safetensors against the `safetensors` crate: where both read a file, they find the same tensors; what one alone reads
//! belongs to a named class.

use std::collections::BTreeMap;

use anamnesis::{
    InspectInfo, ParseLimits, SafetensorsHeader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};
use safetensors::SafeTensors;

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
        (Err(_), _) => {}
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
