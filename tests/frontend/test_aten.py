# SPDX-License-Identifier: Apache-2.0
"""frontend/aten/: every operator in the table equals PyTorch, through layout.py and
canonical.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten import OPERATORS
from loadstone.frontend.rewrites import canonical
from loadstone.frontend.torch import NO_FORM, from_program
from loadstone.relax.compat import relax, tvm

Function = Callable[[Any], Any]


def seeded(module: nn.Module) -> nn.Module:
    """With statistics and slopes that are not the trivial ones."""
    torch.manual_seed(7)
    for tensor in (
        *module.parameters(),
        *(b for b in module.buffers() if b.dtype == torch.float32),
    ):
        torch.nn.init.uniform_(tensor, 0.2, 1.4)
    return module.eval()


def image() -> Any:
    torch.manual_seed(3)
    return torch.randn(1, 6, 10, 14) * 2


#: By name: a function of an image (1, 6, 10, 14). In-place operators, views and functions of one
#: value are what networks are written in.
CASES: dict[str, Function] = {
    "conv2d": seeded(nn.Conv2d(6, 8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))),
    "conv2d grouped": seeded(nn.Conv2d(6, 9, 3, groups=3, bias=False)),
    "conv2d depthwise": seeded(nn.Conv2d(6, 12, 3, groups=6, padding=1)),
    "conv2d same": seeded(nn.Conv2d(6, 4, (4, 3), padding="same", dilation=(1, 2))),
    "conv2d valid": seeded(nn.Conv2d(6, 4, 3, padding="valid")),
    "conv1d": lambda x: CONV1D(x[:, :, 2]),
    "conv_transpose2d": seeded(nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)),
    "conv_transpose1d": lambda x: TURNED1D(x[:, :, 2]),
    "linear": lambda x: LINEAR(x),
    "linear of a vector": lambda x: LINEAR(x.mean((2,)).view(6, 14)),
    "addmm": lambda x: torch.addmm(x[0, 0, 0], x[0, 1], torch.ones(14, 14)),
    "mm": lambda x: torch.mm(x[0, 0], x[0, 1].t()),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "bmm": lambda x: torch.bmm(x[0], x[0].transpose(1, 2)),
    "int_mm": lambda x: torch._int_mm(x[0, 0].to(torch.int8), x[0, 1].t().to(torch.int8)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 0.5, x + 1),
    "attention, causal": lambda x: F.scaled_dot_product_attention(
        x, x, x, is_causal=True, scale=0.25
    ),
    "attention, masked": lambda x: (
        F.scaled_dot_product_attention(x, x, x, (torch.arange(10) < 7).repeat(10, 1))
        + F.scaled_dot_product_attention(x, x, x, x[..., :10])
    ),
    "adaptive_avg_pool1d": lambda x: (
        F.adaptive_avg_pool1d(x[0], 1) + F.adaptive_avg_pool1d(x[0], 7).sum()
    ),
    "unbind": lambda x: torch.cat(x.unbind(1)[1:3], 1),
    "max_pool1d": lambda x: torch.max_pool1d(x[:, :, 2], 3, 2, 1),
    "group_norm": seeded(nn.GroupNorm(3, 6)),
    "batch_norm of an image": seeded(nn.BatchNorm2d(6)),
    "batch_norm without weights": seeded(nn.BatchNorm2d(6, affine=False, eps=0.1)),
    "batch_norm of vectors": lambda x: NORM1D(x[0, :, 0].t()),
    "batch_norm of rows": lambda x: NORM1D(x[:, :, 0]),
    "layer_norm": seeded(nn.LayerNorm(14)),
    # of three steps: a first, an inner and a last one
    "lstm": lambda x: LSTM(x[0, :3])[0],
    "lstm, its states": lambda x: torch.cat(LSTM(x[0, :3], (STATES, STATES * x.mean()))[1], 2),
    "gru": lambda x: GRU(x[0, :, :3])[0],
    "gru, its state": lambda x: GRU(x[0, :, :3], STATES[:1, :6] * x.mean())[1],
    "rnn": lambda x: RNNS[0](x[0, :3])[0] + RNNS[1](x[0, :3])[0],
    "dropout": nn.Dropout(0.5).eval(),
    "relu": lambda x: (x + 1).relu_(),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "clamp": lambda x: x.clamp(-0.5, 1.5),
    "clamp below": lambda x: torch.clamp(x, min=0.25),
    "clamp between limits that cross": lambda x: x.clamp(torch.inf, 1.5) + x.clamp(2, -1),
    "clamp_min": lambda x: torch.clamp_min(x, 0.5),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "clamp of relu": lambda x: torch.clamp(torch.relu(x), -1, 1.0),
    "clamps of each other": lambda x: torch.clamp(torch.clamp(x, -1, 0.25), 0.5, 0.75),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu of one slope": nn.PReLU().eval(),
    "prelu": seeded(nn.PReLU(6)),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.5),
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs()),
    "neg, floor, ceil, round, erf": lambda x: (
        -torch.floor(x) + torch.ceil(2 * x) * torch.round(3 * x) + torch.erf(x)
    ),
    "add with alpha": lambda x: torch.add(x, x, alpha=3),
    "add in place": lambda x: twice_in_place(x.clone()),
    "arithmetic with numbers": lambda x: (2 - x) * 3 / 4 - 1 + 5 / (x.abs() + 1),
    "arithmetic with constants": lambda x: (
        x * torch.linspace(1, 2, 14) + torch.arange(6.0).view(6, 1, 1)
    ),
    "division": lambda x: x / (x.abs() + 1),
    "rsub": lambda x: torch.rsub(x, x, alpha=2),
    "maximum, minimum": lambda x: torch.maximum(x, -x) + torch.minimum(x, x * x),
    "pow": lambda x: x.square() + x.abs() ** 1.5,
    "max_pool2d": nn.MaxPool2d(3, 2, 1),
    "max_pool2d ceil": nn.MaxPool2d(3, 2, ceil_mode=True),
    "max_pool2d with indices": lambda x: F.max_pool2d(x, (2, 3), return_indices=True)[0],
    "avg_pool2d": nn.AvgPool2d((2, 3), 2),
    "avg_pool2d padded": nn.AvgPool2d(3, 2, 1),
    "avg_pool2d of what is inside": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "avg_pool2d ceil": nn.AvgPool2d(3, 2, ceil_mode=True),
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d(1),
    "adaptive_avg_pool2d even": nn.AdaptiveAvgPool2d((5, 2)),
    "adaptive_avg_pool2d uneven": nn.AdaptiveAvgPool2d((3, 4)),
    "adaptive_max_pool2d": nn.AdaptiveMaxPool2d((5, 7)),
    "mean": lambda x: x.mean((2, 3)),
    "mean of all": lambda x: x.mean() + x.sum(),
    "mean of one axis": lambda x: x.mean(-1, keepdim=True),
    "sum": lambda x: x.sum((1, 3), keepdim=True),
    "amax": lambda x: x.amax((2, 3)),
    "argmax": lambda x: x.argmax(1),
    "flatten": lambda x: torch.flatten(x, 1),
    "flatten after a pool": lambda x: torch.flatten(F.max_pool2d(x, 2), 1),
    "view, reshape, unflatten": lambda x: x.view(6, -1).reshape(2, 3, -1).unflatten(0, (2, 1)),
    "squeeze, unsqueeze": lambda x: x.squeeze(0).unsqueeze(-1),
    "permute": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "shuffled channels": lambda x: x.view(1, 2, 3, 10, 14).transpose(1, 2).reshape(1, 6, 10, 14),
    "t": lambda x: x[0, 0].t().transpose(0, 1),
    "expand": lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, 2, 3),
    "cat": lambda x: torch.cat([F.relu(x), x * 2], 1),
    "stack": lambda x: torch.stack([x, -x], 1),
    "slice": lambda x: x[:, 1:-1, ::2, -9:],
    "select": lambda x: x[:, -1],
    "split": lambda x: torch.split(x, 4, 1)[1],
    "split by sizes": lambda x: torch.split(x, [1, 2, 3], 1)[2],
    "chunk": lambda x: x.chunk(4, 3)[3],
    "channel shuffle": lambda x: F.channel_shuffle(x, 3),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :4], 2),
    "pad": lambda x: F.pad(x, (1, 2, 3, 0), value=1.5),
    "zero pad": nn.ZeroPad2d((0, 1, 0, 1)),
    "upsample nearest": lambda x: F.interpolate(x, scale_factor=2),
    "upsample nearest to a size": lambda x: F.interpolate(x, size=(30, 7)),
    "upsample bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "upsample bilinear by halves": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "upsample bilinear to a size": lambda x: F.interpolate(x, size=(13, 11), mode="bilinear"),
    "upsample bilinear to corners": lambda x: F.interpolate(
        x, size=(20, 28), mode="bilinear", align_corners=True
    ),
    "cast": lambda x: (x * 10).to(torch.int32).to(torch.float32),
    # -- functions of one tensor
    **{
        name: lambda x, name=name: getattr(torch, name)(x)
        for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "asinh", "trunc", "sign", "expm1")
    },
    "asin, acos, atanh": lambda x: torch.asin(x / 9) + torch.acos(x / 9) + torch.atanh(x / 9),
    "acosh": lambda x: torch.acosh(x.abs() + 1),
    "of integers": lambda x: torch.sin((x * 3).int()) + (x * 3).int().floor() - (x * 3).int().abs(),
    "clamp of integers": lambda x: (x * 1e9).long().clamp(-(2**40) - 1, 2**25 + 1),
    "truths": lambda x: (
        torch.logical_not(x) | (x > 1) & ~(x <= 0.5) ^ torch.isnan(x) | torch.isinf(x / 0)
    ),
    "logical": lambda x: torch.logical_xor(x > 0, x) & torch.logical_or(x > 1, x < -1),
    "logical of numbers": lambda x: torch.logical_and(x.int(), x),
    "bits": lambda x: ((x.int() & 6) | 1) ^ (~x.int() & x.int()),
    # -- of two
    "comparisons": lambda x: torch.stack([x == x.round(), x != 1, x < 0.5, x <= 0, x >= x]),
    "comparisons of two types": lambda x: x.int() > x,
    "integers and numbers": lambda x: x.int() * 0.5 + x.int() / 4 - x.long() * x.int(),
    "sums of truths": lambda x: (x > 0) + (x > 1) * (x < 2),
    "division, floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "division, trunc": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "division, none": lambda x: torch.div(x, 0.3, rounding_mode=None),
    "division of integers, floor": lambda x: (x * 10).int() // 3 + (x * 10).int() // -7,
    "remainder": lambda x: x % 0.75 + torch.fmod(x, 0.75) + x % -0.75,
    "remainder of integers": lambda x: (x * 9).int() % 5 + torch.fmod((x * 9).int(), 5),
    "atan2": lambda x: torch.atan2(x, x.flip(3)),
    "powers": lambda x: x**3 + 1.5**x + x.abs() ** x,
    "reciprocal of integers": lambda x: torch.reciprocal(x.int() * 2 + 1),
    "where": lambda x: (
        torch.where(x > 0, x, 3) + torch.where(x > 1, 0.0, x) + torch.where(x > 0, 1, 2)
    ),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.5) + x.masked_fill(x > 0, x[0, 0, 0, 0]),
    "clamp by tensors": lambda x: x.clamp(x.flip(2), x.flip(3)) + torch.clamp(x, max=x.flip(1)),
    # -- products
    "addmm, weighed": lambda x: torch.addmm(
        x[0, 0, 0, :10], x[0, 1], x[0, 2].t(), beta=2, alpha=0.5
    ),
    "baddbmm": lambda x: torch.baddbmm(x[0, :, :, :10], x[0], x[0].transpose(1, 2), beta=0.5),
    "mv, dot": lambda x: torch.mv(x[0, 0], x[0, 1, 0]) + torch.dot(x[0, 0, 0], x[0, 1, 0]),
    "addmv": lambda x: torch.addmv(x[0, 0, :, 0], x[0, 1], x[0, 1, 0], alpha=2),
    "conv1d same": lambda x: CONV1D_SAME(x[:, :, 2]),
    "rms_norm": lambda x: F.rms_norm(x, (14,)) + F.rms_norm(x, (10, 14), x[0, 0], 0.25),
    "layer_norm of two axes": lambda x: F.layer_norm(x, (10, 14)),
    "attention, nothing but -inf in a mask": lambda x: F.scaled_dot_product_attention(
        x, x, x, torch.where(torch.arange(10) < 3, 0.0, -torch.inf).repeat(10, 1)
    ),
    "attention, masked by what is computed": lambda x: F.scaled_dot_product_attention(
        x, x, x, x[..., :10] > -9
    ),
    # -- reductions
    "prod": lambda x: (x / 2).prod(3) + x.amin((2, 3), keepdim=True).squeeze(3),
    "sum of integers": lambda x: x.int().sum(3) + (x > 0).sum(3),
    "max": lambda x: x.max() + x.min() + x.max(1)[0] + x.min(1)[0],
    "places of the largest": lambda x: (
        x.max(2)[1] + x.min(2, keepdim=True)[1][:, :, 0] + x.argmin(2)
    ),
    "place in all": lambda x: x.argmax() + x.argmin(),
    "any, all": lambda x: torch.stack([(x > 3).any(), (x > -99).all(), x.any(), (x > 9).any()]),
    "any of an axis": lambda x: (x > 2).any(3) ^ (x > -2).all(3),
    "var, std": lambda x: x.var((2, 3)) + x.std((2, 3), correction=0) + torch.var_mean(x)[0],
    "cumsum": lambda x: x.cumsum(2) + x.int().cumsum(3),
    "norms": lambda x: x.norm(dim=3) + torch.linalg.vector_norm(x, dim=3, ord=1) + x.logsumexp(3),
    # -- movement
    "glu": lambda x: F.glu(x, 1),
    "pad by edges": lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"),
    "pad by reflection": lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"),
    "pad by reflection, rows": lambda x: F.pad(x[0], (2, 1), mode="reflect"),
    "pad around": lambda x: F.pad(x, (2, 1, 0, 3), mode="circular"),
    "pad integers": lambda x: F.pad((x * 1e9).long(), (2, 1, 0, 3), value=2**40 + 1),
    "pad by less than nothing": lambda x: F.pad(x, (-1, 2, 3, -2), value=0.5),
    "conv2d that pads by reflection": lambda x: REFLECTING(x),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: nn.ChannelShuffle(2)(x),
    "unfold": lambda x: x.unfold(2, 4, 3),
    "flip, roll": lambda x: x.flip(1, 3) + torch.roll(x, 3, 2),
    "repeat": lambda x: x[0].repeat(2, 1, 1, 3),
    "log1p": lambda x: torch.log1p(x.abs() * 1e-4) + torch.log1p(x.abs()),
    "exp2": torch.exp2,
    "cumprod": lambda x: (x / 2).cumprod(3),
    "gather": lambda x: x.gather(2, (x[:, :, :4, :9] > 0).long() * 7),
    "without a batch": lambda x: F.max_pool2d(CONV2D(x[0]), 2) + F.avg_pool2d(CONV2D(x[0]), 2),
    "embedding": lambda x: F.embedding((x.abs() * 2).long().clamp(max=8), x[0, 0, :9].detach()),
    "index by what is computed": lambda x: x[0, 0][(x[0, 1].sign() * 3).long()],
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0, 3])),
    "index": lambda x: x[:, [2, 4, 4]] + x[:, :, [1, 0, -1], [2, 2, 13]].sum(),
    "index of a frame": lambda x: x[:, :, torch.tensor([[1], [3]]), torch.tensor([0, 5, 2])],
    "like": lambda x: (
        x + torch.zeros_like(x) + torch.full_like(x, 2) + torch.ones_like(x) * x.new_full((14,), 3)
    ),
    "tril": lambda x: torch.tril(x) + torch.triu(x, 1),
    "upsample nearest by 1.3": lambda x: F.interpolate(x, scale_factor=1.3),
    "upsample nearest of rows": lambda x: F.interpolate(x[0], scale_factor=2.5),
    "upsample bilinear by 1.3": lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"),
    "upsample linear of rows": lambda x: F.interpolate(x[0], size=9, mode="linear"),
    "upsample linear to corners": lambda x: F.interpolate(
        x[0], scale_factor=1.7, mode="linear", align_corners=True
    ),
    "upsample bicubic": lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
    "avg_pool1d": lambda x: F.avg_pool1d(x[:, :, 0], 3, 2, 1),
    "stft": lambda x: torch.view_as_real(
        torch.stft(x[0, 0].reshape(-1), 32, 8, window=torch.hann_window(32), return_complex=True)
    ),
    "an input of two heads": lambda x: (F.relu(x) + F.relu(-x)).detach(),
}
LSTM = seeded(nn.LSTM(14, 5, 2, bidirectional=True))
GRU = seeded(nn.GRU(14, 5, batch_first=True))
RNNS = [seeded(nn.RNN(14, 5, bias=False, nonlinearity=name)) for name in ("tanh", "relu")]
STATES = torch.linspace(-1, 1, 4 * 10 * 5).reshape(4, 10, 5)
CONV1D_SAME = seeded(nn.Conv1d(6, 4, 4, padding="same", dilation=3))
CONV2D = seeded(nn.Conv2d(6, 3, 3))
REFLECTING = seeded(nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"))
LINEAR, CONV1D, TURNED1D, NORM1D = (
    seeded(nn.Linear(14, 5)),
    seeded(nn.Conv1d(6, 4, 3, stride=2, padding=1, dilation=2)),
    seeded(nn.ConvTranspose1d(6, 4, 4, stride=3, padding=1, output_padding=1)),
    seeded(nn.BatchNorm1d(6)),
)
LAYERS = (LINEAR, CONV1D, TURNED1D, NORM1D, CONV1D_SAME, REFLECTING, CONV2D)


def twice_in_place(x: Any) -> Any:
    """What reads x later sees the sum."""
    view = x.flatten(1)
    x.add_(1)
    return x.mul_(2) + view.view(x.shape)


class Together(nn.Module):
    """Many functions at once: one program is exported and compiled in the time of one."""

    def __init__(self, *functions: Function) -> None:
        super().__init__()
        self.functions = functions
        self.kept = nn.ModuleList(
            item for item in (*functions, *LAYERS) if isinstance(item, nn.Module)
        )

    def forward(self, x: Any) -> Any:
        """One result of each."""
        return tuple(function(x) for function in self.functions)


#: Cases that run_decompositions breaks down to operators of their own (core ATen); the others it
#: leaves, or makes them of others.
CORE = (
    *(
        "conv2d",
        "conv1d",
        "conv_transpose2d",
        "layer_norm",
        "prelu",
        "softmax",
        "log_softmax",
        "pad",
        "linear",
    ),
    *("group_norm", "adaptive_avg_pool2d uneven", "channel shuffle", "an input of two heads"),
)


def run(module: Any, x: Any) -> list[Any]:
    """On the host, without LLVM's optimizations, which would take ten times as long as the rest."""
    executable = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    outputs = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x.numpy()))
    return [output.numpy() for output in outputs]


