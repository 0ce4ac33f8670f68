//! Claiming the weights and embeddings of a checkpoint whose configuration names the method.

use super::weight::{METHOD, Parts, weight};
use crate::catalog::{Dtype, StoredTensor};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme, TensorRole};

/// The scheme of Gemma's quantisation.
pub(crate) struct Gemma;

/// The suffixes of codes and of their scales.
const FORMS: [[&str; 2]; 2] = [[".weight", ".weight_scale"], [".embedding_quantized", ".embedding_scale"]];

/// The suffixes of the scales of activations.
const ACTIVATION_SCALES: [&str; 4] =
    [".input_activation_scale", ".output_activation_scale", ".k_cache_scale", ".v_cache_scale"];

impl Scheme for Gemma {
    fn about(&self) -> About {
        About::Decoded("Gemma quantisation", "2, 4 and 8 bits; linear layers and embeddings")
    }

    fn part_names(&self) -> Vec<PartName> {
        let [_, [codes, scale]] = FORMS;
        let embedding = [codes, scale].map(|suffix| PartName::new(suffix, codes, Confidence::Certain));
        let activations = ACTIVATION_SCALES.map(|suffix| PartName::new(suffix, ".weight", Confidence::IfConfigured));
        embedding.into_iter().chain(activations).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        if !claims.config.method().is_some_and(|method| method.eq_ignore_ascii_case(METHOD)) {
            return;
        }
        let form = |tensor: &StoredTensor| {
            let is_bytes = matches!(tensor.dtype, Dtype::U8 | Dtype::I8);
            FORMS.into_iter().find(|[codes, _]| is_bytes && tensor.name.ends_with(codes))
        };
        let found: Vec<_> = claims.unclaimed().filter_map(|(id, tensor)| Some((id, form(tensor)?))).collect();
        for (id, form) in found {
            let parts = Parts::take(claims, id, form);
            match weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
            }
        }
        consume_activation_scales(claims);
    }
}

/// Claims the scales of activations. Those of caches belong to an attention, whose projections are modules below it.
fn consume_activation_scales(claims: &mut Claims<'_>) {
    let scales = claims.unclaimed().filter(|(_, tensor)| {
        let module = ACTIVATION_SCALES.iter().find_map(|suffix| tensor.name.strip_suffix(suffix));
        let is_single = tensor.dtype == Dtype::F32 && tensor.elements() == 1;
        is_single && module.is_some_and(|module| claims.has_quantised(&format!("{module}.")))
    });
    let scales: Vec<_> = scales.map(|(id, _)| id).collect();
    for id in scales {
        claims.take(id, TensorRole::Scale);
    }
}
