//! Patterns of tensor names, matched and fill.

/// The parts of a name that a pattern leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Captures<'a> {
    /// The number of an expert, where the pattern has `{X}`.
    pub expert: Option<u64>,
    /// `weight` or `bias`, where the pattern ends in `*`.
    pub ending: &'a str,
}

/// The placeholder of an expert's number in a pattern.
pub(super) const EXPERT: &str = "{X}";

/// The endings that `*` matches.
const ENDINGS: [&str; 2] = ["weight", "bias"];

/// Matches a name with a pattern.
pub(crate) fn captures<'a>(pattern: &str, name: &'a str) -> Option<Captures<'a>> {
    let (pattern, name, ending) = match pattern.strip_suffix('*') {
        None => (pattern, name, ""),
        Some(front) => {
            let ending = ENDINGS.into_iter().find_map(|ending| name.strip_suffix(ending).map(|rest| (rest, ending)));
            let (rest, ending) = ending?;
            (front, rest, &name[name.len() - ending.len()..])
        }
    };
    let expert = match pattern.split_once(EXPERT) {
        None if pattern == name => None,
        None => return None,
        Some((before, behind)) => Some(number(name.strip_prefix(before)?.strip_suffix(behind)?)?),
    };
    Some(Captures { expert, ending })
}

/// The name that a pattern and its open parts give.
pub(crate) fn fill(pattern: &str, captures: Captures<'_>) -> String {
    let name = match pattern.strip_suffix('*') {
        Some(front) => format!("{front}{}", captures.ending),
        None => pattern.to_owned(),
    };
    match captures.expert {
        Some(expert) => name.replace(EXPERT, &expert.to_string()),
        None => name,
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

/// Prefixes of name segments in the towers and projectors of multimodal models.
const TOWERS: [&str; 9] = [
    "vision_",
    "visual",
    "audio_",
    "projector",
    "multi_modal_projector",
    "mm_projector",
    "vision",
    "image_newline",
    "embed_vision",
];

/// Endings of buffers that are no weights.
const BUFFERS: [&str; 3] = [".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"];

/// Whether a tensor is no weight of the language model: a buffer, or part of a tower or projector.
pub(crate) fn is_not_weight(name: &str) -> bool {
    BUFFERS.iter().any(|ending| name.ends_with(ending))
        || name.split('.').any(|segment| TOWERS.iter().any(|part| segment.starts_with(part)))
}

/// The name of a tensor without `language_model.`, which multimodal models add.
pub(crate) fn bare(name: &str) -> String {
    name.replace("language_model.", "")
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
        ] {
            assert_eq!(fill(pattern, captures(pattern, name).unwrap()), name);
        }
        let wrong = ["mlp.experts.07.up_proj.weight", "mlp.experts.x.up_proj.weight", "mlp.experts.1.up_proj.scale"];
        assert!(wrong.iter().all(|name| captures("mlp.experts.{X}.up_proj.*", name).is_none()));
    }

    #[test]
    fn parts_of_a_larger_model_are_known_by_segments() {
        assert!(is_not_weight("model.vision_tower.x") && is_not_weight("a.rotary_emb.inv_freq"));
        assert!(!is_not_weight("model.layers.0.mlp.up_proj.weight"));
        assert_eq!(bare("model.language_model.layers.0.x"), "model.layers.0.x");
    }
}
