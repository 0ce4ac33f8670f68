//! Codes packed into 32-bit words: where each is, and how it is taken out and put in.

/// The word in which a code begins, and at which bit: without gaps, or as many codes in a word as fit whole.
pub(crate) const fn place(index: u64, bits: u8, dense: bool) -> (u64, u32) {
    match dense {
        true => (index * bits as u64 / 32, (index * bits as u64 % 32) as u32),
        false => {
            let each = 32 / bits as u64;
            (index / each, (index % each) as u32 * bits as u32)
        }
    }
}

/// The code at a place, which may reach into the next word.
pub(crate) fn get(word: impl Fn(u64) -> u32, (at, shift): (u64, u32), bits: u8) -> u8 {
    let next = if shift + u32::from(bits) > 32 { u64::from(word(at + 1)) } else { 0 };
    ((u64::from(word(at)) | next << 32) >> shift) as u8 & (u8::MAX >> (8 - bits))
}

/// Puts a code into a column of zeros.
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

/// The place of an output in a word of AWQ: even ones first.
pub(crate) const fn awq_shift(row: u64) -> u32 {
    let row = row as u32 % 8;
    4 * (row / 2 + row % 2 * 4)
}

/// A word of AWQ from the codes of eight outputs.
pub(crate) fn awq_word(code: impl Fn(usize) -> u32) -> u32 {
    (0..8).fold(0, |word, row| word | code(row) << awq_shift(row as u64))
}
