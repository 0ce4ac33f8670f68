//! Packed layouts that are recognised by tensor names and types but not decoded. Their tensors are refused by the name
//! of the format; copying them as integers would pass packed codes off as values.

use crate::catalog::{Catalog, Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::part_name::{Confidence, Ending, PartName, Tail};
use super::role::TensorRole;
use super::scheme::{About, Scheme};

/// Refuses packed weights whose layout is recognised but not decoded.
pub(in crate::scheme) struct RefusedLayouts;

/// How the packed weights of a format are recognised: by the suffix of the name, the type, and companion tensors.
struct PackedLayout {
    format: &'static str,
    suffix: &'static str,
    ending: Ending,
    dtypes: &'static [Dtype],
    /// Whether suffix and type identify the format by themselves; otherwise one of the companions must be present.
    is_unique: bool,
    /// Suffixes of the companions' names, in place of `suffix`.
    companions: &'static [&'static str],
}

const BYTES: &[Dtype] = &[Dtype::U8, Dtype::I8];
const BYTES_AND_WORDS: &[Dtype] = &[Dtype::U8, Dtype::I8, Dtype::I32, Dtype::U32];
const INDICES: &[Dtype] = &[Dtype::I16, Dtype::U16, Dtype::I32, Dtype::I64];
const WORDS: &[Dtype] = &[Dtype::I32, Dtype::U32];
const CODES: &[Dtype] = &[Dtype::U8, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::F8E4M3, Dtype::F8E5M2];
const FLOATS: &[Dtype] = &[Dtype::F32, Dtype::BF16, Dtype::F16];
const VALUES: &[Dtype] = &[Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::I8];

/// All layouts. If several match a tensor, the first one names the format.
static LAYOUTS: &[PackedLayout] = &[
    with_companion("EETQ", ".weight", &[Dtype::I8], &[".weight_scales"]),
    with_companion("EETQ", ".qweight", &[Dtype::I8], &[".weight_scales"]),
    with_companion("BnB", ".weight", BYTES, &[".weight.absmax", ".weight.quant_map", ".weight.nested_absmax", ".SCB"]),
    with_companion(
        "integer weights with scales",
        ".weight",
        BYTES_AND_WORDS,
        &[".weight_scale", ".weight_scale_inv", ".scale", ".scales", ".lookup_table"],
    ),
    with_companion("Nunchaku", ".qweight", &[Dtype::I8], &[".wscales", ".wtscale", ".wcscales", ".smooth_factor_orig"]),
    with_companion(
        "FP-Quant",
        ".qweight",
        BYTES,
        &[".forward_hadamard_matrix", ".backward_hadamard_matrix", ".act_global_scale"],
    ),
    with_companion("FP-Quant", ".dqweight", FLOATS, &[".forward_hadamard_matrix", ".backward_hadamard_matrix"]),
    with_companion("HIGGS", ".weight", &[Dtype::I16, Dtype::I32], &[".tables", ".tables2"]),
    with_companion("SpQR", ".dense_weights", &[Dtype::I64, Dtype::U64], &[".row_offsets", ".col_vals", ".in_perm"]),
    with_companion("QuIP#", ".Qidxs", INDICES, &[".SU", ".SV"]),
    unique("Marlin 2:4", ".B_24", WORDS, &[".B_meta", ".s"]),
    with_companion("sparse-bitmask", ".compressed", VALUES, &[".row_offsets"]),
    with_companion("sparse-24-bitmask", ".compressed", VALUES, &[".bitmask"]),
    with_companion("AQLM", ".codes", CODES, &[".codebooks", ".scales"]),
    unique("Gemma quantisation", ".embedding_quantized", BYTES, &[".embedding_scale"]),
    with_companion(
        "VPTQ",
        ".indices",
        INDICES,
        &[
            ".centroids.weight",
            ".res_centroids.weight",
            ".outlier_centroids.weight",
            ".outlier_indices",
            ".weight_bias",
        ],
    ),
];

/// The suffix of weights that may be packed or plain.
const WEIGHT: &str = ".weight";

/// Formats that another scheme decodes: the weights left for this table lack a companion.
const INCOMPLETE: &[&str] =
    &["BnB", "EETQ", "AQLM", "Gemma quantisation", "VPTQ", "sparse-bitmask", "sparse-24-bitmask"];

const fn unique(
    format: &'static str,
    suffix: &'static str,
    dtypes: &'static [Dtype],
    companions: &'static [&'static str],
) -> PackedLayout {
    PackedLayout { format, suffix, ending: Ending::of(suffix), dtypes, is_unique: true, companions }
}

const fn with_companion(
    format: &'static str,
    suffix: &'static str,
    dtypes: &'static [Dtype],
    companions: &'static [&'static str],
) -> PackedLayout {
    PackedLayout { format, suffix, ending: Ending::of(suffix), dtypes, is_unique: false, companions }
}

/// How surely a suffix alone identifies a companion: certainly if it contains `weight`, less so if unquantised models
/// use the word too.
fn companion_confidence(suffix: &str) -> Confidence {
    match suffix {
        // Unquantised models have tables of centroids too.
        _ if suffix.contains("centroids") || suffix == ".outlier_indices" => Confidence::Weak,
        _ if suffix.contains("weight") => Confidence::Certain,
        _ if is_common_word(suffix) => Confidence::Weak,
        ".scale" | "_scale" | "_scales" | ".q_scale" => Confidence::IfPacked,
        _ => Confidence::IfConfigured,
    }
}

