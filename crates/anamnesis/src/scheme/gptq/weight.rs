//! The geometry of a GPTQ weight, from the shapes of its parts and its description.

use std::sync::Arc;

use anamnesis_kernels::Level;

use super::description::{GptqDescription, ZeroPointFormat};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::GptqFormat;
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Coding, Prepare, Prepared, Recipe, ScaleType};
use crate::scheme::packed::{
    BLOCK, ColumnDecoder, Dialect, Grouping, InputGroups, PackedMatrix, Parts, Words, ZeroPoints, check_group_index,
    has_two_packings, is_planar, unpack_planes,
};

pub(super) fn gptq_weight(
    claims: &Claims<'_>,
    parts: &Parts,
    description: &GptqDescription,
    has_indices: bool,
) -> Result<Weight> {
    let catalog = claims.catalog;
    let (zero_id, scale_id) = parts.needed(claims)?;
    let [qweight, qzeros, scales] = [parts.qweight, zero_id, scale_id].map(|id| catalog.get(id));
    let g_idx = parts.g_idx.map(|id| catalog.get(id));
    let name = quoted(&qweight.name);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {name}: {what}"));

    let [(word_rows, outputs), (zero_groups, zero_words), (groups, scale_cols)] =
        [matrix(qweight)?, matrix(qzeros)?, matrix(scales)?];
    if scale_cols != outputs || zero_groups != groups || groups == 0 || outputs == 0 {
        let shapes = format!("{:?}, {:?} and {:?}", qweight.shape, qzeros.shape, scales.shape);
        return Err(fail(format!("qweight, qzeros and scales of shapes {shapes} do not go together")));
    }
    let bits = (zero_words * 32) / outputs;
    if bits * outputs != zero_words * 32 || !matches!(bits, 2..=8) {
        return Err(fail(format!(
            "{outputs} outputs in {zero_words} words of zero points do not have 2 to 8 bits each"
        )));
    }
    if let Some(configured) = description.bits.as_ref().filter(|configured| configured.value != bits as i64) {
        return Err(fail(format!("its shapes mean {bits} bits, {} says {}", configured.source, configured.value)));
    }
    let inputs = word_rows * 32 / bits;
    if inputs * bits != word_rows * 32 || inputs == 0 {
        return Err(fail(format!("{word_rows} words do not hold whole codes of {bits} bits")));
    }
    let planar = is_planar(bits, description.planar);
    if planar && !(inputs.is_multiple_of(BLOCK as u64) && outputs.is_multiple_of(BLOCK as u64)) {
        return Err(fail(format!("{inputs} inputs and {outputs} outputs are not whole blocks of {BLOCK}")));
    }
    // Only the newest format has bit planes, and it stores zero points as they are.
    let zero_format = if planar { ZeroPointFormat::Known(ZeroPoints::Stored) } else { description.zeros };
    if let Some(index) = g_idx.filter(|index| index.elements() != inputs || index.dtype != Dtype::I32) {
        let text =
            format!("{} is {} {:?}; {inputs} inputs need as many I32", quoted(&index.name), index.dtype, index.shape);
        return Err(fail(text));
    }
    let is_indexed = g_idx.is_some();
    let group_size = description.group_size.as_ref();
    let file = group_size.map_or("the shapes", |size| &size.source);
    let grouped = InputGroups { inputs, groups, configured: group_size.map(|size| size.value), file, is_indexed };
    let run = grouped.run(run_of_shapes(inputs, groups, is_indexed)).map_err(fail)?;
    if let Some(source) = description.reordered.as_ref().filter(|_| !is_indexed && groups > 1) {
        let missing = quoted(&format!("{}g_idx", qweight.name.trim_end_matches("qweight")));
        return Err(fail(format!("{source} says desc_act is true, so its groups need {missing}, which is missing")));
    }
    if has_indices && !is_indexed && groups > 1 {
        let missing = quoted(&format!("{}g_idx", qweight.name.trim_end_matches("qweight")));
        return Err(fail(format!("it has no {missing}, and other weights of this checkpoint have theirs")));
    }
    let scale = ScaleType::of_float(scales.dtype).ok_or_else(|| {
        AnamnesisError::unsupported(
            "GPTQ",
            format!("{} is {}; F16, BF16 and F32 are read", quoted(&scales.name), scales.dtype),
        )
    })?;

    let matrix = PackedMatrix {
        words: Words::Gptq(bits as u8),
        inputs,
        outputs,
        groups,
        grouping: Grouping::Runs(run),
        zeros: match zero_format {
            ZeroPointFormat::Known(zeros) => zeros,
            ZeroPointFormat::Default | ZeroPointFormat::Unknown => ZeroPoints::PlusOne,
        },
        scale,
    };
    let shape = vec![outputs as usize, inputs as usize];
    let mut ids = vec![parts.qweight, zero_id, scale_id];
    let text = format!("GPTQ {bits}-bit, {}", describe_run(run, inputs));
    let decoder = ColumnDecoder { matrix, is_planar: planar, dialect: Dialect::Default, description: text };
    ids.extend(parts.g_idx);
    // A format given by the caller takes precedence over the evidence of the zero points.
    let is_symmetric = description.symmetric == Some(true) && !planar && claims.config.gptq_format().is_none();
    let recipe = match (parts.g_idx, zero_format) {
        (None, ZeroPointFormat::Known(_)) if !is_symmetric && !has_two_packings(bits) => {
            Recipe::Ready(Arc::new(decoder))
        }
        (g_idx, zeros) => {
            let (name, shape) = (qweight.name.clone(), shape.clone());
            let (is_indexed, is_run_known) = (g_idx.is_some(), group_size.is_some());
            Recipe::Deferred(Arc::new(Unprepared {
                name,
                shape,
                decoder,
                is_indexed,
                is_run_known,
                zeros,
                is_symmetric,
            }))
        }
    };
    Ok(Weight {
        name: parts.output_name(claims),
        shape,
        values: inputs.saturating_mul(outputs),
        scheme: QuantScheme::Gptq,
        blocks: Some(Blocks { bits: bits as u8, size: run, nested: false }),
        coding: Coding {
            format: match zero_format {
                _ if planar || description.planar => "gptq_p",
                ZeroPointFormat::Known(ZeroPoints::Stored) => "gptq_v2",
                ZeroPointFormat::Known(ZeroPoints::PlusOne | ZeroPoints::PlusOneUnbounded) => "gptq",
                // Known after the zero points are read.
                ZeroPointFormat::Default | ZeroPointFormat::Unknown => "gptq or gptq_v2",
            }
            .to_owned(),
            bits: Some(bits as u8),
            group_size: Some(run),
            block_shape: None,
            symmetric: description.symmetric,
            evidence: description.evidence.clone(),
        },
        parts: ids,
        recipe,
    })
}

