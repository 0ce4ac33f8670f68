//! Patterns of tensor names, matched and fill.

/// The parts of a name that a pattern leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Captures<'a> {
    /// The number of an expert, where the pattern has `{X}`.
    pub expert: Option<u64>,
    /// `weight` or `bias`, where the pattern ends in `*`.
    pub ending: &'a str,
}

/// The begin of a placeholder in a pattern: `{X}` for the number of an expert, or `{q|k|v}` for one of several words.
pub(super) const PLACEHOLDER: char = '{';

/// The endings that `*` matches, and those that only `#` matches.
const ENDINGS: [&str; 2] = ["weight", "bias"];
pub(super) const BOUNDS: [&str; 4] = ["input_min", "input_max", "output_min", "output_max"];

/// The last characters of patterns that leave the ending open.
const OPEN: [char; 2] = ['*', '#'];

/// Matches a name with a pattern.
pub(crate) fn captures<'a>(pattern: &str, name: &'a str) -> Option<Captures<'a>> {
    let (pattern, name, ending) = match pattern.strip_suffix(OPEN) {
        None => (pattern, name, ""),
        Some(front) => {
            let bounds = BOUNDS.into_iter().filter(|_| pattern.ends_with('#'));
            let mut endings = ENDINGS.into_iter().chain(bounds);
            let ending = endings.find_map(|ending| name.strip_suffix(ending).map(|rest| (rest, ending)));
            let (rest, ending) = ending?;
            (front, rest, &name[name.len() - ending.len()..])
        }
    };
    let expert = match pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        None if pattern == name => None,
        None => return None,
        Some((before, (open, behind))) => {
            let part = name.strip_prefix(before)?.strip_suffix(behind)?;
            match open {
                "X" => Some(number(part)?),
                // One of several words, counted from 0.
                words => Some(words.split('|').position(|word| word == part)? as u64),
            }
        }
    };
    Some(Captures { expert, ending })
}

/// The name that a pattern and its open parts give.
pub(crate) fn fill(pattern: &str, captures: Captures<'_>) -> String {
    let name = match pattern.strip_suffix(OPEN) {
        Some(front) => format!("{front}{}", captures.ending),
        None => pattern.to_owned(),
    };
    match (captures.expert, name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))) {
        (Some(expert), Some((before, (open, behind)))) => {
            let word = usize::try_from(expert).ok().and_then(|index| open.split('|').nth(index));
            match word.filter(|_| open != "X") {
                Some(word) => format!("{before}{word}{behind}"),
                None => format!("{before}{expert}{behind}"),
            }
        }
        _ => name,
    }
}

/// The layer of a name with this prefix, and the rest of the name.
pub(crate) fn in_layer<'a>(prefix: &str, name: &'a str) -> Option<(u64, &'a str)> {
    let (layer, rest) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((number(layer)?, rest))
}

/// A decimal number without sign or leading zeros.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Prefixes of tensors outside the language model of a multimodal model.
const TOWER_PREFIXES: [&str; 10] = [
    "mlp",
    "vit.",
    "vpm.",
    "siglip2.",
    "conformer.",
    "merger.",
    "resampler.",
    "sound_encoder.",
    "sound_projection.",
    "speech_embeddings.",
];

/// Parts of the names of such tensors.
const TOWERS: [&str; 17] = [
    "visual.",
    "vision.",
    "audio.",
    "talker.",
    "vision_",
    "audio_",
    "token2wav.",
    "code2wav.",
    "projector.",
    "pre_mm_projector_norm",
    "image_newline",
    "view_seperator",
    "patch_embed",
    "patch_merger.",
    "patch_merge_mlp.",
    "model.connector.",
    "embed_vision.",
];

/// Endings of buffers that are no weights.
const BUFFERS: [&str; 3] = [".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"];

/// Whether a tensor is no weight of the language model: a buffer, or part of a tower or projector.
pub(crate) fn is_not_weight(name: &str) -> bool {
    BUFFERS.iter().any(|ending| name.ends_with(ending))
        || TOWER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || TOWERS.iter().any(|part| name.contains(part))
}

/// Prefixes that the tensors of projectors are renamed to: towers, and the layers between them and the language model.
const OF_PROJECTORS: [&str; 3] = ["vision.", "audio.", "mm."];

/// The name of a projector's tensor after its renames; `None` for those of the language model, and for buffers.
pub(crate) fn of_projector(name: &str, renames: &[Rename], dropped: &[&str]) -> Option<String> {
    if BUFFERS.iter().any(|ending| name.ends_with(ending)) || !renames.iter().any(|rename| rename.takes(name)) {
        return None;
    }
    let name = renamed(name, renames, "", None);
    let is_own = OF_PROJECTORS.iter().any(|prefix| name.starts_with(prefix));
    (is_own && !dropped.iter().any(|prefix| name.starts_with(prefix))).then_some(name)
}

/// The name before a prefix was renamed.
pub(crate) fn with_old_prefix(name: &str, renames: &[Rename]) -> String {
    let before = renames.iter().find_map(|rename| match rename {
        Rename::Prefix(from, to) if !to.is_empty() => name.strip_prefix(to).map(|rest| format!("{from}{rest}")),
        _ => None,
    });
    before.unwrap_or_else(|| name.to_owned())
}

/// The name of a tensor without `language_model.`, which multimodal models add.
pub(crate) fn bare(name: &str) -> String {
    name.replace("language_model.", "")
}

