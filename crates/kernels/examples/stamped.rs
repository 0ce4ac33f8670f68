//! Instantiates every kernel for every format and output.
use anamnesis_kernels::*;
fn main() {
    let l = Level::detect();
    let c = std::hint::black_box(vec![0u8; 100]);
    let mut o = std::hint::black_box(vec![0u8; 400]);
    scaled::<E4m3, Bf16>(l, &c, 0.1, &mut o);
    std::hint::black_box(o);
}
