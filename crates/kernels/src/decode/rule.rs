//! The dequantisation formulas of value, offset and scale, and the type that each operation rounds to.
//!
//! | formula | | libraries |
//! |---|---|---|
//! | [`Formula::Affine`] | `(value - offset) * scale` | GPTQ, AWQ, compressed-tensors, HQQ |
//! | [`Formula::Biased`] | `value * scale + offset` | MLX, quanto |
//! | [`Formula::Divided`] | `(value - offset) / scale` | BitNet |
//!
//! Libraries that compute in half precision round after every operation. Here each operation is computed in `f32` and
//! then rounded: for operands of 8 or 11 significant bits, products, sums and quotients equal those rounded once.

use crate::base::GROUP;
use crate::base::float::bf16;
use crate::base::simd::Simd;

/// `pairs!(a, b in first, second => expression)`: the expression for each pair of elements of two arrays of length `N`.
macro_rules! pairs {
    ($a:ident, $b:ident in $first:expr, $second:expr => $value:expr) => {{
        let (first, second) = (&$first, &$second);
        let mut results = [0.0; N];
        for i in 0..N {
            let ($a, $b) = (first[i], second[i]);
            results[i] = $value;
        }
        results
    }};
}

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

/// The type that the result of each operation is rounded to.
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

/// A formula and the rounding of its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// The operations.
    pub formula: Formula,
    /// Their rounding.
    pub step: Step,
}

/// A dequantisation formula as kernels compute it. Only this crate implements it.
pub trait Rule: Copy + Send + Sync + 'static {
    /// The results for a table or a group.
    fn numbers<S: Simd, const N: usize>(
        self,
        simd: S,
        values: &[f32; N],
        offsets: &[f32; N],
        scales: &[f32; N],
    ) -> [f32; N];
}

/// [`Formula::Affine`] in `f32`, fixed at compile time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine;

/// [`Formula::Biased`] in `f32`, fixed at compile time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Biased;

impl Rule for Affine {
    #[inline(always)]
    fn numbers<S: Simd, const N: usize>(
        self,
        _simd: S,
        values: &[f32; N],
        offsets: &[f32; N],
        scales: &[f32; N],
    ) -> [f32; N] {
        let differences = pairs!(value, offset in values, offsets => value - offset);
        pairs!(difference, scale in differences, scales => difference * scale)
    }
}

impl Rule for Biased {
    #[inline(always)]
    fn numbers<S: Simd, const N: usize>(
        self,
        _simd: S,
        values: &[f32; N],
        offsets: &[f32; N],
        scales: &[f32; N],
    ) -> [f32; N] {
        let products = pairs!(value, scale in values, scales => value * scale);
        pairs!(product, offset in products, offsets => product + offset)
    }
}

impl Rule for Arithmetic {
    #[inline(always)]
    fn numbers<S: Simd, const N: usize>(
        self,
        simd: S,
        values: &[f32; N],
        offsets: &[f32; N],
        scales: &[f32; N],
    ) -> [f32; N] {
        // The formula is matched outside of the loops: inside, they would not be vectorised.
        let first = match self.formula {
            Formula::Affine | Formula::Divided => pairs!(value, offset in values, offsets => value - offset),
            Formula::Biased => pairs!(value, scale in values, scales => value * scale),
        };
        let first = self.step.round(simd, &first);
        let second = match self.formula {
            Formula::Affine => pairs!(value, scale in first, scales => value * scale),
            Formula::Divided => pairs!(value, scale in first, scales => value / scale),
            Formula::Biased => pairs!(value, offset in first, offsets => value + offset),
        };
        self.step.round(simd, &second)
    }
}

impl Step {
    /// Rounds up to a group of values.
    #[inline(always)]
    fn round<S: Simd, const N: usize>(self, simd: S, values: &[f32; N]) -> [f32; N] {
        if self == Self::F32 {
            return *values;
        }
        let mut group = [0.0; GROUP];
        group[..N].copy_from_slice(values);
        let group = match self {
            Self::Bf16 => map!(bits in simd.round_bf16(&group) => bf16::decode(bits)),
            _ => simd.widen_f16(&simd.narrow_f16(&group)),
        };
        let mut rounded = [0.0; N];
        rounded.copy_from_slice(&group[..N]);
        rounded
    }
}
