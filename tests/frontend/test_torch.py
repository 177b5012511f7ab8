# SPDX-License-Identifier: Apache-2.0
"""frontend/torch.py: exported programs, float and int8, on the simulator against PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

import loadstone
from loadstone import graph as g
from loadstone.cli import main
from loadstone.compiler import Compiled, compile
from loadstone.frontend.torch import label
from loadstone.graph.reference import run, run_operator
from loadstone.runtime.device import open as open_device
from tests.frontend.torch_programs import Array, decibels, saved
from tests.torch_network import (
    INPUT,
    float_program,
    images,
    int8_program,
    network,
    quantized_values,
)

quantized = torch.ops.quantized_decomposed


@pytest.mark.full
def test_a_float_network_is_quantized_and_runs_on_the_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, samples, output = (
        tmp_path / "net.pt2",
        tmp_path / "samples.npz",
        tmp_path / "net.int8.onnx",
    )
    model.write_bytes(saved(float_program()))
    np.savez(samples, in0=images(8, seed=1).numpy())
    assert (
        main(
            [
                "quantize",
                str(model),
                "--data",
                str(samples),
                "--method",
                "minmax",
                "--no-compensate",
                "-o",
                str(output),
            ]
        )
        == 0
    )
    assert "signal to noise" in capsys.readouterr().out
    compiled = compile(output, "vtaq-1x16x16")
    assert [(tensor.name, tensor.shape) for tensor in compiled.graph.inputs] == [("x", INPUT)]
    x = images(8, seed=2)
    (got,) = compiled.run(x.numpy())
    with torch.no_grad():
        want = np.stack([network()(image).numpy() for image in x])
    print(f"output signal to noise {decibels(want, got):.1f} dB")
    assert decibels(want, got) > 20
    rows = compiled.explain()
    kinds = [row["kind"] for row in rows if row["where"] == "vta"]
    assert "batch_norm" not in [row["kind"] for row in rows]
    wanted = {
        "conv2d": 5,
        "add": 1,
        "dense": 1,
        "max_pool2d": 1,
        "average_pool2d": 1,
        "mean": 1,
        "concatenate": 1,
    }
    assert {kind: kinds.count(kind) for kind in wanted} == wanted


def test_a_program_in_memory_is_quantized_and_compiled_by_one_call() -> None:
    torch.manual_seed(2)
    program = torch.export.export(
        nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()).eval(),
        (torch.zeros(INPUT),),
    )
    options = {"method": "minmax", "equalize": False, "compensate": False, "correct": False}
    compiled = loadstone.compile(
        program, "vtaq-tiny", samples=images(4, seed=1).numpy(), options=options
    )
    assert [row["kind"] for row in compiled.explain() if row["where"] == "vta"] == ["conv2d"]
    (got,) = compiled.run(images(1, seed=2).numpy())
    want = program.module()(images(1, seed=2)[0]).detach().numpy()
    assert decibels(want, got) > 30


@pytest.fixture(scope="module")
def program() -> Any:
    pytest.importorskip(
        "torchao", reason="torchao, which quantizes, is not installed (the extra `torch`)"
    )
    return int8_program().run_decompositions({})


@pytest.fixture(scope="module")
def compiled(program: Any) -> Compiled:
    return compile(program, "vtaq-1x16x16")


def names_of(program: Any) -> dict[str, str]:
    """Integer tensors of the compiled graph -> the quantize nodes that PyTorch computes them
    with."""
    found = {}
    for node in program.graph.nodes:
        if ".quantize_per_tensor." in str(node.target):
            found[label(node).replace(".", "_")] = node.name
            found[label(node.args[0]).replace(".", "_")] = (
                node.name
            )  # a move has the name of what it moves
        elif ".dequantize_per_tensor." in str(node.target):
            found[node.name] = node.args[0].name
    return found


@pytest.mark.full
def test_every_layer_of_an_int8_network_is_pytorchs(program: Any, compiled: Compiled) -> None:
    """Each operator, on PyTorch's own integers: biases on the accumulator's grid, nothing differs;
    as they are, ties and near ties do."""
    names, x = names_of(program), images(8, seed=2)
    counts: dict[bool, dict[str, list[int]]] = {True: {}, False: {}}
    for image, on_grid in ((image, on_grid) for image in x for on_grid in (True, False)):
        integers, _ = quantized_values(program, image, on_grid=on_grid)

        def value(tensor: g.Tensor, integers: dict[str, Array] = integers) -> Array | None:
            found = integers.get(
                names.get(tensor.name.removesuffix("/nhwc").removesuffix("/nchw"), "")
            )
            if found is None or tensor.dtype != "int8":
                return None
            last = (
                found.transpose(0, 2, 3, 1)
                if found.ndim == 4 and tensor.shape != found.shape
                else found
            )
            return np.ascontiguousarray(last).reshape(tensor.shape)

        for operator in compiled.graph.operators:
            inputs = [
                image.numpy() if tensor.dtype == "float32" else value(tensor)
                for tensor in operator.inputs
            ]
            want = value(operator.output)
            if want is None or any(item is None for item in inputs) or isinstance(operator, g.Host):
                continue
            if operator.kind == "quantize" and operator.inputs[0].name != "x":
                continue
            (got,) = run_operator(operator, inputs)
            difference = np.abs(got.astype(int) - want)
            assert difference.max() <= 1
            entry = counts[on_grid].setdefault(f"{operator.kind} {operator.name}", [0, 0])
            entry[0] += int(np.count_nonzero(difference))
            entry[1] += difference.size
    for name, (different, elements) in counts[False].items():
        print(
            f"{name:<50} {different:>4} of {elements:>6} differ by one; biases on the grid: "
            f"{counts[True][name][0]}"
        )
    kinds = {name.partition(" ")[0] for name in counts[True]}
    assert {"quantize", "conv2d", "requantize", "add", "max_pool2d", "mean", "dense"} <= kinds
    assert {name: different for name, (different, _) in counts[True].items() if different} == {}
    assert sum(different for different, _ in counts[False].values()) < 1e-3 * sum(
        elements for _, elements in counts[False].values()
    )


def test_an_int8_network_runs_on_the_simulator(
    program: Any, compiled: Compiled, tmp_path: Path
) -> None:
    """Equal to graph_reference in every element; to PyTorch in most outputs, by at most a step in
    the others."""
    x = images(8, seed=2)
    (got,) = compiled.run(x.numpy())
    want = np.stack([run(compiled.graph, [image.numpy()])[0] for image in x])
    np.testing.assert_array_equal(got.reshape(want.shape), want)
    theirs = np.stack([quantized_values(program, image, on_grid=False)[1] for image in x])
    step = compiled.graph.operators[-1].inputs[0].quantization.scale
    steps = np.rint(np.abs(got.reshape(theirs.shape) - theirs) / step)
    print(
        f"{np.count_nonzero(steps)} of {steps.size} outputs differ, by {steps.max():.0f} "
        "step at most"
    )
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= steps.size // 10
    on_device = [row["kind"] for row in compiled.explain() if row["where"] == "vta"]
    assert on_device.count("conv2d") == 5


def test_a_file_compiles_from_the_command_line_to_what_the_program_in_memory_does(
    program: Any, compiled: Compiled, tmp_path: Path
) -> None:
    model, artifact, x = tmp_path / "net.pt2", tmp_path / "net.lds", images(2, seed=3).numpy()
    model.write_bytes(saved(program))
    assert main(["compile", str(model), "--target", "vtaq-1x16x16", "-o", str(artifact)]) == 0
    with open_device("sim:vtaq-1x16x16") as device, device.load(artifact, trust=True) as session:
        np.testing.assert_array_equal(session.run([x])[0], compiled.run(x)[0])


class Narrow(nn.Module):
    """uint8 activations of which only 0..127 are used, tensors for scales, weights that nobody
    folded."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weight, self.scales = nn.Parameter(torch.randn(5, 3, 3, 3)), torch.full((5,), 0.03)
        self.scale, self.zero_point = torch.tensor(0.05), torch.tensor(20)

    def forward(self, x: Any) -> Any:
        """(1, 3, 7, 9) -> (1, 5, 5, 7)."""
        limits = (0, 127, torch.uint8)
        x = quantized.dequantize_per_tensor(
            quantized.quantize_per_tensor(x, 0.04, 60, *limits), 0.04, 60, *limits
        )
        weights = quantized.quantize_per_channel(
            self.weight, self.scales, torch.zeros(5, dtype=torch.int64), 0, -127, 127, torch.int8
        )
        y = torch.relu(
            nn.functional.conv2d(
                x,
                quantized.dequantize_per_channel(
                    weights, self.scales, None, 0, -127, 127, torch.int8
                ),
            )
        )
        y = quantized.quantize_per_tensor.tensor(y, self.scale, self.zero_point, *limits)
        return quantized.dequantize_per_tensor.tensor(y, self.scale, self.zero_point, *limits)


