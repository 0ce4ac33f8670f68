//! Servers with faults: each is a named error or a successful retry, and nothing is half-written.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anamnesis::Checkpoint;
use anamnesis_remote::{Remote, RemoteError, RemoteFault};

use crate::samples::{converted, mount, options, remote, safetensors};
use crate::server::{Reply, Request, Server};

/// Longer than the first request, and than a window.
fn model() -> Vec<u8> {
    safetensors("model", 3, 1 << 20)
}

fn local(model: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, model).unwrap();
    converted(&path).unwrap()
}

/// Converts a model of a server whose answers are changed, except for sidecars, which it does not have.
fn convert(
    change: impl Fn(&[u8], &Request, usize) -> Reply + Send + Sync + 'static,
) -> (Result<Vec<u8>, anamnesis::AnamnesisError>, usize) {
    let model = model();
    let weights = AtomicUsize::new(0);
    let server = Server::start(move |request, _| match request.name() {
        "/model.safetensors" => change(&model, request, weights.fetch_add(1, Ordering::Relaxed)),
        _ => Reply::new(404, ""),
    });
    let remote = remote();
    let mount = mount(&remote, &format!("{}/model.safetensors", server.address));
    let result = converted(mount.path());
    let count = server.seen().iter().filter(|request| request.name() == "/model.safetensors").count();
    (result, count)
}

fn fault(result: Result<Vec<u8>, anamnesis::AnamnesisError>) -> (RemoteFault, String) {
    let error = result.map(|_| ()).expect_err("the fault was not noticed");
    let found = RemoteError::behind(&error).unwrap_or_else(|| panic!("not a remote error: {error}"));
    (found.fault(), error.to_string())
}

#[test]
fn a_correct_server_gives_the_bytes_of_the_local_file() {
    let (result, _) = convert(|model, request, _| Reply::file(model, "1", request));
    assert_eq!(result.unwrap(), local(&model()));
}

#[test]
fn connections_that_are_cut_are_continued() {
    let expected = local(&model());
    for bytes in [70_000, 1 << 20, (4 << 20) - 1] {
        let (result, _) = convert(move |model, request, _| {
            let reply = Reply::file(model, "1", request);
            let is_longer = reply.body.len() > bytes;
            Reply { cut: is_longer.then_some(bytes), ..reply }
        });
        assert_eq!(result.unwrap(), expected, "cut after {bytes} bytes");
    }
}

#[test]
fn connections_that_are_cut_again_and_again_are_an_error() {
    for bytes in [0, 1, 1000] {
        let (result, count) = convert(move |model, request, _| {
            let reply = Reply::file(model, "1", request);
            Reply { cut: Some(bytes), ..reply }
        });
        let (fault, text) = fault(result);
        assert_eq!(fault, RemoteFault::Connection, "{text}");
        assert!(text.contains("/model.safetensors") && count <= 60, "{count} requests: {text}");
    }
}

#[test]
fn other_ranges_than_those_asked_for_are_refused() {
    for (range, what) in [
        ("bytes 5-98308/{}", "another start"),
        ("bytes 0-98302/{}", "a shorter range"),
        ("bytes 0-98304/{}", "a longer range"),
        ("bytes 0-98303/98303", "an end past the size"),
        ("bytes 0-98303/*", "no size"),
        ("bytes 98303-0/{}", "turned around"),
        ("items 0-98303/{}", "another unit"),
        ("bytes 0-98303/99999999999999999999999", "a size that is no number"),
        ("", "nothing"),
    ] {
        let (result, _) = convert(move |model, request, _| {
            let range = range.replace("{}", &model.len().to_string());
            Reply::file(model, "1", request).with("Content-Range", range)
        });
        let (fault, text) = fault(result);
        assert_eq!(fault, RemoteFault::Answer, "{what}: {text}");
    }
}

#[test]
fn a_later_answer_with_another_range_is_refused() {
    let (result, _) = convert(|model, request, number| {
        let reply = Reply::file(model, "1", request);
        match request.range().filter(|_| number > 0) {
            Some((first, last)) => {
                let range = format!("bytes {}-{}/{}", first + 1, last + 1, model.len());
                reply.with("Content-Range", range)
            }
            None => reply,
        }
    });
    assert_eq!(fault(result).0, RemoteFault::Answer);
}

