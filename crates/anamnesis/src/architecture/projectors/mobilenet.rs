//! MobileNetV5: a vision tower of convolutions in four stages. Its sizes follow from the name that timm has for it.

use super::prelude::*;
use crate::architecture::value::unexpected;

/// The name of the tower in timm, and further arguments.
const NAME: &str = "vision_config.architecture";
const ARGUMENTS: &str = "vision_config.model_args";
/// The tower that is known.
const KNOWN: &str = "mobilenetv5_300m_enc";

/// The blocks of each stage, and their channels.
const BLOCKS: [u64; 4] = [3, 5, 37, 39];
const CHANNELS_OF_STAGE: [u64; 4] = [128, 256, 640, 1280];
const PREFIXES: [[&str; 2]; 4] = [
    ["vision.blocks.0.", "v.blk.0."],
    ["vision.blocks.1.", "v.blk.1."],
    ["vision.blocks.2.", "v.blk.2."],
    ["vision.blocks.3.", "v.blk.3."],
];

/// A block of a stage.
#[derive(Clone, Copy)]
enum Block {
    /// A convolution over places to more channels, and one back.
    Fused { inner: u64 },
    /// To more channels and back, with convolutions of single channels of these sizes before and between; 0 for none.
    Inverted { first: u64, inner: u64, second: u64 },
    /// Attention whose heads share keys and values, which may be of fewer places.
    Attention { heads: u64, size: u64, is_sampled: bool },
}

const fn block(stage: usize, place: u64) -> Block {
    use Block::{Attention, Fused, Inverted};
    match (stage, place) {
        (0, 0) => Fused { inner: 256 },
        (0, _) => Fused { inner: 512 },
        (1, 0) => Inverted { first: 3, inner: 768, second: 5 },
        (1, 1 | 3) => Inverted { first: 5, inner: 1024, second: 0 },
        (1, _) => Inverted { first: 3, inner: 1024, second: 0 },
        (2, 0) => Inverted { first: 5, inner: 1536, second: 5 },
        (2, 1..=7) => Inverted { first: 5, inner: 2560, second: 0 },
        (2, 8) => Inverted { first: 0, inner: 640, second: 0 },
        (2, place) if place % 2 == 1 => Attention { heads: 12, size: 64, is_sampled: true },
        (2, _) => Inverted { first: 0, inner: 1280, second: 0 },
        (_, 0) => Inverted { first: 5, inner: 3840, second: 5 },
        (_, place) if place % 2 == 1 => Attention { heads: 16, size: 96, is_sampled: false },
        (..) => Inverted { first: 0, inner: 2560, second: 0 },
    }
}

/// A size of the known tower.
const fn of(read: fn(&Config) -> Result<u64>) -> Size {
    size(read, NAME, "")
}
const fn of_block(read: fn(&Config, u64) -> Result<u64>) -> Size {
    layer_size(read, NAME, "")
}
const STEM: Size = of(|_| Ok(64));
const THREE: Size = CHANNELS;
/// The channels of the last two stages together.
const BOTH: Size = of(|_| Ok(640 + 1280));
const FUSED: Size = of(|_| Ok(2 * (640 + 1280)));

struct Stage<const N: usize>;

impl<const N: usize> Stage<N> {
    const STACK: Stack =
        Stack { hf: PREFIXES[N][0], gguf: PREFIXES[N][1], layers: Some(of(|config| known(config, BLOCKS[N]))) };
    const WIDTH: Size = of(|_| Ok(CHANNELS_OF_STAGE[N]));
    /// The channels in front of a block.
    const INPUT: Size = of_block(|_, place| {
        Ok(match (N, place) {
            (0, 0) => 64,
            (_, 0) => CHANNELS_OF_STAGE[N.saturating_sub(1)],
            _ => CHANNELS_OF_STAGE[N],
        })
    });
    const INNER: Size = of_block(|_, place| {
        Ok(match block(N, place) {
            Block::Fused { inner } | Block::Inverted { inner, .. } => inner,
            Block::Attention { .. } => 0,
        })
    });
    const FIRST: Size = of_block(|_, place| Ok(kernels(N, place).0));
    const SECOND: Size = of_block(|_, place| Ok(kernels(N, place).1));
    const HEAD: Size = of_block(|_, place| Ok(attention(N, place).1));
    const HEADS: Size = of_block(|_, place| {
        let (heads, size, _) = attention(N, place);
        Ok(heads * size)
    });

    const IS_FUSED: Need = Need::When(NAME, |_, place| Ok(needed_if(matches!(block(N, place), Block::Fused { .. }))));
    const IS_INVERTED: Need =
        Need::When(NAME, |_, place| Ok(needed_if(matches!(block(N, place), Block::Inverted { .. }))));
    const IS_SCALED: Need = Need::When(NAME, |_, place| Ok(needed_if(!matches!(block(N, place), Block::Fused { .. }))));
    const HAS_FIRST: Need = Need::When(NAME, |_, place| Ok(needed_if(kernels(N, place).0 > 0)));
    const HAS_SECOND: Need = Need::When(NAME, |_, place| Ok(needed_if(kernels(N, place).1 > 0)));
    const IS_ATTENTION: Need = Need::When(NAME, |_, place| Ok(needed_if(attention(N, place).0 > 0)));
    const IS_SAMPLED: Need = Need::When(NAME, |_, place| Ok(needed_if(attention(N, place).2)));

    /// A tensor with the same name in both formats.
    const fn rule(name: &'static str, shape: &'static [Size], need: Need) -> Rule {
        layer(name, name, shape).of(Self::STACK).when(need)
    }

