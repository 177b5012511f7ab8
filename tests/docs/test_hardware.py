# SPDX-License-Identifier: Apache-2.0
"""docs/hardware.md: the cycles of its comparison are those of today's compiler. (Vela's own column
needs Vela: tests/figures.toml.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.ethos import NETWORKS, cycles

#: A row of the comparison: the network, four columns of cycles, and the first over the last.
_ROW = re.compile(
    r"^\| ([^|]+) \| ([\d,]+) \| [\d,]+ \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", re.M
)


@pytest.mark.parametrize("number", range(len(NETWORKS)), ids=[*NETWORKS])
def test_the_cycles_beside_ethos_u55_are_those_of_today(
    root: Path, shared: Path, number: int
) -> None:
    page = (root / "docs/hardware.md").read_text(encoding="utf-8")
    rows = _ROW.findall(page.partition("\n## Beside Ethos-U55\n")[2])
    assert len(rows) == len(NETWORKS)
    _, vela, first, second, times = rows[number]
    model = shared / "models" / [*NETWORKS][number]
    found = [cycles(model, device) for device in ("vtaq-1x16x16", "vtaq2-1x16x16")]
    assert [f"{count:,}" for count in found] == [first, second]
    assert f"{int(vela.replace(',', '')) / found[1]:.2f}" == times
