//! Values written to a file: NumPy, safetensors, CSV or PNG. The file appears complete or not at all.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anamnesis::{AnamnesisError, Dtype};
use serde_json::json;

use super::heat::Grid;
use super::png;
use super::values::{Number, Reading, Selected};
use crate::commands::shown;
use crate::commands::small_file::{self, SmallFile};
use crate::exit::Failure;

/// Maximum pixels of a side.
const MAX_PIXELS: u64 = 2048;

/// A format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Npy,
    Safetensors,
    Csv,
    Png,
}

/// The endings of all formats.
const KINDS: [(&str, Kind); 4] =
    [("npy", Kind::Npy), ("safetensors", Kind::Safetensors), ("csv", Kind::Csv), ("png", Kind::Png)];

impl Kind {
    /// The format of a path, by its ending.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let known = KINDS.iter().find(|(name, _)| *name == ending).map(|(_, kind)| *kind);
        let names = KINDS.map(|(name, _)| format!(".{name}")).join(", ");
        known.ok_or_else(|| Failure::Usage(format!("-o {}: write a name that ends in one of {names}", shown(path))))
    }
}

/// Writes a selection and returns the size of the file.
pub(super) fn write(selected: &mut Selected<'_>, path: &Path, kind: Kind, force: bool) -> Result<u64, Failure> {
    if matches!(kind, Kind::Csv | Kind::Png) && selected.shape().len() > 2 {
        let shape = selected.shape();
        return Err(Failure::Usage(format!(
            "-o {}: it takes a matrix, the selection has shape {shape:?}",
            shown(path)
        )));
    }
    small_file::write(path, force, |out| fill(selected, path, kind, out))
}

fn fill(selected: &mut Selected<'_>, path: &Path, kind: Kind, out: &mut SmallFile) -> Result<(), Failure> {
    match kind {
        Kind::Npy => {
            out.write_all(&npy_header(selected, path)?).map_err(AnamnesisError::Io)?;
            rows(selected, |piece| out.write_all(piece.bytes).map_err(AnamnesisError::Io))
        }
        Kind::Safetensors => {
            out.write_all(&safetensors_header(selected, path)?).map_err(AnamnesisError::Io)?;
            rows(selected, |piece| out.write_all(piece.bytes).map_err(AnamnesisError::Io))
        }
        Kind::Csv => {
            let is_vector = selected.shape().len() < 2;
            let between = if is_vector { "\n" } else { "," };
            rows(selected, |Piece { bytes, reading, is_last }| {
                let numbers = bytes.chunks(reading.each()).map(|bytes| csv(&reading.number(bytes)));
                let line = numbers.collect::<Vec<_>>().join(between);
                let end = if is_last { "\n" } else { between };
                out.write_all(line.as_bytes()).and_then(|()| out.write_all(end.as_bytes())).map_err(AnamnesisError::Io)
            })
        }
        Kind::Png => {
            let grid = Grid::of(selected, [MAX_PIXELS, MAX_PIXELS], true)?;
            if grid.means.is_empty() {
                return Err(Failure::Usage(format!("-o {}: there are no values to draw", shown(path))));
            }
            Ok(png::write(&grid, out).map_err(AnamnesisError::Io)?)
        }
    }
}

/// A piece of a row.
struct Piece<'a> {
    bytes: &'a [u8],
    reading: Reading,
    /// Whether it ends the row.
    is_last: bool,
}

/// Passes all rows in order, in pieces.
fn rows(
    selected: &mut Selected<'_>,
    mut take: impl FnMut(Piece<'_>) -> Result<(), AnamnesisError>,
) -> Result<(), Failure> {
    let (rows, columns, matrices) = selected.matrix();
    let (is_dense, reading) = (selected.is_dense(), selected.reading);
    for row in 0..rows.saturating_mul(matrices) {
        for range in selected.pieces() {
            let is_last = range.end == columns;
            let bytes = selected.row(row, range, is_dense)?;
            take(Piece { bytes: &bytes, reading, is_last })?;
        }
    }
    Ok(())
}

/// A number so that it is read back exactly.
fn csv(number: &Number) -> String {
    match number {
        // Values of F32 need no more digits than F32.
        Number::Float(value) if f64::from(*value as f32) == *value => (*value as f32).to_string(),
        Number::Float(value) => value.to_string(),
        Number::Integer(value) => value.to_string(),
        Number::Code(code) => format!("0x{code}"),
    }
}

/// The type of the written values.
fn dtype(reading: Reading) -> Dtype {
    match reading {
        Reading::Decoded => Dtype::F32,
        Reading::Stored(dtype) => dtype,
        Reading::Bytes => Dtype::U8,
    }
}

fn npy_header(selected: &Selected<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let dtype = dtype(selected.reading);
    let name = match dtype {
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::C64 => "<c8",
        Dtype::I8 => "|i1",
        Dtype::I16 => "<i2",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::U8 => "|u1",
        Dtype::U16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::Bool => "|b1",
        other => {
            let why = format!("-o {}: NumPy has no {other}; write .safetensors instead", shown(path));
            return Err(Failure::Usage(why));
        }
    };
    let mut shape = String::new();
    for length in selected.shape() {
        let _ = write!(shape, "{length}, ");
    }
    let shape = match selected.shape().len() {
        1 => shape.trim_end().to_owned(),
        _ => shape.trim_end_matches(", ").to_owned(),
    };
    let mut header = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes; the whole is a multiple of 64 and ends with a newline.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header += &" ".repeat(length - header.len() - 1);
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap_or(u16::MAX);
    Ok([b"\x93NUMPY\x01\x00".as_slice(), &length.to_le_bytes(), header.as_bytes()].concat())
}

fn safetensors_header(selected: &Selected<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let dtype = dtype(selected.reading);
    if Dtype::from_name(&dtype.to_string()).is_none() {
        return Err(Failure::Usage(format!("-o {}: safetensors has no {dtype}", shown(path))));
    }
    let bytes = selected.len().saturating_mul(selected.reading.each() as u64);
    let entry = json!({ "dtype": dtype.to_string(), "shape": selected.shape(), "data_offsets": [0, bytes] });
    let mut members = serde_json::Map::new();
    members.insert(selected.name.to_owned(), entry);
    let mut header = serde_json::Value::Object(members).to_string();
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    Ok([&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_csv_are_exact() {
        assert_eq!(csv(&Number::Float(0.1f32.into())), "0.1");
        assert_eq!(csv(&Number::Float(0.1)), "0.1");
        assert_eq!(csv(&Number::Float(1e-45f32.into())).parse::<f32>(), Ok(1e-45));
        assert_eq!(csv(&Number::Integer(-7)), "-7");
        assert_eq!(csv(&Number::Float(f64::NAN)), "NaN");
    }
}
