//! Layers in the names of tensors: `model.layers.7.mlp.up_proj.weight` is in layer 7 of `model.layers`.

/// Parts of names of modules outside the language model.
const OTHER_MODELS: [&str; 12] = [
    "vision",
    "visual",
    "vit",
    "audio",
    "image",
    "talker",
    "code2wav",
    "token2wav",
    "mm_",
    "mtp",
    "speech",
    "perceiver",
];

/// A name that has a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerName<'a> {
    /// The name of the list of layers: `model.layers`.
    pub(super) list: &'a str,
    pub(super) index: u64,
    /// The name inside the layer: `mlp.up_proj.weight`.
    pub(super) rest: &'a str,
}

impl<'a> LayerName<'a> {
    /// The outermost layer of a name.
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let mut start = 0;
        for piece in name.split('.') {
            let end = start + piece.len();
            if start > 0 && !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit()) {
                let (list, rest) = (name.get(..start - 1)?, name.get(end + 1..)?);
                return Some(Self { list, index: piece.parse().ok()?, rest });
            }
            start = end + 1;
        }
        None
    }

    /// Whether the layer is part of a language model, not of an encoder of pictures or sound.
    pub(super) fn is_language(&self) -> bool {
        is_language(self.list)
    }
}

/// Whether a module is part of a language model, by its name.
pub(super) fn is_language(module: &str) -> bool {
    let module = module.to_ascii_lowercase();
    !OTHER_MODELS.iter().any(|other| module.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_number_is_the_layer() {
        let name = LayerName::of("model.layers.7.mlp.experts.3.up_proj.weight").unwrap();
        assert_eq!((name.list, name.index, name.rest), ("model.layers", 7, "mlp.experts.3.up_proj.weight"));
        assert!(name.is_language());
        assert_eq!(LayerName::of("blk.0.attn_q.weight").unwrap().rest, "attn_q.weight");
        assert!(!LayerName::of("model.vision_tower.layers.0.fc.weight").unwrap().is_language());
        for name in ["lm_head.weight", "0.weight", "a.1", "a.99999999999999999999999.b", "", "..", "é.1é.x"] {
            assert_eq!(LayerName::of(name), None, "{name}");
        }
    }
}
