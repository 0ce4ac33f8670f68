//! `forget --compare`, `--rule` and `--fit`.

use crate::samples;

#[test]
fn a_comparison_writes_nothing_and_fails_only_where_no_target_can_be_had() {
    let folder = samples::folder();
    let run = folder.amn("forget plain.safetensors --compare w4a16,fp8-channel,fp8-channel");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout.matches("fp8-channel").count(), 1, "{}", run.stdout);
    assert!(run.stdout.contains("w4a16: cannot be: w4a16 needs groups of 128 values"), "{}", run.stdout);
    let run = folder.amn("forget plain.safetensors --compare w4a16");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("--exclude leaves them as they are"), "{}", run.stderr);
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
fn a_rule_that_cannot_be_is_told_by_name() {
    let folder = samples::folder();
    for (rule, wanted) in [
        ("nothing", "write GLOB=TARGET"),
        ("=keep", "write GLOB=TARGET"),
        ("*=w5a16", "\"w5a16\" is no way of quantising"),
        ("*=bnb-nf4", "bnb-nf4 for * beside fp8-channel"),
        ("nothing*=keep", "no tensor fits the pattern \"nothing*\""),
    ] {
        let run = folder.amn(&format!("forget plain.safetensors --to fp8-channel --rule {rule}"));
        assert_eq!(run.code, Some(2), "{rule}: {run:?}");
        assert!(run.stderr.contains(wanted), "{rule}: {}", run.stderr);
    }
    let run = folder.amn("convert plain.safetensors --to npz --rule *=keep");
    assert!(run.stderr.contains("--rule has no meaning for the target npz"), "{run:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_the_least_there_is() {
    let folder = samples::folder();
    let run = folder.amn("forget plain.safetensors --fit 100 --to q4_0,q8_0");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("nothing fits in 100 bytes: the smallest mix takes "), "{}", run.stderr);
    let least: u64 = run.stderr.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let line = format!("forget plain.safetensors --fit {least} --to q4_0,q8_0 -o fits.gguf");
    assert_eq!(folder.amn(&line).code, Some(0));
    assert_eq!(std::fs::metadata(folder.path("fits.gguf")).unwrap().len(), least);
    let run = folder.amn("forget plain.safetensors --fit 1GB --to q4_0,fp8");
    assert!(run.stderr.contains("a mix of q4_0 and fp8"), "{run:?}");
}
