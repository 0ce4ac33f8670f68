//! Changes of a tensor between a checkpoint and GGUF, each with its inverse.
//!
//! A rule lists the changes that llama.cpp's converter makes (`modify_tensors`), in their order; GGUF to checkpoint undoes them
//! from the last to the first. A change that splits a tensor is in the lists of both halves: its inverse joins them.

use super::config::Config;
use super::state_space;
use super::tree::{Formula, Step, Tree};
use crate::error::{AnamnesisError, Result, quoted};

/// One change of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// The two halves of each head's rows alternate, as RoPE pairs dimensions in llama.cpp (`permute`). The key counts heads.
    Rotary(&'static str),
    /// The first of two tensors that a tensor is split into.
    First(Halves),
    /// The second of them.
    Second(Halves),
    /// Every matrix is transposed.
    Transposed,
    /// 1 is added: norms that are stored as the difference from 1.
    PlusOne,
    /// -exp(x): `A_log` of state-space layers.
    NegativeExponential,
    /// A vector becomes a column.
    Column,
    /// A vector becomes a matrix with a row per group. The key counts the groups.
    Groups(&'static str),
    /// The middle dimension of three, which is 1, is dropped: `conv1d`.
    WithoutMiddle,
    /// Rows past the end of the vocabulary are dropped.
    CutToVocabulary,
    /// Every value is multiplied by a factor of the configuration.
    Times(Factor),
    /// The rows of a state-space layer's `in_proj` are multiplied by `ssm_multipliers`, one for each of its five parts.
    TimesStateSpace,
}

/// How a tensor is split into two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halves {
    /// The first half of the rows of every matrix, then the second.
    Rows,
    /// The even rows of every matrix, then the odd ones.
    AlternateRows,
    /// The values of every row in even places, then those in odd ones.
    AlternateValues,
    /// The rows of keys in every head of `kv_b_proj` (multi-head latent attention), then those of values.
    KeysAndValues,
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

/// A tensor between changes: how its values are computed, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reshaped {
    pub tree: Tree,
    pub shape: Vec<usize>,
}

impl Reshaped {
    /// A tensor of the input, by its place.
    pub(crate) fn input(place: usize, shape: &[usize]) -> Self {
        Self { tree: Tree::Tensor(place), shape: shape.to_vec() }
    }

    fn after(self, step: Step) -> Self {
        Self { tree: self.tree.after(step), ..self }
    }

    fn each(self, formula: Formula) -> Self {
        self.after(Step::Each(formula))
    }

    fn with_shape(self, shape: Vec<usize>) -> Self {
        Self { shape, ..self }
    }

    /// The values of a row; a row of a vector has one.
    fn row(&self) -> u64 {
        if self.shape.len() < 2 { 1 } else { self.shape.last().map_or(1, |&values| values as u64) }
    }

    /// The dimensions in front of the last two, the rows and the columns.
    fn matrices(&self) -> Result<(&[usize], usize, usize)> {
        match &self.shape[..] {
            [stack @ .., rows, cols] => Ok((stack, *rows, *cols)),
            shape => Err(misfit(shape, "matrices")),
        }
    }

    fn transposed(self) -> Result<Self> {
        let (stack, rows, cols) = self.matrices()?;
        let shape = [stack, &[cols, rows]].concat();
        Ok(self.after(Step::Transpose { rows: rows as u64, cols: cols as u64 }).with_shape(shape))
    }
}

/// A tensor of a checkpoint, changed for GGUF.
pub(crate) fn to_gguf(changes: &[Change], tensor: Reshaped, config: &Config) -> Result<Reshaped> {
    changes.iter().try_fold(tensor, |tensor, change| change.apply(tensor, config))
}

