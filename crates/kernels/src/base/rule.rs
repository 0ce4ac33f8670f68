//! How a code's value, an offset and a scale become a number, and what each step is rounded to.
//!
//! | rule | | who |
//! |---|---|---|
//! | [`Formula::Affine`] | `(value - offset) * scale` | GPTQ, AWQ, compressed-tensors, HQQ |
//! | [`Formula::Biased`] | `value * scale + offset` | MLX, quanto |
//! | [`Formula::Divided`] | `(value - offset) / scale` | BitNet |
//!
//! Libraries that calculate in half precision round after every operation. Each such step is calculated in `f32` and rounded
//! then: products, sums and quotients of numbers of 8 or 11 bits come out as if they had been rounded once.

/// The operations of a rule and their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Formula {
    /// `(value - offset) * scale`.
    #[default]
    Affine,
    /// `value * scale + offset`.
    Biased,
    /// `(value - offset) / scale`.
    Divided,
}

/// What the result of each operation is rounded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Step {
    /// `f32`.
    #[default]
    F32,
    /// BF16.
    Bf16,
    /// IEEE half precision.
    F16,
}

/// A formula, and what its steps are rounded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// The operations.
    pub formula: Formula,
    /// Their rounding.
    pub step: Step,
}
