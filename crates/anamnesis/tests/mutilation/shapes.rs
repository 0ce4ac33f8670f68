//! Mutations of shapes: the same bytes arranged differently, or more or fewer of them.

use super::case::Case;
use super::mutation::Mutation;
use super::subject::{Stored, Subject};
use crate::support::Tensor;

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for Stored { name, tensor } in case.parts() {
        for (how, shape) in rearranged(&tensor.shape).into_iter().filter(|(_, shape)| *shape != tensor.shape) {
            let same_bytes = Tensor { shape, ..tensor.clone() };
            mutations.push(Mutation::new("reshape", name, description(how, &same_bytes), replace(name, same_bytes)));
        }
        for dim in 0..tensor.shape.len() {
            let size = tensor.shape[dim];
            let sizes =
                [(size + 1, "one more"), (size * 2, "twice"), (size.saturating_sub(1), "one less"), (size / 2, "half")];
            for (new, how) in sizes.into_iter().filter(|(new, _)| *new != size) {
                let other = resized(tensor, dim, new);
                mutations.push(Mutation::new("resize", name, description(how, &other), replace(name, other)));
            }
        }
    }
    mutations
}

fn description(how: &str, tensor: &Tensor) -> String {
    format!("{how} {:?}", tensor.shape)
}

/// Shapes with the same number of elements.
fn rearranged(shape: &[usize]) -> Vec<(&'static str, Vec<usize>)> {
    let mut shapes = vec![
        ("flat", vec![shape.iter().product()]),
        ("reversed", shape.iter().rev().copied().collect()),
        ("a leading 1", [&[1], shape].concat()),
        ("a trailing 1", [shape, &[1]].concat()),
    ];
    if let [1, rest @ ..] = shape {
        shapes.push(("no leading 1", rest.to_vec()));
    }
    if let [rest @ .., 1] = shape {
        shapes.push(("no trailing 1", rest.to_vec()));
    }
    if let [first, second, rest @ ..] = shape {
        shapes.push(("the first two as one", [&[first * second], rest].concat()));
    }
    for (dim, size) in shape.iter().enumerate().filter(|(_, size)| **size > 1 && **size % 2 == 0) {
        let split = [&shape[..dim], &[2, size / 2], &shape[dim + 1..]].concat();
        shapes.push(("a dimension split", split));
        if dim + 1 < shape.len() {
            let moved = [&shape[..dim], &[size / 2, shape[dim + 1] * 2], &shape[dim + 2..]].concat();
            shapes.push(("a factor moved", moved));
        }
    }
    shapes
}

/// The tensor with one dimension cut or extended by repetition.
fn resized(tensor: &Tensor, dim: usize, size: usize) -> Tensor {
    let mut shape = tensor.shape.clone();
    shape[dim] = size;
    let outer: usize = tensor.shape[..dim].iter().product();
    let rows = outer * tensor.shape[dim];
    let row_bytes = tensor.data.len().checked_div(rows).unwrap_or(0);
    let mut data = Vec::new();
    for index in 0..outer {
        for place in 0..size {
            let row = index * tensor.shape[dim] + place % tensor.shape[dim].max(1);
            data.extend_from_slice(&tensor.data[row * row_bytes..(row + 1) * row_bytes]);
        }
    }
    Tensor { dtype: tensor.dtype.clone(), shape, data }
}

fn replace(name: &str, tensor: Tensor) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let name = name.to_owned();
    move |subject| {
        if let Some(stored) = subject.find_mut(&name) {
            stored.tensor = tensor.clone();
        }
    }
}
