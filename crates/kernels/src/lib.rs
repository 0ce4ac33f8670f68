//! The number kernels.
