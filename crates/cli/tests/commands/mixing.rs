//! `forget --compare`, `--rule` and `--fit`.

use std::fs;

use crate::checkpoint::{Tensor, safetensors};
use crate::folder::Folder;
use crate::samples;

#[test]
fn a_comparison_writes_nothing_and_fails_only_if_no_target_is_possible() {
    let folder = samples::folder();
    let run = folder.amn("forget plain.safetensors --compare w4a16,fp8-channel,fp8-channel");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout.matches("fp8-channel").count(), 1, "{}", run.stdout);
    assert!(run.stdout.contains("w4a16: not possible: w4a16 needs groups of 128 values"), "{}", run.stdout);
    let run = folder.amn("forget plain.safetensors --compare w4a16");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("--exclude keeps them unquantised"), "{}", run.stderr);
    for line in [
        "forget plain.safetensors --compare fp8 --to fp8",
        "forget plain.safetensors --compare fp8 -o x",
        "forget plain.safetensors --compare gguf",
        "forget plain.safetensors",
    ] {
        assert_eq!(folder.amn(line).code, Some(2), "{line}");
    }
}

#[test]
fn an_impossible_rule_is_reported_by_name() {
    let folder = samples::folder();
    for (rule, wanted) in [
        ("nothing", "write GLOB=TARGET"),
        ("=keep", "write GLOB=TARGET"),
        ("*=w5a16", "\"w5a16\" is not a known encoding"),
        ("*=bnb-nf4", "bnb-nf4 for * in a model of fp8-channel"),
        ("nothing*=keep", "no tensor matches the pattern \"nothing*\""),
    ] {
        let run = folder.amn(&format!("forget plain.safetensors --to fp8-channel --rule {rule}"));
        assert_eq!(run.code, Some(2), "{rule}: {run:?}");
        assert!(run.stderr.contains(wanted), "{rule}: {}", run.stderr);
    }
    let run = folder.amn("convert plain.safetensors --to npz --rule *=keep");
    assert!(run.stderr.contains("--rule does not apply to the target npz"), "{run:?}");
}

#[test]
fn a_size_that_is_too_small_is_refused_with_the_smallest_possible() {
    let folder = samples::folder();
    let run = folder.amn("forget plain.safetensors --fit 100 --to q4_0,q8_0");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("no mix fits in 100 bytes: the smallest takes "), "{}", run.stderr);
    let least: u64 = run.stderr.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let line = format!("forget plain.safetensors --fit {least} --to q4_0,q8_0 -o fits.gguf");
    assert_eq!(folder.amn(&line).code, Some(0));
    assert_eq!(std::fs::metadata(folder.path("fits.gguf")).unwrap().len(), least);
    let run = folder.amn("forget plain.safetensors --fit 1GB --to q4_0,fp8");
    assert!(run.stderr.contains("a mix of q4_0 and fp8"), "{run:?}");
}

#[test]
fn types_of_single_tensors_are_matched_as_llama_quantize_does() {
    let folder = Folder::empty();
    let weight = |name: &'static str| Tensor::f32(name, [2, 256], 0.5);
    let tensors = ["blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.10.ffn_down.weight", "blk.0.attn_norm.weight"];
    fs::write(folder.path("model.safetensors"), safetensors(&tensors.map(weight))).unwrap();
    let forget =
        |options: &str| folder.amn(&format!("forget model.safetensors --to q8_0 --force -o out.gguf {options}"));
    forget(r"--tensor-type ATTN_[qv]=f16 --tensor-type attn_v=q4_0 --tensor-type blk\.\d+\.ffn=bf16").ok();
    let listed = folder.amn("parse out.gguf --list").ok();
    for (name, dtype) in [("attn_q", "F16"), ("attn_v", "F16"), ("ffn_down", "BF16"), ("attn_norm", "F32")] {
        let line = listed.lines().find(|line| line.contains(name)).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(dtype), "{listed}");
    }
    for (options, wanted) in [
        ("--tensor-type attn_v=q8_1", "\"Q8_1\" is not a known type that weights are stored in"),
        ("--output-tensor-type q8_k", "\"Q8_K\" is not a known type that weights are stored in"),
        ("--token-embedding-type q8_1", "\"Q8_1\" is not a known type that weights are stored in"),
        ("--tensor-type atn_v=q4_0", "no tensor matches the pattern \"atn_v\""),
        ("--tensor-type norm=q4_0", "none of them is quantised"),
        ("--tensor-type (=q4_0", "expression \"(\" cannot be read"),
        ("--tensor-type (?!a)b=q4_0", "cannot be read"),
        ("--tensor-type (a{1000}){1000}=q4_0", "cannot be read"),
        ("--tensor-type attn_v=q9", "write a type such as"),
        ("--tensor-type =q4_0", "write REGEX=TYPE"),
    ] {
        let run = forget(options);
        assert_eq!(run.code, Some(2), "{options}: {run:?}");
        assert!(run.stderr.contains(wanted), "{options}: {}", run.stderr);
    }
}

#[test]
fn a_weight_that_a_type_cannot_hold_is_refused_and_nothing_is_written() {
    let folder = Folder::empty();
    let weight = Tensor::f32("layer.weight", [32, 256], 1e9);
    fs::write(folder.path("model.safetensors"), safetensors(&[weight])).unwrap();
    for target in ["q4_0", "q6_k", "gptq-4bit", "awq-4bit"] {
        let run = folder.amn(&format!("forget model.safetensors --to {target}"));
        assert_eq!(run.code, Some(1), "{target}: {run:?}");
        assert!(run.stderr.contains("tensor \"layer.weight\": value 0 is 1e9, which "), "{target}: {}", run.stderr);
        assert!(run.stderr.contains("--allow-nonfinite"), "{target}: {}", run.stderr);
        assert_eq!(folder.names(), ["model.safetensors"], "{target}");
    }
    let text = folder.amn("forget model.safetensors --to q4_0 --allow-nonfinite").ok();
    assert!(text.contains("  Note: 8192 finite values decode to infinities or to NaN\n"), "{text}");
}
