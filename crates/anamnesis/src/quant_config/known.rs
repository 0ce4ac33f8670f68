//! The known members of a description and the types of their values. Unknown members are ignored.

use super::json::{Json, Members};
use super::place::Place;

/// The type of a value; `null` is always accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Flag,
    Integer,
    /// A list of integers.
    Integers,
    /// EXL2 and EXL3 use fractional bits.
    Number,
    /// AutoRound also writes a pair.
    GroupSize,
    /// Rows and columns.
    Pair,
    /// A pair, or `128x128`.
    Block,
    Names,
    /// Names, or lists of them.
    NestedNames,
    Object,
}

use Kind::{Block, Flag, GroupSize, Integer, Names, NestedNames, Number, Object, Pair, Text};

/// Members of a description, and of an override for some modules.
const KNOWN: [(&str, Kind); 37] = [
    ("quant_method", Text),
    ("quant_algo", Text),
    ("kv_cache_quant_algo", Text),
    ("format", Text),
    ("checkpoint_format", Text),
    ("packing_format", Text),
    ("fmt", Text),
    ("mode", Text),
    ("expert_dtype", Text),
    ("bits", Number),
    ("w_bit", Integer),
    ("group_size", GroupSize),
    ("q_group_size", Integer),
    ("act_bits", Number),
    ("sym", Flag),
    ("desc_act", Flag),
    ("static_groups", Flag),
    ("zero_point", Flag),
    ("is_marlin_format", Flag),
    ("load_in_4bit", Flag),
    ("load_in_8bit", Flag),
    ("weight_block_size", Pair),
    ("ignore", Names),
    ("exclude_modules", Names),
    ("modules_to_not_convert", Names),
    ("ignored_layers", Names),
    ("llm_int8_skip_modules", Names),
    ("modules_to_convert", Names),
    ("modules_in_block_to_quantize", NestedNames),
    ("config_groups", Object),
    ("quantized_layers", Object),
    ("dynamic", Object),
    ("extra_config", Object),
    ("module_quant_configs", Object),
    ("num_bits", Integer),
    ("sparsity_config", Object),
    ("transform_config", Object),
];

/// Members of a group.
const GROUP: [(&str, Kind); 3] = [("targets", Names), ("format", Text), ("weights", Object)];

/// Members of a group's `weights`.
const WEIGHTS: [(&str, Kind); 6] = [
    ("num_bits", Integer),
    ("type", Text),
    ("symmetric", Flag),
    ("strategy", Text),
    ("group_size", Integer),
    ("block_structure", Block),
];

impl Kind {
    /// The name of the type in error messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Text => "text",
            Flag => "true or false",
            Integer => "an integer",
            Kind::Integers => "a list of integers",
            Number => "a number",
            GroupSize => "an integer or a pair of integers",
            Pair | Block => "a pair of positive integers",
            Names => "a list of names",
            NestedNames => "a list of names or of lists of names",
            Object => "an object",
        }
    }

    fn accepts(self, value: &Json) -> bool {
        let is_name = |value: &Json| matches!(value, Json::Text(_));
        let is_whole = |value: &Json| matches!(value, Json::Number(number) if number.as_i64().is_some());
        match (self, value) {
            (_, Json::Null) => true,
            (Text, value) => is_name(value),
            (Flag, value) => matches!(value, Json::Flag(_)),
            (Integer, value) => is_whole(value),
            (Kind::Integers, Json::List(items)) => items.iter().all(is_whole),
            (Number, value) => matches!(value, Json::Number(_)),
            (GroupSize, Json::List(items)) => items.len() == 2 && items.iter().all(is_whole),
            (GroupSize, value) => is_whole(value),
            (Pair, value) => matches!(value, Json::List(_)) && pair(value).is_some(),
            (Block, value) => pair(value).is_some(),
            (Names, Json::List(items)) => items.iter().all(is_name),
            (NestedNames, Json::List(items)) => items.iter().all(|item| is_name(item) || Names.accepts(item)),
            (Object, value) => value.members().is_some(),
            _ => false,
        }
    }
}

/// Rows and columns of a block.
pub(super) fn pair(value: &Json) -> Option<(u64, u64)> {
    let number = |value: &Json| match value {
        Json::Number(number) => number.as_u64(),
        _ => None,
    };
    let (rows, cols) = match value {
        Json::List(items) => match items.as_slice() {
            [rows, cols] => (number(rows)?, number(cols)?),
            _ => return None,
        },
        Json::Text(text) => {
            let (rows, cols) = text.split_once('x')?;
            (rows.parse().ok()?, cols.parse().ok()?)
        }
        _ => return None,
    };
    (rows > 0 && cols > 0).then_some((rows, cols))
}

/// Whether a member of this name is known.
pub(super) fn is_known(key: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == key)
}

/// Problems reported per description, at most.
const MAX_PROBLEMS: usize = 100;

/// Checks the members of an object, and of the groups and overrides inside it.
pub(super) fn check(members: &Members, place: Place<'_>, problems: &mut Vec<String>) {
    check_against(&KNOWN, members, place, problems);
    let inside = |key: &'static str| members.get(key).and_then(Json::members).map(|inner| (inner, place.with(key)));
    if let Some((groups, place)) = inside("config_groups") {
        for (name, group) in groups.iter() {
            let place = place.with(name);
            match group {
                Json::Object(group) => {
                    check_against(&GROUP, group, place, problems);
                    if let Some(weights) = group.get("weights").and_then(Json::members) {
                        check_against(&WEIGHTS, weights, place.with("weights"), problems);
                    }
                }
                // A preset scheme of compressed-tensors by name, for these targets.
                Json::List(_) if Names.accepts(group) => {}
                other => problems.push(wrong(place, other, Object)),
            }
        }
        note_repeated(groups, place, problems);
    }
    for key in ["dynamic", "extra_config", "quantized_layers", "module_quant_configs"] {
        let Some((rules, place)) = inside(key) else { continue };
        for (name, rule) in rules.iter() {
            match rule {
                Json::Object(rule) => check_against(&KNOWN, rule, place.with(name), problems),
                other => problems.push(wrong(place.with(name), other, Object)),
            }
        }
        note_repeated(rules, place, problems);
    }
}

fn check_against(known: &[(&'static str, Kind)], members: &Members, place: Place<'_>, problems: &mut Vec<String>) {
    for &(key, kind) in known {
        if problems.len() >= MAX_PROBLEMS {
            return;
        }
        if let Some(value) = members.get(key).filter(|value| !kind.accepts(value)) {
            problems.push(wrong(place.with(key), value, kind));
        }
    }
    note_repeated(members, place, problems);
}

/// Reports a duplicate key: readers differ in which value they use.
fn note_repeated(members: &Members, place: Place<'_>, problems: &mut Vec<String>) {
    if let Some(key) = members.repeated() {
        problems.push(format!("{} appears twice", place.with(key)));
    }
}

/// The message for a value of the wrong type.
pub(super) fn wrong(place: Place<'_>, found: &Json, kind: Kind) -> String {
    format!("{place} is {}, {} is needed", found.brief(), kind.name())
}
