//! Changes that yield different values legitimately: no reader could distinguish the result from a checkpoint written
//! that way. Each has a reason; everything else must be refused or decoded right.

use serde_json::Value;

use super::case::Case;
use super::mutation::Mutation;
use super::trial::Surroundings;
use super::verdict::Verdict;
use crate::support::Tensor;

const ZERO_POINTS: &str =
    "only checkpoint_format, packing_format, backend or the writer determines the GPTQ format of zero points";
const GROUP_ORDER: &str = "without a configuration or another weight nothing shows that a GPTQ weight had a g_idx";
const SCALE_TYPE: &str = "the type of a scale is nowhere but in its entry";
const BYTES_OF_WORDS: &str = "whether zero points of eight bits are bytes or words is nowhere but in their entry";
const CODE_FORMAT: &str =
    "without a configuration or another weight the format of eight-bit codes is nowhere but in their type";
const SHAPE: &str = "the shape of a weight is nowhere but in its entry, and fits its companions";
const ARRANGEMENT: &str = "without a configuration only shapes determine the arrangement of a scale, and they match";
const UNSCALED: &str = "without a configuration or another scale eight-bit floats are their own values";
const INTEGERS: &str = "without a configuration or another weight integers without a known scale are plain data";
const LONE: &str = "without a configuration or another weight nothing identifies a single tensor of a common name";
const BIAS: &str = "a vector of floats as long as a weight has rows, called bias, is a bias";
const ALIKE: &str = "two parts of one type and shape, or two numbers of one type, are told apart by their names alone, in one module or in two";
const AMONG_OTHERS: &str = "what else a module of several parameters holds is not known from its names";
const CONFIGURED: &str = "the configured size of a block is nowhere else, and fits the shapes";
const BITS: &str = "how many bits a code has is nowhere else, and as many words hold codes of more bits";
const NORM: &str = "a vector called scale in a module of its own is what norms have";
const GAPS: &str = "where codes take as many words with gaps and without, only the version distinguishes them";
const CACHE: &str = "a scale of a cache stands beside no weight, and under another name is data of its module";
const LAYER: &str =
    "only the class in the configuration determines whether a BitNet layer divides by its scale or multiplies";
const WEIGHT: &str = "a tensor of floats called weight, in no module, is a weight";
const WORD: &str = "the last word of the name of a part of SINQ, in no module, is a name that models use too";
const OUTPUTS: &str =
    "how many outputs a VPTQ layer has is nowhere but in the configuration, and as many vectors hold fewer outputs";
const GEMMA_BITS: &str =
    "how many bits a weight of Gemma has is nowhere but in the configuration, and bytes hold codes of any";
const SCALE_RULE: &str = "the rule of the scales of Four Over Six is nowhere but in the configuration";
const OPTIONAL: &str = "whether a W4A8 weight has a codebook or a correction is known by their presence alone";
const VECTOR: &str = "without a configuration or another weight a four-bit weight without its description is a vector";

/// Why the different result of a change is legitimate.
pub fn reason(case: &Case, mutation: &Mutation, place: &Surroundings, verdict: &Verdict) -> Option<&'static str> {
    // A part can pass as plain data only under a name that models use too.
    let covers = |reason: &&'static str| match verdict {
        Verdict::Wrong(_) | Verdict::Lost(_) => *reason != CACHE,
        Verdict::Orphan(_) => [LONE, NORM, BIAS, AMONG_OTHERS, CACHE, WEIGHT, WORD].contains(reason),
        Verdict::Correct | Verdict::Refused(_) | Verdict::Panicked => false,
    };
    // A case without a configuration has none in any surroundings.
    let place = Surroundings { configured: place.configured && !case.config.is_null(), ..*place };
    of_change(case, mutation, &place).filter(covers)
}

fn of_change(case: &Case, mutation: &Mutation, place: &Surroundings) -> Option<&'static str> {
    let end = end_of(&mutation.part);
    match mutation.class {
        "configuration" => of_configuration(case, end, mutation),
        _ if is_of_a_cache(case, mutation) => Some(CACHE),
        "metadata" if place.configured => None,
        "metadata" => match mutation.part.as_str() {
            "gptq_bits" => Some(ZERO_POINTS),
            _ => None,
        },
        "retype" | "change the width" | "reshape" | "resize" => of_entry(case, end, mutation, place),
        "remove" | "leave alone" => of_loss(case, end, mutation, place),
        "rename" | "duplicate" | "swap names" => of_name(case, mutation, place),
        _ => None,
    }
}

