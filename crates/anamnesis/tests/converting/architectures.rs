//! Checkpoints of known architectures convert to the files of the llama.cpp converter, and back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Contents, Folder, Model, Tensor, fixture, floats};
use anamnesis::{
    AnamnesisError, Architecture, BlockType, Checkpoint, ConvertOptions, ConvertTarget, CpuLevel, DirectoryOptions,
    Dtype, ParseLimits,
};
use serde_json::{Value, json};

/// The cases: a directory and the output of the converter.
fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("architectures")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".expected.gguf")?.to_owned())).collect();
    cases.sort();
    assert!(cases.len() >= 12, "{cases:?}");
    cases
}

fn open(path: impl AsRef<Path>) -> Checkpoint {
    Checkpoint::open(path, &ParseLimits::default()).unwrap()
}

fn source(case: &str) -> PathBuf {
    fixture("architectures").join(case)
}

fn expected(case: &str) -> Checkpoint {
    open(fixture("architectures").join(format!("{case}.expected.gguf")))
}

/// The options of the converter.
fn options(case: &str) -> ConvertOptions {
    let dtype = match case {
        case if case.ends_with("q8_0") => Dtype::Block(BlockType::Q8_0),
        case if case.ends_with("f32") => Dtype::F32,
        _ => Dtype::BF16,
    };
    ConvertOptions::new().with_output_dtype(dtype)
}

/// Name, type and shape of every tensor, in the order of the file.
fn tensors(checkpoint: &Checkpoint) -> Vec<(String, Dtype, Vec<usize>)> {
    let plan = checkpoint.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).unwrap();
    plan.tensors().map(|tensor| (tensor.name, tensor.dtype, tensor.shape)).collect()
}

/// The keys of the architecture, in file order.
fn sizes(checkpoint: &Checkpoint) -> Vec<(String, String)> {
    let is_included =
        |key: &str| !key.starts_with("tokenizer.") && (!key.starts_with("general.") || key == "general.file_type");
    let entries = checkpoint.metadata().unwrap().into_iter().filter(|(key, _)| is_included(key));
    entries.map(|(key, value)| (key, format!("{value:?}"))).collect()
}

#[track_caller]
fn assert_same(case: &str, made: &Checkpoint, wanted: &Checkpoint) {
    assert_eq!(sizes(made), sizes(wanted), "{case}");
    assert_same_tensors(case, made, wanted);
}

#[track_caller]
fn assert_same_tensors(case: &str, made: &Checkpoint, wanted: &Checkpoint) {
    assert_eq!(tensors(made), tensors(wanted), "{case}");
    for (name, ..) in tensors(wanted) {
        let (made, wanted) = (made.tensor_data(&name).unwrap().unwrap(), wanted.tensor_data(&name).unwrap().unwrap());
        if name.ends_with(".ssm_a") {
            // torch uses MKL for exponentials, whose last bit differs.
            for (made, wanted) in floats(&made).into_iter().zip(floats(&wanted)) {
                assert!(made.to_bits().abs_diff(wanted.to_bits()) <= 1, "{case}: {name}: {made} {wanted}");
            }
        } else {
            assert_eq!(made, wanted, "{case}: {name}");
        }
    }
}

#[test]
fn every_tensor_counts_once_and_its_companions_with_it() {
    for case in cases() {
        let there = source(&case);
        let there = open(there).plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).unwrap().stats();
        let back = expected(&case);
        let back = back.plan_convert_directory(ConvertTarget::Hf, &ConvertOptions::new(), &DirectoryOptions::new());
        for stats in [there, back.unwrap().stats()] {
            let once = stats.dequantized + stats.passthrough + stats.repacked + stats.cast;
            assert_eq!(once, stats.tensors, "{case}: {stats:?}");
            assert!(stats.folded_scales <= stats.dequantized && stats.quantized == 0, "{case}: {stats:?}");
        }
    }
}