/// A change of checkpoint names before rules are applied. In its texts, `{N}` is the number of layers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rename {
    /// A prefix becomes another; the first that fits counts.
    Prefix(&'static str, &'static str),
    /// A text becomes another wherever it is.
    Anywhere(&'static str, &'static str),
    /// An ending becomes another.
    Ending(&'static str, &'static str),
    /// Layers under this prefix are counted after the last: `mtp.layers.` of multi-token prediction.
    FurtherLayers(&'static str),
    /// What begins like this in a layer belongs to no layer.
    OutOfLayers(&'static str),
}

impl Rename {
    /// Whether it renames the prefix of a name.
    fn takes(&self, name: &str) -> bool {
        matches!(self, Self::Prefix(from, _) if name.starts_with(from))
    }
}

/// A name after the renames of an architecture.
pub(crate) fn renamed(name: &str, renames: &[Rename], layer_prefix: &str, layers: Option<u64>) -> String {
    let filled = |text: &str| match layers {
        Some(layers) => text.replace("{N}", &layers.to_string()),
        None => text.to_owned(),
    };
    let (mut name, mut has_prefix) = (name.to_owned(), false);
    for rename in renames {
        match rename {
            Rename::Prefix(from, to) => {
                if let (false, Some(rest)) = (has_prefix, name.strip_prefix(from)) {
                    name = format!("{}{rest}", filled(to));
                    has_prefix = true;
                }
            }
            Rename::Anywhere(from, to) => name = name.replace(from, to),
            Rename::Ending(from, to) => {
                if let Some(rest) = name.strip_suffix(from) {
                    name = format!("{rest}{to}");
                }
            }
            Rename::OutOfLayers(front) => {
                if let Some((_, rest)) = in_layer(layer_prefix, &name).filter(|(_, rest)| rest.starts_with(front)) {
                    name = rest.to_owned();
                }
            }
            Rename::FurtherLayers(prefix) => {
                if let (Some((layer, rest)), Some(layers)) = (in_layer(prefix, &name), layers) {
                    name = format!("{layer_prefix}{}.{rest}", layers.saturating_add(layer));
                    has_prefix = true;
                }
            }
        }
    }
    name
}

/// The name in a checkpoint of a tensor in layers for multi-token prediction, which renames count after the last.
pub(crate) fn unrenamed(name: &str, renames: &[Rename], layer_prefix: &str, layers: u64) -> String {
    if in_layer(layer_prefix, name).is_none_or(|(layer, _)| layer < layers) {
        return name.to_owned();
    }
    let mut without_layer = name.to_owned();
    let mut candidates = Vec::new();
    for rename in renames.iter().rev() {
        match rename {
            Rename::Prefix(from, to) if to.contains("{N}") => {
                if let Some(rest) = without_layer.strip_prefix(&to.replace("{N}", &layers.to_string())) {
                    without_layer = format!("{from}{rest}");
                }
            }
            Rename::Prefix(..) | Rename::Ending(..) | Rename::OutOfLayers(_) => {}
            Rename::Anywhere(from, to) => without_layer = without_layer.replace(to, from),
            Rename::FurtherLayers(prefix) => {
                candidates.extend(
                    in_layer(layer_prefix, name).map(|(layer, rest)| format!("{prefix}{}.{rest}", layer - layers)),
                );
            }
        }
    }
    let is_right = |candidate: &String| renamed(candidate, renames, layer_prefix, Some(layers)) == name;
    // Names between renames are no names of tensors.
    let is_name = |candidate: &String| candidate != name && !candidate.contains('#');
    let found =
        std::iter::once(without_layer).chain(candidates).find(|candidate| is_name(candidate) && is_right(candidate));
    found.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_in_both_directions() {
        for (pattern, name) in [
            ("self_attn.q_proj.*", "self_attn.q_proj.bias"),
            ("mlp.experts.{X}.up_proj.*", "mlp.experts.17.up_proj.weight"),
            ("self_attn.sinks", "self_attn.sinks"),
            ("self_attn.{q|k|v}_proj.*", "self_attn.v_proj.bias"),
        ] {
            assert_eq!(fill(pattern, captures(pattern, name).unwrap()), name);
        }
        let wrong = ["mlp.experts.07.up_proj.weight", "mlp.experts.x.up_proj.weight", "mlp.experts.1.up_proj.scale"];
        assert!(wrong.iter().all(|name| captures("mlp.experts.{X}.up_proj.*", name).is_none()));
    }

    #[test]
    fn parts_of_a_larger_model_are_known_by_name() {
        assert!(is_not_weight("model.vision_tower.x") && is_not_weight("a.rotary_emb.inv_freq"));
        assert!(!is_not_weight("model.layers.0.mlp.up_proj.weight"));
        assert_eq!(
            renamed("mtp.layers.1.x", &[Rename::FurtherLayers("mtp.layers.")], "model.layers.", Some(4)),
            "model.layers.5.x"
        );
        let renames = [
            Rename::FurtherLayers("mtp.layers."),
            Rename::Anywhere("mtp.fc.", "mtp#eh_proj."),
            Rename::Prefix("mtp#", "model.layers.{N}."),
        ];
        for name in ["mtp.fc.weight", "mtp.layers.0.x", "model.layers.3.x"] {
            let there = renamed(name, &renames, "model.layers.", Some(4));
            assert_eq!(unrenamed(&there, &renames, "model.layers.", 4), name);
        }
        assert_eq!(bare("model.language_model.layers.0.x"), "model.layers.0.x");
    }
}
