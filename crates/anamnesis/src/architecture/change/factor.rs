//! Factors of the configuration that values are multiplied by.

use crate::architecture::config::Config;
use crate::error::Result;

/// A factor of the configuration: a key, an item of a list, or a function of it and the layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Factor {
    Key(&'static str),
    Item(&'static str, usize),
    Derived(fn(&Config, Option<u64>) -> Result<f32>),
}

impl PartialEq for Factor {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a == b,
            (Self::Item(a, i), Self::Item(b, j)) => a == b && i == j,
            (Self::Derived(a), Self::Derived(b)) => std::ptr::fn_addr_eq(*a, *b),
            _ => false,
        }
    }
}

impl Factor {
    pub(super) fn of(self, config: &Config, layer: Option<u64>) -> Result<f32> {
        let value = match self {
            Self::Key(key) => config.real(&[key])?,
            Self::Item(key, index) => config.reals(key)?.and_then(|list| list.get(index).copied()),
            Self::Derived(derive) => return derive(config, layer),
        };
        Ok(value.unwrap_or(1.0) as f32)
    }
}
