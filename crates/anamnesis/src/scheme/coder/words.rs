//! Reading and writing codes in 32-bit words.

/// The word and the bit at which a code begins. Codes are stored without gaps if `dense`, otherwise only whole codes in
/// a word.
pub(crate) const fn place(index: u64, bits: u8, dense: bool) -> (u64, u32) {
    match dense {
        true => (index * bits as u64 / 32, (index * bits as u64 % 32) as u32),
        false => {
            let each = 32 / bits as u64;
            (index / each, (index % each) as u32 * bits as u32)
        }
    }
}

/// Reads the code at a place; it may span two words.
pub(crate) fn get(word: impl Fn(u64) -> u32, (at, shift): (u64, u32), bits: u8) -> u8 {
    let next = if shift + u32::from(bits) > 32 { u64::from(word(at + 1)) } else { 0 };
    ((u64::from(word(at)) | next << 32) >> shift) as u8 & (u8::MAX >> (8 - bits))
}

/// Writes a code to column `col` of `cols`, whose bits must be zero.
pub(crate) fn put(words: &mut [[u8; 4]], (at, shift): (u64, u32), cols: usize, col: usize, code: u8) {
    let code = u64::from(code) << shift;
    for (at, part) in [(at as usize, code as u32), (at as usize + 1, (code >> 32) as u32)] {
        if part != 0
            && let Some(word) = words.get_mut(at * cols + col)
        {
            *word = (u32::from_le_bytes(*word) | part).to_le_bytes();
        }
    }
}

/// The bit at which the code of an output begins in an AWQ word: even outputs first.
pub(crate) const fn awq_shift(row: u64) -> u32 {
    let row = row as u32 % 8;
    4 * (row / 2 + row % 2 * 4)
}

/// The AWQ word of the codes of eight outputs.
pub(crate) fn awq_word(code: impl Fn(usize) -> u32) -> u32 {
    (0..8).fold(0, |word, row| word | code(row) << awq_shift(row as u64))
}
