//! The configuration of a model: `config.json` with the defaults of its class.

use serde_json::{Map, Value};

use super::defaults::{ClassDefault, DefaultValue};
use super::key_names::{FFN_KEYS, HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS, LAYER_KEYS, USUAL_KEYS};
use super::language_model::flattened;
use super::measured::Measured;
use super::rope::Rope;
use super::sentence_transformers::DenseModule;
use super::value::{as_count, as_real, as_reals, missing, unexpected};
use crate::error::{AnamnesisError, Result, quoted};

/// The configuration of one model.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    values: Map<String, Value>,
    rope: Rope,
    /// The number of tokens in the vocabulary, once it is read.
    pub(crate) vocabulary: Option<u64>,
    /// The number of layers for multi-token prediction, after the others.
    pub(crate) nextn_layers: u64,
    /// Whether layers for multi-token prediction are left out.
    pub(crate) is_without_mtp: bool,
    /// The ids of the tokens that are labels of a reranker.
    pub(crate) label_ids: Option<Vec<u64>>,
    /// Whether only the layers for multi-token prediction are written, with the tensors they share with the others.
    pub(crate) is_only_mtp: bool,
    /// The dense modules behind an encoder.
    pub(crate) dense_modules: Vec<DenseModule>,
    /// Tensors whose values were read.
    pub(crate) measured: Measured,
}

/// The most layers that a list of metadata is made for.
const MOST_LAYERS: u64 = 1 << 16;

impl Config {
    /// A configuration with the defaults of its class.
    pub(crate) fn new(raw: &Map<String, Value>, defaults: &[ClassDefault]) -> Result<Self> {
        let mut values = flattened(raw);
        let set = |values: &Map<String, Value>, key: &str| values.contains_key(key);
        for (key, default) in defaults {
            let value = match default {
                DefaultValue::Count(count) if !set(&values, key) => Value::from(*count),
                DefaultValue::Real(real) if !set(&values, key) => Value::from(*real),
                DefaultValue::Flag(flag) if !set(&values, key) => Value::from(*flag),
                _ => continue,
            };
            values.insert((*key).to_owned(), value);
        }
        let mut config = Self {
            rope: Rope::of(&values)?,
            values,
            vocabulary: None,
            nextn_layers: 0,
            is_without_mtp: false,
            label_ids: None,
            is_only_mtp: false,
            dense_modules: Vec::new(),
            measured: Measured::default(),
        };
        for (key, default) in defaults {
            let value = match default {
                _ if config.get(key).is_some() => None,
                DefaultValue::Same(other) => config.get(other).cloned(),
                DefaultValue::Quotient(whole, parts) => config.quotient(whole, parts)?.map(Value::from),
                _ => None,
            };
            if let Some(value) = value {
                config.values.insert((*key).to_owned(), value);
            }
        }
        Ok(config)
    }

    /// A configuration that is taken as it is: that of a projector, with the objects of its towers.
    pub(crate) fn of_projector(values: Map<String, Value>) -> Self {
        Self {
            values,
            rope: Rope::default(),
            vocabulary: None,
            nextn_layers: 0,
            is_without_mtp: false,
            label_ids: None,
            is_only_mtp: false,
            dense_modules: Vec::new(),
            measured: Measured::default(),
        }
    }

