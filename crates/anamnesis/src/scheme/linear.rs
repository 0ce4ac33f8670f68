//! Which weights are quantised where nobody says: those of linear layers, as the libraries that load the result expect it.

use super::{Candidate, Keeping};
use crate::catalog::NamePatterns;

/// Parts of a name that tell an embedding.
const EMBEDDINGS: [&str; 9] =
    ["embed", "embd", "wte", "wpe", "shared", "token_types", "relative_attention_bias", "codebook", "pos_bias"];
/// Modules that make the model's output, by their whole name or as its last part.
const HEADS: [&str; 5] = ["lm_head", "output", "score", "classifier", "head"];

/// Whether a matrix is quantised, or why not: as the caller says, and where the caller says nothing, if it is the weight of
/// a linear layer.
pub(crate) fn decide(tensor: &Candidate<'_>, rules: &NamePatterns) -> Result<(), Keeping> {
    let &[_, _] = tensor.shape else { return Err(Keeping::NotAMatrix) };
    if rules.excludes(tensor.name) {
        return Err(Keeping::Asked);
    }
    if rules.takes_all() {
        is_linear(tensor.name)?;
    } else if !rules.takes(tensor.name) {
        return Err(Keeping::Asked);
    }
    if tensor.shape.contains(&0) { Err(Keeping::Empty) } else { Ok(()) }
}

/// Whether a name is that of a linear layer's weight.
fn is_linear(name: &str) -> Result<(), Keeping> {
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
