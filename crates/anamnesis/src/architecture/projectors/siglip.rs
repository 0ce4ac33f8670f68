//! The layers of SigLIP, which many vision towers share.

use super::prelude::*;

/// The layers of a SigLIP encoder; `out_proj` has other names in some towers.
pub(super) const SIGLIP_LAYERS: &[Rule] = &[
    biased(vision("layer_norm1.*", "ln1.*", &[V_HIDDEN])),
    biased(vision("layer_norm2.*", "ln2.*", &[V_HIDDEN])),
    biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
    biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
    biased(vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN])),
    biased(vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN])),
    biased(vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
    biased(vision("self_attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
    model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[POSITIONS, V_HIDDEN]),
    biased(model("vision.post_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
];

/// The convolution over patches.
pub(super) const CONVOLUTION: &[Rule] = &[
    model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
    model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
];
