//! Kernels selected by values at run time: the interface for other crates.
//!
//! The kernels are generic, and a generic function is compiled in the crate that uses it. These plain functions
//! instantiate them for every format and output, so that callers compile none of it.
//!
//! | file | holds |
//! |---|---|
//! | [`decode`] | codes to values: [`Float8`] and [`Packed`] to [`Rounded`] |
//! | [`cast`] | conversions between float types |
//! | `encode` | values to codes |
//! | [`blocks`] | the block types of ggml, decoding and encoding |

pub mod blocks;
pub mod cast;
pub mod decode;
#[cfg(feature = "encode")]
pub mod encode;

pub use blocks::BlockKernels;
pub use cast::{narrow_e4m3, round_slice};
pub use decode::{
    affine_codes, affine_fields, awq_codes, coded_blocks, coded_indexed, high_nibbles, nvfp4_times, ruled_blocks,
    scaled, scaled_block_rows, scaled_runs, scaled_twice, transpose_columns, unpack_awq, unpack_codes, widen_e4m3,
};
#[cfg(feature = "encode")]
pub use encode::{Values, block_largest, block_largest_number, nearest_codes, row_codes};

/// The type that values are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounded {
    /// BF16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// `f32`, unrounded.
    F32,
}

impl Rounded {
    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// The eight-bit float formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float8 {
    /// Four bits of exponent, NaN but no infinity.
    E4m3,
    /// Five bits of exponent, infinities and NaN as in IEEE 754.
    E5m2,
    /// Four bits of exponent, one NaN, no negative zero.
    E4m3Fnuz,
    /// Five bits of exponent, one NaN, no negative zero.
    E5m2Fnuz,
    /// Powers of two.
    E8m0,
}

/// How small integer codes are packed into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packed {
    /// Two bits, lowest first.
    Bits2,
    /// Three bits, lowest first, without gaps.
    Bits3,
    /// Four bits, the low half of a byte first.
    LowNibbles,
    /// Four bits, the high half of a byte first.
    HighNibbles,
    /// A code per byte.
    Bytes,
    /// A code per byte, in two's complement.
    SignedBytes,
}

/// `with_rounded!(rounded, O => body)`: the body with `O` as the output type.
macro_rules! with_rounded {
    ($rounded:expr, $output:ident => $body:expr) => {
        with_rounded!(@arms $rounded, $output => $body, Bf16 F16 F32)
    };
    (@arms $rounded:expr, $output:ident => $body:expr, $($type:ident)+) => {
        match $rounded {
            $( $crate::chosen::Rounded::$type => { type $output = $crate::base::output::$type; $body } )+
        }
    };
}

/// `with_float8!(float, F => body)`: the body with `F` as the format.
macro_rules! with_float8 {
    ($float:expr, $format:ident => $body:expr) => {
        with_float8!(@arms $float, $format => $body, E4m3 E5m2 E4m3Fnuz E5m2Fnuz E8m0)
    };
    (@arms $float:expr, $format:ident => $body:expr, $($type:ident)+) => {
        match $float {
            $( $crate::chosen::Float8::$type => { type $format = $crate::base::float::$type; $body } )+
        }
    };
}

/// `with_packed!(packed, P => body)`: the body with `P` as the packing.
macro_rules! with_packed {
    ($packed:expr, $packing:ident => $body:expr) => {
        with_packed!(@arms $packed, $packing => $body, Bits2 Bits3 LowNibbles HighNibbles Bytes SignedBytes)
    };
    (@arms $packed:expr, $packing:ident => $body:expr, $($type:ident)+) => {
        match $packed {
            $( $crate::chosen::Packed::$type => { type $packing = $crate::base::packing::$type; $body } )+
        }
    };
}

pub(crate) use {with_float8, with_packed, with_rounded};
