//! What the ecosystems call the companions of an FP8 weight.

/// The names under which the scale of a weight may be stored, the usual ones first.
pub(super) fn scale_names(weight: &str) -> Vec<String> {
    let mut names = vec![format!("{weight}_scale_inv"), format!("{weight}_scale")];
    if let Some(module) = weight.strip_suffix("weight") {
        // Diffusion models, Mistral's own releases, DeepSeek's own releases.
        names.extend(["scale_weight", "qscale_weight", "scale"].map(|end| format!("{module}{end}")));
    }
    names
}

/// The weight that a tensor of this name would scale, if the name can only mean a scale of a weight.
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

/// Last components of the names of activation scales.
const ACTIVATION_SCALES: [&str; 13] = [
    "input_scale",
    "input_scale_inv",
    "output_scale",
    "activation_scale",
    "activation_scale_inv",
    "weight_activation_scale",
    "k_scale",
    "v_scale",
    "q_scale",
    "kv_scale",
    "prob_scale",
    "scale_input",
    "qscale_act",
];

/// The module whose activations a tensor of this name scales.
pub(super) fn module_of_activation_scale(name: &str) -> Option<&str> {
    let (module, last) = name.rsplit_once('.')?;
    ACTIVATION_SCALES.contains(&last).then_some(module)
}

/// Whether a tensor of this name marks a file as scaled without being data itself.
pub(super) fn is_marker(name: &str) -> bool {
    name == "scaled_fp8" || name.ends_with(".scaled_fp8")
}
