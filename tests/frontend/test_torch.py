"""frontend/torch.py: a network of PyTorch, float and PT2E int8, compiles and runs as PyTorch
computes it; bad files are one line."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

import loadstone
from loadstone import graph as g
from loadstone.cli import main
from loadstone.compiler import Compiled, compile
from loadstone.errors import ModelError
from loadstone.frontend.torch import from_bytes, from_program, label
from loadstone.graph.reference import run, run_operator
from loadstone.relax.compat import shape
from loadstone.relax.saved import run_module
from loadstone.runtime.device import open as open_device
from tests.torch_network import (
    INPUT,
    float_program,
    images,
    int8_program,
    network,
    quantized_values,
)

Array = NDArray[Any]
quantized = torch.ops.quantized_decomposed


def saved(program: Any) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def decibels(want: Array, got: Array) -> float:
    """Signal to noise."""
    return float(10 * np.log10(np.sum(want**2) / np.sum((got.reshape(want.shape) - want) ** 2)))


# --------------------------------------------------------------------------------------------------
# A network, float
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# The same, quantized by PT2E
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# Quantization in other forms
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# What cannot be imported
# --------------------------------------------------------------------------------------------------


def weights_file() -> bytes:
    file = io.BytesIO()
    torch.save(network().state_dict(), file)
    return file.getvalue()


def torchscript_file() -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.zeros(1)), file)
    return file.getvalue()


FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "cut short": ("net.pt2", lambda: saved(float_program())[:-3000], "a damaged file (cut short?)"),
    "empty": ("net.pt2", lambda: b"", "a damaged file (cut short?)"),
    "noise": ("net.pt", lambda: bytes(range(256)), "no program of torch.export"),
    "weights": (
        "net.pt",
        weights_file,
        "holds weights without a program (a state_dict or a pickled module): export the model with",
    ),
    "weights named pt2": ("net.pt2", weights_file, "holds weights without a program"),
    "TorchScript": (
        "net.pt",
        torchscript_file,
        "holds TorchScript: export the model with torch.export.save(torch.export.export(",
    ),
    "changed inside": (
        "net.pt2",
        lambda: saved(float_program()).replace(b'"graph_module"', b'"graph_mobule"'),
        "cannot load this program",
    ),
}


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["sample_inputs/model.pt", "constants/custom_obj_0"])
def test_pickled_objects_are_refused_and_not_read(member: str, tmp_path: Path) -> None:
    pickled, changed = io.BytesIO(), io.BytesIO()
    torch.save(Touch(tmp_path / "touched"), pickled)
    with (
        zipfile.ZipFile(io.BytesIO(saved(float_program()))) as source,
        zipfile.ZipFile(changed, "w") as target,
    ):
        root = source.namelist()[0].partition("/")[0]
        for entry in source.namelist():
            if entry != f"{root}/data/{member}":
                target.writestr(entry, source.read(entry))
        target.writestr(f"{root}/data/{member}", pickled.getvalue())
    with pytest.raises(ModelError, match="holds pickled objects besides its tensors"):
        from_bytes(changed.getvalue(), "net.pt2")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_program_is_one_line(case: str) -> None:
    name, made, message = FILES[case]
    with pytest.raises(ModelError) as caught:
        from_bytes(made(), name)
    assert str(caught.value).startswith(f"{name}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class Dynamic(nn.Module):
    """Scales computed at run time."""

    def forward(self, x: Any) -> Any:
        """x, rounded."""
        scale, zero_point = quantized.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        return quantized.quantize_per_tensor.tensor(
            x, scale, zero_point, -128, 127, torch.int8
        ).float()


class Counting(nn.Module):
    """Writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        """x, and one more run."""
        self.runs.add_(1)
        return x * 2


class Sixteen(nn.Module):
    """Activations of 16 bits."""

    def forward(self, x: Any) -> Any:
        """x, rounded."""
        return quantized.quantize_per_tensor(x, 0.1, 0, -32768, 32767, torch.int16).float()


PROGRAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "dynamic shape": (
        lambda: torch.export.export(
            nn.ReLU(), (torch.zeros(2, 3),), dynamic_shapes=({1: torch.export.Dim("width")},)
        ),
        'net: input "input" has the dynamic dimension 1 (',
    ),
    "bfloat16": (
        lambda: torch.export.export(nn.ReLU(), (torch.zeros(2, dtype=torch.bfloat16),)),
        'input "input" is bfloat16',
    ),
    "a number": (
        lambda: torch.export.export(
            Scaled(), (torch.zeros(2), 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC)
        ),
        "no tensor",
    ),
    "dynamic quantization": (
        lambda: torch.export.export(Dynamic(), (torch.zeros(2),)),
        "dynamic quantization, whose scales are computed",
    ),
    "a buffer": (
        lambda: torch.export.export(Counting(), (torch.zeros(2),)),
        'writes its buffer "runs": call model.eval()',
    ),
    "16 bits": (
        lambda: torch.export.export(Sixteen(), (torch.zeros(2),)),
        "it quantizes to int16: Loadstone runs 8-bit activations",
    ),
    "a module": (
        lambda: nn.ReLU(),
        "a ReLU is no program yet: torch.export.export(model.eval(), (example,)) makes one",
    ),
}


class Scaled(nn.Module):
    """With an argument that is no tensor."""

    def forward(self, x: Any, factor: int) -> Any:
        """x times factor."""
        return x * factor


class Weighed(nn.Module):
    """Two inputs and a number; the batch appears in a view."""

    def forward(self, pair: tuple[Any, Any], factor: float, *, more: Any) -> Any:
        """(N, 4, 6), (N, 4, 6), (N, 24) -> (N, 24)."""
        return (pair[0] + pair[1] * factor).view(pair[0].shape[0], 24) + more


def test_a_symbolic_batch_becomes_one() -> None:
    batch, pair = torch.export.Dim("batch", min=2), (torch.zeros(3, 4, 6), torch.ones(3, 4, 6))
    shapes = {"pair": ({0: batch}, {0: batch}), "factor": None, "more": {0: batch}}
    program = torch.export.export(
        Weighed(), (pair, 2.0), {"more": torch.zeros(3, 24)}, dynamic_shapes=shapes
    )
    module = from_program(program, "net")
    assert [shape(parameter) for parameter in module["main"].params] == [
        (1, 4, 6),
        (1, 4, 6),
        (1, 24),
    ]
    torch.manual_seed(3)
    a, b, c = (torch.randn(extents).numpy() for extents in ((1, 4, 6), (1, 4, 6), (1, 24)))
    np.testing.assert_allclose(
        run_module(module, [a, b, c])[0], (a + 2 * b).reshape(1, 24) + c, atol=1e-5
    )


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_program_that_is_not_done_is_one_line(case: str) -> None:
    made, message = PROGRAMS[case]
    with pytest.raises(ModelError) as caught:
        from_program(made(), "net")
    assert str(caught.value).startswith("net: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_given_to_compile_is_one_line() -> None:
    with pytest.raises(ModelError, match="is no program yet"):
        compile(nn.ReLU(), "vtaq-tiny")


# --------------------------------------------------------------------------------------------------
# Without PyTorch
# --------------------------------------------------------------------------------------------------

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