    /// A value that is not `null`. Dots separate the keys of objects and those in them.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let mut keys = key.split('.');
        let outer = self.values.get(keys.next()?);
        let value = keys.fold(outer, |value, key| value?.get(key));
        value.filter(|value| !value.is_null())
    }

    /// The number of layers, without those for multi-token prediction.
    pub(crate) fn layers(&self) -> Result<u64> {
        self.count(LAYER_KEYS)?.ok_or_else(|| missing(self.key_of(LAYER_KEYS)))
    }

    /// Which of several keys for the same the configuration has, even without a value; the usual or first one, if it has none.
    pub(crate) fn key_of<'a>(&self, keys: &[&'a str]) -> &'a str {
        let has = |key: &str| match key.rsplit_once('.') {
            Some((outer, inner)) => self.get(outer).is_some_and(|object| object.get(inner).is_some()),
            None => self.values.contains_key(key),
        };
        let own = keys.iter().find(|key| has(key)).or_else(|| keys.iter().find(|key| USUAL_KEYS.contains(key)));
        own.or(keys.first()).copied().unwrap_or("")
    }

    /// A list of keys for messages, with the names that the configuration has for them.
    pub(crate) fn own_names(&self, keys: &str) -> String {
        let own = |key| {
            let group = [HIDDEN_KEYS, HEAD_KEYS, KV_HEAD_KEYS, FFN_KEYS].into_iter().find(|group| group.contains(&key));
            group.and_then(|group| group.iter().copied().find(|other| self.values.contains_key(*other))).unwrap_or(key)
        };
        keys.split(", ").map(own).collect::<Vec<_>>().join(", ")
    }

    /// Which of several keys has a value; the first, if none has.
    pub(crate) fn present<'a>(&self, keys: &[&'a str]) -> &'a str {
        keys.iter().find(|key| self.get(key).is_some()).or(keys.first()).copied().unwrap_or("")
    }

    /// Replaces the number of layers.
    pub(super) fn set_layers(&mut self, layers: u64) {
        let key = self.key_of(LAYER_KEYS).to_owned();
        self.values.insert(key, layers.into());
    }

    /// The number of layers, with those for multi-token prediction.
    pub(crate) fn all_layers(&self) -> Result<u64> {
        Ok(self.layers()?.saturating_add(self.nextn_layers))
    }

    /// The layers with a property, as a list of as many items as there are layers.
    pub(crate) fn per_layer<T>(&self, of: impl Fn(u64) -> Result<T>) -> Result<Vec<T>> {
        let layers = self.all_layers()?;
        if layers > MOST_LAYERS {
            let keys = format!("{}, num_nextn_predict_layers, mtp_num_hidden_layers", self.key_of(LAYER_KEYS));
            let why = format!("config.json has {layers} layers, at most {MOST_LAYERS} are possible ({keys})");
            return Err(AnamnesisError::parse(why));
        }
        (0..layers).map(of).collect()
    }

    /// A key that is a list of texts.
    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let wrong = |value: &Value| unexpected(key, value, "a list of texts");
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().ok_or_else(|| wrong(value))?;
        items.iter().map(|item| item.as_str().ok_or_else(|| wrong(value))).collect::<Result<_>>().map(Some)
    }

    /// The item of a list of texts that belongs to a layer; `None` without the list or beyond its end.
    pub(crate) fn text_of_layer(&self, key: &str, layer: u64) -> Result<Option<&str>> {
        let wrong = |value: &Value| unexpected(key, value, "a list of texts");
        let Some(value) = self.get(key) else { return Ok(None) };
        let item = value.as_array().ok_or_else(|| wrong(value))?.get(usize::try_from(layer).unwrap_or(usize::MAX));
        item.map(|item| item.as_str().ok_or_else(|| wrong(value))).transpose()
    }

    /// A key that is a list of counts.
    pub(crate) fn counts(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().ok_or_else(|| unexpected(key, value, "a list of counts"))?;
        items.iter().map(|item| as_count(key, item)).collect::<Result<_>>().map(Some)
    }

    /// The item of a list of counts that belongs to a layer.
    pub(crate) fn count_of_layer(&self, key: &str, layer: u64) -> Result<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().ok_or_else(|| unexpected(key, value, "a list of counts"))?;
        let item = items.get(usize::try_from(layer).unwrap_or(usize::MAX));
        item.map(|item| as_count(key, item)).transpose()
    }

    /// An item of a list of counts that must have it.
    pub(crate) fn needed_item(&self, key: &str, place: u64) -> Result<u64> {
        let missing = || AnamnesisError::parse(format!("config.json: {} has no item {place}", quoted(key)));
        self.count_of_layer(key, place)?.ok_or_else(missing)
    }

    /// A number of a required key.
    pub(crate) fn needed_real(&self, key: &str) -> Result<f64> {
        self.real(&[key])?.ok_or_else(|| missing(key))
    }

    /// A flag that is set; false without it.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool> {
        Ok(self.flag(key)?.unwrap_or(false))
    }

    pub(crate) const fn rope(&self) -> &Rope {
        &self.rope
    }

    /// The first of these keys that has a value, as a count.
    pub(crate) fn count(&self, keys: &[&str]) -> Result<Option<u64>> {
        let found = keys.iter().find_map(|key| Some((*key, self.get(key)?)));
        found.map(|(key, value)| as_count(key, value)).transpose()
    }

    /// The count of a required key.
    pub(crate) fn needed(&self, key: &str) -> Result<u64> {
        self.count(&[key])?.ok_or_else(|| missing(key))
    }

    /// The count of a required key that must not be zero.
    pub(crate) fn divisor(&self, key: &str) -> Result<u64> {
        match self.needed(key)? {
            0 => Err(AnamnesisError::parse(format!("config.json: {} is 0", quoted(key)))),
            count => Ok(count),
        }
    }

    /// The first of these keys that has a value, as a number.
    pub(crate) fn real(&self, keys: &[&str]) -> Result<Option<f64>> {
        let found = keys.iter().find_map(|key| Some((*key, self.get(key)?)));
        found.map(|(key, value)| as_real(key, value)).transpose()
    }

    /// A key that is true or false.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let wrong = |value: &Value| unexpected(key, value, "true or false");
        self.get(key).map(|value| value.as_bool().ok_or_else(|| wrong(value))).transpose()
    }

    /// A key that is text.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        let wrong = |value: &Value| unexpected(key, value, "text");
        self.get(key).map(|value| value.as_str().ok_or_else(|| wrong(value))).transpose()
    }

    /// A key that is a list of numbers.
    pub(crate) fn reals(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.get(key).map(|value| as_reals(key, value)).transpose()
    }

    /// One count divided by another, if both are set.
    fn quotient(&self, whole: &str, parts: &str) -> Result<Option<u64>> {
        let (Some(_), Some(_)) = (self.get(whole), self.get(parts)) else { return Ok(None) };
        Ok(Some(self.needed(whole)? / self.divisor(parts)?))
    }

    /// `head_dim`, or the hidden size divided by the number of heads.
    pub(crate) fn head_size(&self) -> Result<u64> {
        match self.count(&["head_dim"])? {
            Some(size) => Ok(size),
            None => self.share_of_width(),
        }
    }

    /// The hidden size divided by the number of heads.
    pub(crate) fn share_of_width(&self) -> Result<u64> {
        let width = self.count(HIDDEN_KEYS)?.ok_or_else(|| missing("hidden_size"))?;
        match self.count(HEAD_KEYS)? {
            None => Err(missing("num_attention_heads")),
            Some(0) => Err(AnamnesisError::parse(format!("config.json: {} is 0", quoted("num_attention_heads")))),
            Some(heads) => Ok(width / heads),
        }
    }
}
