# SPDX-License-Identifier: Apache-2.0
"""relax_region.py: a segment as Relax, for a back end that goes out from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from loadstone.backend.interface import External, Segment
from loadstone.backend.region import ExternalRegion
from loadstone.backend.template.backend import MyNpu
from loadstone.errors import LoweringError
from loadstone.graph import reference as graph_reference
from loadstone.partition.relax_region import region_as_relax
from tests.observed import compiled


class Reader(MyNpu):
    """Goes out from Relax: keeps what it gets, and lets TVM compute it on the host."""

    name: ClassVar[str] = "reader"

    def lower(self, segment: Segment) -> ExternalRegion:
        from loadstone.relax.saved import save_function

        text = save_function(segment.relax())
        return ExternalRegion(
            segment.name, segment.operators, segment.inputs, segment.outputs, "reader.run", text, {}
        )

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        from loadstone.runtime.externals import run_relax_step

        return {"reader.run": run_relax_step}


def test_a_segment_is_relax_for_those_who_ask(tmp_path: Path) -> None:
    """Computed by TVM in float: equal but for ties, which the second layer may amplify."""
    made = compiled(tmp_path, "reader,vtaq-4x16x16", Reader)
    image = (
        np.random.default_rng(2)
        .integers(-128, 128, (4, *made.partition.graph.inputs[0].shape))
        .astype(np.int8)
    )
    (got,) = made.run(image)
    want = np.stack([graph_reference.run(made.partition.graph, [x])[0] for x in image])
    assert np.abs(got.astype(int) - want).max() <= 3
    assert np.count_nonzero(got != want) < want.size / 50
    (segment,) = made.partition.segments
    module = region_as_relax(made.partition, segment)
    assert [
        str(f.attrs["Composite"]) for v, f in module.functions.items() if v.name_hint != "main"
    ] == ["reader.conv2d"] * 2
    with pytest.raises(LoweringError, match="it has no Relax"):
        segment.relax()
    with pytest.raises(LoweringError, match=r"is no Relax: a pass of phase graph made it"):
        region_as_relax(replace(made.partition, variables={}), segment)
