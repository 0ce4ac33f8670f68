//! Weights whose parts contradict each other, their configuration or their sidecar are refused, by tensor: every case is
//! a fixture with one thing changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, SIDECAR, Tensor, assert_mentions, fixture};

/// A fixture under change.
struct Case {
    tensors: BTreeMap<String, Tensor>,
    metadata: BTreeMap<String, String>,
    config: Option<Value>,
    /// Other files of its directory.
    sidecars: Vec<(&'static str, Value)>,
}

impl Case {
    fn of(name: &str) -> Self {
        let contents = Contents::read(fixture(&format!("{name}.safetensors")));
        let json = |end: &str| {
            let text = std::fs::read(fixture(&format!("{name}.{end}.json"))).ok()?;
            Some(serde_json::from_slice(&text).unwrap())
        };
        let sidecars = json("sidecar").map(|sidecar| (SIDECAR, sidecar)).into_iter().collect();
        let metadata = contents.metadata.unwrap_or_default();
        Self { tensors: contents.tensors, metadata, config: json("config"), sidecars }
    }

    fn folder(&self) -> Folder {
        let model = self.metadata.iter().fold(Model::new(), |model, (key, value)| model.metadata(key, value));
        let add = |model: Model, (name, tensor): (&String, &Tensor)| {
            model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
        };
        let folder = Folder::staged(&self.tensors.iter().fold(model, add).bytes(), self.config.as_ref());
        for (name, sidecar) in &self.sidecars {
            folder.write(name, sidecar.to_string());
        }
        folder
    }

    /// The only tensor whose name has this end, or the first of them.
    fn name(&self, end: &str) -> String {
        self.tensors.keys().find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("no {end}")).clone()
    }

    fn tensor(&mut self, end: &str) -> &mut Tensor {
        let name = self.name(end);
        self.tensors.get_mut(&name).unwrap()
    }

    fn section(&mut self) -> &mut Value {
        &mut self.config.as_mut().unwrap()["quantization_config"]
    }

    /// Checks that it is decoded.
    #[track_caller]
    fn decodes(&self) {
        self.folder().remember(anamnesis::TargetDtype::F32).unwrap();
    }

    /// Checks that it is refused with an error that has these words.
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        assert_mentions(&self.folder().refused().to_string(), words);
    }
}

/// The fixture, after checking that it is decoded unchanged.
fn changed(name: &str, change: impl FnOnce(&mut Case)) -> Case {
    let mut case = Case::of(name);
    case.decodes();
    change(&mut case);
    case
}

/// Replaces the number at an index of a tensor of 2, 4 or 8 bytes each.
fn put(tensor: &mut Tensor, index: usize, number: i64) {
    let each = tensor.data.len() / tensor.shape.iter().product::<usize>();
    tensor.data[index * each..(index + 1) * each].copy_from_slice(&number.to_le_bytes()[..each]);
}

#[test]
fn bits_that_contradict_the_shape_of_the_codes_are_refused() {
    changed("exl3/q_k2_mcg", |case| case.tensor(".trellis").shape = vec![8, 4, 64]).refused(&["q_proj.trellis"]);
    let odd = changed("exl3/q_k2_mcg", |case| {
        let trellis = case.tensor(".trellis");
        trellis.shape = vec![8, 8, 40];
        trellis.data.resize(8 * 8 * 40 * 2, 0);
    });
    odd.refused(&["q_proj.trellis", "2.5 bits", "mul1"]);
    changed("aqlm/2x8_bf16", |case| case.section()["nbits_per_codebook"] = json!(7))
        .refused(&["q_proj.codes", "nbits_per_codebook is 7"]);
    changed("aqlm/2x8_bf16", |case| case.section()["num_codebooks"] = json!(1))
        .refused(&["q_proj.codes", "num_codebooks is 1"]);
    changed("sinq/sinq4", |case| case.sidecars[0].1["model.layers.0.mlp.down_proj"]["meta"]["nbits"] = json!(2))
        .refused(&["model.layers.0.mlp.down_proj.W_q"]);
    changed("vptq/outliers", |case| {
        case.section()["config_for_layers"]["model.layers.0.self_attn.q_proj"]["num_centroids"] = json!([32, 512]);
    })
    .refused(&["q_proj.indices"]);
    // A group of EXL2 whose bits do not fill its words.
    changed("exl2/q_m865432_mixed", |case| put(case.tensor(".q_groups"), 0, 7)).refused(&["q_proj.q_weight", "7 bits"]);
    changed("exl2/q_m865432_mixed", |case| put(case.tensor(".q_groups"), 0, 5)).refused(&["q_proj.q_weight"]);
    let w4a8 = changed("comfy/w4a8", |case| case.tensor("blocks.0.attn.to_q.weight_s_rel").shape = vec![3, 8]);
    w4a8.refused(&["blocks.0.attn.to_q.weight"]);
}

