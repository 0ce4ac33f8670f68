//! Weights of a plan that share their global scale.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Content, Draft, DraftValues};
use crate::catalog::{BlockType, Catalog};
use crate::error::Result;
use crate::io::Source;
use crate::pipeline::{Origin, Planned, SharedScale, Work};
use crate::scheme::{Decision, ScaleOp};

/// Sets of weights that share a global scale: for each name of a set, the indices of its weights in the plan.
#[derive(Default)]
pub(super) struct SharedScaleSets(BTreeMap<String, Vec<usize>>);

impl SharedScaleSets {
    /// Adds the weight that is planned next to a set.
    pub(super) fn add(&mut self, set: String, planned: &[Planned]) {
        self.0.entry(set).or_default().push(planned.len());
    }

    /// Gives every weight of a set the values of the others, from which the shared scale is computed.
    pub(super) fn link(self, planned: &mut [Planned]) {
        for places in self.0.into_values().filter(|places| places.len() > 1) {
            let members = places.iter().filter_map(|&place| match &planned.get(place)?.work {
                Work::Encode { name, values, .. } => Some((name.clone(), values.clone())),
                Work::Copy { .. } | Work::Decode(_) => None,
            });
            let all = SharedScale::new(members);
            for place in places {
                if let Some(Planned { work: Work::Encode { shared, .. }, .. }) = planned.get_mut(place) {
                    *shared = Some(all.clone());
                }
            }
        }
    }
}

/// The sets whose stored weights have different global scales, or none. They cannot keep their codes, since a loader
/// would use the largest scale for all of them.
pub(super) fn sets_with_unequal_scales(
    drafts: &[Draft],
    decisions: &[(Decision, bool)],
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
) -> Result<BTreeSet<String>> {
    let stored = drafts.iter().filter_map(|draft| match &draft.content {
        Content::Values(stored) => Some(stored),
        _ => None,
    });
    let (mut scales, mut unequal) = (BTreeMap::new(), BTreeSet::new());
    for (stored, (decision, _)) in stored.zip(decisions) {
        let Decision::EncodeShared(_, set) = decision else { continue };
        let scale = global_scale(stored, catalog, sources)?;
        if scale.is_none() || *scales.entry(set).or_insert(scale) != scale {
            unequal.insert(set.clone());
        }
    }
    Ok(unequal)
}

/// The block type of a stored weight, its global scale (1 if it has none), and how the scale is applied.
type GlobalScale = (BlockType, [u8; 4], ScaleOp);

fn global_scale(stored: &DraftValues, catalog: &Catalog, sources: &[Box<dyn Source>]) -> Result<Option<GlobalScale>> {
    let blocks = (stored.origin == Origin::Quantised).then(|| stored.decoder.codes().blocks()).flatten();
    let Some(blocks) = blocks else { return Ok(None) };
    let mut scale = 1f32.to_le_bytes();
    let Some((part, takes)) = blocks.global else { return Ok(Some((blocks.block, scale, ScaleOp::Multiply))) };
    let extent = stored.sources.get(part).map(|&id| catalog.get(id).extent).filter(|extent| extent.bytes == 4);
    let found = extent.and_then(|extent| Some((extent, sources.get(extent.file as usize)?)));
    let Some((extent, source)) = found else { return Ok(None) };
    source.read_at(extent.offset, &mut scale)?;
    Ok(Some((blocks.block, scale, takes)))
}
