//! Tensors of a checkpoint by name, decoded into tensors of candle.

use std::ops::Range;

use anamnesis::{Checkpoint, Dtype, HuggingFaceModel, RememberOptions, TargetDtype};
use bytemuck::Pod;
use candle_core::{DType, Device, Error, Result, Shape, Tensor, WithDType};
use half::{bf16, f16};

/// The tensors of a checkpoint, under their own names or those of Hugging Face.
pub struct Tensors {
    checkpoint: Checkpoint,
    mapped: Option<HuggingFaceModel>,
}

impl Tensors {
    pub(crate) fn own_names(checkpoint: Checkpoint) -> Self {
        Self { checkpoint, mapped: None }
    }

    pub(crate) fn hugging_face(checkpoint: Checkpoint) -> anamnesis::Result<Self> {
        let mapped = Some(checkpoint.as_hugging_face()?);
        Ok(Self { checkpoint, mapped })
    }

    /// The checkpoint they belong to.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The `config.json` that a GGUF file stands for, if its tensors have the names of Hugging Face.
    #[must_use]
    pub fn config(&self) -> Option<&str> {
        self.mapped.as_ref().map(HuggingFaceModel::config)
    }

    /// The shape of a tensor after decoding; `None` if it does not exist.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        if let Some(mapped) = &self.mapped {
            return mapped.shape(name).map(<[usize]>::to_vec);
        }
        let plain = || Some(self.checkpoint.stored(name)?.shape.to_vec());
        self.checkpoint.weight(name).map_or_else(plain, |weight| weight.shape)
    }

    pub(crate) fn needed_shape(&self, name: &str) -> Result<Vec<usize>> {
        self.shape(name).ok_or_else(|| Error::CannotFindTensor { path: name.to_owned() }.bt())
    }

    pub(crate) fn check_shape(&self, name: &str, expected: &Shape) -> Result<()> {
        let found = Shape::from(self.needed_shape(name)?);
        if found == *expected {
            return Ok(());
        }
        let msg = format!("shape mismatch for {name}");
        Err(Error::UnexpectedShape { msg, expected: expected.clone(), got: found }.bt())
    }

    pub(crate) fn get(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = self.needed_shape(name)?;
        match self.plain_integers(name) {
            Some(stored) => self.stored(name, stored, &shape, device)?.to_dtype(dtype),
            None => self.decoded(name, 0..shape.iter().product(), shape, dtype, device),
        }
    }

    /// Some rows of a tensor of floats: a range of its first dimension.
    pub(crate) fn rows(&self, name: &str, rows: Range<usize>, dtype: DType, device: &Device) -> Result<Tensor> {
        let mut shape = self.needed_shape(name)?;
        let row: usize = shape.iter().skip(1).product();
        if let Some(first) = shape.first_mut() {
            *first = rows.len();
        }
        self.decoded(name, rows.start * row..rows.end * row, shape, dtype, device)
    }

    /// Decodes some values, and no others.
    fn decoded(
        &self,
        name: &str,
        values: Range<usize>,
        shape: Vec<usize>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        match dtype {
            DType::BF16 => self.values::<bf16>(name, values, TargetDtype::BF16, shape, device),
            DType::F16 => self.values::<f16>(name, values, TargetDtype::F16, shape, device),
            // Types that decoding does not give are cast from F32.
            _ => self.values::<f32>(name, values, TargetDtype::F32, shape, device)?.to_dtype(dtype),
        }
    }

    /// Decodes into the memory of the tensor.
    fn values<T: WithDType + Pod>(
        &self,
        name: &str,
        values: Range<usize>,
        dtype: TargetDtype,
        shape: Vec<usize>,
        device: &Device,
    ) -> Result<Tensor> {
        let mut decoded = vec![T::zeroed(); values.len()];
        let (range, options) = (values.start as u64..values.end as u64, RememberOptions::new());
        let out = bytemuck::cast_slice_mut(&mut decoded);
        match &self.mapped {
            Some(mapped) => mapped.decode_range_into(name, range, out, dtype, &options),
            None => self.checkpoint.decode_range_into(name, range, out, dtype, &options),
        }
        .map_err(Error::wrap)?;
        Tensor::from_vec(decoded, shape, device)
    }

    /// The type of a tensor that is stored as integers that candle has, or as F64.
    fn plain_integers(&self, name: &str) -> Option<DType> {
        if self.mapped.is_some() || self.checkpoint.weight(name).is_some() {
            return None;
        }
        match self.checkpoint.stored(name)?.dtype {
            Dtype::U8 | Dtype::Bool => Some(DType::U8),
            Dtype::U32 => Some(DType::U32),
            Dtype::I16 => Some(DType::I16),
            Dtype::I32 => Some(DType::I32),
            Dtype::I64 => Some(DType::I64),
            Dtype::F64 => Some(DType::F64),
            _ => None,
        }
    }

    fn stored(&self, name: &str, dtype: DType, shape: &[usize], device: &Device) -> Result<Tensor> {
        let bytes = self.checkpoint.tensor_data(name).map_err(Error::wrap)?;
        let bytes = bytes.ok_or_else(|| Error::CannotFindTensor { path: name.to_owned() }.bt())?;
        Tensor::from_raw_buffer(&bytes, dtype, shape, device)
    }
}
