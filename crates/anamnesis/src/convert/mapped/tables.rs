//! Tables of integers that GGUF stores as integers: the experts of tokens, the tokens of a draft model's vocabulary.

use std::collections::HashSet;
use std::sync::Arc;

use super::Model;
use crate::architecture::Mapped;
use crate::architecture::config::Config;
use crate::architecture::reshape::TableDecoder;
use crate::architecture::tree::Tree;
use crate::architecture::types::IntegerTable;
use crate::convert::inputs::SelectedTensors;
use crate::convert::outputs::Planner;
use crate::error::{AnamnesisError, Result};

/// The most tokens of a draft model's vocabulary.
const MOST_TOKENS: u64 = 1 << 24;

impl Model<'_> {
    /// The kind of a tensor that is a table of integers.
    pub(super) fn table(&self, mapped: &Mapped) -> Option<IntegerTable> {
        self.architecture.types().table(&mapped.name)
    }

    /// Plans a table.
    pub(super) fn plan_table(
        &self,
        mapped: &Mapped,
        kind: IntegerTable,
        (selected, config): (&SelectedTensors, &Config),
        planner: &mut Planner<'_, '_>,
    ) -> Result<()> {
        let unfit = || AnamnesisError::parse("it is not stored as integers").in_tensor(&mapped.name);
        let Tree::Tensor(index) = mapped.tree else { return Err(unfit()) };
        let tensor = &selected.tensors[index];
        let decoder = tensor.stored.and_then(|stored| TableDecoder::of(kind, stored)).ok_or_else(unfit)?;
        let id = *tensor.parts.first().ok_or_else(unfit)?;
        let stored = self.checkpoint.catalog.get(id);
        if kind == IntegerTable::TokenIds {
            if stored.elements() > MOST_TOKENS {
                let why = format!("it has {} values, at most {MOST_TOKENS} are possible", stored.elements());
                return Err(AnamnesisError::parse(why).in_tensor(&tensor.name));
            }
            let mut bytes = vec![0; stored.extent.bytes as usize];
            self.checkpoint.sources[stored.extent.file as usize].read_at(stored.extent.offset, &mut bytes)?;
            check_tokens(&decoder.stored(&bytes), config).map_err(|error| error.in_tensor(&tensor.name))?;
        }
        planner.table(mapped, kind.dtype(), (Arc::new(decoder), vec![stored.extent]), vec![id])
    }
}

/// Refuses differences that do not give a token of the target each.
fn check_tokens(differences: &[i64], config: &Config) -> Result<()> {
    let tokens = config.needed("target_config.vocab_size")?;
    let mut known = HashSet::with_capacity(differences.len());
    for (place, difference) in (0i64..).zip(differences) {
        let id = place.saturating_add(*difference);
        if u64::try_from(id).map_or(true, |id| id >= tokens) {
            return Err(AnamnesisError::parse(format!("its value {place} gives token {id}, the target has {tokens}")));
        }
        if !known.insert(id) {
            return Err(AnamnesisError::parse(format!("two of its values give token {id}")));
        }
    }
    Ok(())
}
