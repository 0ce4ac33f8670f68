//! Quantised tensors that are recognised but not decoded: they are refused by name instead of being copied as the
//! integers they are packed in.

use crate::catalog::{Catalog, Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::part_name::{Confidence, Ending, PartName, Tail};
use super::role::TensorRole;
use super::scheme::{About, Scheme};

/// Recognises packed weights of schemes that nobody decodes.
pub(in crate::scheme) struct Foreign;

/// A packed weight, told by the end of its name, its type, and the tensors beside it.
struct Mark {
    format: &'static str,
    suffix: &'static str,
    ending: Ending,
    dtypes: &'static [Dtype],
    /// Whether name and type are enough to tell; otherwise one of the companions must be there.
    telling: bool,
    /// Ends of companions' names, put in place of `suffix`.
    companions: &'static [&'static str],
}

const BYTES: &[Dtype] = &[Dtype::U8, Dtype::I8];
const BYTES_AND_WORDS: &[Dtype] = &[Dtype::U8, Dtype::I8, Dtype::I32, Dtype::U32];
const INDICES: &[Dtype] = &[Dtype::I16, Dtype::U16, Dtype::I32, Dtype::I64];
const WORDS: &[Dtype] = &[Dtype::I32, Dtype::U32];
const CODES: &[Dtype] = &[Dtype::U8, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::F8E4M3, Dtype::F8E5M2];
const VALUES: &[Dtype] = &[Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::I8];

/// The first mark that fits names the format.
static MARKS: &[Mark] = &[
    likely("EETQ", ".weight", &[Dtype::I8], &[".weight_scales"]),
    likely("BnB", ".weight", BYTES, &[".weight.absmax", ".weight.quant_map", ".weight.nested_absmax", ".SCB"]),
    likely(
        "integer weights with scales",
        ".weight",
        BYTES_AND_WORDS,
        &[".weight_scale", ".weight_scale_inv", ".scale", ".scales", ".lookup_table"],
    ),
    sure("EXL3", ".trellis", &[Dtype::I16], &[".suh", ".svh", ".su", ".sv"]),
    sure("EXL2", ".q_weight", WORDS, &[".q_scale", ".q_scale_max", ".q_groups"]),
    likely("QuIP#", ".Qidxs", INDICES, &[".SU", ".SV"]),
    sure("Marlin 2:4", ".B_24", WORDS, &[".B_meta", ".s"]),
    likely("sparse-bitmask", ".compressed", VALUES, &[".row_offsets"]),
    likely("sparse-24-bitmask", ".compressed", VALUES, &[".bitmask"]),
    likely("AQLM", ".codes", CODES, &[".codebooks", ".scales"]),
    sure(
        "Four Over Six",
        ".quantized_weight_values",
        BYTES,
        &[".quantized_weight_scale_factors", ".quantized_weight_amax", ".quantized_weight_metadata"],
    ),
    sure("Gemma quantisation", ".embedding_quantized", BYTES, &[".embedding_scale"]),
    likely(
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

/// How the name of a weight ends that may be packed or not.
const WEIGHT: &str = ".weight";

/// Weights of schemes that are decoded: only those that lack a companion are left for a mark.
const INCOMPLETE: &[&str] = &["BnB"];

const fn sure(
    format: &'static str,
    suffix: &'static str,
    dtypes: &'static [Dtype],
    companions: &'static [&'static str],
) -> Mark {
    Mark { format, suffix, ending: Ending::of(suffix), dtypes, telling: true, companions }
}

const fn likely(
    format: &'static str,
    suffix: &'static str,
    dtypes: &'static [Dtype],
    companions: &'static [&'static str],
) -> Mark {
    Mark { format, suffix, ending: Ending::of(suffix), dtypes, telling: false, companions }
}

/// What the end of a companion's name says by itself: all, where it speaks of a weight; less, where it is a word that models use
/// too.
fn companion_says(end: &str) -> Confidence {
    match end {
        // Models have tables of centroids too.
        _ if end.contains("centroids") || end == ".outlier_indices" => Confidence::Weak,
        _ if end.contains("weight") => Confidence::Certain,
        _ if is_short(end) => Confidence::Weak,
        ".scale" | "_scale" | "_scales" | ".q_scale" => Confidence::IfPacked,
        _ => Confidence::IfConfigured,
    }
}

