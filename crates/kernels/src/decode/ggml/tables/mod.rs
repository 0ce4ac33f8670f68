//! The grids of the IQ types, as data.

mod iq1;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;

pub(crate) use iq1::IQ1;
pub(crate) use iq2_s::IQ2_S;
pub(crate) use iq2_xs::IQ2_XS;
pub(crate) use iq2_xxs::IQ2_XXS;
pub(crate) use iq3_s::IQ3_S;
pub(crate) use iq3_xxs::IQ3_XXS;

/// The levels of all three IQ2 grids.
pub(super) const IQ2_LEVELS: [f32; 3] = [8.0, 25.0, 43.0];
