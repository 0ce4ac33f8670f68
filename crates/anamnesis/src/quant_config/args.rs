//! What is said about a module, member by member: typed, with the place that says it. A value of another type than a
//! member can have is an error, never "not said".

use super::json::{Json, Members};
use super::known::{Kind, pair, wrong};
use super::place::Place;
use crate::error::{AnamnesisError, Result};

/// An object that says something, and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) members: &'a Members,
    pub(super) place: Place<'a>,
}

/// The members that apply to a module, or to all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Args<'a> {
    /// The most specific first.
    pub(super) layers: Vec<Layer<'a>>,
}

/// A value, its key, and where both stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) value: &'a Json,
    pub(super) place: Place<'a>,
    key: &'a str,
}

impl<'a> Args<'a> {
    /// What the most specific place says that has one of these keys; `null` only where nothing else is said.
    pub(super) fn get(&self, keys: &[&'a str]) -> Option<Said<'a>> {
        let said = |layer: &Layer<'a>| {
            let of_key = |&key: &&'a str| Some(Said { value: layer.members.get(key)?, place: layer.place, key });
            keys.iter().filter_map(of_key).min_by_key(|said| *said.value == Json::Null)
        };
        let mut all = self.layers.iter().filter_map(said).peekable();
        let first = all.peek().copied();
        all.find(|said| *said.value != Json::Null).or(first)
    }

    /// The text of the first key that is there.
    pub(crate) fn text(&self, keys: &[&'a str]) -> Result<Option<&'a str>> {
        self.read(keys, Kind::Text, |value| match value {
            Json::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The flag of the first key that is there.
    pub(crate) fn flag(&self, keys: &[&'a str]) -> Result<Option<bool>> {
        self.read(keys, Kind::Flag, |value| match value {
            Json::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The whole number of the first key that is there, and where it is said.
    pub(crate) fn integer(&self, keys: &[&'a str]) -> Result<Option<Integer<'a>>> {
        let value = self.read(keys, Kind::Integer, |value| match value {
            Json::Number(number) => number.as_i64(),
            _ => None,
        })?;
        let place = self.get(keys).map(|said| said.place);
        Ok(value.zip(place).map(|(value, place)| Integer { value, place }))
    }

    /// [`integer`](Self::integer) where the libraries that read this member take no `null`.
    pub(crate) fn needed_integer(&self, keys: &[&'a str]) -> Result<Option<Integer<'a>>> {
        match self.get(keys) {
            Some(said) if *said.value == Json::Null => Err(said.wrong(Kind::Integer)),
            _ => self.integer(keys),
        }
    }

    /// The number of the first key that is there.
    pub(crate) fn number(&self, keys: &[&'a str]) -> Result<Option<f64>> {
        self.read(keys, Kind::Number, |value| match value {
            Json::Number(number) => number.as_f64(),
            _ => None,
        })
    }

    /// The pair of positive numbers of the first key that is there.
    pub(crate) fn pair(&self, keys: &[&'a str]) -> Result<Option<(u64, u64)>> {
        self.read(keys, Kind::Block, pair)
    }

    /// What stands in the object that a key names, where there is one.
    pub(crate) fn inside(&self, key: &'a str) -> Self {
        let object = |layer: &Layer<'a>| {
            let members = layer.members.get(key)?.members()?;
            Some(Layer { members, place: layer.place.with(key) })
        };
        Self { layers: self.layers.iter().filter_map(object).collect() }
    }

    /// The texts under a key at any depth of the value of another, and the value of that itself where it is a text. Where types are
    /// written as objects, the text in `_data` counts.
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

    /// What stands in each of the objects that the object of a key holds.
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
            Some(said) if *said.value == Json::Null => Ok(None),
            Some(said) => value(said.value).map(Some).ok_or_else(|| said.wrong(kind)),
        }
    }

    /// Where one of these keys is said, with the key.
    pub(crate) fn place_of(&self, keys: &[&'a str]) -> Option<String> {
        let said = self.get(keys).filter(|said| *said.value != Json::Null)?;
        Some(said.place.with(said.key).to_string())
    }

    /// The most specific place.
    pub(crate) fn place(&self) -> Option<Place<'a>> {
        self.layers.first().map(|layer| layer.place)
    }
}

/// A whole number, and where it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Integer<'a> {
    pub(crate) value: i64,
    pub(crate) place: Place<'a>,
}

impl Said<'_> {
    fn wrong(&self, kind: Kind) -> AnamnesisError {
        AnamnesisError::parse(wrong(self.place.with(self.key), self.value, kind))
    }
}
