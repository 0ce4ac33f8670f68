//! What llama.cpp wants of a tensor that checkpoints have otherwise, by name: each becomes steps once the shape is known.

use super::config::Config;
use super::tree::{Formula, Step, Tree};
use crate::error::{AnamnesisError, Result, quoted};

/// A change by what it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// It stays as it is.
    Same,
    /// It is left out.
    LeftOut,
    /// Its rows are paired for rotary positions, in as many heads as this key says.
    Rotary(&'static str),
    /// All experts of a layer become one tensor.
    Stacked,
    /// The first half of the rows of every matrix.
    FirstHalf,
    /// The second half.
    SecondHalf,
    /// Rows and columns are exchanged.
    Transposed,
    /// Rows and columns are exchanged, then the rows in even places taken.
    TurnedEven,
    /// The same in odd places.
    TurnedOdd,
    /// The values in even places.
    Even,
    /// The values in odd places.
    Odd,
    /// The rows of compressed keys, turned in each head.
    KeyRows,
    /// The rows of compressed values in each head.
    ValueRows,
    /// One is added.
    PlusOne,
    /// The negative exponential.
    NegativeExponential,
    /// The same as a column.
    NegativeExponentialColumn,
    /// A vector becomes a column.
    Column,
    /// A vector becomes a row for each of as many groups as this key says.
    Groups(&'static str),
    /// The middle dimension of three, which is 1, goes.
    WithoutMiddle,
    /// Rows behind the vocabulary go.
    CutToVocabulary,
    /// It is multiplied by these keys, one after the other.
    Times(&'static [Factor]),
    /// It is multiplied by the first, and its parts by the parts of a state-space layer.
    TimesStateSpace(Factor),
}

/// A factor of the configuration: a key, or an item of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Factor {
    Key(&'static str),
    Item(&'static str, usize),
}

impl Factor {
    fn of(self, config: &Config) -> Result<f32> {
        let value = match self {
            Self::Key(key) => config.real(&[key])?,
            Self::Item(key, index) => config.reals(key)?.and_then(|list| list.get(index).copied()),
        };
        Ok(value.unwrap_or(1.0) as f32)
    }
}

/// A tensor on its way: what it is made of, and its shape.
pub(crate) struct Reshaped {
    pub tree: Tree,
    pub shape: Vec<usize>,
}

impl Change {
    /// A tensor with this change, of a shape that it must fit.
    pub(crate) fn of(self, tree: Tree, shape: &[usize], config: &Config) -> Result<Reshaped> {
        let same = |tree| Ok(Reshaped { tree, shape: shape.to_vec() });
        // Rows of a vector have one value.
        let row = if shape.len() < 2 { 1 } else { last(shape) };
        match self {
            Self::Same | Self::LeftOut | Self::Stacked => same(tree),
            Self::Rotary(heads) => {
                let rows = rows_of_head(shape, config, heads)?;
                same(tree.after(Step::Pair { row, rows }))
            }
            Self::FirstHalf | Self::SecondHalf => {
                let ([stack @ .., rows, cols], half) = (shape, self == Self::SecondHalf) else {
                    return Err(misfit(shape, "matrices"));
                };
                let count = halved(*rows)?;
                let (per, start) = (*rows as u64, if half { count as u64 } else { 0 });
                let tree = tree.after(Step::Part { row, per, start, count: count as u64 });
                Ok(Reshaped { tree, shape: [stack, &[count, *cols]].concat() })
            }
            Self::Transposed | Self::TurnedEven | Self::TurnedOdd => {
                let [stack @ .., rows, cols] = shape else { return Err(misfit(shape, "matrices")) };
                let tree = tree.after(Step::Turn { rows: *rows as u64, cols: *cols as u64 });
                if self == Self::Transposed {
                    return Ok(Reshaped { tree, shape: [stack, &[*cols, *rows]].concat() });
                }
                let first = u64::from(self == Self::TurnedOdd);
                let tree = tree.after(Step::Every { row: *rows as u64, step: 2, first });
                Ok(Reshaped { tree, shape: [stack, &[halved(*cols)?, *rows]].concat() })
            }
            Self::Even | Self::Odd => {
                let [stack @ .., values] = shape else { return Err(misfit(shape, "a list")) };
                let tree = tree.after(Step::Every { row: 1, step: 2, first: u64::from(self == Self::Odd) });
                Ok(Reshaped { tree, shape: [stack, &[halved(*values)?]].concat() })
            }
            Self::KeyRows | Self::ValueRows => compressed(self == Self::KeyRows, tree, shape, config),
            Self::PlusOne => same(tree.after(Step::Each(Formula::Plus(1.0)))),
            Self::NegativeExponential => same(tree.after(Step::Each(Formula::NegativeExponential))),
            Self::NegativeExponentialColumn => {
                let shape = column(shape)?;
                Ok(Reshaped { tree: tree.after(Step::Each(Formula::NegativeExponential)), shape })
            }
            Self::Column => Ok(Reshaped { tree, shape: column(shape)? }),
            Self::Groups(key) => {
                let ([values], groups) = (shape, config.divisor(key)? as usize) else {
                    return Err(misfit(shape, "a vector"));
                };
                if !values.is_multiple_of(groups) {
                    let why = format!("{values} values do not divide into {groups} groups ({})", quoted(key));
                    return Err(AnamnesisError::parse(why));
                }
                Ok(Reshaped { tree, shape: vec![groups, values / groups] })
            }
            Self::WithoutMiddle => match shape {
                [rows, 1, cols] => Ok(Reshaped { tree, shape: vec![*rows, *cols] }),
                _ => Err(misfit(shape, "[channels, 1, width]")),
            },
            Self::CutToVocabulary => {
                let ([rows, cols], Some(tokens)) = (shape, config.vocabulary) else { return same(tree) };
                if *rows as u64 <= tokens {
                    return same(tree);
                }
                let tree = tree.after(Step::Part { row, per: *rows as u64, start: 0, count: tokens });
                Ok(Reshaped { tree, shape: vec![tokens as usize, *cols] })
            }
            Self::Times(factors) => {
                let mut tree = tree;
                for factor in factors {
                    let factors = vec![(u64::MAX, factor.of(config)?)];
                    tree = tree.after(Step::Each(Formula::Times { row, factors }));
                }
                same(tree)
            }
            Self::TimesStateSpace(first) => {
                let all = Formula::Times { row, factors: vec![(u64::MAX, first.of(config)?)] };
                let factors = state_space_factors(shape, config)?;
                same(tree.after(Step::Each(all)).after(Step::Each(Formula::Times { row, factors })))
            }
        }
    }
}

/// Rows of one head of a tensor.
pub(crate) fn rows_of_head(shape: &[usize], config: &Config, key: &str) -> Result<u64> {
    let heads = config.divisor(key)?;
    let rows = shape.first().map_or(0, |&rows| rows as u64);
    let per_head = rows / heads;
    if !rows.is_multiple_of(heads) || !per_head.is_multiple_of(2) || per_head == 0 {
        let why = format!("{rows} rows are no pairs in {heads} heads ({})", quoted(key));
        return Err(AnamnesisError::parse(why));
    }
    Ok(per_head)
}

/// The rows of keys or of values in every head of what is compressed.
fn compressed(is_key: bool, tree: Tree, shape: &[usize], config: &Config) -> Result<Reshaped> {
    let (heads, keys) = (config.divisor("num_attention_heads")?, config.needed("qk_nope_head_dim")?);
    let values = config.needed("v_head_dim")?;
    let [rows, rank] = shape else { return Err(misfit(shape, "a matrix")) };
    let per = keys + values;
    if per == 0 || heads.checked_mul(per) != Some(*rows as u64) {
        let why = format!(
            "{rows} rows are not {keys} of keys and {values} of values in {heads} heads (qk_nope_head_dim, v_head_dim, num_attention_heads)"
        );
        return Err(AnamnesisError::parse(why));
    }
    let row = *rank as u64;
    let (start, count) = if is_key { (0, keys) } else { (keys, values) };
    let tree = tree.after(Step::Part { row, per, start, count });
    let (heads, count) = (heads as usize, count as usize);
    Ok(match is_key {
        true => {
            let tree = tree.after(Step::Turn { rows: count as u64, cols: row });
            Reshaped { tree, shape: vec![heads, *rank, count] }
        }
        false => Reshaped { tree, shape: vec![heads, count, *rank] },
    })
}

/// The factors of the parts of a state-space layer's input, by the rows where each ends.
fn state_space_factors(shape: &[usize], config: &Config) -> Result<Vec<(u64, f32)>> {
    let inner = state_inner(config)?;
    let groups = config.needed("mamba_n_groups")?.saturating_mul(config.needed("mamba_d_state")?);
    let sizes = [inner, inner, groups, groups, config.needed("mamba_n_heads")?];
    let rows = shape.first().map_or(0, |&rows| rows as u64);
    if sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size)) != rows {
        let keys = "mamba_d_ssm, mamba_n_groups, mamba_d_state, mamba_n_heads";
        let why = format!("{rows} rows are not the parts {sizes:?} of a state-space layer ({keys})");
        return Err(AnamnesisError::parse(why));
    }
    let factors = config.reals("ssm_multipliers")?.unwrap_or_default();
    let mut end = 0;
    let part = |(index, size): (usize, u64)| {
        end += size;
        (end, factors.get(index).map_or(1.0, |factor| *factor as f32))
    };
    Ok(sizes.into_iter().enumerate().map(part).collect())
}

/// The values of a state-space layer of Falcon H1.
pub(super) fn state_inner(config: &Config) -> Result<u64> {
    match config.count(&["mamba_d_ssm"])? {
        Some(inner) => Ok(inner),
        None => {
            let expansion = config.real(&["mamba_expand"])?.unwrap_or(2.0);
            Ok((expansion * config.needed("hidden_size")? as f64) as u64)
        }
    }
}

fn last(shape: &[usize]) -> u64 {
    shape.last().map_or(1, |&values| values as u64)
}

fn halved(count: usize) -> Result<usize> {
    match count % 2 {
        0 => Ok(count / 2),
        _ => Err(AnamnesisError::parse(format!("{count} rows cannot be halved"))),
    }
}

fn column(shape: &[usize]) -> Result<Vec<usize>> {
    match shape {
        [values] => Ok(vec![*values, 1]),
        _ => Err(misfit(shape, "a vector")),
    }
}

fn misfit(shape: &[usize], wanted: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("its shape is {shape:?}, {wanted} is needed"))
}
