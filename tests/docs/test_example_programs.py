# SPDX-License-Identifier: Apache-2.0
"""Programs of the examples' own devices: mutated ones that the validator accepts never leave their
regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.backend.device import NO_DEVICE
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from loadstone.errors import ArtifactError, SimulationError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import instruction_offsets
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, DramWindow, MachineFault
from loadstone.isa.table import InstructionTable
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.runtime.accelerators import AcceleratorSet, accelerators_of
from loadstone.simulator.table_profile import placed, relocated
from tests.board.models import convolutions, symmetric
from tests.conftest import ROOT
from tests.repeat import times
from tests.tflite_builder import Activation, Graph, Padding

CODE_BUS = 0x8000_0000
#: Folder -> a target, and what makes a network for it.
EXAMPLES = {
    "systolic": (
        "systolic -dim=8 -scratchpad_rows=1024 -accumulator_rows=64",
        "convolutions.tflite",
    ),
    "descriptors": ("layer-engine", "layers.tflite"),
    "word_fifo": ("vector-engine", "layers.tflite"),
    "gemmini": ("gemmini", "symmetric.onnx"),
}


def mutated_code(code: bytes, table: InstructionTable, rng: np.random.Generator) -> bytes:
    """Some bits flipped, some fields of instructions set to small and to any numbers."""
    data = bytearray(code)
    offsets = instruction_offsets(table, code)
    for _ in range(int(rng.integers(0, 4))):
        at = int(rng.choice(offsets))
        form = table.form_at(code, at)
        assert form is not None
        size = table.sizes[form.name]
        word = int.from_bytes(data[at : at + size], "little")
        if rng.random() < 0.2 or not form.fields:
            word ^= 1 << int(rng.integers(8 * size))
        else:
            field = form.fields[int(rng.integers(len(form.fields)))]
            place = table.places[form.name][field.name]
            value = int(rng.integers(1 << min(field.width, 62))) >> int(rng.integers(field.width))
            word = word & ~(((1 << field.width) - 1) << place) | value << place
        data[at : at + size] = word.to_bytes(size, "little")
    return bytes(data)


def mutated_step(step: ProgramStep, artifact: Artifact, rng: np.random.Generator) -> ProgramStep:
    """Some relocations name other places."""
    relocations = list(step.relocations)
    for _ in range(int(rng.integers(0, 3))):
        k = int(rng.integers(len(relocations)))
        region = int(rng.integers(3))
        size = artifact.regions[region].size_bytes
        addend = max(0, size - int(rng.integers(0, 1 << int(rng.integers(1, 16)))))
        relocations[k] = replace(relocations[k], region=region, addend_bytes=addend)
    return replace(step, relocations=tuple(relocations))


def layers(folder: Path) -> None:
    """A convolution, a depthwise one, their sum, a pool of it, and that once more added to
    itself."""
    random, graph = np.random.default_rng(4), Graph()
    x = graph.input((1, 6, 6, 4), np.int8, scale=0.05, zero_point=-5)
    paths: list[Any] = []
    for kind, shape in (("CONV_2D", (8, 3, 3, 4)), ("DEPTHWISE_CONV_2D", (1, 3, 3, 8))):
        scales = random.uniform(0.002, 0.01, 8).astype(np.float32)
        weights, axis = random.integers(-127, 128, shape, np.int8), 0 if shape[0] == 8 else 3
        w = graph.constant(weights, scale=scales, axis=axis)
        kept = random.integers(-2000, 2000, 8).astype(np.int32)
        b = graph.constant(kept, scale=scales * (paths[-1] if paths else x).scale[0], axis=0)
        y = graph.tensor((1, 6, 6, 8), np.int8, scale=0.1, zero_point=-3)
        more: dict[str, object] = {"depth_multiplier": 1} if shape[0] == 1 else {}
        window = {"padding": Padding.SAME, "stride_h": 1, "stride_w": 1}
        dilation = {"dilation_h_factor": 1, "dilation_w_factor": 1}
        none = {"fused_activation_function": Activation.NONE}
        inputs = [paths[-1] if paths else x, w, b]
        graph.operator(kind, inputs, [y], **window, **dilation, **none, **more)
        paths.append(y)
    total = graph.tensor((1, 6, 6, 8), np.int8, scale=0.2, zero_point=4)
    graph.operator("ADD", paths, [total], **none)
    pooled = graph.tensor((1, 3, 3, 8), np.int8, scale=0.2, zero_point=4)
    sizes = {"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    pads = {"padding": Padding.VALID}
    graph.operator("AVERAGE_POOL_2D", [total], [pooled], **sizes, **pads, **none)
    out = graph.tensor((1, 3, 3, 8), np.int8, scale=0.3, zero_point=1)
    graph.operator("ADD", [pooled, pooled], [out], **none)
    (folder / "layers.tflite").write_bytes(graph.save([out]))


class Judge:
    """The C validator for mutants of one artifact, and what the simulator does with them."""

    def __init__(self, artifact: Artifact, opened: device.OpenedDevice) -> None:
        self.set = AcceleratorSet(artifact, opened.handle(artifact))
        self.artifact = artifact
        self.data = artifact.to_bytes()
        self.model = ffi.new("lds_model *")
        self.buffer = ffi.from_buffer(self.data)
        assert lib().lds_model_open(self.model, self.buffer, len(self.data)) == 0

    def accepts(self, step: ProgramStep, code: bytes) -> bool:
        number, fault = self.artifact.steps.index(step), ffi.new("lds_fault *")
        constants = ffi.new("uint8_t *[8]")  # no instruction of the examples goes through words
        scratch = ffi.NULL, 0
        status = lib().lds_program_validate(
            self.model, number, self.set.table, code, constants, *scratch, fault
        )
        return bool(status == 0)

    def run(self, step: ProgramStep, code: bytes, accelerator: Accelerator) -> None:
        """Raises MachineFault for what leaves its regions, or writes where it may not."""
        windows, bases = placed(self.artifact)
        try:
            code = relocated(code, step.relocations, bases)
        except SimulationError:  # the runtime refuses an address that does not fit
            return
        fetched = DramWindow(CODE_BUS, np.frombuffer(code, np.uint8), writable=False)
        machine = TableMachine(accelerator, Dram([*windows, fetched]))
        machine.run(CODE_BUS, len(step))


@pytest.mark.parametrize("folder", EXAMPLES)
def test_accepted_mutants_stay_in_their_regions(
    folder: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    target, network = EXAMPLES[folder]
    make: dict[str, Callable[[Path], object]] = {
        "convolutions.tflite": convolutions,
        "layers.tflite": layers,
        "symmetric.onnx": symmetric,
    }
    make[network](tmp_path)
    plugins = load_plugins([ROOT / "docs/examples" / folder])
    made = compile(tmp_path / network, target, plugins=plugins)
    original = made.artifact
    (accelerator,) = accelerators_of(original).values()
    rng, accepted, refused = np.random.default_rng(14), 0, 0
    outer = times(2, 105)
    with device.OpenedDevice("null", "", NO_DEVICE) as opened:
        for _ in range(outer):
            steps = tuple(
                mutated_step(s, original, rng) if isinstance(s, ProgramStep) else s
                for s in original.steps
            )
            try:
                judge = Judge(replace(original, steps=steps), opened)
            except ArtifactError:
                continue
            for _ in range(100):
                programs = judge.artifact.programs
                step = programs[int(rng.integers(len(programs)))]
                code = mutated_code(step.instructions, accelerator.table, rng)
                if not judge.accepts(step, code):
                    refused += 1
                    continue
                accepted += 1
                try:
                    judge.run(step, code, accelerator)
                except MachineFault as fault:
                    raise AssertionError(f"{fault} at {fault.instruction}: {code.hex()}") from fault
    assert min(accepted, refused) > (accepted + refused) // 20, (accepted, refused)
    figure(f"{folder}: of {accepted + refused} mutants {accepted} accepted, none left its regions")
