"""BitsAndBytes checkpoints, quantised and dequantised by bitsandbytes on CPU."""

import copy

import bitsandbytes
import bitsandbytes.functional as functional
import torch

from common import seed, write_case

LAYER = "model.layers.0.self_attn.q_proj"
WEIGHT = f"{LAYER}.weight"


def four_bit_config(quant_type, nested, dtype_name):
    """The quantization_config that transformers writes."""
    return {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "load_in_8bit": False,
        "bnb_4bit_quant_type": quant_type,
        "bnb_4bit_use_double_quant": nested,
        "bnb_4bit_compute_dtype": dtype_name,
        "bnb_4bit_quant_storage": "uint8",
        "llm_int8_skip_modules": None,
    }


def four_bit(quant_type, nested, block_size, dtype, shape, suffix=""):
    """One layer in four bits; `nested` quantises the block maxima too."""
    dtype_name = str(dtype).removeprefix("torch.")
    case = f"{quant_type}{'_nested' if nested else ''}_b{block_size}_{dtype_name}{suffix}"
    seed(f"bnb/{case}")
    source = (torch.randn(*shape) * 0.05).to(dtype)
    source[0] = 0
    weight = bitsandbytes.nn.Params4bit(
        source.clone(),
        requires_grad=False,
        quant_type=quant_type,
        blocksize=block_size,
        compress_statistics=nested,
        quant_storage=torch.uint8,
    )
    linear = bitsandbytes.nn.Linear4bit(
        shape[1],
        shape[0],
        bias=False,
        compute_dtype=dtype,
        compress_statistics=nested,
        quant_type=quant_type,
    )
    linear.weight = weight
    linear = linear.to("cpu")
    if getattr(linear.weight, "quant_state", None) is None:
        linear.weight = linear.weight._quantize("cpu")
    state = linear.weight.quant_state
    native = functional.dequantize_4bit(linear.weight.data, state)
    wide = copy.deepcopy(state)
    wide.dtype = torch.float32
    values = functional.dequantize_4bit(linear.weight.data, wide)
    settings = four_bit_config(quant_type, nested, dtype_name)
    tensors = {f"{LAYER}.{key}": value for key, value in linear.state_dict().items()}
    own = {} if torch.equal(values.to(dtype), native) else {WEIGHT: native}
    write_case("bnb", case, tensors, {WEIGHT: values}, settings, own)


def every_four_bit_pair(quant_type):
    """All 256 bytes, two codes each, against random block maxima."""
    case = f"{quant_type}_allcodes"
    seed(f"bnb/{case}")
    state = functional.QuantState(
        absmax=torch.rand(8) * 0.1,
        shape=torch.Size([8, 64]),
        code=functional.get_4bit_type(quant_type, device="cpu"),
        blocksize=64,
        quant_type=quant_type,
        dtype=torch.float32,
    )
    packed = torch.arange(256, dtype=torch.uint8).reshape(-1, 1)
    tensors = {WEIGHT: packed}
    for key, value in state.as_dict(packed=True).items():
        tensors[f"{WEIGHT}.{key}"] = value
    values = functional.dequantize_4bit(packed, state)
    write_case(
        "bnb", case, tensors, {WEIGHT: values}, four_bit_config(quant_type, False, "float32")
    )


def eight_bit(case, shape, bias=False):
    """One layer of LLM.int8: a scale per row."""
    seed(f"bnb/{case}")
    source = (torch.randn(*shape) * 0.05).half()
    source[3] = 0
    codes, row_maxima, _ = functional.int8_vectorwise_quant(source)
    tensors = {
        WEIGHT: codes,
        f"{LAYER}.SCB": row_maxima,
        f"{LAYER}.weight_format": torch.tensor(0, dtype=torch.uint8),
    }
    if bias:
        tensors[f"{LAYER}.bias"] = torch.randn(shape[0]).half()
    settings = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": False,
        "load_in_8bit": True,
        "llm_int8_threshold": 6.0,
        "llm_int8_skip_modules": None,
    }
    values = functional.int8_vectorwise_dequant(codes, row_maxima)
    write_case("bnb", case, tensors, {WEIGHT: values}, settings)


def every_int8_code():
    """All 256 codes in each row, against several row maxima."""
    codes = torch.arange(-128, 128, dtype=torch.int16).to(torch.int8).repeat(5, 1)
    row_maxima = torch.tensor([0.12345, 1.0, 127.0, 3.7e-5, 0.0])
    tensors = {
        WEIGHT: codes,
        f"{LAYER}.SCB": row_maxima,
        f"{LAYER}.weight_format": torch.tensor(0, dtype=torch.uint8),
    }
    settings = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    values = functional.int8_vectorwise_dequant(codes, row_maxima)
    write_case("bnb", "int8_allcodes", tensors, {WEIGHT: values}, settings)


def main():
    for quant_type in ("nf4", "fp4"):
        for nested in (False, True):
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                four_bit(quant_type, nested, 64, dtype, (4, 128))
        every_four_bit_pair(quant_type)
    four_bit("nf4", False, 128, torch.bfloat16, (8, 128))
    for nested in (False, True):
        four_bit("nf4", nested, 64, torch.bfloat16, (11, 70), "_short_last_block")
        four_bit("nf4", nested, 64, torch.bfloat16, (11, 33), "_odd")
    four_bit("fp4", True, 64, torch.bfloat16, (11, 70), "_short_last_block")
    # More than 256 blocks, so that their maxima take two nested blocks.
    four_bit("nf4", True, 32, torch.bfloat16, (130, 64), "_two_nested_blocks")
    eight_bit("int8", (16, 48))
    eight_bit("int8_bias", (10, 33), bias=True)
    every_int8_code()


if __name__ == "__main__":
    main()
