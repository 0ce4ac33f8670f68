//! The names of hyperparameters in configurations: the keys of one hyperparameter, by precedence.

/// The keys of most configurations, where a rare one precedes them.
pub(crate) const USUAL_KEYS: [&str; 2] = ["num_hidden_layers", "intermediate_size"];

pub(crate) const LAYER_KEYS: &[&str] =
    &["num_layers_per_stack", "num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_transformer_layers"];
pub(crate) const CONTEXT_KEYS: &[&str] =
    &["max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length", "model_max_length"];
pub(crate) const HIDDEN_KEYS: &[&str] = &["hidden_size", "n_embd", "dim"];
pub(crate) const FFN_KEYS: &[&str] =
    &["prefix_dense_intermediate_size", "dense_intermediate_size", "intermediate_size", "n_inner", "hidden_dim"];
pub(crate) const HEAD_KEYS: &[&str] = &["num_attention_heads", "n_head", "n_heads"];
pub(crate) const KV_HEAD_KEYS: &[&str] = &["num_key_value_heads", "n_kv_heads"];
pub(crate) const EPSILON_KEYS: &[&str] = &["rms_norm_eps", "norm_eps"];
pub(crate) const EXPERT_KEYS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts"];
/// [`EXPERT_KEYS`] and the names that only some models have.
pub(crate) const ALL_EXPERT_KEYS: &[&str] = &[
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "moe_num_experts",
    "moe_num_primary_experts",
    "ffn_config.moe_num_experts",
];
