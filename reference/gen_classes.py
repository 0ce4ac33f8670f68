"""Lists the module type of every matrix in every model class of transformers.

    python gen_classes.py [model_classes.json]

Every class is built without values (on the meta device) from its default configuration, with as few layers as that allows, and
asked what `replace_with_bnb_linear` and `get_modules_to_not_convert` ask: which of its matrices belong to a layer of the very class
`Linear`, which to a `Conv1D`, which to neither; which layers stay F32; which heads share the numbers of an embedding. Classes are
put together by the kinds of models (`model_type`) that their configurations name; layers of `Linear` are listed for kinds that have
anything else but embeddings. Numbers in names become 0.
"""

import importlib
import json
import os
import re
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402
from transformers.quantizers.quantizers_utils import should_convert_module  # noqa: E402

from common import FIXTURES  # noqa: E402

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

# The usual names of embeddings.
EMBEDDINGS = ("embeddings", "embedding", "embed_tokens", "embed_positions", "wte", "wpe", "shared", "embed", "embed_in")
LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth", "num_decoder_layers",
    "num_encoder_layers",
)


def shrink(config):
    """Few layers, in every part of a configuration."""
    for key in LAYERS:
        value = getattr(config, key, None)
        if isinstance(value, int) and value > 2:
            try:
                setattr(config, key, 2)
            except Exception:
                pass
    for key in ("layer_types", "mlp_layer_types", "attention_types"):
        value = getattr(config, key, None)
        if isinstance(value, list) and len(value) > 2 and isinstance(value[0], str):
            setattr(config, key, value[:2])
    for value in list(vars(config).values()):
        if isinstance(value, transformers.PreTrainedConfig):
            shrink(value)
    return config


def plain(name):
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "0", name)


def kinds(config):
    """The model_type of a model and of its sub-models."""
    inner = [value for value in vars(config).values() if isinstance(value, transformers.PreTrainedConfig)]
    return {config.model_type} | {kind for part in inner for kind in kinds(part)} - {""}


def facts(cls, config):
    with torch.device("meta"):
        model = cls(config)
    found = {"conv1d": set(), "linear": set(), "other": set(), "in_f32": set(), "tied": set()}
    kept = model._keep_in_fp32_modules or []
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, torch.nn.Parameter) or weight.dim() != 2:
            continue
        if isinstance(module, Conv1D):
            place = "conv1d"
        elif type(module) is not torch.nn.Linear:
            place = "other"
        elif f"{name}.weight" in model.all_tied_weights_keys:
            place = "tied"
        else:
            place = "linear" if should_convert_module(name, kept) else "in_f32"
        found[place].add(plain(name))
    return found


def main():
    found, failed = {}, []
    for kind in sorted(CONFIG_MAPPING_NAMES):
        try:
            config_class = transformers.CONFIG_MAPPING[kind]
            module = importlib.import_module(config_class.__module__.replace("configuration_", "modeling_"))
        except Exception:
            failed.append(kind)
            continue
        for name in dir(module):
            cls = getattr(module, name)
            if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)) or cls.__module__ != module.__name__:
                continue
            if name.endswith("PreTrainedModel") or getattr(cls, "config_class", None) is None:
                continue
            for make in (lambda: shrink(cls.config_class()), lambda: cls.config_class()):
                try:
                    config = make()
                    lists = found.setdefault(" ".join(sorted(kinds(config))), {})
                    for key, names in facts(cls, config).items():
                        lists.setdefault(key, set()).update(names)
                    break
                except Exception:
                    failed.append(name)
    # Of the many, the ends of their names.
    short = lambda names: sorted({".".join(name.split(".")[-3:]) for name in names})
    table = {}
    for kind, lists in sorted(found.items()):
        special = {key: sorted(lists[key]) for key in ("conv1d", "in_f32", "tied") if lists.get(key)}
        if lists.get("other"):
            special["other"] = short(lists["other"])
        if "conv1d" in special or "in_f32" in special or any(not name.endswith(EMBEDDINGS) for name in special.get("other", [])):
            special["linear"] = short(lists["linear"])
        if special:
            table[kind] = special
    path = sys.argv[1] if len(sys.argv) > 1 else FIXTURES / "model_classes.json"
    with open(path, "w") as file:
        json.dump({"transformers": transformers.__version__, "kinds": table}, file, indent=1)
        file.write("\n")
    print(len(table), "kinds,", len(set(failed)), "classes not built")


if __name__ == "__main__":
    main()
