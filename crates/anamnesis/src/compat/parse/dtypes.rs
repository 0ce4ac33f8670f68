//! The element types of one format: a subset of all element types under the names of earlier versions.

/// `format_dtypes! { format, what: Name { Variants } }` declares an enum whose variants are named like those of
/// [`Dtype`](crate::catalog::Dtype), and the conversions between the two.
macro_rules! format_dtypes {
    ($(#[$attribute:meta])* $format:literal, $what:literal: $name:ident { $($variant:ident)* }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are the documentation")]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            pub(crate) fn of(dtype: $crate::catalog::Dtype) -> $crate::error::Result<Self> {
                match dtype {
                    $($crate::catalog::Dtype::$variant => Ok(Self::$variant),)*
                    other => {
                        let detail = format!("{} of type {other}", $what);
                        Err($crate::error::AnamnesisError::unsupported($format, detail))
                    }
                }
            }

            const fn dtype(self) -> $crate::catalog::Dtype {
                match self {
                    $(Self::$variant => $crate::catalog::Dtype::$variant,)*
                }
            }

            /// Size of one element in bytes.
            #[must_use]
            pub const fn byte_size(self) -> usize {
                self.dtype().byte_size()
            }

            /// The same type as a [`Dtype`](crate::catalog::Dtype).
            ///
            /// # Errors
            /// None: every type has a counterpart.
            pub const fn to_dtype(self) -> $crate::error::Result<$crate::catalog::Dtype> {
                Ok(self.dtype())
            }

            /// The same type in the `safetensors` crate.
            ///
            /// # Errors
            /// None: every type has a counterpart.
            pub const fn to_safetensors_dtype(self) -> $crate::error::Result<safetensors::Dtype> {
                match self {
                    $(Self::$variant => {
                        Ok(const { $crate::catalog::Dtype::$variant.in_safetensors().expect("a counterpart") })
                    })*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.dtype().fmt(f)
            }
        }
    };
}
pub(super) use format_dtypes;
