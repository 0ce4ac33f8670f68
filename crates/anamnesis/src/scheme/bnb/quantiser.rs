//! Quantising to BitsAndBytes, matrix by matrix.

use serde_json::Value;

use super::config::quantization_config;
use super::four_bit::{FourBitEncoder, QuantType};
use super::int8::Int8Encoder;
use super::kind::BnbKind;
use crate::error::{AnamnesisError, Request, Result};
use crate::scheme::coder::TileEncoder;
use crate::scheme::model_class::Layer;
use crate::scheme::quantise::BnbOptions;
use crate::scheme::quantise::{
    BlockOptions, Candidate, Decision, Encoding, GroupOptions, KEPT_BY_BNB, Keeping, QuantisedModel, Quantiser, Task,
    linear,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 3] = [
    Encoding::with_companions(&["bnb-nf4", "bnb_nf4", "nf4"], "BitsAndBytes NF4 weights", "NF4", &BnbKind::Nf4),
    Encoding::with_companions(&["bnb-fp4", "bnb_fp4", "fp4"], "BitsAndBytes FP4 weights", "FP4", &BnbKind::Fp4),
    Encoding::with_companions(&["bnb-int8", "bnb_int8", "int8"], "BitsAndBytes INT8 weights", "INT8", &BnbKind::Int8),
];

/// The default block size.
const BLOCK_SIZE: usize = 64;
/// Block sizes that bitsandbytes reads.
const BLOCK_SIZES: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

impl Quantiser for BnbKind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        if task.options.blocks != BlockOptions::default() {
            let what = "options of a mix, or an importance matrix".to_owned();
            return Err(contradiction(what, "BitsAndBytes has neither".to_owned()));
        }
        if task.options.groups != GroupOptions::default() {
            let why = "BitsAndBytes has blocks that ignore the ends of rows".to_owned();
            return Err(contradiction("a group size".to_owned(), why));
        }
        let options = EncoderOptions::new(*self, task.options.bnb)?;
        let decide = |tensor: &Candidate<'_>| match linear::decide_by(tensor, task.rules, &KEPT_BY_BNB) {
            Ok(()) => options.encoder(tensor).map(Decision::Encode),
            Err(keeping) => Ok(Decision::Keep(keeping)),
        };
        task.tensors.iter().map(decide).collect()
    }

    fn loaded_by(&self) -> &'static str {
        "transformers 5.22 with bitsandbytes 0.50"
    }

    /// transformers replaces only layers of the exact class `Linear`, and `Conv1D`; experts are not layers there.
    fn keeps(&self, layer: Layer) -> Option<Keeping> {
        match layer {
            Layer::Linear | Layer::Conv1d => None,
            Layer::Inherited | Layer::Expert => Some(Keeping::NotReplaced),
            Layer::InF32 => Some(Keeping::InF32),
            Layer::Head => Some(Keeping::Head),
            Layer::Bypassed | Layer::Other => Some(Keeping::NotReplaced),
        }
    }

    fn transposes_conv1d(&self) -> bool {
        true
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        Some(quantization_config(*self, model))
    }

    fn needs_configuration(&self) -> bool {
        false
    }
}

fn contradiction(what: String, why: String) -> AnamnesisError {
    Request::Contradiction { what, why }.into()
}

/// The checked options of one kind.
enum EncoderOptions {
    FourBit { quant_type: QuantType, block: usize, is_nested: bool },
    Int8,
}

impl EncoderOptions {
    fn new(kind: BnbKind, options: BnbOptions) -> Result<Self> {
        let quant_type = match kind {
            BnbKind::Nf4 => QuantType::Nf4,
            BnbKind::Fp4 => QuantType::Fp4,
            BnbKind::Int8 if options == BnbOptions::default() => return Ok(Self::Int8),
            BnbKind::Int8 => {
                let why = "INT8 has one scale per row: there are no blocks, and no scales of scales";
                return Err(contradiction(
                    "bnb-int8 with a block size or double quantisation".to_owned(),
                    why.to_owned(),
                ));
            }
        };
        let block = options.block_size.unwrap_or(BLOCK_SIZE);
        if !BLOCK_SIZES.contains(&block) {
            let what = format!("{} in blocks of {block} values", quant_type.name());
            return Err(contradiction(what, format!("{BLOCK_SIZES:?} are possible")));
        }
        Ok(Self::FourBit { quant_type, block, is_nested: options.double_quant })
    }

    fn encoder(&self, tensor: &Candidate<'_>) -> Result<Box<dyn TileEncoder>> {
        let Candidate { output_name: name, shape, dtype, .. } = *tensor;
        // Loaders find the companions by a weight name that ends in `weight`.
        let is_named = name == "weight" || name.ends_with(".weight");
        let name = if is_named { name.to_owned() } else { format!("{name}.weight") };
        Ok(match *self {
            Self::Int8 => Box::new(Int8Encoder::new(&name, shape)?),
            Self::FourBit { quant_type, block, is_nested } => {
                Box::new(FourBitEncoder::new(&name, shape, dtype, quant_type, block, is_nested))
            }
        })
    }
}
