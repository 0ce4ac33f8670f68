//! Strings of protocol 0 with escapes.

use crate::error::Result;

use super::opcodes::malformed;

/// Decodes `\uXXXX` and `\UXXXXXXXX`; all other bytes are Latin-1.
pub(super) fn unescaped_text(line: &[u8], at: usize) -> Result<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let [first, tail @ ..] = rest {
        let digits = match rest {
            [b'\\', b'u', ..] => 4,
            [b'\\', b'U', ..] => 8,
            _ => 0,
        };
        if digits == 0 {
            text.push(char::from(*first));
            rest = tail;
            continue;
        }
        let number = tail.get(1..1 + digits).and_then(|hex| number(hex, 16)).and_then(char::from_u32);
        text.push(number.ok_or_else(|| malformed(at, "a text with an invalid escape"))?);
        rest = tail.get(1 + digits..).unwrap_or_default();
    }
    Ok(text)
}

/// Decodes a Python 2 string literal.
pub(super) fn unquoted_string(line: &[u8], at: usize) -> Result<Vec<u8>> {
    let line = line.trim_ascii_end();
    let inside = match line {
        [quote @ (b'\'' | b'"'), inside @ .., end] if quote == end => inside,
        _ => return Err(malformed(at, "a string without quotes")),
    };
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, taken) = match tail {
            [b'\n', ..] => (None, 1),
            [b'x', ..] => (tail.get(1..3).and_then(|hex| number(hex, 16)), 3),
            [b'0'..=b'7', ..] => {
                let digits = tail.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                (number(&tail[..digits], 8).map(|value| value & 0xff), digits)
            }
            [letter, ..] => {
                let letters = *b"abfnrtv\\'\"";
                let meant = *b"\x07\x08\x0c\n\r\t\x0b\\'\"";
                match letters.iter().zip(meant).find(|(known, _)| *known == letter) {
                    Some((_, byte)) => (Some(byte.into()), 1),
                    None => (Some(u32::from(b'\\')), 0),
                }
            }
            [] => return Err(malformed(at, "a string that ends in an escape")),
        };
        match byte.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => bytes.push(byte),
            None if taken == 1 => {}
            None => return Err(malformed(at, "a string with an invalid escape")),
        }
        rest = tail.get(taken..).unwrap_or_default();
    }
    Ok(bytes)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u32::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_decode_as_in_python() {
        assert_eq!(unescaped_text(br"\u006fs\n", 0).unwrap(), "os\\n");
        assert_eq!(unescaped_text(b"\\U0001f600\xe9", 0).unwrap(), "\u{1f600}é");
        assert!(unescaped_text(br"\ud800", 0).is_err());
        assert!(unescaped_text(br"\u00", 0).is_err());
        assert_eq!(unquoted_string(br"'a\x6fs\163\n\'\q\\'", 0).unwrap(), b"aoss\n'\\q\\");
        for wrong in [&b"'"[..], b"abc", br"'\x6'", br"'\'", b"'a\""] {
            assert!(unquoted_string(wrong, 0).is_err(), "{wrong:?}");
        }
    }
}
