//! Reading the messages of a model, within its limits.

use std::cell::Cell;
use std::ops::Range;

use super::limits::{ONNX_MAX_FIELDS, ONNX_MAX_PIECES, ONNX_MAX_TEXT_BYTES, ONNX_MAX_TEXTS_BYTES, check};
use crate::container::protobuf::{Field, Fields, Window};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// A message: its pieces in the file. A message that is given several times is the concatenation of its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message(pub(super) Vec<Range<u64>>);

impl Message {
    pub(super) fn add(&mut self, piece: Range<u64>) -> Result<()> {
        check(self.0.len() as u64 + 1, ONNX_MAX_PIECES as u64, "ONNX_MAX_PIECES", "a message is given in more pieces")?;
        self.0.push(piece);
        Ok(())
    }

    pub(super) fn is_given(&self) -> bool {
        !self.0.is_empty()
    }

    /// The end of its last piece.
    pub(super) fn end(&self) -> u64 {
        self.0.iter().map(|piece| piece.end).max().unwrap_or_default()
    }

    /// The size in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.end - piece.start).sum()
    }
}

impl From<Range<u64>> for Message {
    fn from(piece: Range<u64>) -> Self {
        Self(vec![piece])
    }
}

/// Reads the messages of a file.
pub(super) struct Reader<'s> {
    window: Window<'s, dyn Source + 's>,
    fields: Cell<u64>,
    text_bytes: Cell<u64>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s (dyn Source + 's)) -> Self {
        Self { window: Window::new(source, source.len()), fields: Cell::new(0), text_bytes: Cell::new(0) }
    }

    /// Visits the fields of a message in file order.
    pub(super) fn each(
        &self,
        message: &Message,
        mut visit: impl FnMut(u64, Field<Range<u64>>) -> Result<()>,
    ) -> Result<()> {
        for piece in &message.0 {
            let mut fields = Fields::new(self.window.message(piece.clone()));
            let at = |error: AnamnesisError| error.within(format_args!("the message at byte {}", piece.start));
            while let Some((number, field)) = fields.next().map_err(at)? {
                self.fields.set(self.fields.get() + 1);
                check(self.fields.get(), ONNX_MAX_FIELDS, "ONNX_MAX_FIELDS", "the model has more fields")?;
                visit(number, field)?;
            }
        }
        Ok(())
    }

    /// A text of the file.
    pub(super) fn text(&self, range: Range<u64>) -> Result<String> {
        let bytes = range.end - range.start;
        let what = || format!("a text of the model takes {bytes} bytes");
        check(bytes, ONNX_MAX_TEXT_BYTES, "ONNX_MAX_TEXT_BYTES", &what())?;
        self.text_bytes.set(self.text_bytes.get() + bytes);
        check(self.text_bytes.get(), ONNX_MAX_TEXTS_BYTES, "ONNX_MAX_TEXTS_BYTES", "the texts take more bytes")?;
        let mut text = vec![0; bytes as usize];
        self.window.fill(range.start, &mut text)?;
        String::from_utf8(text)
            .map_err(|_| AnamnesisError::parse(format!("the text at byte {} is not UTF-8", range.start)))
    }

    /// The numbers of a packed field.
    pub(super) fn packed(&self, range: Range<u64>, most: usize, what: &str) -> Result<Vec<u64>> {
        let mut fields = Fields::new(self.window.message(range.clone()));
        let mut numbers = Vec::new();
        while fields.position() < range.end - range.start {
            if numbers.len() == most {
                return Err(AnamnesisError::parse(format!("more than {most} {what}")));
            }
            numbers.push(fields.varint()?);
        }
        Ok(numbers)
    }
}

/// The error of a field with another wire type than its own.
pub(super) fn wrong_type(message: &str, number: u64) -> AnamnesisError {
    AnamnesisError::parse(format!("field {number} of a {message} has the wrong type"))
}
