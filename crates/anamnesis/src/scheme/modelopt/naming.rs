//! ModelOpt's names of the parts of a weight.

use crate::scheme::claim::{Confidence, PartName};

/// The suffixes of the companions of weights and of parameters.
pub(super) const PART_NAMES: [PartName; 4] = [
    PartName::new(".weight_scale_2", ".weight", Confidence::Certain),
    PartName::new("_weight_scale", "", Confidence::IfConfigured),
    PartName::new("_weight_scale_2", "", Confidence::IfConfigured),
    PartName::new("_input_scale", "", Confidence::IfQuantised),
];

/// The names of a weight's companions.
pub(super) struct Names {
    /// The module whose configuration applies.
    pub module: String,
    pub scale: String,
    pub global_scale: String,
    pub input_scale: String,
    /// Companions that change the meaning of the codes, each with the name of its format.
    pub refused: [(String, &'static str); 4],
}

impl Names {
    /// The names for `X.weight`, or for a parameter `X.P`.
    pub(super) fn of(weight: &str) -> Self {
        let module = weight.rsplit_once('.').map_or("", |(module, _)| module);
        // The names of a parameter's companions extend its own name; those of a weight replace `weight`.
        let stem = weight.strip_suffix("weight").filter(|stem| stem.is_empty() || stem.ends_with('.'));
        let stem = stem.map_or_else(|| format!("{weight}_"), str::to_owned);
        let name = |part: &str| format!("{stem}{part}");
        Self {
            module: module.to_owned(),
            scale: name("weight_scale"),
            global_scale: name("weight_scale_2"),
            input_scale: name("input_scale"),
            refused: [
                (name("pre_quant_scale"), "ModelOpt with scaled inputs"),
                (name("svdquant_lora_a"), "NVFP4 with a low-rank part"),
                (name("svdquant_lora_b"), "NVFP4 with a low-rank part"),
                (name("comfy_quant"), "NVFP4 in the order of a kernel"),
            ],
        }
    }
}
