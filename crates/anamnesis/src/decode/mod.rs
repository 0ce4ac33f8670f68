//! Decoding single tensors of a checkpoint, or all of them one after the other.

#[cfg(feature = "ndarray")]
mod array;
mod element;

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytemuck::Zeroable;

use crate::catalog::{Dtype, StoredTensor, TargetDtype, dtype::elements};
use crate::checkpoint::Checkpoint;
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::try_zeroed;
use crate::limits::Budget;
use crate::pipeline::{Origin, RememberOptions, Values, decode_in_steps, decode_named, decode_range};
use crate::scheme::{PlainDecoder, Prepared, Weight};

#[cfg(feature = "ndarray")]
pub use array::StoredElement;
pub use element::DecodedElement;

impl Checkpoint {
    /// The values of one tensor, by its name after decoding: a quantised weight, or plain floats of any type.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits};
    /// let checkpoint = Checkpoint::open("model-fp8.safetensors", &ParseLimits::default())?;
    /// let values: Vec<f32> = checkpoint.decode("model.layers.0.self_attn.q_proj.weight")?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Request` if the tensor does not exist, `Unsupported` if its elements are not floats, `LimitExceeded` if it
    /// exceeds the limits that the checkpoint was opened with; otherwise as for [`plan`](Self::plan): a checkpoint that
    /// cannot be decoded as a whole is not decoded in part.
    pub fn decode<T: DecodedElement>(&self, name: &str) -> Result<Vec<T>> {
        let (_, values) = self.values(name, T::DTYPE)?;
        self.decode_values(name, &values, 0..values.elements)
    }

    /// Decodes one tensor into `out`, whose length must be exactly that of the values as `dtype`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `Request` if `out` has another length.
    pub fn decode_into(&self, name: &str, out: &mut [u8], dtype: TargetDtype) -> Result<()> {
        self.decode_into_with(name, out, dtype, &RememberOptions::new())
    }

    /// [`decode_into`](Self::decode_into) with run options.
    ///
    /// # Errors
    /// As [`decode_into`](Self::decode_into), and `Cancelled`.
    pub fn decode_into_with(
        &self,
        name: &str,
        out: &mut [u8],
        dtype: TargetDtype,
        options: &RememberOptions,
    ) -> Result<()> {
        let (_, values) = self.values(name, dtype)?;
        decode_named(name, &values, &self.sources, options, 0..values.elements, out)
    }

    /// Decodes one tensor sequentially without holding all of it: `take` gets the values tile by tile, as bytes of
    /// `dtype`, with the index of the first.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and any error of `take`, which stops decoding.
    pub fn decode_tiles(
        &self,
        name: &str,
        dtype: TargetDtype,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (_, values) = self.values(name, dtype)?;
        let options = RememberOptions::new();
        decode_in_steps(&values, &self.sources, &options, &mut |range, bytes| {
            take(range.start, bytes).map(ControlFlow::Continue)
        })
    }

