//! What a caller can do about what was refused or left out, as data: front ends say how that is asked for.

/// How to get what was refused or left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Choose one part of the file, by [`OpenOptions::select`](crate::OpenOptions::select).
    ChoosePart,
    /// Take everything, by [`OpenOptions::all`](crate::OpenOptions::all), or choose a part.
    TakeAllOrChoose {
        /// The part, where it is one.
        path: Option<String>,
    },
    /// Leave out what is not read, by [`OpenOptions::skip_unsupported`](crate::OpenOptions::skip_unsupported).
    LeaveOut,
    /// Say the element type that the file does not name, by [`OpenOptions::npy_dtypes`](crate::OpenOptions::npy_dtypes).
    NameType {
        /// The array.
        array: String,
    },
}
