//! The class that transformers gives to the layer of a weight: it decides whether a loader replaces the layer by a
//! quantised one, and whether the weight is stored transposed.
//!
//! Loaders replace modules of the class `Linear`, and some also `Conv1D`. Almost every matrix of a model belongs to one
//! of them; this file lists the exceptions, by the `model_type` of the configuration. `reference/gen_classes.py` lists
//! the layers of every class of transformers, and the tests compare this table with that list.

/// The class of a weight's layer, as far as loaders distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Layer {
    /// `Linear`, or unknown.
    Linear,
    /// A subclass of `Linear`, which loaders that compare the exact class do not replace.
    Inherited,
    /// `Conv1D`: a linear layer that stores its weight transposed.
    Conv1d,
    /// A linear layer that its model keeps in F32.
    InF32,
    /// A linear layer whose weight its model reads without calling the layer: codes would be read as values.
    Bypassed,
    /// An expert of a mixture; transformers holds all experts of a layer in one tensor.
    Expert,
    /// The head of the model, or a projection that loaders treat as one.
    Head,
    /// A parameter that does not belong to a linear layer.
    Other,
}

/// The `model_type`s of a model and of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelClass<'a> {
    types: &'a [String],
}

/// Modules whose layer is not `Linear`, by the suffixes of their names.
struct Exception {
    /// The model types it applies to; empty for all.
    types: &'static [&'static str],
    modules: &'static [&'static str],
    layer: Layer,
}

const EXCEPTIONS: [Exception; 17] = [
    Exception {
        types: &["gpt2", "openai-gpt", "imagegpt", "decision_transformer"],
        modules: &[
            "attn.c_attn",
            "attn.c_proj",
            "crossattention.c_attn",
            "crossattention.q_attn",
            "crossattention.c_proj",
            "mlp.c_fc",
            "mlp.c_proj",
        ],
        layer: Layer::Conv1d,
    },
    Exception { types: &["clvp", "clvp_decoder"], modules: &["mlp.c_fc", "mlp.c_proj"], layer: Layer::Conv1d },
    Exception { types: &["t5", "mt5", "umt5", "udop", "pop2piano"], modules: &["wo"], layer: Layer::InF32 },
    Exception {
        types: &["axk2", "deepseek_v32", "glm_moe_dsa", "mistral_large4", "mistral_large4_text"],
        modules: &["indexer.weights_proj"],
        layer: Layer::InF32,
    },
    Exception {
        types: &["deepseek_v4"],
        modules: &[
            "compressor.gate_proj",
            "compressor.kv_proj",
            "indexer.gate_proj",
            "indexer.kv_proj",
            "scorer.weights_proj",
        ],
        layer: Layer::InF32,
    },
    Exception {
        types: &["falcon"],
        modules: &["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"],
        layer: Layer::Inherited,
    },
    Exception { types: &["deepseek_v4"], modules: &["o_a_proj"], layer: Layer::Inherited },
    Exception { types: &["mamba", "falcon_mamba", "jamba"], modules: &["dt_proj"], layer: Layer::Bypassed },
    Exception {
        types: &["wavlm"],
        modules: &["attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.out_proj"],
        layer: Layer::Bypassed,
    },
    // Heads that tell speakers apart.
    Exception {
        types: &["data2vec-audio", "unispeech-sat", "wav2vec2", "wav2vec2-bert", "wav2vec2-conformer", "wavlm"],
        modules: &["kernel"],
        layer: Layer::Bypassed,
    },
    Exception { types: &["detr", "conditional_detr"], modules: &["bbox_attention.k_proj"], layer: Layer::Bypassed },
    Exception {
        types: &["ibert"],
        modules: &["self.query", "self.key", "self.value", "intermediate.dense", "output.dense"],
        layer: Layer::Other,
    },
    Exception { types: &["ctrl"], modules: &["w"], layer: Layer::Other },
    Exception { types: &["eomt", "eomt_dinov3", "videomt"], modules: &["query"], layer: Layer::Other },
    Exception {
        types: &["sam3", "sam3_video", "sam3_lite_text", "sam3_detr_decoder"],
        modules: &["reference_points"],
        layer: Layer::Other,
    },
    Exception {
        types: &[],
        modules: &[
            "query_feat",
            "queries_features",
            "query_1024_resolution",
            "query_768_resolution",
            "presence_token",
            "hq_token",
            "iou_token",
            "mask_tokens",
            "obj_score_token",
            "audio_bos_eos_token",
            "objective",
        ],
        layer: Layer::Other,
    },
    // Loaders keep these because they are the last layers.
    Exception { types: &[], modules: &["text_projection", "visual_projection"], layer: Layer::Head },
];

/// Modules that stay F32 with all their submodules: the model type, and the name of the module.
const WHOLE_IN_F32: [(&str, &str); 1] = [("blip-2", "qformer")];

