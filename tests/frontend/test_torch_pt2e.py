# SPDX-License-Identifier: Apache-2.0
"""Layers quantized by PT2E, by XNNPACK's and by Arm's quantizer, against PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
if find_spec("torchao") is None:  # its import takes two seconds of each process that collects tests
    pytest.skip("torchao is not installed (the extra `torch`)", allow_module_level=True)

import torch
from torch import nn

from loadstone.compiler import compile

IMAGE, ROW = (1, 8, 9, 11), (1, 8, 30)
#: By name: the layers, the shape of their input, and how many of them XNNPACK's quantizer leaves to
#: the device.
NETWORKS: dict[str, tuple[list[nn.Module], tuple[int, ...], int]] = {
    "conv1d, same": (
        [nn.Conv1d(8, 12, 4, padding="same"), nn.ReLU(), nn.Conv1d(12, 4, 3)],
        ROW,
        2,
    ),
    "conv1d, same, depthwise": (
        [nn.Conv1d(8, 8, 3, padding="same", dilation=2, groups=8), nn.ReLU()],
        ROW,
        1,
    ),
    "transposed, depthwise": (
        [nn.Conv2d(8, 8, 1), nn.ConvTranspose2d(8, 8, 3, stride=2, groups=8), nn.ReLU()],
        IMAGE,
        2,
    ),
    "transposed, grouped": (
        [
            nn.Conv2d(8, 8, 1),
            nn.ConvTranspose2d(8, 12, 4, stride=2, padding=1, groups=4),
            nn.ReLU(),
        ],
        IMAGE,
        1,  # its quantizer gives scales to the channels of a group: the host has these
    ),
    "padded by reflection": (
        [nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.Conv2d(8, 4, 1)],
        IMAGE,
        2,
    ),
    "padded around": (
        [nn.Conv2d(8, 8, 3, padding=(2, 1), padding_mode="circular"), nn.Conv2d(8, 4, 1)],
        IMAGE,
        2,
    ),
    "unshuffled": (
        [nn.Conv2d(8, 8, (2, 4)), nn.PixelUnshuffle(2), nn.Conv2d(32, 4, 1)],
        IMAGE,
        2,
    ),
}


def xnnpack() -> Any:
    from torchao.testing.pt2e._xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def arm() -> Any:
    from torchao.quantization.pt2e.quantizer import arm_inductor_quantizer as inductor

    config = inductor.get_default_arm_inductor_quantization_config()
    return inductor.ArmInductorQuantizer().set_global(config)


def quantized(layers: list[nn.Module], samples: Any, quantizer: Any) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(
        torch.export.export(nn.Sequential(*layers).eval(), (samples[0],)).module(), quantizer
    )
    for sample in samples:
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), (samples[0],))


@pytest.mark.parametrize(
    ("name", "quantizer"),
    [
        *((name, xnnpack) for name in NETWORKS),
        *((name, arm) for name in NETWORKS if "conv1d" not in name),  # it leaves rows float
    ],
)
def test_layers_are_pytorchs(name: str, quantizer: Any) -> None:
    """PyTorch adds a bias in float32, the device on the accumulator's grid: a few elements may
    be on the other side of a tie, by a step; one of a layer before it moves several."""
    torch.manual_seed(1)
    layers, shape, on_device = NETWORKS[name]
    program = quantized(layers, torch.randn(8, *shape), quantizer())
    compiled = compile(program, "vtaq-1x16x16")
    x = torch.randn(3, *shape)
    (got,) = compiled.run(x.numpy())
    with torch.no_grad():
        want = np.stack([program.module()(image).numpy() for image in x])
    apart = np.abs(got.reshape(want.shape) - want)
    steps = [
        node.args[1]
        for node in program.graph.nodes
        if ".dequantize_per_tensor." in str(node.target)
    ]
    assert apart.max() < 1.01 * max(steps) + 1e-5
    assert np.count_nonzero(apart > 1e-5) <= want.size // 20
    kinds = [row["kind"] for row in compiled.explain() if row["where"] == "vta"]
    if quantizer is xnnpack:
        assert kinds.count("conv2d") >= on_device
