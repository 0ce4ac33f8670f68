//! The names that different libraries give to the companions of an FP8 weight.

use crate::scheme::claim::{Confidence, PartName};

/// The suffixes of scales.
pub(super) const PART_NAMES: [PartName; 5] = [
    PartName::new("_scale_inv", "", Confidence::Certain),
    PartName::new(".weight_scale", ".weight", Confidence::Certain),
    PartName::new(".scale_weight", ".weight", Confidence::Certain),
    PartName::new(".qscale_weight", ".weight", Confidence::Certain),
    PartName::new(".scale", ".weight", Confidence::IfPacked),
];

/// The names under which the scale of a weight may be stored, the most common first.
pub(super) fn scale_names(weight: &str) -> Vec<String> {
    let mut names = vec![format!("{weight}_scale_inv"), format!("{weight}_scale")];
    if let Some(module) = weight.strip_suffix("weight") {
        // Diffusion models, Mistral's own releases, DeepSeek's own releases.
        names.extend(["scale_weight", "qscale_weight", "scale"].map(|end| format!("{module}{end}")));
    }
    names
}

/// The name of the weight that a tensor scales, if its name can only be that of a weight's scale.
pub(super) fn weight_of_scale(name: &str) -> Option<String> {
    if let Some(weight) = name.strip_suffix("_scale_inv") {
        return Some(weight.to_owned());
    }
    if let Some(module) = name.strip_suffix("weight_scale") {
        return Some(format!("{module}weight"));
    }
    let module = name.strip_suffix("qscale_weight").or_else(|| name.strip_suffix("scale_weight"))?;
    Some(format!("{module}weight"))
}

/// Whether the name can only be that of a weight's scale, whatever its type and wherever the weight is stored.
pub(super) fn is_only_a_scale(name: &str) -> bool {
    PART_NAMES.iter().any(|part| part.confidence == Confidence::Certain && name.ends_with(part.suffix))
}

/// The module that a tensor belongs to, by its name.
pub(super) fn module_of(tensor: &str) -> &str {
    tensor.rsplit_once('.').map_or("", |(module, _)| module)
}

/// Names of companions that change the meaning of a weight's codes, each with the name of the format that has it.
pub(super) fn further_companions(weight: &str) -> [(String, &'static str); 9] {
    let module = module_of(weight);
    // Sparse weights are stored as `X.weight.compressed` and `X.weight.bitmask`.
    let stem = weight.strip_suffix(".compressed").unwrap_or(weight);
    [
        (format!("{weight}_scale_2"), "FP8 with a second scale"),
        (format!("{weight}_global_scale"), "FP8 with a global scale"),
        (format!("{weight}_zero_point"), "FP8 with zero points"),
        (format!("{weight}_g_idx"), "FP8 with a group index"),
        (format!("{module}.pre_quant_scale"), "FP8 with scaled inputs"),
        (format!("{stem}.bitmask"), "sparse FP8"),
        (format!("{stem}_bitmask"), "sparse FP8"),
        (format!("{module}.bitmask"), "sparse FP8"),
        (format!("{module}.svdquant_lora_a"), "FP8 with a low-rank part"),
    ]
}

/// The suffixes of activation scales.
pub(super) const ACTIVATION_SCALES: [&str; 14] = [
    ".input_scale",
    ".input_scale_ub",
    ".input_scale_inv",
    ".output_scale",
    ".activation_scale",
    ".activation_scale_inv",
    ".weight_activation_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".kv_scale",
    ".prob_scale",
    ".scale_input",
    ".qscale_act",
];

/// Whether an activation scale belongs to the KV cache or to the queries and probabilities used with it.
pub(super) fn is_of_a_cache(name: &str) -> bool {
    [".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_scale"].iter().any(|end| name.ends_with(end))
}

/// Whether the name can only be that of an input scale.
pub(super) fn is_of_inputs(name: &str) -> bool {
    let ends =
        [".input_scale", ".input_scale_ub", ".input_scale_inv", ".activation_scale", ".scale_input", ".qscale_act"];
    ends.iter().any(|end| name.ends_with(end))
}

/// The module whose activations a tensor of this name scales.
pub(super) fn module_of_activation_scale(name: &str) -> Option<&str> {
    ACTIVATION_SCALES.iter().find_map(|end| name.strip_suffix(end))
}

/// Whether this is the name of codes in a format that stores a weight only under derived names.
pub(super) fn is_codes_of_another_scheme(name: &str) -> bool {
    ["_qdata", "._data", ".W_q"].iter().any(|end| name.ends_with(end))
}

/// Whether this is the name of ComfyUI's marker tensor, which only indicates that the file has scales.
pub(super) fn is_marker(name: &str) -> bool {
    name == "scaled_fp8" || name.ends_with(".scaled_fp8")
}
