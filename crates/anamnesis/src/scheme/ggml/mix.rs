//! The mixes of llama.cpp, a row each, and the block type each tensor gets (`llama_tensor_get_type`).
//!
//! A mix has a type for most tensors, and others for those that suffer most: `output`, `attn_v`, `ffn_down`. The
//! tensor's name, its layer and a few hyperparameters of the model decide.

use crate::catalog::BlockType::{self, *};

/// The properties of a mix, except the rules for tensors that get another type.
pub(super) struct MixRow {
    /// Its names in requests, the most common first.
    pub(super) names: &'static [&'static str],
    /// Its name in reports, which names the mix and not the type of each tensor.
    pub(super) label: &'static str,
    pub(super) about: &'static str,
    /// The type of most tensors.
    block: BlockType,
    /// `general.file_type`: `llama_ftype` of llama.cpp.
    file_type: u32,
}

macro_rules! mixes {
    ($($mix:ident: $block:ident, $file_type:literal, $($name:literal)+;)*) => {
        /// A mix by its name in llama.cpp.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "they are the names of the format")]
        pub(crate) enum Mix {
            $($mix),*
        }

        impl Mix {
            /// All mixes, in the order of the list.
            pub(super) const ALL: [Self; ROWS.len()] = [$(Self::$mix),*];
        }

        static ROWS: [MixRow; [$($file_type),*].len()] = [$(MixRow {
            names: &[$($name),+],
            label: stringify!($mix),
            about: concat!("mostly ", stringify!($block), " blocks, mixed as llama.cpp does"),
            block: BlockType::$block,
            file_type: $file_type,
        }),*];
    };
}

mixes! {
    Q4_K_M: Q4_K, 15, "q4_k_m" "q4_k";
    Q4_K_S: Q4_K, 14, "q4_k_s";
    Q5_K_M: Q5_K, 17, "q5_k_m" "q5_k";
    Q5_K_S: Q5_K, 16, "q5_k_s";
    Q6_K: Q6_K, 18, "q6_k";
    Q8_0: Q8_0, 7, "q8_0";
    Q3_K_M: Q3_K, 12, "q3_k_m" "q3_k";
    Q3_K_S: Q3_K, 11, "q3_k_s";
    Q3_K_L: Q3_K, 13, "q3_k_l";
    Q2_K: Q2_K, 10, "q2_k";
    Q2_K_S: Q2_K, 21, "q2_k_s";
    Q4_0: Q4_0, 2, "q4_0";
    Q4_1: Q4_1, 3, "q4_1";
    Q5_0: Q5_0, 8, "q5_0";
    Q5_1: Q5_1, 9, "q5_1";
    IQ4_XS: IQ4_XS, 30, "iq4_xs";
    IQ4_NL: IQ4_NL, 25, "iq4_nl";
    IQ3_M: IQ3_S, 27, "iq3_m";
    IQ3_S: IQ3_S, 26, "iq3_s";
    IQ3_XS: IQ3_S, 22, "iq3_xs";
    IQ3_XXS: IQ3_XXS, 23, "iq3_xxs";
    IQ2_M: IQ2_S, 29, "iq2_m";
    IQ2_S: IQ2_XS, 28, "iq2_s";
    IQ2_XS: IQ2_XS, 20, "iq2_xs";
    IQ2_XXS: IQ2_XXS, 19, "iq2_xxs";
    IQ1_M: IQ1_M, 31, "iq1_m";
    IQ1_S: IQ1_S, 24, "iq1_s";
    TQ2_0: TQ2_0, 37, "tq2_0";
    TQ1_0: TQ1_0, 36, "tq1_0";
    MXFP4_MOE: MXFP4, 38, "mxfp4_moe";
}

/// The hyperparameters of a model that a mix depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub architecture: String,
    pub layers: u64,
    pub experts: u64,
    pub heads: u64,
    pub kv_heads: u64,
}

impl Model {
    /// Attention heads per key-value head (`n_gqa`).
    fn heads_per_kv_head(&self) -> u64 {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// Whether llama.cpp takes the model for one of 70 billion parameters.
    fn is_70b(&self) -> bool {
        match self.architecture.as_str() {
            "llama" => self.layers == 80 && self.experts != 8 && self.heads != self.kv_heads,
            "qwen2" | "olmo" | "deci" => self.layers == 80,
            "jais2" => self.layers == 68,
            _ => false,
        }
    }
}

impl Mix {
    pub(super) const fn row(self) -> &'static MixRow {
        &ROWS[self as usize]
    }