#[test]
fn a_marker_of_a_codebook_has_one_value_and_no_rival() {
    let other = changed("exl3/q_k2_mcg", |case| put(case.tensor(".mcg"), 0, 0x83DC_D12D));
    other.refused(&["q_proj.mcg", "0xcbac1fed"]);
    let both = changed("exl3/q_k2_mcg", |case| {
        let (name, marker) = (case.name(".mcg").replace(".mcg", ".mul1"), case.tensor(".mcg").clone());
        case.tensors.insert(name, marker);
    });
    both.refused(&["q_proj.trellis", "two codebooks"]);
    let both = changed("exl3/r_k3_3inst_su_sv", |case| {
        let name = case.name(".su").replace(".su", ".suh");
        case.tensors.insert(name, Tensor { dtype: "F16".to_owned(), shape: vec![128], data: vec![0; 256] });
    });
    both.refused(&["down_proj.trellis", ".suh", "both"]);
}

#[test]
fn a_padded_dimension_without_a_configured_size_is_refused() {
    let sizes = ["hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_key_value_heads"];
    let unknown = |case: &mut Case| {
        let config = case.config.as_mut().unwrap().as_object_mut().unwrap();
        sizes.iter().for_each(|size| drop(config.remove(*size)));
    };
    changed("exl3/q_k2_mcg", unknown).decodes();
    let zeros = |case: &mut Case| case.tensor(".svh").data[2 * 120..].fill(0);
    changed("exl3/q_k2_mcg", zeros).decodes();
    let padded = changed("exl3/q_k2_mcg", |case| {
        unknown(case);
        zeros(case);
    });
    padded.refused(&["q_proj", "last 8 outputs are zero"]);
    let cropped = changed("exl3/q_k2_mcg", |case| {
        unknown(case);
        zeros(case);
        case.config.as_mut().unwrap()["hidden_size"] = json!(120);
    });
    let output = cropped.folder().remember(anamnesis::TargetDtype::F32).unwrap();
    assert_eq!(output.tensors["model.layers.0.self_attn.q_proj.weight"].shape, [120, 120]);
    // The norm has the size of the model.
    let beside_norm = |norm: usize| {
        changed("exl3/q_k2_mcg", |case| {
            unknown(case);
            let trellis = case.tensor(".trellis");
            trellis.shape = vec![16, 8, 32];
            trellis.data.extend_from_within(..);
            let factors = case.tensor(".suh");
            factors.shape = vec![256];
            factors.data.extend_from_within(..);
            let data = vec![0; 2 * norm];
            case.tensors
                .insert("model.norm.weight".to_owned(), Tensor { dtype: "F16".to_owned(), shape: vec![norm], data });
        })
    };
    beside_norm(200).refused(&["q_proj.trellis", "256 may be 200 of the model"]);
    beside_norm(256).decodes();
}

#[test]
fn padded_outputs_of_exl2_are_cropped_to_the_size_in_the_configuration() {
    let name = "model.layers.0.self_attn.q_proj.weight";
    let decoded = |case: &Case| case.folder().remember(anamnesis::TargetDtype::F32).unwrap().tensors[name].clone();
    let whole = decoded(&Case::of("exl2/q_m865432_mixed"));
    let cropped = changed("exl2/q_m865432_mixed", |case| {
        let config = case.config.as_mut().unwrap().as_object_mut().unwrap();
        ["num_attention_heads", "num_key_value_heads"].iter().for_each(|heads| drop(config.remove(*heads)));
        config["vocab_size"] = json!(27);
        case.tensors.retain(|name, _| !name.ends_with(".bias"));
    });
    let kept = decoded(&cropped);
    assert_eq!((&whole.shape[..], &kept.shape[..]), (&[32, 512][..], &[27, 512][..]));
    assert_eq!(kept.data, whole.data[..27 * 512 * 4]);
}

