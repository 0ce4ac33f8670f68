//! Kinds of files that are not tensor files, identified by their first bytes.

use crate::error::FileKind;

/// Magic bytes at fixed offsets, the most specific first.
const MAGICS: [(usize, &[u8], FileKind); 17] = {
    use FileKind as K;
    [
        (0, b"version https://git-lfs", K::GitLfsPointer),
        (0, b"7z\xbc\xaf\x27\x1c", K::SevenZip),
        (0, b"Rar!\x1a\x07", K::Rar),
        (0, b"\xfd7zXZ\0", K::Xz),
        (4, b"1AY&SY", K::Bzip2),
        (257, b"ustar", K::Tar),
        (0, b"PK\x03\x04", K::Zip),
        (0, b"PK\x05\x06", K::Zip),
        (0, b"\x28\xb5\x2f\xfd", K::Zstandard),
        (0, b"\x1f\x8b\x08", K::Gzip),
        // 32-bit magic numbers as little-endian machines write them.
        (0, b"lmgg", K::Ggml),
        (0, b"fmgg", K::Ggml),
        (0, b"tjgg", K::Ggml),
        (0, b"algg", K::Ggml),
        (0, b"GGML", K::Ggml),
        (0, b"GGMF", K::Ggml),
        (0, b"GGJT", K::Ggml),
    ]
};

/// The kind of a file by its first bytes, if they identify one. Tensor formats are not considered.
pub(crate) fn sniff(head: &[u8]) -> Option<FileKind> {
    if head.is_empty() {
        return Some(FileKind::Empty);
    }
    let is_at =
        |&&(at, magic, _): &&(usize, &[u8], FileKind)| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((_, _, kind)) = MAGICS.iter().find(is_at) {
        return Some(*kind);
    }
    if is_pickle(head) {
        return Some(FileKind::Pickle);
    }
    if is_sentence_piece(head) {
        return Some(FileKind::SentencePiece);
    }
    let text = leading_text(head)?;
    text_kind(text).or_else(|| (head.len() >= MIN_TEXT_BYTES).then_some(FileKind::Text))
}

/// A `PROTO` opcode and one that can follow it. A safetensors header length may start alike, but zeros follow.
fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, opcode, ..] if opcode.is_ascii_graphic() || *opcode >= 0x80)
}

/// A SentencePiece protobuf starts with a vocabulary piece: a message of its text and its score, a float.
fn is_sentence_piece(head: &[u8]) -> bool {
    let [0x0a, piece_bytes, 0x0a, text_bytes, rest @ ..] = head else { return false };
    let Some((text, rest)) = rest.split_at_checked(usize::from(*text_bytes)) else { return false };
    let has_room = usize::from(*piece_bytes) >= 2 + text.len() + 5;
    has_room && !text.is_empty() && str::from_utf8(text).is_ok() && rest.first() == Some(&0x15)
}

/// Minimum length of text: shorter inputs could be the start of a safetensors file.
const MIN_TEXT_BYTES: usize = 4;

/// The leading text of a file without its byte order mark, if it is UTF-8. The last character may be cut off.
fn leading_text(head: &[u8]) -> Option<&str> {
    let text = match str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => str::from_utf8(head.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    let is_text =
        |character: char| !character.is_control() || matches!(character, '\t' | '\n' | '\r' | '\x0c' | '\x1b');
    text.chars().all(is_text).then(|| text.trim_start_matches('\u{feff}').trim_start())
}

fn text_kind(text: &str) -> Option<FileKind> {
    let begins = |start: &str| text.get(..start.len()).is_some_and(|front| front.eq_ignore_ascii_case(start));
    if begins("<!doctype html") || begins("<html") || begins("<head") {
        return Some(FileKind::Html);
    }
    if begins("<?xml") {
        return Some(FileKind::Xml);
    }
    is_json(text).then_some(FileKind::Json)
}

/// Whether text starts like a JSON object or array.
fn is_json(text: &str) -> bool {
    let mut characters = text.chars().filter(|character| !character.is_ascii_whitespace());
    match (characters.next(), characters.next()) {
        (Some('{'), Some(next)) => matches!(next, '"' | '}'),
        (Some('['), Some(next)) => matches!(next, '{' | '[' | '"' | ']' | '-' | '0'..='9' | 't' | 'f' | 'n'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_is_found_at_its_place_and_nowhere_else() {
        for (at, magic, kind) in MAGICS {
            let mut head = vec![0xff; at];
            head.extend(magic);
            assert_eq!(sniff(&head), Some(kind), "{kind:?}");
            head.insert(0, 0xff);
            assert_ne!(sniff(&head), Some(kind), "{kind:?}");
        }
    }

    #[test]
    fn kinds_of_text_are_distinguished() {
        for (text, kind) in [
            ("{\"a\": 1}", FileKind::Json),
            ("\u{feff}\n  [1, 2]", FileKind::Json),
            ("[]", FileKind::Json),
            ("{curly} is no JSON", FileKind::Text),
            ("[link](to somewhere)", FileKind::Text),
            ("<!DOCTYPE HTML><html>", FileKind::Html),
            ("\r\n<html lang=\"en\">", FileKind::Html),
            ("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", FileKind::Xml),
            ("---\nlicense: mit\n---\n", FileKind::Text),
            ("größe", FileKind::Text),
        ] {
            assert_eq!(sniff(text.as_bytes()), Some(kind), "{text}");
        }
        // Cut inside a character.
        assert_eq!(sniff(&"text größe".as_bytes()[..8]), Some(FileKind::Text));
    }

    #[test]
    fn uncertain_input_is_not_identified() {
        for head in [
            &b"X"[..],
            b"abc",
            b"text\0with zeros",
            b"\x1f\x8b",
            b"\xe4\xf6\xfc text of another age",
            b"\x80\x02\0\0\0\0\0\0{",
            b"\x08\x07\x12\x07pytorch",
            b"\x08\x07\x12\0\x3a",
            b"\x0a\x03\x0a\x05<unk>\x15",
            b"\x0a\x0e\x0a\x05<unk>",
        ] {
            assert_eq!(sniff(head), None, "{head:?}");
        }
    }

    #[test]
    fn protobuf_messages_are_identified_by_their_first_fields() {
        assert_eq!(sniff(b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"), Some(FileKind::SentencePiece));
        assert_eq!(sniff(b"\x80\x04\x95\0\0"), Some(FileKind::Pickle));
    }
}
