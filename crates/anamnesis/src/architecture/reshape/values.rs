//! What decoders of this room calculate with: values of the decoder inside of them, in F32.

use std::ops::Range;

use anamnesis_kernels::widen_f32;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::filled;
use crate::scheme::{Context, Inner};

/// The values of a range, in a buffer that the context lends, and the inputs after those that were read.
pub(super) fn values<'i, 'b>(
    inner: &Inner,
    range: &Range<u64>,
    inputs: &'i [&'b [u8]],
    context: &mut Context,
) -> Result<(Vec<f32>, &'i [&'b [u8]])> {
    let count = (range.end - range.start) as usize;
    let mut bytes = context.lend(count * 4);
    let inputs = inner.decode(range, inputs, TargetDtype::F32, &mut bytes, context)?;
    let mut values = context.lend_floats(count);
    filled(widen_f32(context.level(), &bytes, &mut values), count)?;
    context.take_back(bytes);
    Ok((values, inputs))
}
