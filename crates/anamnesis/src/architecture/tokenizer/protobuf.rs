//! A reader of Protocol Buffers messages, as far as SentencePiece models need it: a flat sequence of fields; nested
//! messages are returned as bytes.

use crate::error::{AnamnesisError, Result};

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'b> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'b [u8]),
}

/// Iterates over the fields of a message.
#[derive(Debug, Clone)]
pub(super) struct Fields<'b> {
    rest: &'b [u8],
    length: usize,
}

impl<'b> Fields<'b> {
    pub(super) const fn new(message: &'b [u8]) -> Self {
        Self { rest: message, length: message.len() }
    }

    /// The next field: its number and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Field<'b>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                let length =
                    usize::try_from(length).map_err(|_| self.refused(&format!("a field has {length} bytes")))?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(self.array()?),
            kind => return Err(self.refused(&format!("a field has wire type {kind}, 0, 1, 2 and 5 are supported"))),
        };
        match key >> 3 {
            0 => Err(self.refused("a field has number 0")),
            number => Ok(Some((number, value))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.refused(&format!("a field has {length} bytes, {} remain", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.refused("a field is truncated"))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for place in 0..10 {
            let [byte] = self.array::<1>()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.refused("a number is longer than 64 bits"))
    }

    fn refused(&self, why: &str) -> AnamnesisError {
        AnamnesisError::parse(format!("at byte {}: {why}", self.length - self.rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>> {
        let mut fields = Fields::new(bytes);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let wanted = [
            (1, Field::Varint(150)),
            (2, Field::Bytes(b"hi")),
            (3, Field::Fixed32([1, 0, 0, 0])),
            (4, Field::Fixed64([2, 0, 0, 0, 0, 0, 0, 0])),
        ];
        assert_eq!(all(&bytes).unwrap(), wanted);
        let largest = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(all(&largest).unwrap(), [(1, Field::Varint(u64::MAX))]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x0a, 0x05, 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x0b],
            &[0x00, 0x01],
            &[0x0d, 1, 2],
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        ] {
            assert!(matches!(all(bytes), Err(AnamnesisError::Parse { .. })), "{bytes:?}");
        }
    }
}