/// Whether an end is a word that any tensor may be called by.
fn is_short(end: &str) -> bool {
    end.len() <= 3 || end == ".codes" || end == ".indices"
}

/// The marks that may fit a tensor, by how its name ends.
fn marks(tensor: &StoredTensor) -> impl Iterator<Item = &'static Mark> {
    let tail = Tail::of(tensor.name.as_bytes());
    MARKS.iter().filter(move |mark| mark.ending.may_end(tail))
}

impl Mark {
    /// What precedes the suffix in the name of a tensor that this mark fits.
    fn base<'t>(&self, tensor: &'t StoredTensor) -> Option<&'t str> {
        if self.dtypes.contains(&tensor.dtype) { tensor.name.strip_suffix(self.suffix) } else { None }
    }

    /// The companions that stand beside a tensor this mark fits; `None` where it does not fit.
    fn fit(&self, catalog: &Catalog, tensor: &StoredTensor) -> Option<Vec<TensorId>> {
        let base = self.base(tensor)?;
        let companion = |end: &&str| catalog.find(&format!("{base}{end}"));
        let companions: Vec<_> = self.companions.iter().filter_map(companion).collect();
        (self.telling || !companions.is_empty()).then_some(companions)
    }
}

/// The reason to believe that a tensor is packed although none of its companions is here: they are in another file.
fn lost_companions(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
    marks(tensor).filter_map(|mark| Some((mark, mark.base(tensor)?))).find_map(|(mark, base)| {
        let companions = mark.companions.iter().map(|end| format!("{base}{end}"));
        let (place, name) = companions.into_iter().find_map(|name| Some((claims.elsewhere(&name)?, name)))?;
        Some(format!("its companion {} is not here: {place}", quoted(&name)))
    })
}

/// The reason to believe that bytes are codes although what stands beside them is not known: it is named after them.
fn named_after(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
    if !BYTES.contains(&tensor.dtype) || !tensor.name.ends_with(WEIGHT) {
        return None;
    }
    let mut longer = claims.catalog.with_prefix(&tensor.name).filter(|(_, other)| other.name != tensor.name);
    let (_, other) = longer.next()?;
    Some(format!("{} is named after it, and not understood", quoted(&other.name)))
}

impl Scheme for Foreign {
    fn about(&self) -> About {
        let formats = MARKS.iter().map(|mark| mark.format);
        let mut refused: Vec<_> = formats.filter(|format| !INCOMPLETE.contains(format)).collect();
        // Marks of one format stand together.
        refused.dedup();
        About::Refused(refused)
    }

    fn part_names(&self) -> Vec<PartName> {
        let codes = MARKS.iter().filter(|mark| mark.suffix != WEIGHT).map(|mark| {
            let says = if mark.telling { Confidence::IfConfigured } else { Confidence::IfPacked };
            PartName::new(mark.suffix, mark.suffix, if is_short(mark.suffix) { Confidence::Weak } else { says })
        });
        let companions = MARKS
            .iter()
            .flat_map(|mark| mark.companions.iter().map(|end| PartName::new(end, mark.suffix, companion_says(end))));
        codes.chain(companions).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let catalog = claims.catalog;
        let found: Vec<_> = claims
            .free()
            .filter_map(|(id, tensor)| match tensor.dtype {
                Dtype::F4 | Dtype::F6E2M3 | Dtype::F6E3M2 => Some((id, tensor.dtype.name(), Vec::new())),
                _ => {
                    // Marks that share a suffix know different companions; all of them belong to this weight.
                    let mut fits = marks(tensor).filter_map(|mark| Some((mark.format, mark.fit(catalog, tensor)?)));
                    let (format, mut companions) = fits.next()?;
                    companions.extend(fits.flat_map(|(_, more)| more));
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
        let lost: Vec<_> = claims
            .free()
            .filter_map(|(id, tensor)| {
                let why = lost_companions(claims, tensor).or_else(|| named_after(claims, tensor))?;
                Some((id, tensor, why))
            })
            .collect();
        for (id, tensor, why) in lost {
            claims.take(id, TensorRole::Quantized);
            let what = format!("tensor {} ({}) may be a packed weight: {why}", quoted(&tensor.name), tensor.dtype);
            claims.refuse(AnamnesisError::parse(what));
        }
    }
}
