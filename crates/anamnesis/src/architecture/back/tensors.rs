//! The tensors of a checkpoint from those of GGUF: the rules of an architecture, read the other way.

use std::collections::BTreeMap;

use crate::architecture::change::{Change, Reshaped, rows_of_head};
use crate::architecture::config::Config;
use crate::architecture::kind::Architecture;
use crate::architecture::map::{Mapped, Named};
use crate::architecture::rule::Rule;
use crate::architecture::tree::{Formula, Step, Tree};
use crate::error::{AnamnesisError, Result};

/// A tensor of GGUF that another is made of, with the change that made it.
struct Piece {
    change: Change,
    place: usize,
}

/// The tensors of a checkpoint, by name, and what is not restored.
pub(super) fn restored(
    architecture: &'static Architecture,
    config: &Config,
    tensors: &[Named<'_>],
) -> Result<(Vec<Mapped>, Vec<String>)> {
    let mut pieces: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
    let (mut unknown, mut of_inputs) = (Vec::new(), 0usize);
    for (place, tensor) in tensors.iter().enumerate() {
        if architecture.made.iter().any(|made| made.name == tensor.name) {
            continue;
        }
        // They mean nothing to weights that are decoded.
        if tensor.name.ends_with(".input_scale") && tensor.shape.len() <= 1 {
            of_inputs += 1;
            continue;
        }
        let fits = |rule: &&'static Rule| rule.change != Change::LeftOut && rule.of_gguf(tensor.name).is_some();
        let Some((rule, (layer, caught))) =
            architecture.rules().find(fits).and_then(|rule| Some((rule, rule.of_gguf(tensor.name)?)))
        else {
            unknown.push(tensor.name);
            continue;
        };
        let experts = if rule.change == Change::Stacked { tensor.shape.first().copied().unwrap_or(0) } else { 0 };
        let mut add = |caught| {
            let name = rule.hf_name(architecture.layers, layer, caught);
            pieces.entry(name).or_default().push(Piece { change: rule.change, place });
        };
        match experts {
            0 => add(caught),
            experts => (0..experts as u64).for_each(|expert| {
                let mut caught = caught;
                caught.expert = Some(expert);
                add(caught);
            }),
        }
    }
    if !unknown.is_empty() {
        return Err(architecture.unknown(&unknown));
    }
    let mut restored = Vec::with_capacity(pieces.len());
    for (name, pieces) in pieces {
        let Reshaped { tree, shape } =
            joined(&name, &pieces, tensors, config).map_err(|error| error.in_tensor(&name))?;
        restored.push(Mapped { name, shape, tree });
    }
    let notes = match of_inputs {
        0 => None,
        1 => Some("the scale of a layer's inputs is left out: its weight is decoded".to_owned()),
        many => Some(format!("the scales of {many} layers' inputs are left out: their weights are decoded")),
    };
    Ok((restored, notes.into_iter().collect()))
}

fn joined(name: &str, pieces: &[Piece], tensors: &[Named<'_>], config: &Config) -> Result<Reshaped> {
    match pieces {
        [piece] => single(name, piece, tensors[piece.place].shape, config),
        [a, b] => {
            let (a, b) = if is_first(a.change) { (a, b) } else { (b, a) };
            pair(a, b, tensors)
        }
        _ => Err(AnamnesisError::parse(format!("{} tensors would become it", pieces.len()))),
    }
}

/// A tensor that one tensor of GGUF is, changed.
fn single(name: &str, piece: &Piece, shape: &[usize], config: &Config) -> Result<Reshaped> {
    let tree = Tree::Tensor(piece.place);
    let row = if shape.len() < 2 { 1 } else { shape.last().map_or(1, |&row| row as u64) };
    let same = |tree| Ok(Reshaped { tree, shape: shape.to_vec() });
    match piece.change {
        Change::Rotary(heads) => {
            let rows = rows_of_head(shape, config, heads)?;
            same(tree.after(Step::Unpair { row, rows }))
        }
        Change::Stacked => {
            let expert = expert_of(name).ok_or_else(|| AnamnesisError::parse("it has no number of an expert"))?;
            let [experts, rest @ ..] = shape else { return same(tree) };
            let count = rest.iter().product::<usize>() as u64;
            let (per, start) = (*experts as u64 * count, expert * count);
            Ok(Reshaped { tree: tree.after(Step::Part { row: 1, per, start, count }), shape: rest.to_vec() })
        }
        Change::Transposed => {
            let [stack @ .., rows, cols] = shape else { return same(tree) };
            let tree = tree.after(Step::Turn { rows: *rows as u64, cols: *cols as u64 });
            Ok(Reshaped { tree, shape: [stack, &[*cols, *rows]].concat() })
        }
        Change::PlusOne => same(tree.after(Step::Each(Formula::Plus(-1.0)))),
        Change::NegativeExponential => same(tree.after(Step::Each(Formula::LogarithmOfNegative))),
        Change::NegativeExponentialColumn => {
            let tree = tree.after(Step::Each(Formula::LogarithmOfNegative));
            Ok(Reshaped { tree, shape: shape.iter().take(1).copied().collect() })
        }
        Change::Column => Ok(Reshaped { tree, shape: shape.iter().take(1).copied().collect() }),
        Change::Groups(_) => Ok(Reshaped { tree, shape: vec![shape.iter().product()] }),
        Change::WithoutMiddle => match shape {
            [rows, cols] => Ok(Reshaped { tree, shape: vec![*rows, 1, *cols] }),
            _ => same(tree),
        },
        Change::Same | Change::CutToVocabulary | Change::Times(_) | Change::TimesStateSpace(_) => same(tree),
        _ => Err(AnamnesisError::parse("the other half of it is missing")),
    }
}

/// Whether a piece comes first of two.
fn is_first(change: Change) -> bool {
    matches!(change, Change::TurnedEven | Change::Even | Change::KeyRows | Change::FirstHalf)
}

/// A tensor that two tensors of GGUF are the parts of.
fn pair(a: &Piece, b: &Piece, tensors: &[Named<'_>]) -> Result<Reshaped> {
    let (first, second) = (tensors[a.place].shape, tensors[b.place].shape);
    let misfit = || AnamnesisError::parse(format!("its parts have the shapes {first:?} and {second:?}"));
    let (left, right) = (Tree::Tensor(a.place), Tree::Tensor(b.place));
    match (a.change, b.change, first, second) {
        (Change::TurnedEven, Change::TurnedOdd, [stack @ .., rows, cols], _) if first == second => {
            let row = *cols as u64;
            let tree = Tree::Interleaved(vec![(left, row), (right, row)]);
            let tree = tree.after(Step::Turn { rows: 2 * *rows as u64, cols: row });
            Ok(Reshaped { tree, shape: [stack, &[*cols, 2 * rows]].concat() })
        }
        (Change::Even, Change::Odd, [stack @ .., values], _) if first == second => Ok(Reshaped {
            tree: Tree::Interleaved(vec![(left, 1), (right, 1)]),
            shape: [stack, &[2 * values]].concat(),
        }),
        (Change::KeyRows, Change::ValueRows, [heads, rank, keys], [others, values, width])
            if heads == others && rank == width =>
        {
            let left = left.after(Step::Turn { rows: *rank as u64, cols: *keys as u64 });
            let each = |rows: &usize| (rows * rank) as u64;
            let tree = Tree::Interleaved(vec![(left, each(keys)), (right, each(values))]);
            Ok(Reshaped { tree, shape: vec![heads * (keys + values), *rank] })
        }
        _ => Err(misfit()),
    }
}

/// The number of the expert in a name.
fn expert_of(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once(".experts.")?;
    rest.split('.').next()?.parse().ok()
}
