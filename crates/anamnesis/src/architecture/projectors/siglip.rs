//! The layers of SigLIP, which many vision towers share.

use super::prelude::*;

/// The layers of a SigLIP encoder; `out_proj` has other names in some towers.
pub(super) const SIGLIP_LAYERS: &[Rule] = &siglip_layers(Need::Always);

/// The same for layers that only some models have.
pub(super) const fn siglip_layers(need: Need) -> [Rule; 8] {
    [
        vision("layer_norm1.*", "ln1.*", &[V_HIDDEN]).when(need).biased(need),
        vision("layer_norm2.*", "ln2.*", &[V_HIDDEN]).when(need).biased(need),
        vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN]).when(need).biased(need),
        vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN]).when(need).biased(need),
        vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN]).when(need).biased(need),
        vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN]).when(need).biased(need),
        vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN]).when(need).biased(need),
        vision("self_attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN]).when(need).biased(need),
    ]
}

/// The table of positions, and the norm behind the layers.
pub(super) const POSITIONS_AND_NORM: &[Rule] = &[
    model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[POSITIONS, V_HIDDEN]),
    biased(model("vision.post_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
];

/// The convolution over patches.
pub(super) const CONVOLUTION: &[Rule] = &[
    model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
    model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
];
