//! The parameters of RoPE in both forms that configurations have, and the frequency factors of Llama 3.

use serde_json::{Map, Value};

use super::sleef;
use super::value::{as_count, as_real, as_reals};
use crate::error::{AnamnesisError, Result, quoted};

/// The parameters of RoPE, in one form.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rope {
    values: Map<String, Value>,
    /// Those of sliding-window layers, if they have their own.
    sliding: Map<String, Value>,
}

/// Parameters that older configurations have at the top level, under these names.
const TOP_LEVEL: [(&str, &[&str]); 3] = [
    ("rope_theta", &["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"]),
    ("partial_rotary_factor", &["partial_rotary_factor", "rope_pct", "rope_percent"]),
    ("original_max_position_embeddings", &["original_max_position_embeddings"]),
];

/// `rope_theta` of sliding-window layers at the top level.
const LOCAL: [&str; 5] =
    ["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];

impl Rope {
    pub(super) fn of(config: &Map<String, Value>) -> Result<Self> {
        let object = |key: &str| config.get(key).and_then(Value::as_object);
        let mut values = object("rope_parameters").or_else(|| object("rope_scaling")).cloned().unwrap_or_default();
        let part = |key: &str| values.get(key).and_then(Value::as_object).cloned();
        let (full, sliding) = (part("full_attention"), part("sliding_attention"));
        if full.is_some() || sliding.is_some() {
            values = full.unwrap_or_default();
        }
        let top = |keys: &[&str]| keys.iter().find_map(|key| config.get(*key)).filter(|value| !value.is_null());
        for (key, names) in TOP_LEVEL {
            if let (false, Some(value)) = (values.contains_key(key), top(names)) {
                values.insert(key.to_owned(), value.clone());
            }
        }
        if let (false, Some(value)) = (values.contains_key("rope_type"), values.get("type").cloned()) {
            values.insert("rope_type".to_owned(), value);
        }
        let local = LOCAL.iter().find_map(|key| Some((*key, config.get(*key).filter(|value| !value.is_null())?)));
        if let Some((key, theta)) = local {
            as_real(key, theta)?;
        }
        let local = local.map(|(_, theta)| Map::from_iter([("rope_theta".to_owned(), theta.clone())]));
        Ok(Self { values, sliding: sliding.or(local).unwrap_or_default() })
    }

    /// `rope_type`: the kind of scaling.
    pub(crate) fn kind(&self) -> &str {
        self.values.get("rope_type").and_then(Value::as_str).unwrap_or("default")
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn real(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|value| as_real(key, value)).transpose()
    }

    pub(crate) fn count(&self, key: &str) -> Result<Option<u64>> {
        self.get(key).map(|value| as_count(key, value)).transpose()
    }

    pub(crate) fn reals(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.get(key).map(|value| as_reals(key, value)).transpose()
    }

    /// `rope_theta`: the base of the frequencies.
    pub(crate) fn theta(&self) -> Result<Option<f64>> {
        match self.get("rope_theta") {
            // One of every layer: the first has full attention.
            Some(Value::Array(bases)) if bases.len() > 1 => {
                Ok(self.reals("rope_theta")?.and_then(|all| all.first().copied()))
            }
            _ => self.real("rope_theta"),
        }
    }

    /// A parameter of sliding-window layers, if they have their own.
    pub(crate) fn sliding_real(&self, key: &str) -> Result<Option<f64>> {
        self.sliding.get(key).filter(|value| !value.is_null()).map(|value| as_real(key, value)).transpose()
    }

    pub(crate) fn has_sliding(&self) -> bool {
        !self.sliding.is_empty()
    }

    /// `rope_theta` of sliding-window layers, if they have their own.
    pub(crate) fn sliding_theta(&self) -> Result<Option<f64>> {
        match (self.sliding.get("rope_theta"), self.get("rope_theta")) {
            // One of every layer: the second has sliding-window attention.
            (None, Some(Value::Array(bases))) if bases.len() > 1 => {
                Ok(self.reals("rope_theta")?.and_then(|all| all.get(1).copied()))
            }
            (own, _) => own.map(|value| as_real("rope_theta", value)).transpose(),
        }
    }

    /// The frequency factors of Llama 3, one per pair of dimensions; `None` for other kinds of scaling.
    ///
    /// Every bit is that of the converter, which leaves the arithmetic to torch: in F32, with divisions of a constant by a
    /// tensor as the product with its reciprocal.
    pub(crate) fn llama3_factors(&self, dimensions: u64) -> Result<Option<Vec<f32>>> {
        self.llama3_factors_by(dimensions, 8.0)
    }

    /// The same with another default of `factor`.
    pub(crate) fn llama3_factors_by(&self, dimensions: u64, default: f64) -> Result<Option<Vec<f32>>> {
        let Some(Llama3 { factor, original, low, high, powers }) = self.llama3(dimensions, default)? else {
            return Ok(None);
        };
        let value = |power: f32| {
            let wavelength = (1.0 / (1.0 / power)) * (2.0 * std::f64::consts::PI) as f32;
            if f64::from(wavelength) < original / high {
                return 1.0;
            }
            if f64::from(wavelength) > original / low {
                return factor as f32;
            }
            let smooth = ((1.0 / wavelength) * original as f32 - low as f32) / (high - low) as f32;
            1.0 / ((1.0 - smooth) / factor as f32 + smooth)
        };
        Ok(Some(powers.into_iter().map(value).collect()))
    }

    /// The same of converters that take every frequency from the tensor first, and compute in F64.
    pub(crate) fn llama3_factors_in_f64(&self, dimensions: u64) -> Result<Option<Vec<f32>>> {
        let Some(Llama3 { factor, original, low, high, powers }) = self.llama3(dimensions, 8.0)? else {
            return Ok(None);
        };
        let value = |power: f32| {
            let wavelength = 2.0 * std::f64::consts::PI / f64::from(1.0 / power);
            if wavelength < original / high {
                return 1.0;
            }
            if wavelength > original / low {
                return factor as f32;
            }
            let smooth = (original / wavelength - low) / (high - low);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        Ok(Some(powers.into_iter().map(value).collect()))
    }

    fn llama3(&self, dimensions: u64, default: f64) -> Result<Option<Llama3>> {
        if self.kind() != "llama3" {
            return Ok(None);
        }
        let positive = |key: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(value),
            false => Err(AnamnesisError::parse(format!("config.json: {} is {value}", quoted(key)))),
        };
        let of = |key: &str, default: f64| positive(key, self.real(key)?.unwrap_or(default));
        let theta = positive("rope_theta", self.theta()?.unwrap_or(10_000.0))? as f32;
        if !theta.is_normal() {
            return Err(AnamnesisError::parse(format!("config.json: {} is {theta}", quoted("rope_theta"))));
        }
        let exponents: Vec<f32> = (0..dimensions).step_by(2).map(|index| index as f32 / dimensions as f32).collect();
        Ok(Some(Llama3 {
            factor: of("factor", default)?,
            original: of("original_max_position_embeddings", 8192.0)?,
            low: of("low_freq_factor", 1.0)?,
            high: of("high_freq_factor", 4.0)?,
            powers: sleef::powers(theta, &exponents),
        }))
    }
}

/// The scaling of Llama 3, and the inverse frequencies of the pairs of dimensions.
struct Llama3 {
    factor: f64,
    original: f64,
    low: f64,
    high: f64,
    powers: Vec<f32>,
}
