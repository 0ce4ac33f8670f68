//! Which weights are quantised by default: every matrix except embeddings, the head, norms and biases.

use super::quantiser::{Candidate, Keeping, Override};
use crate::catalog::NamePatterns;

/// Words in a name component that mark an embedding.
const EMBEDDINGS: [&str; 9] =
    ["embed", "embd", "wte", "wpe", "shared", "token_types", "relative_attention_bias", "codebook", "pos_bias"];
/// Modules that compute the model's output: the last component of a name.
const HEADS: [&str; 5] = ["lm_head", "output", "score", "classifier", "head"];

/// Matrices that are not the weight of a layer: parameters of state-space models.
const STATES: [&str; 1] = ["A_log"];

/// Name components of modules that choose experts.
const ROUTERS: [&str; 5] = ["gate", "router", "gating", "shared_expert_gate", "expert_gate"];
/// Name components of vision and audio encoders, and of the projectors after them.
const TOWERS: [&str; 12] = [
    "visual",
    "vision_tower",
    "vision_model",
    "vision_encoder",
    "image_encoder",
    "img_processor",
    "audio_tower",
    "audio_encoder",
    "multi_modal_projector",
    "mm_projector",
    "vision_projection",
    "merger",
];

/// Name components of the layers of diffusion models before, after and beside their blocks, which ComfyUI's converters keep:
/// those of FLUX.2, Chroma and its relatives, Wan, HunyuanVideo, Qwen-Image, Z-Image, Anima and LTX-2.
const CONDITIONING: [&str; 27] = [
    "img_in",
    "txt_in",
    "time_in",
    "guidance_in",
    "vision_in",
    "final_layer",
    "norm_out",
    "double_stream_modulation_img",
    "double_stream_modulation_txt",
    "single_stream_modulation",
    "distilled_guidance_layer",
    "nerf_blocks",
    "nerf_final_layer_conv",
    "img_in_patch",
    "time_projection",
    "face_adapter",
    "face_encoder",
    "audio_injector",
    "casual_audio_encoder",
    "cond_encoder",
    "frame_packer",
    "control_adapter",
    "motion_encoder",
    "clip_text_pooled_proj",
    "llm_adapter",
    "patchify_proj",
    "multi_modal_projector",
];
/// The same of LTX-2, as the end of a component.
const CONDITIONING_END: &str = "adaln_single";
/// Output layers of diffusion models that have their names inside blocks too, where a number precedes them.
const OUTPUT_LAYERS: [&str; 3] = ["proj_out", "head.head", "audio_proj_out"];

/// Prefixes of the name components of adapters: LoRA and DoRA of PEFT, diffusers and others, LoHa, LoKr, OFT, IA3,
/// VeRA.
const ADAPTERS: [&str; 12] = [
    "lora_A",
    "lora_B",
    "lora_embedding_",
    "lora_magnitude_vector",
    "lora_up",
    "lora_down",
    "lora_mid",
    "hada_w",
    "lokr_w",
    "oft_",
    "ia3_l",
    "vera_lambda",
];

/// The matrices that are kept by default.
pub(crate) const KEPT_BY_DEFAULT: [Keeping; 4] = [Keeping::Embedding, Keeping::Head, Keeping::Norm, Keeping::NotALayer];
/// The matrices that BitsAndBytes keeps: routers too, which are linear layers in few classes only.
pub(crate) const KEPT_BY_BNB: [Keeping; 5] =
    [Keeping::Embedding, Keeping::Head, Keeping::Norm, Keeping::NotALayer, Keeping::Router];
/// The matrices that quantisers for serving engines keep: routers and vision or audio towers too, which are small and
/// sensitive.
pub(crate) const KEPT_FOR_SERVING: [Keeping; 6] =
    [Keeping::Embedding, Keeping::Head, Keeping::Norm, Keeping::NotALayer, Keeping::Router, Keeping::Tower];
