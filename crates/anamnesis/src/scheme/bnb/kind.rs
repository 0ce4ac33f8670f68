//! The kinds of BitsAndBytes weights.

/// The kinds of BitsAndBytes weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BnbKind {
    Nf4,
    Fp4,
    Int8,
}
