# SPDX-License-Identifier: Apache-2.0
"""`loadstone bound`: numbers of two networks that can be computed by hand, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.simulator.programs import simulator_of, simulators
from loadstone.vta.device.hw_config import load_config
from tests.further import branches
from tests.runtime.test_schedule import in_parts
from tests.sample_model import dense_model
from tests.test_cli import status_of

CONFIG = load_config("vtaq-1x16x16")
BURST = CONFIG.timing["burst_boundary_bytes"].value


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program and five, of the same cycles wherever they stand."""
    monkeypatch.chdir(tmp_path)
    for name, parts in (("one", 1), ("five", 5)):
        made = in_parts(parts)
        regions = [
            dataclasses.replace(r, align_bytes=max(r.align_bytes, BURST)) if r.on_device else r
            for r in made.regions
        ]
        dataclasses.replace(made, name=name, regions=tuple(regions)).save(f"{name}.lds")


def _cycles() -> int:
    """Of the program, at most."""
    found = simulator_of(CONFIG).longest(dense_model(CONFIG).artifact)
    (most,) = found.values()
    return most


def test_the_numbers_are_those_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bound", "one.lds", "five.lds", "--periods", "1ms,2ms", "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    each, (high, low) = _cycles(), said["networks"]
    assert said["schedulable"]
    assert (high["cycles"], low["cycles"], low["longest_block_cycles"]) == (each, 5 * each, each)
    assert high["response_cycles"] == 2 * each - 1
    assert low["response_cycles"] == 6 * each
    assert high["response_us"] == pytest.approx(
        high["response_cycles"] / CONFIG.clock_mhz, abs=1e-3
    )
    assert (high["period_cycles"], low["period_cycles"]) == (200_000, 400_000)


