//! The token types of GGUF.

/// Token types, with the values of SentencePiece.
pub(super) const NORMAL: i32 = 1;
pub(super) const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
pub(super) const USER_DEFINED: i32 = 4;
pub(super) const UNUSED: i32 = 5;
pub(super) const BYTE: i32 = 6;

/// Whether a token looks special by its spelling.
pub(super) fn looks_special(token: &str) -> bool {
    let between = |first: &str, last: &str| token.starts_with(first) && token.ends_with(last);
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}

/// The placeholder for an id without a token.
pub(super) fn padding(id: usize) -> String {
    format!("[PAD{id}]")
}

/// The byte of a byte token like `<0x0A>`.
pub(super) fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hexadecimal.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
