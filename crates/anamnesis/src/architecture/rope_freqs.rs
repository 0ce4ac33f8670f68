//! `rope_freqs.weight`, the RoPE frequency factors of Llama 3: from the scaling in `config.json`, and back to it.

use serde_json::{Map, Value, json};

use super::config::Config;
use super::gguf::{Gguf, shortest};
use super::kind::DerivedTensor;
use crate::error::{AnamnesisError, ModelPart, Result};

/// The RoPE frequency factors (`rope_freqs.weight`), one per pair of dimensions.
pub(crate) const ROPE_FREQS: &[DerivedTensor] =
    &[DerivedTensor { name: "rope_freqs.weight", row: None, values: frequencies }];

fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    config.rope().llama3_factors(config.head_size()?)
}

/// Candidates for `original_max_position_embeddings`: the usual one, then powers of two.
fn original_contexts() -> impl Iterator<Item = f64> {
    std::iter::once(8192.0).chain((5..=24).rev().map(|power| f64::from(1u32 << power)))
}

/// Relative tolerance between factors that were computed on different machines.
const ROUNDING: f32 = 8.0 * f32::EPSILON;

/// Whether two tensors have the same factors.
pub(super) fn are_same(made: &[f32], stored: &[f32]) -> bool {
    let is_same = |(made, stored): (&f32, &f32)| made == stored || (made - stored).abs() <= ROUNDING * stored.abs();
    made.len() == stored.len() && made.iter().zip(stored).all(is_same)
}

/// Restores `rope_scaling` from the factors: the largest is `factor`, the other parameters are searched for until they give
/// the same tensor.
pub(super) fn restore_scaling(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<()> {
    let Some(factors) = (file.values)("rope_freqs.weight")? else { return Ok(()) };
    let theta = file.real("rope.freq_base").unwrap_or(10_000.0);
    if !(theta.is_finite() && theta > 0.0) {
        return Err(AnamnesisError::parse(format!("rope.freq_base is {theta}, a positive number is needed")));
    }
    let largest = factors.iter().copied().fold(1.0, f32::max);
    let usual = original_contexts().map(|original| (original, 4.0));
    for (original, high) in usual.chain(fitted(&factors, theta, largest)) {
        let scaling = json!({
            "rope_type": "llama3",
            "factor": shortest(largest),
            "low_freq_factor": 1.0,
            "high_freq_factor": high,
            "original_max_position_embeddings": whole(original),
        });
        let tried =
            Map::from_iter([("rope_theta".to_owned(), theta.into()), ("rope_scaling".to_owned(), scaling.clone())]);
        let made = Config::new(&tried, &[])?.rope().llama3_factors(2 * factors.len() as u64)?.unwrap_or_default();
        if are_same(&made, &factors) {
            config.insert("rope_scaling".to_owned(), scaling);
            return Ok(());
        }
    }
    let why = "no scaling of positions that is known gives the factors of rope_freqs.weight";
    let architecture = file.text("general.architecture").unwrap_or_default();
    Err(AnamnesisError::unsupported_model(ModelPart::Architecture, architecture, why))
}

/// A whole number as a JSON integer.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::from(number as u64) } else { Value::from(number) }
}

/// Original contexts and `high_freq_factor`s that fit the factors between 1 and the largest. Two wavelengths give both, as
/// the smoothing is linear in the frequency; one gives the context for the usual `high_freq_factor`.
fn fitted(factors: &[f32], theta: f64, largest: f32) -> Vec<(f64, f64)> {
    let frequency = |place: usize| theta.powf(-(place as f64) / factors.len() as f64) / (2.0 * std::f64::consts::PI);
    let share = |factor: f32| (1.0 / f64::from(factor) - 1.0 / f64::from(largest)) / (1.0 - 1.0 / f64::from(largest));
    let between = factors.iter().enumerate().filter(|(_, factor)| **factor > 1.0 && **factor < largest);
    let between: Vec<(f64, f64)> = between.map(|(place, factor)| (frequency(place), share(*factor))).collect();
    let mut fitted = Vec::new();
    if let (Some(first), Some(last)) = (between.first(), between.last()) {
        // share = (context * frequency - 1) / (high - 1)
        let slope = (first.1 - last.1) / (first.0 - last.0);
        let high = 1.0 + 1.0 / (slope * last.0 - last.1);
        for high in [high, high.round(), (high * 2.0).round() / 2.0, (high * 10.0).round() / 10.0, 4.0] {
            let original = (last.1 * (high - 1.0) + 1.0) / last.0;
            fitted.extend([(original.round(), high), (original, high)]);
        }
    } else if let Some(place) = factors.iter().position(|factor| *factor >= largest).filter(|place| *place > 0) {
        // No wavelength is between the limits: any context that separates the two groups fits.
        let (short, long) = (1.0 / frequency(place - 1), 1.0 / frequency(place));
        fitted.extend([
            (long * 0.999, 4.0),
            ((short * long).sqrt(), 1.0 + f64::from(f32::EPSILON)),
            (short * 2.0, 2.0),
        ]);
    }
    fitted.retain(|(original, high)| original.is_finite() && high.is_finite() && *original > 0.0 && *high > 1.0);
    fitted
}
