//! The stored tensors of one weight, as either tool names them.

use crate::catalog::TensorId;
use crate::scheme::claim::{Claims, Confidence, PartName, TensorRole};

/// Which tool's names a weight has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    AutoGptq,
    AutoAwq,
}

/// Names of one letter, which models use too; those of AutoAWQ are known to its other layouts.
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

/// A weight and the companions that were found.
pub(super) struct Parts {
    pub form: Form,
    /// The name of its module.
    pub module: String,
    pub codes: TensorId,
    pub scales: Option<TensorId>,
    /// A companion that this layout has no use for.
    pub further: Option<TensorId>,
}

impl Parts {
    /// Claims a weight and those of its companions that are there.
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId, form: Form) -> Self {
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(form.codes()).unwrap_or(name).to_owned();
        claims.take(codes, TensorRole::Quantized);
        let mut companion = |end: &str, role| {
            let id = claims.find_unclaimed(&format!("{module}{end}"))?;
            claims.take(id, role);
            Some(id)
        };
        let scales = companion(form.scales(), TensorRole::Scale);
        let zeros = companion(".qzeros", TensorRole::ZeroPoint);
        let further = companion(".g_idx", TensorRole::GroupIndex).or(zeros);
        Self { form, module, codes, scales, further }
    }
}
