//! Tensors that are decoded when their bytes are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use anamnesis::{AnamnesisError, Checkpoint, Dtype, HuggingFaceModel, RememberOptions, TargetDtype};
use burn_core::tensor::{BoolStore, Bytes, DType};
use burn_pack::{Error, Tensor};

/// The tensors of a checkpoint, under their own names or those of Hugging Face.
pub(crate) struct Tensors {
    checkpoint: Checkpoint,
    mapped: Option<HuggingFaceModel>,
}

impl Tensors {
    pub(crate) fn new(checkpoint: Checkpoint, mapped: bool) -> Result<Self, AnamnesisError> {
        let mapped = if mapped { Some(checkpoint.as_hugging_face()?) } else { None };
        Ok(Self { checkpoint, mapped })
    }

    pub(crate) fn config(&self) -> Option<&str> {
        self.mapped.as_ref().map(HuggingFaceModel::config)
    }

    /// The name, the shape and, for integers, the stored type of every tensor.
    fn list(&self) -> Vec<(String, Vec<usize>, Option<DType>)> {
        if let Some(mapped) = &self.mapped {
            let shape = |name: &str| mapped.shape(name).unwrap_or_default().to_vec();
            return mapped.names().map(|name| (name.to_owned(), shape(name), None)).collect();
        }
        let describe = |name: &str| match self.checkpoint.weight(name) {
            Some(weight) => Some((name.to_owned(), weight.shape?, None)),
            None => {
                let stored = self.checkpoint.stored(name)?;
                Some((name.to_owned(), stored.shape.to_vec(), stored_type(stored.dtype)))
            }
        };
        self.checkpoint.names().into_iter().filter_map(describe).collect()
    }

    fn decoded(&self, name: &str, values: usize, dtype: TargetDtype) -> Result<Bytes, AnamnesisError> {
        let mut out = zeros(values, dtype);
        self.decode_from(name, 0, &mut out, dtype)?;
        Ok(out)
    }

    /// Decodes values from the one at `first` on, as many as fit.
    pub(crate) fn decode_from(
        &self,
        name: &str,
        first: usize,
        out: &mut [u8],
        dtype: TargetDtype,
    ) -> Result<(), AnamnesisError> {
        let values = first as u64..(first + out.len() / dtype.byte_size()) as u64;
        let options = RememberOptions::new();
        match &self.mapped {
            Some(mapped) => mapped.decode_range_into(name, values, out, dtype, &options),
            None => self.checkpoint.decode_range_into(name, values, out, dtype, &options),
        }
    }

    fn stored(&self, name: &str) -> Result<Bytes, AnamnesisError> {
        Ok(Bytes::from_bytes_vec(self.checkpoint.tensor_data(name)?.unwrap_or_default().into_owned()))
    }
}

/// Every tensor by name, to be decoded to `dtype`; integers, booleans and F64 are kept.
pub(crate) fn tensors(tensors: &Arc<Tensors>, dtype: TargetDtype) -> BTreeMap<String, Tensor> {
    let lazy = |(name, shape, stored): (String, Vec<usize>, Option<DType>)| {
        let element = stored.unwrap_or(decoded_type(dtype));
        let values = shape.iter().product::<usize>();
        let (source, key) = (Arc::clone(tensors), name.clone());
        let provide = move || {
            let found = match stored {
                Some(_) => source.stored(&key),
                None => source.decoded(&key, values, dtype),
            };
            found.map_err(|error| Error::ValidationError(error.to_string()))
        };
        (name.clone(), Tensor::deferred(name, element, shape, None, values * element.size(), provide))
    };
    tensors.list().into_iter().map(lazy).collect()
}

/// Memory for decoded values, aligned to them: burn copies bytes that are not.
pub(crate) fn zeros(values: usize, dtype: TargetDtype) -> Bytes {
    match dtype {
        TargetDtype::BF16 | TargetDtype::F16 => Bytes::from_elems(vec![0_u16; values]),
        _ => Bytes::from_elems(vec![0_u32; values]),
    }
}

/// The type of burn for decoded values.
pub(crate) const fn decoded_type(dtype: TargetDtype) -> DType {
    match dtype {
        TargetDtype::BF16 => DType::BF16,
        TargetDtype::F16 => DType::F16,
        _ => DType::F32,
    }
}

/// The type of burn for elements that are not decoded; `None` for floats that are.
const fn stored_type(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::I8 => Some(DType::I8),
        Dtype::I16 => Some(DType::I16),
        Dtype::I32 => Some(DType::I32),
        Dtype::I64 => Some(DType::I64),
        Dtype::U8 => Some(DType::U8),
        Dtype::U16 => Some(DType::U16),
        Dtype::U32 => Some(DType::U32),
        Dtype::U64 => Some(DType::U64),
        Dtype::Bool => Some(DType::Bool(BoolStore::Native)),
        Dtype::F64 => Some(DType::F64),
        _ => None,
    }
}