    /// The type of most tensors.
    pub(crate) const fn block(self) -> BlockType {
        self.row().block
    }

    /// `general.file_type` of a file with this mix.
    pub(crate) const fn file_type(self) -> u32 {
        self.row().file_type
    }

    /// The mix of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.row().names.contains(&name))
    }

    /// Whether it is one of the mixes with the fewest bits.
    const fn is_low(self) -> bool {
        matches!(self, Self::IQ1_S | Self::IQ1_M | Self::IQ2_XXS | Self::IQ2_XS | Self::IQ2_S | Self::IQ2_M)
    }
}

/// Substrings in the names of matrices that are kept unquantised.
const KEPT: [&str; 15] = [
    "_norm.weight",
    "ffn_gate_inp.weight",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "attn_rel_b",
    "time_mix_",
    "altup_",
    "channel_mix_lerp",
    "v.position_embd",
    "v.patch_embd",
];

/// Suffixes of RWKV matrices that are quantised although [`KEPT`] matches them.
const NOT_KEPT: [&str; 5] = [
    "time_mix_key.weight",
    "time_mix_value.weight",
    "time_mix_receptance.weight",
    "time_mix_gate.weight",
    "time_mix_output.weight",
];

/// Whether a tensor of this name and rank is quantised at all.
pub(crate) fn is_quantised(name: &str, rank: usize) -> bool {
    let is_kept = || KEPT.iter().any(|part| name.contains(part)) && !NOT_KEPT.iter().any(|end| name.ends_with(end));
    rank >= 2 && name.ends_with("weight") && !is_kept()
}

/// The index of the layer that a tensor belongs to.
pub(crate) fn layer(name: &str) -> Option<u64> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Whether tensors have the names that llama.cpp gives them.
pub(crate) fn has_known_names<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| name == "token_embd.weight" || layer(name).is_some())
}

/// Whether a layer is in the first or the last eighth, or every third between them (`use_more_bits` of llama.cpp).
const fn uses_more_bits(index: u64, count: u64) -> bool {
    let eighth = count / 8;
    index < eighth || index >= 7 * count / 8 || (index - eighth) % 3 == 2
}

/// Whether a tensor is the output of the model.
pub(crate) fn is_output(name: &str) -> bool {
    name == "output.weight"
}

/// Whether a tensor is a token embedding.
pub(crate) fn is_embedding(name: &str) -> bool {
    name == "token_embd.weight" || name == "per_layer_token_embd.weight"
}

/// Whether a tensor is the value projection of attention, alone or fused with others.
fn is_value(name: &str) -> bool {
    ["attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"].iter().any(|part| name.contains(part))
}

