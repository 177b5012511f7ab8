# SPDX-License-Identifier: Apache-2.0
"""frontend/aten/dynamic.py: scales that PyTorch finds when the network runs, and the integers of
their products, against PyTorch and NumPy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError
from loadstone.frontend.rewrites import canonical
from loadstone.frontend.torch import from_program
from loadstone.relax.saved import run_module

quantized = torch.ops.quantized_decomposed
TORCHAO = pytest.mark.skipif(
    find_spec("torchao") is None, reason="torchao is not installed (the extra `torch`)"
)
DEPTH, WIDE, ROWS = 32, 16, 4
EPS = 2.0**-12
CHOICES = {"affine": quantized.choose_qparams, "symmetric": quantized.choose_qparams_symmetric}


class Rounded(nn.Module):
    """The integers, and the real numbers that they stand for."""

    def __init__(self, choose: Any, kind: Any = torch.int8, ends: Any = (-128, 127)) -> None:
        super().__init__()
        self.choose, self.kind, self.ends = choose, kind, ends

    def forward(self, x: Any) -> Any:
        """Both."""
        scale, point = self.choose.tensor(x, *self.ends, EPS, self.kind)
        levels = quantized.quantize_per_tensor.tensor(x, scale, point, *self.ends, self.kind)
        real = quantized.dequantize_per_tensor.tensor(levels, scale, point, *self.ends, self.kind)
        return levels, real


class Dense(Rounded):
    """A layer of int8 weights behind it, with a scale for each output or for all."""

    def __init__(
        self, choose: Any, *, many: bool = True, point: int = 0, bias: bool = True
    ) -> None:
        super().__init__(choose)
        torch.manual_seed(3)
        self.register_buffer("levels", torch.randint(-127, 128, (WIDE, DEPTH)).to(torch.int8))
        scales = torch.rand(WIDE if many else 1) / 50 + 0.001
        self.register_buffer("scales", scales)
        self.register_buffer("points", torch.full((len(scales),), point))
        self.one = float(scales[0]), point
        self.register_buffer("bias", torch.randn(WIDE) if bias else None)

    def forward(self, x: Any) -> Any:
        """A linear layer, as PT2E writes it."""
        _, real = super().forward(x)
        if len(self.scales) > 1:
            grid = (self.scales, self.points, 0, -127, 127, torch.int8)
            weight = quantized.dequantize_per_channel(self.levels, *grid)
        else:
            weight = quantized.dequantize_per_tensor(self.levels, *self.one, -127, 127, torch.int8)
        return nn.functional.linear(real, weight, self.bias)


def exported(module: nn.Module, *shape: int) -> Any:
    return torch.export.export(module.eval(), (torch.randn(*shape),))


PROGRAMS = {name: exported(Rounded(choose), 3, 8) for name, choose in CHOICES.items()}
MODULES = {name: canonical(from_program(p, "net")) for name, p in PROGRAMS.items()}


def check_same(name: str, x: NDArray[np.float32]) -> None:
    wanted = [each.numpy() for each in PROGRAMS[name].module()(torch.tensor(x))]
    found = run_module(MODULES[name], [x])
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", CHOICES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_integers_are_pytorch_s(name: str, data: Any) -> None:
    """And what they stand for, bit by bit: of small and large numbers, and of one sign."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    size = 2.0 ** data.draw(st.integers(-40, 60))
    shift = data.draw(st.sampled_from([0.0, -3.0, 5.0]))
    x = np.random.default_rng(seed).normal(shift, 1, (3, 8)) * size
    check_same(name, x.astype(np.float32))


@pytest.mark.parametrize("name", CHOICES)
def test_zeros_and_ties(name: str) -> None:
    check_same(name, np.zeros((3, 8), np.float32))
    ties = np.arange(24, dtype=np.float32).reshape(3, 8) + 0.5
    ties[0, 0], ties[0, 1] = 127.5, -127.5
    check_same(name, ties)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", CHOICES)
def test_what_is_no_number_leaves_none(name: str, value: float) -> None:
    """The scale is NaN or infinite, and with it all that is real, as in PyTorch."""
    x = np.ones((3, 8), np.float32)
    x[1, 2] = value
    _, real = run_module(MODULES[name], [x])
    wanted = PROGRAMS[name].module()(torch.tensor(x))[1].numpy()
    assert not np.isfinite(wanted[1, 2])
    assert not np.isfinite(real[1, 2])
    assert np.isnan(real).all() or not np.isnan(value)


def rows_times(program: Any, dense: Dense, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """PyTorch's integers, exact sums, and each later operation rounded once."""
    scale, point = dense.choose.tensor(torch.tensor(x), -128, 127, EPS, torch.int8)
    levels = quantized.quantize_per_tensor.tensor(
        torch.tensor(x), scale, point, -128, 127, torch.int8
    )
    sums = (levels.numpy().astype(np.int64) - point.numpy()) @ dense.levels.numpy().T.astype(int)
    real = sums.astype(np.float32) * scale.numpy().astype(np.float32) * dense.scales.numpy()
    return np.asarray(real if dense.bias is None else real + dense.bias.numpy(), np.float32)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per output"])
@pytest.mark.parametrize("shape", [(1, DEPTH), (ROWS, DEPTH), (1, ROWS, DEPTH)])
def test_a_layer_runs_on_the_device_with_exact_sums(
    name: str, shape: tuple[int, ...], *, many: bool
) -> None:
    dense = Dense(CHOICES[name], many=many, bias=len(shape) == 2)
    program = exported(dense, *shape)
    compiled = compile(program, "vta-pynq")
    assert "plane_dense" in [row["kind"] for row in compiled.explain() if row["where"] == "vta"]
    assert not compiled.python_steps
    x = np.random.default_rng(7).normal(0.3, 2, (2, *shape)).astype(np.float32)
    (got,) = compiled.run(x)
    want = np.stack([rows_times(program, dense, each) for each in x])
    assert got.tobytes() == want.tobytes()
    theirs = np.stack([program.module()(torch.tensor(each)).numpy() for each in x])
    np.testing.assert_allclose(got.reshape(theirs.shape), theirs, rtol=1e-5, atol=1e-4)


def test_weights_with_a_zero_point_stay_real() -> None:
    program = exported(Dense(CHOICES["affine"], point=3), ROWS, DEPTH)
    compiled = compile(program, "vta-pynq", as_float=True)
    x = np.random.default_rng(7).normal(0.3, 2, (ROWS, DEPTH)).astype(np.float32)
    (got,) = compiled.run(x[None])
    want = program.module()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-4)