def test_the_host_and_its_overhead_count(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--host", "1us", "--overhead", "500ns"]
    assert main(["bound", "one.lds", "--periods", "1ms", "--json", *more]) == 0
    (one,) = json.loads(capsys.readouterr().out)["networks"]
    steps = len(dense_model(CONFIG).artifact.steps)
    per_us = CONFIG.clock_mhz
    assert one["cycles"] == _cycles() + (steps - 1) * per_us + steps * per_us // 2
    assert one["longest_block"] == {"step": "part 0", "host": False}
    assert main(["bound", "one.lds", "--periods", "9ms", "--json", "--host", "1ms"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["networks"]
    assert one["longest_block"] == {"step": "pack", "host": True}
    assert one["longest_block_cycles"] == 1000 * per_us
    assert main(["bound", "one.lds", "--periods", "9ms", "--host", "1ms"]) == 0
    assert "the longest block of one is a step of the host: pack" in capsys.readouterr().out
    assert main(["bound", "one.lds", "--periods", "1ms", "--host", "cortex-m55@160"]) == 0
    assert "cortex-m55@160 is stated to take (no bound)" in capsys.readouterr().out


def test_less_than_a_nanosecond_of_the_host_is_no_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bound", "one.lds", "--periods", "1ms", "--json", "--host", "0.4ns"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["networks"]
    assert one["cycles"] == _cycles() + len(dense_model(CONFIG).artifact.steps) - 1


def test_microseconds_of_a_response_are_not_rounded_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """300 MHz: a cycle is no whole number of nanoseconds."""
    odd = dataclasses.replace(CONFIG, clock_mhz=300)
    monkeypatch.setattr("loadstone.commands.bound.device_of_artifact", lambda _artifact: odd)
    assert main(["bound", "one.lds", "--periods", "1ms", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["networks"]
    exact = Fraction(one["response_cycles"], 300)
    assert exact <= Fraction(str(one["response_us"])) < exact + Fraction(1, 1000)


def test_what_is_too_late_ends_with_1_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bound", "one.lds", "five.lds", "--periods", "1ms,2ms"]
    assert main([*words, "--deadlines", "1us,2ms"]) == 1
    text = capsys.readouterr().out
    assert "too late" in text
    assert "not schedulable" in text
    assert main(["bound", "five.lds", "one.lds", "--periods", "1us,2ms"]) == 1
    assert "no bound" in capsys.readouterr().out


def test_who_is_late_behind_a_long_block_says_which_would_be_short_enough(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only of those of lower priority whose blocks are longer."""
    each = _cycles()
    deadline = f"{each * 3 / 2 / CONFIG.clock_mhz}us"
    words = ["bound", "one.lds", "five.lds", "--periods", "1ms,2ms", "--deadlines"]
    assert main([*words, f"{deadline},2ms"]) == 1
    allowed = each * 3 // 2 - each + 1
    text = f"one would be in time behind blocks of at most {allowed:,} cycles: compile five with"
    assert text in capsys.readouterr().out
    assert main([*words, f"{deadline},2ms", "--json"]) == 1
    high, low = json.loads(capsys.readouterr().out)["networks"]
    assert (high["allowed_block_cycles"], low["allowed_block_cycles"]) == (allowed, None)
    assert main([*words, "1us,2ms"]) == 1  # late alone, too
    assert "behind blocks" not in capsys.readouterr().out
    assert main([*words, "1ms,1us"]) == 1  # nobody is of lower priority
    assert "behind blocks" not in capsys.readouterr().out


@pytest.mark.parametrize(("outstanding", "said"), [(1, "tried, not"), (2, "not true of every")])
def test_a_timing_table_of_ones_own_was_not_tried(
    outstanding: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of every device built in was. The clock does not matter."""
    of_ones_own = dataclasses.replace(
        CONFIG.timing["read_bursts_outstanding"], value=outstanding, source="of one's own"
    )
    timing = {**CONFIG.timing, "read_bursts_outstanding": of_ones_own}
    own = dataclasses.replace(CONFIG, clock_mhz=77, timing=timing)
    monkeypatch.setattr("loadstone.commands.bound.device_of_artifact", lambda _artifact: own)
    assert main(["bound", "one.lds", "--periods", "1ms", "--json"]) == 0
    (text,) = (t for t in json.loads(capsys.readouterr().out)["assumed"] if "takes longer" in t)
    assert said in text


def test_what_is_late_behind_a_step_of_the_host_is_not_told_to_cut_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Steps of 100 us each, three before and behind programs: no cut makes one of them shorter."""
    each, per_us = _cycles(), CONFIG.clock_mhz
    alone = each + 100 * per_us * (len(dense_model(CONFIG).artifact.steps) - 1)
    allowed = 99 * per_us
    assert each < allowed
    deadline = f"{(alone + allowed - 1) / per_us}us"
    words = ["bound", "one.lds", "five.lds", "--periods", "9ms,9ms", "--host", "100us"]
    assert main([*words, "--deadlines", f"{deadline},9ms"]) == 1
    text = capsys.readouterr().out
    assert f"at most {allowed:,} cycles: run longer steps of the host of five elsewhere" in text
    assert "--switch-within" not in text.split("assumed:", maxsplit=1)[0]


def test_memory_that_begins_anywhere_is_assumed_to_be_at_its_worst_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["bound", "one.lds", "plain.lds", "--periods", "1ms,2ms", "--json"]
    made = dense_model(CONFIG).artifact
    regions = [dataclasses.replace(r, align_bytes=64) if r.on_device else r for r in made.regions]
    dataclasses.replace(made, name="plain", regions=tuple(regions)).save("plain.lds")
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["networks"][1]["cycles"] > said["networks"][0]["cycles"]
    (line,) = [text for text in said["assumed"] if "worst place" in text]
    assert "of 'plain' has" in line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--periods", "1ms"], "for each model is wanted, 2, not 1"),
        (["--periods", "1ms,0ms"], "not above 0"),
        (["--periods", "1ms,soon"], "'soon' is no time"),
        (["--periods", "1ms,2ms", "--deadlines", "1ms,3ms"], "above its period"),
        (["--periods", "1ms,2ms", "--host", "z80@4"], "not one of cortex-m4"),
        (["--periods", "1ms,2ms", "--overhead", "5"], "'5' is no time"),
    ],
)
def test_mistakes_are_named(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("bound", "one.lds", "five.lds", *words) == 2
    assert text in capsys.readouterr().err


def _of_two(bus_of: str, file: str) -> int:
    """An artifact of two devices; what its one block takes at most."""
    beside = dataclasses.replace(CONFIG, name="beside", bus_of=bus_of)
    _, made = branches(CONFIG, beside)
    regions = [
        dataclasses.replace(r, align_bytes=max(r.align_bytes, BURST)) if r.on_device else r
        for r in made.regions
    ]
    made = dataclasses.replace(made, name=file, regions=tuple(regions))
    made.save(f"{file}.lds")
    longest = [c for one in simulators(made, CONFIG) for c in one.longest(made).values()]
    assert len(longest) == 2
    return max(longest)


def test_a_network_of_two_devices_has_both(capsys: pytest.CaptureFixture[str]) -> None:
    """On one bus its programs take longer than with a bus each."""
    private, shared = _of_two("", "private"), _of_two(CONFIG.name, "shared")
    assert shared > private
    for name, most in (("private", private), ("shared", shared)):
        words = ["bound", "one.lds", f"{name}.lds", "--periods", "1ms,2ms"]
        assert main([*words, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        high, low = said["networks"]
        assert low["longest_block_cycles"] == low["cycles"] == most
        assert high["response_cycles"] == most - 1 + _cycles()
        assert low["response_cycles"] == most + _cycles()
        assert any("begin in the same cycle" in text for text in said["assumed"])
    words = ["bound", "private.lds", "shared.lds", "--periods", "1ms,2ms"]
    assert status_of(*words) == 2
    assert "compile both for one target" in capsys.readouterr().err


def test_networks_of_two_devices_do_not_share_one(capsys: pytest.CaptureFixture[str]) -> None:
    dense_model(load_config("vtaq-1x8x8")).artifact.save("other.lds")
    assert status_of("bound", "one.lds", "other.lds", "--periods", "1ms,1ms") == 2
    assert "compiled for one" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["clock_mhz", "timing", "bus_bits"])
def test_devices_of_equal_programs_and_other_times_are_not_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their artifacts have one fingerprint: the bounds would be those of the first's device."""
    first = load_config("vta-pynq")
    own = {
        "clock_mhz": dataclasses.replace(first, name="other", clock_mhz=50),
        "timing": load_config("vta-de10nano"),
        "bus_bits": dataclasses.replace(first, name="other", bus_bits=32),
    }
    for number, config in enumerate((first, own[name])):
        dense_model(config).artifact.save(f"{number}.lds")
    assert status_of("bound", "0.lds", "1.lds", "--periods", "1ms,1ms") == 2
    said = capsys.readouterr().err
    assert f"which runs the same programs with another {name}" in said
