# SPDX-License-Identifier: Apache-2.0
"""Validated implies executable: what both validators accept, the simulator never refuses.

tests/c/oracle.cc tries every opcode with every memory, operation, stage and register, no-ops
included, and the other fields at their limits, under sets of capabilities.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, MemoryRegion, ProgramStep, RegionKind
from loadstone.backend.device import ProgramDevice
from loadstone.errors import ArtifactError, ConfigError, DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish, Load
from loadstone.vta.isa.spec import (
    INSTRUCTIONS,
    TOKEN_FLAGS,
    Capability,
    Field,
    Memory,
    Opcode,
    layout,
)
from tests.repeat import times
from tests.sample_model import copy_model, with_fingerprint
from tests.validated import both, with_program
from tests.vta.validator.validate import STATUS, possible_config

DEVICES = ["vtaq-tiny", "vtab-1x8x8"]


def playground(config: HwConfig, size: int = 1 << 16) -> Artifact:
    """A region of each kind of right, and a program that does nothing."""

    def region(name: str, kind: RegionKind, reads: bool, writes: bool) -> MemoryRegion:
        data = bytes(size) if kind == RegionKind.CONSTANTS else b""
        return MemoryRegion(
            name, kind, size, 4096, device_reads=reads, device_writes=writes, data=data
        )

    return Artifact(
        name="playground",
        devices=(ProgramDevice.of(config),),
        samples=1,
        regions=(
            region("micro-ops", RegionKind.CONSTANTS, reads=True, writes=False),
            region("arena", RegionKind.ARENA, reads=True, writes=True),
            region("result", RegionKind.OUTPUT, reads=False, writes=True),
            region("host", RegionKind.HOST, reads=False, writes=False),
        ),
        tensors=(),
        inputs=(),
        outputs=(),
        steps=(ProgramStep("nothing", encode_stream([Finish()], config).tobytes()),),
    )


def _is_choice(field: Field, width: int) -> bool:
    """Whether each of its values is one of a kind, not a number."""
    return field.enum is not None or width == 1


def field_lines(config: HwConfig) -> Iterator[str]:
    for spec in INSTRUCTIONS:
        for name, place in layout(spec.fields, config.widths).items():
            if name != "opcode" and name not in TOKEN_FLAGS:
                number = not _is_choice(place.field, place.width)
                yield (
                    f"{int(spec.opcode)} {name} {place.start} {place.width} {int(place.low < 0)} "
                    f"{int(not number)}"
                )


@pytest.fixture(scope="module")
def oracle(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("oracle") / "oracle"
    parts = ("runtime/include", "runtime", "driver/include", "hw_sim/include")
    include = [f"-I{root / part}" for part in parts]
    library = root / "python/loadstone"
    words = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", *include]
    link = [f"-L{library}", "-lloadstone", f"-Wl,-rpath,{library}"]
    subprocess.run([*words, root / "tests/c/oracle.cc", "-o", out, *link], check=True)
    return out


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_accepted_is_executed(
    oracle: Path, tmp_path: Path, name: str, figure: Callable[[str], None]
) -> None:
    config = load_config(name)
    playground(config).save(tmp_path / "m.lds")
    done = subprocess.run(
        [oracle, tmp_path / "m.lds", str(64 // times(8, 64))],
        input="\n".join(field_lines(config)),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    figure(f"validator and simulator, {name}: {found}")
    assert found["refused"] == 0
    assert found["accepted"] > found["tried"] // 100


def one_limit(config: HwConfig, opcode: Opcode) -> Iterator[bytes]:
    """Each choice of an opcode with one other field at a limit, the counts at 0 and at 1."""
    places = layout(next(i for i in INSTRUCTIONS if i.opcode == opcode).fields, config.widths)
    own = {n: p for n, p in places.items() if n != "opcode" and n not in TOKEN_FLAGS}
    choices = {n: p for n, p in own.items() if _is_choice(p.field, p.width)}
    numbers = {n: p for n, p in own.items() if n not in choices}
    counts = {"y_size", "x_size", "iter_out", "iter_in", "uop_end"} & numbers.keys()
    for chosen in product(*(range(min(1 << p.width, 8)) for p in choices.values())):
        for count, limit in product((0, 1), (None, *numbers)):
            for value in (0, 1, -1) if limit else (0,):
                fields = {**dict(zip(choices, chosen, strict=True)), **dict.fromkeys(counts, count)}
                if limit:
                    fields[limit] = value
                word = int(opcode)
                for name, number in fields.items():
                    word |= (number & (1 << own[name].width) - 1) << own[name].start
                yield word.to_bytes(16, "little")


def with_capabilities(config: HwConfig, drawn: np.random.Generator) -> HwConfig:
    """Any that go together, each as often as not."""
    while True:
        capabilities = Capability(int(drawn.integers(2 * max(Capability))))
        with suppress(ConfigError):
            return dataclasses.replace(config, capabilities=capabilities)


@pytest.mark.parametrize("opcode", list(Opcode))
def test_both_validators_agree_at_every_limit(opcode: Opcode) -> None:
    """A part of them, drawn, in the same small program."""
    config = load_config("vtaq-tiny")
    drawn = np.random.default_rng(int(opcode))
    every = list(one_limit(config, opcode))
    uops = Load(memory_id=Memory.UOP, y_size=1, x_size=1)
    before, after = (encode_stream([i], config).tobytes() for i in (uops, Finish()))
    for k in drawn.permutation(len(every))[: times(80, 5000)].tolist():
        model = playground(with_capabilities(config, drawn))
        both(with_program(model, before + every[k] + after))


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_that_can_be_is_one_for_everybody(name: str) -> None:
    """Every byte of a fingerprint with each of its values, and those of capabilities together: V0
    of both validators, and of the simulator."""
    config = load_config(name)
    model, good = playground(config, 64), config.fingerprint()
    changed = [good[:at] + bytes([v]) + good[at + 1 :] for at in range(1, 20) for v in range(256)]
    found = 0
    for fingerprint in changed:
        strange = with_fingerprint(model, fingerprint)
        status = device.validate(strange)[0]
        try:
            possible_config(fingerprint)
            python = 0
        except ConfigError:
            python = STATUS["CONFIG"]
        assert status == python, fingerprint.hex()
        raw = ffi.cast("lds_hw_config *", ffi.from_buffer(fingerprint))
        sim = lib().lds_sim_create(raw, 64)
        assert (sim != ffi.NULL) == (status == 0), fingerprint.hex()
        if sim != ffi.NULL:
            lib().lds_sim_destroy(sim)
        found += status == 0
    assert 20 < found < len(changed) - 1000


def test_a_no_op_that_the_device_does_not_know_is_refused() -> None:
    """It decodes nowhere: VTA hangs on it."""
    config = load_config("vta-pynq")
    model = copy_model(dataclasses.replace(config, capabilities=Capability.LOAD_ACC8))
    (step,) = (s for s in model.steps if isinstance(s, ProgramStep))
    noop = encode_stream([Load(memory_id=Memory.ACC_8BIT)], config).tobytes()
    strange = with_program(model, noop + step.instructions)
    assert both(strange) == (0, 0)
    strange = with_fingerprint(strange, config.fingerprint())
    assert both(strange) == (-21, 0)
    with device.open("vta-pynq") as dev, pytest.raises((ArtifactError, DeviceError)):
        dev.load(strange)
