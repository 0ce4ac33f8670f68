//! A grid of values as a PNG image with a palette: blue is negative, white zero, red positive.
//!
//! The image is not compressed: a deflate stream may consist of stored blocks, which needs no compressor.

use std::io::{Result, Write};

use super::heat::Grid;

/// Bytes of a stored block.
const BLOCK_BYTES: usize = 65535;
/// The colour of regions without a finite value: index 0 of the palette.
const NOT_FINITE: [u8; 3] = [40, 160, 60];

/// Writes an image with one pixel per region.
pub(super) fn write(grid: &Grid, out: &mut impl Write) -> Result<()> {
    let largest = grid.largest();
    let mut pixels = Vec::with_capacity(grid.means.len() + grid.rows as usize);
    for row in grid.means.chunks(grid.columns.max(1) as usize) {
        // The filter of the row: none.
        pixels.push(0);
        pixels.extend(row.iter().map(|mean| mean.map_or(0, |mean| index(mean, largest))));
    }
    out.write_all(b"\x89PNG\r\n\x1a\n")?;
    let (width, height) = (grid.columns as u32, grid.rows as u32);
    // Eight bits per pixel, a palette, and the only methods there are.
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 3, 0, 0, 0]].concat();
    chunk(out, *b"IHDR", &header)?;
    chunk(out, *b"PLTE", &palette())?;
    chunk(out, *b"IDAT", &stored(&pixels))?;
    chunk(out, *b"IEND", &[])
}

/// The palette's index of a value: 1 for the least, 128 for zero, 255 for the greatest.
fn index(mean: f64, largest: f64) -> u8 {
    let share = if largest > 0.0 { mean / largest } else { 0.0 };
    (128.0 + share.clamp(-1.0, 1.0) * 127.0).round() as u8
}

fn palette() -> Vec<u8> {
    let colour = |index: u8| {
        let share = (f64::from(index) - 128.0) / 127.0;
        let fade = |to: u8| (255.0 + (f64::from(to) - 255.0) * share.abs()).round() as u8;
        match index {
            0 => NOT_FINITE,
            1..=128 => [fade(5), fade(48), fade(97)],
            _ => [fade(103), fade(0), fade(31)],
        }
    };
    (0..=255).flat_map(colour).collect()
}

/// A zlib stream of stored blocks.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(BLOCK_BYTES).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(bytes).to_be_bytes());
    stream
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

fn chunk(out: &mut impl Write, kind: [u8; 4], content: &[u8]) -> Result<()> {
    let checked = [&kind[..], content].concat();
    out.write_all(&(content.len() as u32).to_be_bytes())?;
    out.write_all(&checked)?;
    out.write_all(&crc32(&checked).to_be_bytes())
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn values_have_the_colour_of_their_sign() {
        assert_eq!((index(-2.0, 2.0), index(0.0, 2.0), index(2.0, 2.0), index(0.0, 0.0)), (1, 128, 255, 128));
        let palette = palette();
        assert_eq!((palette.len(), &palette[128 * 3..129 * 3]), (768, &[255, 255, 255][..]));
    }
}