#[test]
fn lengths_that_are_not_those_of_the_range_are_refused() {
    for (change, expected) in [(-1, RemoteFault::Answer), (1, RemoteFault::Answer), (1 << 30, RemoteFault::Answer)] {
        let (result, _) = convert(move |model, request, _| {
            let reply = Reply::file(model, "1", request);
            let length = reply.body.len().checked_add_signed(change).unwrap();
            Reply { length: Some(length), ..reply }
        });
        let (fault, text) = fault(result);
        assert_eq!(fault, expected, "{change}: {text}");
    }
}

#[test]
fn a_server_that_ignores_ranges_is_refused_unless_the_file_is_short() {
    let (result, count) = convert(|model, _, _| Reply::new(200, model).with("ETag", "\"1\""));
    assert_eq!((fault(result).0, count), (RemoteFault::NoRanges, 1));
    let short = safetensors("model", 2, 100);
    let expected = local(&short);
    let server = Server::start(move |request, _| match request.name() {
        "/model.safetensors" => Reply::new(200, short.clone()),
        _ => Reply::new(404, ""),
    });
    let remote = remote();
    let mount = mount(&remote, &format!("{}/model.safetensors", server.address));
    assert_eq!(converted(mount.path()).unwrap(), expected);
}

#[test]
fn compressed_answers_and_web_pages_are_refused() {
    let (result, _) = convert(|model, request, _| Reply::file(model, "1", request).with("Content-Encoding", "gzip"));
    assert_eq!(fault(result).0, RemoteFault::Encoded);
    let page = "<!DOCTYPE html><title>Sign in</title>";
    let (result, _) = convert(move |_, _, _| Reply::new(200, page).with("Content-Type", "text/html; charset=utf-8"));
    assert_eq!(fault(result).0, RemoteFault::WebPage);
    // Without a content type, the library recognises the page.
    let (result, _) = convert(move |_, _, _| Reply::new(200, page));
    assert!(result.unwrap_err().to_string().contains("HTML"));
}

#[test]
fn a_file_replaced_midway_is_an_error_and_never_a_mixture() {
    let replaced = |with_etag: bool| {
        convert(move |model, request, number| {
            let (etag, content) = match number {
                0 => ("1", model.to_vec()),
                _ => ("2", model.iter().rev().copied().collect()),
            };
            let reply = Reply::file(&content, etag, request);
            match with_etag {
                true => reply,
                false => {
                    Reply { headers: reply.headers.into_iter().filter(|(name, _)| name != "ETag").collect(), ..reply }
                        .with("Last-Modified", format!("Tue, 0{} Jan 2030 00:00:00 GMT", number.min(1) + 1))
                }
            }
        })
    };
    assert_eq!(fault(replaced(true).0).0, RemoteFault::Changed);
    assert_eq!(fault(replaced(false).0).0, RemoteFault::Changed);
    let (shorter, _) = convert(|model, request, number| {
        let content = if number == 0 { model } else { &model[..model.len() - 1] };
        Reply::file(content, "1", request)
    });
    assert_eq!(fault(shorter).0, RemoteFault::Changed);
}

#[test]
fn redirects_in_circles_and_without_end_are_refused() {
    let server = Server::start(|request, number| match request.name() {
        "/circle" => Reply::new(302, "").with("Location", "/back"),
        "/back" => Reply::new(302, "").with("Location", "/circle"),
        "/endless" | "/next" => Reply::new(307, "").with("Location", format!("/next?{number}")),
        "/elsewhere" => Reply::new(302, "").with("Location", "file:///etc/passwd"),
        _ => Reply::new(404, ""),
    });
    for name in ["circle", "endless", "elsewhere"] {
        let remote = remote();
        let mount = mount(&remote, &format!("{}/{name}", server.address));
        let error = Checkpoint::open(mount.path(), &Default::default()).map(|_| ()).unwrap_err();
        assert_eq!(RemoteError::behind(&error).unwrap().fault(), RemoteFault::Redirect, "{name}: {error}");
    }
    assert!(server.seen().len() < 20);
}