#[test]
fn every_checkpoint_becomes_what_the_converter_makes_of_it() {
    for case in cases() {
        for level in CpuLevel::available() {
            let options = options(&case).with_cpu_level(level);
            let plan = open(source(&case)).plan_convert(ConvertTarget::Gguf, &options).unwrap();
            let made = Checkpoint::from_bytes(plan.to_bytes(|_| {}).unwrap().0, &ParseLimits::default()).unwrap();
            assert_same(&case, &made, &expected(&case));
        }
    }
}

/// The cases of architectures that are converted to GGUF only.
fn one_way_cases() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("one_way")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".expected.gguf")?.to_owned())).collect();
    cases.sort();
    assert!(cases.len() >= 12, "{cases:?}");
    cases
}

/// The keys of the vocabulary, sorted.
fn vocabulary(checkpoint: &Checkpoint) -> BTreeMap<String, String> {
    let entries = checkpoint.metadata().unwrap().into_iter().filter(|(key, _)| key.starts_with("tokenizer."));
    entries.map(|(key, value)| (key, format!("{value:?}"))).collect()
}

#[test]
fn architectures_without_a_way_back_become_what_the_converter_makes_of_them() {
    for case in one_way_cases() {
        let (from, wanted) = (fixture("one_way").join(&case), fixture("one_way").join(format!("{case}.expected.gguf")));
        let plan = open(from).plan_convert(ConvertTarget::Gguf, &options("")).unwrap();
        let made = Checkpoint::from_bytes(plan.to_bytes(|_| {}).unwrap().0, &ParseLimits::default()).unwrap();
        let wanted = open(wanted);
        assert_same(&case, &made, &wanted);
        assert_eq!(vocabulary(&made), vocabulary(&wanted), "{case}");
    }
}

/// The notes of a copy of a case without some of its files, and of its tensors.
fn one_way_without(case: &str, file: &str, tensor: &str) -> Result<Vec<String>, AnamnesisError> {
    let source = fixture("one_way").join(case);
    let contents = Contents::read(source.join("model.safetensors"));
    let tensors = contents.tensors.into_iter().filter(|(name, _)| name != tensor);
    let model = tensors
        .fold(Model::new(), |model, (name, tensor)| model.tensor(&name, &tensor.dtype, &tensor.shape, &tensor.data));
    let folder = Folder::staged(&model.bytes(), None);
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        if let (true, Ok(bytes)) = (name != file, std::fs::read(source.join(name))) {
            folder.write(name, bytes);
        }
    }
    let plan = open(folder.path("")).plan_convert(ConvertTarget::Gguf, &options(""))?;
    Ok(plan.notes().iter().map(ToString::to_string).collect())
}

#[test]
fn a_template_of_llama_cpp_that_is_not_written_is_named() {
    let is_named = |notes: &[String]| notes.iter().any(|note| note.contains("Kimi-K3.jinja"));
    assert!(!is_named(&one_way_without("kimi_k3", "", "").unwrap()));
    assert!(is_named(&one_way_without("kimi_k3", "chat_template.jinja", "").unwrap()));
}