#[test]
fn groups_out_of_order_are_refused() {
    let falling = changed("exl2/q_m865432_mixed", |case| {
        let groups = case.tensor(".q_groups");
        let (first, last) = (groups.data[..2].to_vec(), groups.data[32..34].to_vec());
        groups.data[..2].copy_from_slice(&last);
        groups.data[32..34].copy_from_slice(&first);
    });
    falling.refused(&["q_proj.q_weight"]);
    let backwards = changed("exl2/q_m865432_mixed", |case| put(case.tensor(".q_groups"), 3, 60));
    backwards.refused(&["q_proj.q_weight"]);
    changed("exl2/q_m865432_mixed", |case| put(case.tensor(".q_groups"), 1, 1)).refused(&["q_proj.q_weight"]);
}

#[test]
fn orders_that_are_no_permutation_are_refused() {
    changed("exl2/q_m865432_mixed", |case| {
        let order = case.tensor(".q_invperm");
        order.data.copy_within(4..8, 0);
    })
    .refused(&["q_proj.q_weight", "permutation"]);
    changed("exl2/q_m865432_mixed", |case| put(case.tensor(".q_invperm"), 3, 512)).refused(&["q_proj.q_weight"]);
    changed("vptq/outliers", |case| case.tensor(".perm").data.copy_within(2..4, 0))
        .refused(&["q_proj.indices", "permutation"]);
    changed("vptq/outliers", |case| put(case.tensor(".perm"), 0, 40)).refused(&["q_proj.indices", "40"]);
}

#[test]
fn codes_beyond_their_codebook_are_refused() {
    changed("vptq/outliers", |case| put(case.tensor(".outlier_indices"), 5, 32)).refused(&[
        "q_proj.weight",
        "index 32",
        "32 centroids",
    ]);
    let six_bits = changed("comfy/w4a8", |case| {
        let book = case.tensor("blocks.0.attn.to_q.weight_codebook").clone();
        let name = case.name("blocks.1.attn.to_q.weight_s_channel").replace("s_channel", "codebook");
        case.tensors.insert(name, book);
    });
    six_bits.refused(&["blocks.1.attn.to_q.weight", "codebook of 16 levels for codes of six bits"]);
    let short = changed("aqlm/2x8_bf16", |case| {
        let books = case.tensor(".codebooks");
        books.shape = vec![2, 128, 1, 8];
        books.data.truncate(2 * 2 * 128 * 8);
    });
    short.refused(&["q_proj.codes"]);
    let fewer = changed("aqlm/2x8_bf16", |case| {
        let books = case.tensor(".codebooks");
        books.shape = vec![1, 256, 1, 8];
        books.data.truncate(2 * 256 * 8);
    });
    fewer.refused(&["q_proj.codes", ".codebooks"]);
}

#[test]
fn sidecars_that_name_other_shapes_are_refused() {
    for (key, value) in [
        ("shape", json!([32, 16])),
        ("shape", json!([16, 64])),
        ("shape", json!([16])),
        ("group_size", json!(32)),
        ("scale.shape", json!([16, 2])),
        ("zero.shape", json!([1, 32])),
        ("packing", json!("2bit_u8")),
        ("axis", json!(0)),
    ] {
        let module = "model.layers.0.mlp.down_proj";
        let case = changed("sinq/sinq4", |case| case.sidecars[0].1[module]["meta"][key] = value.clone());
        let error = case.folder().refused().to_string();
        assert!(error.contains("model.layers.0.mlp.down_proj"), "{key} {value}: {error}");
    }
    changed("sinq/sinq4", |case| case.sidecars.clear()).refused(&["model.layers.0.mlp.down_proj.W_q", "sidecar"]);
    let module = "model.layers.0.self_attn.q_proj";
    let storage = |shape: Value, dtype: &str| {
        let entry = |shape: Value, dtype: &str| json!({"shape": shape, "n_bytes": 256, "dtype": dtype});
        let stored = json!({
            format!("{module}.trellis"): entry(shape, dtype),
            format!("{module}.suh"): entry(json!([128]), "torch.float16"),
            format!("{module}.svh"): entry(json!([128]), "torch.float16"),
            format!("{module}.mcg"): entry(json!([]), "torch.int32"),
        });
        let table = json!({module: {"stored_tensors": stored, "quant_format": "exl3", "bits_per_weight": 2}});
        json!({"quant_method": "exl3", "tensor_storage": table})
    };
    let described = |shape: Value, dtype: &'static str| {
        changed("exl3/q_k2_mcg", |case| case.sidecars.push(("quantization_config.json", storage(shape, dtype))))
    };
    described(json!([8, 8, 32]), "torch.int16").decodes();
    described(json!([8, 16, 16]), "torch.int16").refused(&["q_proj.trellis"]);
    described(json!([8, 8, 32]), "torch.int32").refused(&["q_proj.trellis"]);
}

