//! The options that apply to a module, with typed access and the place of each. A value of the wrong type is an error,
//! never a missing value.

use super::json::{Json, Members};
use super::known::{Kind, pair, wrong};
use super::place::Place;
use crate::error::{AnamnesisError, Result};

/// An object with options, and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) members: &'a Members,
    pub(super) place: Place<'a>,
}

/// The options that apply to a module, or to all modules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Args<'a> {
    /// The most specific first.
    pub(super) layers: Vec<Layer<'a>>,
}

/// A value with its key and place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    pub(super) value: &'a Json,
    pub(super) place: Place<'a>,
    key: &'a str,
}

impl<'a> Args<'a> {
    /// The value of the first of these keys that is present in the most specific layer; `null` only if every layer has
    /// `null` or nothing.
    pub(super) fn get(&self, keys: &[&'a str]) -> Option<Located<'a>> {
        let found = |layer: &Layer<'a>| {
            let of_key = |&key: &&'a str| Some(Located { value: layer.members.get(key)?, place: layer.place, key });
            keys.iter().filter_map(of_key).min_by_key(|found| *found.value == Json::Null)
        };
        let mut all = self.layers.iter().filter_map(found).peekable();
        let first = all.peek().copied();
        all.find(|found| *found.value != Json::Null).or(first)
    }

    /// The string of the first of these keys that is present.
    pub(crate) fn text(&self, keys: &[&'a str]) -> Result<Option<&'a str>> {
        self.read(keys, Kind::Text, |value| match value {
            Json::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The boolean of the first of these keys that is present.
    pub(crate) fn flag(&self, keys: &[&'a str]) -> Result<Option<bool>> {
        self.read(keys, Kind::Flag, |value| match value {
            Json::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The integer of the first of these keys that is present, and its place.
    pub(crate) fn integer(&self, keys: &[&'a str]) -> Result<Option<Integer<'a>>> {
        let value = self.read(keys, Kind::Integer, integer)?;
        let place = self.get(keys).map(|found| found.place);
        Ok(value.zip(place).map(|(value, place)| Integer { value, place }))
    }

    /// [`integer`](Self::integer), for members in which the libraries accept no `null`.
    pub(crate) fn needed_integer(&self, keys: &[&'a str]) -> Result<Option<Integer<'a>>> {
        match self.get(keys) {
            Some(found) if *found.value == Json::Null => Err(found.wrong(Kind::Integer)),
            _ => self.integer(keys),
        }
    }

    /// The integers in the list of the first of these keys that is present.
    pub(crate) fn integers(&self, keys: &[&'a str]) -> Result<Option<Vec<i64>>> {
        self.read(keys, Kind::Integers, |value| match value {
            Json::List(items) => items.iter().map(integer).collect(),
            _ => None,
        })
    }

    /// The number of the first of these keys that is present.
    pub(crate) fn number(&self, keys: &[&'a str]) -> Result<Option<f64>> {
        self.read(keys, Kind::Number, |value| match value {
            Json::Number(number) => number.as_f64(),
            _ => None,
        })
    }

    /// The pair of positive integers of the first of these keys that is present.
    pub(crate) fn pair(&self, keys: &[&'a str]) -> Result<Option<(u64, u64)>> {
        self.read(keys, Kind::Block, pair)
    }

    /// The options inside the object of a key; empty if there is none.
    pub(crate) fn inside(&self, key: &'a str) -> Self {
        let object = |layer: &Layer<'a>| {
            let members = layer.members.get(key)?.members()?;
            Some(Layer { members, place: layer.place.with(key) })
        };
        Self { layers: self.layers.iter().filter_map(object).collect() }
    }

    /// The strings under `key` at any depth below `outer`, and the value of `outer` itself if it is a string. Types
    /// written as objects (torchao) have their string in `_data`.
    pub(crate) fn texts_within(&self, outer: &'a str, key: &str) -> Vec<&'a str> {
        let mut texts = Vec::new();
        let mut pending: Vec<(bool, &'a Json)> =
            self.layers.iter().filter_map(|layer| Some((true, layer.members.get(outer)?))).collect();
        while let Some((is_wanted, value)) = pending.pop() {
            match value {
                Json::Text(text) if is_wanted => texts.push(text.as_str()),
                Json::Object(members) => pending
                    .extend(members.iter().map(|(name, value)| (name == key || (is_wanted && name == "_data"), value))),
                Json::List(items) => pending.extend(items.iter().map(|item| (is_wanted, item))),
                _ => {}
            }
        }
        texts
    }

    /// The options inside each object of the object of a key.
    pub(crate) fn inside_each(&self, key: &'a str) -> Vec<Self> {
        let objects = self.layers.iter().filter_map(|layer| Some((layer.members.get(key)?.members()?, layer.place)));
        let each = objects.flat_map(|(members, place)| {
            let inner = move |(name, value): (&'a str, &'a Json)| {
                Some(Self { layers: vec![Layer { members: value.members()?, place: place.with(key).with(name) }] })
            };
            members.iter().filter_map(inner)
        });
        each.collect()
    }

    fn read<T>(&self, keys: &[&'a str], kind: Kind, value: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>> {
        match self.get(keys) {
            None => Ok(None),
            Some(found) if *found.value == Json::Null => Ok(None),
            Some(found) => value(found.value).map(Some).ok_or_else(|| found.wrong(kind)),
        }
    }

    /// The place of the first of these keys that is set, including the key.
    pub(crate) fn place_of(&self, keys: &[&'a str]) -> Option<String> {
        let found = self.get(keys).filter(|found| *found.value != Json::Null)?;
        Some(found.place.with(found.key).to_string())
    }

    /// The most specific place.
    pub(crate) fn place(&self) -> Option<Place<'a>> {
        self.layers.first().map(|layer| layer.place)
    }
}

fn integer(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

/// An integer and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Integer<'a> {
    pub(crate) value: i64,
    pub(crate) place: Place<'a>,
}

impl Located<'_> {
    fn wrong(&self, kind: Kind) -> AnamnesisError {
        AnamnesisError::parse(wrong(self.place.with(self.key), self.value, kind))
    }
}
