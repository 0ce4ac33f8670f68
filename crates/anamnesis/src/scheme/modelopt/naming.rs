//! What ModelOpt calls the parts of a weight.

use crate::scheme::claim::{Confidence, PartName};

/// How the names of companions end, of weights and of parameters.
pub(super) const PART_NAMES: [PartName; 4] = [
    PartName::new(".weight_scale_2", ".weight", Confidence::Certain),
    PartName::new("_weight_scale", "", Confidence::IfConfigured),
    PartName::new("_weight_scale_2", "", Confidence::IfConfigured),
    PartName::new("_input_scale", "", Confidence::IfQuantised),
];

/// The names of a weight's companions.
pub(super) struct Names {
    /// The module whose configuration is meant.
    pub module: String,
    pub scale: String,
    pub scale_of_scales: String,
    pub input_scale: String,
    /// Tensors beside it without which its codes mean something else, and the formats that have them.
    pub further: [(String, &'static str); 4],
}

impl Names {
    /// Of `X.weight`, or of a parameter `X.P`.
    pub(super) fn of(weight: &str) -> Self {
        let module = weight.rsplit_once('.').map_or("", |(module, _)| module);
        // A parameter's companions go on from its own name, a weight's stand beside it.
        let stem = weight.strip_suffix("weight").filter(|stem| stem.is_empty() || stem.ends_with('.'));
        let stem = stem.map_or_else(|| format!("{weight}_"), str::to_owned);
        let name = |end: &str| format!("{stem}{end}");
        Self {
            module: module.to_owned(),
            scale: name("weight_scale"),
            scale_of_scales: name("weight_scale_2"),
            input_scale: name("input_scale"),
            further: [
                (name("pre_quant_scale"), "ModelOpt with scaled inputs"),
                (name("svdquant_lora_a"), "NVFP4 with a low-rank part"),
                (name("svdquant_lora_b"), "NVFP4 with a low-rank part"),
                (name("comfy_quant"), "NVFP4 in the order of a kernel"),
            ],
        }
    }
}
