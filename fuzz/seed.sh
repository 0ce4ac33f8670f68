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
mkdir -p corpus/distributed
for directory in ../crates/anamnesis/tests/fixtures/dcp/*/; do
    # The length of the metadata, the metadata, and the chunks of the first rank.
    [ -f "$directory/.metadata" ] && [ -f "$directory/__0_0.distcp" ] || continue
    length=$(wc -c <"$directory/.metadata")
    {
        printf "$(printf '\\%03o\\%03o\\000\\000' $((length % 256)) $((length / 256)))"
        cat "$directory/.metadata" "$directory/__0_0.distcp"
    } >"corpus/distributed/$(basename "$directory")"
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
mkdir -p corpus/tensorflow_index
for file in ../crates/anamnesis/tests/fixtures/tensorflow/*/*.index; do
    cp "$file" corpus/tensorflow_index/
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
