//! Base64, in which vocabularies write the bytes of their tokens.

/// The bytes of a text; `None` where it is not base64.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for &digit in group {
            bits = (bits << 6) | value(digit)?;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend(bits.to_be_bytes().into_iter().skip(1).take(group.len() - 1));
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn bytes_come_out_and_other_texts_do_not() {
        for (text, bytes) in
            [("", &b""[..]), ("AA==", b"\0"), ("IHQ=", b" t"), ("/+8v", b"\xff\xef/"), ("aGVsbG8=", b"hello")]
        {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["A", "A===", "AA", "A A=", "====", "é==="] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }
}