fn of_configuration(case: &Case, end: &str, mutation: &Mutation) -> Option<&'static str> {
    let is_absent = ["removed", "null"].contains(&mutation.to.as_str());
    let is_other = |name: &str| mutation.to.starts_with(&format!("\"{name}"));
    let is_indexed = || case.parts().any(|part| part.name.ends_with("g_idx"));
    match end {
        // Symmetric codes reveal it themselves.
        "checkpoint_format" | "packing_format" | "backend" if case.config["quantization_config"]["sym"] == true => None,
        "checkpoint_format" => (is_absent || is_other("gptq")).then_some(ZERO_POINTS),
        // AutoRound's older name for its packing.
        "packing_format" | "backend" => (is_absent || is_other("auto_round:")).then_some(ZERO_POINTS),
        "weight_block_size" | "block_structure" => Some(CONFIGURED),
        "group_size" => (!is_indexed()).then_some(CONFIGURED),
        _ if case.name.starts_with("gemma/") && sets_bits_of_gemma(end, mutation) => Some(GEMMA_BITS),
        "scale_rule" | "weight_scale_rule" => Some(SCALE_RULE),
        "out_features" => fills_as_many_vectors(case, mutation).then_some(OUTPUTS),
        "num_bits" => has_more(case, mutation).then_some(BITS),
        "version" => Some(GAPS),
        "linear_class" => is_absent.then_some(LAYER),
        _ => None,
    }
}

fn of_entry(case: &Case, end: &str, mutation: &Mutation, place: &Surroundings) -> Option<&'static str> {
    let from = case.subject.find(&mutation.part)?.tensor.dtype.as_str();
    let to = mutation.to.as_str();
    let are_both = |types: [&str; 2]| types.contains(&from) && types.contains(&to);
    let is_weight = case.truth.weights.contains_key(&mutation.part) || end == "qweight";
    match mutation.class {
        "retype" if are_both(["F16", "BF16"]) || are_both(["U8", "F8_E8M0"]) => Some(SCALE_TYPE),
        "retype" => {
            // Quanto can quantise single layers to other types, which nothing else records.
            let has_fnuz = |dtype: &str| dtype.ends_with("FNUZ");
            let fits_twin = end == "_data" || from == "I8" || to == "I8" || has_fnuz(from) == has_fnuz(to);
            let is_open = !place.configured && (!place.twin || fits_twin);
            // Packed ternary codes could be eight-bit floats with one scale.
            let are_codes = is_code(from) || (from == "U8" && end == "weight" && to.starts_with("F8"));
            (are_codes && is_code(to) && is_open).then_some(CODE_FORMAT)
        }
        "change the width" if end == "weight_zero_point" && from == "I32" && to.starts_with("I8 ") => {
            Some(BYTES_OF_WORDS)
        }
        "reshape" | "resize" if is_weight => Some(SHAPE),
        _ if is_weight => None,
        _ => (!place.configured || !has_arrangement(case)).then_some(ARRANGEMENT),
    }
}

fn of_loss(case: &Case, end: &str, mutation: &Mutation, place: &Surroundings) -> Option<&'static str> {
    match end {
        "scale" if is_vector(case, &mutation.part) => Some(NORM),
        "weight_codebook" | "weight_correction" if mutation.class == "remove" => Some(OPTIONAL),
        _ if place.configured || place.twin => None,
        "g_idx" if mutation.class == "remove" => Some(GROUP_ORDER),
        _ if mutation.class == "remove" && mutation.part.contains("quant_state") => Some(VECTOR),
        _ if has_codes(case) && mutation.class == "remove" => {
            let is_of_inputs = |name: &str| name != mutation.part && name.contains("put_scale");
            (!case.parts().any(|part| is_of_inputs(&part.name))).then_some(UNSCALED)
        }
        _ => Some(LONE),
    }
}

fn of_name(case: &Case, mutation: &Mutation, place: &Surroundings) -> Option<&'static str> {
    let stored = &case.subject.find(&mutation.part)?.tensor;
    let becomes = |word: &str| mutation.to.starts_with(word);
    let other = case.subject.find(&mutation.to).map(|other| &other.tensor);
    match mutation.class {
        "swap names" => {
            // A number is as good without dimensions as with one of length 1.
            let is_number = |tensor: &Tensor| tensor.shape.iter().all(|&dim| dim == 1);
            let alike = |other: &Tensor| {
                let is_of_one_shape = other.shape == stored.shape || (is_number(other) && is_number(stored));
                // The sizes of two weights, which Four Over Six stores in either type.
                let are_sizes = || [&mutation.part, &mutation.to].iter().all(|name| name.ends_with("_metadata"));
                (other.dtype == stored.dtype || are_sizes()) && is_of_one_shape
            };
            // Two weights of eight-bit floats, each with one scale for all of its values.
            let are_weights = [&mutation.part, &mutation.to].iter().all(|name| has_one_scale(case, name));
            if are_weights && other.is_some_and(|other| other.dtype == stored.dtype) {
                return Some(SHAPE);
            }
            other.is_some_and(alike).then_some(ALIKE)
        }
        "duplicate" if case.parts().any(|part| is_among_others(case, &part.name)) => Some(AMONG_OTHERS),
        "rename" if mutation.part.ends_with("_input_scale") => Some(AMONG_OTHERS),
        "rename" if !place.configured && case.parts().any(|part| is_among_others(case, &part.name)) => {
            Some(AMONG_OTHERS)
        }
        "duplicate" if mutation.part.ends_with(".scale") && becomes("a dot less ") => Some(LONE),
        "duplicate" if mutation.part.ends_with(".scale") && is_vector(case, &mutation.part) => Some(NORM),
        "duplicate" if becomes("no prefix ") && ["_scale", "_shift"].contains(&end_of(&mutation.part)) => Some(LONE),
        "rename" if !place.configured && mutation.part.ends_with(".qbiases") && becomes("biases ") => Some(ARRANGEMENT),
        // The remaining name is empty.
        "rename"
            if !place.configured && !place.twin && end_of(&mutation.part).len() == 1 && !stays_in_module(mutation) =>
        {
            Some(LONE)
        }
        "duplicate" if becomes("a dot less ") && end_of(&mutation.part).len() <= 2 => Some(LONE),
        "duplicate" if becomes("no prefix (weight)") && stored.dtype.contains("F") => Some(WEIGHT),
        "duplicate" if becomes("no prefix ") && mutation.part.contains(".meta.") => Some(WORD),
        _ if becomes("bias ") && stored.shape.len() == 1 && stored.dtype.contains("F") => Some(BIAS),
        "rename" if !place.configured && !place.twin && case.parts().any(|part| part.tensor.dtype == "I8") => {
            Some(INTEGERS)
        }
        "rename" if !place.configured && !place.twin && !has_codes(case) && mutation.part.ends_with(".scales") => {
            Some(LONE)
        }
        _ => None,
    }
}

