//! The names of tensors, which are unique in a graph but not in a model.
//!
//! | tensor | name |
//! |---|---|
//! | of the main graph | its own |
//! | of a graph in an attribute | its own if no other tensor has it, otherwise `NODE/ATTRIBUTE/NAME` |
//! | of a function | the same after `DOMAIN.FUNCTION/` |

use std::collections::HashMap;
use std::sync::Arc;

use super::graph::{FoundTensor, Place};

/// The final name of each tensor.
pub(super) fn final_names(tensors: &[FoundTensor]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = tensors.iter().map(|tensor| named(tensor, 0)).collect();
    let deepest = tensors.iter().map(|tensor| tensor.place.path.len()).max().unwrap_or_default();
    // The innermost node and attribute first, then the graphs around them where the names are still alike.
    for levels in 1..=deepest {
        let mut counts: HashMap<&str, u32> = HashMap::with_capacity(names.len());
        for name in &names {
            *counts.entry(name).or_default() += 1;
        }
        let is_repeated = |index: usize| counts.get(&*names[index]).is_some_and(|count| *count > 1);
        let renamed: Vec<(usize, Arc<str>)> = (0..names.len())
            .filter(|&index| tensors[index].place.path.len() >= levels && is_repeated(index))
            .map(|index| (index, named(&tensors[index], levels)))
            .collect();
        if renamed.is_empty() {
            break;
        }
        for (index, name) in renamed {
            names[index] = name;
        }
    }
    names
}

/// The name of a tensor with as many levels of its path.
fn named(tensor: &FoundTensor, levels: usize) -> Arc<str> {
    let Place { function, path } = &tensor.place;
    let mut name = String::new();
    if let Some(function) = function {
        name.push_str(function);
        name.push('/');
    }
    for (node, attribute) in &path[path.len().saturating_sub(levels)..] {
        name.extend([node, "/", attribute, "/"]);
    }
    name.push_str(&tensor.name);
    name.into()
}
