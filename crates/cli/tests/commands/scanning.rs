//! `scan`, and PyTorch files that refer to code.

use std::fs;

use crate::folder::{Folder, MODEL};

/// A folder with a fixture of the library under its own name.
fn with(fixture: &str) -> Folder {
    let folder = Folder::empty();
    let source = format!("{}/../anamnesis/tests/fixtures/pth/{fixture}", env!("CARGO_MANIFEST_DIR"));
    fs::copy(source, folder.path(fixture)).unwrap();
    folder
}

#[test]
fn a_file_of_tensors_is_safe() {
    let wanted = "\
bare.pt: PyTorch archive, 1 pickle
  bare/data.pkl
           2  allowed  torch._utils._rebuild_tensor_v2
          53  allowed  torch.FloatStorage
         112  allowed  collections.OrderedDict
safe to convert
";
    let folder = with("bare.pt");
    assert_eq!(folder.amn("scan bare.pt").ok(), wanted);
    let document = folder.amn("scan bare.pt --json").json();
    assert_eq!((&document["verdict"], &document["command"]), (&"safe".into(), &"scan".into()));
    let global = &document["pickles"][0]["globals"][1];
    assert_eq!(
        (&global["name"], &global["position"], &global["allowed"]),
        (&"FloatStorage".into(), &53.into(), &true.into())
    );
}

#[test]
fn a_file_that_refers_to_code_is_told_and_refused() {
    let folder = with("whole_module.pth");
    let run = folder.amn("scan whole_module.pth");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("REFUSED  torch.nn.modules.container.Sequential"), "{run:?}");
    assert!(run.stderr.starts_with("error: refers to code: 3 names are refused"), "{run:?}");
    let run = folder.amn("scan whole_module.pth --json");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("\"verdict\":\"refers_to_code\"") && run.stderr.contains("\"unsafe\""), "{run:?}");
    let error = folder.amn("remember whole_module.pth").failed();
    assert!(error.contains("torch.nn.modules.container.Sequential") && error.contains("amn scan"), "{error}");
    assert_eq!(folder.names(), ["whole_module.pth"]);
}

#[test]
fn a_wrong_name_hides_nothing_and_nonsense_is_malformed() {
    let folder = Folder::empty();
    fs::write(folder.path("model.safetensors"), b"\x80\x02cos\nsystem\nU\x02ls\x85R.").unwrap();
    assert_eq!(folder.amn("scan model.safetensors").code, Some(1));
    fs::write(folder.path("cut.pkl"), b"\x80\x02}").unwrap();
    let run = folder.amn("scan cut.pkl");
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "error: malformed: not everything could be read\n"));
}

#[test]
fn formats_without_pickles_hold_no_code() {
    let wanted = format!("{MODEL}: safetensors file, 0 pickles\nholds no code\n");
    assert_eq!(Folder::with_model().amn(&format!("scan {MODEL}")).ok(), wanted);
}
