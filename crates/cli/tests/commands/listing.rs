//! Selection and order of `parse` lists, `--verbose`, and colours.

use crate::folder::Folder;
use crate::samples;

/// The first words of the lines of a table below its heading, up to the next blank line.
fn names(text: &str) -> Vec<&str> {
    let table = text.split("NAME ").nth(1).unwrap_or_else(|| panic!("no table in {text}"));
    let rows = table.lines().skip(1).take_while(|line| !line.is_empty() && !line.starts_with("all tensors: "));
    rows.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn tensors_are_listed_in_the_order_asked_for() {
    let folder = samples::folder();
    let listed = |by: &str| folder.amn(&format!("parse plain.safetensors --sort {by}")).ok();
    let sizes = listed("size");
    let norm = names(&sizes);
    assert_eq!((norm[0], norm[3]), ("model.layers.0.mlp.down_proj.weight", "model.norm.weight"));
    let by_name = listed("name");
    assert!(names(&by_name).is_sorted());
    let by_type = folder.amn("parse model.gguf --sort dtype").ok();
    assert_eq!(names(&by_type)[..2], ["blk.0.half.weight", "blk.0.attn_norm.weight"], "{by_type}");
    let document = folder.amn("parse plain.safetensors --sort size --json").json();
    assert_eq!(document["tensors"][3]["name"], "model.norm.weight");
}

#[test]
fn shards_are_numbers_and_shapes_are_in_one_order() {
    let folder = samples::folder();
    let text = folder.amn("parse Tiny-3.1-FP8 --list").ok();
    assert!(
        text.lines().any(|line| line.ends_with(" 1/2")) && text.lines().any(|line| line.ends_with(" 2/2")),
        "{text}"
    );
    // Text output has the order of the file, JSON that of every other format.
    let (lines, table) = (folder.amn("parse model.gguf").ok(), folder.amn("parse model.gguf --list").ok());
    for tensor in folder.amn("parse model.gguf --list --json").json()["tensors"].as_array().unwrap() {
        let mut shape: Vec<_> = tensor["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect();
        shape.reverse();
        let (shape, name) = (format!("{shape:?}"), tensor["name"].as_str().unwrap());
        for text in [&lines, &table] {
            let found = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            assert!(found.contains(&shape), "{name} {shape}: {found}");
        }
    }
}

#[test]
fn patterns_choose_weights_with_their_parts() {
    let folder = samples::folder();
    let text = folder.amn("parse plain.safetensors --list --include model.layers.* --exclude *.1.*").ok();
    assert_eq!(names(&text), ["model.layers.0.mlp.down_proj.weight"]);
    // The weight is stored in parts with other names.
    let weight = folder.amn("parse Tiny-GPTQ --filter *.weight --list --json").json();
    let parts = weight["tensors"].as_array().unwrap();
    assert!(parts.iter().any(|tensor| tensor["name"].as_str().unwrap().ends_with(".qweight")), "{weight}");
    assert_eq!(parts.len(), 4);
}

#[test]
fn inspect_forecasts_what_a_selection_decodes_to() {
    let folder = samples::folder();
    let line = "model-fp8.safetensors --include model.* --json";
    let inspected = folder.amn(&format!("inspect {line}")).json();
    let planned = folder.amn(&format!("remember {line} --dry-run")).json();
    let bytes: u64 =
        planned["tensors"].as_array().unwrap().iter().map(|tensor| tensor["bytes"].as_u64().unwrap()).sum();
    assert_eq!((&inspected["decoded_bytes"], &inspected["quantized"]), (&bytes.into(), &1.into()));
    assert_eq!(inspected["passthrough"], 0);
}

#[test]
fn verbose_prints_decisions_on_standard_error() {
    let folder = samples::folder();
    let plain = folder.amn("inspect model-fp8.safetensors").ok();
    let run = folder.amn("inspect model-fp8.safetensors -v");
    assert_eq!((run.code, &run.stdout), (Some(0), &plain));
    for words in
        ["1 file of safetensors, 3 tensors", "down_proj.weight: FP8 E4M3, 128x128 blocks, from ", "config.json: "]
    {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    for line in ["remember model-fp8.safetensors", "convert model.gguf --to npz", "remember Tiny-3.1-FP8"] {
        let run = folder.amn(&format!("{line} --verbose"));
        assert!(run.code == Some(0) && run.stderr.contains("\nwrote ") && run.stderr.contains("/s\n"), "{run:?}");
    }
    assert_eq!(folder.amn("inspect model.gguf -v -q").code, Some(2));
}

#[test]
fn colours_are_for_terminals_or_on_request() {
    let folder = samples::folder();
    assert!(folder.amn("parse -l plain.safetensors --color always").ok().contains("\u{1b}[1mNAME"));
    for line in ["parse -l plain.safetensors", "parse -l plain.safetensors --color never", "formats --color=auto"] {
        assert!(!folder.amn(line).ok().contains('\u{1b}'), "{line}");
    }
    let error = folder.amn("parse nothing --color always").stderr;
    assert!(error.starts_with("\u{1b}[31m\u{1b}[1merror:\u{1b}[0m "), "{error:?}");
    assert!(folder.amn("frobnicate --color always").stderr.contains("\u{1b}["));
    assert!(!folder.amn("frobnicate").stderr.contains('\u{1b}'));
}

#[test]
fn pages_and_completions_come_from_the_definition() {
    let folder = Folder::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.amn(&format!("completions {shell}")).ok();
        assert!(script.contains("remember") && script.contains("skip-unsupported"), "{shell}");
    }
    let bash = folder.amn("completions bash").ok();
    for values in
        ["safetensors gguf npz bnb-nf4", "compgen -W \"bf16 f16 f32\"", "name size dtype", "auto always never"]
    {
        assert!(bash.contains(values), "{values}");
    }
    let page = folder.amn("man remember").ok();
    for lines in
        [".SH EXAMPLES\n.nf\n  amn remember", ".fi\n.SH EXIT STATUS\n.nf\n  0 done", "\nA file becomes a file;"]
    {
        assert!(page.contains(lines), "{page}");
    }
    let first = folder.amn("man").ok();
    assert!(first.contains("\n  amn demo    ") && first.contains(".SH ENVIRONMENT\n"), "{first}");
    assert!(page.contains(".TH amn-remember 1") && page.contains("\\-\\-shard\\-size"), "{page}");
    assert_eq!(folder.amn("man dequantize").ok(), page);
    folder.amn("man --dir pages").ok();
    let pages = crate::checkpoint::files(&folder.path("pages"));
    for command in crate::snapshots::names() {
        assert!(pages.contains_key(&format!("amn-{command}.1")), "{command}: {:?}", pages.keys());
    }
    assert!(pages.contains_key("amn.1"));
}

#[test]
fn tables_fit_eighty_columns_and_never_cut_the_number_of_a_layer() {
    let folder = Folder::empty();
    let name = |layer: usize| {
        format!("model.language_model.layers.{layer}.block_sparse_moe.experts.{}.down_proj.weight", layer * 7)
    };
    let names: Vec<_> = (0..12).map(name).collect();
    folder.add_sparse("deep.safetensors", "U8", &names.iter().map(String::as_str).collect::<Vec<_>>(), 4096);
    // Output to a pipe is not truncated.
    let whole = folder.amn("parse deep.safetensors --list").ok();
    assert!(!whole.contains('…') && names.iter().all(|name| whole.contains(name)), "{whole}");
    let text = folder.amn_on(80, "parse deep.safetensors --list").ok();
    let table: Vec<_> = text.lines().skip_while(|line| !line.starts_with("NAME")).skip(1).take(12).collect();
    assert!(text.contains("\nall tensors: dtype U8, shape [4096], role passthrough\n"), "{text}");
    for (layer, line) in table.iter().enumerate() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(line.contains(&layer.to_string()) && line.contains(&(layer * 7).to_string()), "{line}");
    }
}
