//! The defaults that transformers' configuration classes have for keys that `config.json` leaves out.

/// The default of a configuration key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DefaultValue {
    Count(u64),
    Real(f64),
    Flag(bool),
    /// The value of another key, also for `null`.
    Same(&'static str),
    /// One key divided by another, also for `null`.
    Quotient(&'static str, &'static str),
    /// None, where the shared defaults have one.
    Absent,
}

pub(crate) use DefaultValue::{Absent, Count, Flag, Quotient, Real, Same};

/// A configuration key with its default.
pub(crate) type ClassDefault = (&'static str, DefaultValue);

/// The defaults of `LlamaConfig` that most decoders share; a class lists its differences after them.
pub(crate) const BASE: &[ClassDefault] = &[
    ("vocab_size", Count(32000)),
    ("hidden_size", Count(4096)),
    ("intermediate_size", Count(11008)),
    ("num_hidden_layers", Count(32)),
    ("num_attention_heads", Count(32)),
    ("num_key_value_heads", Same("num_attention_heads")),
    ("max_position_embeddings", Count(2048)),
    ("rms_norm_eps", Real(1e-6)),
    ("rope_theta", Real(10000.0)),
];

/// The defaults of several lists; a later list overrides an earlier one.
pub(super) fn merged(lists: &[&[ClassDefault]]) -> Vec<ClassDefault> {
    let mut merged: Vec<ClassDefault> = Vec::new();
    for &(key, default) in lists.iter().copied().flatten() {
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = default,
            None => merged.push((key, default)),
        }
    }
    merged.retain(|(_, default)| *default != DefaultValue::Absent);
    merged
}