    const RULES: &'static [Rule] = &[
        Self::rule("conv_exp.weight", &[Self::INNER, Self::INPUT, THREE, THREE], Self::IS_FUSED),
        Self::rule("bn1.weight", &[Self::INNER], Self::IS_FUSED),
        Self::rule("conv_pwl.weight", &[Self::WIDTH, Self::INNER, ONE, ONE], Self::IS_FUSED),
        Self::rule("bn2.weight", &[Self::WIDTH], Self::IS_FUSED),
        Self::rule("dw_start.conv.weight", &[Self::INPUT, ONE, Self::FIRST, Self::FIRST], Self::HAS_FIRST),
        Self::rule("dw_start.bn.weight", &[Self::INPUT], Self::HAS_FIRST),
        Self::rule("pw_exp.conv.weight", &[Self::INNER, Self::INPUT, ONE, ONE], Self::IS_INVERTED),
        Self::rule("pw_exp.bn.weight", &[Self::INNER], Self::IS_INVERTED),
        Self::rule("dw_mid.conv.weight", &[Self::INNER, ONE, Self::SECOND, Self::SECOND], Self::HAS_SECOND),
        Self::rule("dw_mid.bn.weight", &[Self::INNER], Self::HAS_SECOND),
        Self::rule("pw_proj.conv.weight", &[Self::WIDTH, Self::INNER, ONE, ONE], Self::IS_INVERTED),
        Self::rule("pw_proj.bn.weight", &[Self::WIDTH], Self::IS_INVERTED),
        Self::rule("layer_scale.gamma", &[Self::WIDTH], Self::IS_SCALED),
        Self::rule("norm.weight", &[Self::WIDTH], Self::IS_ATTENTION),
        Self::rule("attn.query.proj.weight", &[Self::HEADS, Self::WIDTH, ONE, ONE], Self::IS_ATTENTION),
        Self::rule("attn.key.proj.weight", &[Self::HEAD, Self::WIDTH, ONE, ONE], Self::IS_ATTENTION),
        Self::rule("attn.value.proj.weight", &[Self::HEAD, Self::WIDTH, ONE, ONE], Self::IS_ATTENTION),
        Self::rule("attn.output.proj.weight", &[Self::WIDTH, Self::HEADS, ONE, ONE], Self::IS_ATTENTION),
        Self::rule("attn.key.down_conv.weight", &[Self::WIDTH, ONE, THREE, THREE], Self::IS_SAMPLED),
        Self::rule("attn.key.norm.weight", &[Self::WIDTH], Self::IS_SAMPLED),
        Self::rule("attn.value.down_conv.weight", &[Self::WIDTH, ONE, THREE, THREE], Self::IS_SAMPLED),
        Self::rule("attn.value.norm.weight", &[Self::WIDTH], Self::IS_SAMPLED),
    ];
}

/// The tensors of the four stages.
pub(super) const STAGES: [&[Rule]; 4] = [Stage::<0>::RULES, Stage::<1>::RULES, Stage::<2>::RULES, Stage::<3>::RULES];

/// The first convolution, and the layers that join the last two stages.
pub(super) const STEM_AND_FUSION: &[Rule] = &[
    model("vision.conv_stem.conv.weight", "v.conv_stem.conv.weight", &[STEM, THREE, THREE, THREE]),
    model("vision.conv_stem.conv.bias", "v.conv_stem.conv.bias", &[ONE, STEM, ONE, ONE])
        .with(&[Change::Shaped(&[STEM], &[ONE, STEM, ONE, ONE])]),
    model("vision.conv_stem.bn.weight", "v.conv_stem.bn.weight", &[STEM]),
    model("vision.msfa.ffn.pw_exp.conv.weight", "v.msfa.ffn.pw_exp.conv.weight", &[FUSED, BOTH, ONE, ONE]),
    model("vision.msfa.ffn.pw_exp.bn.weight", "v.msfa.ffn.pw_exp.bn.weight", &[FUSED]),
    model("vision.msfa.ffn.pw_proj.conv.weight", "v.msfa.ffn.pw_proj.conv.weight", &[V_HIDDEN, FUSED, ONE, ONE]),
    model("vision.msfa.ffn.pw_proj.bn.weight", "v.msfa.ffn.pw_proj.bn.weight", &[V_HIDDEN]),
    model("vision.msfa.norm.weight", "v.msfa.norm.weight", &[V_HIDDEN]),
];

/// The sizes of a block's convolutions of single channels.
const fn kernels(stage: usize, place: u64) -> (u64, u64) {
    match block(stage, place) {
        Block::Inverted { first, second, .. } => (first, second),
        _ => (0, 0),
    }
}

/// The heads of a block's attention, their size, and whether keys and values are of fewer places.
const fn attention(stage: usize, place: u64) -> (u64, u64, bool) {
    match block(stage, place) {
        Block::Attention { heads, size, is_sampled } => (heads, size, is_sampled),
        _ => (0, 0, false),
    }
}

/// A size of the known tower; others are refused.
fn known(config: &Config, size: u64) -> Result<u64> {
    if config.text(NAME)? != Some(KNOWN) {
        let own = config.get(NAME).cloned().unwrap_or_default();
        return Err(unexpected(NAME, &own, KNOWN));
    }
    match config.get(ARGUMENTS) {
        Some(arguments) if arguments.as_object().is_none_or(|arguments| !arguments.is_empty()) => {
            Err(unexpected(ARGUMENTS, arguments, "none"))
        }
        _ => Ok(size),
    }
}
