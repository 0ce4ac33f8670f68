//! Quantised weights that keep their codes and scales in a target with the same codes: nothing is decoded.
//!
//! Four-bit floats are converted through ggml blocks, which have the codes and scales of all schemes. Integer codes are
//! the same in all schemes; their scales and offsets are compared while planning, group by group.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::output_tensor::{encoded, output};
use crate::catalog::{Catalog, Dtype, Extent, TargetDtype, TensorId};
use crate::container::OutputTensor;
use crate::error::Result;
use crate::io::Source;
use crate::pipeline::{Origin, Planned, RememberOptions, Values, Work, decode_in_steps};
use crate::scheme::{
    Agreement, BlockParts, Companion, Constant, EncodedIntegers, FourBitFloats, Integers, PlainDecoder, Reciprocals,
    RepackedCodes, RepackedCompanion, ScaleType, TileDecoder, TileEncoder,
};

/// Whether a weight keeps its codes and scales.
pub(super) enum Repacked {
    /// It does, as these outputs.
    Outputs(Vec<Planned>),
    /// It does not, because the libraries of the two schemes decode the same codes to values that differ
    /// in the last bit.
    Nearly,
    Not,
}

/// A quantised weight.
pub(super) struct Input<'a> {
    pub decoder: &'a dyn TileDecoder,
    pub parts: &'a [Extent],
    pub sources: &'a [TensorId],
    pub shape: &'a [usize],
}

/// The inputs and options of repacking.
pub(super) struct Repacking<'a> {
    pub catalog: &'a Catalog,
    pub sources: &'a [Box<dyn Source>],
    pub run: &'a RememberOptions,
    /// Whether equal codes and scales suffice, even if the libraries round the decoded values differently.
    pub same_codes: bool,
}

