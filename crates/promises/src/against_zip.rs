//! ZIP against the `zip` crate: where an archive of arrays is read, `zip` finds the same bytes under the same names. NumPy's
//! header in front of an array is part of an entry, so the array is its end.

use std::io::{Cursor, Read};

use anamnesis::{
    InspectOptions, NpzTensor, inspect_npz_from_reader_with_options, npz_to_safetensors_bytes,
    parse_npz_bytes_with_limits, parse_safetensors_header,
};
use zip::ZipArchive;

use crate::reading::limits;

/// An NPZ archive, or a typed error; inspecting, reading and `zip` agree.
pub fn npz(file: &[u8]) {
    let options = InspectOptions::new().with_limits(limits());
    let inspected = inspect_npz_from_reader_with_options(Cursor::new(file), &options);
    let Ok(arrays) = parse_npz_bytes_with_limits(file.to_vec(), &limits()) else { return };
    let info = inspected.expect("an archive that can be read can be inspected");
    assert_eq!(info.tensors.len(), arrays.len());
    for tensor in &info.tensors {
        let array = &arrays[&tensor.name];
        assert_eq!((&array.shape, array.dtype, array.data.len()), (&tensor.shape, tensor.dtype, tensor.byte_len));
    }
    if let Ok(output) = npz_to_safetensors_bytes(&arrays) {
        let header = parse_safetensors_header(&output).expect("an output can be read");
        assert_eq!(header.tensors.len(), arrays.len());
    }
    match ZipArchive::new(Cursor::new(file)) {
        Ok(mut archive) => arrays.values().for_each(|array| compare(&mut archive, array)),
        // An archive without entries: nothing was read, and `zip` requires more of the end record.
        Err(error) => assert!(arrays.is_empty(), "zip refuses the archive: {error}"),
    }
}

/// The entry of an array ends with its data: arrays in C order and little endian are stored as they are.
fn compare(archive: &mut ZipArchive<Cursor<&[u8]>>, array: &NpzTensor) {
    let name = format!("{}.npy", array.name);
    let mut bytes = Vec::new();
    let entry = archive.by_name(&name);
    let mut entry = entry.unwrap_or_else(|error| panic!("zip does not find {name:?}: {error}"));
    match entry.read_to_end(&mut bytes) {
        Ok(_) => {}
        // Under a fuzzer, the library accepts wrong checksums; the bytes are read all the same.
        Err(error) if cfg!(fuzzing) && error.to_string() == "Invalid checksum" => {}
        Err(error) => panic!("zip does not read {name:?}: {error}"),
    }
    assert!(bytes.starts_with(b"\x93NUMPY"), "{name:?} has other bytes in zip");
    let header = bytes.get(..bytes.len().saturating_sub(array.data.len())).unwrap_or_default();
    let reordered = [&b"True"[..], b">"].iter().any(|word| header.windows(word.len()).any(|part| part == *word));
    assert!(reordered || bytes.ends_with(&array.data), "{name:?} has other bytes in zip");
}