def test_activations_may_use_a_part_of_their_integers() -> None:
    x = torch.randn(1, 3, 7, 9, generator=torch.Generator().manual_seed(4)) * 4
    model = Narrow()
    compiled = compile(torch.export.export(model, (x,)), "vtaq-tiny")
    assert [row["kind"] for row in compiled.explain() if row["where"] == "vta"] == ["conv2d"]
    (got,) = compiled.run(x.numpy()[None])
    want = model(x).detach().numpy()
    steps = np.rint((got.reshape(want.shape) - want) / 0.05)
    assert want.max() == np.float32(107 * np.float32(0.05))
    assert not np.any(steps)


SCRIPT = """
import sys
import loadstone.relax.compat, loadstone.frontend, loadstone.compiler, loadstone.frontend.torch
assert "torch" not in sys.modules, "imported"
from loadstone.cli import main
sys.modules["torch"] = None
sys.exit(main(["compile", sys.argv[1], "--target", "vtaq-tiny"]))
"""


def test_pytorch_is_imported_for_programs_only_and_its_absence_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(saved(float_program()))
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "net.pt2")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "loadstone: net.pt2: PyTorch is not installed: pip install 'loadstone[torch]'\n",
    )


class Kinds(nn.Module):
    """Inputs and outputs of every kind, and a name that a function of Relax has."""

    def forward(self, main: Any, whole: Any, truths: Any, number: Any) -> Any:
        """An input as it is, twice; numbers; constants; integers that float32 does not hold."""
        largest = torch.arange(5) + 2**40
        return {
            "input": main,
            "again": main,
            "sum": main.sum(),
            "constant": torch.arange(5) / 4,
            "largest": largest,
            "whole": whole * 3 + largest,
            "quotient": whole // 7,
            "truths": ~truths,
            "product": main * number,
        }


def test_inputs_and_outputs_of_every_kind_are_exact_and_have_their_names() -> None:
    given = {
        "main": torch.arange(-6, 6).reshape(3, 4) / 4,
        "whole": torch.tensor([[-(2**40) - 1, 2**33, -1, 0, 2**52 + 1]]),
        "truths": torch.tensor([[True, False, True]]),
        "number": torch.tensor(2.5),
    }
    program = torch.export.export(Kinds(), (), given)
    compiled = compile(program, "vtaq-tiny", as_float=True)
    assert [tensor.name for tensor in compiled.graph.inputs] == list(given)
    got = compiled.run(*(x.numpy().reshape(1, *(x.shape or (1,))) for x in given.values()))
    wanted = Kinds()(**given).values()
    for found, want in zip(got, wanted, strict=True):
        assert found.dtype == want.numpy().dtype
        np.testing.assert_array_equal(found.reshape(want.shape), want.numpy())
    names = [tensor.name for tensor in compiled.graph.outputs]
    wanted_names = program.graph_signature.user_outputs
    assert names[2:3] + names[5:] == [*wanted_names[2:3], *wanted_names[5:]]
    assert len(set(names)) == len(names)