impl Repacking<'_> {
    /// The outputs of an encoder whose codes and scales equal those of the weight except for their order.
    pub(super) fn repacked(&self, input: &Input<'_>, encoder: &dyn TileEncoder) -> Result<Repacked> {
        if let Some(planned) = self.four_bit_floats(input, encoder)? {
            return Ok(Repacked::Outputs(planned));
        }
        match (input.decoder.codes().integers(), encoder.integers()) {
            (Some(from), Some(made)) => self.integers(input, encoder, from, made),
            _ => Ok(Repacked::Not),
        }
    }

    fn integers(
        &self,
        input: &Input<'_>,
        encoder: &dyn TileEncoder,
        from: Integers,
        made: EncodedIntegers,
    ) -> Result<Repacked> {
        let EncodedIntegers { integers: mut to, zero, any_scale, constants } = made;
        if any_scale {
            to.scale = from.scale;
        }
        let is_all = *input.shape == [to.rows as usize, to.cols as usize];
        if !is_all || !from.has_codes_of(&to) {
            return Ok(Repacked::Not);
        }
        let same =
            |companion: Companion, agreement: Agreement| RepackedCompanion { from, to, companion, zero, agreement };
        let values = |decoder: Arc<dyn TileDecoder>, elements: u64| Values {
            decoder,
            parts: input.parts.to_vec(),
            sources: input.sources.to_vec(),
            dtype: TargetDtype::F32,
            elements,
            origin: Origin::Repacked,
        };
        let agree = |agreement: Agreement| {
            let scales = same(Companion::Scales, agreement);
            self.agree(&values(Arc::new(scales), scales.bytes()))
        };
        if !agree(Agreement::Numbers)? {
            return Ok(Repacked::Not);
        }
        if !self.same_codes && !from.calculates_like(&to) && !agree(Agreement::Libraries)? {
            return Ok(Repacked::Nearly);
        }
        let mut decoders: Vec<Arc<dyn TileDecoder>> = vec![Arc::new(RepackedCodes { from, to })];
        let mut companions = vec![(to.scales_part(), Companion::Scales)];
        companions.extend(to.offsets_part().map(|part| (part, Companion::Offsets)));
        companions.sort_by_key(|(part, _)| *part);
        decoders
            .extend(companions.into_iter().map(|(_, of)| Arc::new(same(of, Agreement::Known)) as Arc<dyn TileDecoder>));
        decoders.extend(constants.into_iter().map(|constant| Arc::new(Constant(constant)) as Arc<dyn TileDecoder>));
        let mut outputs = encoded(encoder)?;
        if outputs.len() != decoders.len() {
            return Ok(Repacked::Not);
        }
        if any_scale && let Some(dtype) = dtype_of(from.scale) {
            for made in outputs.iter_mut().skip(1).filter(|made| is_float(made.dtype)) {
                *made = output(made.name.clone(), dtype, made.shape.clone())?;
            }
        }
        let plan = |(output, decoder): (OutputTensor, Arc<dyn TileDecoder>)| {
            let work = Work::Decode(values(decoder, output.bytes));
            Planned { outputs: vec![output], work }
        };
        Ok(Repacked::Outputs(outputs.into_iter().zip(decoders).map(plan).collect()))
    }

    /// Codes and scales that can also be stored as ggml blocks.
    fn four_bit_floats(&self, input: &Input<'_>, encoder: &dyn TileEncoder) -> Result<Option<Vec<Planned>>> {
        let to = encoder.decoder().and_then(|decoder| decoder.codes().blocks());
        let (Some(from), Some(to)) = (input.decoder.codes().blocks(), to) else { return Ok(None) };
        let made = encoded(encoder)?;
        let Some(kind) = FourBitFloats::of(from.block) else { return Ok(None) };
        if from.block != to.block || from.is_transposed || to.is_transposed {
            return Ok(None);
        }
        let [codes, scales] = BlockParts::both(&from.bytes, kind);
        let mut decoders: Vec<(Arc<dyn TileDecoder>, Origin)> =
            vec![(Arc::new(codes), Origin::Repacked), (Arc::new(scales), Origin::Repacked)];
        let (mut parts, mut sources) = (input.parts.to_vec(), input.sources.to_vec());
        match (from.global, to.global) {
            (None, None) => {}
            (Some(_), None) => return Ok(None),
            (None, Some((part, _))) => {
                let values = made.get(part).map_or(0, |made| made.bytes / 4) as usize;
                decoders.push((Arc::new(Constant(1f32.to_le_bytes().repeat(values))), Origin::Repacked));
            }
            (Some((part, takes)), Some((_, wanted))) => {
                let Some(&id) = input.sources.get(part) else { return Ok(None) };
                let tensor = self.catalog.get(id);
                let (Dtype::F32, 1, Some(same)) = (tensor.dtype, tensor.elements(), PlainDecoder::of(Dtype::F32))
                else {
                    return Ok(None);
                };
                let decoder: Arc<dyn TileDecoder> =
                    if takes == wanted { Arc::new(same) } else { Arc::new(Reciprocals) };
                decoders.push((decoder, Origin::Plain));
                (parts, sources) = (vec![tensor.extent], vec![id]);
            }
        }
        if made.len() != decoders.len() {
            return Ok(None);
        }
        let plan = |(output, (decoder, origin)): (OutputTensor, (Arc<dyn TileDecoder>, Origin))| {
            let is_whole = origin == Origin::Plain;
            let (parts, sources) = match is_whole {
                true => (parts.clone(), sources.clone()),
                false => (input.parts.to_vec(), input.sources.to_vec()),
            };
            let elements = if is_whole { output.bytes / 4 } else { output.bytes };
            let values = Values { decoder, parts, sources, dtype: TargetDtype::F32, elements, origin };
            Planned { outputs: vec![output], work: Work::Decode(values) }
        };
        Ok(Some(made.into_iter().zip(decoders).map(plan).collect()))
    }

    /// Whether all groups decode to the same values: compares tile by tile, up to the first difference.
    fn agree(&self, values: &Values) -> Result<bool> {
        let mut agree = true;
        decode_in_steps(values, self.sources, self.run, &mut |_, flags| {
            agree = flags.iter().all(|flag| *flag == 1);
            Ok(if agree { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(agree)
    }
}

const fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16)
}

const fn dtype_of(scale: ScaleType) -> Option<Dtype> {
    match scale {
        ScaleType::F32 => Some(Dtype::F32),
        ScaleType::Bf16 => Some(Dtype::BF16),
        ScaleType::F16 => Some(Dtype::F16),
        _ => None,
    }
}
