//! Types of datasets.
//!
//! | byte | content |
//! |---|---|
//! | 0 | class in the low half, version in the high half |
//! | 1 to 3 | flags: for numbers, bit 0 is the byte order and bit 3 the sign |
//! | 4 | u32 bytes of an element |
//! | 8 | for numbers u16 first bit, u16 bits; for floats the places of exponent and mantissa, and the bias |

use super::file::Bytes;
use crate::catalog::Dtype;
use crate::error::Result;

/// The type of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Number {
        dtype: Dtype,
        is_big_endian: bool,
    },
    /// Bytes whose meaning an attribute has.
    Opaque {
        bytes: u32,
    },
    /// A type that is not read, by its name.
    Other(String),
}

/// IEEE formats: bytes, then the place and bits of the exponent, those of the mantissa, and the bias.
const FLOATS: [(u32, [u8; 4], u32, Dtype); 4] = [
    (4, [23, 8, 0, 23], 127, Dtype::F32),
    (8, [52, 11, 0, 52], 1023, Dtype::F64),
    (2, [10, 5, 0, 10], 15, Dtype::F16),
    (2, [7, 8, 0, 7], 127, Dtype::BF16),
];

impl Type {
    pub(super) fn parse(content: &[u8]) -> Result<Self> {
        let mut rest = Bytes::new(content);
        let (class, flags) = (rest.u8()? & 15, rest.number(3)?);
        let bytes = rest.u32()?;
        let other = |name: &str| Ok(Self::Other(name.to_owned()));
        match class {
            0 => {
                let (first, bits) = (rest.u16()?, rest.u16()?);
                let dtype = match (bytes, flags & 8 != 0) {
                    (1, true) => Dtype::I8,
                    (1, false) => Dtype::U8,
                    (2, true) => Dtype::I16,
                    (2, false) => Dtype::U16,
                    (4, true) => Dtype::I32,
                    (4, false) => Dtype::U32,
                    (8, true) => Dtype::I64,
                    (8, false) => Dtype::U64,
                    _ => return other("integers of another size"),
                };
                match first == 0 && u32::from(bits) == bytes * 8 {
                    true => Ok(Self::Number { dtype, is_big_endian: flags & 1 != 0 }),
                    false => other("integers with padding"),
                }
            }
            1 => {
                rest.take(4)?;
                let places = [rest.u8()?, rest.u8()?, rest.u8()?, rest.u8()?];
                let bias = rest.u32()?;
                let known = FLOATS.iter().find(|(size, format, of, _)| (*size, *format, *of) == (bytes, places, bias));
                match known {
                    // Bit 6 marks the byte order of the VAX.
                    Some((.., dtype)) if flags & 0x40 == 0 => {
                        Ok(Self::Number { dtype: *dtype, is_big_endian: flags & 1 != 0 })
                    }
                    _ => other("floats of another format"),
                }
            }
            3 => other("text"),
            5 => Ok(Self::Opaque { bytes }),
            6 => other("records"),
            7 => other("references"),
            // The names of NumPy's bool are FALSE and TRUE.
            8 if bytes == 1 && flags & 0xffff == 2 => Ok(Self::Number { dtype: Dtype::Bool, is_big_endian: false }),
            8 => other("an enumeration"),
            9 => other("text or lists of variable length"),
            10 => other("arrays as elements"),
            other => Ok(Self::Other(format!("class {other}"))),
        }
    }
}