/// Chooses the types of a model's tensors, which must be passed in the order of the output: the types of value and down
/// projections depend on how many came before.
pub(crate) struct Chooser<'a> {
    mix: Mix,
    model: &'a Model,
    has_importance: bool,
    /// Whether the output is tied to the token embedding.
    is_tied: bool,
    values: u64,
    seen_values: u64,
    seen_downs: u64,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new<'n>(
        mix: Mix,
        model: &'a Model,
        names: impl Iterator<Item = &'n str> + Clone,
        has_importance: bool,
    ) -> Self {
        let is_tied = !names.clone().any(is_output);
        let values = names.filter(|name| is_value(name)).count() as u64;
        Self { mix, model, has_importance, is_tied, values, seen_values: 0, seen_downs: 0 }
    }

    /// Whether a tensor is the output matrix, or the embedding it is tied to.
    pub(crate) fn is_output(&self, name: &str) -> bool {
        is_output(name) || self.is_tied && is_embedding(name)
    }

    /// The type of the next tensor that is quantised, before [`fitting`]; `divides` is whether its rows divide into
    /// blocks of the mix's main type.
    pub(crate) fn next(&mut self, name: &str, rank: usize, divides: bool) -> BlockType {
        let usual = self.mix.block();
        if self.is_output(name) {
            return match usual {
                _ if !divides || self.mix == Mix::MXFP4_MOE || self.model.architecture == "falcon" => Q8_0,
                _ if self.mix.is_low() || self.mix == Mix::IQ3_XXS => Q5_K,
                Q8_0 => Q8_0,
                _ => Q6_K,
            };
        }
        if self.mix == Mix::MXFP4_MOE {
            return if rank == 3 { MXFP4 } else { Q8_0 };
        }
        if is_embedding(name) {
            return match self.mix {
                Mix::IQ1_S | Mix::IQ1_M | Mix::IQ2_XXS | Mix::IQ2_XS => Q2_K,
                Mix::IQ2_S | Mix::IQ2_M | Mix::IQ3_XXS => IQ3_S,
                Mix::TQ1_0 | Mix::TQ2_0 => Q4_K,
                _ => usual,
            };
        }
        let is_down = name.contains("ffn_down");
        if self.mix.is_low() {
            return self.low(name, is_down);
        }
        if is_value(name) {
            return self.value();
        }
        if name.contains("attn_k.weight") && self.model.experts == 8 {
            return Q8_0;
        }
        if name.contains("attn_k.weight") || name.contains("attn_q.weight") {
            return match self.mix {
                Mix::IQ3_XS => IQ3_XXS,
                Mix::IQ3_XXS => IQ2_S,
                _ => usual,
            };
        }
        if is_down {
            return self.down(name);
        }
        if name.contains("attn_output.weight") {
            return self.attention_output();
        }
        let layers = self.model.layers;
        let is_inner = |layer: u64| layer >= layers / 8 && layer < 7 * layers / 8;
        let is_gate_or_up = name.contains("ffn_gate") || name.contains("ffn_up");
        match self.mix {
            Mix::IQ3_XS if is_gate_or_up && layer(name).is_some_and(is_inner) => IQ3_XXS,
            _ => usual,
        }
    }

    /// The type of a tensor in the mixes with the fewest bits.
    fn low(&mut self, name: &str, is_down: bool) -> BlockType {
        let is_higher = matches!(self.mix, Mix::IQ2_S | Mix::IQ2_M);
        let better = if is_higher { IQ3_S } else { Q2_K };
        let usual = self.mix.block();
        if is_value(name) {
            self.seen_values += 1;
            return if self.model.heads_per_kv_head() >= 4 || self.model.experts >= 4 { Q4_K } else { better };
        }
        if self.model.experts == 8 && name.contains("attn_k.weight") {
            return Q4_K;
        }
        if is_down {
            self.seen_downs += 1;
            return if self.seen_downs <= self.model.layers / 8 { better } else { usual };
        }
        match self.mix {
            _ if !name.contains("attn_output.weight") => usual,
            _ if self.model.experts == 8 => Q5_K,
            Mix::IQ1_S | Mix::IQ1_M => IQ2_XXS,
            _ if is_higher => IQ3_S,
            _ => usual,
        }
    }

    fn value(&mut self) -> BlockType {
        let (usual, model) = (self.mix.block(), self.model);
        let is_shared = model.heads_per_kv_head() >= 4;
        let index = self.seen_values;
        self.seen_values += 1;
        let chosen = match self.mix {
            Mix::Q2_K if is_shared => Q4_K,
            Mix::Q2_K => Q3_K,
            Mix::Q2_K_S | Mix::IQ3_XS | Mix::IQ3_S | Mix::IQ3_XXS if is_shared => Q4_K,
            Mix::IQ3_XXS if self.has_importance => IQ3_XXS,
            Mix::IQ3_XXS => IQ3_S,
            Mix::IQ3_M => Q4_K,
            Mix::Q3_K_M if index < 2 => Q5_K,
            Mix::Q3_K_M => Q4_K,
            Mix::Q3_K_L => Q5_K,
            Mix::IQ4_NL | Mix::IQ4_XS if is_shared => Q5_K,
            Mix::Q4_K_M | Mix::Q5_K_M if uses_more_bits(index, self.values) => Q6_K,
            Mix::Q4_K_S if index < 4 => Q5_K,
            _ => usual,
        };
        match chosen {
            _ if model.experts == 8 => Q8_0,
            Q3_K | Q4_K if model.is_70b() => Q5_K,
            chosen => chosen,
        }
    }

    fn down(&mut self, name: &str) -> BlockType {
        let (usual, model) = (self.mix.block(), self.model);
        let index = if model.experts > 1 { layer(name).unwrap_or(0) } else { self.seen_downs };
        self.seen_downs += 1;
        let is_falcon = model.architecture == "falcon";
        let layers = model.layers;
        let (is_first, is_very_first) = (index < layers / 8, index < layers / 16);
        let uses_more_bits = uses_more_bits(index, layers);
        match self.mix {
            Mix::Q2_K => Q3_K,
            Mix::Q2_K_S if is_first => Q4_K,
            Mix::IQ3_XXS if !self.has_importance => {
                if is_first {
                    Q4_K
                } else {
                    Q3_K
                }
            }
            Mix::Q3_K_M if is_very_first => Q5_K,
            Mix::Q3_K_M if !is_falcon || uses_more_bits => Q4_K,
            Mix::IQ3_M if is_first || model.experts == 8 && uses_more_bits => Q4_K,
            Mix::Q3_K_L => {
                if is_falcon {
                    Q4_K
                } else {
                    Q5_K
                }
            }
            Mix::Q4_K_M if is_falcon && is_very_first => Q6_K,
            Mix::Q4_K_M if is_falcon && uses_more_bits => Q5_K,
            Mix::Q4_K_M if is_falcon => Q4_K,
            Mix::Q4_K_M | Mix::Q5_K_M if uses_more_bits => Q6_K,
            Mix::IQ4_NL | Mix::IQ4_XS if !self.has_importance && is_first => Q5_K,
            Mix::Q4_K_S if !is_falcon && is_first => Q5_K,
            Mix::Q4_0 if self.has_importance && is_first => Q4_1,
            Mix::Q5_0 if self.has_importance && is_first => Q5_1,
            _ => usual,
        }
    }

    fn attention_output(&self) -> BlockType {
        let usual = self.mix.block();
        if self.model.architecture == "falcon" {
            return if self.mix == Mix::Q3_K_L { Q4_K } else { usual };
        }
        let is_raised = matches!(
            self.mix,
            Mix::Q2_K
                | Mix::IQ3_XS
                | Mix::IQ3_XXS
                | Mix::Q3_K_S
                | Mix::Q3_K_M
                | Mix::IQ4_NL
                | Mix::Q4_K_S
                | Mix::Q4_K_M
                | Mix::IQ3_S
                | Mix::IQ3_M
                | Mix::IQ4_XS
        );
        match self.mix {
            _ if self.model.experts == 8 => {
                if is_raised {
                    Q5_K
                } else {
                    usual
                }
            }
            Mix::Q2_K => Q3_K,
            Mix::IQ3_XXS => IQ3_S,
            Mix::Q3_K_M | Mix::IQ3_M => Q4_K,
            Mix::Q3_K_L => Q5_K,
            _ => usual,
        }
    }
}

