"""SINQ checkpoints: weights quantised, saved and decoded by sinq. CASE.sidecar.json is what it writes to
`model.safetensors.index.json.meta.json`."""

import contextlib
import glob
import io
import shutil
import tempfile

import torch
from common import FIXTURES, seed, write_case
from safetensors.torch import load_file

with contextlib.redirect_stdout(io.StringIO()):
    from sinq.patch_model import BaseSINQHFModel
    from sinq.sinqlinear_hf import SINQLinear, sinq_base_quant_config


def case(name, layers, **options):
    seed(name)
    modules, expected = {}, {}
    for index, (rows, cols, bias) in enumerate(layers):
        module = f"model.layers.{index}.mlp.down_proj"
        values = torch.randn(rows, cols) * 0.05
        values[0] *= 1e-3
        with contextlib.redirect_stdout(io.StringIO()):
            layer = SINQLinear(
                in_features=cols,
                out_features=rows,
                quant_config=sinq_base_quant_config(**options),
                compute_dtype=torch.bfloat16,
                device="cpu",
                use_unpack_kernel=True,
            )
            layer.quantize(values.bfloat16(), bias=torch.randn(rows) if bias else None)
        modules[module] = layer.state_dict()
        layer.meta["compute_dtype"] = torch.float32
        expected[f"{module}.weight"] = layer.dequantize().clone()
    modules["model.norm"] = {"weight": torch.randn(8).bfloat16()}
    with tempfile.TemporaryDirectory() as directory:
        BaseSINQHFModel.save_weights_safetensors(modules, directory)
        (file,) = glob.glob(f"{directory}/model-*.safetensors")
        config = {"quant_method": "sinq", "tiling_mode": "1D", **options}
        write_case("sinq", name, load_file(file), expected, config)
        sidecar = FIXTURES / "sinq" / f"{name}.sidecar.json"
        shutil.copyfile(f"{directory}/model.safetensors.index.json.meta.json", sidecar)


for bits in (8, 6, 5, 4, 3, 2):
    case(f"sinq{bits}", [(16, 32, bits == 4), (32, 16, False)], nbits=bits, group_size=16, method="sinq")
for method, bits in (("dual", 4), ("sinq_noaux", 4), ("sinq_nf4", 4), ("sinq_nf3", 3)):
    case(method, [(16, 32, False)], nbits=bits, group_size=16, method=method)
case("tiles", [(32, 64, False)], nbits=4, group_size=32, tiling_mode="2D", method="sinq_noaux")
