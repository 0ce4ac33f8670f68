//! ggml's C, from a shared library.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `void dequantize_row_*(const void *, float *, int64_t)`.
type Decode = unsafe extern "C" fn(*const u8, *mut f32, i64);

/// A loaded library.
pub struct Library(*mut libc::c_void);

impl Library {
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: a string that ends in zero; the library is the user's own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL) };
        if handle.is_null() { Err(format!("{} cannot be loaded", path.display())) } else { Ok(Self(handle)) }
    }

    /// The function that decodes a type to `f32`.
    pub fn decoder(&self, block: &str) -> Option<Decode> {
        // K is the only capital in the names of these functions.
        let name = CString::new(format!("dequantize_row_{}", block.to_lowercase().replace("_k", "_K"))).ok()?;
        // SAFETY: the handle is open, the name ends in zero.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        // SAFETY: every function of this name has this signature in ggml.
        (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Decode>(symbol) })
    }
}
