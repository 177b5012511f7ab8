# SPDX-License-Identifier: Apache-2.0
"""Networks that people export from PyTorch today: those of timm and of transformers, with random
weights.

In:   timm, transformers (`pip install 'loadstone[user-networks]'`); words: FOLDER NAME ...
Out:  FOLDER/NAME.pt2, a program of torch.export, and FOLDER/NAME.npz, samples drawn at random.
Next: user_networks.py compiles them.

Nothing is downloaded: weights are random, of a fixed seed. Images have 64 x 64 pixels, so that the
size of the network, and not that of the image, is what a compiler spends its time on.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["IMAGES", "SEQUENCES", "write"]

#: Pixels of an image's side, tokens of a sequence, samples.
SIDE, TOKENS, SAMPLES = 64, 32, 4
#: Names of timm.
IMAGES = (
    *("convnext_atto", "convnextv2_atto", "deit_tiny_patch16_224", "dla46_c"),
    *("edgenext_xx_small", "efficientnet_b0", "efficientnet_lite0", "tinynet_d"),
    *("efficientvit_b0", "ese_vovnet19b_slim_dw", "fastvit_t8", "fbnetc_100"),
    *("ghostnet_050", "hardcorenas_a", "inception_next_atto", "lcnet_050"),
    *("levit_128s", "mixer_s32_224", "mnasnet_small", "mobilenetv2_050"),
    *("mobilenetv3_small_050", "mobilenetv4_conv_small", "mobileone_s0", "mobilevit_xxs"),
    *("mobilevitv2_050", "pit_ti_224", "poolformer_s12", "regnetx_002"),
    *("regnety_002", "repghostnet_050", "repvgg_a0", "resmlp_12_224"),
    *("resnet10t", "resnet18", "rexnet_100", "semnasnet_075"),
    *("skresnet18", "starnet_s1", "tf_mixnet_s", "tinynet_e"),
    *("vit_tiny_patch16_224",),
)
#: Networks of transformers: the class, that of its configuration, and how it is small.
SEQUENCES: dict[str, tuple[str, str, dict[str, int]]] = {
    "bert": (
        *("BertModel", "BertConfig"),
        {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
        | {"intermediate_size": 512, "vocab_size": 4000, "max_position_embeddings": TOKENS},
    ),
    "distilbert": (
        *("DistilBertModel", "DistilBertConfig"),
        {"dim": 128, "n_layers": 2, "n_heads": 2, "hidden_dim": 512, "vocab_size": 4000}
        | {"max_position_embeddings": TOKENS},
    ),
    "electra": (
        *("ElectraModel", "ElectraConfig"),
        {"hidden_size": 128, "embedding_size": 128, "num_hidden_layers": 2, "vocab_size": 4000}
        | {"num_attention_heads": 2, "intermediate_size": 512, "max_position_embeddings": TOKENS},
    ),
    "gpt2": (
        *("GPT2LMHeadModel", "GPT2Config"),
        {"n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 1000, "n_positions": TOKENS},
    ),
}


def write(name: str, folder: Path) -> None:
    """Builds one network, exports it, and draws its samples."""
    import torch

    _without_torchvision()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    if name in SEQUENCES:
        drawn = rng.integers(0, 1000, (SAMPLES, 1, TOKENS))
        network = _sequence(name)
    else:
        drawn = rng.normal(0, 1, (SAMPLES, 1, 3, SIDE, SIDE)).astype(np.float32)
        network = _image(name)
    with torch.no_grad():
        program = torch.export.export(network.eval(), (torch.from_numpy(drawn[0]),))
    torch.export.save(program, folder / f"{name}.pt2")
    np.savez(folder / f"{name}.npz", in0=drawn)


def _without_torchvision() -> None:
    """Lets timm and transformers import torchvision where its library does not load: built for a
    PyTorch with CUDA, it finds none of its operators in one without, and fails where it describes
    them. No network here has any."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        absent = "torchvision._meta_registrations"
        sys.modules[absent] = types.ModuleType(absent)


def _image(name: str) -> Any:
    """A network of timm, for images of SIDE pixels."""
    create: Callable[..., Any] = import_module("timm").create_model
    try:
        return create(name, img_size=SIDE)
    except TypeError:  # takes an image of any size
        return create(name)


def _sequence(name: str) -> Any:
    """A network of transformers, whose first result is its only one."""
    import torch

    transformers = import_module("transformers")
    model, config, sizes = SEQUENCES[name]
    inner = getattr(transformers, model)(
        getattr(transformers, config)(**sizes, attn_implementation="eager", use_cache=False)
    )

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, tokens: Any) -> Any:
            return self.inner(tokens)[0]

    return First()


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        try:
            write(wanted, Path(sys.argv[1]))
        except Exception as error:
            print(f"{wanted}: not exported: {type(error).__name__}: {error}")
