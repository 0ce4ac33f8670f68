//! Keys of statistics, and conditions on them: `nan>0`, `max>=100`.

use anamnesis::TensorStats;
use anamnesis::error::printable;

use crate::exit::Failure;
use crate::suggest::{closest, did_you_mean};

/// Maximum characters of a quoted condition.
const MAX_NAME_CHARS: usize = 512;

/// A property of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Name,
    Values,
    Min,
    Max,
    Mean,
    Deviation,
    Zeros,
    Nan,
    Infinite,
    Outliers,
}

/// Names of keys; others are accepted too.
const KEYS: [(&str, Key); 10] = [
    ("name", Key::Name),
    ("values", Key::Values),
    ("min", Key::Min),
    ("max", Key::Max),
    ("mean", Key::Mean),
    ("deviation", Key::Deviation),
    ("zeros", Key::Zeros),
    ("nan", Key::Nan),
    ("infinite", Key::Infinite),
    ("outliers", Key::Outliers),
];
const OTHER_NAMES: [(&str, Key); 6] = [
    ("size", Key::Values),
    ("count", Key::Values),
    ("std", Key::Deviation),
    ("zero", Key::Zeros),
    ("inf", Key::Infinite),
    ("outlier", Key::Outliers),
];

impl Key {
    pub(super) fn parse(text: &str, option: &str) -> Result<Self, Failure> {
        let lower = text.trim().to_ascii_lowercase();
        let known = KEYS.iter().chain(&OTHER_NAMES).find(|(name, _)| *name == lower);
        known.map(|(_, key)| *key).ok_or_else(|| {
            let names = KEYS.map(|(name, _)| name);
            let meant = did_you_mean(&closest(&lower, names, 2));
            let advice = meant.unwrap_or_else(|| format!("keys are {}", names.join(", ")));
            Failure::Usage(format!("{option}: {:?} is not a key; {advice}", printable(text, MAX_NAME_CHARS)))
        })
    }

    /// The value of a tensor; `None` if it has none, such as the mean of no values.
    pub(super) fn of(self, tensor: &TensorStats) -> Option<f64> {
        let finite = tensor.finite;
        match self {
            Self::Name => None,
            Self::Values => Some(tensor.values as f64),
            Self::Min => finite.map(|finite| finite.min),
            Self::Max => finite.map(|finite| finite.max),
            Self::Mean => finite.map(|finite| finite.mean),
            Self::Deviation => finite.map(|finite| finite.deviation),
            Self::Zeros => Some(tensor.zeros as f64),
            Self::Nan => Some(tensor.nan as f64),
            Self::Infinite => Some(tensor.infinite as f64),
            Self::Outliers => Some(tensor.outliers as f64),
        }
    }
}

/// A comparison of a key with a number.
pub(super) struct Condition {
    pub key: Key,
    operator: &'static str,
    number: f64,
    /// As it is shown.
    pub text: String,
}

/// Operators, longer ones first.
const OPERATORS: [&str; 7] = [">=", "<=", "!=", "==", ">", "<", "="];

impl Condition {
    /// `KEY OPERATOR NUMBER`; a key alone means more than zero, if `is_count` allows it.
    fn parse(text: &str, option: &str, is_count: bool) -> Result<Self, Failure> {
        let malformed = || {
            let shown = printable(text, MAX_NAME_CHARS);
            Failure::Usage(format!("{option}: {shown:?} is not a condition; write one like nan>0 or max>=100"))
        };
        let found = OPERATORS.iter().filter_map(|operator| Some((text.find(operator)?, *operator)));
        // The first operator of the text, and the longest one there.
        let Some((at, operator)) = found.min_by_key(|(at, operator)| (*at, 2 - operator.len())) else {
            let key =
                Key::parse(text, option).and_then(|key| if key == Key::Name { Err(malformed()) } else { Ok(key) })?;
            let text = format!("{}>0", text.trim());
            return if is_count { Ok(Self { key, operator: ">", number: 0.0, text }) } else { Err(malformed()) };
        };
        let (key, number) = (&text[..at], text[at + operator.len()..].trim());
        let key = if key.trim().is_empty() { Err(malformed()) } else { Key::parse(key, option) }?;
        let number = number.parse().ok().filter(|number: &f64| !number.is_nan()).ok_or_else(malformed)?;
        if key == Key::Name {
            return Err(malformed());
        }
        Ok(Self { key, operator, number, text: printable(text.trim(), MAX_NAME_CHARS) })
    }

    pub(super) fn compares(&self, value: f64) -> bool {
        match self.operator {
            ">" => value > self.number,
            ">=" => value >= self.number,
            "<" => value < self.number,
            "<=" => value <= self.number,
            "!=" => value != self.number,
            _ => value == self.number,
        }
    }

    pub(super) fn holds(&self, tensor: &TensorStats) -> bool {
        self.key.of(tensor).is_some_and(|value| self.compares(value))
    }
}

/// Conditions, each of which may be a list separated by commas.
pub(super) fn all_conditions(texts: &[String], option: &str, is_count: bool) -> Result<Vec<Condition>, Failure> {
    let parts = texts.iter().flat_map(|text| text.split(','));
    parts.map(|text| Condition::parse(text, option, is_count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Condition, Failure> {
        Condition::parse(text, "--where", false)
    }

    #[test]
    fn operators_compare() {
        for (text, holds) in [
            ("nan>2", [false, false, true]),
            ("nan>=2", [false, true, true]),
            ("nan < 2", [true, false, false]),
            ("NaN<=2", [true, true, false]),
            ("nan=2", [false, true, false]),
            ("nan==2", [false, true, false]),
            ("nan!=2", [true, false, true]),
            ("nan>-1e3", [true, true, true]),
        ] {
            let condition = parse(text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert_eq!([1.0, 2.0, 3.0].map(|value| condition.compares(value)), holds, "{text}");
        }
    }

    #[test]
    fn malformed_conditions_are_refused() {
        for text in ["", "nan", ">0", "nan>", "nan>x", "nan>>0", "nan>0>1", "nam>0", "name=1", "nan>nan", "nan=<1"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("nam>0").is_err_and(|failure| failure.to_string().ends_with("nan?")));
        assert!(Condition::parse("nan", "--fail-on", true).is_ok_and(|condition| condition.text == "nan>0"));
    }
}
