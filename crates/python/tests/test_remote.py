"""Models at addresses, against a server in this process."""

import functools
import http.server
import threading

import numpy as np
import pytest

import anamnesis
from anamnesis import errors


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files with ranges."""

    def do_GET(self):
        path = self.translate_path(self.path)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            return self.send_error(404)
        first, last = (int(text) for text in self.headers["Range"].removeprefix("bytes=").split("-"))
        part = content[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_models_at_addresses_are_opened_and_converted(server, tmp_path, rng):
    values = rng.standard_normal((300, 256)).astype(np.float32)
    anamnesis.save_file({"model.layers.0.mlp.up_proj.weight": values}, tmp_path / "model.safetensors")
    with anamnesis.open(f"{server}/model.safetensors") as model:
        assert np.array_equal(model["model.layers.0.mlp.up_proj.weight"].numpy(), values)
    local = anamnesis.forget(tmp_path / "model.safetensors", tmp_path / "a.gguf", to="q8_0", keep_names=True)
    remote = anamnesis.forget(
        f"{server}/model.safetensors", tmp_path / "b.gguf", to="q8_0", keep_names=True, timeout=10, network_concurrency=2
    )
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert local.quantized == remote.quantized
    assert anamnesis.inspect(f"{server}/model.safetensors").tensor_count == 1


def test_errors_of_addresses_are_exceptions(server):
    with pytest.raises(errors.MissingFileError, match="no such file"):
        anamnesis.open(f"{server}/missing.gguf")
    with pytest.raises(errors.AnamnesisError) as refused:
        anamnesis.open("https://user:secret@host/model.gguf")
    assert "secret" not in str(refused.value)


def test_clouds_are_a_feature_of_the_wheel():
    for act in (anamnesis.open, anamnesis.inspect):
        with pytest.raises(errors.AnamnesisError, match="clouds"):
            act("s3://bucket/model.gguf")
