//! The schemes and encodings of this build, one line each, and the order in which schemes claim.

use super::claim::{self, About, Claimed, Claims, PartName, Scheme};
use super::quantise::Encoding;
use super::{
    awq, bitnet, bnb, comfy, compressed_tensors, fp8, ggml, gptq, hqq, marlin, mlx, modelopt, mxfp4, quanto, quark,
    torchao,
};
use crate::catalog::{Catalog, Rounding};
use crate::quant_config::QuantConfig;

/// What every scheme knows, in the order they claim.
pub(crate) fn about() -> impl Iterator<Item = About> {
    ALL.iter().map(|scheme| scheme.about())
}

/// All schemes in the order they claim. Eight-bit floats also occur as the scales of packed formats, so they come last.
static ALL: [&dyn Scheme; 18] = [
    &ggml::Ggml,
    &claim::methods::Methods,
    &comfy::Comfy,
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
    &claim::foreign::Foreign,
    &fp8::Fp8,
];

/// What can be asked for when quantising, in the order it is listed.
pub(crate) static ENCODINGS: [&[Encoding]; 11] = [
    &bnb::ENCODINGS,
    &fp8::ENCODINGS,
    &compressed_tensors::ENCODINGS,
    &modelopt::ENCODINGS,
    &mlx::ENCODINGS,
    &gptq::ENCODINGS,
    &awq::ENCODINGS,
    &quanto::ENCODINGS,
    &hqq::ENCODINGS,
    &mxfp4::ENCODINGS,
    &ggml::ENCODINGS,
];

/// The part names of every scheme, and whether it refuses what it recognises.
fn part_names() -> Vec<(bool, Vec<PartName>)> {
    ALL.iter().map(|scheme| (matches!(scheme.about(), About::Refused(_)), scheme.part_names())).collect()
}

/// Lets every scheme claim its share of the catalog. `elsewhere` says where a tensor may be that is not in it;
/// `allow_unclaimed` whether what is suspected of being packed is plain data where nobody claims it; `rounding` by whose
/// arithmetic weights are decoded.
pub(crate) fn claim(
    catalog: &Catalog,
    config: &QuantConfig,
    elsewhere: &dyn Fn(&str) -> Option<String>,
    allow_unclaimed: bool,
    rounding: Rounding,
) -> Claimed {
    let mut claims = Claims::new(catalog, config, elsewhere, rounding);
    for scheme in ALL {
        claims.begin(match scheme.about() {
            About::Decoded(name, _) => name,
            About::Refused(_) => "packed weights",
        });
        scheme.claim(&mut claims);
    }
    claim::suspicion::refuse_leftovers(&mut claims, allow_unclaimed, &part_names());
    claims.finish()
}
