//! A GGUF model under the names of Hugging Face, each tensor decoded on request.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::compared::values_of;
use super::restored::{described, text};
use crate::architecture::back::{self, Restored};
use crate::catalog::{Metadata, Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::ClaimedCatalog;
use crate::error::{Request, Result};
use crate::io::Source;
use crate::pipeline::{RememberOptions, Values, decode_named};

/// A GGUF model under the names, shapes and order of values that transformers has for it.
///
/// ```no_run
/// use anamnesis::{Checkpoint, ParseLimits, RememberOptions, TargetDtype};
/// let checkpoint = Checkpoint::open("model-q4_k_m.gguf", &ParseLimits::default())?;
/// let model = checkpoint.as_hugging_face()?;
/// let name = "model.layers.0.self_attn.q_proj.weight";
/// let values: usize = model.shape(name).unwrap().iter().product();
/// let mut bytes = vec![0; 2 * values];
/// model.decode_range_into(name, 0..values as u64, &mut bytes, TargetDtype::BF16, &RememberOptions::new())?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub struct HuggingFaceModel {
    sources: Arc<Vec<Box<dyn Source>>>,
    tensors: HashMap<String, (Vec<usize>, Values)>,
    config: String,
}

impl Checkpoint {
    /// A GGUF file of a known architecture under the names of Hugging Face. Nothing is decoded yet.
    ///
    /// # Errors
    /// `Request` if this is not a GGUF file; otherwise as for a conversion to a Hugging Face checkpoint.
    pub fn as_hugging_face(&self) -> Result<HuggingFaceModel> {
        self.check_gguf("the names of Hugging Face")?;
        if let Some(problem) = self.claimed().problems.first() {
            return Err(problem.duplicate());
        }
        let input = ClaimedCatalog::of(self);
        let selected = input.select(&Selection::new(), None)?.by_file_and_name(input.catalog);
        let metadata: Metadata = self.metadata()?.into_iter().collect();
        let dtype = self.restored_dtype();
        let named = selected.named();
        let small = |name: &str| self.small_tensor(name);
        let gguf = described(&metadata, &named, &small, dtype);
        let Restored { tensors, config, .. } = back::restore(&gguf, &named, selected.left_out == 0, None)?;
        let values = tensors.iter().map(|mapped| {
            let values = values_of(mapped, &selected, input.catalog, dtype);
            let values = values.map_err(|error| error.in_tensor(&mapped.name))?;
            Ok((mapped.name.clone(), (mapped.shape.clone(), values)))
        });
        Ok(HuggingFaceModel {
            tensors: values.collect::<Result<_>>()?,
            config: String::from_utf8_lossy(&text(&config)?).into_owned(),
            sources: Arc::clone(&self.sources),
        })
    }
}

impl HuggingFaceModel {
    /// The text of its `config.json`.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// The names of its tensors, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor; `None` if it does not exist.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|(shape, _)| shape.as_slice())
    }

    /// Decodes some values of one tensor, by their indices in row-major order, into `out`, whose length must be exactly
    /// theirs as `dtype`. Only the tiles with these values are read.
    ///
    /// # Errors
    /// `Request` if the tensor does not exist, the values are out of range, or `out` has another length; otherwise as
    /// [`Checkpoint::decode`].
    pub fn decode_range_into(
        &self,
        name: &str,
        range: Range<u64>,
        out: &mut [u8],
        dtype: TargetDtype,
        options: &RememberOptions,
    ) -> Result<()> {
        let unknown = || Request::UnknownTensor { name: name.to_owned() };
        let (_, values) = self.tensors.get(name).ok_or_else(unknown)?;
        decode_named(name, &Values { dtype, ..values.clone() }, &self.sources, options, range, out)
    }
}
