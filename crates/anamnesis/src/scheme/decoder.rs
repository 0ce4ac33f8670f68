//! How one quantised weight becomes numbers: in tiles, from byte windows of its parts.

use std::ops::Range;

use crate::catalog::TargetDtype;
use crate::error::Result;

/// Decodes any tile of one weight. It neither reads nor allocates: the pipeline brings the bytes it asks for.
pub(crate) trait TileDecoder: Send + Sync {
    /// Tiles are cut at multiples of this many output elements.
    fn granule(&self) -> u64;

    /// The bytes that the output `elements` need, in the order [`decode`](Self::decode) expects them.
    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>);

    /// Decodes the output `elements` from the contents of their windows into `out`, which is exactly as long as they take.
    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()>;

    /// The scheme in detail, for people.
    fn describe(&self) -> String;
}

/// A byte range of one part of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Index into the weight's parts.
    pub part: usize,
    /// Offset inside the part.
    pub offset: u64,
    pub bytes: u64,
}

/// Memory a worker keeps from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    floats: Vec<f32>,
}

impl Scratch {
    /// `count` floats of any value.
    pub(crate) fn floats(&mut self, count: usize) -> &mut [f32] {
        if self.floats.len() < count {
            self.floats.resize(count, 0.0);
        }
        &mut self.floats[..count]
    }
}

/// Runs a body with `$output` standing for the kernel type of a [`TargetDtype`].
macro_rules! with_output {
    ($target:expr, $output:ident => $body:expr) => {
        match $target {
            $crate::catalog::TargetDtype::BF16 => {
                type $output = anamnesis_kernels::Bf16;
                $body
            }
            $crate::catalog::TargetDtype::F16 => {
                type $output = anamnesis_kernels::F16;
                $body
            }
            $crate::catalog::TargetDtype::F32 => {
                type $output = anamnesis_kernels::F32;
                $body
            }
        }
    };
}
pub(crate) use with_output;
