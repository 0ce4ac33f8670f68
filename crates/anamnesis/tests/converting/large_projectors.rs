//! Towers that llama.cpp's converter has one size for: a file of zeros with the header of such a model becomes a file with the
//! header that the converter writes.

use std::io::{self, Write};
use std::sync::Arc;

use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, Dtype, Mount, ParseLimits, PositionedRead, Store, StoreEntry,
};
use serde_json::{Map, Value, json};

use crate::support::{assert_mentions, fixture};

/// A header, and zeros up to a size.
struct Zeros {
    header: Vec<u8>,
    size: u64,
}

impl PositionedRead for Zeros {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        let start = usize::try_from(offset).unwrap().min(self.header.len());
        let held = &self.header[start..];
        let count = held.len().min(buffer.len());
        buffer[..count].copy_from_slice(&held[..count]);
        Ok(())
    }
}

/// A directory of a model of zeros and its configuration.
struct Folder {
    config: Vec<u8>,
    model: Arc<Zeros>,
}

impl Folder {
    fn of(case: &str, change: impl FnOnce(&mut Value)) -> Self {
        Self::with_tensors(case, change, |_| {})
    }

    /// A model of another configuration with other tensors.
    fn with_tensors(
        case: &str,
        change: impl FnOnce(&mut Value),
        tensors: impl FnOnce(&mut Map<String, Value>),
    ) -> Self {
        let read = |name: &str| std::fs::read(fixture("large_projectors").join(case).join(name)).unwrap();
        let mut config: Value = serde_json::from_slice(&read("config.json")).unwrap();
        change(&mut config);
        let mut described: Map<String, Value> = serde_json::from_slice(&read("input.head")[8..]).unwrap();
        tensors(&mut described);
        let text = serde_json::to_vec(&described).unwrap();
        let header = [&(text.len() as u64).to_le_bytes()[..], &text].concat();
        let ends = described.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
        let size = header.len() as u64 + ends.max().unwrap();
        Self { config: config.to_string().into_bytes(), model: Arc::new(Zeros { header, size }) }
    }

    fn plan(self, case: &str) -> anamnesis::Result<(Mount, anamnesis::ConvertPlan)> {
        let mount = Mount::new(format!("memory:{}/{case}", std::process::id()), Arc::new(self))?;
        let options = ConvertOptions::new().with_output_dtype(Dtype::F16).with_projector(true);
        let checkpoint = Checkpoint::open(mount.root(), &ParseLimits::default())?;
        Ok((mount, checkpoint.plan_convert(ConvertTarget::Gguf, &options)?))
    }
}

