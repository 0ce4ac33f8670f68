//! Remedies for refused or omitted tensors, as data; front ends name the flags.

/// How to read tensors that were refused or omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Select a part of the file with [`OpenOptions::select`](crate::OpenOptions::select).
    ChoosePart,
    /// Read everything with [`OpenOptions::all`](crate::OpenOptions::all), or select a part.
    TakeAllOrChoose {
        /// The omitted part, if there is only one.
        path: Option<String>,
    },
    /// Omit unsupported tensors with [`OpenOptions::skip_unsupported`](crate::OpenOptions::skip_unsupported).
    LeaveOut,
    /// Set the element type with [`OpenOptions::npy_dtypes`](crate::OpenOptions::npy_dtypes).
    NameType {
        /// The array.
        array: String,
    },
}
