//! The same bytes as elements of another type.

use super::case::Case;
use super::mutation::Mutation;
use super::subject::{Stored, Subject};

/// Types with the bits of an element.
const TYPES: [(&str, usize); 20] = [
    ("F4", 4),
    ("BOOL", 8),
    ("U8", 8),
    ("I8", 8),
    ("F8_E4M3", 8),
    ("F8_E5M2", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("U16", 16),
    ("I16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("U32", 32),
    ("I32", 32),
    ("F32", 32),
    ("U64", 64),
    ("I64", 64),
    ("F64", 64),
    ("C64", 64),
];

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for Stored { name, tensor } in case.parts() {
        for (dtype, bits) in TYPES.into_iter().filter(|(dtype, _)| *dtype != tensor.dtype) {
            let class = if bits == width(&tensor.dtype) { "retype" } else { "change the width" };
            for (how, shape) in reshaped(&tensor.shape, width(&tensor.dtype), bits) {
                let retype = retype(name, dtype, shape);
                mutations.push(Mutation::new(class, name, format!("{dtype}{how}"), retype));
            }
        }
    }
    mutations
}

fn width(dtype: &str) -> usize {
    TYPES.into_iter().find(|(other, _)| *other == dtype).map_or(8, |(_, bits)| bits)
}

/// Shapes in which the same bytes are whole elements of another width: one dimension grows or shrinks.
fn reshaped(shape: &[usize], from: usize, to: usize) -> Vec<(&'static str, Vec<usize>)> {
    if from == to {
        return vec![("", shape.to_vec())];
    }
    let resized = |index: usize| {
        let bits = shape.get(index)? * from;
        let mut shape = shape.to_vec();
        shape[index] = bits / to;
        bits.is_multiple_of(to).then_some(shape)
    };
    let last = shape.len().checked_sub(1).and_then(resized).map(|shape| (" in the last dimension", shape));
    let first = (shape.len() > 1).then(|| resized(0)).flatten().map(|shape| (" in the first dimension", shape));
    last.into_iter().chain(first).collect()
}

fn retype(name: &str, dtype: &'static str, shape: Vec<usize>) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let name = name.to_owned();
    move |subject| {
        if let Some(stored) = subject.find_mut(&name) {
            dtype.clone_into(&mut stored.tensor.dtype);
            stored.tensor.shape.clone_from(&shape);
        }
    }
}
