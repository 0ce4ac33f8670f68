//! Which weights are quantised: those of linear layers, as the libraries that load the result expect it.

use super::target::Encoding;
use crate::catalog::{NamePatterns, TargetDtype};
use crate::error::Result;
use crate::pipeline::Checks;
use crate::scheme::{TileEncoder, bnb};

/// How weights are quantised, and which.
pub(crate) struct Quantise<'a> {
    pub encoding: Encoding,
    /// What the caller wants quantised and kept; without a pattern to include, linear layers are quantised.
    pub patterns: &'a NamePatterns,
    pub block_size: Option<usize>,
    pub double_quant: bool,
    pub checks: Checks,
}

/// Why a weight is not quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keeping {
    /// It is not a matrix.
    NotAMatrix,
    /// It is an embedding.
    Embedding,
    /// It is the head of the model.
    Head,
    /// Its name is not that of a layer's weight.
    NotALayer,
    /// It has no values.
    Empty,
    /// The caller keeps it.
    Asked,
}

impl Keeping {
    /// The reason in a few words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotAMatrix => "not a matrix",
            Self::Embedding => "an embedding",
            Self::Head => "the head of the model",
            Self::NotALayer => "not the weight of a layer",
            Self::Empty => "without values",
            Self::Asked => "kept as asked",
        }
    }
}

/// Parts of a name that tell an embedding.
const EMBEDDINGS: [&str; 9] =
    ["embed", "embd", "wte", "wpe", "shared", "token_types", "relative_attention_bias", "codebook", "pos_bias"];
/// Modules that make the model's output, by their whole name or as its last part.
const HEADS: [&str; 5] = ["lm_head", "output", "score", "classifier", "head"];

impl Quantise<'_> {
    /// Whether a weight is quantised, or why not.
    pub(super) fn decide(&self, name: &str, shape: &[usize]) -> std::result::Result<(), Keeping> {
        let &[_, _] = shape else { return Err(Keeping::NotAMatrix) };
        if self.patterns.excludes(name) {
            return Err(Keeping::Asked);
        }
        if self.patterns.include.is_empty() {
            is_linear(name)?;
        } else if !self.patterns.takes(name) {
            return Err(Keeping::Asked);
        }
        if shape.contains(&0) { Err(Keeping::Empty) } else { Ok(()) }
    }

    pub(super) fn encoder(&self, name: &str, shape: &[usize], dtype: TargetDtype) -> Result<Box<dyn TileEncoder>> {
        let Encoding::Bnb(kind) = self.encoding;
        bnb::encoder(kind, name, shape, dtype, self.block_size, self.double_quant)
    }
}

/// Whether a name is that of a linear layer's weight.
fn is_linear(name: &str) -> std::result::Result<(), Keeping> {
    let module = match name.strip_suffix("weight") {
        Some(module) if module.is_empty() || module.ends_with('.') => module.trim_end_matches('.'),
        _ => return Err(Keeping::NotALayer),
    };
    let is_embedding =
        |part: &str| EMBEDDINGS.iter().any(|word| part == *word || (word.len() > 3 && part.contains(word)));
    if module.split('.').any(is_embedding) {
        return Err(Keeping::Embedding);
    }
    let last = module.rsplit('.').next().unwrap_or(module);
    let is_head = match last {
        // Inner layers of BERT and others are called so too.
        "output" | "head" => module == last,
        _ => HEADS.contains(&last),
    };
    if is_head { Err(Keeping::Head) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_layers_are_told_from_embeddings_and_heads() {
        let cases = [
            ("model.layers.0.self_attn.q_proj.weight", Ok(())),
            ("model.layers.0.mlp.gate.weight", Ok(())),
            ("blk.0.attn_q.weight", Ok(())),
            ("weight", Ok(())),
            ("bert.encoder.layer.0.output.dense.weight", Ok(())),
            ("encoder.layer.0.attention.output.weight", Ok(())),
            ("model.embed_tokens.weight", Err(Keeping::Embedding)),
            ("token_embd.weight", Err(Keeping::Embedding)),
            ("transformer.wte.weight", Err(Keeping::Embedding)),
            ("embeddings.word_embeddings.weight", Err(Keeping::Embedding)),
            ("shared.weight", Err(Keeping::Embedding)),
            ("lm_head.weight", Err(Keeping::Head)),
            ("output.weight", Err(Keeping::Head)),
            ("score.weight", Err(Keeping::Head)),
            ("layers.0.A_log", Err(Keeping::NotALayer)),
            ("layers.0.q_proj.bias", Err(Keeping::NotALayer)),
            ("lora_weight", Err(Keeping::NotALayer)),
        ];
        for (name, wanted) in cases {
            assert_eq!(is_linear(name), wanted, "{name}");
        }
    }
}