/// A tensor of a checkpoint from the tensors of GGUF that it was changed into, each with its changes: one, or two halves.
pub(crate) fn to_checkpoint(mut parts: Vec<(&'static [Change], Reshaped)>, config: &Config) -> Result<Reshaped> {
    let undone = |changes: &[Change], tensor| changes.iter().rev().try_fold(tensor, |t, change| change.undo(t, config));
    let count = parts.len();
    let (second, first) = (parts.pop(), parts.pop());
    match (first, second) {
        (None, Some((changes, tensor))) => undone(changes, tensor),
        (Some(first), Some(second)) if count == 2 => {
            let shapes = format!("{:?} and {:?}", first.1.shape, second.1.shape);
            let unfit = || AnamnesisError::parse(format!("its parts have the shapes {shapes}"));
            // The changes before the split are those of the whole tensor.
            let at_split = |(changes, tensor): (&'static [Change], _)| {
                let is_split = |change: &Change| matches!(change, Change::First(_) | Change::Second(_));
                let place = changes.iter().position(is_split).ok_or_else(unfit)?;
                let tensor = undone(&changes[place + 1..], tensor)?;
                Ok::<_, AnamnesisError>((&changes[..place], changes[place], tensor))
            };
            let joined = match (at_split(first)?, at_split(second)?) {
                ((whole, Change::First(a), first), (_, Change::Second(b), second))
                | ((_, Change::Second(b), second), (whole, Change::First(a), first))
                    if a == b =>
                {
                    a.joined(first, second).map(|joined| undone(whole, joined))
                }
                _ => None,
            };
            joined.ok_or_else(unfit)?
        }
        _ => Err(AnamnesisError::parse(format!("{} tensors would become it", count))),
    }
}

/// The tensors of a layer's experts as one (`{X}` in the name of a rule).
pub(crate) fn stacked(experts: Vec<Tree>, shape: &[usize]) -> Reshaped {
    Reshaped { shape: [&[experts.len()], shape].concat(), tree: Tree::Stacked(experts) }
}

/// One expert of a stack.
pub(crate) fn unstacked(stack: Reshaped, expert: u64) -> Reshaped {
    let [experts, shape @ ..] = &stack.shape[..] else { return stack };
    let (shape, count) = (shape.to_vec(), shape.iter().product::<usize>() as u64);
    let (per, start) = (*experts as u64 * count, expert * count);
    stack.after(Step::Part { row: 1, per, start, count }).with_shape(shape)
}

impl Change {
    /// From checkpoint to GGUF.
    fn apply(self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let row = tensor.row();
        match self {
            Self::Rotary(heads) => {
                let rows = rows_of_head(&tensor.shape, config, heads)?;
                Ok(tensor.after(Step::Pair { row, rows }))
            }
            Self::First(halves) => halves.split(false, tensor, config),
            Self::Second(halves) => halves.split(true, tensor, config),
            Self::Transposed => tensor.transposed(),
            Self::PlusOne => Ok(tensor.each(Formula::Plus(1.0))),
            Self::NegativeExponential => Ok(tensor.each(Formula::NegativeExponential)),
            Self::Column => match tensor.shape[..] {
                [values] => Ok(tensor.with_shape(vec![values, 1])),
                _ => Err(misfit(&tensor.shape, "a vector")),
            },
            Self::Groups(key) => {
                let (&[values], groups) = (&tensor.shape[..], config.divisor(key)? as usize) else {
                    return Err(misfit(&tensor.shape, "a vector"));
                };
                if !values.is_multiple_of(groups) {
                    let why = format!("{values} values do not divide into {groups} groups ({})", quoted(key));
                    return Err(AnamnesisError::parse(why));
                }
                Ok(tensor.with_shape(vec![groups, values / groups]))
            }
            Self::WithoutMiddle => match tensor.shape[..] {
                [rows, 1, cols] => Ok(tensor.with_shape(vec![rows, cols])),
                _ => Err(misfit(&tensor.shape, "[channels, 1, width]")),
            },
            Self::CutToVocabulary => match (&tensor.shape[..], config.vocabulary) {
                (&[rows, cols], Some(tokens)) if rows as u64 > tokens => {
                    let part = Step::Part { row, per: rows as u64, start: 0, count: tokens };
                    Ok(tensor.after(part).with_shape(vec![tokens as usize, cols]))
                }
                _ => Ok(tensor),
            },
            Self::Times(factor) => {
                let factors = vec![(u64::MAX, factor.of(config)?)];
                Ok(tensor.each(Formula::Times { row, factors }))
            }
            Self::TimesStateSpace => {
                let factors = state_space::factors(&tensor.shape, config)?;
                Ok(tensor.each(Formula::Times { row, factors }))
            }
        }
    }

    /// From GGUF to checkpoint, for a tensor that is no half.
    fn undo(self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let row = tensor.row();
        match self {
            Self::Rotary(heads) => {
                let rows = rows_of_head(&tensor.shape, config, heads)?;
                Ok(tensor.after(Step::Unpair { row, rows }))
            }
            Self::First(_) | Self::Second(_) => Err(AnamnesisError::parse("the other half of it is missing")),
            Self::Transposed => tensor.transposed(),
            Self::PlusOne => Ok(tensor.each(Formula::Plus(-1.0))),
            Self::NegativeExponential => Ok(tensor.each(Formula::LogarithmOfNegative)),
            Self::Column => match tensor.shape[..] {
                [values, 1] => Ok(tensor.with_shape(vec![values])),
                _ => Err(misfit(&tensor.shape, "a column")),
            },
            Self::Groups(_) => {
                let values = tensor.shape.iter().product();
                Ok(tensor.with_shape(vec![values]))
            }
            Self::WithoutMiddle => match tensor.shape[..] {
                [rows, cols] => Ok(tensor.with_shape(vec![rows, 1, cols])),
                _ => Err(misfit(&tensor.shape, "[channels, width]")),
            },
            // The dropped rows belong to no token. Multiplied weights stay: the restored configuration has factors of 1.
            Self::CutToVocabulary | Self::Times(_) | Self::TimesStateSpace => Ok(tensor),
        }
    }
}

impl Halves {
    /// One half of a tensor.
    fn split(self, is_second: bool, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (row, first) = (tensor.row(), u64::from(is_second));
        match self {
            Self::Rows => {
                let (stack, rows, cols) = tensor.matrices()?;
                let count = halved(rows)?;
                let shape = [stack, &[count, cols]].concat();
                let part = Step::Part { row, per: rows as u64, start: first * count as u64, count: count as u64 };
                Ok(tensor.after(part).with_shape(shape))
            }
            Self::AlternateRows => {
                let (stack, rows, cols) = tensor.matrices()?;
                let shape = [stack, &[halved(rows)?, cols]].concat();
                Ok(tensor.after(Step::Every { row, step: 2, first }).with_shape(shape))
            }
            Self::AlternateValues => {
                let [stack @ .., values] = &tensor.shape[..] else { return Err(misfit(&tensor.shape, "a list")) };
                let shape = [stack, &[halved(*values)?]].concat();
                Ok(tensor.after(Step::Every { row: 1, step: 2, first }).with_shape(shape))
            }
            Self::KeysAndValues => {
                let (heads, keys) = (config.divisor("num_attention_heads")?, config.needed("qk_nope_head_dim")?);
                let values = config.needed("v_head_dim")?;
                let &[rows, rank] = &tensor.shape[..] else { return Err(misfit(&tensor.shape, "a matrix")) };
                let per = keys + values;
                if per == 0 || heads.checked_mul(per) != Some(rows as u64) {
                    let why = format!(
                        "{rows} rows are not {keys} of keys and {values} of values in {heads} heads (qk_nope_head_dim, v_head_dim, num_attention_heads)"
                    );
                    return Err(AnamnesisError::parse(why));
                }
                let (start, count) = if is_second { (keys, values) } else { (0, keys) };
                let shape = vec![heads as usize, count as usize, rank];
                Ok(tensor.after(Step::Part { row, per, start, count }).with_shape(shape))
            }
        }
    }

    /// The tensor that was split into two halves; `None` if their shapes do not match.
    fn joined(self, first: Reshaped, second: Reshaped) -> Option<Reshaped> {
        let same = (first.shape == second.shape).then_some(&first.shape[..]);
        // The number of values from each half in turn.
        let (each, shape) = match self {
            Self::Rows => {
                let [stack @ .., rows, cols] = same? else { return None };
                ([rows * cols; 2], [stack, &[2 * rows, *cols]].concat())
            }
            Self::AlternateRows => {
                let [stack @ .., rows, cols] = same? else { return None };
                ([*cols; 2], [stack, &[2 * rows, *cols]].concat())
            }
            Self::AlternateValues => {
                let [stack @ .., values] = same? else { return None };
                ([1; 2], [stack, &[2 * values]].concat())
            }
            Self::KeysAndValues => match (&first.shape[..], &second.shape[..]) {
                ([heads, keys, rank], [others, values, width]) if heads == others && rank == width => {
                    ([keys * rank, values * rank], vec![heads * (keys + values), *rank])
                }
                _ => return None,
            },
        };
        let tree = Tree::Interleaved(vec![(first.tree, each[0] as u64), (second.tree, each[1] as u64)]);
        Some(Reshaped { tree, shape })
    }
}

/// The number of rows of a head: even, for the pairs of RoPE.
fn rows_of_head(shape: &[usize], config: &Config, key: &str) -> Result<u64> {
    let heads = config.divisor(key)?;
    let rows = shape.first().map_or(0, |&rows| rows as u64);
    let per_head = rows / heads;
    if !rows.is_multiple_of(heads) || !per_head.is_multiple_of(2) || per_head == 0 {
        let why = format!("{rows} rows are no pairs in {heads} heads ({})", quoted(key));
        return Err(AnamnesisError::parse(why));
    }
    Ok(per_head)
}

fn halved(count: usize) -> Result<usize> {
    match count % 2 {
        0 => Ok(count / 2),
        _ => Err(AnamnesisError::parse(format!("{count} rows cannot be halved"))),
    }
}

fn misfit(shape: &[usize], wanted: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("its shape is {shape:?}, {wanted} is needed"))
}
