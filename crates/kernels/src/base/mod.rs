//! The base of all kernels: CPU levels, float formats, outputs, packings, the walk over slices.
//!
//! | file | holds |
//! |---|---|
//! | [`float`] | scalar conversions of the small float formats; [`Format8`](float::Format8) for eight bits |
//! | [`level`], [`simd`] | which instructions may be used, and the few operations written by hand for them |
//! | `kernel` | the macro that compiles one body for every level |
//! | `group`, `walk` | iteration over slices, group by group |
//! | [`output`] | the types that decoded values are rounded to |
//! | [`packing`] | how small integer codes are packed into bytes |

#[macro_use]
pub(crate) mod group;
#[macro_use]
mod kernel;
#[macro_use]
pub(crate) mod walk;

pub mod float;
pub mod level;
pub mod output;
pub mod packing;
pub mod simd;

pub use group::GROUP;