/// The matrices that ComfyUI's converters keep.
pub(crate) const KEPT_FOR_DIFFUSION: [Keeping; 5] =
    [Keeping::Embedding, Keeping::Head, Keeping::Norm, Keeping::NotALayer, Keeping::Conditioning];
/// The matrices that are kept even by schemes that quantise embeddings and heads.
pub(crate) const KEPT_ALWAYS: [Keeping; 2] = [Keeping::Norm, Keeping::NotALayer];

/// Whether a matrix is quantised, or why not: by the caller's patterns, and without any, by its name.
pub(crate) fn decide(tensor: &Candidate<'_>, rules: &NamePatterns) -> Result<(), Keeping> {
    decide_by(tensor, rules, &KEPT_BY_DEFAULT)
}

/// [`decide`], where without patterns of the caller a matrix is kept for the reasons in `keeps`.
pub(crate) fn decide_by(tensor: &Candidate<'_>, rules: &NamePatterns, keeps: &[Keeping]) -> Result<(), Keeping> {
    let &[_, _] = tensor.shape else { return Err(Keeping::NotAMatrix) };
    if rules.excludes(tensor.name) {
        return Err(Keeping::Asked);
    }
    match tensor.requested {
        Some(Override::Keep) => return Err(Keeping::Asked),
        Some(Override::Encode(_)) => {}
        None if rules.takes_all() => by_name(tensor.name, keeps)?,
        None if !rules.takes(tensor.name) => return Err(Keeping::Asked),
        None => {}
    }
    if tensor.shape.contains(&0) { Err(Keeping::Empty) } else { Ok(()) }
}

/// Whether a matrix of this name is quantised, or for which of the reasons in `keeps` not. An unknown name is
/// quantised.
fn by_name(name: &str, keeps: &[Keeping]) -> Result<(), Keeping> {
    let module = match name.strip_suffix("weight") {
        Some(module) if module.is_empty() || module.ends_with('.') => module.trim_end_matches('.'),
        _ => name,
    };
    let last = module.rsplit('.').next().unwrap_or(module);
    let is_embedding =
        |part: &str| EMBEDDINGS.iter().any(|word| part == *word || (word.len() > 3 && part.contains(word)));
    let is_embedding_too = last == "emb" || last.ends_with("_emb");
    let is_head = match last {
        // A submodule of a head is part of it.
        _ if module.split('.').any(|part| matches!(part, "lm_head" | "lm_heads" | "classifier")) => true,
        // Inner layers of BERT and others have these names too.
        "output" | "head" => module == last,
        _ => HEADS.contains(&last),
    };
    if module.split('.').any(|part| ADAPTERS.iter().any(|word| part.starts_with(word))) {
        return Err(Keeping::Adapter);
    }
    let is_bias = |part: &str| part == "bias" || part.ends_with("_bias");
    let is = |keeping: &&Keeping| match keeping {
        Keeping::Embedding => is_embedding_too || module.split('.').any(is_embedding),
        Keeping::Head => is_head,
        Keeping::Norm => is_norm(last),
        Keeping::NotALayer => is_bias(last) || STATES.contains(&last),
        Keeping::Router => module.split('.').any(|part| ROUTERS.contains(&part)),
        Keeping::Conditioning => is_conditioning(module),
        Keeping::Tower => module.split('.').any(|part| TOWERS.contains(&part)),
        _ => false,
    };
    keeps.iter().find(is).map_or(Ok(()), |keeping| Err(*keeping))
}

/// Whether a module is outside of the blocks of a diffusion model.
fn is_conditioning(module: &str) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let ends_in = |name: &str| module == name || module.strip_suffix(name).is_some_and(|start| start.ends_with('.'));
    let is_named = |part: &str| CONDITIONING.contains(&part) || part.ends_with(CONDITIONING_END);
    module.split('.').any(is_named)
        || (OUTPUT_LAYERS.iter().any(|name| ends_in(name)) && !module.split('.').any(is_number))
}