    /// An iterator over all tensors of floats in order of name, each decoded to `dtype` when reached. Other tensors are
    /// skipped; [`tensor_data`](Self::tensor_data) has their bytes.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits, TargetDtype};
    /// let checkpoint = Checkpoint::open("model-fp8.safetensors", &ParseLimits::default())?;
    /// for tensor in checkpoint.decoded(TargetDtype::BF16) {
    ///     let tensor = tensor?;
    ///     println!("{} {:?}", tensor.name, tensor.shape);
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    pub fn decoded(&self, dtype: TargetDtype) -> impl Iterator<Item = Result<DecodedTensor>> + '_ {
        let plain = self.plain().filter(|tensor| PlainDecoder::of(tensor.dtype).is_some());
        let weights = self.claimed().weights.iter();
        let mut tensors: Vec<Decodable<'_>> =
            weights.map(Decodable::Weight).chain(plain.map(Decodable::Plain)).collect();
        tensors.sort_unstable_by_key(|tensor| tensor.name());
        tensors.into_iter().map(move |tensor| self.decode_tensor(tensor, dtype))
    }

    /// The values of some rows of one tensor: the slice `rows` of its first dimension. Only the tiles with these rows
    /// are read and decoded, for every scheme.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits};
    /// let checkpoint = Checkpoint::open("model-q4_k_m.gguf", &ParseLimits::default())?;
    /// let values: Vec<f32> = checkpoint.decode_rows("token_embd.weight", 1000..1002)?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `Request` if the rows are out of range.
    pub fn decode_rows<T: DecodedElement>(&self, name: &str, rows: Range<usize>) -> Result<Vec<T>> {
        let (shape, values) = self.values(name, T::DTYPE)?;
        self.decode_values(name, &values, range_of_rows(name, &shape, &rows)?)
    }

    /// [`decode_rows`](Self::decode_rows) into `out`, whose length must be exactly that of the rows as `dtype`.
    ///
    /// # Errors
    /// As [`decode_rows`](Self::decode_rows), and `Request` if `out` has another length.
    pub fn decode_rows_into(
        &self,
        name: &str,
        rows: Range<usize>,
        out: &mut [u8],
        dtype: TargetDtype,
        options: &RememberOptions,
    ) -> Result<()> {
        let (shape, values) = self.values(name, dtype)?;
        let range = range_of_rows(name, &shape, &rows)?;
        decode_named(name, &values, &self.sources, options, range, out)
    }

    /// Decodes some values of one tensor, by their indices in row-major order, into `out`, whose length must be exactly
    /// theirs as `dtype`. Only the tiles with these values are read and decoded.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `Request` if the values are out of range or `out` has another length.
    pub fn decode_range_into(
        &self,
        name: &str,
        range: Range<u64>,
        out: &mut [u8],
        dtype: TargetDtype,
        options: &RememberOptions,
    ) -> Result<()> {
        let (_, values) = self.values(name, dtype)?;
        decode_named(name, &values, &self.sources, options, range, out)
    }

    fn decode_values<T: DecodedElement>(&self, name: &str, values: &Values, range: Range<u64>) -> Result<Vec<T>> {
        let mut decoded = self.room(name, range.end.saturating_sub(range.start))?;
        let options = RememberOptions::new();
        T::fill(&mut decoded, &mut |out| decode_range(values, &self.sources, &options, range.clone(), out))
            .map_err(|error| error.in_tensor(name))?;
        Ok(decoded)
    }

    fn decode_tensor(&self, tensor: Decodable<'_>, dtype: TargetDtype) -> Result<DecodedTensor> {
        let name = tensor.name();
        self.refuse_problems()?;
        let (shape, values) = self.values_of(tensor, dtype)?;
        let mut data = self.room(name, values.elements.saturating_mul(dtype.byte_size() as u64))?;
        let options = RememberOptions::new();
        decode_named(name, &values, &self.sources, &options, 0..values.elements, &mut data)?;
        Ok(DecodedTensor { name: name.to_owned(), dtype, shape, data })
    }

    /// Memory for `count` values, within the limits that the checkpoint was opened with.
    fn room<T: Zeroable>(&self, name: &str, count: u64) -> Result<Vec<T>> {
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        Budget::new(&self.limits).buffer(bytes, "the output").map_err(|error| error.in_tensor(name))?;
        usize::try_from(count).ok().and_then(try_zeroed).ok_or_else(|| {
            AnamnesisError::limit("available_memory", format!("tensor {} takes {bytes} bytes", quoted(name)))
        })
    }

    /// A checkpoint that cannot be decoded as a whole is not decoded in part.
    fn refuse_problems(&self) -> Result<()> {
        self.claimed().problems.first().map_or(Ok(()), |problem| Err(problem.duplicate()))
    }

    /// The shape of a tensor and the source of its values.
    fn values(&self, name: &str, dtype: TargetDtype) -> Result<(Vec<usize>, Values)> {
        self.refuse_problems()?;
        let plain = || self.plain_tensor(name).map(Decodable::Plain);
        let found = self.claimed().weight(name).map(Decodable::Weight).or_else(plain);
        let unknown = || AnamnesisError::Request(Request::UnknownTensor { name: name.to_owned() });
        self.values_of(found.ok_or_else(unknown)?, dtype)
    }

    fn values_of(&self, tensor: Decodable<'_>, dtype: TargetDtype) -> Result<(Vec<usize>, Values)> {
        let tensor = match tensor {
            Decodable::Weight(weight) => return self.weight_values(weight, dtype),
            Decodable::Plain(tensor) => tensor,
        };
        let decoder = PlainDecoder::of(tensor.dtype).ok_or_else(|| {
            let why = format!("tensor {} is not made of floats", quoted(&tensor.name));
            AnamnesisError::unsupported(tensor.dtype.to_string(), why)
        })?;
        let values = Values {
            decoder: Arc::new(decoder),
            parts: vec![tensor.extent],
            sources: Vec::new(),
            dtype,
            elements: tensor.elements(),
            origin: Origin::Plain,
        };
        Ok((tensor.shape.clone(), values))
    }

    pub(crate) fn weight_values(&self, weight: &Weight, dtype: TargetDtype) -> Result<(Vec<usize>, Values)> {
        let Prepared { shape, decoder, .. } = self.prepare(weight)?;
        let elements = elements(&shape).filter(|&elements| dtype.dtype().byte_len(elements).is_some());
        let too_large = || {
            let text = format!("tensor {} of shape {shape:?} is too large as {dtype}", quoted(&weight.name));
            AnamnesisError::parse(text)
        };
        let values = Values {
            decoder,
            parts: weight.parts.iter().map(|&id| self.catalog.get(id).extent).collect(),
            sources: weight.parts.clone(),
            dtype,
            elements: elements.ok_or_else(too_large)?,
            origin: Origin::Quantised,
        };
        Ok((shape, values))
    }
}

