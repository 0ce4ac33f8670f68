//! NumPy files are read like by NumPy, for all types, orders and compressions.

use std::path::PathBuf;

use crate::support::zip::{Entry, archive, npy};
use crate::support::{Contents, Folder, Model, TARGETS, Tensor, assert_mentions, difference, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, Dtype, Format, InspectOptions, InspectSummary, NpzDtype,
    NpzTensor, OpenOptions, Remedy, RememberOptions, TargetDtype, detect_format, inspect_npz, inspect_npz_from_reader,
    npz_to_safetensors, npz_to_safetensors_bytes, parse_npz, parse_npz_bytes, parse_npz_from_reader,
};

/// The fixtures with the file that NumPy wrote.
fn cases() -> Vec<(String, PathBuf)> {
    let names =
        std::fs::read_dir(fixture("npz")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> =
        names.filter_map(|name| Some(name.strip_suffix(".expected.safetensors")?.to_owned())).collect();
    cases.sort();
    let file = |case: &String| {
        ["npz", "npy"]
            .map(|kind| fixture(&format!("npz/{case}.{kind}")))
            .into_iter()
            .find(|path| path.exists())
            .unwrap()
    };
    cases.iter().map(|case| (case.clone(), file(case))).collect()
}

fn open(path: &std::path::Path) -> Checkpoint {
    let mut options = OpenOptions::new().with_skip_unsupported(true);
    if path.file_stem().unwrap() == "ml_dtypes" {
        options = options.with_npy_dtype("e4m3", Dtype::F8E4M3);
    }
    Checkpoint::open_with(path, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_fixture_becomes_what_numpy_loads() {
    let (cases, folder) = (cases(), Folder::new());
    assert!(cases.len() >= 12, "{cases:?}");
    for (case, path) in cases {
        let expected = Contents::read(fixture(&format!("npz/{case}.expected.safetensors")));
        let checkpoint = open(&path);
        for target in TARGETS {
            let suffix = format!(".{}", target.to_string().to_lowercase());
            let others = [".f32", ".bf16", ".f16"];
            let wanted: std::collections::BTreeMap<_, _> = expected
                .tensors
                .iter()
                .filter(|(name, _)| name.ends_with(&suffix) || !others.iter().any(|other| name.ends_with(other)))
                .map(|(name, tensor)| (name.strip_suffix(&suffix).unwrap_or(name), tensor))
                .collect();
            let plan = checkpoint.plan(target).unwrap();
            let bytes = plan.to_bytes(&RememberOptions::new().with_threads(1)).unwrap();
            let output = Contents::of(&bytes);
            assert!(output.tensors.keys().eq(wanted.keys()), "{case}: {:?}", output.names());
            for (name, tensor) in wanted {
                assert_eq!(difference(tensor, &output.tensors[name]), None, "{case} {target}: {name}");
            }
            let file = folder.path(&format!("{case}-{target}"));
            plan.write(&file, &RememberOptions::new().with_threads(3), |_| {}).unwrap();
            assert_eq!(std::fs::read(file).unwrap(), bytes, "{case}: any number of threads gives the same bytes");
        }
    }
}

#[test]
fn arrays_in_memory_are_the_same() {
    for case in ["dtypes_stored", "dtypes_deflated", "shapes_stored", "shapes_deflated", "piped_deflated"] {
        let path = fixture(&format!("npz/{case}.npz"));
        let expected = Contents::read(fixture(&format!("npz/{case}.expected.safetensors")));
        let arrays = parse_npz(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(parse_npz_bytes(bytes.clone()).unwrap(), arrays);
        assert_eq!(parse_npz_from_reader(&bytes[..]).unwrap(), arrays);
        assert_eq!(arrays.len(), expected.tensors.len());
        for (name, array) in &arrays {
            assert_eq!(array.name, *name);
            let found = Tensor { dtype: array.dtype.to_string(), shape: array.shape.clone(), data: array.data.clone() };
            assert_eq!(difference(&expected.tensors[name], &found), None, "{case}: {name}");
        }
        let written = npz_to_safetensors_bytes(&arrays).unwrap();
        assert_eq!(Contents::of(&written).tensors, expected.tensors);
        let folder = Folder::new();
        npz_to_safetensors(&arrays, folder.path("out")).unwrap();
        assert_eq!(std::fs::read(folder.path("out")).unwrap(), written);
        let plan = Checkpoint::open(&path, &Default::default()).unwrap();
        let plan = plan.plan(TargetDtype::BF16).unwrap();
        assert_eq!(plan.to_bytes(&RememberOptions::new()).unwrap(), written, "one way to do a thing underneath");
    }
}

#[test]
fn inspection_keeps_the_order_and_reads_no_elements() {
    let path = fixture("npz/shapes_stored.npz");
    let info = inspect_npz(&path).unwrap();
    assert_eq!(info.tensors[0].name, "fortran");
    assert_eq!(info.tensors[0].shape, [4, 3, 5]);
    assert_eq!(info.dtypes[..2], [NpzDtype::F32, NpzDtype::F64]);
    assert_eq!((info.tensor_count(), info.current_size()), (14, info.total_bytes));
    assert_eq!((info.dequantized_size(), info.output_dtype()), (info.total_bytes, TargetDtype::BF16));
    assert_mentions(
        &info.to_string(),
        &["Format:      NPZ archive\nTensors:     14\nTotal size:  ", "\nDtypes:      F32, F64"],
    );
    // The elements of one array are damaged, which only matters when they are read.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|window| window == b"(4, 3, 5)").unwrap() + 120;
    bytes[at] ^= 1;
    let again = inspect_npz_from_reader(std::io::Cursor::new(&bytes)).unwrap();
    assert_eq!(again.tensors, info.tensors);
    assert!(parse_npz_bytes(bytes).unwrap_err().to_string().contains("damaged"));
    let folder = Folder::new();
    folder.write("e5.npz", archive(&[Entry::stored("w.npy", &npy(&descr("<f1", "(4,)", false), &[0; 4]))]));
    let options = InspectOptions::new().with_output_dtype(TargetDtype::F32);
    let info = anamnesis::inspect_npz_with_options(folder.path("e5.npz"), &options).unwrap();
    assert_eq!((info.total_bytes, info.dequantized_size), (4, 16));
}

#[test]
fn unsupported_arrays_are_refused_by_name_or_skipped_with_a_note() {
    let path = fixture("npz/others.npz");
    let error = Checkpoint::open(&path, &Default::default()).err().unwrap().to_string();
    assert_mentions(&error, &["object", "|O"]);
    let error = Checkpoint::open(&path, &Default::default()).err().unwrap();
    assert!(matches!(error, AnamnesisError::TensorNotRead { remedy: Remedy::LeaveOut, .. }), "{error:?}");
    let checkpoint = open(&path);
    assert_eq!(checkpoint.tensor_count(), 1);
    let notes: String = checkpoint.notes().iter().map(|note| format!("{note}\n")).collect();
    for words in [
        ["object", "objects"],
        ["text", "text"],
        ["bytes", "text"],
        ["c16", "complex"],
        ["long", "long doubles"],
        ["date", "dates"],
    ] {
        assert_mentions(&notes, &words);
    }
    assert_mentions(&notes, &["record", "[('a', '<f4'), ('b', '<i2', (2,))]"]);
    assert_eq!(checkpoint.notes().len(), 8);
}

#[test]
fn a_type_that_the_file_does_not_record_comes_from_the_caller() {
    let path = fixture("npz/ml_dtypes.npz");
    let error = |options: OpenOptions| Checkpoint::open_with(&path, &options).err().unwrap().to_string();
    assert_mentions(&error(OpenOptions::new()), &["\"e4m3\"", "does not identify", "<V1"]);
    let unnamed = Checkpoint::open(&path, &Default::default()).err().unwrap();
    let AnamnesisError::TensorNotRead { remedy, .. } = unnamed else { panic!("{unnamed}") };
    assert_eq!(remedy, Remedy::NameType { array: "e4m3".to_owned() });
    let told = OpenOptions::new().with_npy_dtype("e4m3", Dtype::F8E4M3);
    assert_mentions(
        &error(told.clone().with_npy_dtype("none", Dtype::F8E4M3)),
        &["array \"none\", which does not exist"],
    );
    assert_mentions(&error(told.clone().with_npy_dtype("bf16", Dtype::F32)), &["bf16", "does not have the width of"]);
    assert_mentions(&error(told.clone().with_npy_dtype("e5m2", Dtype::F4)), &["e5m2", "does not have the width of"]);
    let checkpoint = Checkpoint::open_with(&path, &told.with_npy_dtype("bf16", Dtype::F16)).unwrap();
    let types: Vec<_> = checkpoint.tensors().iter().map(|tensor| tensor.dtype).collect();
    assert_eq!(types, [Dtype::F16, Dtype::F8E4M3, Dtype::F8E5M2]);
}

#[test]
fn a_single_array_is_a_model_of_one_tensor() {
    let path = fixture("npz/version_1.npy");
    assert_eq!(detect_format(&path).unwrap(), Format::Npy);
    let checkpoint = Checkpoint::open(&path, &Default::default()).unwrap();
    assert_eq!(checkpoint.tensors()[0].name, "version_1");
    assert_eq!(checkpoint.facts().unwrap().title, "NPY array");
    let bytes = std::fs::read(&path).unwrap();
    let unnamed = Checkpoint::from_bytes(bytes.clone(), &Default::default()).unwrap();
    assert_eq!(unnamed.tensors()[0].name, "array");
    assert_eq!(*unnamed.tensor_data("array").unwrap().unwrap(), bytes[128..]);
    let folder = Folder::new();
    let archive = folder.path("no_extension");
    std::fs::copy(fixture("npz/shapes_stored.npz"), &archive).unwrap();
    assert_eq!(detect_format(&archive).unwrap(), Format::Npz);
}

fn descr(descr: &str, shape: &str, fortran: bool) -> String {
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

/// Arrays of several tiles have the same values in every combination of order and compression.
#[test]
fn large_arrays_do_not_depend_on_how_they_are_stored() {
    const ROWS: usize = 500;
    const COLUMNS: usize = 600;
    let value = |row: usize, column: usize| (row * 31 + column * 7) as u32 % 1021;
    let c_order = || (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| value(row, column)));
    let fortran = || (0..COLUMNS).flat_map(|column| (0..ROWS).map(move |row| value(row, column)));
    let little: Vec<u8> = c_order().flat_map(u32::to_le_bytes).collect();
    let shape = format!("({ROWS}, {COLUMNS})");
    let contents = [
        ("little", npy(&descr("<u4", &shape, false), &little)),
        ("big", npy(&descr(">u4", &shape, false), &c_order().flat_map(u32::to_be_bytes).collect::<Vec<_>>())),
        ("across", npy(&descr("<u4", &shape, true), &fortran().flat_map(u32::to_le_bytes).collect::<Vec<_>>())),
        ("both", npy(&descr(">u4", &shape, true), &fortran().flat_map(u32::to_be_bytes).collect::<Vec<_>>())),
    ];
    let entries: Vec<_> = contents
        .iter()
        .flat_map(|(name, content)| {
            [Entry::stored(&format!("{name}.npy"), content), Entry::deflated(&format!("{name}_deflated.npy"), content)]
        })
        .collect();
    let folder = Folder::new();
    let path = folder.write("m.npz", archive(&entries));
    let checkpoint = Checkpoint::open(&path, &Default::default()).unwrap();
    let plan = checkpoint.plan(TargetDtype::BF16).unwrap();
    for threads in [1, 4] {
        let output = Contents::of(&plan.to_bytes(&RememberOptions::new().with_threads(threads)).unwrap());
        assert_eq!(output.tensors.len(), 8);
        for (name, tensor) in &output.tensors {
            assert!(tensor.data == little, "{name}");
        }
    }
    let arrays = parse_npz(&path).unwrap();
    assert!(arrays.values().all(|array| array.data == little));
    for (index, entry) in entries.iter().enumerate() {
        let mut damaged = entries.clone();
        damaged[index] = entry.clone().both(|head| head.crc ^= 1);
        let path = folder.write("damaged.npz", archive(&damaged[index..=index]));
        let checkpoint = Checkpoint::open(&path, &Default::default()).unwrap();
        let plan = checkpoint.plan(TargetDtype::BF16).unwrap();
        let error = plan.write(folder.path("out"), &RememberOptions::new().with_threads(2), |_| {}).unwrap_err();
        assert_mentions(&error.to_string(), &["damaged"]);
        assert!(!folder.path("out").exists());
    }
}

#[test]
fn array_headers_can_be_built_by_hand() {
    let literal = NpzTensor {
        name: "x".into(),
        shape: vec![2],
        dtype: NpzDtype::F32,
        data: [1.0f32, 2.0].map(f32::to_le_bytes).concat(),
    };
    assert_eq!(literal, NpzTensor::new("x".into(), vec![2], NpzDtype::F32, literal.data.clone()));
    assert_eq!(NpzDtype::F32.to_dtype().unwrap(), Dtype::F32);
    const IN_SAFETENSORS: anamnesis::Result<safetensors::Dtype> = NpzDtype::Bool.to_safetensors_dtype();
    assert_eq!(IN_SAFETENSORS.unwrap(), safetensors::Dtype::BOOL);
    assert_eq!((NpzDtype::C64.byte_size(), NpzDtype::Bool.to_string()), (8, "BOOL".to_owned()));
    let mut map = std::collections::HashMap::from([("x".to_owned(), literal)]);
    assert_eq!(Contents::of(&npz_to_safetensors_bytes(&map).unwrap()).floats("x"), [1.0, 2.0]);
    map.get_mut("x").unwrap().shape = vec![3];
    assert!(npz_to_safetensors_bytes(&map).unwrap_err().to_string().contains("\"x\""));
}

#[test]
fn a_tensor_name_that_escapes_the_folder_is_not_written_as_an_array() {
    for name in ["../w", "a/../../w", "/w", "a\\w", "c:w"] {
        let folder = Folder::staged(&Model::new().floats(name, &[1], &[1.0]).bytes(), None);
        let options = ConvertOptions::new();
        let outcome =
            anamnesis::convert::convert(&folder.model(), ConvertTarget::Npz, &folder.path("out.npz"), &options);
        let error = outcome.expect_err(name);
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("the name"), "{error}");
        assert_eq!(folder.names(), ["model.safetensors"], "{name}");
    }
}
