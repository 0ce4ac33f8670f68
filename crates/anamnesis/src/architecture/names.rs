//! Names of tensors as patterns that are read in both directions.

/// What a name has in the places that a pattern leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caught<'a> {
    /// The number of an expert, where the pattern has `{X}`.
    pub expert: Option<u64>,
    /// `weight` or `bias`, where the pattern ends in `*`.
    pub ending: &'a str,
}

/// The place of experts in a pattern.
pub(super) const EXPERT: &str = "{X}";

/// What stands at the end of names.
const ENDINGS: [&str; 2] = ["weight", "bias"];

/// What a name has in the open places of a pattern that it fits.
pub(crate) fn caught<'a>(pattern: &str, name: &'a str) -> Option<Caught<'a>> {
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
    Some(Caught { expert, ending })
}

/// A pattern with its open places filled.
pub(crate) fn filled(pattern: &str, caught: Caught<'_>) -> String {
    let name = match pattern.strip_suffix('*') {
        Some(front) => format!("{front}{}", caught.ending),
        None => pattern.to_owned(),
    };
    match caught.expert {
        Some(expert) => name.replace(EXPERT, &expert.to_string()),
        None => name,
    }
}

/// The layer of a name and what stands behind it, where its layers begin so.
pub(crate) fn in_layer<'a>(prefix: &str, name: &'a str) -> Option<(u64, &'a str)> {
    let (layer, rest) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((number(layer)?, rest))
}

/// A number as it is written: without signs, and zeros in front.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Parts of a larger model that no language model has, by what a segment of the name starts with.
const OTHER_PARTS: [&str; 9] = [
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

/// Endings of what is real_fn out while a model runs.
const WORKED_OUT: [&str; 3] = [".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"];

/// Whether a tensor is no weight of the language model.
pub(crate) fn is_beside(name: &str) -> bool {
    WORKED_OUT.iter().any(|ending| name.ends_with(ending))
        || name.split('.').any(|segment| OTHER_PARTS.iter().any(|part| segment.starts_with(part)))
}

/// The name of a language model's tensor without what a larger model puts around it.
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
            assert_eq!(filled(pattern, caught(pattern, name).unwrap()), name);
        }
        let wrong = ["mlp.experts.07.up_proj.weight", "mlp.experts.x.up_proj.weight", "mlp.experts.1.up_proj.scale"];
        assert!(wrong.iter().all(|name| caught("mlp.experts.{X}.up_proj.*", name).is_none()));
    }

    #[test]
    fn parts_of_a_larger_model_are_known_by_segments() {
        assert!(is_beside("model.vision_tower.x") && is_beside("a.rotary_emb.inv_freq"));
        assert!(!is_beside("model.layers.0.mlp.up_proj.weight"));
        assert_eq!(bare("model.language_model.layers.0.x"), "model.layers.0.x");
    }
}
