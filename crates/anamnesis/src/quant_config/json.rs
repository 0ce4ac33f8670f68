//! JSON values with members in document order, because rules depend on it, and with duplicate keys, because readers
//! differ in which one they use.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Object(Box<Members>),
}

/// The members of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Members {
    entries: Vec<(String, Json)>,
    /// Indices into `entries`, sorted by key.
    by_key: Vec<u32>,
}

/// Most values of one description, at all depths.
pub(super) const MAX_VALUES: usize = 1 << 21;

impl Json {
    /// A short form of the value for messages.
    pub(super) fn brief(&self) -> String {
        match self {
            Self::Object(members) => format!("an object of {}", members.len()),
            Self::List(items) if items.len() > 4 => format!("a list of {}", items.len()),
            other => other.to_string(),
        }
    }

    /// The members of an object.
    pub(super) fn members(&self) -> Option<&Members> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }
}

impl Members {
    pub(super) fn new(entries: Vec<(String, Json)>) -> Self {
        let mut by_key: Vec<u32> = (0..entries.len() as u32).collect();
        by_key.sort_by(|&a, &b| entries[a as usize].0.cmp(&entries[b as usize].0));
        Self { entries, by_key }
    }

    /// The value of a key, the last one if it is duplicated.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        let after = self.by_key.partition_point(|&place| self.entries[place as usize].0.as_str() <= key);
        let (found, value) = &self.entries[self.by_key[after.checked_sub(1)?] as usize];
        (found == key).then_some(value)
    }

    /// Keys and values in document order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Json)> {
        self.entries.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A duplicate key.
    pub(super) fn repeated(&self) -> Option<&str> {
        let key = |place: u32| self.entries[place as usize].0.as_str();
        self.by_key.windows(2).find(|pair| key(pair[0]) == key(pair[1])).map(|pair| key(pair[0]))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{}", serde_json::Value::from(text.as_str())),
            Self::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if place == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (place, (key, value)) in members.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{value}", serde_json::Value::from(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Deserialises one value; the cell counts down from [`MAX_VALUES`].
#[derive(Clone, Copy)]
pub(super) struct JsonSeed<'a>(pub(super) &'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for JsonSeed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let remaining = self.0.get().checked_sub(1).ok_or_else(|| {
            D::Error::custom(format_args!("the quantisation is described by more than {MAX_VALUES} values"))
        })?;
        self.0.set(remaining);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonSeed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        // serde_json yields only finite numbers.
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key()? {
            entries.push((key, map.next_value_seed(self)?));
        }
        Ok(Json::Object(Box::new(Members::new(entries))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> serde_json::Result<Json> {
        JsonSeed(&Cell::new(MAX_VALUES)).deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn values_round_trip_in_document_order() {
        let text = r#"{"z":[1,-2,0.5,1e300],"a":{"b":null,"":true},"é":"q\"\n"}"#;
        let json = read(text).unwrap();
        assert_eq!(json.to_string(), text.replace("1e300", "1e+300"));
        let members = json.members().unwrap();
        assert_eq!(members.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["z", "a", "é"]);
        assert_eq!(members.get("é"), Some(&Json::Text("q\"\n".to_owned())));
        assert!(members.get("b").is_none() && members.get("").is_none() && members.get("zz").is_none());
    }

    #[test]
    fn a_duplicate_key_is_reported_and_its_last_value_wins() {
        let json = read(r#"{"b":1,"a":2,"b":3}"#).unwrap();
        let members = json.members().unwrap();
        assert_eq!((members.repeated(), members.len()), (Some("b"), 3));
        assert_eq!(members.get("b").unwrap().to_string(), "3");
        assert!(read(r#"{"b":1,"a":2}"#).unwrap().members().unwrap().repeated().is_none());
    }

    #[test]
    fn too_many_values_are_refused() {
        let seed = Cell::new(10);
        let text = format!("[{}1]", "1,".repeat(10));
        assert!(JsonSeed(&seed).deserialize(&mut serde_json::Deserializer::from_str(&text)).is_err());
        assert!(read(&"[".repeat(1000)).is_err());
    }
}
