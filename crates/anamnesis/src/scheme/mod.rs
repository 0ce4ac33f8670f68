//! Quantisation schemes: which stored tensors belong together, and how their numbers come back. Schemes know nothing of
//! containers.
//!
//! Every scheme looks at the whole catalog and claims what it understands, tensor by tensor. What nobody claims is plain
//! data, unless it looks like a part of something quantised: then it is refused by name. A new scheme is a folder here and a line in
//! [`ALL`]; where it encodes too, a line in [`ENCODINGS`].

mod apart;
pub(crate) mod awq;
pub(crate) mod bitnet;
mod blocks;
pub(crate) mod bnb;
mod braid;
mod claims;
mod coding;
pub(crate) mod comfy;
pub(crate) mod compressed_tensors;
mod context;
pub(crate) mod decoder;
mod encoder;
mod foreign;
pub(crate) mod fp8;
pub(crate) mod ggml;
pub(crate) mod gptq;
mod grid;
mod group_options;
pub(crate) mod grouped;
pub(crate) mod hqq;
mod identity;
mod inner;
mod integers;
mod joined;
mod layers;
pub(crate) mod leftover;
mod library;
mod linear;
pub(crate) mod marlin;
mod methods;
pub(crate) mod mlx;
mod model_class;
pub(crate) mod modelopt;
pub(crate) mod mxfp4;
pub(crate) mod packed;
mod part_name;
mod plain;
mod quantiser;
pub(crate) mod quanto;
pub(crate) mod quark;
mod reordered;
mod role;
mod scale;
pub(crate) mod torchao;
mod turned;

use crate::catalog::{Catalog, Rounding};
use crate::quant_config::QuantConfig;

pub(crate) use apart::{Apart, Ones, StoredBlocks};
pub(crate) use blocks::{Blocked, FourBitFloats, OF_INPUTS, Reblocked, Reciprocals, WholeScale};
pub use bnb::BnbOptions;
pub(crate) use braid::{Braid, Braided};
pub(crate) use claims::{Blocks, Claimed, Claims, Weight};
pub use coding::{Coding, Evidence};
pub(crate) use context::Context;
pub(crate) use decoder::{Prepare, Prepared, Recipe, TileDecoder, Window};
pub(crate) use encoder::{EncodedTensor, FirstPass, TileEncoder};
pub use ggml::{BlockOptions, Importance, InputWeights};
pub(crate) use grid::{Arrangement, Grid};
pub use group_options::{GroupOptions, GroupSize};
pub(crate) use identity::Identity;
pub(crate) use inner::{Inner, bytes_of_each};
pub(crate) use integers::{Integers, Lie, MadeIntegers, Zeros};
pub use leftover::Leftover;
pub(crate) use library::{AsLibrary, InLibrary, Rounded};
pub(crate) use model_class::{Layer, ModelClass};
pub(crate) use part_name::{PartName, Says};
pub(crate) use plain::PlainDecoder;
pub(crate) use quantiser::{Candidate, Decision, Encoding, Made, Packing, Quantiser, Task, Wish};
pub use quantiser::{Keeping, QuantiseOptions};
pub(crate) use reordered::{Agreement, Companion, Constant, SameGroups, SameWords};
pub(crate) use role::ClaimedTensor;
pub use role::{QuantScheme, TensorRole};
pub(crate) use scale::ScaleType;
pub(crate) use turned::Turned;

/// A quantisation scheme.
pub(crate) trait Scheme: Send + Sync {
    /// Claims the weights of this scheme, with their companions, among the tensors nobody has claimed yet. Whatever is
    /// inconsistent becomes a problem that names the tensor.
    fn claim(&self, claims: &mut Claims<'_>);

    /// What it knows, for a list of what this build decodes.
    fn about(&self) -> About;

    /// What it calls the stored parts of a weight, so that they are known where the weight is not.
    fn part_names(&self) -> Vec<PartName> {
        Vec::new()
    }
}

/// What a scheme knows.
pub(crate) enum About {
    /// Weights that are decoded: the name users know, and which forms of it.
    Decoded(&'static str, &'static str),
    /// Weights that are recognised and refused, by the names of their formats.
    Refused(Vec<&'static str>),
}

/// What every scheme knows, in the order they claim.
pub(crate) fn about() -> impl Iterator<Item = About> {
    ALL.iter().map(|scheme| scheme.about())
}

/// All schemes in the order they claim. Eight-bit floats also occur as the scales of packed formats, so they come last.
static ALL: [&dyn Scheme; 18] = [
    &ggml::Ggml,
    &methods::Methods,
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
    &foreign::Foreign,
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
    leftover::settle(&mut claims, allow_unclaimed);
    claims.finish()
}
