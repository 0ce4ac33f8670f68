//! Columns of numbers for the page: typed arrays, stored byte plane by byte plane so that they deflate well.

use serde_json::{Value, json};

/// How a column of real numbers is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// 32 bits.
    Full,
    /// The upper 16 bits, rounded to nearest: two to three digits.
    Short,
}

/// All columns of a page, one after the other.
#[derive(Debug, Default)]
pub(super) struct Columns {
    descriptions: Vec<Value>,
    bytes: Vec<u8>,
}

impl Columns {
    pub(super) fn u8(&mut self, name: &str, values: &[u8]) {
        self.add(name, "u8", values.len(), &values.iter().map(|value| [*value]).collect::<Vec<_>>());
    }

    pub(super) fn u32(&mut self, name: &str, values: impl IntoIterator<Item = u32>) {
        let values: Vec<_> = values.into_iter().map(u32::to_le_bytes).collect();
        self.add(name, "u32", values.len(), &values);
    }

    pub(super) fn f64(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        let values: Vec<_> = values.into_iter().map(f64::to_le_bytes).collect();
        self.add(name, "f64", values.len(), &values);
    }

    pub(super) fn real(&mut self, name: &str, precision: Precision, values: impl IntoIterator<Item = f32>) {
        let values = values.into_iter();
        match precision {
            Precision::Full => {
                let values: Vec<_> = values.map(f32::to_le_bytes).collect();
                self.add(name, "f32", values.len(), &values);
            }
            Precision::Short => {
                let values: Vec<_> = values.map(|value| short(value).to_le_bytes()).collect();
                self.add(name, "bf16", values.len(), &values);
            }
        }
    }

    fn add<const WIDTH: usize>(&mut self, name: &str, kind: &str, length: usize, values: &[[u8; WIDTH]]) {
        self.descriptions.push(json!({ "name": name, "type": kind, "length": length }));
        for plane in 0..WIDTH {
            self.bytes.extend(values.iter().map(|value| value[plane]));
        }
    }

    /// The descriptions of the columns, and their bytes.
    pub(super) fn finish(self) -> (Value, Vec<u8>) {
        (self.descriptions.into(), self.bytes)
    }
}

/// The upper half of an F32, rounded to nearest even; NaN stays NaN.
fn short(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fc0;
    }
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    (rounded >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_stored_in_planes() {
        let mut columns = Columns::default();
        columns.u32("a", [0x0403_0201, 0x0807_0605]);
        columns.real("b", Precision::Short, [1.0, f32::NAN, f32::INFINITY, 1.003_906_3]);
        let (descriptions, bytes) = columns.finish();
        let wanted = json!([{ "name": "a", "type": "u32", "length": 2 }, { "name": "b", "type": "bf16", "length": 4 }]);
        assert_eq!(descriptions, wanted);
        assert_eq!(bytes, [1, 5, 2, 6, 3, 7, 4, 8, 0x80, 0xc0, 0x80, 0x80, 0x3f, 0x7f, 0x7f, 0x3f]);
    }
}
