//! ONNX models: a graph of operations in Protocol Buffers, with its constant tensors inside or in files next to it.
//!
//! | message | fields that are read |
//! |---|---|
//! | model | 1 IR version, 2 and 3 producer, 7 graph, 8 operator sets, 14 metadata, 25 functions |
//! | graph | 1 nodes, 5 initialisers, 11 inputs, 15 sparse initialisers |
//! | node | 1 inputs, 2 outputs, 3 name, 4 operator, 5 attributes, 7 domain |
//! | tensor | 1 dims, 2 type, 8 name, 9 raw data, 4 to 7, 10 and 11 typed data, 13 and 14 external data |
//!
//! The tensors are the initialisers and the values of `Constant` nodes, in all graphs and functions. Four-bit and
//! two-bit integers are presented as bytes, six-bit floats as F32. The catalog also lists the operations that read
//! stored tensors.
//!
//! Refused by name: tensors of text and of complex128, segmented tensors, external data outside the model's directory.

mod arrange;
mod element;
mod external;
mod graph;
mod limits;
mod names;
mod reader;
mod sparse;
mod summary;
mod tensor;
mod typed;
mod unpacked;

use std::ops::Range;

use crate::catalog::{Catalog, Metadata};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::protobuf::{Field, Fields};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::Budget;

/// The ONNX format.
pub(crate) struct Onnx;

pub(super) const ABOUT: About = About {
    format: Format::Onnx,
    name: "onnx",
    file: "an ONNX model",
    extensions: &["onnx"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Onnx,
};

impl Container for Onnx {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if begins_model(head) { Evidence::Probable } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let model = graph::read(&*source, budget)?;
        let summary = summary::facts(&model);
        let graph::Model { tensors, operations, metadata, mut notes, .. } = model;
        let names = names::final_names(&tensors);
        let operands: Vec<_> = names.iter().cloned().zip(tensors.iter().map(graph::FoundTensor::bits)).collect();
        let operations = graph::named_operations(operations, &operands);
        drop(operands);
        let arranged = arrange::arrange(source, tensors, names, file, options, budget)?;
        let mut catalog = Catalog::new(arranged.tensors, (!metadata.is_empty()).then_some(metadata))?;
        notes.extend(arranged.notes);
        catalog.types_are_final = true;
        catalog.holds_plain_arrays = true;
        catalog.operations = Some(operations);
        catalog.widened = arranged.widened;
        catalog.facts = Some(summary);
        catalog.notes = notes;
        catalog.unreadable = arranged.unreadable;
        catalog.more_files = arranged.files;
        Ok(Opened { source: arranged.source, catalog })
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported("onnx", "ONNX models are read, not written: their graph would be missing"))
    }
}

/// The fields of a model by wire type: numbers, and messages or texts.
const NUMBERS: [u64; 2] = [1, 5];
const MESSAGES: [u64; 10] = [2, 3, 4, 6, 7, 8, 14, 20, 25, 26];
/// The fields that no model lacks, one of which must be at the beginning: graph and operator sets.
const NEEDED: Range<u64> = 7..9;
/// The highest IR version that is expected in the future.
const MAX_IR_VERSION: u64 = 127;

/// Whether a file begins like a model: with fields that models have, the graph or an operator set among them.
fn begins_model(head: &[u8]) -> bool {
    // The length and the bracket of a safetensors header.
    if head.get(4..9) == Some(b"\0\0\0\0{") {
        return false;
    }
    let mut fields = Fields::new(head);
    let mut has_needed = false;
    loop {
        let start = fields.position();
        match fields.next() {
            Ok(Some((1, Field::Varint(version)))) if (1..=MAX_IR_VERSION).contains(&version) => {}
            Ok(Some((number, Field::Varint(_)))) if number != 1 && NUMBERS.contains(&number) => {}
            Ok(Some((number, Field::Bytes(_)))) if MESSAGES.contains(&number) => has_needed |= NEEDED.contains(&number),
            Ok(Some(_)) => return false,
            Ok(None) => return has_needed,
            // The last field continues behind the first bytes of the file.
            Err(_) => {
                let tag = head.get(start as usize).copied().unwrap_or_default();
                let is_message = tag & 7 == 2 && MESSAGES.contains(&u64::from(tag >> 3));
                let is_cut = head.len() >= HEAD_BYTES || has_needed;
                return is_message && is_cut && (has_needed || NEEDED.contains(&u64::from(tag >> 3)));
            }
        }
    }
}

/// The bytes of a file that are read to recognise it, if it has as many.
const HEAD_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_recognised_by_their_first_fields() {
        let graph = [&b"\x08\x07\x12\x07pytorch\x3a\xff\x7f"[..], &[0; 600]].concat();
        assert!(begins_model(&graph[..512]));
        assert!(begins_model(b"\x08\x09\x42\x04\x0a\0\x10\x11\x3a\0"));
        assert!(begins_model(b"\x3a\x02\x12\0"));
        for head in
            [&b""[..], b"\x08", b"\x08\x09", b"\x10\0\0\0\0\0\0\0{}", b"\x3a\x03\0\0\0\0\0\0{\"a\"", b"\x3a\x05\0"]
        {
            assert!(!begins_model(head), "{head:?}");
        }
    }
}
