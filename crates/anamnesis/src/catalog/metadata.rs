//! Typed metadata: thirteen value types, and arrays of them. GGUF has all of them, safetensors only strings.

/// The types in tag order: variant, Rust type, accessor of a value, accessor of an array.
macro_rules! values {
    ($($variant:ident($type:ty) $slice:ident;)*) => {
        /// A metadata value.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the names of the format are the documentation")]
        pub enum MetadataValue {
            $($variant($type),)*
            String(String),
            Array(Box<MetadataArray>),
        }

        /// A metadata array; all items have the same type.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the names of the format are the documentation")]
        pub enum MetadataArray {
            $($variant(Vec<$type>),)*
            String(Vec<String>),
            Array(Vec<MetadataArray>),
        }

        impl MetadataArray {
            /// The number of items.
            #[must_use]
            pub const fn len(&self) -> usize {
                match self {
                    $(Self::$variant(items) => items.len(),)*
                    Self::String(items) => items.len(),
                    Self::Array(items) => items.len(),
                }
            }

            $(
                #[doc = concat!("The items, if their type is `", stringify!($type), "`.")]
                #[must_use]
                pub fn $slice(&self) -> Option<&[$type]> {
                    match self {
                        Self::$variant(items) => Some(items),
                        _ => None,
                    }
                }
            )*
        }
    };
}

values! {
    U8(u8) as_u8_slice;
    I8(i8) as_i8_slice;
    U16(u16) as_u16_slice;
    I16(i16) as_i16_slice;
    U32(u32) as_u32_slice;
    I32(i32) as_i32_slice;
    F32(f32) as_f32_slice;
    Bool(bool) as_bool_slice;
    U64(u64) as_u64_slice;
    I64(i64) as_i64_slice;
    F64(f64) as_f64_slice;
}

/// Each accessor matches its own variant only: a `U32` is not a `U64`.
impl MetadataValue {
    /// The value of a `String`.
    #[must_use]
    pub fn as_string(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a `U32`.
    #[must_use]
    pub const fn as_u32(&self) -> Option<u32> {
        match self {
            Self::U32(number) => Some(*number),
            _ => None,
        }
    }

    /// The value of a `U64`.
    #[must_use]
    pub const fn as_u64(&self) -> Option<u64> {
        match self {
            Self::U64(number) => Some(*number),
            _ => None,
        }
    }

    /// The value of a `Bool`.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The value of an `Array`.
    #[must_use]
    pub fn as_array(&self) -> Option<&MetadataArray> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl MetadataArray {
    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, if they are strings.
    #[must_use]
    pub fn as_string_slice(&self) -> Option<&[String]> {
        match self {
            Self::String(items) => Some(items),
            _ => None,
        }
    }

    /// The items, if they are arrays.
    #[must_use]
    pub fn as_nested_slice(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}
