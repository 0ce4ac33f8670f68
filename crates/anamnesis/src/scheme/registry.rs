//! The list of schemes, in the order in which they claim, and of encodings; one line for each.

use super::claim::{self, About, Claimed, Claims, PartName, Scheme};
use super::quantise::Encoding;
use super::{
    aqlm, awq, bitnet, bnb, comfy, compressed_tensors, eetq, exl2, exl3, fouroversix, fp8, gemma_quant, ggml, gptq,
    hqq, marlin, mlx, modelopt, mxfp4, quanto, quark, sinq, torchao, vptq,
};
#[cfg(feature = "containers")]
use super::{linear, onnxruntime};
use crate::catalog::{Catalog, Rounding};
use crate::quant_config::QuantConfig;

/// The formats that each scheme decodes or refuses, in the order in which schemes claim.
pub(crate) fn about() -> impl Iterator<Item = About> {
    ALL.iter().map(|scheme| scheme.about())
}

/// All schemes in the order in which they claim. Where a graph names the readers of tensors, it decides before any name
/// does. FP8 comes last, because packed formats store their scales as FP8 too.
static ALL: &[&dyn Scheme] = &[
    #[cfg(feature = "containers")]
    &onnxruntime::OnnxRuntime,
    #[cfg(feature = "containers")]
    &linear::Linear,
    &ggml::Ggml,
    &claim::refused_methods::RefusedMethods,
    &comfy::Comfy,
    &gemma_quant::Gemma,
    &eetq::Eetq,
    &aqlm::Aqlm,
    &vptq::Vptq,
    &sinq::Sinq,
    &fouroversix::FourOverSix,
    &exl3::Exl3,
    &exl2::Exl2,
    &marlin::Marlin,
    &gptq::Gptq,
    &awq::Awq,
    &bnb::Bnb,
    &compressed_tensors::CompressedTensors,
    &hqq::Hqq,
    &quanto::Quanto,
    &torchao::Torchao,
    &bitnet::BitNet,
    &mlx::Mlx,
    &quark::Quark,
    &modelopt::ModelOpt,
    &mxfp4::Mxfp4,
    &claim::refused_layouts::RefusedLayouts,
    &fp8::Fp8,
];

/// The encodings that a model can be quantised to, in the order in which they are listed.
#[cfg(feature = "encode")]
pub(crate) static ENCODINGS: &[&[Encoding]] = &[
    &bnb::ENCODINGS,
    &fp8::ENCODINGS,
    &compressed_tensors::ENCODINGS,
    &modelopt::ENCODINGS,
    &comfy::ENCODINGS,
    &mlx::ENCODINGS,
    &gptq::ENCODINGS,
    &awq::ENCODINGS,
    &quanto::ENCODINGS,
    &eetq::ENCODINGS,
    &hqq::ENCODINGS,
    &mxfp4::ENCODINGS,
    &ggml::ENCODINGS,
];

/// The encodings that a model can be quantised to: none.
#[cfg(not(feature = "encode"))]
pub(crate) static ENCODINGS: &[&[Encoding]] = &[];

/// The part names of every scheme; `true` if the scheme refuses the weights that it recognises.
fn part_names() -> Vec<(bool, Vec<PartName>)> {
    ALL.iter().map(|scheme| (matches!(scheme.about(), About::Refused(_)), scheme.part_names())).collect()
}

/// Lets every scheme claim its weights in the catalog, then refuses the leftovers.
///
/// `elsewhere` names another file that may hold a tensor missing from the catalog. With `allow_unclaimed`, unclaimed
/// tensors that look packed are copied as plain data. `rounding` selects whose arithmetic weights are decoded with.
pub(crate) fn claim(
    catalog: &Catalog,
    config: &QuantConfig,
    elsewhere: &dyn Fn(&str) -> Option<String>,
    allow_unclaimed: bool,
    rounding: Rounding,
) -> Claimed {
    let mut claims = Claims::new(catalog, config, elsewhere, rounding);
    for scheme in ALL {
        claims.set_format(match scheme.about() {
            About::Decoded(name, _) => name,
            About::Refused(_) => "packed weights",
        });
        scheme.claim(&mut claims);
    }
    claim::leftover_check::refuse_leftovers(&mut claims, allow_unclaimed, &part_names());
    claims.finish()
}
