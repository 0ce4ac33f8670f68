//! Any bytes are a safetensors header or a typed error, and the stream form never contradicts the slice form.

#![no_main]

use std::collections::BTreeMap;

use anamnesis::{
    InspectInfo, ParseLimits, SafetensorsHeader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits,
};
use libfuzzer_sys::fuzz_target;

/// A header as text; its metadata has no order of its own.
fn shown(header: &SafetensorsHeader) -> String {
    let mut header = header.clone();
    let metadata = header.metadata.take().map(BTreeMap::from_iter);
    format!("{header:?} {metadata:?}")
}

fuzz_target!(|file: &[u8]| {
    let limits = ParseLimits::default().with_max_single_alloc(1 << 20).with_max_item_count(10_000);
    let streamed = parse_safetensors_header_from_reader_with_limits(file, &limits);
    if let Ok(whole) = parse_safetensors_header_with_limits(file, &limits) {
        let streamed = streamed.expect("what is read whole is also read from a stream");
        assert_eq!(shown(&whole), shown(&streamed));
        let data = file.len() - 8 - whole.header_size;
        assert!(whole.tensors.iter().all(|tensor| tensor.data_offsets.1 <= data));
        let _ = InspectInfo::from(&whole).to_string();
    }
});