/// Whether BitsAndBytes keeps a matrix because of its name.
#[cfg(test)]
pub(crate) fn is_kept_by_name(name: &str) -> bool {
    by_name(name, &KEPT_BY_BNB).is_err()
}

/// Whether a module has the name of a norm: `norm1`, `input_layernorm`, `ln_f`.
fn is_norm(module: &str) -> bool {
    let lower = module.to_ascii_lowercase();
    let is_word = |word: &str| {
        let word = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
        word == "ln" || word.ends_with("norm")
    };
    lower.split('_').any(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_heads_norms_and_adapters_are_kept_by_name_and_every_other_matrix_is_quantised() {
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
            ("lm_head.dense.weight", Err(Keeping::Head)),
            ("classifier.out_proj.weight", Err(Keeping::Head)),
            ("encoder.rel_pos_emb.weight", Err(Keeping::Embedding)),
            ("linear", Ok(())),
            ("W_enc", Ok(())),
            ("encoder.w", Ok(())),
            ("lora_weight", Ok(())),
            ("base_model.model.layers.0.q_proj.lora_A.weight", Err(Keeping::Adapter)),
            ("model.layers.0.q_proj.lora_B.default.weight", Err(Keeping::Adapter)),
            ("lora_unet_down_blocks_0.lora_up.weight", Err(Keeping::Adapter)),
            ("transformer.h.0.attn.hada_w1_a", Err(Keeping::Adapter)),
            ("norm1.linear.weight", Ok(())),
            ("normal_proj.weight", Ok(())),
            ("model.layers.0.input_layernorm.weight", Err(Keeping::Norm)),
            ("blk.0.attn_q_norm.weight", Err(Keeping::Norm)),
            ("h.0.ln_1.weight", Err(Keeping::Norm)),
            ("ln_f", Err(Keeping::Norm)),
            ("W_embed", Err(Keeping::Embedding)),
            ("layers.0.A_log", Err(Keeping::NotALayer)),
            ("layers.0.q_proj.bias", Err(Keeping::NotALayer)),
            ("layers.0.expert_bias", Err(Keeping::NotALayer)),
        ];
        for (name, wanted) in cases {
            assert_eq!(by_name(name, &KEPT_BY_DEFAULT), wanted, "{name}");
        }
    }

    #[test]
    fn layers_outside_of_the_blocks_of_a_diffusion_model_are_kept() {
        let kept = Err(Keeping::Conditioning);
        let cases = [
            ("double_blocks.0.img_attn.qkv.weight", Ok(())),
            ("model.diffusion_model.single_blocks.3.linear1.weight", Ok(())),
            ("transformer_blocks.0.attn.to_q.weight", Ok(())),
            ("single_transformer_blocks.0.proj_out.weight", Ok(())),
            ("blocks.0.self_attn.q.weight", Ok(())),
            ("layers.0.feed_forward.w1.weight", Ok(())),
            ("img_in.weight", kept),
            ("model.diffusion_model.txt_in.weight", kept),
            ("time_in.in_layer.weight", kept),
            ("guidance_in.out_layer.weight", kept),
            ("final_layer.linear.weight", kept),
            ("double_stream_modulation_img.lin.weight", kept),
            ("distilled_guidance_layer.layers.0.in_layer.weight", kept),
            ("time_projection.1.weight", kept),
            ("head.head.weight", kept),
            ("model.diffusion_model.proj_out.weight", kept),
            ("audio_adaln_single.linear.weight", kept),
            ("patchify_proj.weight", kept),
            ("x_embedder.weight", Err(Keeping::Embedding)),
            ("time_text_embed.timestep_embedder.linear_1.weight", Err(Keeping::Embedding)),
            ("text_embedding.0.weight", Err(Keeping::Embedding)),
            ("norm_out.linear.weight", kept),
        ];
        for (name, wanted) in cases {
            assert_eq!(by_name(name, &KEPT_FOR_DIFFUSION), wanted, "{name}");
        }
    }
}