fn describe_run(run: u64, inputs: u64) -> String {
    if run >= inputs { "one group".to_owned() } else { format!("groups of {run}") }
}

/// The group size, if the shapes determine it: only a power of two is certain, because the last group may be short.
/// With an index any size will do.
fn run_of_shapes(inputs: u64, groups: u64, is_indexed: bool) -> Option<u64> {
    let whole = inputs.is_multiple_of(groups) && (inputs / groups).is_power_of_two();
    (groups == 1 || whole || is_indexed).then(|| inputs.div_ceil(groups))
}

fn matrix(tensor: &StoredTensor) -> Result<(u64, u64)> {
    match tensor.shape[..] {
        [rows, cols] => Ok((rows as u64, cols as u64)),
        _ => Err(AnamnesisError::parse(format!(
            "tensor {} has shape {:?}; a matrix is needed",
            quoted(&tensor.name),
            tensor.shape
        ))),
    }
}

/// A weight whose small parts are read while planning: the group index, which must be in range and is dropped if groups
/// are consecutive; and zero points that determine the format.
struct Unprepared {
    name: String,
    shape: Vec<usize>,
    decoder: ColumnDecoder,
    is_indexed: bool,
    /// Whether the configuration has a group size.
    is_run_known: bool,
    zeros: ZeroPointFormat,
    /// Whether the configuration says that codes are symmetric, so that the zero points must match the format.
    is_symmetric: bool,
}