impl Store for Folder {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        Ok(match name {
            "" => Some(StoreEntry::Folder),
            "config.json" => Some(StoreEntry::file(self.config.len() as u64)),
            "model.safetensors" => Some(StoreEntry::file(self.model.size)),
            _ => None,
        })
    }

    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(["config.json", "model.safetensors"].map(str::to_owned).to_vec())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        match name {
            "config.json" => Ok(Arc::new(self.config.clone())),
            "model.safetensors" => Ok(Arc::<Zeros>::clone(&self.model)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Keeps the first bytes, and ends the conversion with an error.
struct First<'a>(&'a mut Vec<u8>, usize);

impl Write for First<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() >= self.1 {
            return Err(io::Error::other("the header is written"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_header_is_that_of_the_converter() {
    for case in ["gemma3n", "nemotron_omni", "nemotron_vl", "step3_vl"] {
        let wanted = std::fs::read(fixture("large_projectors").join(case).join("f16.head")).unwrap();
        let (_mount, plan) = Folder::of(case, |_| {}).plan(case).unwrap();
        let mut made = Vec::new();
        let ended = plan.write_to(First(&mut made, wanted.len()), |_| {});
        assert!(ended.is_err() && made.len() >= wanted.len(), "{case}: {} bytes", made.len());
        made.truncate(wanted.len());
        assert!(made == wanted, "{case}: the headers differ");
    }
}

#[test]
fn a_missing_surplus_or_misshapen_tensor_is_refused_by_name() {
    let tower = "model.vision_tower.timm_model.";
    for (place, name) in [
        "blocks.0.2.conv_pwl.weight",
        "blocks.1.4.dw_start.bn.weight",
        "blocks.2.35.attn.value.down_conv.weight",
        "blocks.3.38.layer_scale.gamma",
        "conv_stem.conv.bias",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{tower}{name}");
        let planned = |kind: &str, tensors: &dyn Fn(&mut Map<String, Value>)| {
            let folder = Folder::with_tensors("gemma3n", |_| {}, |described| tensors(described));
            folder.plan(&format!("gemma3n{kind}{place}")).err().expect("refused").to_string()
        };
        // A tensor in place of another, so that no bytes are without a tensor.
        let renamed = planned("renamed", &|described| {
            let tensor = described.remove(&name).unwrap();
            described.insert(format!("{tower}blocks.0.0.unknown.weight"), tensor);
        });
        assert_mentions(&renamed, &["blocks.0.0.unknown.weight"]);
        let missing = planned("missing", &|described| {
            let tensor = described.remove(&name).unwrap();
            described.insert("lm_head.weight".to_owned(), tensor);
        });
        assert_mentions(&missing, &[&name, "missing"]);
        let misshapen = planned("misshapen", &|described| {
            let shape = described[&name]["shape"].as_array_mut().unwrap();
            let half = shape[0].as_u64().unwrap() / 2;
            shape[0] = json!(half);
            shape.insert(0, json!(2));
        });
        assert_mentions(&misshapen, &[&name]);
    }
    for (case, name) in [
        ("nemotron_vl", "vision_model.radio_model.model.patch_generator.pos_embed"),
        ("nemotron_vl", "vision_model.radio_model.model.blocks.31.mlp.fc2.bias"),
        ("nemotron_vl", "mlp1.1.weight"),
        ("nemotron_omni", "sound_encoder.encoder.layers.1.conv.norm.running_var"),
        ("nemotron_omni", "sound_encoder.encoder.layers.1.conv.pointwise_conv2.bias"),
        ("nemotron_omni", "sound_projection.norm.weight"),
    ] {
        let missing = |described: &mut Map<String, Value>| {
            let tensor = described.remove(name).unwrap();
            described.insert("language_model.lm_head.weight".to_owned(), tensor);
        };
        let place = format!("{case}{}", name.len());
        let error = Folder::with_tensors(case, |_| {}, missing).plan(&place).err().map(|error| error.to_string());
        assert_mentions(&error.expect("refused"), &[name, "missing"]);
    }
    let second = |described: &mut Map<String, Value>| {
        let tensor = described.remove("model.embed_vision.hard_embedding_norm.weight").unwrap();
        described.insert(format!("{tower}blocks.2.37.layer_scale.gamma"), tensor);
    };
    let error =
        Folder::with_tensors("gemma3n", |_| {}, second).plan("gemma3nblock").err().map(|error| error.to_string());
    assert_mentions(&error.expect("refused"), &["blocks.2.37", "vision_config.architecture"]);
}

#[test]
fn every_unfit_key_of_a_tower_is_named() {
    let values = [json!(null), json!("x"), json!(0), json!(-1), json!(1u64 << 31), json!([1]), json!({})];
    for (case, object, key) in [
        ("gemma3n", "vision_config", "architecture"),
        ("gemma3n", "vision_config", "model_args"),
        ("gemma3n", "vision_config", "hidden_size"),
        ("gemma3n", "vision_config", "vocab_size"),
        ("gemma3n", "audio_config", "vocab_size"),
        ("gemma3n", "audio_config", "hidden_size"),
        ("gemma3n", "audio_config", "input_feat_size"),
        ("gemma3n", "audio_config", "conf_num_attention_heads"),
        ("gemma3n", "audio_config", "conf_num_hidden_layers"),
        ("gemma3n", "audio_config", "conf_conv_kernel_size"),
        ("gemma3n", "audio_config", "sscp_conv_channel_size"),
        ("gemma3n", "audio_config", "sscp_conv_kernel_size"),
        ("gemma3n", "audio_config", "sscp_conv_stride_size"),
        ("gemma3n", "text_config", "hidden_size"),
        ("nemotron_vl", "vision_config", "patch_size"),
        ("nemotron_vl", "llm_config", "hidden_size"),
        ("nemotron_vl", "", "force_image_size"),
        ("nemotron_vl", "", "projector_hidden_size"),
        ("nemotron_omni", "", "downsample_ratio"),
        ("nemotron_omni", "sound_config", "hidden_size"),
        ("nemotron_omni", "sound_config", "intermediate_size"),
        ("nemotron_omni", "sound_config", "num_hidden_layers"),
        ("nemotron_omni", "sound_config", "num_attention_heads"),
        ("nemotron_omni", "sound_config", "num_mel_bins"),
        ("nemotron_omni", "sound_config", "subsampling_factor"),
        ("nemotron_omni", "sound_config", "subsampling_conv_channels"),
        ("nemotron_omni", "sound_config", "conv_kernel_size"),
        ("nemotron_omni", "sound_config", "projection_hidden_size"),
    ] {
        for (place, value) in values.iter().enumerate() {
            // Keys that have defaults; no further arguments.
            let is_default = ["model_args", "force_image_size", "projector_hidden_size", "projection_hidden_size"];
            let is_absent = value.is_null() && (is_default.contains(&key) || key == "downsample_ratio");
            if is_absent || key == "model_args" && value.is_object() {
                continue;
            }
            let folder = Folder::of(case, |config| {
                let object = if object.is_empty() { config } else { &mut config[object] };
                object[key] = value.clone();
            });
            let error = folder.plan(&format!("{case}{object}{key}{place}")).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{case}: {object}.{key} = {value} was planned"));
            assert!(error.contains(key), "{case}: {object}.{key} = {value}: {error}");
        }
    }
}

#[test]
fn another_size_is_refused_by_its_key() {
    for (object, key, value) in [
        ("", "understand_projector_stride", json!(4)),
        ("", "understand_projector_stride", json!(null)),
        ("vision_config", "image_size", json!(364)),
        ("vision_config", "width", json!(1024)),
        ("vision_config", "layers", json!(46)),
        ("vision_config", "mlp_ratio", json!(-1)),
        ("vision_config", "mlp_ratio", json!(1e300)),
        ("vision_config", "patch_size", json!(0)),
        ("vision_config", "heads", json!(7)),
    ] {
        let name = format!("{key}/{value}");
        let folder = Folder::of("step3_vl", |config| {
            let place = if object.is_empty() { config } else { &mut config[object] };
            place[key] = value;
        });
        let error = folder.plan(&name.replace(['.', '+', '-'], "")).err().map(|error| error.to_string());
        let named = match key {
            "width" => "hidden_size",
            "layers" => "num_hidden_layers",
            other => other,
        };
        assert_mentions(&error.expect("refused"), &[named]);
    }
}
