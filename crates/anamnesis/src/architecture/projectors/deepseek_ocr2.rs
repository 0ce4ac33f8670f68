//! DeepSeek-OCR 2: SAM in front of Qwen2 as an encoder, whose queries become the tokens of an image.

use super::deepseek_ocr::{FIRST, KEYS, OCR, PATCH_SIZE, SAM, SAM_KEYS, SEPARATOR, THREE};
use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
/// The sizes of Qwen2 as an encoder, with those of the published model as defaults.
const WIDTH: Size =
    of("vision_config.width.qwen2-0-5b.dim", |config| config.divisor("vision_config.width.qwen2-0-5b.dim"));
const FFN: Size = of("vision_config.intermediate_size", |config| {
    Ok(config.count(&["vision_config.intermediate_size"])?.unwrap_or(4864))
});
const HEADS: Size = of("vision_config.num_attention_heads", |config| {
    let (heads, width) = (config.count(&["vision_config.num_attention_heads"])?.unwrap_or(14), (WIDTH.of)(config)?);
    match heads > 0 && width.is_multiple_of(heads) && heads.is_multiple_of(KV_HEADS) {
        true => Ok(heads),
        false => {
            let key = quoted("vision_config.num_attention_heads");
            let why = format!("config.json: {key} is {heads}, an even divisor of the hidden size {width} is needed");
            Err(AnamnesisError::parse(why))
        }
    }
});
const KV_HEADS: u64 = 2;
const KV_WIDTH: Size = of("vision_config.num_attention_heads, vision_config.width.qwen2-0-5b.dim", |config| {
    Ok((WIDTH.of)(config)? / (HEADS.of)(config)? * KV_HEADS)
});
const LAYERS: Size = of("vision_config.layers", |config| {
    let keys = ["vision_config.n_layers", "vision_config.num_hidden_layers", "vision_config.layers"];
    Ok(config.count(&keys)?.unwrap_or(24))
});
/// The queries of images of 768 and 1024 pixels.
const QUERIES_768: Size = of("", |_| Ok(144));
const QUERIES_1024: Size = of("", |_| Ok(256));

const ENCODER: Stack = Stack { hf: "vision.layers.", gguf: "v.blk.", layers: Some(LAYERS) };

const fn encoder(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(ENCODER)
}

const ENCODER_RULES: &[Rule] = &[
    model("vision.sam.net_3.weight", "v.sam.net_3.weight", &[WIDTH, FIRST, THREE, THREE]),
    model("vision.norm.weight", "v.post_ln.weight", &[WIDTH]),
    model("vision.query_768.weight", "v.resample_query_768.weight", &[QUERIES_768, WIDTH]),
    model("vision.query_1024.weight", "v.resample_query_1024.weight", &[QUERIES_1024, WIDTH]),
    encoder("input_layernorm.weight", "ln1.weight", &[WIDTH]),
    encoder("post_attention_layernorm.weight", "ln2.weight", &[WIDTH]),
    biased(encoder("self_attn.q_proj.*", "attn_q.*", &[WIDTH, WIDTH])),
    biased(encoder("self_attn.k_proj.*", "attn_k.*", &[KV_WIDTH, WIDTH])),
    biased(encoder("self_attn.v_proj.*", "attn_v.*", &[KV_WIDTH, WIDTH])),
    encoder("self_attn.o_proj.weight", "attn_out.weight", &[WIDTH, WIDTH]),
    encoder("mlp.gate_proj.weight", "ffn_gate.weight", &[FFN, WIDTH]),
    encoder("mlp.up_proj.weight", "ffn_up.weight", &[FFN, WIDTH]),
    encoder("mlp.down_proj.weight", "ffn_down.weight", &[WIDTH, FFN]),
    biased(model("mm.layers.*", "mm.model.fc.*", &[TEXT, WIDTH])),
    model("mm.image_newline", "v.image_newline", &[TEXT]).when(OPTIONAL),
    SEPARATOR,
];

const SIZES: VisionSizes =
    VisionSizes { patch: PATCH_SIZE, hidden: WIDTH, ffn: FFN, layers: LAYERS, heads: HEADS, ..VisionSizes::USUAL };

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("DeepseekOCR2ForCausalLM", "deepseek_vl_v2")],
    renames: &[
        Rename::Prefix("model.sam_model.", "vision.sam."),
        Rename::Prefix("model.qwen2_model.model.model.layers.", "vision.layers."),
        Rename::Prefix("model.qwen2_model.model.model.norm.", "vision.norm."),
        Rename::Prefix("model.qwen2_model.", "vision."),
        Rename::Prefix("model.projector.", "mm."),
        Rename::Prefix("model.image_newline", "mm.image_newline"),
        Rename::Prefix("model.view_seperator", "mm.view_seperator"),
    ],
    rules: &[SAM, ENCODER_RULES],
    keys: &[
        &vision_keys(SIZES),
        &[projector(|_| Ok(Some("deepseekocr2")))],
        KEYS,
        &[count_fn("vision.preproc_max_tiles", |_| Ok(Some(6)))],
        SAM_KEYS,
        &[count_fn("vision.attention.head_count_kv", |_| Ok(Some(KV_HEADS)))],
    ],
    ..OCR
}];
