//! `amn`.

fn main() {}