/// The type itself, or the fallback for rows that do not divide into its blocks; `None` if only F16 is left.
pub(crate) fn fitting(block: BlockType, row: u64) -> Option<BlockType> {
    let fits = |block: &BlockType| row.is_multiple_of(block.block_elements());
    let next = match block {
        block if fits(&block) => return Some(block),
        Q4_K => Q5_0,
        Q5_K => Q5_1,
        Q6_K => Q8_0,
        Q2_K | Q3_K | TQ1_0 | TQ2_0 => Q4_0,
        IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S | IQ4_XS => IQ4_NL,
        _ => return None,
    };
    Some(next).filter(fits)
}

/// Whether a tensor of this type needs an importance matrix.
pub(crate) fn needs_importance(mix: Mix, block: BlockType, name: &str) -> bool {
    if is_embedding(name) || is_output(name) {
        return false;
    }
    matches!(block, IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS) || mix == Mix::Q2_K_S && block == Q2_K
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_llama_cpp_takes_for_70b_get_more_bits_for_attn_v() {
        let of = |architecture: &str, layers, kv_heads| {
            let model = Model { architecture: architecture.to_owned(), layers, heads: 64, kv_heads, experts: 0 };
            let chooser = || Chooser::new(Mix::Q4_K_S, &model, ["blk.9.attn_v.weight"].into_iter(), false);
            let mut later = Chooser { seen_values: 9, ..chooser() };
            later.next("blk.9.attn_v.weight", 2, true)
        };
        for (architecture, layers) in [("qwen2", 80), ("olmo", 80), ("deci", 80), ("jais2", 68)] {
            assert_eq!(of(architecture, layers, 64), Q5_K, "{architecture}");
            assert_eq!(of(architecture, layers, 8), Q5_K, "{architecture}");
            assert_eq!(of(architecture, 79, 8), Q4_K, "{architecture}");
        }
        assert_eq!((of("llama", 80, 8), of("llama", 80, 64), of("llama", 68, 8)), (Q5_K, Q4_K, Q4_K));
        assert_eq!((of("qwen3", 80, 8), of("jais2", 80, 8), of("olmo2", 80, 8)), (Q4_K, Q4_K, Q4_K));
    }

    #[test]
    fn per_layer_token_embeddings_are_embeddings() {
        let model = Model::default();
        let names = ["per_layer_token_embd.weight", "output.weight"];
        let mut chooser = Chooser::new(Mix::IQ2_S, &model, names.into_iter(), false);
        assert_eq!(chooser.next(names[0], 2, true), IQ3_S);
        assert!(!needs_importance(Mix::IQ2_S, IQ2_S, names[0]));
    }
}
