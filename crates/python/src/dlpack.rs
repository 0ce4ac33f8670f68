//! Decoded values as a capsule of DLPack, so that torch, JAX and NumPy take them without a copy: BF16 and FP8 too.
//!
//! | capsule | structure | since |
//! |---|---|---|
//! | `dltensor` | `DLManagedTensor` | DLPack 0 |
//! | `dltensor_versioned` | `DLManagedTensorVersioned`: version and flags in front | DLPack 1.0 |
//!
//! The structures are those of `dlpack.h`. Whoever takes a capsule renames it to `used_…` and calls the deleter when the
//! memory is no longer needed; a capsule without a consumer calls it on drop.

use std::ffi::{CStr, c_void};

use anamnesis::Dtype;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer::Aligned;

/// The version of the structures below.
const VERSION: [u32; 2] = [1, 1];
/// `kDLCPU`.
const CPU: i32 = 1;
/// `DLPACK_FLAG_BITMASK_IS_COPIED`: the memory is the receiver's own, and may be written.
const IS_COPIED: u64 = 2;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
pub(crate) struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// The memory behind a capsule.
struct Owned {
    _data: Aligned,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
}

/// The code of a type in DLPack, its bits and its lanes; `None` where it has none.
const fn data_type(dtype: Dtype) -> Option<(u8, u8, u16)> {
    Some(match dtype {
        Dtype::I8 => (0, 8, 1),
        Dtype::I16 => (0, 16, 1),
        Dtype::I32 => (0, 32, 1),
        Dtype::I64 => (0, 64, 1),
        Dtype::U8 => (1, 8, 1),
        Dtype::U16 => (1, 16, 1),
        Dtype::U32 => (1, 32, 1),
        Dtype::U64 => (1, 64, 1),
        Dtype::F16 => (2, 16, 1),
        Dtype::F32 => (2, 32, 1),
        Dtype::F64 => (2, 64, 1),
        Dtype::BF16 => (4, 16, 1),
        Dtype::Bool => (6, 8, 1),
        Dtype::F8E4M3 => (10, 8, 1),
        Dtype::F8E4M3Fnuz => (11, 8, 1),
        Dtype::F8E5M2 => (12, 8, 1),
        Dtype::F8E5M2Fnuz => (13, 8, 1),
        Dtype::F8E8M0 => (14, 8, 1),
        _ => return None,
    })
}

/// The type of elements as DLPack has it.
///
/// # Errors
/// `BufferError` where it has none.
pub(crate) fn element_type(dtype: Dtype) -> PyResult<DataType> {
    let unknown = || PyBufferError::new_err(format!("DLPack has no type for {dtype}"));
    let (code, bits, lanes) = data_type(dtype).ok_or_else(unknown)?;
    Ok(DataType { code, bits, lanes })
}

/// A capsule that owns these values.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    shape: &[usize],
    mut values: Aligned,
    dtype: DataType,
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let too_large = || PyBufferError::new_err("a dimension is too large for DLPack");
    let lengths = shape.iter().map(|&length| i64::try_from(length).ok()).collect::<Option<Vec<_>>>();
    let mut shape = lengths.ok_or_else(too_large)?;
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    let tensor = Tensor {
        data: values.as_mut_ptr().cast(),
        device: Device { kind: CPU, id: 0 },
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    // The pointers above stay valid: moving a vector or an allocation does not move what it holds.
    let context = Box::into_raw(Box::new(Owned { _data: values, _shape: shape, _strides: strides })).cast();
    let (pointer, name, destructor): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = if versioned {
        let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
        let managed = ManagedVersioned { version: VERSION, context, deleter, flags: IS_COPIED, tensor };
        (Box::into_raw(Box::new(managed)).cast(), c"dltensor_versioned", destroy_versioned)
    } else {
        let managed = Managed { tensor, context, deleter: Some(delete as unsafe extern "C" fn(_)) };
        (Box::into_raw(Box::new(managed)).cast(), c"dltensor", destroy)
    };
    // SAFETY: the pointer is that of a structure that its deleter frees, and the name is static.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: DLPack calls the deleter once, with the structure that `capsule` made; both boxes are its own.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Owned>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as for `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Owned>()));
    }
}

unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has its first name still owns its structure.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, c"dltensor".as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, c"dltensor".as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as for `destroy`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, c"dltensor_versioned".as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, c"dltensor_versioned".as_ptr()).cast());
        }
    }
}
