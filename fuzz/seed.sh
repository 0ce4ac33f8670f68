#!/bin/sh
# Copies the fixtures into the corpora of the targets.
set -eu
cd "$(dirname "$0")"
for target in safetensors_header remember_bytes; do
    mkdir -p "corpus/$target"
    for file in ../crates/anamnesis/tests/fixtures/*/*.safetensors; do
        name=$(basename "$(dirname "$file")")-$(basename "$file")
        cp "$file" "corpus/$target/$name"
    done
done
mkdir -p corpus/zip_npz
cp ../crates/anamnesis/tests/fixtures/npz/*.npz corpus/zip_npz/
mkdir -p corpus/gguf_header
cp ../crates/anamnesis/tests/fixtures/gguf/*.gguf corpus/gguf_header/
for target in pickle pth; do
    mkdir -p "corpus/$target"
    for file in ../crates/anamnesis/tests/fixtures/pth/*.pt* ../crates/anamnesis/tests/fixtures/pth/*.bin; do
        cp "$file" "corpus/$target/$(basename "$file")"
    done
done
mkdir -p corpus/onnx
cp ../crates/anamnesis/tests/fixtures/onnx/*.onnx ../crates/anamnesis/tests/fixtures/onnx_quantised/*.onnx corpus/onnx/
# Two files of a directory as one input: the first has its length in front.
pair() {
    length=$(wc -c <"$1")
    printf "$(printf '\\%03o\\%03o\\000\\000' $((length % 256)) $((length / 256)))"
    cat "$1" "$2"
}
mkdir -p corpus/distributed
for directory in ../crates/anamnesis/tests/fixtures/dcp/*/; do
    [ -f "$directory/.metadata" ] && [ -f "$directory/__0_0.distcp" ] || continue
    pair "$directory/.metadata" "$directory/__0_0.distcp" >"corpus/distributed/$(basename "$directory")"
done
mkdir -p corpus/tensorflow
for index in ../crates/anamnesis/tests/fixtures/tensorflow/*/*.index ../crates/anamnesis/tests/fixtures/tensorflow/*/*/*.index; do
    # The largest data file: in a fuzz target it is each of them.
    data=$(ls -S "${index%.index}".data-* | head -n 1)
    pair "$index" "$data" >"corpus/tensorflow/$(basename "${index%.index}")"
done
for pair in whisper/whisper tflite/tflite flax/flax hdf5/hdf5 keras/hdf5; do
    target=${pair%/*}
    mkdir -p "corpus/$target"
    for file in ../crates/anamnesis/tests/fixtures/"${pair#*/}"/*.*; do
        case "$target.${file##*.}" in
            *.safetensors | hdf5.keras | keras.h5) ;;
            *) cp "$file" "corpus/$target/" ;;
        esac
    done
done
mkdir -p corpus/convert_bytes
for target in remember_bytes zip_npz gguf_header pth; do
    for file in "corpus/$target"/*.*; do
        # Small inputs: each is converted to every target.
        [ "$(wc -c <"$file")" -gt 8192 ] || cp "$file" corpus/convert_bytes/
    done
done
mkdir -p corpus/vocabulary
for file in ../crates/anamnesis/tests/fixtures/vocabularies/*/*; do
    # The first byte says which file it is.
    case "$(basename "$file")" in
        tokenizer.model) kind='\000' ;;
        tokenizer.json) kind='\001' ;;
        tekken.json) kind='\002' ;;
        README.md) kind='\003' ;;
        *) continue ;;
    esac
    { printf "$kind"; cat "$file"; } >"corpus/vocabulary/$(basename "$(dirname "$file")")-$(basename "$file")"
done
