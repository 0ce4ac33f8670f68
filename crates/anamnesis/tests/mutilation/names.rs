//! Mutations of names: tensors that are missing, renamed, or duplicated.

use super::case::Case;
use super::mutation::Mutation;
use super::subject::{Stored, Subject};

/// Suffixes that have a meaning in some scheme.
const KNOWN_ENDS: [&str; 16] = [
    "weight",
    "bias",
    "qweight",
    "qzeros",
    "scales",
    "g_idx",
    "weight_scale",
    "weight_scale_inv",
    "weight_packed",
    "weight_zero_point",
    "weight.absmax",
    "SCB",
    "biases",
    "scale",
    "input_scale",
    "W_q",
];

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for Stored { name, .. } in case.parts() {
        mutations.push(Mutation::new("remove", name, "nothing", remove(name)));
        if case.parts.len() > 1 {
            let others: Vec<_> = case.parts.iter().filter(|other| *other != name).cloned().collect();
            let keep_alone =
                move |subject: &mut Subject| subject.tensors.retain(|stored| !others.contains(&stored.name));
            mutations.push(Mutation::new("leave alone", name, "the only part", keep_alone));
        }
        for (how, new) in other_names(name) {
            if case.subject.find(&new).is_none() {
                mutations.push(Mutation::new("rename", name, &how, rename(name, &new)));
                mutations.push(Mutation::new("duplicate", name, how, duplicate(name, &new)));
            }
        }
        for other in case.parts.iter().filter(|other| *other > name) {
            mutations.push(Mutation::new("swap names", name, other, swap(name, other)));
        }
    }
    mutations
}

/// Other names for a tensor, each with a description.
pub fn other_names(name: &str) -> Vec<(String, String)> {
    let (module, last) = name.rsplit_once('.').unwrap_or(("", name));
    let join = |module: &str, last: &str| if module.is_empty() { last.to_owned() } else { format!("{module}.{last}") };
    let mut names = vec![
        ("another prefix", format!("other.{name}")),
        ("another layer", name.replacen(".0.", ".9.", 1)),
        ("no prefix", last.to_owned()),
        ("upper case", join(module, &last.to_uppercase())),
        ("a capital", join(module, &capitalised(last))),
        ("a dot more", format!("{module}..{last}")),
        ("a dot at the end", format!("{name}.")),
        ("a dot less", format!("{module}{last}")),
        ("an underscore for a dot", format!("{module}_{last}")),
        ("a space at the end", format!("{name} ")),
        ("a longer end", format!("{name}_x")),
        ("a shorter end", name[..name.len() - 1].to_owned()),
        ("an unknown end", join(module, "foo")),
        ("an unknown end behind a dot", format!("{name}.foo")),
    ];
    names.extend(KNOWN_ENDS.map(|end| (end, join(module, end))));
    let described = names.into_iter().map(|(how, new)| (format!("{how} ({new})"), new));
    described.filter(|(_, new)| new != name && !new.is_empty()).collect()
}

fn capitalised(word: &str) -> String {
    let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    head.to_uppercase() + tail
}

fn remove(name: &str) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let name = name.to_owned();
    move |subject| subject.tensors.retain(|stored| stored.name != name)
}

fn rename(name: &str, new: &str) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let (name, new) = (name.to_owned(), new.to_owned());
    move |subject| {
        if let Some(stored) = subject.find_mut(&name) {
            stored.name.clone_from(&new);
        }
    }
}

fn duplicate(name: &str, new: &str) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let (name, new) = (name.to_owned(), new.to_owned());
    move |subject| {
        let copy = subject.find(&name).map(|stored| Stored { name: new.clone(), ..stored.clone() });
        subject.tensors.extend(copy);
    }
}

fn swap(a: &str, b: &str) -> impl Fn(&mut Subject) + Send + Sync + use<> {
    let (a, b) = (a.to_owned(), b.to_owned());
    move |subject| {
        for stored in &mut subject.tensors {
            if stored.name == a {
                stored.name.clone_from(&b);
            } else if stored.name == b {
                stored.name.clone_from(&a);
            }
        }
    }
}
