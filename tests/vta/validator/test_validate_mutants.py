# SPDX-License-Identifier: Apache-2.0
"""The validator on programs that chance has changed: C and Python agree, and what is accepted stays
in its regions.

LOADSTONE_MUTANTS=N multiplies the numbers of programs by N.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import INSN_BYTES, INSTRUCTIONS, Capability, layout
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.sim import ORDERS, Simulator
from tests.programs import random_program
from tests.repeat import times
from tests.sample_model import INTEGER_DEVICES, copy_model, dense_model, with_fingerprint
from tests.simulated import (
    CODED,
    EIGHT_WINDOWS,
    FOUR_WINDOWS,
    GROUPED,
    ONLY_INP,
    TINY_INP,
    TINY_WHOLE,
)
from tests.validated import both, random_model, vector_model, with_program
from tests.vta.validator.validate import possible_config

MORE = int(os.environ.get("LOADSTONE_MUTANTS", "1"))


def mutate(instructions: bytes, config: HwConfig, random: np.random.Generator) -> bytes:
    """One to three changes: bits, fields at interesting values, instructions moved, dropped or
    doubled."""
    raw = bytearray(instructions)
    for _ in range(random.integers(1, 4)):
        count = len(raw) // 16
        at, kind = int(random.integers(count)), int(random.integers(8))
        one = bytes(raw[16 * at : 16 * at + 16])
        if kind < 2:
            raw[16 * at + int(random.integers(16))] ^= 1 << int(random.integers(8))
        elif kind == 2 and count > 2:
            del raw[16 * at : 16 * at + 16]
        elif kind == 3:
            raw[16 * at : 16 * at] = one
        elif kind == 4:
            other = int(random.integers(count))
            raw[16 * at : 16 * at + 16], raw[16 * other : 16 * other + 16] = (
                raw[16 * other : 16 * other + 16],
                one,
            )
        else:
            raw[16 * at : 16 * at + 16] = _with_field(one, config, random)
    return bytes(raw)


def _with_field(one: bytes, config: HwConfig, random: np.random.Generator) -> bytes:
    spec = next((i for i in INSTRUCTIONS if i.opcode == one[0] & 7), None)
    if spec is None:
        return one
    places = list(layout(spec.fields, config.widths).values())
    place = places[int(random.integers(1, len(places)))]
    word = int.from_bytes(one, "little")
    old = word >> place.start & (1 << place.width) - 1
    value = int(
        random.choice(
            [
                0,
                1,
                old + 1,
                max(old - 1, 0),
                (1 << place.width) - 1,
                1 << place.width - 1,
                int(random.integers(1 << 16)),
            ]
        )
    )
    mask = (1 << place.width) - 1
    return (word & ~(mask << place.start) | (value & mask) << place.start).to_bytes(16, "little")


def seeds(shared: Path | None) -> list[Artifact]:
    """Programs to change: the hand-made ones, and the small vectors."""
    models = [copy_model(), *(dense_model(load_config(n)).artifact for n in INTEGER_DEVICES)]
    if shared is not None:
        paths = sorted((shared / "vta_rtl").glob("*.npz"))
        models += [
            vector_model(p, Capability.ALU_MUL | Capability.LOAD_ACC8)
            for p in paths[:: max(1, len(paths) // 40)]
        ]
    return [m for m in models if len(m.programs[0]) < 400]


def _disagreements(models: list[Artifact], count: int, seed: int) -> tuple[int, int]:
    random = np.random.default_rng(seed)
    accepted = 0
    for k in range(count):
        model = models[k % len(models)]
        config = possible_config(model.fingerprint)
        mutant = with_program(model, mutate(model.programs[0].instructions, config, random))
        accepted += both(mutant)[0] == 0
    return count, accepted


def test_c_and_python_agree_on_changed_programs() -> None:
    count, accepted = _disagreements(seeds(None), times(300, 800), 1)
    assert 0.05 * count < accepted < 0.95 * count


def test_c_and_python_agree_on_changed_programs_of_floats() -> None:
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    from tests.real_operators import artifact_of, random_operator

    config, rng = load_config("vtab-1x8x8"), np.random.default_rng(0)
    models = [artifact_of(random_operator(kind, rng), config) for kind in ("dense", "pool2d")]
    count, accepted = _disagreements(models, times(100, 2_000), 3)
    assert 0.05 * count < accepted < 0.95 * count


@pytest.mark.full
def test_c_and_python_agree_on_many_changed_programs(shared: Path) -> None:
    count, accepted = _disagreements(seeds(shared), times(1_000, 4_000) * MORE, 2)
    print(f"{count} changed programs, {accepted} accepted by both, 0 disagreements")
    assert 0.05 * count < accepted < 0.95 * count


# --- the second generation ------------------------------------------------------------------------
SECOND = (*CODED, TINY_INP, ONLY_INP, TINY_WHOLE, *GROUPED, EIGHT_WINDOWS, FOUR_WINDOWS)


@pytest.mark.parametrize("config", SECOND, ids=lambda config: config.name)
def test_changed_programs_of_the_second_generation_mean_one_thing(config: HwConfig) -> None:
    """Both validators agree; what they accept ends on the simulator, and without a race leaves in
    each order the bytes of the reference."""
    simulators = [Simulator(config, order=o, races=True, strict=False) for o in ORDERS]
    compared = 0
    for seed in range(times(4, 60)):
        random = np.random.default_rng(seed)
        model = random_model(random_program(config, random, 16))
        for _ in range(20):
            code = mutate(model.programs[0].instructions, config, random)
            if both(with_program(model, code))[0] != 0:
                continue
            insns = np.frombuffer(code, np.uint8).reshape(-1, INSN_BYTES)
            found = [_run(simulator, insns, model) for simulator in simulators]
            if any(simulator.findings() for simulator in simulators):
                continue
            image = np.frombuffer(model.regions[1].data, np.uint8)
            meant, constants = image.copy(), image.copy()
            Machine(config, [DramBytes(meant, base=0), DramBytes(constants, base=0)]).run(insns)
            for memory in found:
                np.testing.assert_array_equal(memory, meant, f"seed {seed}")
            compared += 1
    assert compared >= 2


def _run(simulator: Simulator, insns: NDArray[np.uint8], model: Artifact) -> NDArray[np.uint8]:
    """What it leaves in region 0; region 1 stays what it is."""
    image = np.frombuffer(model.regions[1].data, np.uint8)
    memory, constants = image.copy(), image.copy()
    simulator.unmap_all()
    simulator.reset()
    for region, (base, array) in enumerate(((1 << 40, memory), (1 << 41, constants))):
        simulator.map(base, array)
        simulator.set_region(region, base, array.size, read_only=region == 1)
    for region in range(2, 8):
        simulator.set_region(region, 0, 0, read_only=True)
    simulator.run(insns)
    np.testing.assert_array_equal(constants, image)
    return memory


# --- soundness ------------------------------------------------------------------------------------
def _soundness(root: Path, tmp_path: Path, models: list[Artifact], count: int) -> dict[str, Any]:
    """Runs tests/c/soundness.cc, which changes programs, validates them, and runs what was accepted
    on the simulator."""
    binary = tmp_path / "soundness"
    library = root / "python/loadstone"
    includes = [f"-I{root}/{folder}/include" for folder in ("runtime", "driver", "hw_sim")]
    source = str(root / "tests/c/soundness.cc")
    command = [
        "g++",
        "-std=c++17",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        *includes,
        source,
        "-o",
        str(binary),
    ]
    subprocess.run([*command, f"-L{library}", "-lloadstone", f"-Wl,-rpath,{library}"], check=True)
    files = []
    for k, model in enumerate(models):
        files.append(str(tmp_path / f"{k}.lds"))
        model.save(files[-1])
    done = subprocess.run(
        [str(binary), str(count), *files],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    print(done.stdout)
    return report


def _native_seeds(shared: Path | None) -> list[Artifact]:
    """Only devices with regions: the simulator then knows what a program may touch."""
    result = [
        random_model(random_program(config, np.random.default_rng(seed), 16))
        for config in SECOND
        for seed in range(4)
    ]
    result = [model for model in result if both(model)[0] == 0]
    for model in seeds(shared):
        fingerprint = bytearray(model.fingerprint)
        fingerprint[16] |= int(Capability.REGIONS)
        result.append(with_fingerprint(model, bytes(fingerprint)))
    return result


def test_no_accepted_program_leaves_its_regions(root: Path, tmp_path: Path) -> None:
    report = _soundness(root, tmp_path, _native_seeds(None), 20_000)
    assert report["accepted"] > 1000
    assert report["unsound"] == 0


@pytest.mark.full
def test_no_accepted_program_of_many_leaves_its_regions(
    root: Path, tmp_path: Path, shared: Path
) -> None:
    count = times(100_000, 1_000_000) * MORE
    report = _soundness(root, tmp_path, _native_seeds(shared), count)
    assert report["accepted"] > count // 20
    assert report["unsound"] == 0
