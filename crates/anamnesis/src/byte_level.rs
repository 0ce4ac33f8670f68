//! The byte-level alphabet of GPT-2: a printable character for each byte.

/// The character for a space.
pub(crate) const SPACE: &str = "\u{120}";

/// Whether a byte maps to its own character.
const fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The character of a byte: itself if printable, otherwise the next one from U+0100.
pub(crate) fn character(byte: u8) -> char {
    match is_itself(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|&earlier| !is_itself(earlier)).count();
            char::from_u32(0x100 + before as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    }
}

/// The byte of a character.
pub(crate) fn byte(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(|&byte| is_itself(byte)),
        code @ 0x100..=0x143 => (0..=u8::MAX).filter(|&byte| !is_itself(byte)).nth(code as usize - 0x100),
        _ => None,
    }
}

/// Encodes a text in the alphabet.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(character).collect()
}

/// Decodes a text in the alphabet; `None` if it has another character.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        for one in 0..=u8::MAX {
            assert_eq!(byte(character(one)), Some(one), "{one}");
        }
        assert_eq!((character(b' '), character(b'\n'), character(0xad)), ('\u{120}', '\u{10a}', '\u{143}'));
        assert_eq!((byte(' '), byte('\u{144}'), byte('\u{2581}')), (None, None, None));
        assert_eq!(bytes(&encoded("ü x")).unwrap(), "ü x".as_bytes());
    }
}
