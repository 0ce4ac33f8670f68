//! The configuration of a model that is converted: `config.json`, or `params.json` of Mistral's own format.

use serde_json::{Map, Value};

use crate::architecture::mistral_format;
use crate::architecture::sidecars::{Directory, SidecarFiles};
use crate::convert::options::ConvertOptions;
use crate::error::{Request, Result};
use crate::json;

/// The key of the name that a model was loaded by.
const PATH: &str = "_name_or_path";

/// The configuration of the model in a directory; `None` if there is none.
pub(super) fn read(files: &Directory, options: &ConvertOptions) -> Result<Option<Map<String, Value>>> {
    let text = files.read("config.json")?;
    let of_transformers = text.as_deref().and_then(|text| match json::from_slice(text) {
        Ok(Value::Object(raw)) => Some(raw),
        _ => None,
    });
    if text.is_some() && !options.mistral_format {
        return Ok(of_transformers.map(|raw| like(raw, options)));
    }
    match mistral_format::configuration(files)? {
        None if options.mistral_format => {
            let why = format!("there is no {}", mistral_format::PARAMS);
            Err(Request::Contradiction { what: "a model in Mistral's format".to_owned(), why }.into())
        }
        None => Ok(None),
        Some(mut raw) => {
            if let Some(path) = of_transformers.as_ref().and_then(|of_transformers| of_transformers.get(PATH)) {
                raw.insert(PATH.to_owned(), path.clone());
            }
            Ok(Some(like(raw, options)))
        }
    }
}

/// The configuration with the class that the caller names, if there is one.
fn like(mut raw: Map<String, Value>, options: &ConvertOptions) -> Map<String, Value> {
    if let Some(class) = &options.like {
        raw.insert("architectures".to_owned(), Value::from(vec![class.as_str()]));
    }
    raw
}
