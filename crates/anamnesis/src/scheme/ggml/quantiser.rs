//! Quantising to ggml blocks: the mix chooses a type for every tensor; rows that do not divide into its blocks get a
//! fallback type.

use std::cmp::Reverse;

use super::encoder::{BlockEncoder, FloatEncoder, Weights};
use super::mix::{self, Chooser, Mix, Model};
use super::tensor_types::{TensorType, TensorTypes};
use crate::catalog::{BlockType, Metadata, MetadataArray, MetadataValue, TargetDtype};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::scheme::quantise::{
    BlockOptions, BnbOptions, Candidate, Decision, Encoding, GroupOptions, Importance, Keeping, Override, Packing,
    QuantisedModel, Quantiser, Task, linear,
};

/// The mixes as targets of a conversion.
pub(crate) static ENCODINGS: [Encoding; Mix::ALL.len()] = {
    let mut encodings = [const { encoding(&Mix::ALL[0]) }; Mix::ALL.len()];
    let mut index = 1;
    while index < Mix::ALL.len() {
        encodings[index] = encoding(&Mix::ALL[index]);
        index += 1;
    }
    encodings
};

const fn encoding(mix: &'static Mix) -> Encoding {
    let row = mix.row();
    Encoding { names: row.names, about: row.about, short: row.label, packing: Packing::Blocks, quantiser: mix }
}

impl Quantiser for Mix {
    fn loaded_by(&self) -> &'static str {
        "llama.cpp and programs built on it"
    }

    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        let options = &task.options.blocks;
        if task.options.bnb != BnbOptions::default() || task.options.groups != GroupOptions::default() {
            let why = "blocks of ggml have a size of their own, and no scales of scales to choose".to_owned();
            return Err(Request::Contradiction {
                what: "a block size, a group size or double quantisation".to_owned(),
                why,
            }
            .into());
        }
        if let Some(importance) = &options.importance {
            check_importance(importance, task.tensors)?;
        }
        let types = TensorTypes::new(options)?;
        let has_names = mix::has_known_names(task.tensors.iter().map(|tensor| tensor.output_name));
        let model = Model::of(task.metadata);
        let is_quantised = |tensor: &&Candidate<'_>| mix::is_quantised(tensor.output_name, rank(tensor.shape));
        let names = task.tensors.iter().filter(is_quantised).map(|tensor| tensor.output_name);
        let has_importance = options.importance.is_some();
        let mut chooser = Chooser::new(*self, &model, names, has_importance);
        // In the order of the output, because some types depend on how many tensors came before.
        let mut order: Vec<usize> = (0..task.tensors.len()).collect();
        order.sort_by_key(|&index| (task.tensors[index].place, in_order(task.tensors[index].output_name)));
        let mut decisions: Vec<Option<Decision>> = task.tensors.iter().map(|_| None).collect();
        for index in order {
            let tensor = &task.tensors[index];
            let decision = match has_names {
                true => self.decide(tensor, options, &types, &mut chooser, task)?,
                false => match linear::decide(tensor, task.rules) {
                    Ok(()) => {
                        let usual = TensorType::Block(self.block());
                        let asked = requested(tensor).map(TensorType::Block).or_else(|| types.of(tensor.output_name));
                        self.encode(tensor, asked.unwrap_or(usual), options)?
                    }
                    Err(keeping) => Decision::Keep(keeping),
                },
            };
            types.record(tensor.output_name, !matches!(decision, Decision::Keep(_)));
            decisions[index] = Some(decision);
        }
        types.check_used()?;
        Ok(decisions.into_iter().map(|decision| decision.unwrap_or(Decision::Keep(Keeping::NotALayer))).collect())
    }

    fn mixes_with(&self, other: &str) -> bool {
        Self::named(other).is_some()
    }

    fn metadata(&self, model: &QuantisedModel<'_>) -> Metadata {
        let mut metadata = Metadata::new();
        let keys = ["general.quantization_version", "general.file_type"];
        let of_importance =
            ["file", "dataset", "entries_count", "chunks_count"].map(|key| format!("quantize.imatrix.{key}"));
        let order = keys.map(str::to_owned).into_iter().chain(of_importance).collect();
        metadata.insert("general.quantization_version".to_owned(), MetadataValue::U32(2));
        metadata.insert("general.file_type".to_owned(), MetadataValue::U32(self.file_type()));
        if let Some(importance) = &model.options.blocks.importance {
            let text = |text: &str| MetadataValue::String(text.to_owned());
            metadata.insert("quantize.imatrix.file".to_owned(), text(&importance.file));
            if let Some(dataset) = &importance.dataset {
                metadata.insert("quantize.imatrix.dataset".to_owned(), text(dataset));
            }
            let entries = u32::try_from(importance.weights.len()).unwrap_or(u32::MAX);
            metadata.insert("quantize.imatrix.entries_count".to_owned(), MetadataValue::U32(entries));
            if let Some(chunks) = importance.chunks {
                metadata.insert("quantize.imatrix.chunks_count".to_owned(), MetadataValue::U32(chunks));
            }
        }
        metadata.in_order(order)
    }
}

/// The sort key of a tensor in the output: tensors without a layer first, then by layer, each by name.
pub(crate) fn in_order(name: &str) -> (Reverse<bool>, u64, &str) {
    let layer = mix::layer(name);
    (Reverse(layer.is_none()), layer.unwrap_or(0), name)
}

/// The number of dimensions as ggml counts them: leading dimensions of 1 do not count.
fn rank(shape: &[usize]) -> usize {
    let ones = shape.iter().take_while(|size| **size == 1).count();
    (shape.len() - ones).max(1)
}