const ZERO_POINTS: usize = 1;
const GROUP_INDEX: usize = 3;

impl Prepare for Unprepared {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let mut decoder = self.decoder.clone();
        let matrix = &mut decoder.matrix;
        if let (true, Grouping::Runs(run)) = (self.is_indexed, matrix.grouping) {
            let is_runs = check_group_index(&read(GROUP_INDEX)?, matrix.groups, run, self.is_run_known)?;
            if !is_runs {
                matrix.grouping = Grouping::Indexed;
                decoder.description.push_str(", activation order");
            }
        }
        // Symmetric weights have the middle of the codes' range as every zero point, which reveals the format.
        let middle = (1u32 << (matrix.words.bits() - 1)) as f32;
        if has_two_packings(matrix.words.bits()) {
            let packed = read(ZERO_POINTS)?;
            let [stored, other] =
                [decoder.is_planar, !decoder.is_planar].map(|is_planar| common_zero_point(&packed, matrix, is_planar));
            if stored.is_none() && other.is_some_and(|zero| zero == middle || zero == middle - 1.0) {
                let ways = ["one after the other", "in planes"];
                let [configured, shown] = if decoder.is_planar { [ways[1], ways[0]] } else { ways };
                return Err(AnamnesisError::parse(format!(
                    "its zero points are those of symmetric codes if they are packed {shown}, and its \
                     format packs them {configured}"
                )));
            }
        }
        if let (ZeroPointFormat::Known(known), true) = (self.zeros, self.is_symmetric) {
            let (stored, format) = match known {
                ZeroPoints::Stored => (middle - 1.0, GptqFormat::V2),
                ZeroPoints::PlusOne | ZeroPoints::PlusOneUnbounded => (middle, GptqFormat::V1),
            };
            if common_zero_point(&read(ZERO_POINTS)?, matrix, decoder.is_planar) == Some(stored) {
                return Err(AnamnesisError::parse(format!(
                    "all zero points are {stored}, which are not those of symmetric codes in GPTQ {format}"
                )));
            }
        }
        if !matches!(self.zeros, ZeroPointFormat::Known(_)) {
            match (common_zero_point(&read(ZERO_POINTS)?, matrix, decoder.is_planar), self.zeros) {
                (Some(zero), _) if zero == middle => matrix.zeros = ZeroPoints::Stored,
                (Some(zero), _) if zero == middle - 1.0 => {}
                (_, ZeroPointFormat::Unknown) => {
                    let (tensor, choices) = (self.name.clone(), GptqFormat::ALL.map(GptqFormat::name).to_vec());
                    return Err(AnamnesisError::Undecided { tensor, what: "the GPTQ format", choices });
                }
                _ => {}
            }
        }
        Ok(Prepared { shape: self.shape.clone(), decoder: Arc::new(decoder), coding: None })
    }

    fn describe(&self) -> String {
        self.decoder.description.clone()
    }
}

/// The stored zero point of all outputs and groups, if they have the same.
fn common_zero_point(packed: &[u8], matrix: &PackedMatrix, is_planar: bool) -> Option<f32> {
    let row_bytes = packed.len() / (matrix.groups as usize).max(1);
    let mut zeros = vec![0.0; matrix.outputs as usize];
    let mut found = None;
    for row in packed.chunks_exact(row_bytes.max(1)) {
        // The CPU level is chosen after planning; the portable one is fast enough for zero points.
        match is_planar {
            true => (unpack_planes(matrix.words.bits() as u8, row, &mut zeros) == zeros.len()).then_some(())?,
            false => ZeroPoints::Stored.unpack(Level::portable(), matrix.words, row, &mut [], &mut zeros).ok()?,
        }
        let first = *found.get_or_insert(*zeros.first()?);
        if zeros.iter().any(|zero| *zero != first) {
            return None;
        }
    }
    found
}
