//! The tables of four-bit codes.

/// The lookup table of four-bit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QuantType {
    Nf4,
    Fp4,
}

/// The values of the NF4 codes.
pub(crate) const NF4_MAP: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The values of the FP4 codes, both zeros positive.
pub(crate) const FP4_MAP: [f32; 16] = [
    0.0,
    0.005_208_333_5,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    0.0,
    -0.005_208_333_5,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

impl QuantType {
    /// Its name in `quant_state` and in the names of tensors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nf4 => "nf4",
            Self::Fp4 => "fp4",
        }
    }

    /// The `quant_map`: the value of each code.
    pub(crate) fn map(self) -> &'static [f32; 16] {
        match self {
            Self::Nf4 => &NF4_MAP,
            Self::Fp4 => &FP4_MAP,
        }
    }
}
