//! Weights of a plan that share their global scale.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Content, Draft, Stored};
use crate::catalog::{BlockType, Catalog};
use crate::error::Result;
use crate::io::Source;
use crate::pipeline::{Origin, Planned, SharedScale, Work};
use crate::scheme::{Decision, ScaleOp};

/// The sets of weights that share a global scale: their names, and the places of their weights in the plan.
#[derive(Default)]
pub(super) struct Joined(BTreeMap<String, Vec<usize>>);

impl Joined {
    /// Puts the weight that comes next into a set.
    pub(super) fn add(&mut self, set: String, planned: &[Planned]) {
        self.0.entry(set).or_default().push(planned.len());
    }

    /// Lets the weights of every set know the others.
    pub(super) fn join(self, planned: &mut [Planned]) {
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

/// The sets whose stored weights have different global scales, or none: they cannot keep their codes, as a loader would keep
/// the largest scale for all of them.
pub(super) fn sets_apart(
    drafts: &[Draft],
    decisions: &[(Decision, bool)],
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
) -> Result<BTreeSet<String>> {
    let stored = drafts.iter().filter_map(|draft| match &draft.content {
        Content::Values(stored) => Some(stored),
        _ => None,
    });
    let (mut scales, mut apart) = (BTreeMap::new(), BTreeSet::new());
    for (stored, (decision, _)) in stored.zip(decisions) {
        let Decision::EncodeShared(_, set) = decision else { continue };
        let scale = global_scale(stored, catalog, sources)?;
        if scale.is_none() || *scales.entry(set).or_insert(scale) != scale {
            apart.insert(set.clone());
        }
    }
    Ok(apart)
}

/// The blocks of a stored weight, its global scale, which is 1 where it has none, and how that is taken.
type GlobalScale = (BlockType, [u8; 4], ScaleOp);

fn global_scale(stored: &Stored, catalog: &Catalog, sources: &[Box<dyn Source>]) -> Result<Option<GlobalScale>> {
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
