//! Arithmetic in half precision on values kept as `f32`.

use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::simd::Simd;

kernel! {
    /// Rounds every value to half precision, multiplies it by the factor of its column and rounds again. Rows are as
    /// long as `factors`.
    ///
    /// ```
    /// use anamnesis_kernels::{Level, half_times};
    ///
    /// let mut values = [1.0 + 1e-5, 3.0];
    /// assert_eq!(half_times(Level::detect(), &[2.0, 0.5], &mut values), 2);
    /// assert_eq!(values, [2.0, 1.5]);
    /// ```
    pub fn half_times(factors: &[f32], values: &mut [f32]) = body
}

#[inline(always)]
fn body<S: Simd>(simd: S, factors: &[f32], values: &mut [f32]) -> usize {
    if factors.is_empty() {
        return 0;
    }
    for row in values.chunks_mut(factors.len()) {
        let (groups, rest) = row.as_chunks_mut::<GROUP>();
        let whole = groups.len() * GROUP;
        for (values, factors) in groups.iter_mut().zip(factors.as_chunks::<GROUP>().0) {
            *values = times(simd, values, factors);
        }
        if !rest.is_empty() {
            let results = times(simd, &pad(rest), &pad(&factors[whole..whole + rest.len()]));
            rest.iter_mut().zip(results).for_each(|(value, result)| *value = result);
        }
    }
    values.len()
}

#[inline(always)]
fn times<S: Simd>(simd: S, values: &[f32; GROUP], factors: &[f32; GROUP]) -> [f32; GROUP] {
    let rounded = simd.widen_f16(&simd.narrow_f16(values));
    let mut products = [0.0; GROUP];
    for i in 0..GROUP {
        products[i] = rounded[i] * factors[i];
    }
    simd.widen_f16(&simd.narrow_f16(&products))
}