/// Whether a suffix is a word that tensors of any model may have.
fn is_common_word(suffix: &str) -> bool {
    suffix.len() <= 3 || [".codes", ".indices", ".tables", ".tables2", ".in_perm", ".row_offsets"].contains(&suffix)
}

/// The layouts that may match a tensor, by the last bytes of its name.
fn candidate_layouts(tensor: &StoredTensor) -> impl Iterator<Item = &'static PackedLayout> {
    let tail = Tail::of(tensor.name.as_bytes());
    LAYOUTS.iter().filter(move |layout| layout.ending.may_match(tail))
}

impl PackedLayout {
    /// The name of a tensor of this layout without the suffix.
    fn base<'t>(&self, tensor: &'t StoredTensor) -> Option<&'t str> {
        if self.dtypes.contains(&tensor.dtype) { tensor.name.strip_suffix(self.suffix) } else { None }
    }

    /// The companions that are present for a tensor of this layout; `None` if the tensor is not of this layout.
    fn find_companions(&self, catalog: &Catalog, tensor: &StoredTensor) -> Option<Vec<TensorId>> {
        let base = self.base(tensor)?;
        let companion = |suffix: &&str| catalog.find(&format!("{base}{suffix}"));
        let companions: Vec<_> = self.companions.iter().filter_map(companion).collect();
        (self.is_unique || !companions.is_empty()).then_some(companions)
    }
}

/// The clause that a tensor is packed because one of its companions is in another file.
fn companion_elsewhere(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
    candidate_layouts(tensor).filter_map(|layout| Some((layout, layout.base(tensor)?))).find_map(|(layout, base)| {
        let companions = layout.companions.iter().map(|suffix| format!("{base}{suffix}"));
        let (place, name) = companions.into_iter().find_map(|name| Some((claims.elsewhere(&name)?, name)))?;
        Some(format!("its companion {} is not here: {place}", quoted(&name)))
    })
}

/// The clause that bytes are codes because another tensor, of unknown meaning, has their name as its prefix.
fn unknown_companion(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
    if !BYTES.contains(&tensor.dtype) || !tensor.name.ends_with(WEIGHT) {
        return None;
    }
    let mut longer = claims.catalog.with_prefix(&tensor.name).filter(|(_, other)| other.name != tensor.name);
    let (_, other) = longer.next()?;
    Some(format!("{} is named after it, and not understood", quoted(&other.name)))
}

impl Scheme for RefusedLayouts {
    fn about(&self) -> About {
        let formats = LAYOUTS.iter().map(|layout| layout.format);
        let mut refused: Vec<_> = formats.filter(|format| !INCOMPLETE.contains(format)).collect();
        // Layouts of one format are adjacent in the table.
        refused.dedup();
        About::Refused(refused)
    }

    fn part_names(&self) -> Vec<PartName> {
        let codes = LAYOUTS.iter().filter(|layout| layout.suffix != WEIGHT).map(|layout| {
            let confidence = match layout.is_unique {
                _ if is_common_word(layout.suffix) => Confidence::Weak,
                true => Confidence::IfConfigured,
                false => Confidence::IfPacked,
            };
            PartName::new(layout.suffix, layout.suffix, confidence)
        });
        let companions = LAYOUTS.iter().flat_map(|layout| {
            let part = |suffix: &&'static str| PartName::new(suffix, layout.suffix, companion_confidence(suffix));
            layout.companions.iter().map(part)
        });
        codes.chain(companions).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let catalog = claims.catalog;
        let found: Vec<_> = claims
            .unclaimed()
            .filter_map(|(id, tensor)| match tensor.dtype {
                Dtype::F4 | Dtype::F6E2M3 | Dtype::F6E3M2 => Some((id, tensor.dtype.name(), Vec::new())),
                _ => {
                    // Layouts with the same suffix list different companions; all of them belong to this weight.
                    let mut matching = candidate_layouts(tensor)
                        .filter_map(|layout| Some((layout.format, layout.find_companions(catalog, tensor)?)));
                    let (format, mut companions) = matching.next()?;
                    companions.extend(matching.flat_map(|(_, more)| more));
                    companions.sort_unstable();
                    companions.dedup();
                    Some((id, format, companions))
                }
            })
            .collect();
        for (id, format, companions) in found {
            let tensor = catalog.get(id);
            claims.take_refused(id, format);
            for companion in companions.into_iter().filter(|&companion| companion != id) {
                claims.take(companion, TensorRole::Scale);
            }
            let name = quoted(&tensor.name);
            let module = tensor.name.rsplit_once('.').map_or("", |(module, _)| module);
            let evidence =
                claims.config.module(module).evidence().map_or_else(String::new, |line| format!(" ({line})"));
            let dtype = tensor.dtype;
            let detail = format!("tensor {name} ({dtype}) is packed in this format, which is not decoded{evidence}");
            claims.refuse(AnamnesisError::unsupported(format, detail));
        }
        let incomplete: Vec<_> = claims
            .unclaimed()
            .filter_map(|(id, tensor)| {
                let why = companion_elsewhere(claims, tensor).or_else(|| unknown_companion(claims, tensor))?;
                Some((id, tensor, why))
            })
            .collect();
        for (id, tensor, why) in incomplete {
            claims.take(id, TensorRole::Quantized);
            let what = format!("tensor {} ({}) may be a packed weight: {why}", quoted(&tensor.name), tensor.dtype);
            claims.refuse(AnamnesisError::parse(what));
        }
    }
}