/// A tensor whose values can be asked for.
#[derive(Clone, Copy)]
enum Decodable<'a> {
    /// A quantised weight.
    Weight(&'a Weight),
    /// Plain floats.
    Plain(&'a StoredTensor),
}

impl<'a> Decodable<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::Weight(weight) => &weight.name,
            Self::Plain(tensor) => &tensor.name,
        }
    }
}

/// The range of values in these rows.
fn range_of_rows(name: &str, shape: &[usize], rows: &Range<usize>) -> Result<Range<u64>> {
    let (&count, inner) = shape.split_first().unwrap_or((&1, &[]));
    if rows.start > rows.end || rows.end > count {
        let what = format!("rows {}..{} of {}", rows.start, rows.end, quoted(name));
        return Err(Request::Contradiction { what, why: format!("it has {count}") }.into());
    }
    // A tensor without rows may have rows of any length.
    let row = inner.iter().fold(1u64, |product, &length| product.saturating_mul(length as u64));
    Ok((rows.start as u64).saturating_mul(row)..(rows.end as u64).saturating_mul(row))
}

/// A decoded tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedTensor {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub dtype: TargetDtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, little endian, row-major.
    pub data: Vec<u8>,
}

impl DecodedTensor {
    /// Its type as a [`Dtype`].
    #[must_use]
    pub const fn stored_dtype(&self) -> Dtype {
        self.dtype.dtype()
    }

    /// Its values as `T`, borrowed if the bytes are aligned for it, which those of the usual allocators are; `None` if
    /// tensors are decoded to another type for `T`.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits, TargetDtype};
    /// let checkpoint = Checkpoint::open("model-fp8.safetensors", &ParseLimits::default())?;
    /// for tensor in checkpoint.decoded(TargetDtype::F32) {
    ///     let tensor = tensor?;
    ///     println!("{} {:?}", tensor.name, tensor.values::<f32>().map(|values| values.iter().sum::<f32>()));
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    #[must_use]
    pub fn values<T: DecodedElement>(&self) -> Option<Cow<'_, [T]>> {
        if T::DTYPE != self.dtype {
            return None;
        }
        let each = self.dtype.byte_size();
        if cfg!(target_endian = "little")
            && size_of::<T>() == each
            && let Ok(values) = bytemuck::try_cast_slice(&self.data)
        {
            return Some(Cow::Borrowed(values));
        }
        let mut values = vec![T::zeroed(); self.data.len() / each];
        T::fill(&mut values, &mut |out| {
            out.copy_from_slice(&self.data[..out.len()]);
            Ok(())
        })
        .ok()?;
        Some(Cow::Owned(values))
    }
}