/// Heads that may be tied to an embedding, so that files need not store them: the model types, and the name of the
/// head.
const TIED_HEADS: [(&[&str], &str); 19] = [
    (&[], "lm_head"),
    (&["whisper", "moonshine", "canary", "cohere_asr"], "proj_out"),
    (&["distilbert"], "vocab_projector"),
    (&["electra", "convbert"], "generator_lm_head"),
    (&["modernbert", "modernbert-decoder"], "decoder"),
    (&["gpt_neox_japanese", "gpt_neox"], "embed_out"),
    (&["luke"], "entity_predictions.decoder"),
    (&["xlnet"], "lm_loss"),
    (&["biogpt", "trocr", "fsmt"], "output_projection"),
    (&["flaubert", "xlm"], "pred_layer.proj"),
    (&["albert"], "predictions.decoder"),
    (&["vilt", "bridgetower"], "mlm_score.decoder"),
    (&["ultrabert"], "head.decoder"),
    (&["neomme"], "unembedding_projection"),
    (&["flava"], "mmm_text_head.decoder"),
    (&["dia"], "logits_dense"),
    (&["rwkv"], "head"),
    (&["granite_speech5_ctc"], "ctc_head"),
    (&["t5gemma", "t5gemma2"], "lm_head.out_proj"),
];

/// Heads of several layers, the last of which may be tied to an embedding: a prefix of the others, and the name of the
/// last.
const LAYERED_HEADS: [(&str, &str); 3] = [
    ("cls.predictions.", "cls.predictions.decoder"),
    ("lm_head.dense.", "lm_head.decoder"),
    ("lm_head.layer_norm.", "lm_head.decoder"),
];

impl<'a> ModelClass<'a> {
    /// The class of a model with these `model_type`s in its configuration.
    pub(crate) const fn of(types: &'a [String]) -> Self {
        Self { types }
    }

    /// Whether the configuration has a `model_type`.
    pub(crate) const fn is_known(&self) -> bool {
        !self.types.is_empty()
    }

    /// Whether the model has one of these types; an empty list fits every model.
    fn is_any(&self, types: &[&str]) -> bool {
        types.is_empty() || types.iter().any(|wanted| self.types.iter().any(|model_type| model_type == wanted))
    }

    /// The class of the layer that a matrix belongs to, by the name of the matrix; `Linear` if the configuration has no
    /// `model_type`.
    pub(crate) fn layer(&self, name: &str) -> Layer {
        if !self.is_known() {
            return Layer::Linear;
        }
        let Some(module) = name.strip_suffix(".weight") else {
            return if name == "weight" { Layer::Linear } else { Layer::Other };
        };
        let mut heads = self.heads().chain(LAYERED_HEADS.iter().map(|(_, head)| *head));
        if heads.any(|head| ends_in(module, head)) {
            return Layer::Head;
        }
        let is_inside = |wanted: &str| module.split('.').any(|part| part == wanted);
        if WHOLE_IN_F32.iter().any(|(model_type, module)| self.is_any(&[model_type]) && is_inside(module)) {
            return Layer::InF32;
        }
        let exception = EXCEPTIONS.iter().find(|exception| {
            self.is_any(exception.types) && exception.modules.iter().any(|wanted| ends_in(module, wanted))
        });
        match exception {
            Some(exception) => exception.layer,
            None if is_expert(module) => Layer::Expert,
            None => Layer::Linear,
        }
    }

    /// Whether some of these are parts of experts, each of which has its own.
    pub(crate) fn has_experts<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        self.is_known() && names.any(is_expert)
    }

    fn heads(&self) -> impl Iterator<Item = &'static str> + use<'a> {
        let class = *self;
        TIED_HEADS.iter().filter(move |(types, _)| class.is_any(types)).map(|(_, head)| *head)
    }

    /// The heads that the model may have although its file does not store them. Unless the configuration excludes them,
    /// loaders take them for quantised layers.
    pub(crate) fn unstored_heads<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Vec<&'static str> {
        let is_stored = |head: &str| names.clone().any(|name| name.strip_suffix(".weight") == Some(head));
        let has_part = |part: &str| names.clone().any(|name| name.starts_with(part));
        let layered = LAYERED_HEADS.iter().filter(|(part, _)| has_part(part)).map(|(_, head)| *head);
        let mut heads: Vec<_> = self.heads().chain(layered).filter(|head| !is_stored(head)).collect();
        heads.dedup();
        heads
    }
}

