//! Tensors as arrays of `ndarray`.

use std::borrow::Cow;
use std::ops::Range;

use ndarray::{Array, ArrayD, ArrayViewD, CowArray, Dimension, IxDyn};

use super::DecodedElement;
use crate::catalog::Dtype;
use crate::checkpoint::Checkpoint;
use crate::error::{AnamnesisError, Request, Result, quoted};

/// A Rust type of stored elements.
pub trait StoredElement: bytemuck::Pod {
    /// The stored type.
    const DTYPE: Dtype;
}

macro_rules! stored {
    ($($(#[$attribute:meta])* $element:ty: $dtype:ident,)*) => {
        $($(#[$attribute])* impl StoredElement for $element {
            const DTYPE: Dtype = Dtype::$dtype;
        })*
    };
}
stored! {
    f32: F32,
    f64: F64,
    u8: U8,
    i8: I8,
    u16: U16,
    i16: I16,
    u32: U32,
    i32: I32,
    u64: U64,
    i64: I64,
    #[cfg(feature = "half")]
    half::bf16: BF16,
    #[cfg(feature = "half")]
    half::f16: F16,
}

impl Checkpoint {
    /// [`decode`](Self::decode) as an array, with a fixed number of dimensions (`Ix2`) or any (`IxDyn`).
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits};
    /// use ndarray::Ix2;
    /// let checkpoint = Checkpoint::open("model-gptq", &ParseLimits::default())?;
    /// let weight = checkpoint.decode_array::<f32, Ix2>("model.layers.0.mlp.up_proj.weight")?;
    /// println!("{:?} {}", weight.dim(), weight.sum());
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `Request` if the tensor has another number of dimensions.
    pub fn decode_array<T: DecodedElement, D: Dimension>(&self, name: &str) -> Result<Array<T, D>> {
        let (shape, values) = self.values(name, T::DTYPE)?;
        array(name, &shape, self.decode_values(name, &values, 0..values.elements)?)
    }

    /// [`decode_rows`](Self::decode_rows) as an array.
    ///
    /// # Errors
    /// As [`decode_rows`](Self::decode_rows), and `Request` if the tensor has another number of dimensions.
    pub fn decode_rows_array<T: DecodedElement, D: Dimension>(
        &self,
        name: &str,
        rows: Range<usize>,
    ) -> Result<Array<T, D>> {
        let (mut shape, values) = self.values(name, T::DTYPE)?;
        let range = super::range_of_rows(name, &shape, &rows)?;
        if let Some(first) = shape.first_mut() {
            *first = rows.len();
        }
        array(name, &shape, self.decode_values(name, &values, range)?)
    }

    /// A tensor as it is stored: a view of the mapped file or of the bytes, or a copy where the elements are not aligned
    /// there.
    ///
    /// # Errors
    /// `Request` if the tensor does not exist or has another number of dimensions, `Unsupported` if its elements are of
    /// another type, `Io` if it cannot be read.
    pub fn stored_array<T: StoredElement, D: Dimension>(&self, name: &str) -> Result<CowArray<'_, T, D>> {
        let unknown = || AnamnesisError::Request(Request::UnknownTensor { name: name.to_owned() });
        let id = self.catalog.find(name).ok_or_else(unknown)?;
        let tensor = self.catalog.get(id);
        if tensor.dtype != T::DTYPE {
            let why = format!("tensor {} is not made of {}", quoted(name), T::DTYPE);
            return Err(AnamnesisError::unsupported(tensor.dtype.to_string(), why));
        }
        let data = self.tensor_data(name)?.ok_or_else(unknown)?;
        if let Cow::Borrowed(bytes) = &data
            && cfg!(target_endian = "little")
            && let Ok(values) = bytemuck::try_cast_slice::<u8, T>(bytes)
        {
            let view = ArrayViewD::from_shape(IxDyn(&tensor.shape), values).map_err(|error| unshaped(name, &error))?;
            return Ok(dimensions(name, view.into_dimensionality())?.into());
        }
        let mut values = vec![T::zeroed(); data.len() / size_of::<T>()];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        bytes.copy_from_slice(&data);
        if cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
        Ok(array::<T, D>(name, &tensor.shape, values)?.into())
    }
}

/// Values in row-major order as an array.
fn array<T, D: Dimension>(name: &str, shape: &[usize], values: Vec<T>) -> Result<Array<T, D>> {
    let array = ArrayD::from_shape_vec(IxDyn(shape), values).map_err(|error| unshaped(name, &error))?;
    dimensions(name, array.into_dimensionality())
}

fn dimensions<A>(name: &str, array: std::result::Result<A, ndarray::ShapeError>) -> Result<A> {
    array.map_err(|error| unshaped(name, &error))
}

fn unshaped(name: &str, error: &ndarray::ShapeError) -> AnamnesisError {
    Request::Contradiction { what: format!("an array of this shape for {}", quoted(name)), why: error.to_string() }
        .into()
}
