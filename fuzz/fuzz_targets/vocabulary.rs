//! Any bytes are a vocabulary or a model card, or a typed error; a vocabulary that is read can be restored.

#![no_main]

use anamnesis::fuzzing::{card, vocabulary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, text)) = input.split_first() else { return };
    match kind % 4 {
        0 => vocabulary("tokenizer.model", text),
        1 => vocabulary("tokenizer.json", text),
        2 => vocabulary("tekken.json", text),
        _ => card(text),
    }
});
