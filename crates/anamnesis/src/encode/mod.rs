//! Quantising tensors in memory, by the name of an encoding.

mod encoding;

use std::borrow::Cow;

use crate::catalog::Dtype;
use crate::checkpoint::{Checkpoint, MemoryTensor, MemoryTensors};
use crate::container::OpenOptions;
use crate::convert::{ConvertOptions, ConvertPlan, QuantizationError};
use crate::decode::DecodedElement;
use crate::error::{Request, Result};
use encoding::Encoding;

/// The name of the tensor that [`encode`] quantises: parts of some encodings are named after the layer.
const NAME: &str = "layer.weight";

/// Quantises values of a shape with an encoding: the name of a target (`nf4`, `fp8`, `gptq`, …), or a block type of
/// GGUF (`q4_k`, `IQ2_S`). The tensor is named `layer.weight`, its parts as the encoding names them; the bytes are those that converting a file writes.
///
/// ```
/// let values: Vec<f32> = (0..512).map(|index| index as f32 / 100.0).collect();
/// let encoded = anamnesis::encode("q4_k", &values, &[2, 256])?;
/// let (name, dtype, shape) = encoded.parts().next().unwrap();
/// assert_eq!((name, dtype.to_string().as_str(), shape), ("layer.weight", "Q4_K", &[2, 256][..]));
/// assert_eq!(encoded.data("layer.weight")?.unwrap().len(), 2 * 144);
/// let decoded: Vec<f32> = encoded.decode("layer.weight")?;
/// # assert!(decoded.iter().zip(&values).all(|(a, b)| (a - b).abs() < 0.2));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Request` if no encoding has the name, or the shape cannot be quantised so; otherwise as for
/// [`Checkpoint::plan_convert`].
pub fn encode(encoding: &str, values: &[f32], shape: &[usize]) -> Result<Encoded> {
    let data: Vec<u8> = match cfg!(target_endian = "little") {
        true => bytemuck::cast_slice(values).to_vec(),
        false => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    let tensor = MemoryTensor { name: NAME.to_owned(), dtype: Dtype::F32, shape: shape.to_vec(), data };
    encode_tensors(encoding, MemoryTensors::new(vec![tensor], &[].into())?, ConvertOptions::new())
}

/// Quantises all of these tensors of floats. Names are kept; options such as the group size, importance and the number
/// of threads are those of converting.
///
/// # Errors
/// As [`encode`]; `Request` too if a tensor cannot be quantised, `Cancelled` if the run is cancelled.
pub fn encode_tensors<B: AsRef<[u8]> + Send + Sync + 'static>(
    encoding: &str,
    tensors: MemoryTensors<B>,
    options: ConvertOptions,
) -> Result<Encoded> {
    let chosen = Encoding::named(encoding)?;
    let options = chosen.configured(options).with_keep_names(true).with_quantized("*")?;
    let plain = OpenOptions::new().with_plain(true);
    let plan = Checkpoint::from_positioned(tensors, &plain)?.plan_convert(chosen.target, &options)?;
    refuse_kept(encoding, &plan)?;
    chosen.refuse_other_types(&plan)?;
    let (bytes, report) = plan.to_bytes(|_| {})?;
    let configuration = plan.configuration();
    let mut opening = OpenOptions::new();
    opening.config = configuration.clone().map(Into::into);
    let checkpoint = Checkpoint::from_bytes_with(bytes, &opening)?;
    Ok(Encoded { checkpoint, configuration, errors: report.errors })
}

/// Quantised tensors in memory.
pub struct Encoded {
    checkpoint: Checkpoint,
    configuration: Option<String>,
    errors: Vec<QuantizationError>,
}

impl Encoded {
    /// Name, type and shape of every stored tensor: blocks, or codes and their scales.
    pub fn parts(&self) -> impl Iterator<Item = (&str, Dtype, &[usize])> {
        self.checkpoint.tensors().into_iter().map(|tensor| (tensor.name, tensor.dtype, tensor.shape))
    }

    /// The bytes of a stored tensor; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Checkpoint::tensor_data`].
    pub fn data(&self, part: &str) -> Result<Option<Cow<'_, [u8]>>> {
        self.checkpoint.tensor_data(part)
    }

    /// The quantisation configuration that describes the encoding (a `config.json`), if it needs one to be decoded.
    #[must_use]
    pub fn configuration(&self) -> Option<&str> {
        self.configuration.as_deref()
    }

    /// The error that quantising made, of every tensor, if the options ask to measure it.
    #[must_use]
    pub fn errors(&self) -> &[QuantizationError] {
        &self.errors
    }

    /// The values that a tensor decodes to.
    ///
    /// # Errors
    /// As [`Checkpoint::decode`].
    pub fn decode<T: DecodedElement>(&self, name: &str) -> Result<Vec<T>> {
        self.checkpoint.decode(name)
    }

    /// All of it as a checkpoint.
    #[must_use]
    pub fn into_checkpoint(self) -> Checkpoint {
        self.checkpoint
    }
}

/// Refuses a plan that leaves tensors unquantised.
fn refuse_kept(encoding: &str, plan: &ConvertPlan) -> Result<()> {
    let reason = match plan.kept().first() {
        Some((name, keeping)) => Some((name.clone(), keeping.reason().to_owned())),
        None if plan.stats().quantized == 0 => Some((NAME.to_owned(), "it holds no floats".to_owned())),
        None => None,
    };
    reason.map_or(Ok(()), |(name, why)| {
        Err(Request::Contradiction { what: format!("quantising {name:?} to {encoding}"), why }.into())
    })
}
