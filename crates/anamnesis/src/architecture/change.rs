//! Changes of a tensor between a checkpoint and GGUF, each with its inverse.
//!
//! A rule lists the changes that llama.cpp's converter makes (`modify_tensors`), in their order; GGUF to checkpoint undoes them
//! from the last to the first. A change that splits a tensor is in the lists of both halves: its inverse joins them.

use super::config::Config;
use super::size::Size;
use super::state_space;
use super::tree::{Fold, Formula, Step, Tree};
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
    /// [`Change::Rotary`] with heads of this size.
    RotaryOf(Size),
    /// The inverse for the first rows of each head, in models with multimodal RoPE: their even rows, then the odd ones.
    HalvedRotary(&'static RotatedRows),
    /// Some parts of the rows of every group, part by part.
    Parts(&'static Parts),
    /// The value heads of every key head come one after another: those of all key heads alternate instead.
    Tiled(&'static TiledHeads),
    /// Every matrix is transposed.
    Transposed,
    /// 1 is added: norms that are stored as the difference from 1.
    PlusOne,
    /// A number is added.
    Plus(f32),
    /// The second half of each head's rows is negated; the size of a head.
    NegatedHalf(Size),
    /// The rows are this many blocks, of which two change places.
    ExchangedBlocks(u64, [u64; 2]),
    /// -exp(x): `A_log` of state-space layers.
    NegativeExponential,
    /// A vector becomes a column.
    Column,
    /// A vector becomes a matrix with a row per group. The key counts the groups.
    Groups(&'static str),
    /// The middle dimension of three, which is 1, is dropped: `conv1d`.
    WithoutMiddle,
    /// One of the frames that a convolution over time has, which are its third dimension.
    Frame(u64),
    /// Patches of this size with the channels of a pixel side by side: a convolution, channel by channel.
    ChannelsFirst(Size),
    /// Patches of several frames, each channel by channel: the sum of the frames as a convolution. The number of frames and
    /// the size of a patch.
    SummedFrames(Size, Size),
    /// A single value becomes a list of one.
    AsList,
    /// The last dimension, which is 1, is dropped.
    WithoutLast,
    /// ln(1 + exp(x))
    Softplus,
    /// The scale of a batch norm, from a stack of its weight and its variance.
    NormScale,
    /// The shift of a batch norm, from a stack of its weight, bias, mean and variance.
    NormShift,
    /// The same values with other dimensions: before and after.
    Shaped(&'static [Size], &'static [Size]),
    /// Rows past the end of the vocabulary are dropped.
    CutToVocabulary,
    /// Rows of zeros are added for tokens without one.
    PaddedToVocabulary,
    /// Rows at the front are dropped: positions that belong to no token.
    WithoutFirst(Size),
    /// Every value is multiplied by a factor of the configuration.
    Times(Factor),
    /// The mean of the values is subtracted, in the stored type. The name of the tensor, whose mean is measured.
    MinusMean(&'static str),
    /// Every column is divided by its length. The name of the tensor, whose columns are measured.
    OverColumnNorms(&'static str),
    /// Every value becomes -1, 0 or 1 times the mean magnitude. The name of the tensor, whose mean is measured.
    Ternary(&'static str),
    /// The rows of some tokens.
    TokenRows(&'static [&'static str]),
    /// Every head gets the values of the first, in the pairs of RoPE.
    RepeatedFirstHead,
    /// The rows of a state-space layer's `in_proj` are multiplied by `ssm_multipliers`, one for each of its five parts.
    TimesStateSpace,
}

/// Added to the length of a column, which may be zero.
const COLUMN_EPSILON: f32 = 1e-7;
/// The least mean magnitude.
const TERNARY_LEAST: f32 = 1e-5;

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

/// Some of the parts that the rows of every group consist of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parts {
    /// The number of groups.
    pub groups: Size,
    /// The rows of each part in a group.
    pub parts: &'static [Size],
    /// The first part that is taken, and their number.
    pub first: usize,
    pub count: usize,
}

/// The rows of each head that RoPE rotates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RotatedRows {
    pub head: Size,
    /// None, if the rows keep their order.
    pub rotated: Size,
}

/// Value heads in groups, one group per key head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TiledHeads {
    /// The rows before the value heads.
    pub skipped: Size,
    pub key_heads: Size,
    pub value_heads: Size,
    /// The rows of a head; its columns, if `is_columns`.
    pub width: Size,
    pub is_columns: bool,
}

/// The channels of an image.
const CHANNELS: u64 = 3;

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
    fn of(self, config: &Config, layer: Option<u64>) -> Result<f32> {
        let value = match self {
            Self::Key(key) => config.real(&[key])?,
            Self::Item(key, index) => config.reals(key)?.and_then(|list| list.get(index).copied()),
            Self::Derived(derive) => return derive(config, layer),
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

    /// The values of a row, for a vector too.
    fn whole_row(&self) -> u64 {
        self.shape.iter().skip(1).map(|&size| size as u64).product()
    }

    fn rows(&self) -> u64 {
        self.shape.first().map_or(0, |&rows| rows as u64)
    }

    /// Rows `start..start + count`.
    fn cut(&self, start: u64, count: u64) -> Tree {
        self.tree.clone().after(Step::Part { row: self.whole_row(), per: self.rows(), start, count })
    }

    /// The same with another number of rows.
    fn with_rows(&self, tree: Tree, rows: u64) -> Self {
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = rows as usize;
        }
        Self { tree, shape }
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

    /// A stack of vectors that become one.
    fn folded(self, count: usize, fold: Fold) -> Result<Self> {
        match self.shape[..] {
            [vectors, values] if vectors == count => {
                let step = Step::Fold { row: values as u64, count: count as u64, fold };
                Ok(self.after(step).with_shape(vec![values]))
            }
            _ => Err(misfit(&self.shape, "vectors of one length")),
        }
    }

    fn transposed(self) -> Result<Self> {
        let (stack, rows, cols) = self.matrices()?;
        let shape = [stack, &[cols, rows]].concat();
        Ok(self.after(Step::Transpose { rows: rows as u64, cols: cols as u64 }).with_shape(shape))
    }
}

/// A tensor of a checkpoint, changed for GGUF.
pub(crate) fn to_gguf(changes: &[Change], tensor: Reshaped, config: &Config, layer: Option<u64>) -> Result<Reshaped> {
    changes.iter().try_fold(tensor, |tensor, change| change.apply(tensor, config, layer))
}

/// A tensor of a checkpoint from the tensors of GGUF that it was changed into, each with its changes: one, or two halves.
pub(crate) fn to_checkpoint(mut parts: Vec<(&'static [Change], Reshaped)>, config: &Config) -> Result<Reshaped> {
    let undone = |changes: &[Change], tensor| changes.iter().rev().try_fold(tensor, |t, change| change.undo(t, config));
    let count = parts.len();
    if parts.iter().any(|(changes, _)| changes.iter().any(|change| matches!(change, Change::Parts(_)))) && count > 1 {
        return joined_parts(parts, config);
    }
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

/// A tensor that was cut into tensors of one or more parts each.
fn joined_parts(tensors: Vec<(&'static [Change], Reshaped)>, config: &Config) -> Result<Reshaped> {
    let unfit = || AnamnesisError::parse("its parts do not make a whole");
    let mut cut: Vec<(&'static Parts, Reshaped)> = Vec::new();
    let mut whole: &[Change] = &[];
    for (changes, tensor) in tensors {
        let place = changes.iter().position(|change| matches!(change, Change::Parts(_))).ok_or_else(unfit)?;
        let Change::Parts(parts) = changes[place] else { return Err(unfit()) };
        let undone =
            changes[place + 1..].iter().rev().try_fold(tensor, |tensor, change| change.undo(tensor, config))?;
        whole = &changes[..place];
        cut.push((parts, undone));
    }
    cut.sort_by_key(|(parts, _)| parts.first);
    let Some((all, tensor)) = cut.first() else { return Err(unfit()) };
    let (row, groups) = (tensor.whole_row(), (all.groups.of)(config)?);
    let sizes = all.sizes(config)?;
    let mut trees = Vec::new();
    for (parts, tensor) in &cut {
        let mut start = 0;
        for &size in sizes.get(parts.first..parts.first + parts.count).ok_or_else(unfit)? {
            trees.push((tensor.cut(start, groups.saturating_mul(size)), size.saturating_mul(row)));
            start += groups.saturating_mul(size);
        }
        if start != tensor.rows() || tensor.whole_row() != row {
            return Err(unfit());
        }
    }
    if trees.len() != sizes.len() {
        return Err(unfit());
    }
    let rows = groups.saturating_mul(sizes.iter().sum());
    let joined = tensor.with_rows(Tree::Interleaved(trees), rows);
    whole.iter().rev().try_fold(joined, |tensor, change| change.undo(tensor, config))
}

impl Parts {
    fn sizes(&self, config: &Config) -> Result<Vec<u64>> {
        self.parts.iter().map(|size| (size.of)(config)).collect()
    }

    /// The keys of its sizes, for messages.
    fn keys(&self) -> String {
        let keys = self.parts.iter().chain([&self.groups]).map(|size| size.hf).filter(|keys| !keys.is_empty());
        keys.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The selected parts of a tensor.
    fn taken(&self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (groups, sizes) = ((self.groups.of)(config)?, self.sizes(config)?);
        let per = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        let rows = tensor.rows();
        if per == 0 || groups.checked_mul(per) != Some(rows) {
            let why = format!("{rows} rows are not {groups} groups of {sizes:?} rows ({})", self.keys());
            return Err(AnamnesisError::parse(why));
        }
        let (mut trees, mut taken) = (Vec::new(), 0);
        let mut start = 0;
        for (index, &size) in sizes.iter().enumerate() {
            if (self.first..self.first + self.count).contains(&index) {
                let step = Step::Part { row: tensor.whole_row(), per, start, count: size };
                trees.push(tensor.tree.clone().after(step));
                taken += size * groups;
            }
            start += size;
        }
        let tree = match (trees.len(), trees.pop()) {
            (1, Some(only)) => only,
            (_, last) => Tree::Stacked(trees.into_iter().chain(last).collect()),
        };
        Ok(tensor.with_rows(tree, taken))
    }

    /// The tensor that all parts were taken of.
    fn put_back(&self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (groups, sizes) = ((self.groups.of)(config)?, self.sizes(config)?);
        if self.first != 0 || self.count != sizes.len() {
            return Err(AnamnesisError::parse("other parts of it are missing"));
        }
        let (row, mut start, mut trees) = (tensor.whole_row(), 0u64, Vec::new());
        for size in sizes {
            let rows = groups.saturating_mul(size);
            trees.push((tensor.cut(start, rows), size.saturating_mul(row)));
            start = start.saturating_add(rows);
        }
        if start != tensor.rows() {
            let why = format!("{} rows are not {start} ({})", tensor.rows(), self.keys());
            return Err(AnamnesisError::parse(why));
        }
        let rows = tensor.rows();
        Ok(tensor.with_rows(Tree::Interleaved(trees), rows))
    }
}

impl TiledHeads {
    /// Groups of value heads to alternating ones, or back.
    fn swapped(&self, tensor: Reshaped, config: &Config, is_back: bool) -> Result<Reshaped> {
        let (keys, values) = ((self.key_heads.of)(config)?, (self.value_heads.of)(config)?);
        if keys == 0 || values == 0 || keys == values {
            return Ok(tensor);
        }
        let (width, skipped) = ((self.width.of)(config)?, (self.skipped.of)(config)?);
        let size = match self.is_columns {
            true => tensor.shape.last().map_or(0, |&cols| cols as u64),
            false => tensor.rows().saturating_sub(skipped),
        };
        if !values.is_multiple_of(keys) || values.checked_mul(width) != Some(size) {
            let why = format!(
                "{size} values are not {values} heads of {width} for {keys} keys ({}, {})",
                self.value_heads.hf, self.key_heads.hf
            );
            return Err(AnamnesisError::parse(why));
        }
        let (outer, inner) = if is_back { (values / keys, keys) } else { (keys, values / keys) };
        if self.is_columns {
            return Ok(tensor.after(Step::Swap { row: width, outer, inner }));
        }
        let step = Step::Swap { row: width * tensor.whole_row(), outer, inner };
        let tree = match skipped {
            0 => tensor.tree.clone().after(step),
            _ => Tree::Stacked(vec![tensor.cut(0, skipped), tensor.cut(skipped, size).after(step)]),
        };
        let rows = tensor.rows();
        Ok(tensor.with_rows(tree, rows))
    }
}

impl RotatedRows {
    /// Pairs to halves, or back.
    fn changed(&self, tensor: Reshaped, config: &Config, is_back: bool) -> Result<Reshaped> {
        let (head, rotated) = ((self.head.of)(config)?, (self.rotated.of)(config)?);
        let (rows, row) = (tensor.rows(), tensor.whole_row());
        if rotated == 0 {
            return Ok(tensor);
        }
        if head == 0 || !rows.is_multiple_of(head) || rotated > head || !rotated.is_multiple_of(2) {
            let why = format!("{rows} rows are no heads of {head} with {rotated} rotated ({})", self.rotated.hf);
            return Err(AnamnesisError::parse(why));
        }
        let part = |start, count| tensor.tree.clone().after(Step::Part { row, per: head, start, count });
        let step = match is_back {
            true => Step::Pair { row, rows: rotated },
            false => Step::Unpair { row, rows: rotated },
        };
        let mut trees = vec![(part(0, rotated).after(step), rotated * row)];
        if head > rotated {
            trees.push((part(rotated, head - rotated), (head - rotated) * row));
        }
        Ok(tensor.with_rows(Tree::Interleaved(trees), rows))
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
    fn apply(self, tensor: Reshaped, config: &Config, layer: Option<u64>) -> Result<Reshaped> {
        let row = tensor.row();
        match self {
            Self::RotaryOf(head) => {
                let rows = rows_of_size(&tensor.shape, config, head)?;
                Ok(tensor.after(Step::Pair { row, rows }))
            }
            Self::HalvedRotary(rows) => rows.changed(tensor, config, false),
            Self::Parts(parts) => parts.taken(tensor, config),
            Self::Tiled(heads) => heads.swapped(tensor, config, false),
            Self::Plus(number) => Ok(tensor.each(Formula::Plus(number))),
            Self::NegatedHalf(head) => negated(tensor, config, head),
            Self::ExchangedBlocks(count, pair) => exchanged(&tensor, count, pair),
            Self::Shaped(from, to) => viewed(tensor, config, from, to),
            Self::WithoutFirst(rows) => {
                let dropped = (rows.of)(config)?;
                match tensor.rows().checked_sub(dropped).filter(|left| *left > 0) {
                    Some(left) => Ok(tensor.with_rows(tensor.cut(dropped, left), left)),
                    None => Err(misfit(&tensor.shape, &format!("more than {dropped} rows ({})", rows.hf))),
                }
            }
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
            Self::Frame(_) | Self::ChannelsFirst(_) | Self::SummedFrames(..) => self.convolution(tensor, config),
            Self::AsList if tensor.shape.is_empty() => Ok(tensor.with_shape(vec![1])),
            Self::AsList => Ok(tensor),
            Self::WithoutLast => match &tensor.shape[..] {
                [shape @ .., 1] => {
                    let shape = shape.to_vec();
                    Ok(tensor.with_shape(shape))
                }
                _ => Err(misfit(&tensor.shape, "[outputs, inputs, 1]")),
            },
            Self::Softplus => {
                let length = tensor.shape.iter().map(|&size| size as u64).product();
                Ok(tensor.each(Formula::Softplus(length)))
            }
            Self::NormScale => tensor.folded(2, Fold::NormScale),
            Self::NormShift => tensor.folded(4, Fold::NormShift),
            Self::CutToVocabulary => match (&tensor.shape[..], config.vocabulary) {
                (&[rows, cols], Some(tokens)) if rows as u64 > tokens => {
                    let part = Step::Part { row, per: rows as u64, start: 0, count: tokens };
                    Ok(tensor.after(part).with_shape(vec![tokens as usize, cols]))
                }
                _ => Ok(tensor),
            },
            Self::PaddedToVocabulary => {
                let (tokens, rows) = (config.needed("vocab_size")?, tensor.rows());
                match tokens.checked_sub(rows).filter(|more| *more > 0) {
                    None => Ok(tensor),
                    Some(more) => {
                        let zeros = Tree::Zeros(more.saturating_mul(tensor.whole_row()));
                        Ok(tensor.with_rows(Tree::Stacked(vec![tensor.tree.clone(), zeros]), tokens))
                    }
                }
            }
            Self::Times(factor) => {
                let factors = vec![(u64::MAX, factor.of(config, layer)?)];
                Ok(tensor.each(Formula::Times { row, period: u64::MAX, factors }))
            }
            Self::MinusMean(name) => match config.measured.needed(layer, name)? {
                Some(&[mean]) => Ok(tensor.each(Formula::PlusStored(-mean))),
                _ => Ok(tensor),
            },
            Self::OverColumnNorms(name) => match config.measured.needed(layer, name)? {
                Some(norms) => {
                    let divisors = norms.iter().map(|norm| norm + COLUMN_EPSILON).collect();
                    Ok(tensor.each(Formula::OverColumns(divisors)))
                }
                None => Ok(tensor),
            },
            Self::Ternary(name) => match config.measured.needed(layer, name)? {
                Some(&[mean]) => Ok(tensor.each(Formula::Ternary(1.0 / mean.max(TERNARY_LEAST)))),
                _ => Ok(tensor),
            },
            Self::TokenRows(tokens) => {
                let first: Vec<u64> = (0..tokens.len() as u64).collect();
                let ids = config.label_ids.as_ref().unwrap_or(&first);
                if let Some(id) = ids.iter().find(|id| **id >= tensor.rows()) {
                    return Err(misfit(&tensor.shape, &format!("a row for token {id}")));
                }
                let rows = ids.iter().map(|&id| tensor.cut(id, 1)).collect();
                Ok(tensor.with_rows(Tree::Stacked(rows), ids.len() as u64))
            }
            Self::RepeatedFirstHead => {
                let (&[heads, size], 0) = (&tensor.shape[..], tensor.whole_row() % 2) else {
                    return Err(misfit(&tensor.shape, "heads of an even size"));
                };
                let first = tensor.cut(0, 1).after(Step::Pair { row: 1, rows: size as u64 });
                Ok(tensor.with_rows(Tree::Stacked(vec![first; heads]), heads as u64))
            }
            Self::TimesStateSpace => {
                let factors = state_space::factors(&tensor.shape, config)?;
                Ok(tensor.each(Formula::Times { row, period: u64::MAX, factors }))
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
            Self::RotaryOf(head) => {
                let rows = rows_of_size(&tensor.shape, config, head)?;
                Ok(tensor.after(Step::Unpair { row, rows }))
            }
            Self::HalvedRotary(rows) => rows.changed(tensor, config, true),
            Self::Parts(parts) => parts.put_back(tensor, config),
            Self::Tiled(heads) => heads.swapped(tensor, config, true),
            Self::Plus(number) => Ok(tensor.each(Formula::Plus(-number))),
            Self::NegatedHalf(head) => negated(tensor, config, head),
            Self::ExchangedBlocks(count, pair) => exchanged(&tensor, count, pair),
            Self::Shaped(from, to) => viewed(tensor, config, to, from),
            Self::WithoutFirst(_) => Err(AnamnesisError::parse("its first rows are not in the file")),
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
            Self::Frame(_)
            | Self::ChannelsFirst(_)
            | Self::SummedFrames(..)
            | Self::AsList
            | Self::WithoutLast
            | Self::Softplus
            | Self::NormScale
            | Self::NormShift => Err(AnamnesisError::parse("tensors of projectors are not restored")),
            // Dropped and added rows belong to no token. Multiplied weights stay: the restored configuration has factors of 1.
            Self::MinusMean(_) | Self::OverColumnNorms(_) => Ok(tensor),
            Self::Ternary(_) => Err(AnamnesisError::parse("its values before they became ternary are not in the file")),
            Self::TokenRows(_) => Err(AnamnesisError::parse("its other rows are not in the file")),
            Self::RepeatedFirstHead => Err(AnamnesisError::parse("the norms of its other heads are not in the file")),
            Self::CutToVocabulary | Self::PaddedToVocabulary | Self::Times(_) | Self::TimesStateSpace => Ok(tensor),
        }
    }
}

impl Change {
    /// The weights of a convolution over patches, `[outputs, channels, size, size]`.
    fn convolution(self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        match (self, &tensor.shape[..]) {
            (Self::Frame(frame), &[outputs, channels, 2, height, width]) => {
                let part = Step::Part { row: (height * width) as u64, per: 2, start: frame, count: 1 };
                Ok(tensor.after(part).with_shape(vec![outputs, channels, height, width]))
            }
            (Self::Frame(_), shape) => Err(misfit(shape, "[outputs, channels, 2, height, width]")),
            (Self::ChannelsFirst(patch), &[outputs, values]) => {
                let size = (patch.of)(config)?;
                if size.checked_mul(size).and_then(|area| area.checked_mul(CHANNELS)) != Some(values as u64) {
                    let why =
                        format!("{values} values are no patches of {size} by {size} by {CHANNELS} ({})", patch.hf);
                    return Err(AnamnesisError::parse(why));
                }
                let shape = vec![outputs, CHANNELS as usize, size as usize, size as usize];
                Ok(tensor.after(Step::Transpose { rows: size * size, cols: CHANNELS }).with_shape(shape))
            }
            (Self::SummedFrames(frames, patch), &[outputs, values]) => {
                let (count, size) = ((frames.of)(config)?, (patch.of)(config)?);
                let row = size.saturating_mul(size).saturating_mul(CHANNELS);
                if count == 0 || row.checked_mul(count) != Some(values as u64) {
                    let why = format!(
                        "{values} values are no {count} patches of {size} by {size} by {CHANNELS} ({}, {})",
                        frames.hf, patch.hf
                    );
                    return Err(AnamnesisError::parse(why));
                }
                let shape = vec![outputs, CHANNELS as usize, size as usize, size as usize];
                Ok(tensor.after(Step::Fold { row, count, fold: Fold::Sum }).with_shape(shape))
            }
            (_, shape) => Err(misfit(shape, "a matrix")),
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

/// The rows of a head of this size: even, and a divisor of all rows.
fn rows_of_size(shape: &[usize], config: &Config, head: Size) -> Result<u64> {
    let (rows, size) = (shape.first().map_or(0, |&rows| rows as u64), (head.of)(config)?);
    match size > 0 && size.is_multiple_of(2) && rows.is_multiple_of(size) {
        true => Ok(size),
        false => Err(AnamnesisError::parse(format!("{rows} rows are no pairs in heads of {size} ({})", head.hf))),
    }
}

/// The second half of each head's rows, negated.
fn negated(tensor: Reshaped, config: &Config, head: Size) -> Result<Reshaped> {
    let size = rows_of_size(&tensor.shape, config, head)?;
    let factors = vec![(size / 2, 1.0), (u64::MAX, -1.0)];
    let row = tensor.whole_row();
    Ok(tensor.each(Formula::Times { row, period: size, factors }))
}

/// Blocks of rows, of which two change places.
fn exchanged(tensor: &Reshaped, count: u64, [one, other]: [u64; 2]) -> Result<Reshaped> {
    let rows = tensor.rows();
    if !rows.is_multiple_of(count) {
        return Err(misfit(&tensor.shape, &format!("a multiple of {count} rows")));
    }
    let place = |block: u64| match block {
        _ if block == one => other,
        _ if block == other => one,
        _ => block,
    };
    let blocks = (0..count).map(|block| tensor.cut(place(block) * (rows / count), rows / count)).collect();
    Ok(tensor.with_rows(Tree::Stacked(blocks), rows))
}

/// The same values with other dimensions.
fn viewed(tensor: Reshaped, config: &Config, from: &[Size], to: &[Size]) -> Result<Reshaped> {
    let sizes = |sizes: &[Size]| -> Result<Vec<u64>> { sizes.iter().map(|size| (size.of)(config)).collect() };
    let (from_sizes, to_sizes) = (sizes(from)?, sizes(to)?);
    // Dimensions of 1 may be left out.
    let stored = tensor.shape.iter().map(|&size| size as u64).filter(|size| *size != 1);
    if !stored.eq(from_sizes.iter().copied().filter(|size| *size != 1)) {
        let keys: Vec<&str> = from.iter().map(|size| size.hf).filter(|keys| !keys.is_empty()).collect();
        return Err(misfit(&tensor.shape, &format!("{from_sizes:?} ({})", keys.join(", "))));
    }
    let count = |sizes: &[u64]| sizes.iter().fold(1u64, |count, size| count.saturating_mul(*size));
    if count(&from_sizes) != count(&to_sizes) {
        let keys: Vec<&str> = to.iter().map(|size| size.hf).filter(|keys| !keys.is_empty()).collect();
        return Err(misfit(&tensor.shape, &format!("as many values as {to_sizes:?} ({})", keys.join(", "))));
    }
    let shape = to_sizes.into_iter().map(|size| size as usize).collect();
    Ok(tensor.with_shape(shape))
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