class PerToken(nn.Module):
    """A scale for each row, by an operator of its own."""

    def forward(self, x: Any) -> Any:
        """The scales."""
        return quantized.choose_qparams_per_token(x, torch.int8)[0] + x


class Unknown(nn.Module):
    """A scale by other operators."""

    def forward(self, x: Any) -> Any:
        """x, rounded."""
        point = torch.zeros(1, dtype=torch.int64)
        levels = quantized.quantize_per_tensor.tensor(
            x, x.amax().reshape(1), point, -128, 127, torch.int8
        )
        return levels.float()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (PerToken(), 'choose_qparams_per_token.default (node "choose_qparams_per_token"): this'),
        (Unknown(), "its scale or zero point is computed by other operators than choose_qparams"),
        (Rounded(CHOICES["affine"], torch.uint8, (0, 255)), "it finds a scale for torch.uint8"),
    ],
)
def test_other_forms_are_refused_by_name(module: nn.Module, message: str) -> None:
    with pytest.raises(LoadstoneError) as caught:
        from_program(exported(module, 3, 8), "net")
    text = str(caught.value)
    assert message in text
    assert "XNNPACKQuantizer" in text
    assert "\n" not in text


def two_layers() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(DEPTH, 64), nn.ReLU(), nn.Linear(64, WIDE)).eval()


@TORCHAO
@pytest.mark.parametrize("per_channel", [False, True])
def test_programs_of_xnnpack_s_quantizer(*, per_channel: bool) -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    x = torch.randn(ROWS, DEPTH)
    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=True)
    program = torch.export.export(two_layers(), (x,)).module()
    prepared = prepare_pt2e(program, XNNPACKQuantizer().set_global(config))
    prepared(x)
    program = torch.export.export(convert_pt2e(prepared), (x,))
    assert "choose_qparams.tensor" in str(program.graph)
    check_on_device(program, program, x, exact=False)


def check_on_device(model: Any, program: Any, x: Any, *, exact: bool) -> None:
    compiled = compile(model, "vta-pynq")
    kinds = [row["kind"] for row in compiled.explain() if row["where"] == "vta"]
    assert kinds.count("plane_dense") == 2
    assert not compiled.python_steps
    (got,) = compiled.run(x.numpy()[None])
    want = program.module()(x).detach().numpy()
    np.testing.assert_allclose(got[0], want, rtol=0, atol=0 if exact else 1e-5)


def torchao_forms() -> dict[str, dict[str, Any]]:
    from torchao.quantization import PerRow, PerTensor
    from torchao.quantization.quant_primitives import MappingType

    return {
        "a scale per token": {},
        "a scale per tensor": {"granularity": [PerTensor(), PerRow()]},
        "one scale of weights": {"granularity": [PerRow(), PerTensor()]},
        "a zero point": {"act_mapping_type": MappingType.ASYMMETRIC},
    }


FORMS = ["a scale per token", "a scale per tensor", "one scale of weights", "a zero point"]


@TORCHAO
@pytest.mark.parametrize("form", FORMS)
def test_torchao_s_int8_gives_its_bits(form: str, tmp_path: Path) -> None:
    """From a program in memory, and from a file."""
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
    from torchao.utils import unwrap_tensor_subclass

    net, x = two_layers(), torch.randn(ROWS, DEPTH)
    quantize_(net, Int8DynamicActivationInt8WeightConfig(**torchao_forms()[form]))
    program = torch.export.export(net, (x,))
    check_on_device(program, program, x, exact=True)

    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    with pytest.raises(LoadstoneError, match=r"unwrap_tensor_subclass\(model\) before the export"):
        compile(path, "vta-pynq")
    unwrap_tensor_subclass(net)
    program = torch.export.export(net, (x,))
    torch.export.save(program, path)
    with pytest.raises(LoadstoneError, match=r"program\.run_decompositions\(\) before it is saved"):
        compile(path, "vta-pynq")
    torch.export.save(program.run_decompositions(), path)
    check_on_device(path, program, x, exact=True)


@TORCHAO
def test_torchao_s_groups_of_four_bits_are_real_weights() -> None:
    """With a scale and a zero point for each token; the products are the host's."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    net, x = two_layers(), torch.randn(ROWS, DEPTH)
    config = {"weight_dtype": torch.int4, "weight_granularity": PerGroup(16)}
    quantize_(net, Int8DynamicActivationIntxWeightConfig(**config))
    program = torch.export.export(net, (x,))
    (got,) = compile(program, "vta-pynq", as_float=True).run(x.numpy()[None])
    want = program.module()(x).detach().numpy()
    np.testing.assert_allclose(got[0], want, rtol=0, atol=1e-5)