/// Whether a module's name ends in these components.
fn ends_in(module: &str, parts: &str) -> bool {
    module.strip_suffix(parts).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether a module belongs to a numbered expert: `experts.3.up_proj`.
fn is_expert(module: &str) -> bool {
    let mut parts = module.split('.').skip_while(|part| *part != "experts").skip(1);
    parts.next().is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::scheme::quantise::linear::is_kept_by_name;

    /// The layers of the classes of transformers, by model types.
    fn kinds() -> Vec<(Vec<String>, Value)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/model_classes.json");
        let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let kinds = all["kinds"].as_object().unwrap();
        kinds.iter().map(|(kind, lists)| (kind.split(' ').map(str::to_owned).collect(), lists.clone())).collect()
    }

    /// Calls `check` for every layer of a list.
    fn each(list: &str, check: impl Fn(ModelClass<'_>, &str) -> bool) {
        let (mut count, mut wrong) = (0, Vec::new());
        for (types, lists) in kinds() {
            for module in lists[list].as_array().into_iter().flatten() {
                let module = module.as_str().unwrap();
                count += 1;
                if !check(ModelClass::of(&types), module) {
                    wrong.push(format!("{}: {module}", types.join(" ")));
                }
            }
        }
        assert!(wrong.is_empty(), "{list}: {wrong:#?}");
        assert!(count > 3, "{list}: {count}");
    }

    #[test]
    fn every_layer_that_a_class_stores_transposed_is_known() {
        each("conv1d", |class, module| class.layer(&format!("{module}.weight")) == Layer::Conv1d);
    }

    #[test]
    fn every_layer_that_a_class_keeps_in_f32_is_known() {
        each("in_f32", |class, module| class.layer(&format!("{module}.weight")) == Layer::InF32);
    }

    #[test]
    fn a_linear_layer_is_never_an_exception() {
        let linear = [Layer::Linear, Layer::Expert, Layer::Head, Layer::Bypassed];
        each("linear", |class, module| linear.contains(&class.layer(&format!("{module}.weight"))));
    }

    #[test]
    fn a_matrix_outside_linear_layers_is_kept_by_its_class_or_by_its_name() {
        let others = [Layer::Other, Layer::Inherited, Layer::Expert, Layer::Head];
        each("other", |class, module| {
            let name = format!("{module}.weight");
            // `MultiheadAttention` uses the weight of `out_proj` itself; it is recognised by `in_proj_weight` in the
            // same module.
            others.contains(&class.layer(&name)) || is_kept_by_name(&name) || module.ends_with("out_proj")
        });
    }

    #[test]
    fn heads_that_files_need_not_have_are_known() {
        each("tied", |class, module| {
            class.layer(&format!("{module}.weight")) == Layer::Head || is_kept_by_name(&format!("{module}.weight"))
        });
    }

    #[test]
    fn layers_whose_weights_are_read_without_a_call_are_bypassed() {
        let layer = |kind: &str, name: &str| ModelClass::of(&[kind.to_owned()]).layer(&format!("{name}.weight"));
        for kind in ["mamba", "falcon_mamba", "jamba"] {
            assert_eq!(layer(kind, "backbone.layers.0.mixer.dt_proj"), Layer::Bypassed, "{kind}");
            assert_eq!(layer(kind, "backbone.layers.0.mixer.in_proj"), Layer::Linear, "{kind}");
        }
        assert_eq!(layer("wavlm", "wavlm.encoder.layers.0.attention.out_proj"), Layer::Bypassed);
        assert_eq!(layer("wav2vec2", "wav2vec2.encoder.layers.0.attention.out_proj"), Layer::Linear);
        assert_eq!(layer("wav2vec2", "tdnn.0.kernel"), Layer::Bypassed);
        assert_eq!(layer("detr", "bbox_attention.k_proj"), Layer::Bypassed);
        assert_eq!(layer("detr", "model.decoder.layers.0.self_attn.k_proj"), Layer::Linear);
    }

    #[test]
    fn experts_are_recognised_by_their_index() {
        let mixtral = ["mixtral".to_owned()];
        let has = |name| ModelClass::of(&mixtral).has_experts([name].into_iter());
        assert!(has("model.layers.0.block_sparse_moe.experts.0.w1.weight_packed"));
        assert!(!has("model.layers.0.block_sparse_moe.gate.weight"));
        assert!(!ModelClass::of(&[]).has_experts(["experts.0.w1.weight"].into_iter()));
    }

    #[test]
    fn without_a_model_type_every_layer_is_linear() {
        assert_eq!(ModelClass::of(&[]).layer("h.0.attn.c_attn.weight"), Layer::Linear);
        assert_eq!(ModelClass::of(&[]).layer("W_enc"), Layer::Linear);
        let llama = ["llama".to_owned()];
        assert_eq!(ModelClass::of(&llama).layer("h.0.attn.c_attn.weight"), Layer::Linear);
        assert_eq!(ModelClass::of(&llama).layer("model.latents"), Layer::Other);
    }

    #[test]
    fn heads_of_several_layers_are_recognised_by_their_stored_layers() {
        let roberta = ["roberta".to_owned()];
        let heads = |names: &[&'static str]| ModelClass::of(&roberta).unstored_heads(names.iter().copied());
        assert_eq!(heads(&["lm_head.dense.weight", "lm_head.layer_norm.weight"]), ["lm_head", "lm_head.decoder"]);
        assert_eq!(heads(&["lm_head.dense.weight", "lm_head.decoder.weight"]), ["lm_head"]);
        assert_eq!(heads(&["lm_head.weight"]), [""; 0]);
        assert_eq!(heads(&["cls.predictions.bias"]), ["lm_head", "cls.predictions.decoder"]);
    }
}
