//! The towers of multimodal models become the projectors that llama.cpp's converter writes, byte for byte, and unfit ones are
//! refused by name.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, Dtype, ParseLimits};
use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, Tensor, assert_mentions, fixture, floats};

/// The cases: a directory, a type, and the output of the converter.
fn cases() -> Vec<(String, Dtype, PathBuf)> {
    let entries = std::fs::read_dir(fixture("projectors")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let cases = names.filter_map(|name| {
        let (case, dtype) = name.strip_suffix(".expected.gguf")?.split_once('.')?;
        let dtype = if dtype == "bf16" { Dtype::BF16 } else { Dtype::F16 };
        Some((case.to_owned(), dtype, fixture("projectors").join(&name)))
    });
    let mut cases: Vec<_> = cases.collect();
    cases.sort_by_key(|(.., path)| path.clone());
    assert!(cases.len() >= 8, "{cases:?}");
    cases
}

fn convert(directory: &Path, options: &ConvertOptions) -> anamnesis::Result<Vec<u8>> {
    let checkpoint = Checkpoint::open(directory, &ParseLimits::default())?;
    let options = options.clone().with_projector(true);
    Ok(checkpoint.plan_convert(ConvertTarget::Gguf, &options)?.to_bytes(|_| {})?.0)
}

#[test]
fn every_file_is_that_of_the_converter() {
    let mut unequal = Vec::new();
    for (case, dtype, expected) in cases() {
        let options = ConvertOptions::new().with_output_dtype(dtype);
        let wanted = std::fs::read(expected).unwrap();
        match convert(&fixture("projectors").join(&case), &options) {
            Ok(made) if NEARLY.iter().any(|prefix| case.starts_with(prefix)) => assert_nearly_equal(&made, &wanted),
            Ok(made) if made == wanted => {}
            Ok(_) => unequal.push(format!("{case} {dtype}")),
            Err(error) => unequal.push(format!("{case} {dtype}: {error}")),
        }
    }
    assert!(unequal.is_empty(), "{}", unequal.join("\n"));
}

/// The square roots, sines and cosines of torch are not rounded correctly in their last bit: the scale of a batch norm, and tables of
/// positions that are derived.
const NEARLY: [&str; 5] = ["granite_speech", "lfm2_audio", "qwen2_5_omni", "qwen3_omni", "qwen3_asr"];

#[track_caller]
fn assert_nearly_equal(made: &[u8], wanted: &[u8]) {
    let open = |bytes: &[u8]| Checkpoint::from_bytes(bytes.to_vec(), &ParseLimits::default()).unwrap();
    let (made, wanted) = (open(made), open(wanted));
    assert_eq!(format!("{:?}", made.metadata().unwrap()), format!("{:?}", wanted.metadata().unwrap()));
    for tensor in wanted.tensors() {
        let name = tensor.name;
        let (made, wanted) = (made.tensor_data(name).unwrap().unwrap(), wanted.tensor_data(name).unwrap().unwrap());
        if name.contains(".conv_norm_var.") || name.contains(".conv_norm.") || name == "a.position_embd.weight" {
            for (made, wanted) in floats(&made).into_iter().zip(floats(&wanted)) {
                assert!((made - wanted).abs() <= 2e-7 * wanted.abs().max(1.0), "{name}: {made} {wanted}");
            }
        } else {
            assert_eq!(made, wanted, "{name}");
        }
    }
}

/// A case with other tensors, another configuration or another description of preprocessing.
struct Changed {
    tensors: Contents,
    config: Value,
    preprocessor: Value,
}

impl Changed {
    fn of(case: &str) -> Self {
        let read = |name: &str| -> Value {
            let text = std::fs::read(fixture("projectors").join(case).join(name)).unwrap_or_else(|_| b"{}".to_vec());
            serde_json::from_slice(&text).unwrap()
        };
        let tensors = Contents::read(fixture("projectors").join(case).join("model.safetensors"));
        Self { tensors, config: read("config.json"), preprocessor: read("preprocessor_config.json") }
    }

    fn refused(&self) -> String {
        let add = |model: Model, (name, tensor): (&String, &Tensor)| {
            model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
        };
        let bytes = self.tensors.tensors.iter().fold(Model::new(), add).bytes();
        let folder = Folder::staged(&bytes, Some(&self.config));
        folder.write("preprocessor_config.json", self.preprocessor.to_string());
        convert(&folder.path(""), &ConvertOptions::new()).unwrap_err().to_string()
    }
}

#[test]
fn a_tower_without_its_projector_is_refused_and_a_projector_without_its_tower() {
    for (case, part, name) in [
        ("gemma3", "multi_modal_projector.", "multi_modal_projector."),
        ("gemma3", "vision_tower.", "vision_tower.vision_model."),
        ("qwen3_vl", "visual.merger.", "visual.merger."),
        ("qwen3_vl", "deepstack_merger_list.1.", "visual.deepstack_merger_list.2."),
        ("gemma4", "embed_audio.", "model.embed_audio."),
        ("qwen2_audio", "multi_modal_projector.", "multi_modal_projector.linear.weight"),
        ("granite_speech", "projector.qformer.", "projector.qformer."),
        ("granite_speech", "batch_norm.running_var", "running_var"),
        ("mistral3", "layers.1.", "vision_tower.transformer.layers.1."),
        ("phi4_v", "layers.2.", "layers.2."),
        ("glm_asr", "audio_bos_eos_token", "audio_bos_eos_token"),
        ("minimax_m3", "patch_merge_mlp.", "patch_merge_mlp."),
        ("gemma4_unified", "pos_embedding", "pos_embedding"),
        ("qwen3_omni", "audio_tower.proj2.", "proj2"),
        ("qwen2_5_omni", "visual.merger.mlp.2.", "visual.merger.mlp.2."),
        ("deepseek_ocr", "sam_model.blocks.1.", "model.sam_model.blocks.1."),
        ("ling3_vl", "linear_proj.2.", "linear_proj.2."),
        ("deepseek4_vision", "image_pad", "image_pad"),
        ("deepseek4_vision", "blocks.1.mlp.w1", "vision.blocks.1.mlp.w1"),
        ("deepseek_ocr2", "query_768", "query_768"),
        ("granite4_vision", "spatial_projectors.1.norm.", "norm."),
        ("granite4_vision", "layerwise_projectors.0.qformer.", "qformer."),
        ("granite4_vision", "image_newline", "model.image_newline"),
        ("lfm2_audio", "batch_norm.running_mean", "running_mean"),
        ("lfm2_audio", "pre_encode.conv.5.bias", "conformer.pre_encode.conv.5.bias"),
        ("lfm2_audio", "audio_adapter.", "audio_adapter.model."),
        ("dots3_note", "blocks.2.mlp.experts.1.", "vision_encoder.blocks.2.mlp.experts.1."),
        ("dots3_note", "blocks.1.mlp.router_bias", "vision_encoder.blocks.1.mlp.router_bias"),
        ("dots3_note", "speech_encoder.layers.3.", "audio_encoder.dots_encoder.speech_encoder.layers.3."),
        ("deepseek_ocr2", "layers.3.", "model.qwen2_model.model.model.layers.3."),
    ] {
        let mut changed = Changed::of(case);
        changed.tensors.tensors.retain(|tensor, _| !tensor.contains(part));
        assert_mentions(&changed.refused(), &[name, "missing"]);
    }
}

#[test]
fn a_surplus_or_misshapen_tensor_is_refused_by_name() {
    let mut changed = Changed::of("gemma3");
    let tensor = changed.tensors.tensors["multi_modal_projector.mm_soft_emb_norm.weight"].clone();
    changed.tensors.tensors.insert("vision_tower.vision_model.extra.weight".to_owned(), tensor.clone());
    assert_mentions(&changed.refused(), &["vision_tower.vision_model.extra.weight"]);
    let mut changed = Changed::of("gemma3");
    changed.tensors.tensors.get_mut("multi_modal_projector.mm_soft_emb_norm.weight").unwrap().shape = vec![4, 4];
    assert_mentions(&changed.refused(), &["mm_soft_emb_norm", "vision_config.hidden_size"]);
}

#[test]
fn every_unfit_key_is_named_at_once() {
    let values = [json!(null), json!("x"), json!(0), json!(-1), json!(1u64 << 40), json!([1]), json!({})];
    for (case, object, keys) in [
        ("gemma3", "vision_config", &["patch_size", "hidden_size", "intermediate_size", "num_attention_heads"][..]),
        ("gemma3", "vision_config", &["image_size", "num_hidden_layers"]),
        ("qwen3_vl", "vision_config", &["depth", "hidden_size", "intermediate_size", "num_heads", "patch_size"]),
        ("mistral3", "vision_config", &["image_size", "patch_size", "num_attention_heads"]),
        ("qwen2_audio", "audio_config", &["num_mel_bins", "max_source_positions"]),
        ("granite_speech", "encoder_config", &["hidden_dim", "num_layers", "dim_head", "context_size", "max_pos_emb"]),
        ("granite_speech", "projector_config", &["hidden_size", "num_attention_heads", "num_hidden_layers"]),
        ("kimi_k25", "vision_config", &["init_pos_emb_height", "hidden_size", "patch_size", "num_attention_heads"]),
        ("gemma4_unified", "vision_config", &["mm_embed_dim", "mm_posemb_size", "pooling_kernel_size"]),
        ("gemma4_unified", "audio_config", &["audio_embed_dim"]),
        ("cogvlm", "vision_config", &["num_positions"]),
        ("phi4_v", "vision_config", &["num_hidden_layers", "num_patches"]),
        ("glm_asr", "whisper_config", &["num_mel_bins"]),
        ("meralion2", "speech_config", &["encoder_layers"]),
        ("ling3_vl", "vision_config", &["out_hidden_size", "disable_merger_proj"]),
        ("deepseek4_vision", "", &["vision_dim", "vision_n_heads", "vision_inter_dim", "vision_patch_size"]),
        ("deepseek4_vision", "", &["vision_downsample_ratio", "vision_max_n_token", "vision_min_pixels"]),
        ("deepseek_ocr2", "vision_config", &["image_size", "intermediate_size", "layers"]),
        ("granite4_vision", "", &["downsample_rate", "deepstack_layer_map", "spatial_target_layers"]),
        ("granite4_vision", "text_config", &["num_hidden_layers"]),
        ("lfm2_audio", "encoder", &["d_model", "n_layers", "n_heads", "feat_in", "conv_kernel_size"]),
        ("lfm2_audio", "encoder", &["subsampling_conv_channels"]),
        ("dots3_note", "vision_config", &["embed_dim", "pyramid_num_routed", "capacity_factor", "spatial_merge_size"]),
        ("dots3_note", "vision_config", &["adapter_type", "pre_pixel_shuffle"]),
        ("dots3_note", "audio_config", &["whisper_config", "chunk_seconds", "rope_parameters"]),
    ] {
        for key in keys {
            for value in &values {
                let mut changed = Changed::of(case);
                let place = if object.is_empty() { &mut changed.config } else { &mut changed.config[object] };
                place[*key] = value.clone();
                let started = Instant::now();
                let error = changed.refused();
                assert!(started.elapsed() < Duration::from_secs(2), "{case} {key} {value}");
                let named = [*key, "num_attention_heads", "num_hidden_layers"];
                assert!(named.iter().any(|name| error.contains(name)), "{case} {key} {value}: {error}");
            }
        }
    }
}

#[test]
fn preprocessing_that_is_missing_or_unfit_is_named() {
    for (value, words) in [
        (json!(null), &["preprocessor_config.json", "image_mean"][..]),
        (json!([0.5]), &["image_mean", "three numbers"]),
        (json!("x"), &["image_mean"]),
    ] {
        let mut changed = Changed::of("qwen3_vl");
        changed.preprocessor["image_mean"] = value;
        assert_mentions(&changed.refused(), words);
    }
}

#[test]
fn a_model_without_towers_has_no_projector() {
    let error = convert(&fixture("architectures/mistral"), &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["MistralForCausalLM", "projector"]);
    let error = convert(&fixture("adapters/llama/adapter"), &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["a projector", "config.json"]);
}
