//! Rules without any hand-written instruction.

use super::Rules;
use crate::base::GROUP;
use crate::base::float::{bf16, f16};
use crate::base::rule::{Arithmetic, Formula, Step};
use crate::base::simd::Portable;

impl Rules for Portable {
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn calculate(
        self,
        rule: Arithmetic,
        values: &[f32; GROUP],
        offsets: &[f32; GROUP],
        scales: &[f32; GROUP],
    ) -> [f32; GROUP] {
        let mut results = [0.0; GROUP];
        for (i, result) in results.iter_mut().enumerate() {
            let (value, offset, scale) = (values[i], offsets[i], scales[i]);
            *result = match rule.formula {
                Formula::Affine => round(rule.step, value - offset) * scale,
                Formula::Divided => round(rule.step, value - offset) / scale,
                Formula::Biased => round(rule.step, value * scale) + offset,
            };
            *result = round(rule.step, *result);
        }
        results
    }
}

#[inline(always)]
fn round(step: Step, value: f32) -> f32 {
    match step {
        Step::F32 => value,
        Step::Bf16 => bf16::decode(bf16::encode(value)),
        Step::F16 => f16::decode(f16::encode(value)),
    }
}
