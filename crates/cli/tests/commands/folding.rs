//! `tree`: folded names.

use std::fs;

use crate::checkpoint::{Tensor, safetensors};
use crate::folder::Folder;

#[test]
fn odd_layers_are_listed_apart() {
    let folder = Folder::empty();
    let mut tensors: Vec<Tensor> = (0..4).map(|layer| Tensor::f32(&format!("h.{layer}.w"), [2, 3], 0.5)).collect();
    tensors.push(Tensor::f32("h.4.w", [4, 3], 0.5));
    fs::write(folder.path("m.safetensors"), safetensors(&tensors)).unwrap();
    let text = folder.amn("tree m.safetensors").ok();
    let (regular, odd) = text.split_once("\nOdd ones out").unwrap();
    assert!(regular.contains("h.[0-3].w") && !regular.contains("h.4.w"), "{text}");
    assert!(odd.contains("h.4.w") && odd.ends_with("\n5 tensors, 36 values, 144 B\n"), "{text}");
}

#[test]
fn names_cannot_steer_a_terminal() {
    let folder = Folder::empty();
    let tensors = [Tensor::f32("a\u{1b}[2J.w", [1, 1], 0.5), Tensor::f32("b\n.w", [1, 1], 0.5)];
    fs::write(folder.path("m.safetensors"), safetensors(&tensors)).unwrap();
    for columns in [60, 200] {
        let text = folder.amn_on(columns, "tree m.safetensors").ok();
        assert!(!text.contains('\u{1b}') && text.contains("{1b}"), "{text}");
    }
    let text = folder.amn("inspect m.safetensors").ok();
    assert!(!text.contains('\u{1b}') && text.contains("a\\u{1b}[2J.w"), "{text}");
}