/// Whether a number of the configuration became a larger one.
fn has_more(case: &Case, mutation: &Mutation) -> bool {
    let stored = case.config.pointer(&format!("/{}", mutation.part.replace('.', "/"))).and_then(Value::as_u64);
    stored.zip(mutation.to.parse().ok()).is_some_and(|(stored, new): (u64, u64)| new > stored)
}

/// Whether a layer of VPTQ has as many vectors with its new number of outputs.
fn fills_as_many_vectors(case: &Case, mutation: &Mutation) -> bool {
    let layers = &case.config["quantization_config"]["config_for_layers"];
    let layer = layers.as_object().into_iter().flatten().find(|(module, _)| mutation.part.contains(module.as_str()));
    let Some((_, layer)) = layer else { return false };
    let vectors = |outputs: u64| Some(outputs.div_ceil(layer["vector_lens"][1].as_u64().filter(|&size| size > 0)?));
    let new = mutation.to.parse().ok().filter(|&new| new > 0);
    new.and_then(vectors).is_some_and(|new| layer["out_features"].as_u64().and_then(vectors) == Some(new))
}

/// The last component of a name.
fn end_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// Whether a member of Gemma's configuration determines the number of bits.
fn sets_bits_of_gemma(end: &str, mutation: &Mutation) -> bool {
    end == "num_bits" || mutation.part.contains("module_quant_configs")
}

/// Whether a tensor stays in its module under its new name.
fn stays_in_module(mutation: &Mutation) -> bool {
    let module = mutation.part.rsplit_once('.').map_or("", |(module, _)| module);
    let name = mutation.to.split_once('(').map_or("", |(_, name)| name);
    name.starts_with(&format!("{module}."))
}

/// Whether the configuration defines the arrangement of scales.
fn has_arrangement(case: &Case) -> bool {
    let section = &case.config["quantization_config"];
    !section["weight_block_size"].is_null() || !section["config_groups"].is_null()
}

/// Whether a tensor of this name belongs to activations, which many unquantised models have.
fn is_of_activations(end: &str) -> bool {
    let of = ["input", "output", "activation", "q", "k", "v"];
    let suffixes = ["_scale", "_global_scale", "_zero_point"];
    suffixes.iter().any(|suffix| end.strip_suffix(suffix).is_some_and(|start| of.contains(&start)))
}

/// Whether the changed tensor belongs to activations, in a module without a weight.
fn is_of_a_cache(case: &Case, mutation: &Mutation) -> bool {
    let Some((module, end)) = mutation.part.rsplit_once('.') else { return false };
    is_of_activations(end) && !case.truth.weights.contains_key(&format!("{module}.weight"))
}

/// Whether elements of this type are eight-bit codes.
fn is_code(dtype: &str) -> bool {
    dtype.starts_with("F8_E4") || dtype.starts_with("F8_E5") || dtype == "I8"
}

/// Whether a weight is one of several parameters of its module.
fn is_among_others(case: &Case, name: &str) -> bool {
    (case.truth.weights.contains_key(name) && !name.ends_with("weight")) || name.ends_with("_blocks")
}

/// Whether a tensor is a weight of eight-bit codes with one scale.
fn has_one_scale(case: &Case, name: &str) -> bool {
    let is_coded = case.subject.find(name).is_some_and(|stored| is_code(&stored.tensor.dtype));
    let scale = case.subject.find(&format!("{name}_scale"));
    is_coded && scale.is_some_and(|scale| scale.tensor.shape.iter().all(|&dim| dim == 1))
}

/// Whether a tensor is a vector of more than one element.
fn is_vector(case: &Case, name: &str) -> bool {
    case.subject.find(name).is_some_and(|stored| matches!(stored.tensor.shape[..], [length] if length > 1))
}

fn has_codes(case: &Case) -> bool {
    case.parts().any(|stored| is_code(&stored.tensor.dtype))
}
