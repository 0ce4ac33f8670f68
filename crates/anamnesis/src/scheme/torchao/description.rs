//! The description of a tensor in the metadata.

use serde_json::Value;

use crate::catalog::{Dtype, TargetDtype};
use crate::error::{AnamnesisError, Result, quoted};

/// The description of a tensor.
pub(super) struct Description {
    /// The name of the tensor.
    pub name: String,
    pub kind: String,
    pub parts: Vec<String>,
    attributes: Value,
}

impl Description {
    /// Parses an entry of the metadata; `None` if it does not describe a tensor of several parts.
    pub(super) fn read(name: &str, text: &str) -> Option<Self> {
        let mut value: Value =
            serde_json::from_slice(text.as_bytes()).ok().filter(|_| text.trim_start().starts_with('{'))?;
        let kind = value.get("_type")?.as_str().filter(|kind| *kind != "Tensor")?.to_owned();
        let parts = value.get("_tensor_data_names").and_then(Value::as_array)?;
        let parts = parts.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let attributes = value.get_mut("_data").map(Value::take)?;
        Some(Self { name: name.to_owned(), kind, parts, attributes })
    }

    /// The prefix of the names of its parts.
    pub(super) fn prefix(&self) -> Option<String> {
        let (module, parameter) = self.name.rsplit_once('.')?;
        Some(format!("{module}._{parameter}_"))
    }

    pub(super) fn wrong(&self, key: &str, needed: &str) -> AnamnesisError {
        let (name, found) = (quoted(&self.name), self.attributes.get(key).unwrap_or(&Value::Null).to_string());
        let found: String = found.chars().take(200).collect();
        AnamnesisError::parse(format!(
            "the description of {name} in __metadata__ has {key} {found}; {needed} is needed"
        ))
    }

    pub(super) fn refused(&self, what: &str) -> AnamnesisError {
        let detail = format!("tensor {} is a {}: {what}", quoted(&self.name), self.kind);
        AnamnesisError::unsupported("torchao", detail)
    }

    /// An optional list of sizes.
    pub(super) fn sizes(&self, key: &str) -> Result<Option<Vec<u64>>> {
        match self.attributes.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(sizes)) => {
                let sizes: Option<Vec<_>> = sizes.iter().map(Value::as_u64).collect();
                sizes.map(Some).ok_or_else(|| self.wrong(key, "a list of sizes"))
            }
            Some(_) => Err(self.wrong(key, "a list of sizes")),
        }
    }

    pub(super) fn size(&self, key: &str) -> Result<u64> {
        let size = self.attributes.get(key).and_then(Value::as_u64).filter(|&size| size > 0);
        size.ok_or_else(|| self.wrong(key, "a size"))
    }

    /// A flag, which is off by default.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.attributes.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// The name of a type.
    pub(super) fn type_name(&self, key: &str) -> Result<&str> {
        let value = self.attributes.get(key);
        let is_type = value.and_then(|value| value.get("_type")?.as_str()) == Some("torch.dtype");
        let name = value.filter(|_| is_type).and_then(|value| value.get("_data")?.as_str());
        name.ok_or_else(|| self.wrong(key, "a type"))
    }

    /// The type of the decoded tensor.
    pub(super) fn target(&self, key: &str) -> Result<TargetDtype> {
        match self.type_name(key)? {
            "bfloat16" => Ok(TargetDtype::BF16),
            "float16" => Ok(TargetDtype::F16),
            "float32" => Ok(TargetDtype::F32),
            _ => Err(self.wrong(key, "bfloat16, float16 or float32")),
        }
    }
}

/// The library's name of a type of eight-bit floats.
pub(super) fn float8_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F8E4M3 => "float8_e4m3fn",
        Dtype::F8E5M2 => "float8_e5m2",
        _ => "",
    }
}
