//! Options for inputs without a configuration.

use std::fs;

use crate::samples;

#[test]
fn an_undetermined_gptq_format_can_be_set() {
    let folder = samples::folder();
    fs::create_dir(folder.path("untold")).unwrap();
    fs::copy(folder.path("Tiny-GPTQ/model.safetensors"), folder.path("untold/model.safetensors")).unwrap();
    let error = folder.amn("remember untold/model.safetensors").failed();
    assert!(error.contains("the GPTQ format is not defined; it can be v1 or v2"), "{error}");
    assert!(error.contains("say it with --gptq-format, or name the model's configuration with --config"), "{error}");

    let decoded = |line: &str| {
        folder.amn(&format!("remember {line} --to f32 -o out.safetensors --force")).ok();
        fs::read(folder.path("out.safetensors")).unwrap()
    };
    let expected = decoded("Tiny-GPTQ/model.safetensors");
    assert_eq!(decoded("untold/model.safetensors --gptq-format v1"), expected);
    assert_eq!(decoded("untold/model.safetensors --config Tiny-GPTQ/config.json"), expected);
    assert_ne!(decoded("untold/model.safetensors --gptq-format v2"), expected);
}

#[test]
fn a_missing_or_invalid_configuration_is_named() {
    let folder = samples::folder();
    let error = folder.amn("inspect Tiny-GPTQ --config confg.json").failed();
    assert!(error.contains("confg.json: no such file") && error.contains("did you mean config.json?"), "{error}");
    fs::write(folder.path("wrong.json"), r#"{"quant_method": "gptq", "bits": "4"}"#).unwrap();
    let error = folder.amn("remember Tiny-GPTQ/model.safetensors --config wrong.json").failed();
    assert!(error.contains(r#"wrong.json: bits is "4", a number is needed"#), "{error}");
    let run = folder.amn("inspect Tiny-GPTQ --gptq-format v3");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("write v1 or v2"), "{run:?}");
}
