//! The architectures: a file of data each, and a line in the list below. Nothing else names one.
//!
//! `cargo fmt` does not follow modules that a macro declares: `cargo xtask fmt` formats these files too.

use super::kind::Architecture;

macro_rules! architectures {
    ($($(#[$attribute:meta])* $module:ident,)*) => {
        $($(#[$attribute])* mod $module;)*

        /// All architectures.
        pub(super) static ALL: &[&Architecture] = &[$($(#[$attribute])* &$module::ARCHITECTURE),*];
    };
}

architectures! {
    llama,
    qwen2,
    qwen2moe,
    qwen3,
    qwen3moe,
    gemma,
    gemma2,
    gemma3,
    phi3,
    deepseek2,
    gpt_oss,
    glm4,
    glm4moe,
    granite,
    olmo2,
    starcoder2,
    smollm3,
    cohere2,
    mamba,
    mamba2,
    falcon_h1,
    #[cfg(test)]
    toy,
}
