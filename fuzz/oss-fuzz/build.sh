#!/bin/bash -eu
# Builds every target with its dictionary, its options and its seeds.
cd "$SRC/anamnesis"
cargo run -p anamnesis-promises --example seeds -- "$WORK/corpus"
cargo fuzz build --release
built=fuzz/target/x86_64-unknown-linux-gnu/release
for source in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$source" .rs)
    cp "$built/$target" "$WORK/corpus/$target.options" "$OUT/"
    (cd "$WORK/corpus/$target" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
done
cp fuzz/dictionaries/*.dict "$OUT/"
