//! Typed values of `config.json`.

use serde_json::Value;

use crate::error::{AnamnesisError, Result, quoted};

/// The object that the files describing the preprocessing of inputs are read as.
pub(crate) const PREPROCESSOR: &str = "preprocessor_config";

/// The file that a key is in, and its name there.
fn place(key: &str) -> (&'static str, &str) {
    match key.strip_prefix(PREPROCESSOR).and_then(|key| key.strip_prefix('.')) {
        Some(key) => ("preprocessor_config.json", key),
        None => ("config.json", key),
    }
}

pub(super) fn missing(key: &str) -> AnamnesisError {
    let (file, key) = place(key);
    AnamnesisError::parse(format!("{file} has no {}", quoted(key)))
}

pub(super) fn unexpected(key: &str, value: &Value, wanted: &str) -> AnamnesisError {
    let shown: String = value.to_string().chars().take(60).collect();
    let (file, key) = place(key);
    AnamnesisError::parse(format!("{file}: {} is {shown}, {wanted} is needed", quoted(key)))
}

pub(super) fn as_count(key: &str, value: &Value) -> Result<u64> {
    let whole = |real: f64| (real >= 0.0 && real <= f64::from(u32::MAX) && real.fract() == 0.0).then_some(real as u64);
    let count = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    let count = count.filter(|count| u32::try_from(*count).is_ok());
    count.ok_or_else(|| unexpected(key, value, "a count"))
}

pub(super) fn as_real(key: &str, value: &Value) -> Result<f64> {
    value.as_f64().ok_or_else(|| unexpected(key, value, "a number"))
}

pub(super) fn as_reals(key: &str, value: &Value) -> Result<Vec<f64>> {
    let items = value.as_array().ok_or_else(|| unexpected(key, value, "a list of numbers"))?;
    items.iter().map(|item| as_real(key, item)).collect()
}
