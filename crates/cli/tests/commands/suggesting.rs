//! Suggestions in error messages and notes.

use std::fs;

use crate::samples;

#[test]
fn errors_suggest_a_remedy() {
    let folder = samples::folder();
    fs::create_dir(folder.path("nothing-in-it")).unwrap();
    fs::copy(folder.path("model-fp8.safetensors"), folder.path("renamed.gguf")).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    for name in ["pointer.safetensors", "pointer.gguf", "pointer.npz", "pointer.npy"] {
        fs::write(folder.path(name), pointer).unwrap();
        let error = folder.amn(&format!("inspect {name}")).failed();
        assert!(error.contains("Git LFS pointer") && error.contains("git lfs pull"), "{error}");
    }
    for (line, tip) in [
        ("inspect modle.gguf", "did you mean model.gguf?"),
        ("inspect model-fp8.gguf", "did you mean model-fp8.safetensors"),
        ("verify ./modell.gguf", "did you mean ./model.gguf?"),
        ("inspect meta-llama/Llama-3.1-8B", "hf:meta-llama/Llama-3.1-8B"),
        ("inspect no-such/model.gguf", "there is no folder no-such"),
        ("inspect nothing-in-it", "name a directory with .safetensors or .gguf files"),
        ("inspect empty.safetensors", "the file is empty"),
        ("inspect notes.txt", "amn formats lists what is read"),
        ("inspect renamed.gguf", "looks like a safetensors file"),
        ("inspect model.gguf --to bfloat16", "did you mean bf16?"),
        ("remember model.gguf --to fp32", "did you mean f32?"),
        ("convert model.gguf --to safetensor", "did you mean safetensors?"),
        ("convert model.gguf --to gguf --gguf-remove-kv general.nam", "did you mean general.name"),
        ("convert model.gguf --to gguf --gguf-metadata confg.json", "did you mean config.json?"),
        ("inspect hf:nobody/nothing", "hf download nobody/nothing"),
        ("forget plain.safetensors --to bnb-nf", "did you mean bnb-nf4"),
        ("inspect model.gguf --metadata general.architectur", "did you mean general.architecture?"),
        ("parse model.gguf --include blk.0.atn_q.weight", "did you mean blk.0.attn_q.weight"),
        ("parse model.gguf --exclude zzz*", "amn parse --list shows the names"),
        ("inspect Tiny-GPTQ --include no.such.thing", "amn parse --list shows the names"),
        ("parse Tiny-GPTQ --include *.scales", ".scales is a part of model.layers.0.self_attn.q_proj.weight"),
        ("remember plain.safetensors --include model.nrm.*", "did you mean model.norm.weight"),
        ("convert plain.safetensors --to gguf --exclude model.nrm.*", "did you mean model.norm.weight"),
        ("remember Tiny-3.1-FP8 --include model.nrm.*", "did you mean model.norm.weight"),
    ] {
        let error = folder.amn(line).refused();
        assert!(error.contains(tip) && !error.contains("hf:hf:"), "amn {line}: {error}");
    }
}

#[test]
fn commands_and_options_are_corrected() {
    let folder = samples::folder();
    for (line, tip) in [
        ("inspct model.gguf", "'inspect'"),
        ("inspect model.gguf --metdata", "'--metadata'"),
        ("parse model.gguf --sort sz", "'size'"),
        ("completions bsh", "'bash'"),
        ("man rember", "did you mean remember?"),
    ] {
        let run = folder.amn(line);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(tip), "amn {line}: {run:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_without_read_permission_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = samples::folder();
    fs::set_permissions(folder.path("model.gguf"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(folder.path("model.gguf")).is_ok() {
        // Root may read everything.
        return;
    }
    let error = folder.amn("inspect model.gguf").failed();
    assert!(error.contains("reading it is not allowed"), "{error}");
}

#[test]
fn skipped_data_is_noted_with_the_option_that_reads_it() {
    let folder = samples::folder();
    for fixture in ["pth/other_kinds.pth", "npz/ml_dtypes.npz", "npz/others.npz"] {
        let name = fixture.rsplit('/').next().unwrap();
        fs::copy(samples::fixtures().join(fixture), folder.path(name)).unwrap();
    }
    for (line, tip) in [
        ("inspect other_kinds.pth", "; --skip-unsupported omits them"),
        ("inspect others.npz", "; --skip-unsupported omits them"),
        ("inspect ml_dtypes.npz", "; if it is E4M3, add `--npy-dtype e4m3=e4m3`"),
        ("remember ml_dtypes.npz", "; if it is E4M3, add `--npy-dtype e4m3=e4m3`"),
    ] {
        let error = folder.amn(line).failed();
        assert!(error.contains(tip), "amn {line}: {error}");
    }
    let notes = "left out \"optimizer\", \"step\", \"mean\" (--all or --select reads them)";
    assert!(folder.amn("inspect checkpoint.pth").ok().contains(notes));
    assert!(folder.amn("inspect checkpoint.pth --json").json()["notes"][0].as_str().unwrap().ends_with(notes));
}
