# SPDX-License-Identifier: Apache-2.0
"""The lab's module in Node, where `make lab` has built it: exercises are judged, an artifact gives
the native bytes and cycles, every state behind a step is the definition's."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import decode, encode_uops
from loadstone.vta.isa.spec import INSN_BYTES, Memory
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.board import models
from tests.lab.conftest import SOLUTIONS, Ask
from tests.repeat import times
from tools.lab.exercises import DEVICE, EXERCISES

PORTABLE, WASM = 1, 5
TEXT = dict[str, str]


def coded(data: bytes) -> str:
    return b64encode(data).decode()


def test_solutions_are_solved_in_the_simulators_cycles(ask: Ask) -> None:
    found = ask(*({"what": "judge", "exercise": n, "text": t} for n, t in SOLUTIONS.items()))
    assert [one["solved"] for one in found] == [True] * len(SOLUTIONS), found
    assert [one["cycles"] for one in found] == [103, 170, 277, 274, 338, 1854]


def test_what_is_wrong_is_said(ask: Ask) -> None:
    add, race = SOLUTIONS["add"], next(e.start for e in EXERCISES if e.name == "race")
    wrong = {
        "line 3: expected one of pop": "\n\nadd 1",
        "the validator refuses instruction 6: ": add.replace(" push(compute)", ""),
        "deadlock": add.replace(" push(store)", ""),
        "the output is wrong, in the order of the program": add.replace("127", "126"),
        "the validator refuses instruction 1: ": add.replace("x<16", "x<17"),
        "uninitialised: instruction 1 reads acc[0] to acc[15]": add.replace("load acc_8bit", "# "),
    }
    for text, program in wrong.items():
        (found,) = ask({"what": "judge", "exercise": "add", "text": program})
        bad = [line["text"] for line in found["lines"] if not line["ok"]]
        assert not found["solved"], text
        assert any(text.split("expected")[0] in line for line in bad), (text, bad)
    (found,) = ask({"what": "judge", "exercise": "race", "text": race})
    bad = [line["text"] for line in found["lines"] if not line["ok"]]
    assert bad == [
        "race: instruction 4 writes and 3 reads inp[0] to inp[7], and no token orders them",
        "the output is wrong, with loads as early as tokens allow",
    ]


def test_every_state_is_the_definitions(ask: Ask) -> None:
    exercise, text = EXERCISES[-1], SOLUTIONS["convolution"]
    code = assemble(text, DEVICE)
    request = {"what": "states", "exercise": exercise.name, "text": text}
    (states,) = ask({**request, "memories": [int(Memory.INP), int(Memory.ACC)]})
    arrays = [np.frombuffer(r, np.uint8).copy() for r in exercise.case(0).regions]
    machine = Machine(DEVICE, [DramBytes(array) for array in arrays])
    machine.run(assemble("finish", DEVICE))
    assert len(states) == len(code) + 1
    for step, (inp, acc) in enumerate(states):
        if step:
            machine.step(decode(code[step - 1].tobytes(), DEVICE))
        assert b64decode(inp) == machine.inp.tobytes(), step
        assert b64decode(acc) == machine.acc.tobytes(), step


def _products(config: HwConfig, rng: np.random.Generator) -> tuple[list[bytes], str]:
    """Regions and a program of GEMMs of every shape: taps, rows, both, depthwise weights."""
    lanes, block = config.batch * config.block, config.block
    weights = rng.integers(-128, 128, (8, block, block))
    weights[4:] *= np.eye(block, dtype=np.int64)  # as depthwise layers have them
    table = np.stack([rng.integers(0, 8, 12), rng.integers(0, 16, 12), rng.integers(0, 8, 12)], 1)
    table[6:, 2] = rng.integers(4, 8, 6)
    inputs = rng.integers(-128, 128, (64, lanes)).astype(np.int8)
    regions = [encode_uops(table, config).tobytes(), weights.astype(np.int8).tobytes(), b"\0"]
    lines = ["load uop[0] = dram[0 + x] for x<12", "load wgt[0] = dram1[0 + x] for x<8"]
    lines += ["load inp[0] = dram3[0 + x] for x<64 push(compute)"]
    for number in range(24):
        first = int(rng.integers(0, 11))
        last = int(rng.integers(first + 1, 13))
        acc, inp = rng.integers(0, 3, 2), rng.integers(0, 4, 2)
        wgt = rng.integers(0, 2, 2) * rng.integers(0, 2)
        lines.append(
            f"{'' if number else 'pop(load) '}gemm acc[u+{acc[0]}i+{acc[1]}j] "
            f"{rng.choice(['+=', '='])} "
            f"inp[u+{inp[0]}i+{inp[1]}j] * wgt[u+{wgt[0]}i+{wgt[1]}j] "
            f"for i<{rng.integers(1, 4)} j<{rng.integers(1, 5)} u in {first}..{last}"
        )
    return [*regions, inputs.tobytes(), b"\0"], "\n".join([*lines, "finish"])


@pytest.mark.parametrize("name", ["vtaq-1x8x8", "vtaq-1x16x16", "vtaq-4x16x16", "vtaq-1x32x32"])
def test_vector_kernels_give_the_portable_ones_bytes(name: str, ask: Ask) -> None:
    config, rng = load_config(name), np.random.default_rng(9)
    for _ in range(times(3, 60)):
        regions, text = _products(config, rng)
        request = {"what": "run", "device": name, "text": text, "memory": int(Memory.ACC)}
        request["regions"] = [coded(region) for region in regions]
        vector, portable = ask({**request, "kernels": WASM}, {**request, "kernels": PORTABLE})
        assert (vector["used"], portable["used"]) == (WASM, PORTABLE)
        arrays = [np.frombuffer(region, np.uint8).copy() for region in regions]
        machine = Machine(config, [DramBytes(array) for array in arrays])
        machine.run(assemble(text, config))
        assert vector["status"] == 0
        assert b64decode(vector["scratchpad"]) == machine.acc.tobytes()
        assert vector == {**portable, "used": WASM}


def test_an_artifact_gives_the_native_bytes_and_cycles(ask: Ask, tmp_path: Path) -> None:
    network = models.dense("vtaq-1x16x16")
    file = tmp_path / "net.lds"
    network.artifact.save(file)
    samples = [coded(np.ascontiguousarray(sample).tobytes()) for sample in network.inputs]
    request = {"what": "artifact", "file": str(file), "inputs": samples}
    for kernels in (WASM, PORTABLE):
        (found,) = ask({**request, "kernels": kernels})
        outputs = [b64decode(run["outputs"][0]) for run in found["runs"]]
        assert b"".join(outputs) == b"".join(network.outputs)
        assert found["about"]["device"] == "vtaq-1x16x16"
        assert [run["cycles"] for run in found["runs"]] == list(network.cycles)


def test_a_layer_is_stepped_through(ask: Ask, tmp_path: Path) -> None:
    network = models.dense("vtaq-1x16x16")
    file = tmp_path / "net.lds"
    network.artifact.save(file)
    request = {"what": "steps", "file": str(file), "program": 0, "memory": int(Memory.ACC)}
    request["input"] = coded(np.ascontiguousarray(network.inputs[0]).tobytes())
    count = len(network.artifact.programs[0].instructions) // INSN_BYTES
    some, whole = ask({**request, "steps": 5}, {**request, "steps": 1 << 30})
    assert (some["cut"], whole["cut"]) == (1, 0)
    assert some["order"] == whole["order"][:5]
    assert sorted(whole["order"]) == list(range(count))
    assert some["scratchpad"] != whole["scratchpad"]


def test_what_is_no_artifact_is_refused(ask: Ask) -> None:
    (found,) = ask({"what": "broken", "bytes": coded(bytes(200))})
    assert "not a Loadstone artifact" in found["error"], found
