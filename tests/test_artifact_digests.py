# SPDX-License-Identifier: Apache-2.0
"""What devices are given of compiled networks is what tests/golden/digests.txt says: 12 random
networks, which between them have every kind of kernel but products of activations, on five devices.

A change of the compiler's structure changes none. One that means to change them runs `pytest
tests/test_artifact_digests.py --update-golden -p no:xdist`, and says in its commit what it gains.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from tests import random_onnx, random_tflite
from tests.artifact_digests import DEVICES, lines, main

GOLDEN = Path(__file__).parent / "golden" / "digests.txt"
NETWORKS = {
    "tflite": (random_tflite.network, (0, 4, 8, 14, 16, 22)),
    "onnx": (random_onnx.network, (0, 2, 4, 11, 14, 17)),
}


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind, (_, seeds) in NETWORKS.items() for seed in seeds]
)
def test_a_network_is_compiled_to_the_bytes_that_it_was(
    kind: str,
    seed: int,
    tmp_path: Path,
    update_golden: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Verifiers are off, which other tests run with: these are a user's compiles."""
    monkeypatch.setenv("LOADSTONE_VERIFY", "0")
    file = tmp_path / f"{seed}.{kind}"
    file.write_bytes(NETWORKS[kind][0](seed).model)
    name = f"{kind}-{seed}"
    found = list(lines(name, file))
    known = GOLDEN.read_text(encoding="utf-8").splitlines() if GOLDEN.exists() else []
    if update_golden:
        others = [line for line in known if line.split()[0] != name]
        GOLDEN.write_text("\n".join(sorted(others + found)) + "\n", encoding="utf-8")
        return
    assert found == [
        line for device in DEVICES for line in known if line.startswith(f"{name} {device} ")
    ]


def test_a_digest_that_is_another_than_before_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, before = tmp_path / "small.tflite", tmp_path / "before.txt"
    file.write_bytes(random_tflite.network(3).model)
    wanted = [str(file), "--device", "vta-pynq"]
    assert main(wanted) == 0
    line = capsys.readouterr().out
    before.write_text(line, encoding="utf-8")
    assert main([*wanted, "--against", str(before)]) == 0
    before.write_text(line[:-2] + "g\n", encoding="utf-8")
    assert main([*wanted, "--against", str(before)]) == 1
    assert capsys.readouterr().out.endswith("DIFFERS\n")
