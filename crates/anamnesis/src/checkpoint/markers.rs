//! Finding the quantisation markers of a file: a metadata entry, and small tensors that describe others.

use crate::catalog::{Catalog, Dtype, MetadataValue};
use crate::error::{Result, quoted};
use crate::io::Source;
use crate::limits::Budget;
use crate::quant_config::Markers;

/// The metadata entry that describes modules.
pub(crate) const ENTRY: &str = "_quantization_metadata";
/// The last name component of a tensor that describes its module.
const MODULE_MARKER: &str = "comfy_quant";
/// The last name component of a tensor whose dtype is the format of all scaled weights.
const FORMAT_MARKER: &str = "scaled_fp8";
/// The most elements of that tensor: its values are not used.
const FORMAT_MARKER_ELEMENTS: u64 = 2;
/// The suffix of the scales of these weights.
const FORMAT_MARKER_SCALE: &str = ".scale_weight";

/// Maximum size of a module's description, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Reads the markers of one file.
pub(super) fn read(catalog: &Catalog, source: &dyn Source, budget: &mut Budget, markers: &mut Markers) -> Result<()> {
    let entry = catalog.metadata.as_ref().and_then(|metadata| metadata.get(ENTRY)).and_then(MetadataValue::as_string);
    if let Some(text) = entry {
        markers.add_entry(ENTRY, text.as_bytes());
    }
    for (_, tensor) in catalog.iter() {
        let name = tensor.name.as_str();
        let document = || format!("tensor {}", quoted(name));
        if let Some(prefix) = prefix_before(name, MODULE_MARKER) {
            if tensor.dtype != Dtype::U8 || tensor.extent.bytes > MAX_BYTES {
                let (bytes, dtype) = (tensor.extent.bytes, tensor.dtype);
                markers
                    .refuse(format!("{} is {bytes} bytes of {dtype}; the text of a JSON object is needed", document()));
                continue;
            }
            budget.working_set(tensor.extent.bytes, MODULE_MARKER)?;
            let mut text = vec![0; tensor.extent.bytes as usize];
            source.read_at(tensor.extent.offset, &mut text)?;
            markers.add_text(prefix.trim_end_matches('.'), document(), &text);
        } else if let Some(prefix) = prefix_before(name, FORMAT_MARKER) {
            if tensor.elements() > FORMAT_MARKER_ELEMENTS {
                let shape = &tensor.shape;
                markers.refuse(format!("{} has shape {shape:?}; it has no values", document()));
                continue;
            }
            let format = match tensor.dtype {
                Dtype::F8E4M3 | Dtype::F32 => "float8_e4m3fn",
                Dtype::F8E5M2 => "float8_e5m2",
                other => {
                    markers.refuse(format!("{} is {other}; its type must be the format of the weights", document()));
                    continue;
                }
            };
            let scales =
                catalog.with_prefix(prefix).filter_map(|(_, scale)| scale.name.strip_suffix(FORMAT_MARKER_SCALE));
            scales.for_each(|module| markers.add_format(module, document(), format));
        }
    }
    Ok(())
}

/// The prefix of a name, including the dot, if its last component is `last`.
fn prefix_before<'n>(name: &'n str, last: &str) -> Option<&'n str> {
    name.strip_suffix(last).filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}
