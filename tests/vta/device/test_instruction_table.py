# SPDX-License-Identifier: Apache-2.0
"""vta/device/instruction_table.py: what the table says of VTA, by the code that serves any table,
is what VTA's own validators, recorded programs and the simulator say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, MemoryRegion, RegionKind
from loadstone.errors import ConfigError, EncodingError, LoweringError
from loadstone.isa.codec import TableInsn, decode
from loadstone.isa.follow import Follower, InDram, Placed, ProgramRefusal
from loadstone.isa.program_check import ProgramMemory, RegionLimits, check_program
from loadstone.isa.program_tokens import on_bus, plain_fields, prove_tokens
from loadstone.isa.table import InstructionTable
from loadstone.vta.device.hw_config import HwConfig, device_names, load_config
from loadstone.vta.device.instruction_table import instruction_table
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.spec import INSN_BYTES, Capability, table_of
from loadstone.vta.simulator.sim import Simulator
from tests.isa.table_judge import TableJudge
from tests.ordering import tokens_of, without
from tests.programs import BASE, random_program
from tests.repeat import times
from tests.simulated import TINY, VTA
from tests.validated import vector_model
from tests.vta.validator.limits import limits
from tests.vta.validator.test_validate_mutants import mutate, seeds
from tests.vta.validator.validate import RULES, possible_config, validate_program

#: What a GEMM that resets does not read may lie anywhere: VTA's validators ask more (rule V12).
UNREAD = "of GEMM, unread"
TOKEN_RULES = ("V14", "V15", "V16")
#: Rules that are others' for a table: that there is a micro-op at all is a limit of fields.
OTHER_STATUS = {("V11", "INSTRUCTION"), *((rule, "TOKEN") for rule in TOKEN_RULES)}


def memory_of(regions: Sequence[MemoryRegion]) -> ProgramMemory:
    def content(place: Placed, size: int) -> bytes | None:
        region, first = regions[int(place[0])], place[1]  # type: ignore[call-overload]
        constant = region.kind == RegionKind.CONSTANTS
        return bytes(region.data[first : first + size]) if constant else None

    numbered = enumerate(regions)
    sizes = {k: RegionLimits(r.size_bytes, r.device_reads, r.device_writes) for k, r in numbered}
    return ProgramMemory(sizes, on_bus, content, [(k, 0) for k in range(len(regions))])


def of_table(
    code: bytes, config: HwConfig, regions: Sequence[MemoryRegion]
) -> tuple[str, int] | None:
    """What check_program says; instructions that do not decode are refused where they stand."""
    table, insns, bad = instruction_table(config), [], None
    for number in range(len(code) // INSN_BYTES):
        try:
            insns += decode(table, code[INSN_BYTES * number :][:INSN_BYTES])
        except EncodingError:
            bad = number
            break
    if bad is not None:  # what stands before it may be refused, too
        insns.append(TableInsn("FINISH", {}))
        table = replace(table, queues=())
    try:
        check_program(table, insns, memory_of(regions))
    except ProgramRefusal as refusal:
        return refusal.status, refusal.instruction
    return None if bad is None else ("INSTRUCTION", bad)


@pytest.mark.parametrize("name", device_names())
def test_the_bits_are_those_of_the_spec(name: str) -> None:
    config = load_config(name)
    table, bits = instruction_table(config), table_of(config.widths)
    assert instruction_table(replace(config)) is table
    for form in table.forms:
        assert form.fields == bits.by_name[form.name].fields
        assert table.places[form.name] == bits.places[form.name]
    assert ("CONFIG" in table.by_name) == config.has(Capability.CONFIG)


def test_every_limit_of_vta_is_one_of_the_table(figure: Callable[[str], None]) -> None:
    """In Python and in C; C knows no tokens of a table."""
    counts: Counter[str] = Counter()
    judges: dict[object, TableJudge] = {}
    for name, row in limits().items():
        for more in (0, 1):
            artifact = row.make(more).artifact()
            try:
                config = possible_config(artifact.fingerprint)
            except ConfigError:
                continue
            code, regions = artifact.programs[0].instructions, artifact.regions
            violation = validate_program(code, config, regions)
            want = (RULES[violation[1]], violation[0]) if violation else None
            got, in_c = of_table(code, config, regions), None
            key = (config, regions)
            judge = judges.setdefault(key, TableJudge(instruction_table(config), regions))
            in_c = judge.verdict(code, len(code) // INSN_BYTES)
            if violation and UNREAD in name and got is None:
                assert in_c is None, name
                counts["unread operands, refused by VTA's alone"] += 1
            elif violation and violation[1] in TOKEN_RULES:
                assert got is not None, name
                assert in_c is None, name
                counts["tokens"] += 1
            elif violation and got != want:
                assert got is not None, name
                assert (violation[1], got[0]) in OTHER_STATUS, (name, want, got)
                assert got[1] == violation[0], name
                assert in_c == got, name
                counts["refused for another reason"] += 1
            else:
                assert (got, in_c) == (want, want), (name, more)
                counts["refused alike" if want else "accepted by all"] += 1
    figure(f"limits of VTA's rules by its table: {dict(counts)}")
    assert counts["refused alike"] > 200
    assert counts["accepted by all"] > 250
    assert counts["unread operands, refused by VTA's alone"] == 8


def _disagreements(models: Sequence[Artifact], count: int, seed: int) -> Counter[str]:
    """Of mutants: both accept, both refuse, or only tokens and unread operands tell them apart."""
    random, counts = np.random.default_rng(seed), Counter[str]()
    judges: dict[object, TableJudge] = {}
    for k in range(count):
        model = models[k % len(models)]
        config = possible_config(model.fingerprint)
        code = mutate(model.programs[0].instructions, config, random)
        violation = validate_program(code, config, model.regions)
        got = of_table(code, config, model.regions)
        key = config, model.regions
        judge = judges.setdefault(key, TableJudge(instruction_table(config), model.regions))
        in_c = judge.verdict(code, len(code) // INSN_BYTES)
        assert in_c == (None if got and got[0] == "TOKEN" else got), (k, in_c, got)
        if violation is None:
            assert got is None, (k, got)
            counts["accepted"] += 1
        elif got is None:
            assert violation[1] == "V12", (k, violation)
            assert _resets(code, violation[0], config), k
            counts["unread operands, refused by VTA's alone"] += 1
        elif got[0] == "TOKEN" or violation[1] in TOKEN_RULES:
            counts["tokens"] += 1  # the table's are asked for behind all other rules
        else:
            same = got == (RULES[violation[1]], violation[0])
            other = (violation[1], got[0]) in OTHER_STATUS and got[1] == violation[0]
            later = violation[1] == "V12" and _resets(code, violation[0], config)
            assert same or other or later, (k, violation, got)
            counts["refused alike"] += 1
    return counts


def _resets(code: bytes, number: int, config: HwConfig) -> bool:
    one = decode(instruction_table(config), code[INSN_BYTES * number :][:INSN_BYTES])[0]
    return one.name == "GEMM" and one.fields["reset"] == 1


def test_mutants_are_refused_as_by_vtas_validator(figure: Callable[[str], None]) -> None:
    counts = _disagreements(seeds(None), times(120, 20_000), 5)
    figure(f"mutants of VTA programs by its table: {dict(counts)}")
    assert counts["accepted"] > 10
    assert counts["refused alike"] > 20


@pytest.mark.full
def test_mutants_of_recorded_programs(shared: Path, figure: Callable[[str], None]) -> None:
    counts = _disagreements(seeds(shared), times(150, 10_000), 6)
    figure(f"mutants of recorded programs by VTA's table: {dict(counts)}")
    assert counts["accepted"] > 10


def _written(
    table: InstructionTable, insns: Sequence[TableInsn], memory: ProgramMemory
) -> set[int]:
    """Bytes that a program says it writes."""
    follower, found = Follower(table, memory.content, memory.begins), set()
    for insn in insns:
        form, fields = table.by_name[insn.name], plain_fields(table, insn)
        touched = follower.touched(form, fields, {})
        follower.done(form, fields, {}, touched)
        for each in touched:
            if isinstance(each.touch.space, InDram) and each.touch.writes:
                (rows, stride), *rest = each.touch.loops or ((1, 0),)
                assert not rest
                for row in range(rows):
                    first = each.touch.first + row * stride
                    found.update(range(first, first + each.touch.extent))
    return found


def _is_proven(table: InstructionTable, insns: Sequence[TableInsn], memory: ProgramMemory) -> bool:
    try:
        prove_tokens(table, insns, on_bus, memory.content, memory.begins)
    except LoweringError:
        return False
    return True


def test_recorded_programs(shared: Path, figure: Callable[[str], None]) -> None:
    """Of VTA's RTL and functional simulator: all may run, what the table says they write is what
    they wrote, and their tokens are proven, but for some whose random micro-ops leave out tiles
    between those that they name."""
    paths = sorted([*(shared / "vta_rtl").glob("*.npz"), *(shared / "vta_exact").glob("*.npz")])
    chosen = paths[:: len(paths) // times(len(paths) // 6, len(paths))]
    instructions = proven = 0
    for path in chosen:
        model = vector_model(path, Capability.ALU_MUL | Capability.LOAD_ACC8)
        config = possible_config(model.fingerprint)
        table, memory = instruction_table(config), memory_of(model.regions)
        insns = decode(table, model.programs[0].instructions)
        instructions += len(insns)
        check_program(table, insns, memory)
        ordered = _is_proven(table, insns, memory)
        assert ordered or path.stem.startswith(("random", "fsim")), path.name
        proven += ordered
        with np.load(path) as file:
            base = int(file["dram_base"])
            spans = file["out_regions"].tolist()
        want = {base + at for first, size in spans for at in range(first, first + size)}
        assert _written(table, insns, memory) == want, path.name
    figure(
        f"recorded programs by VTA's table: {len(chosen)}, {instructions} instructions, tokens "
        f"of {proven} proven"
    )
    assert len(chosen) > 30
    assert proven > len(chosen) // 2


@pytest.mark.parametrize("config", [VTA, TINY], ids=lambda c: c.name)
def test_what_races_on_the_simulator_is_not_proven(
    config: HwConfig, figure: Callable[[str], None]
) -> None:
    """Random programs with tokens taken away. The proof takes an operand of micro-ops as the range
    from its first tile to its last, so that it may ask for an order that no run needs."""
    counts: Counter[str] = Counter()
    for seed in range(times(12, 200)):
        rng = np.random.default_rng(seed)
        program = random_program(config, rng, 16)
        tokens = tokens_of(program.objects) or []
        for part in (0.0, 0.1, 0.2):
            flags = [flag for token in tokens for flag in token if rng.random() < part]
            insns = without(program.objects, *flags)
            raced = _races(encode_stream(insns, config), config, program.memory)
            proven = _proven(encode_stream(insns, config).tobytes(), config, program.memory)
            assert not (raced and proven), (seed, part)
            counts[f"{'raced' if raced else 'did not race'}, {'' if proven else 'not '}proven"] += 1
    figure(f"races of {config.name} by its table: {dict(counts)}")
    assert counts["raced, not proven"] > 5
    assert counts["did not race, proven"] >= 10


def _races(stream: np.ndarray, config: HwConfig, memory: np.ndarray) -> bool:
    """Whether the simulator finds two instructions that no token orders, or stops."""
    simulator = Simulator(config, strict=False, races=True, timing=False)
    simulator.map(BASE, memory.copy())
    if config.has(Capability.REGIONS):
        simulator.set_region(0, BASE, memory.size)
    result = simulator.run(stream, check=False)
    return result.insns_done < len(stream) or any(
        finding.other is not None for finding in simulator.findings()
    )


def _proven(code: bytes, config: HwConfig, memory: np.ndarray) -> bool:
    base = 0 if config.has(Capability.REGIONS) else BASE
    data, table = bytes(base) + memory.tobytes(), instruction_table(config)

    def content(place: Placed, size: int) -> bytes:
        return data[place[1] : place[1] + size]

    whole = ProgramMemory({0: RegionLimits(len(data))}, on_bus, content, [(0, 0)])
    return _is_proven(table, decode(table, code), whole)
