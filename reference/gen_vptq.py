"""VPTQ checkpoints: random indices and centroids in the package's own layer, packed and decoded by its own functions."""

import contextlib
import io
import sys
import types

import torch

# The package imports these for its calibration only.
for name in ("sentence_transformers", "sentence_transformers.SentenceTransformer"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["sentence_transformers.SentenceTransformer"].SentenceTransformer = object
with contextlib.redirect_stdout(io.StringIO()):
    from vptq import ops
    from vptq.layers.vqlinear import VQuantLinear
    from vptq.utils.pack import pack_index
from common import seed, write_case


def layer(
    name, rows, cols, vector=8, centroids=256, residuals=-1, outliers=(0, -1, -1), norm=True, perm=True, groups=1,
    dtype=torch.bfloat16, bias=False,
):
    """The tensors of a layer, its decoded weight and its description."""
    columns, outlier_vector, outlier_centroids = outliers
    size = (cols - columns) // groups
    options = {
        "vector_lens": [outlier_vector, vector],
        "num_centroids": [outlier_centroids, centroids],
        "num_res_centroids": [-1, residuals],
        "group_num": groups,
        "group_size": size,
        "outlier_size": columns,
        "indices_as_float": False,
        "enable_norm": norm,
        "enable_perm": perm,
    }
    pairs = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    module = VQuantLinear(
        cols, rows, **pairs, is_indice_packed=True, bias=bias, dtype=dtype, enable_proxy_error=False
    )

    def random(count):
        return torch.randint(0, count, (groups, module.num_indices, size)).to(torch.uint16)

    def values(like, scale):
        return (torch.randn_like(like.float()) * scale).to(dtype)

    index = random(centroids)
    residual = random(residuals) if residuals > 0 else None
    residual_bits = residuals.bit_length() - 1 if residuals > 0 else 0
    module.indices.data = pack_index(index, centroids.bit_length() - 1, residual, residual_bits)
    module.centroids.weight.data = values(module.centroids.weight, 0.05)
    if residuals > 0:
        module.res_centroids.weight.data = values(module.res_centroids.weight, 0.01)
    if module.enable_outlier:
        module.outlier_centroids.weight.data = values(module.outlier_centroids.weight, 0.3)
        shape = module.outlier_indices.shape
        module.outlier_indices.data = (
            torch.randint(0, outlier_centroids, shape).to(torch.uint16).view(torch.int16)
        )
    if norm:
        module.weight_scale.data = (torch.rand(cols) * 2 + 0.1).to(dtype)
        module.weight_bias.data = (torch.randn(cols) * 0.01).to(dtype)
    if perm:
        module.perm.data = torch.randperm(cols).to(torch.uint16).view(torch.int16)
    if bias:
        module.bias.data = torch.randn(rows).to(dtype)
    tensors = {f"{name}.{key}": value for key, value in module.state_dict().items()}
    weight = ops.dequant(
        indices=module.indices.data,
        centroids=module.centroids.weight.data.float().view(groups, centroids, vector),
        outlier_indices=module.outlier_indices.data if module.enable_outlier else None,
        outlier_centroids=module.outlier_centroids.weight.data.float() if module.enable_outlier else None,
        res_indices=None,
        res_centroids=module.res_centroids.weight.data.float() if residuals > 0 else None,
        perm=module.perm.data if perm else None,
        weight_scale=module.weight_scale.data.float() if norm else None,
        weight_bias=module.weight_bias.data.float() if norm else None,
        is_indice_packed=True,
        enable_outlier=module.enable_outlier,
        enable_residual=residuals > 0,
        enable_perm=perm,
        enable_norm=norm,
        num_centroids=centroids,
        num_outlier_centroids=outlier_centroids,
        num_res_centroids=residuals,
        padding=module.padding,
        outlier_padding=module.outlier_padding,
        num_codebooks=groups,
        group_size=size,
        outlier_size=columns,
        vector_len=vector,
        outlier_vector_len=outlier_vector,
    ).contiguous()
    described = {"in_features": cols, "out_features": rows, "is_indice_packed": True, "bias": bias}
    return tensors, weight, {**options, **described, "dtype": str(dtype)[6:]}


def case(name, *layers):
    seed(name)
    tensors, expected, described = {}, {}, {}
    for index, (rows, cols, options) in enumerate(layers):
        module = f"model.layers.{index}.self_attn.q_proj"
        parts, weight, described[module] = layer(module, rows, cols, **options)
        tensors |= parts
        expected[f"{module}.weight"] = weight
    tensors["model.norm.weight"] = torch.randn(8).bfloat16()
    config = {"quant_method": "vptq", "config_for_layers": described, "enable_proxy_error": False}
    write_case("vptq", name, tensors, expected, config)


case("main", (24, 40, {}), (21, 32, {"perm": False}))
case("residual", (32, 48, {"residuals": 256}), (9, 40, {"residuals": 16, "norm": False, "bias": True}))
case("v6_f16", (20, 32, {"vector": 6, "centroids": 512, "dtype": torch.float16}))
case("outliers", (24, 40, {"outliers": (8, 4, 32)}))
case("groups", (16, 48, {"groups": 3}), (8, 32, {"groups": 2, "norm": False, "perm": False, "residuals": 4}))
