# SPDX-License-Identifier: Apache-2.0
"""frontend/aten/ against PyTorch's own database of operators: equal, or refused in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
pytest.importorskip("expecttest", reason="expecttest is not installed (the extra `dev`)")

from tests.frontend.operator_database import database, judged, refused
from tests.repeat import ALL, times

#: Operators that exports of networks contain, with what is refused of their samples: words of each
#: reason. Where there are none, all samples are equal.
SLICE: dict[str, tuple[str, ...]] = {
    "nn.functional.conv2d": ("no batch", "constants"),
    "nn.functional.conv_transpose2d": ("no batch", "constants", "output_padding"),
    "nn.functional.layer_norm": (),
    "nn.functional.rms_norm": (),
    "nn.functional.pad reflect": (),
    "nn.functional.interpolate nearest": (),
    "nn.functional.max_pool2d": ("no batch", "is not computed"),
    "add": (),
    "div floor_rounding": (),
    "where": (),
    "cumsum": (),
    "index_select": (),
}
#: The same for what networks have more of.
SLICE |= dict.fromkeys(
    ("nn.functional.glu", "nn.functional.gelu", "remainder", "clamp", "softmax", "sum", "argmax"),
    (),
)
#: Operators of the database that no sample gets through, and why: name, tab, reason.
TABLE = Path(__file__).with_name("operators_refused.tsv")


def test_a_few_samples_are_equal() -> None:
    entry = database()["where"]
    assert {verdict.kind for verdict in judged("where", entry, 2)} == {"equal"}


def test_the_table_says_why_operators_are_refused() -> None:
    """Every eightieth line, and all of them in `make test-all`."""
    entries = database()
    lines = [line.split("\t") for line in TABLE.read_text().splitlines()]
    for name, why in lines[:: 1 if ALL else 80]:
        verdicts = [vars(verdict) for verdict in judged(name, entries[name], 2)]
        assert refused(verdicts) == {name: why}


def test_samples_of_pytorchs_database_are_equal_or_refused(figure: Callable[[str], None]) -> None:
    """Each in C, against PyTorch. `python -m tests.frontend.operator_database --log FILE` runs all
    operators."""
    entries = database()
    counts: Counter[str] = Counter()
    wrong, equal = [], set()
    for name, words in SLICE.items():
        for verdict in judged(name, entries[name], times(2, 40)):
            counts[verdict.kind] += 1
            if verdict.kind == "equal":
                equal.add(name)
            elif verdict.kind != "refused" or not any(word in verdict.why for word in words):
                wrong.append(verdict)
    figure(f"samples of PyTorch's database of operators: {dict(sorted(counts.items()))}")
    assert not wrong
    assert equal == set(SLICE)