#: What a network in training has.
REFUSED = ("aten._native_batch_norm_legit_functional", "aten.native_dropout")
#: What programs of other exporters and older versions have for the same.
OTHER_FORMS = (
    *("aten._fused_rms_norm", "aten._prelu_kernel", "aten._unsafe_index", "aten.lift_fresh_copy"),
    *(f"aten.{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)),
    *(f"aten.bitwise_{name}" for name in ("and", "or", "xor")),
    "aten.upsample_nearest3d",
)


@pytest.fixture(scope="module")
def exported() -> Any:
    """Every case, as torch.export.export gives it."""
    return torch.export.export(Together(*CASES.values()).eval(), (image(),))


@pytest.fixture(scope="module")
def core() -> Any:
    """Those of CORE, as run_decompositions breaks them down."""
    cases = Together(*(CASES[name] for name in CORE))
    return torch.export.export(cases.eval(), (image(),)).run_decompositions()


@pytest.mark.parametrize("form", [pytest.param("exported", marks=pytest.mark.full), "core"])
def test_every_operator_equals_pytorch(request: pytest.FixtureRequest, form: str) -> None:
    program = request.getfixturevalue(form)
    results = run(canonical(from_program(program, "all")), image())
    wrong = []
    for name, got in zip(CORE if form == "core" else CASES, results, strict=True):
        want = CASES[name](image()).detach().numpy()
        if (
            got.shape != want.shape
            or got.dtype != want.dtype
            or not np.allclose(got, want, rtol=1e-4, atol=1e-5)
        ):
            wrong.append(name)
    assert not wrong


def test_no_operator_of_the_table_is_left_out(exported: Any, core: Any) -> None:
    forms = exported.run_decompositions({}), core
    used = {
        ".".join(str(node.target).split(".")[:2]) for form in forms for node in form.graph.nodes
    }
    unused = {".".join(key.split(".")[:2]) for key in OPERATORS} - used
    others = (*REFUSED, *OTHER_FORMS)
    assert {key for key in unused if not key.startswith("quantized_decomposed")} == set(others)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            nn.BatchNorm2d(6),
            "aten._native_batch_norm_legit_functional.default (node "
            '"kept.0/_native_batch_norm_legit_functional"): it is in training mode',
        ),
        (nn.Dropout(), "it is in training mode: call model.eval()"),
        (nn.LocalResponseNorm(2), "no importer for this operator: replace it in the model"),
        (lambda x: torch.sort(x, 1)[0], 'm: aten.sort.default (node "sort"): no importer'),
        (lambda x: torch.fft.fft(x).real, "no importer for this operator"),
        (
            lambda x: F.avg_pool2d(x, 2, divisor_override=3),
            'its argument "divisor_override" is 3: only None is done',
        ),
        (nn.AvgPool2d(3, 2, 1, ceil_mode=True), "ceil_mode with padding that is counted"),
        (nn.AdaptiveMaxPool2d(3), "does not divide its input of 10 x 14"),
        (lambda x: F.conv3d(x[None], torch.ones(1, 1, 1, 1, 1)), "a convolution in 3 dimensions"),
        (lambda x: x[0, 0, 0].int() // x[0, 0, 1].int(), "it divides integers by what is computed"),
        (lambda x: x.int() ** 5, "a power of integers"),
        (lambda x: torch.linalg.vector_norm(x, 3), 'its argument "ord" is 3'),
        (lambda x: torch.softmax(x, 1, dtype=torch.float64), "float64"),
        (lambda x: x > torch.tensor([0.1], dtype=torch.float64), "constant of float64"),
        (lambda x: torch.stft(x[0, 0, 0], 8, return_complex=True), "no tensor of real numbers"),
        (lambda x: torch.stft(x[0, 0, 0], 8, return_complex=True) * 2, "reads complex numbers"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True), '"getitem_1" is not computed'),
        (lambda x: (x, x.new_zeros(0, 3)), 'output "full" has no elements'),
        (lambda x: x[:, 2:2] * 2, "its result has no elements"),
        (lambda x: x.double(), "its result is float64"),
        (lambda x: (x, 3), 'output "3" is no tensor of real numbers'),
        (lambda x: x + torch.rand(14), "it draws random numbers"),
        (lambda x: F.elu(x, float("nan")), '"alpha" is nan'),
        (lambda x: F.celu(x, float("inf")), '"alpha" is inf'),
    ],
)
def test_what_cannot_be_imported_is_one_line(function: Function, message: str) -> None:
    program = torch.export.export(Together(function), (image(),))
    with pytest.raises(UnsupportedError) as caught:
        from_program(program, "m")
    assert message in str(caught.value)
    assert str(caught.value).startswith("m: ")
    assert NO_FORM not in str(caught.value)
    assert "\n" not in str(caught.value)
