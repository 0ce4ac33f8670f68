//! Changes of a tensor between a checkpoint and GGUF, each with its inverse; undoing one that loses information is an error.
//!
//! A rule lists the changes that llama.cpp's converter makes (`modify_tensors`), in their order; GGUF to checkpoint undoes them
//! from the last to the first. A change that splits a tensor is in the lists of both halves: its inverse joins them.

mod combined;
mod factor;
mod halves;
mod heads;
mod parts;
mod reshaped;

use super::config::Config;
use super::size::Size;
use super::state_space;
use super::tree::{Fold, Formula, Step, Tree};
use crate::error::{AnamnesisError, Result, quoted};

use heads::{axes_joined, halved_pairs, negated, paired_first, rows_of_head, rows_of_size};
use reshaped::misfit;

pub(crate) use combined::{Combined, all_of};
pub(crate) use factor::Factor;
pub(crate) use halves::Halves;
pub(crate) use heads::{RotatedRows, TiledHeads};
pub(crate) use parts::Parts;
pub(crate) use reshaped::{Reshaped, joined, stacked, unstacked};

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
    /// The same for the first rows only: queries and keys in front of values. Their number, and the size of a head.
    RotaryOfFirst(Size, Size),
    /// A matrix of zeros comes in front of a stack.
    ZerosFirst,
    /// The inverse for the first rows of each head, in models with multimodal RoPE: their even rows, then the odd ones.
    HalvedRotary(&'static RotatedRows),
    /// In the queries and keys of a fused tensor, the pairs of each head's rows belong to two axes in turn: those of the
    /// first come before those of the second. The number of heads.
    HalvedPairs(Size),
    /// Each head's rows are the first halves of three axes, then the second halves: both halves of each axis come together.
    /// The number of heads.
    AxesJoined(Size),
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
    /// exp(x): `A_log` of layers that negate it themselves.
    Exponential,
    /// A vector becomes a column.
    Column,
    /// A vector becomes a matrix with a row per group. The key counts the groups.
    Groups(&'static str),
    /// The middle dimension of three, which is 1, is dropped: `conv1d`.
    WithoutMiddle,
    /// The first two of three dimensions change places.
    FirstTwoSwapped,
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
    /// Values of a square of places, `[1, places, values]`, become those of a square with sides of this size.
    Resampled(Size),
    /// The product of a stack of two vectors.
    Product,
    /// The rows of several tensors, one after another; the size counts the tensors.
    Joined(&'static [Size]),
    /// What is computed of several tensors.
    Combined(&'static Combined),
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

/// The channels of an image.
const CHANNELS: u64 = 3;

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

impl Change {
    /// From checkpoint to GGUF.
    fn apply(self, tensor: Reshaped, config: &Config, layer: Option<u64>) -> Result<Reshaped> {
        let row = tensor.row();
        match self {
            Self::RotaryOf(head) => {
                let rows = rows_of_size(&tensor.shape, config, head)?;
                Ok(tensor.after(Step::Pair { row, rows }))
            }
            Self::RotaryOfFirst(rows, head) => paired_first(&tensor, config, rows, head, false),
            Self::ZerosFirst => {
                let (matrix, rows) = (tensor.whole_row(), tensor.rows());
                Ok(tensor
                    .with_rows(Tree::Stacked(vec![Tree::Zeros(matrix), tensor.tree.clone()]), rows.saturating_add(1)))
            }
            Self::HalvedRotary(rows) => rows.changed(tensor, config, false),
            Self::HalvedPairs(heads) => halved_pairs(&tensor, config, heads, false),
            Self::AxesJoined(heads) => axes_joined(&tensor, config, heads, false),
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
            Self::Exponential => Ok(tensor.each(Formula::Exponential)),
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
            Self::FirstTwoSwapped => first_two_swapped(tensor),
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
            Self::Resampled(side) => resampled(tensor, config, side),
            Self::Product => tensor.folded(2, Fold::Product),
            Self::Joined(_) | Self::Combined(_) => Ok(tensor),
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
            Self::RotaryOfFirst(rows, head) => paired_first(&tensor, config, rows, head, true),
            Self::ZerosFirst => match tensor.rows().checked_sub(1).filter(|left| *left > 0) {
                Some(left) => Ok(tensor.with_rows(tensor.cut(1, left), left)),
                None => Err(misfit(&tensor.shape, "a stack of more than one matrix")),
            },
            Self::HalvedRotary(rows) => rows.changed(tensor, config, true),
            Self::HalvedPairs(heads) => halved_pairs(&tensor, config, heads, true),
            Self::AxesJoined(heads) => axes_joined(&tensor, config, heads, true),
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
            Self::Exponential => Ok(tensor.each(Formula::Logarithm)),
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
            Self::FirstTwoSwapped => first_two_swapped(tensor),
            Self::Frame(_)
            | Self::ChannelsFirst(_)
            | Self::SummedFrames(..)
            | Self::AsList
            | Self::WithoutLast
            | Self::Softplus
            | Self::Resampled(_)
            | Self::NormScale
            | Self::NormShift => Err(AnamnesisError::parse("tensors of projectors are not restored")),
            Self::Product => Err(AnamnesisError::parse("the factors of its values are not in the file")),
            Self::Joined(_) => Err(AnamnesisError::parse("the sizes of its parts are not in the file")),
            Self::Combined(_) => Err(AnamnesisError::parse("the tensors that it is made of are not in the file")),
            Self::MinusMean(_) => Err(AnamnesisError::parse("the mean of its values is not in the file")),
            Self::OverColumnNorms(_) => Err(AnamnesisError::parse("the lengths of its columns are not in the file")),
            Self::Ternary(_) => Err(AnamnesisError::parse("its values before they became ternary are not in the file")),
            Self::TokenRows(_) => Err(AnamnesisError::parse("its other rows are not in the file")),
            Self::RepeatedFirstHead => Err(AnamnesisError::parse("the norms of its other heads are not in the file")),
            // Dropped and added rows belong to no token. Multiplied weights stay: the restored configuration has factors of 1.
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

/// A tensor of three dimensions, with the second one first.
fn first_two_swapped(tensor: Reshaped) -> Result<Reshaped> {
    match tensor.shape[..] {
        [first, second, values] => {
            let step = Step::Swap { row: values as u64, outer: first as u64, inner: second as u64 };
            Ok(tensor.after(step).with_shape(vec![second, first, values]))
        }
        _ => Err(misfit(&tensor.shape, "three dimensions")),
    }
}

/// The most places that a square of places becomes.
const MOST_PLACES: u64 = 1 << 20;

/// A square of places with another number of them.
fn resampled(tensor: Reshaped, config: &Config, side: Size) -> Result<Reshaped> {
    let (&[1, places, values], to) = (&tensor.shape[..], (side.of)(config)?) else {
        return Err(misfit(&tensor.shape, "[1, places, values]"));
    };
    let from = (places as u64).isqrt();
    if from * from != places as u64 || values == 0 {
        return Err(misfit(&tensor.shape, "a square of places"));
    }
    if to == 0 || to.checked_mul(to).is_none_or(|all| all > MOST_PLACES) {
        return Err(AnamnesisError::parse(format!("{to} by {to} places are not possible ({})", side.hf)));
    }
    if from == to {
        return Ok(tensor);
    }
    let step = Step::Resample { row: values as u64, from, to };
    Ok(tensor.after(step).with_shape(vec![1, (to * to) as usize, values]))
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