impl Mix {
    fn decide(
        &self,
        tensor: &Candidate<'_>,
        options: &BlockOptions,
        types: &TensorTypes,
        chooser: &mut Chooser<'_>,
        task: &Task<'_>,
    ) -> Result<Decision> {
        let (name, rank) = (tensor.output_name, rank(tensor.shape));
        let row = tensor.shape.last().map_or(0, |&row| row as u64);
        if tensor.shape.contains(&0) {
            return Ok(Decision::Keep(Keeping::Empty));
        }
        if rank < 2 {
            return Ok(Decision::Keep(Keeping::NotAMatrix));
        }
        if !mix::is_quantised(name, rank) {
            return Ok(Decision::Keep(if name.contains("norm") { Keeping::Norm } else { Keeping::NotALayer }));
        }
        let is_kept = match tensor.requested {
            Some(Override::Keep) => true,
            Some(Override::Encode(_)) => task.rules.excludes(tensor.name),
            None => !task.rules.takes(tensor.name),
        } || options.keep_output && mix::is_output(name);
        let requested_type = requested(tensor).map(TensorType::Block);
        if let (None, false, Some(asked)) = (requested_type, is_kept, types.of(name)) {
            return self.encode(tensor, asked, options);
        }
        let usual = self.block();
        let chosen = match types.output {
            _ if options.pure => TensorType::Block(usual),
            Some(output) if chooser.is_output(name) => output,
            _ => TensorType::Block(chooser.next(name, rank, row.is_multiple_of(usual.block_elements()))),
        };
        match is_kept {
            true => Ok(Decision::Keep(Keeping::Asked)),
            false => self.encode(tensor, requested_type.unwrap_or(chosen), options),
        }
    }

    fn encode(&self, tensor: &Candidate<'_>, wanted: TensorType, options: &BlockOptions) -> Result<Decision> {
        let name = tensor.output_name;
        let row = tensor.shape.last().map_or(0, |&row| row as u64);
        let wanted = match wanted {
            TensorType::Block(block) => block,
            TensorType::Float(dtype) => {
                return Ok(Decision::Encode(Box::new(FloatEncoder::new(name, tensor.shape, dtype))));
            }
        };
        let Some(block) = mix::fitting(wanted, row) else {
            let encoder = FloatEncoder::new(name, tensor.shape, TargetDtype::F16);
            return Ok(Decision::EncodeInstead(Box::new(encoder), wanted));
        };
        let weights = options.importance.as_ref().and_then(|importance| importance.weights.get(name));
        if weights.is_none() && mix::needs_importance(*self, block, name) {
            let what = format!("{} for {}", block.name(), quoted(name));
            let why = "this type needs an importance matrix that has the tensor".to_owned();
            return Err(Request::Contradiction { what, why }.into());
        }
        let weights = weights.map(|weights| weights.read().map(Weights)).transpose()?;
        let encoder = Box::new(BlockEncoder::new(name, tensor.shape, block, weights)?);
        Ok(if block == wanted { Decision::Encode(encoder) } else { Decision::EncodeInstead(encoder, wanted) })
    }
}

/// The block type requested for a tensor: the main type of the requested mix.
fn requested(tensor: &Candidate<'_>) -> Option<BlockType> {
    match tensor.requested {
        Some(Override::Encode(encoding)) => Mix::named(encoding.name()).map(Mix::block),
        Some(Override::Keep) | None => None,
    }
}

/// Refuses the importance matrix of another model: the entry of a tensor must have as many values as the tensor has
/// inputs.
fn check_importance(importance: &Importance, tensors: &[Candidate<'_>]) -> Result<()> {
    let mut known = 0usize;
    for tensor in tensors {
        let (Some(weights), [stack @ .., _, row]) = (importance.weights.get(tensor.output_name), tensor.shape) else {
            continue;
        };
        known += 1;
        let matrices: usize = stack.iter().product();
        if weights.len() != *row && weights.len() != row * matrices {
            let (found, name) = (weights.len(), quoted(tensor.output_name));
            return Err(AnamnesisError::parse(format!(
                "the importance of {name} has {found} values, the tensor {row} inputs: it belongs to another model"
            )));
        }
        let name = quoted(tensor.output_name);
        let weights = weights.read()?;
        if let Some(weight) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
            return Err(AnamnesisError::parse(format!("the importance of {name} has the value {weight}")));
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(AnamnesisError::parse(format!("the importance of {name} is zero throughout")));
        }
    }
    match known {
        0 => Err(AnamnesisError::parse("the importance matrix has none of the tensors: it belongs to another model")),
        _ => Ok(()),
    }
}

impl Model {
    /// Reads the hyperparameters from metadata.
    fn of(metadata: Option<&Metadata>) -> Self {
        let get = |key: &str| metadata.and_then(|metadata| metadata.get(key));
        let architecture = match get("general.architecture") {
            Some(MetadataValue::String(name)) => name.clone(),
            _ => String::new(),
        };
        // If layers differ, llama.cpp uses the value of the first.
        let number = |key: &str| match get(&format!("{architecture}.{key}"))? {
            MetadataValue::U32(number) => Some(u64::from(*number)),
            MetadataValue::U64(number) => Some(*number),
            MetadataValue::I32(number) => u64::try_from(*number).ok(),
            MetadataValue::Array(numbers) => match &**numbers {
                MetadataArray::U32(numbers) => numbers.first().map(|number| u64::from(*number)),
                MetadataArray::I32(numbers) => numbers.first().and_then(|number| u64::try_from(*number).ok()),
                _ => None,
            },
            _ => None,
        };
        let heads = number("attention.head_count").unwrap_or(1);
        Self {
            layers: number("block_count").unwrap_or(0),
            experts: number("expert_count").unwrap_or(0),
            heads,
            kv_heads: number("attention.head_count_kv").unwrap_or(heads),
            architecture,
        }
    }
}
