//! Requests and bytes are counted.

use std::collections::HashMap;
use std::time::Duration;

use anamnesis::Checkpoint;

use crate::samples::{converted, header_bytes, mount, options, remote, safetensors, sharded};
use crate::server::{Reply, Server};

#[test]
fn eight_shards_are_inspected_with_sixteen_requests() {
    // Headers that are shorter and longer than the first request.
    for tensors in [10, 2000] {
        let files = sharded("/m", 8, tensors, 500);
        let shards: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".safetensors")).collect();
        let headers: u64 = shards.iter().map(|(_, file)| header_bytes(file)).sum();
        let server = Server::of(files.clone());
        let remote = remote();
        let mount = mount(&remote, &format!("{}/m/model.safetensors.index.json", server.address));
        let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
        assert!(checkpoint.inspect(&Default::default()).problems.is_empty());
        assert_eq!(checkpoint.tensor_count(), 8 * tensors);
        let seen = server.seen();
        let of_shards = seen.iter().filter(|request| request.name().ends_with(".safetensors")).count();
        assert!(of_shards <= 16, "{of_shards} requests");
        if tensors == 10 {
            assert!(seen.len() <= 16, "{} requests", seen.len());
        }
        let index = files["/m/model.safetensors.index.json"].len() as u64;
        assert!(server.bytes() - index <= headers * 105 / 100 + 8 * 100_000, "{} bytes for {headers}", server.bytes());
    }
}

#[test]
fn one_tensor_costs_its_bytes_and_less_than_a_megabyte() {
    let model = safetensors("model", 40, 1 << 20);
    let server = Server::of(HashMap::from([("/model.safetensors".to_owned(), model)]));
    let remote = remote();
    let mount = mount(&remote, &format!("{}/model.safetensors", server.address));
    let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
    let values: Vec<f32> = checkpoint.decode("model.00017.weight").unwrap();
    assert_eq!(values.len(), 1 << 20);
    assert!(server.bytes() <= (2 << 20) + 1_000_000, "{} bytes", server.bytes());
    assert_eq!((remote.requests(), remote.bytes() > 2 << 20), (server.seen().len() as u64, true));
}

#[test]
fn a_conversion_reads_every_byte_once() {
    let files = sharded("/m", 3, 12, 1 << 20);
    let bytes: usize = files.values().map(Vec::len).sum();
    let server = Server::of(files);
    let remote = remote();
    let mount = mount(&remote, &format!("{}/m/model.safetensors.index.json", server.address));
    converted(mount.path()).unwrap();
    let mut asked: Vec<_> = server.seen().iter().map(|request| (request.path.clone(), request.range())).collect();
    asked.sort();
    let twice: Vec<_> = asked.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(server.bytes() <= bytes as u64 * 102 / 100, "{} bytes of {bytes}", server.bytes());
    assert!(server.seen().len() < 80, "{} requests", server.seen().len());
}

#[test]
fn a_header_of_unknown_length_takes_few_requests() {
    // A GGUF file with a long vocabulary.
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(0u64.to_le_bytes());
    file.extend(1u64.to_le_bytes());
    let key = "tokenizer.ggml.tokens";
    file.extend((key.len() as u64).to_le_bytes());
    file.extend(key.bytes());
    file.extend(9u32.to_le_bytes());
    file.extend(8u32.to_le_bytes());
    file.extend(300_000u64.to_le_bytes());
    for token in 0..300_000 {
        let token = format!("token{token}");
        file.extend((token.len() as u64).to_le_bytes());
        file.extend(token.bytes());
    }
    file.resize(file.len().next_multiple_of(32), 0);
    let server = Server::of(HashMap::from([("/model.gguf".to_owned(), file)]));
    let remote = remote();
    let mount = mount(&remote, &format!("{}/model.gguf", server.address));
    Checkpoint::open(mount.path(), &Default::default()).unwrap();
    let of_model = server.seen().iter().filter(|request| request.name() == "/model.gguf").count();
    assert!(of_model <= 2, "{of_model} requests");
}

#[test]
fn windows_are_fetched_at_the_same_time() {
    // Twelve windows with 100 ms each: one after the other they would take more than a second.
    let model = safetensors("model", 12, 2 << 20);
    let expected = model.len() as u64;
    let server = Server::start(move |request, _| match request.name() {
        "/model.safetensors" => Reply { delay: Duration::from_millis(100), ..Reply::file(&model, "1", request) },
        _ => Reply::new(404, ""),
    });
    let remote = anamnesis_remote::Remote::new(options()).unwrap();
    let mount = mount(&remote, &format!("{}/model.safetensors", server.address));
    let started = std::time::Instant::now();
    converted(mount.path()).unwrap();
    let seen = server.seen().len() as u32;
    assert!(server.bytes() >= expected && seen >= 12);
    assert!(started.elapsed() < Duration::from_millis(100) * seen * 3 / 4 + Duration::from_secs(2));
}
