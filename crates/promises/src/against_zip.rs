//! ZIP against the `zip` crate: where an archive of arrays is read, `zip` finds the same bytes under the same names, and an
//! archive that `zip` writes is read. NumPy's header in front of an array is part of an entry, so the array is its end.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, Write};

use anamnesis::{
    InspectOptions, NpzTensor, inspect_npz_from_reader_with_options, npz_to_safetensors_bytes,
    parse_npz_bytes_with_limits, parse_safetensors_header,
};
use zip::write::{FullFileOptions, SimpleFileOptions};
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::input::Input;
use crate::reading::limits;

/// The signature of an end record. An archive is refused if its comment contains one, since it could have two ends.
const END: &[u8] = b"PK\x05\x06";

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

/// Archives that `zip` writes, into a file or a stream, with any of its options, have the arrays that they were made of.
pub fn written(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut arrays = BTreeMap::new();
    for index in 0..input.below(5) {
        let start = input.one(&["array", "layer.0.weight", "é", "folder/array", ""]);
        let count = usize::from(u16::from_le_bytes(input.take()) % 4096);
        arrays.insert(format!("{start}{index}"), input.bytes(count));
    }
    let comment = input.bytes(64);
    if comment.windows(END.len()).any(|part| part == END) {
        return;
    }
    let archive = match input.below(2) {
        0 => write(ZipWriter::new(Cursor::new(Vec::new())), &arrays, comment, input).into_inner(),
        _ => write(ZipWriter::new_stream(Vec::new()), &arrays, comment, input).into_inner(),
    };
    let read = parse_npz_bytes_with_limits(archive, &limits()).expect("an archive of `zip` is read");
    assert_eq!(read.len(), arrays.len());
    for (name, data) in arrays {
        assert_eq!((&read[&name].shape[..], &read[&name].data[..]), (&[data.len()][..], data), "{name}");
    }
}

fn write<W: Write + Seek>(
    mut writer: ZipWriter<W>,
    arrays: &BTreeMap<String, &[u8]>,
    comment: &[u8],
    mut input: Input<'_>,
) -> W {
    writer.set_raw_comment(comment.into()).expect("a short comment");
    for (name, data) in arrays {
        writer.start_file(format!("{name}.npy"), options(&mut input)).expect("a new name");
        let dictionary = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", data.len());
        let length = (10 + dictionary.len() + 1).next_multiple_of(64) - 10;
        let header = format!("{dictionary:<0$}\n", length - 1);
        for part in [&b"\x93NUMPY\x01\x00"[..], &(length as u16).to_le_bytes(), header.as_bytes(), data] {
            writer.write_all(part).expect("memory to write to");
        }
    }
    writer.finish().expect("a complete archive")
}

/// The options of an entry, as far as they leave it readable.
fn options(input: &mut Input<'_>) -> FullFileOptions<'static, 'static> {
    let method = input.one(&[CompressionMethod::Stored, CompressionMethod::Deflated]);
    let level = (method == CompressionMethod::Deflated).then(|| input.below(9) as i64 + 1);
    let mut options = SimpleFileOptions::default()
        .compression_method(method)
        .compression_level(level)
        .with_alignment(input.one(&[1, 4, 64, 4096]))
        .large_file(input.below(2) == 1)
        .unix_permissions(u32::from(input.byte()))
        .into_full_options();
    if input.below(2) == 1 {
        options = options.with_file_comment("a comment");
    }
    if input.below(2) == 1 {
        let count = input.below(16);
        options.add_extra_field(0xA11E, input.bytes(count), input.below(2) == 1).expect("a field of no known meaning");
    }
    options
}