#[test]
fn a_server_that_never_answers_is_left_in_time() {
    let mut options = options();
    options.timeout = Duration::from_millis(100);
    options.retries = 1;
    let server = Server::start(|_, _| Reply { delay: Duration::from_secs(20), ..Reply::new(200, "") });
    let remote = Remote::new(options).unwrap();
    let mount = mount(&remote, &format!("{}/model.gguf", server.address));
    let started = Instant::now();
    let error = Checkpoint::open(mount.path(), &Default::default()).map(|_| ()).unwrap_err();
    assert_eq!(RemoteError::behind(&error).unwrap().fault(), RemoteFault::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn busy_servers_are_asked_again_after_the_pause_they_ask_for() {
    let started = Instant::now();
    let (result, _) = convert(|model, request, number| match number % 2 {
        0 => Reply::new(if number == 0 { 429 } else { 503 }, "").with("Retry-After", i32::from(number == 0)),
        _ => Reply::file(model, "1", request),
    });
    assert_eq!(result.unwrap(), local(&model()));
    assert!(started.elapsed() >= Duration::from_secs(1), "the pause was not kept");
    let (result, count) = convert(|_, _, _| Reply::new(429, ""));
    assert_eq!((fault(result).0, count), (RemoteFault::RateLimit, 6));
    let (result, count) = convert(|_, _, _| Reply::new(503, "").with("Retry-After", 100_000));
    assert_eq!((fault(result).0, count), (RemoteFault::Status, 1));
}

#[test]
fn a_cancelled_operation_sends_nothing_more() {
    let options = options();
    let server = Server::start(|_, _| Reply::new(503, ""));
    options.cancel.cancel();
    let remote = Remote::new(options).unwrap();
    let mount = mount(&remote, &format!("{}/model.gguf", server.address));
    let error = Checkpoint::open(mount.path(), &Default::default()).map(|_| ()).unwrap_err();
    assert_eq!(RemoteError::behind(&error).unwrap().fault(), RemoteFault::Cancelled);
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn an_index_that_points_outside_of_its_folder_is_refused() {
    for name in ["../secret.safetensors", "/etc/passwd", "http://other/x.safetensors", "a/../../x.safetensors"] {
        let index = format!("{{\"weight_map\": {{\"a\": \"{name}\"}}}}");
        let server = Server::start(move |request, _| match request.name() {
            "/m/model.safetensors.index.json" => Reply::file(index.as_bytes(), "1", request),
            _ => Reply::new(404, ""),
        });
        let remote = remote();
        let mount = mount(&remote, &format!("{}/m/model.safetensors.index.json", server.address));
        let error = Checkpoint::open(mount.path(), &Default::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, anamnesis::AnamnesisError::Parse { .. }), "{name}: {error}");
        assert!(server.seen().iter().all(|request| request.name().starts_with("/m/")), "{name}");
    }
}

#[test]
fn a_signed_address_is_sent_with_its_query_and_shown_without() {
    let model = safetensors("model", 1, 100);
    let server = Server::start(move |request, _| match request.path.as_str() {
        "/model.safetensors?X-Signature=secret" => Reply::file(&model, "1", request),
        _ => Reply::new(403, ""),
    });
    let remote = remote();
    let mount = mount(&remote, &format!("{}/model.safetensors?X-Signature=secret", server.address));
    assert!(!mount.path().to_string_lossy().contains("secret"));
    let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
    assert_eq!(checkpoint.tensor_count(), 1);
    assert_eq!(server.seen().len(), 1, "a signature is for one file");
}

#[test]
fn addresses_of_clouds_and_malformed_ones_are_refused_by_name() {
    let remote = remote();
    let fault = |address: &str| {
        let error = remote.mount(Path::new(address)).map(|_| ()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        RemoteError::behind(&error).unwrap().fault()
    };
    if !cfg!(feature = "clouds") {
        for address in ["s3://secret/key", "gs://secret/key", "az://secret/key"] {
            assert_eq!(fault(address), RemoteFault::Scheme);
        }
    }
    for address in ["https://user:secret@host/x", "https://host/../secret", "https://host/\u{1b}secret"] {
        assert_eq!(fault(address), RemoteFault::Address);
    }
    assert!(remote.mount(Path::new("hf:../secret")).is_err());
    assert!(remote.mount(Path::new("models/file.gguf")).unwrap().is_none());
}

#[test]
fn a_refused_sidecar_is_an_error_unless_missing_files_are_refused_too() {
    let start = |unknown: u16| {
        let model = model();
        Server::start(move |request, _| match request.name() {
            "/model.safetensors" => Reply::file(&model, "etag", request),
            "/config.json" => Reply::new(403, ""),
            _ => Reply::new(unknown, ""),
        })
    };
    let open = |server: &Server| {
        let remote = remote();
        let mount = mount(&remote, &format!("{}/model.safetensors", server.address));
        (converted(mount.path()).map(|_| ()), remote.refused_names())
    };
    let (refused, _) = open(&start(404));
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("config.json"), "{refused}");
    assert_eq!(RemoteError::behind(&refused).unwrap().fault(), RemoteFault::Forbidden);
    let (opened, names) = open(&start(403));
    assert!(opened.is_ok() && names.contains(&"config.json".to_owned()), "{opened:?} {names:?}");
}