#[test]
fn ranks_of_another_tokenizer_are_refused() {
    let source = fixture("one_way").join("kimi_k2_ranks");
    let settings: Value =
        serde_json::from_slice(&std::fs::read(source.join("tokenizer_config.json")).unwrap()).unwrap();
    let with = |key: &str, value: Value| {
        let mut settings = settings.clone();
        settings[key] = value;
        settings
    };
    for (settings, ranks, part) in [
        (with("tokenizer_class", json!("OtherTokenizer")), 267, "TikTokenTokenizer is known"),
        (with("added_tokens_decoder", json!({"270": {"content": "a"}})), 267, "\"a\" appears twice"),
        (with("added_tokens_decoder", json!([])), 267, "added_tokens_decoder is not an object"),
        (settings.clone(), 250, "507 rows (vocab_size); 250 tokens have ranks, and 256 more can be special"),
    ] {
        let folder = Folder::staged(&std::fs::read(source.join("model.safetensors")).unwrap(), None);
        folder.write("config.json", std::fs::read(source.join("config.json")).unwrap());
        folder.write("tokenizer_config.json", settings.to_string());
        let lines = std::fs::read_to_string(source.join("tiktoken.model")).unwrap();
        folder.write("tiktoken.model", lines.lines().take(ranks).map(|line| format!("{line}\n")).collect::<String>());
        let error = open(folder.path("")).plan_convert(ConvertTarget::Gguf, &options("")).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn missing_parts_of_stacks_are_named() {
    for (case, tensor) in [
        ("kimi_k3", "language_model.model.layers.1.mlp_res_proj.weight"),
        ("kimi_k3_packed", "language_model.model.layers.1.block_sparse_moe.experts.1.w2.weight_scale"),
        ("arwkv7", "model.layers.1.self_attn.time_mixer.x_a"),
        ("qwen4exp", "model.language_model.layers.0.ple.ple_embedding.ngram_embedding.shard_1.weight"),
        ("qwen4exp", "model.language_model.layers.0.ple.ple_embedding.layer_multipliers"),
    ] {
        let error = one_way_without(case, "", tensor).unwrap_err().to_string();
        // The name of the tensor or of the one that it belongs to, without prefixes that are left out.
        let module = tensor.rsplit_once("layers.").unwrap().1.split_once('.').unwrap().1;
        let module = module.trim_end_matches("_scale").replace("self_attn.time_mixer", "attention");
        assert!(error.contains(&module), "{tensor}: {error}");
    }
}

/// Of architectures whose configuration is restored by tables and defaults, every tensor is what it was, or the file is refused.
#[test]
fn other_architectures_are_restored_or_refused() {
    let mut restorable = Vec::new();
    // Its source has F32.
    for case in one_way_cases().into_iter().filter(|case| case != "gpt2") {
        let file = open(fixture("one_way").join(format!("{case}.expected.gguf")));
        if file.plan_convert_directory(ConvertTarget::Hf, &ConvertOptions::new(), &DirectoryOptions::new()).is_err() {
            continue;
        }
        let source = Contents::read(fixture("one_way").join(&case).join("model.safetensors"));
        // The names of the class that is restored.
        let renamed =
            |name: String| name.replace("language_model.", "").replace("backbone.embedding.", "backbone.embeddings.");
        let original: BTreeMap<_, _> =
            source.tensors.into_iter().map(|(name, tensor)| (renamed(name), tensor)).collect();
        for (name, tensor) in restored(&file).0.tensors.into_iter().filter(|(name, _)| !name.ends_with("A_log")) {
            assert_eq!(original.get(&name), Some(&tensor), "{case}: {name}");
        }
        restorable.push(case);
    }
    for case in [
        "granite_hybrid_attn",
        "granite_switch",
        "hunyuan_moe",
        "lfm2_moe",
        "ling3",
        "ling3_low_rank",
        "llama4",
        "mamba_lm_head",
        "muse_glimmer",
        "phi4_vision",
    ] {
        assert!(restorable.iter().any(|known| known == case), "{restorable:?}");
    }
    for case in ["bitnet", "chameleon", "nemotron_h_puzzle", "qwen"] {
        assert!(restorable.iter().all(|known| known != case), "{restorable:?}");
    }
}

#[test]
fn a_file_of_another_class_is_restored_by_the_name_of_the_class() {
    let file = open(fixture("one_way").join("youtu.expected.gguf"));
    let plan = |like: Option<&str>| {
        let options = like.into_iter().fold(ConvertOptions::new(), |options, class| options.with_like(class));
        file.plan_convert_directory(ConvertTarget::Hf, &options, &DirectoryOptions::new()).map(drop)
    };
    // It has no experts, which other models of its architecture have.
    assert_contains(&plan(None).unwrap_err().to_string(), &["deepseek2.expert_count"]);
    assert_contains(&plan(Some("LlamaForCausalLM")).unwrap_err().to_string(), &["LlamaForCausalLM", "deepseek2"]);
    plan(Some("YoutuForCausalLM")).unwrap();
}

#[test]
fn a_whole_file_of_any_class_is_sound() {
    for case in one_way_cases() {
        let report = anamnesis::verify(fixture("one_way").join(format!("{case}.expected.gguf"))).unwrap();
        assert!(report.is_sound(), "{case}: {:?}", report.problems);
    }
}

#[test]
fn a_class_of_its_own_converts_like_the_one_it_is_derived_from() {
    let modified = ModifiedCase::of("llama3").configured("architectures", json!(["OurLlamaForCausalLM"]));
    assert_contains(&modified.refused(), &["`OurLlamaForCausalLM`"]);
    modified.planned(&ConvertOptions::new().with_like("LlamaForCausalLM")).unwrap();
    let error = modified.planned(&ConvertOptions::new().with_like("NoSuchForCausalLM")).unwrap_err();
    assert_contains(&error.to_string(), &["`NoSuchForCausalLM`"]);
}

#[test]
fn a_single_model_file_is_treated_like_its_directory() {
    let options = options("llama3");
    let bytes = |checkpoint: &Checkpoint| checkpoint.plan_convert(ConvertTarget::Gguf, &options)?.to_bytes(|_| {});
    let directory = bytes(&open(source("llama3"))).unwrap().0;
    assert!(bytes(&open(source("llama3").join("model.safetensors"))).unwrap().0 == directory);
    // Under another name, or next to the configuration of an unknown model, the file is converted alone.
    let folder = Folder::new();
    let weights = std::fs::read(source("llama3").join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(source("llama3").join("config.json")).unwrap();
    folder.write("other.safetensors", &weights);
    folder.write("config.json", &config);
    assert!(
        open(folder.path("other.safetensors"))
            .plan_convert(ConvertTarget::Gguf, &options)
            .unwrap()
            .architecture()
            .is_none()
    );
    folder.write("model.safetensors", &weights);
    folder.write("config.json", config.replace("LlamaForCausalLM", "NobodyKnows"));
    assert!(
        open(folder.path("model.safetensors"))
            .plan_convert(ConvertTarget::Gguf, &options)
            .unwrap()
            .architecture()
            .is_none()
    );
}

#[test]
fn quantising_a_checkpoint_equals_converting_then_quantising() {
    let q4 = ConvertTarget::parse("q4_0").unwrap();
    for case in cases().into_iter().filter(|case| !case.ends_with("q8_0") && !case.ends_with("fp4")) {
        let quantised = |checkpoint: &Checkpoint| {
            let plan = checkpoint.plan_convert(q4, &ConvertOptions::new()).unwrap();
            Checkpoint::from_bytes(plan.to_bytes(|_| {}).unwrap().0, &ParseLimits::default()).unwrap()
        };
        assert_same(&case, &quantised(&open(source(&case))), &quantised(&expected(&case)));
    }
}

/// The tensors and configuration of the restored checkpoint.
fn restored(file: &Checkpoint) -> (Contents, Value) {
    let folder = Folder::new();
    let output = folder.path("back");
    let options = ConvertOptions::new();
    let plan = file.plan_convert_directory(ConvertTarget::Hf, &options, &DirectoryOptions::new()).unwrap();
    plan.write(&output, &options.run, |_| {}).unwrap();
    let config = serde_json::from_slice(&std::fs::read(output.join("config.json")).unwrap()).unwrap();
    (Contents::read(output.join("model.safetensors")), config)
}

#[test]
fn converting_back_restores_every_tensor() {
    // Quantised weights are restored decoded, and multipliers stay folded into weights.
    let is_lossy = |case: &str| ["fp8", "fp4", "q8_0", "falcon_h1"].iter().any(|end| case.ends_with(end));
    // Logarithms of states are rounded again.
    let exact = |contents: Contents| {
        let is_exact = |(name, _): &(String, Tensor)| !name.ends_with("A_log");
        contents.tensors.into_iter().filter(is_exact).collect::<BTreeMap<_, _>>()
    };
    for case in cases().into_iter().filter(|case| !is_lossy(case)) {
        let (found, config) = restored(&expected(&case));
        let wanted = Contents::read(source(&case).join("model.safetensors"));
        assert_eq!(found.names(), wanted.names(), "{case}");
        assert_eq!(exact(found), exact(wanted), "{case}");
        let original: Value =
            serde_json::from_slice(&std::fs::read(source(&case).join("config.json")).unwrap()).unwrap();
        for key in
            ["architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"]
                .into_iter()
                .chain(["num_attention_heads", "num_key_value_heads", "rms_norm_eps", "tie_word_embeddings"])
        {
            assert_eq!(config[key], original[key], "{case}: {key}");
        }
    }
}

#[test]
fn a_weight_counts_once_regardless_of_companions() {
    let checkpoint = open(source("llama_nvfp4"));
    let plan = checkpoint.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).unwrap();
    let names: Vec<_> = plan.tensors().map(|tensor| tensor.name).collect();
    let weights = names.iter().filter(|name| !name.ends_with("scale")).count();
    assert!(weights < names.len() && plan.stats().repacked > 0, "{names:?}");
    assert_eq!(plan.stats().tensors, weights, "{names:?}");
}

#[test]
fn input_scales_of_decoded_weights_are_dropped_with_a_note() {
    let file = expected("llama_nvfp4");
    let plan =
        file.plan_convert_directory(ConvertTarget::Hf, &ConvertOptions::new(), &DirectoryOptions::new()).unwrap();
    assert!(
        plan.notes().iter().any(|note| note.to_string().starts_with("the scales of 6 layers' inputs")),
        "{:?}",
        plan.notes()
    );
    let (found, _) = restored(&file);
    assert!(found.names().iter().all(|name| !name.contains("scale")), "{:?}", found.names());
}

#[test]
fn a_restored_checkpoint_converts_to_the_same_file() {
    // The vocabulary of Gemma 4 is not restored, and the source of GPT-2 has F32.
    let one_way = one_way_cases().into_iter().filter(|case| !case.starts_with("gemma4") && case != "gpt2");
    let cases = one_way.map(|case| fixture("one_way").join(case)).chain([source("llama3")]);
    let mut made = Vec::new();
    for from in cases {
        let (case, folder) = (from.file_name().unwrap().to_string_lossy().into_owned(), Folder::new());
        let (options, output) = (ConvertOptions::new(), folder.path("back"));
        let file = open(from.with_file_name(format!("{case}.expected.gguf")));
        let plan = file.plan_convert_directory(ConvertTarget::Hf, &options, &DirectoryOptions::new());
        let Ok(plan) = plan else { continue };
        plan.write(&output, &options.run, |_| {}).unwrap();
        for entry in std::fs::read_dir(&from).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if !name.starts_with("config") && !name.starts_with("model") {
                std::fs::copy(entry.path(), output.join(name)).unwrap();
            }
        }
        let plan = open(&output).plan_convert(ConvertTarget::Gguf, &options).unwrap();
        let again = Checkpoint::from_bytes(plan.to_bytes(|_| {}).unwrap().0, &ParseLimits::default()).unwrap();
        // The order of keys depends on the names in the configuration, of which it may have others.
        let keys = |checkpoint: &Checkpoint| sizes(checkpoint).into_iter().collect::<BTreeMap<_, _>>();
        assert_eq!(keys(&again), keys(&file), "{case}");
        assert_same_tensors(&case, &again, &file);
        made.push(case);
    }
    for case in ["exaone4", "granite_hybrid_attn", "jamba", "llama3", "llama4"] {
        assert!(made.iter().any(|made| made == case), "{made:?}");
    }
}

#[test]
fn names_are_mapped_by_architecture() {
    let name = |class: &str, name: &str| Architecture::of_class(class).unwrap().map_name(name);
    let is = |class, from, to: &str| assert_eq!(name(class, from).as_deref(), Some(to));
    is("LlamaForCausalLM", "lm_head.weight", "output.weight");
    is("MixtralForCausalLM", "model.layers.3.block_sparse_moe.experts.7.w2.weight", "blk.3.ffn_down_exps.weight");
    is("Gemma3ForConditionalGeneration", "language_model.model.layers.1.mlp.up_proj.weight", "blk.1.ffn_up.weight");
    is("MambaForCausalLM", "backbone.layers.0.mixer.A_log", "blk.0.ssm_a");
    assert_eq!(name("LlamaForCausalLM", "model.layers.0.self_attn.rotary_emb.inv_freq"), None);
    assert_eq!(name("LlamaForCausalLM", "model.layers.00.mlp.up_proj.weight"), None);
    assert!(Architecture::of_class("NoSuchForCausalLM").is_none() && Architecture::of_gguf("llama").is_some());
}

/// A copy of a case with modifications.
struct ModifiedCase {
    tensors: BTreeMap<String, Tensor>,
    config: Value,
    case: &'static str,
}

impl ModifiedCase {
    fn of(case: &'static str) -> Self {
        let config = serde_json::from_slice(&std::fs::read(source(case).join("config.json")).unwrap()).unwrap();
        Self { tensors: Contents::read(source(case).join("model.safetensors")).tensors, config, case }
    }

    fn configured(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    fn without(mut self, name: &str) -> Self {
        assert!(self.tensors.remove(name).is_some(), "{name}");
        self
    }

    fn with(mut self, name: &str, shape: &[usize]) -> Self {
        let data = vec![0; 2 * shape.iter().product::<usize>()];
        self.tensors.insert(name.to_owned(), Tensor { dtype: "BF16".to_owned(), shape: shape.to_vec(), data });
        self
    }

    fn planned(&self, options: &ConvertOptions) -> Result<Vec<String>, AnamnesisError> {
        let model = self
            .tensors
            .iter()
            .fold(Model::new(), |model, (name, tensor)| model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data));
        let folder = Folder::staged(&model.bytes(), Some(&self.config));
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            folder.write(name, std::fs::read(source(self.case).join(name)).unwrap());
        }
        let checkpoint = Checkpoint::open(folder.path(""), &ParseLimits::default()).unwrap();
        let plan = checkpoint.plan_convert(ConvertTarget::Gguf, options)?;
        Ok(plan.notes().iter().map(ToString::to_string).collect())
    }

    #[track_caller]
    fn refused(&self) -> String {
        match self.planned(&ConvertOptions::new()) {
            Ok(_) => panic!("it was planned"),
            Err(error) => error.to_string(),
        }
    }
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn an_unknown_class_is_refused_with_the_most_similar_one() {
    let modified = ModifiedCase::of("llama3").configured("architectures", json!(["NewGptOssForCausalLM"]));
    assert_contains(&modified.refused(), &["`NewGptOssForCausalLM`", "known classes is GptOssForCausalLM"]);
    let notes = modified.planned(&ConvertOptions::new().with_keep_names(true)).unwrap();
    assert!(notes.iter().any(|note| note.starts_with("llama.cpp will not load the output")), "{notes:?}");
}

#[test]
fn an_unknown_tensor_is_refused_by_name() {
    let modified = ModifiedCase::of("llama3").with("model.layers.0.self_attn.q_proj.lora_A", &[4, 4]);
    assert_contains(&modified.refused(), &["llama", "has no place for \"model.layers.0.self_attn.q_proj.lora_A\""]);
}

#[test]
fn a_missing_layer_is_refused() {
    let modified = ModifiedCase::of("llama3").without("model.layers.1.self_attn.k_proj.weight");
    assert_contains(&modified.refused(), &["\"model.layers.1.self_attn.k_proj.weight\": it is missing"]);
    let modified = ModifiedCase::of("llama3").configured("num_hidden_layers", json!(3));
    assert_contains(&modified.refused(), &["there are tensors of 2 layers, 3 are needed by \"num_hidden_layers\""]);
    let modified = ModifiedCase::of("llama3").configured("num_hidden_layers", json!(1));
    assert_contains(&modified.refused(), &["model.layers.1.", "it is of layer 1, config.json says there are 1"]);
}

#[test]
fn experts_that_are_missing_or_too_many_are_refused() {
    let expert = |number: u8| format!("model.layers.0.block_sparse_moe.experts.{number}.w2.weight");
    assert_contains(
        &ModifiedCase::of("mixtral").without(&expert(10)).refused(),
        &["ffn_down_exps.weight", "no expert 10 of 11"],
    );
    let many = ModifiedCase::of("mixtral").with(&expert(11), &[16, 8]);
    assert_contains(&many.refused(), &["has an expert 11, there are 11"]);
    let odd = ModifiedCase::of("mixtral").without(&expert(4)).with(&expert(4), &[8, 16]);
    assert_contains(&odd.refused(), &["experts.4.w2.weight", "its shape is [8, 16], that of other experts [16, 8]"]);
}

#[test]
fn heads_that_do_not_divide_are_refused() {
    let modified = ModifiedCase::of("llama3").configured("num_attention_heads", json!(3));
    assert_contains(&modified.refused(), &["q_proj.", "32 rows", "3 heads"]);
    let modified = ModifiedCase::of("llama3").configured("num_attention_heads", json!(0));
    assert_contains(&modified.refused(), &["\"num_attention_heads\" is 0"]);
    let modified = ModifiedCase::of("qwen2_yarn").configured("num_key_value_heads", json!(3));
    assert_contains(&modified.refused(), &["k_proj.", "[8, 16], but [12, 16] by num_key_value_heads, head_dim"]);
}

#[test]
fn values_of_the_wrong_kind_are_refused_by_key() {
    let modified = ModifiedCase::of("llama3").configured("hidden_size", json!("wide"));
    assert_contains(&modified.refused(), &["\"hidden_size\" is \"wide\", a count is needed"]);
    let modified = ModifiedCase::of("llama3").configured("rms_norm_eps", json!([]));
    assert_contains(&modified.refused(), &["\"rms_norm_eps\" is [], a number is needed"]);
    let modified = ModifiedCase::of("deepseek_v3").configured("v_head_dim", json!(5));
    assert_contains(&modified.refused(), &["kv_b_proj", "40 rows are not 6 of keys and 5 of values in 4 heads"]);
}

#[test]
fn two_tensors_with_one_output_name_are_refused() {
    let modified = ModifiedCase::of("qwen3_fp8").with("model.layers.0.self_attn.q_layernorm.weight", &[8]);
    let text = modified.refused();
    assert_contains(&text, &["q_norm.weight", "q_layernorm.weight", "would both be \"blk.0.attn_q_norm.weight\""]);
}

#[test]
fn a_vocabulary_larger_than_the_embedding_is_refused() {
    let modified =
        ModifiedCase::of("llama3").without("model.embed_tokens.weight").with("model.embed_tokens.weight", &[259, 16]);
    assert_contains(&modified.refused(), &["\"vocab_size\" is 260, it has 259 rows"]);
}

#[test]
fn only_complete_gguf_models_convert_back() {
    let refused = |path: PathBuf| {
        let options = (ConvertOptions::new(), DirectoryOptions::new());
        let plan = open(path).plan_convert_directory(ConvertTarget::Hf, &options.0, &options.1);
        plan.err().expect("it was planned").to_string()
    };
    assert_contains(&refused(fixture("gguf/iq1_m.gguf")), &["it is no whole model"]);
    assert_contains(&refused(source("llama3")), &["only a GGUF file can become a Hugging Face checkpoint"]);
}

#[test]
fn falcon_mamba_round_trips_as_itself() {
    let (_, config) = restored(&expected("falcon_mamba_f32"));
    assert_eq!(
        (&config["architectures"][0], &config["model_type"]),
        (&json!("FalconMambaForCausalLM"), &json!("falcon_mamba"))
    );
}

#[test]
fn biases_of_a_feed_forward_network_are_recorded() {
    let (_, config) = restored(&expected("granite"));
    assert_eq!((&config["mlp_bias"], &config["attention_bias"]), (&json!(true), &json!(true)));
}

#[test]
fn rope_scaling_of_any_size_round_trips() {
    let (_, config) = restored(&expected("llama_rope"));
    let original: Value =
        serde_json::from_slice(&std::fs::read(source("llama_rope").join("config.json")).unwrap()).unwrap();
    for key in ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"] {
        assert_eq!(config["rope_scaling"][key].as_f64(), original["rope_parameters"][key].as_f64(), "{key}");
    }
}
