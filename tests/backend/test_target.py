# SPDX-License-Identifier: Apache-2.0
"""target.py and target_spec.py: every form of a target, and what each mistake is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.backend.plugins import load_plugins
from loadstone.backend.scope import register_tag
from loadstone.backend.target import resolve, with_attributes
from loadstone.backend.target_spec import ALIASES, parse_target
from loadstone.backend.template import backend as template
from loadstone.backend.template.test_backend import small_model
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.errors import ConfigError, TargetError
from loadstone.vta.device.hw_config import load_config

FORMS = (
    "vtaq-1x16x16",
    "vtaq-1x16x16,llvm",
    "vtaq-1x16x16 -clock_mhz=200,llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
    "  vtaq-tiny   -bus_bits=64 , c ",
    "npu-a,vtaq-1x16x16 -clock_mhz=200,llvm -mcpu=cortex-a53",
    *ALIASES,
)


@pytest.mark.parametrize("text", FORMS)
def test_text_and_json_read_back_equal(text: str) -> None:
    spec = parse_target(text)
    assert parse_target(str(spec)) == spec
    assert parse_target(spec.to_json()) == spec
    assert parse_target(json.loads(json.dumps(spec.to_json()))) == spec


def test_name_file_config_and_composite_mean_the_same(tmp_path: Path) -> None:
    config = load_config("vtaq-tiny")
    device, composite = tmp_path / "mine.json", tmp_path / "soc.json"
    device.write_text(json.dumps(config.to_json()), encoding="utf-8")
    composite.write_text(json.dumps(parse_target("vtaq-tiny,llvm").to_json()), encoding="utf-8")
    for form in (
        "vtaq-tiny",
        "vtaq-tiny,llvm",
        str(device),
        str(composite),
        config,
        ["vtaq-tiny"],
        parse_target("vtaq-tiny").to_json(),
    ):
        assert resolve(form).device == config


def test_every_form_gives_the_same_artifact(tmp_path: Path) -> None:
    """One composite as text, with more spaces, as JSON, as a file, as repeated targets, as what it
    prints; and one as an alias."""
    model = small_model(tmp_path / "small.onnx")
    known = load_plugins([Path(template.__file__).parent], installed=False)
    text = (
        "my-npu -max_channels=4,vtaq-tiny -clock_mhz=200,llvm -mtriple=aarch64-linux-gnu "
        "-mcpu=cortex-a53"
    )
    spec = parse_target(text)
    soc = tmp_path / "my-soc.json"
    soc.write_text(json.dumps(spec.to_json()), encoding="utf-8")
    numbers = json.loads(json.dumps(spec.to_json()).replace('"200"', "200").replace('"4"', "4"))
    repeated = [
        "my-npu -max_channels=4",
        "vtaq-tiny -clock_mhz=200,llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
    ]
    values = {("my-npu", "max_channels"): "4", ("vtaq-tiny", "clock_mhz"): "200"}
    options = with_attributes(parse_target(f"my-npu,vtaq-tiny,{spec.host}"), values)
    alias = "vta-pynq,llvm -mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a9"
    alike = (
        text,
        f" {text.replace(',', ' , ')} ",
        spec.to_json(),
        numbers,
        str(soc),
        [str(soc)],
        repeated,
        spec,
        str(spec),
        options,
    )
    for forms in (alike, ("pynq-z2", alias)):
        made = [compile(model, form, plugins=known) for form in forms]
        assert len({str(resolve(form, known).spec) for form in forms}) == 1
        assert len({compiled.artifact.to_bytes() for compiled in made}) == 1
        assert len({compiled.device.clock_mhz for compiled in made}) == 1
    other = compile(model, text.replace("4,", "8,", 1), plugins=known)
    assert other.artifact.to_bytes() != compile(model, text, plugins=known).artifact.to_bytes()


def test_a_target_of_tvm_reads_back_equal() -> None:
    import tvm

    for alias, text in ALIASES.items():
        assert resolve(tvm.target.Target(alias)).spec == parse_target(text)
    known = load_plugins([Path(template.__file__).parent], installed=False)
    for text in (
        "my-npu -max_channels=8,vtaq-tiny -clock_mhz=50,llvm -mcpu=cortex-a53",
        "vtaq-tiny",
        "vtaq-tiny,c",
    ):
        register_tag("some-board", parse_target(text))
        assert resolve(tvm.target.Target("some-board"), known).spec == parse_target(text)
    for config, message in (
        ({"kind": "llvm"}, "of kind llvm names no accelerator"),
        ({"kind": "ext_dev"}, "accelerator 0 is not an object"),
    ):
        with pytest.raises(TargetError, match=message):
            resolve(tvm.target.Target(config))


def test_a_file_of_the_users_is_a_tag_of_tvm(tmp_path: Path) -> None:
    import tvm

    soc = tmp_path / "my-board.json"
    soc.write_text(
        json.dumps(parse_target("vtaq-tiny,llvm -mcpu=cortex-a53").to_json()), encoding="utf-8"
    )
    compile(small_model(tmp_path / "small.onnx"), soc)
    assert str(tvm.target.Target("my-board").attrs["device"]) == "vtaq-tiny"


def test_an_accelerator_alone_gets_the_default_host() -> None:
    for form in (
        "vtaq-tiny",
        ["vtaq-tiny"],
        {"kind": "composite", "accelerators": [{"kind": "ext_dev", "device": "vtaq-tiny"}]},
    ):
        target = resolve(form)
        assert str(target.spec) == "vtaq-tiny,llvm"
        assert target.backends[0].host == {"kind": "llvm"}


def test_attributes_change_the_device() -> None:
    device = resolve("vtaq-1x16x16 -clock_mhz=0x10 -bus_bits=128").device
    assert (device.clock_mhz, device.bus_bits) == (16, 128)
    assert device.fingerprint() == load_config("vtaq-1x16x16").fingerprint()


def test_repeated_targets_add_accelerators() -> None:
    spec = parse_target(["npu-a", "vtaq-tiny,llvm -mcpu=cortex-a53"])
    assert [entry.name for entry in spec.accelerators] == ["npu-a", "vtaq-tiny"]
    assert str(spec.host) == "llvm -mcpu=cortex-a53"


def test_tensors_are_aligned_to_the_largest_tile() -> None:
    assert resolve("vtaq-1x16x16").device.align_bytes == 256
    assert resolve("vtaq-1x32x32").device.align_bytes == 1024


GOOD = {"kind": "ext_dev", "device": "vtaq-tiny"}
MALFORMED: tuple[tuple[Any, str], ...] = (
    ("toaster", "'toaster' is no accelerator; known are"),
    ("vtaq-1x16x17", r"JSON files of devices; did you mean vtaq-1x16x16\?"),
    ("", "an entry is empty"),
    (",", "an entry is empty"),
    ("vtaq-tiny,", "an entry is empty"),
    ("vtaq-tiny,,llvm", "an entry is empty"),
    ("llvm", "there is no accelerator"),
    ("c", "there is no accelerator"),
    ("llvm,vtaq-tiny", "host llvm stands before an accelerator"),
    ("vtaq-tiny,llvm,c", "host llvm stands before an accelerator"),
    ("vtaq-tiny,vtaq-tiny", "accelerator vtaq-tiny stands twice"),
    ("vtaq-4x16x16,vtaq-1x16x16", "the devices of a composite take equally many"),
    ("vtaq-tiny clock_mhz=2", "'clock_mhz=2' is no attribute"),
    ("vtaq-tiny -clock_mhz", "'-clock_mhz' is no attribute"),
    ("vtaq-tiny -clock_mhz=", "is no attribute"),
    ("vtaq-tiny -clock_mhz=1 -clock_mhz=2", "attribute clock_mhz twice"),
    ("vtaq-tiny -colour=red", "has no attribute 'colour'; it has clock_mhz, bus_bits"),
    ("vtaq-tiny -clock_mhz=fast", "is not an integer"),
    ("vtaq-tiny -clock_mhz=0", r"clock_mhz=0 is outside \[1, 10000\]"),
    ("vtaq-tiny -bus_bits=65", "bus_bits=65 is not one of"),
    ("vtaq-tiny,llvm -march=armv8", "host llvm has no attribute 'march'; it has mtriple, mcpu"),
    ("vtaq-tiny,c -mtriple=x", "host c has no attribute 'mtriple'"),
    ("vtaq-tiny,llvm -mtriple=foo-bar", "LLVM has no architecture foo; it has aarch64, arm"),
    (
        "vtaq-tiny,llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a9",
        "is none of the [0-9]+ processors of aarch64: try .*cortex-a",
    ),
    (
        "vtaq-tiny,llvm -mcpu=cortex-a53x",
        "is none of the [0-9]+ processors of aarch64, arm, .*: try cortex-a53,",
    ),
    ("-clock_mhz=2", "is no name"),
    ("vtaq tiny!", "'tiny!' is no attribute"),
    ([], "none was given"),
    (["vtaq-tiny,c", "npu,llvm -mcpu=x"], "two hosts"),
    ({}, "kind None is not 'composite'"),
    ({"kind": "llvm"}, "kind 'llvm' is not 'composite'"),
    ({"kind": "composite"}, "accelerators is not a list"),
    ({"kind": "composite", "accelerators": "vtaq-tiny"}, "accelerators is not a list"),
    ({"kind": "composite", "accelerators": []}, "there is no accelerator"),
    (
        {"kind": "composite", "accelerators": [{}]},
        "accelerator 0 is not an object with a name under 'device'",
    ),
    ({"kind": "composite", "accelerators": [1]}, "accelerator 0 is not an object"),
    (
        {"kind": "composite", "accelerators": [{"kind": "llvm", "device": "a"}]},
        "accelerators are 'ext_dev'",
    ),
    ({"kind": "composite", "accelerators": [{**GOOD, "clock_mhz": [1]}]}, "a value is text"),
    ({"kind": "composite", "accelerators": [GOOD], "hosts": {}}, "unknown key 'hosts'"),
    (
        {"kind": "composite", "accelerators": [GOOD], "host": {"kind": "gpu"}},
        "host 'gpu' is not one of llvm, c",
    ),
    ({"kind": "composite", "accelerators": [GOOD], "host": "llvm"}, "host is not an object"),
)


def test_there_are_at_least_thirty_mistakes(figure: Callable[[str], None]) -> None:
    figure(f"targets: {len(MALFORMED)} malformed ones are told in one line each")
    assert len({repr(target) for target, _ in MALFORMED}) == len(MALFORMED) >= 30


@pytest.mark.parametrize(("target", "message"), MALFORMED)
def test_a_mistake_is_one_line_that_says_what_is_wrong(target: Any, message: str) -> None:
    with pytest.raises((TargetError, ConfigError), match=message) as caught:
        resolve(target)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "soc.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(TargetError, match=r"soc\.json"):
        resolve(str(path))


def test_the_command_lists_names_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target"]) == 0
    assert "pynq-z2" in capsys.readouterr().out
    assert main(["target", "ultra96", "--json"]) == 0
    assert parse_target(json.loads(capsys.readouterr().out)) == parse_target("ultra96")
    assert main(["target", "toaster"]) == 2