#[test]
fn scales_of_a_layout_that_the_format_does_not_have_are_refused() {
    // NVFP4 and MXFP8 have scales in whole tiles.
    for (name, rows) in [("comfy/nvfp4_marker", 16), ("comfy/mxfp8_header", 32)] {
        let rows_alone = changed(name, |case| {
            let scale = case.tensor("blocks.0.attn.to_q.weight_scale");
            scale.shape = vec![rows, 8];
            scale.data.truncate(rows * 8);
        });
        rows_alone.refused(&["blocks.0.attn.to_q.weight", "[128, 8] is needed"]);
    }
    let by_column = changed("comfy/int8_tensorwise", |case| {
        let scale = case.tensor("blocks.1.attn.to_q.weight_scale");
        scale.shape = vec![1, 7];
    });
    by_column.refused(&["blocks.1.attn.to_q.weight_scale", "[1, 7]"]);
    let transposed =
        changed("comfy/svdquant", |case| case.tensor("blocks.0.attn.to_q.weight_scale").shape = vec![7, 2]);
    transposed.refused(&["blocks.0.attn.to_q.weight_scale", "[7, 2]"]);
    // Four Over Six keeps the scales of NVFP4 in tiles, those of NVINT4 in rows.
    for (name, flag) in [("fouroversix/nvfp4_mse", 0), ("fouroversix/nvint4", 1)] {
        let other = changed(name, |case| put(case.tensor("layers.0.mlp.up_proj.quantized_weight_metadata"), 5, flag));
        other.refused(&["layers.0.mlp.up_proj", "metadata"]);
    }
    let short = changed("eetq/int8_codes", |case| {
        let scales = case.tensor(".weight_scales");
        let length = scales.shape[0];
        scales.shape = vec![1, length];
    });
    short.refused(&[".weight_scales"]);
    let wide = changed("compressed_tensors/mxfp6", |case| {
        let scale = case.tensor(".weight_scale");
        let [rows, groups] = scale.shape[..] else { panic!() };
        scale.shape = vec![groups, rows];
    });
    wide.refused(&[".weight_packed"]);
}

#[test]
fn masks_that_disagree_with_their_count_are_refused() {
    let module = "model.layers.0.mlp.up_proj";
    for name in ["compressed_tensors/sparse_bitmask", "compressed_tensors/sparse_24_bitmask"] {
        let more = changed(name, |case| {
            let mask = case.tensor(&format!("{module}.bitmask"));
            let byte = mask.data.iter_mut().find(|byte| **byte != 255).unwrap();
            *byte |= *byte + 1;
        });
        more.refused(&[module, "mask of row"]);
        let fewer = changed(name, |case| {
            let mask = case.tensor(&format!("{module}.bitmask"));
            let byte = mask.data.iter_mut().find(|byte| **byte != 0).unwrap();
            *byte &= *byte - 1;
        });
        fewer.refused(&[module, "mask of row"]);
        let other = changed(name, |case| put(case.tensor(&format!("{module}.shape")), 1, 64));
        other.refused(&[module, "shape"]);
    }
    let offsets = changed("compressed_tensors/sparse_bitmask", |case| {
        let offsets = case.tensor(&format!("{module}.row_offsets"));
        let moved = offsets.data[8..16].to_vec();
        offsets.data[16..24].copy_from_slice(&moved);
    });
    offsets.refused(&[module]);
    changed("compressed_tensors/sparse_bitmask", |case| put(case.tensor(&format!("{module}.row_offsets")), 12, 9999))
        .refused(&[module, "row offsets"]);
    // Three values in four places.
    let unpaired = changed("compressed_tensors/sparse_24_bitmask", |case| {
        let mask = case.tensor(&format!("{module}.bitmask"));
        mask.data[0] = 0b0001_0111;
    });
    unpaired.refused(&[module, "mask of row 0"]);
    let positions = changed("compressed_tensors/marlin_24_int4_channel", |case| {
        case.tensor(".meta").data[0] = 0b0000_0101;
    });
    positions.refused(&[module]);
}
