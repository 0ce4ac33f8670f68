//! Outputs and refusals of `remember`.

use std::fs;

use crate::folder::{Folder, MODEL};
#[cfg(unix)]
use crate::folder::{Run, program};

#[test]
fn a_model_is_decoded_beside_its_input() {
    let wanted = "\
Parsing...  3 tensors, Fine-grained FP8 (E4M3), 128x128 blocks
Recalling... 1 tensor
  Size: 1.29 KB -> 2.09 KB
Output: model-bf16.safetensors (1.88 KB)
";
    let folder = Folder::with_model();
    assert_eq!(folder.amn("remember model-fp8.safetensors").ok(), wanted);
    assert_eq!(folder.names(), ["config.json", "model-bf16.safetensors", MODEL]);
    let decoded = folder.amn("inspect model-bf16.safetensors").ok();
    assert!(decoded.contains("1.88 KB (unquantized) -> 1.88 KB (BF16)"), "{decoded}");
}

#[test]
fn the_old_name_of_the_command_and_other_types_work() {
    let folder = Folder::with_model();
    folder.amn("dequantize model-fp8.safetensors --to F32 --threads 2").ok();
    folder.amn("remember model-fp8.safetensors --to f16 -o half.safetensors").ok();
    assert_eq!(folder.names(), ["config.json", "half.safetensors", "model-f32.safetensors", MODEL]);
}

#[test]
fn the_document_describes_the_output() {
    let folder = Folder::with_model();
    let document = folder.amn("remember model-fp8.safetensors --json").json();
    assert_eq!((&document["command"], &document["output"]), (&"remember".into(), &"model-bf16.safetensors".into()));
    assert_eq!((&document["decoded"], &document["copied"]), (&1.into(), &1.into()));
    let written = fs::metadata(folder.path("model-bf16.safetensors")).unwrap().len();
    assert_eq!(document["bytes"], written);
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let wanted = "\
Parsing...  3 tensors, Fine-grained FP8 (E4M3), 128x128 blocks

NAME                                 SHAPE        SIZE  HOW
lm_head.weight                       [4, 8]       64 B  copied
model.layers.0.mlp.down_proj.weight  [130, 7]  1.82 KB  1
all tensors: dtype BF16
how 1: FP8 E4M3, 128x128 blocks, from .weight + .weight_scale

Would write model-bf16.safetensors (2.09 KB): 1 decoded to BF16, 1 copied
Memory: about 6.29 MB
Disk: 2.09 KB needed, \
";
    let folder = Folder::with_model();
    let text = folder.amn("remember model-fp8.safetensors --dry-run --threads 1").ok();
    // Windows is not asked for the free space.
    let is_end = cfg!(windows) || text.ends_with(" free\n");
    assert!(text.starts_with(wanted.trim_end_matches([' ', ','])) && is_end, "{text}");
    let document = folder.amn("remember model-fp8.safetensors --dry-run --json").json();
    assert_eq!(document["tensors"][1]["sources"][1], "model.layers.0.mlp.down_proj.weight_scale");
    assert_eq!((&document["dry_run"], &document["output_exists"]), (&true.into(), &false.into()));
    assert_eq!(folder.names(), ["config.json", MODEL]);
}

#[test]
fn a_dry_run_reports_an_existing_output() {
    let folder = Folder::with_model();
    fs::write(folder.path("model-bf16.safetensors"), "old").unwrap();
    let text = folder.amn("remember model-fp8.safetensors --dry-run").ok();
    assert!(text.ends_with("exists: --force replaces it, -o chooses another name\n"), "{text}");
}

#[test]
fn an_unknown_type_lists_the_known_ones() {
    let folder = Folder::with_model();
    for command in ["inspect", "remember"] {
        let error = folder.amn(&format!("{command} {MODEL} --to int3")).refused();
        assert!(error.contains("unsupported format `int3`") && error.contains("supported target dtypes"), "{error}");
    }
}

#[test]
fn an_existing_output_is_kept_until_forced() {
    let folder = Folder::with_model();
    let output = folder.path("model-bf16.safetensors");
    fs::write(&output, "old").unwrap();
    let error = folder.amn("remember model-fp8.safetensors").failed();
    assert!(error.contains("model-bf16.safetensors: exists already") && error.contains("--force"), "{error}");
    assert_eq!(fs::read(&output).unwrap(), b"old");
    folder.amn("remember model-fp8.safetensors --force").ok();
    assert!(fs::metadata(&output).unwrap().len() > 1000);
    assert_eq!(folder.names(), ["config.json", "model-bf16.safetensors", MODEL]);
}

#[test]
fn the_input_is_never_the_output() {
    let folder = Folder::with_model();
    let before = fs::read(folder.path(MODEL)).unwrap();
    let error = folder.amn("remember model-fp8.safetensors --force -o ./model-fp8.safetensors").failed();
    assert!(error.contains("the output is the input itself"), "{error}");
    assert_eq!(fs::read(folder.path(MODEL)).unwrap(), before);
}

#[test]
fn an_unwritable_path_is_named() {
    let folder = Folder::with_model();
    let missing = folder.amn("remember model-fp8.safetensors -o no/such/out.safetensors").failed();
    assert!(missing.contains("no/such: there is no such folder"), "{missing}");
    assert!(folder.amn("remember model-fp8.safetensors -o out/").failed().contains("a file name is needed"));
    assert!(folder.amn("remember model-fp8.safetensors -o .").failed().contains("a file name is needed"));
    if cfg!(target_os = "linux") {
        // Not even root can create files there.
        let unwritable = folder.amn("remember model-fp8.safetensors -o /proc/out.safetensors").failed();
        assert!(unwritable.contains("cannot write /proc/out.safetensors"), "{unwritable}");
    }
    assert_eq!(folder.names(), ["config.json", MODEL]);
}

/// A file size limit simulates a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = Folder::with_fixture("ragged_both");
    let script = "trap '' XFSZ; ulimit -f 2; exec \"$0\" remember model-fp8.safetensors";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(program()).current_dir(folder.root());
    let error = Run::of(shell.output().unwrap()).failed();
    assert!(error.contains("model-bf16.safetensors: ") && error.contains("nothing was left behind"), "{error}");
    assert_eq!(folder.names(), ["config.json", MODEL]);
}

#[test]
fn the_table_of_a_plan_fits_the_page_and_notes_what_it_omits() {
    let folder = Folder::empty();
    let names =
        ["language_model.model.transformer.decoder.layers.117.block_sparse_moe.experts.63.down_proj.weight", "w"];
    folder.add_sparse("long.safetensors", "U8", &names, 1 << 10);
    for line in [
        "remember long.safetensors --dry-run",
        "convert long.safetensors --to npz --dry-run",
        "parse long.safetensors -l",
    ] {
        let whole = folder.amn(line).ok();
        assert!(whole.contains(names[0]) && !whole.contains('…'), "{whole}");
        let text = folder.amn_on(80, line).ok();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let row = text.lines().find(|line| line.contains('…')).unwrap();
        assert!(row.contains("117") && row.contains("63"), "{text}");
        assert!(text.contains("\n(… marks text cut to fit 80 columns)\n"), "{text}");
        assert!(folder.amn_on(200, line).ok().contains(names[0]));
    }
    let text = Folder::with_model().amn("remember model-fp8.safetensors --dry-run").ok();
    assert!(!text.contains('…'), "{text}");
}
