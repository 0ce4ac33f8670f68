//! The stored tensors of a Marlin weight, by the names of either tool.

use crate::catalog::TensorId;
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

/// The tool that wrote a weight, which determines the names of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    AutoGptq,
    AutoAwq,
}

/// AutoGPTQ's names, single letters that unquantised models use too. AutoAWQ's names are listed by AWQ.
pub(super) const PART_NAMES: [PartName; 2] =
    [PartName::new(".B", ".B", Confidence::IfPacked), PartName::new(".s", ".B", Confidence::Weak)];

impl Form {
    pub(super) const fn codes(self) -> &'static str {
        match self {
            Self::AutoGptq => ".B",
            Self::AutoAwq => ".qweight",
        }
    }

    pub(super) const fn scales(self) -> &'static str {
        match self {
            Self::AutoGptq => ".s",
            Self::AutoAwq => ".scales",
        }
    }
}

/// The codes of a weight, and the companions that are present.
pub(super) struct Parts {
    pub form: Form,
    /// The name of its module.
    pub module: String,
    pub codes: TensorId,
    pub scales: Option<TensorId>,
    /// A companion that Marlin weights do not have.
    pub unexpected: Option<TensorId>,
}

impl Parts {
    /// Claims the codes of a weight and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId, form: Form) -> Self {
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(form.codes()).unwrap_or(name).to_owned();
        claims.take(codes, TensorRole::Quantized);
        let mut companion = |suffix: &str, role| claims.take_companion(&format!("{module}{suffix}"), role);
        let scales = companion(form.scales(), TensorRole::Scale);
        let zeros = companion(".qzeros", TensorRole::ZeroPoint);
        let unexpected = companion(".g_idx", TensorRole::GroupIndex).or(zeros);
        Self { form, module, codes, scales, unexpected }
    }
}
