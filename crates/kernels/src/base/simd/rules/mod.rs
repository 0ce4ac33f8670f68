//! What a rule makes of a group of values.
//!
//! By hand because a rule is known only when a kernel runs: what is asked of it is asked of registers, and the compiler, which
//! would take groups apart there, has none to take apart.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;
use crate::base::rule::Arithmetic;

/// A CPU level's calculations by rules.
pub trait Rules: Copy {
    /// The numbers of a group.
    fn calculate(
        self,
        rule: Arithmetic,
        values: &[f32; GROUP],
        offsets: &[f32; GROUP],
        scales: &[f32; GROUP],
    ) -> [f32; GROUP];
}
