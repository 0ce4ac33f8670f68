//! Every block type of GGUF is decoded to the bits that ggml and its Python package give, at every CPU level there is.

use crate::support::{Contents, Folder, TARGETS, difference, fixture};
use anamnesis::{Bf16Out, BlockType, CpuLevel, F16Out, F32Out, GgufType, RememberOptions, TargetDtype, parse_gguf};

fn cases() -> Vec<String> {
    let names =
        std::fs::read_dir(fixture("gguf")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> =
        names.filter_map(|name| Some(name.strip_suffix(".expected.safetensors")?.to_owned())).collect();
    cases.sort();
    cases
}

#[test]
fn every_fixture_is_decoded_bit_for_bit() {
    let cases = cases();
    assert!(cases.len() >= 27, "{cases:?}");
    let mut compared = 0;
    for case in &cases {
        let expected = Contents::read(fixture(&format!("gguf/{case}.expected.safetensors")));
        let model = parse_gguf(fixture(&format!("gguf/{case}.gguf"))).unwrap();
        for (target, level) in TARGETS.into_iter().flat_map(|target| CpuLevel::available().map(move |it| (target, it)))
        {
            let options = RememberOptions::new().with_cpu_level(level);
            let output = Contents::of(&model.remember_to_bytes_with_options(target, options).unwrap());
            let place = format!("{case} {target} at {level}");
            let suffix = format!(".{}", target.to_string().to_lowercase());
            for (name, wanted) in expected.tensors.iter().filter_map(|(name, t)| Some((name.strip_suffix(&suffix)?, t)))
            {
                let stored = model.tensors().find(|tensor| tensor.name == name).unwrap();
                let found = output.tensors.get(name).unwrap_or_else(|| panic!("{place}: no {name}"));
                if !stored.dtype.is_quantized() {
                    assert_eq!(found.data, *stored.data, "{place}: {name} is a scalar and stays as it is");
                    if found.dtype == wanted.dtype {
                        assert_eq!(difference(wanted, found), None, "{place}: {name}");
                    }
                    continue;
                }
                assert_eq!(difference(wanted, found), None, "{place}: {name}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 3 * 27 * CpuLevel::available().count(), "{compared}");
}

#[test]
fn all_block_types_have_a_fixture() {
    let mut seen = std::collections::BTreeSet::new();
    for case in cases() {
        let model = parse_gguf(fixture(&format!("gguf/{case}.gguf"))).unwrap();
        seen.extend(model.tensor_info().iter().map(|tensor| tensor.dtype.to_string()));
    }
    let missing: Vec<_> = BlockType::all().map(|block| block.to_string()).filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn tensors_slices_and_blocks_agree_with_the_whole_file() {
    let model = parse_gguf(fixture("gguf/q4_k.gguf")).unwrap();
    let info = model.tensor_info().iter().find(|tensor| tensor.dtype == GgufType::Q4_K).unwrap();
    let whole = Contents::of(&model.remember_to_bytes(TargetDtype::F32).unwrap());
    let values = model.dequantize_tensor_as::<F32Out>(info).unwrap();
    assert_eq!(whole.tensors[&info.name].data, values);
    let tensor = model.tensors().find(|tensor| tensor.name == info.name).unwrap();
    let elements: usize = tensor.shape.iter().product();
    let mut pieces = Vec::new();
    anamnesis::dequantize_gguf_blocks::<F32Out, _>(&tensor.data, tensor.dtype, elements, |piece| {
        pieces.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    assert_eq!(pieces, values);
    let narrow = anamnesis::dequantize_gguf::<F16Out>(&tensor.data, tensor.dtype, elements).unwrap();
    assert_eq!(narrow.len(), values.len() / 2);
    assert_eq!(
        model.dequantize_tensor(info).unwrap(),
        anamnesis::dequantize_gguf::<Bf16Out>(&tensor.data, tensor.dtype, elements).unwrap()
    );
    for wrong in [elements + 1, elements + 256, elements - 256] {
        assert!(anamnesis::dequantize_gguf_to_bf16(&tensor.data, tensor.dtype, wrong).is_err(), "{wrong}");
    }
    assert!(anamnesis::dequantize_gguf_to_bf16(&[0; 4], GgufType::F32, 1).is_err());
    assert!(anamnesis::dequantize_gguf_to_bf16(&[], GgufType::Q4_K, 0).unwrap().is_empty());
}

#[test]
fn the_same_bytes_come_from_any_number_of_threads() {
    let model = parse_gguf(fixture("gguf/q6_k.gguf")).unwrap();
    let folder = Folder::new();
    let wanted = model.remember_to_bytes(TargetDtype::BF16).unwrap();
    for threads in [1, 2, 5] {
        let output = folder.path(&format!("out-{threads}"));
        model.remember_with_options(&output, TargetDtype::BF16, RememberOptions::new().with_threads(threads)).unwrap();
        assert_eq!(std::fs::read(output).unwrap(), wanted);
    }
}
