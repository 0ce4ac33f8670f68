//! The names of constants: the converter's, which may repeat.

use std::collections::{HashMap, HashSet};

/// Suffixes of the names of scales and zero points.
const SCALES: &str = ":scale";
const ZERO_POINTS: &str = ":zero_point";

/// The place of a constant in its model.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) graph: u64,
    pub(super) graph_name: String,
    pub(super) index: u64,
}

/// Names for each constant, its scales and its zero points, all of them distinct: the plain name if no other constant
/// has it, otherwise with the subgraph before it, and if that repeats too, with the number of the tensor behind it.
pub(super) fn distinct_names<'a>(places: impl Iterator<Item = &'a Place> + Clone) -> Vec<[String; 3]> {
    let count = |names: &mut dyn Iterator<Item = String>| {
        let mut counts: HashMap<String, u32> = HashMap::new();
        names.for_each(|name| *counts.entry(name).or_default() += 1);
        counts
    };
    let plain = count(&mut places.clone().map(|place| place.name.clone()));
    let in_graph = count(&mut places.clone().map(Place::in_graph));
    let mut used: HashSet<String> = HashSet::new();
    let mut distinct = |name: String| {
        let mut name = name;
        while !used.insert(name.clone()) {
            name.push('\'');
        }
        name
    };
    let is_single = |counts: &HashMap<String, u32>, name: &str| !name.is_empty() && counts.get(name) == Some(&1);
    let names: Vec<String> = places
        .map(|place| match place.in_graph() {
            _ if is_single(&plain, &place.name) => distinct(place.name.clone()),
            name if !place.name.is_empty() && is_single(&in_graph, &name) => distinct(name),
            name => distinct(format!("{name}:{}", place.index)),
        })
        .collect();
    let with_parts = |name: String| {
        let parts = [SCALES, ZERO_POINTS].map(|suffix| distinct(format!("{name}{suffix}")));
        let [scales, zeros] = parts;
        [name, scales, zeros]
    };
    names.into_iter().map(with_parts).collect()
}

impl Place {
    fn in_graph(&self) -> String {
        match self.graph_name.as_str() {
            "" => format!("{}/{}", self.graph, self.name),
            graph => format!("{graph}/{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_repeat_are_distinguished_by_subgraph_and_number() {
        let place = |name: &str, graph: u64, graph_name: &str, index: u64| Place {
            name: name.to_owned(),
            graph,
            graph_name: graph_name.to_owned(),
            index,
        };
        let places = [
            place("w", 0, "main", 4),
            place("b", 0, "main", 5),
            place("b", 1, "", 1),
            place("c", 0, "main", 6),
            place("c", 0, "main", 7),
            place("", 0, "main", 8),
            place("w:scale", 0, "main", 9),
        ];
        let names = distinct_names(places.iter());
        let first: Vec<_> = names.iter().map(|names| names[0].as_str()).collect();
        assert_eq!(first, ["w", "main/b", "1/b", "main/c:6", "main/c:7", "main/:8", "w:scale"]);
        assert_eq!(names[0], ["w", "w:scale'", "w:zero_point"]);
    }
}
