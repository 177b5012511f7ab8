# SPDX-License-Identifier: Apache-2.0
"""Random networks through a quantizer, compiled, run, compared: by number.

In:   a quantizer's name, numbers.
Out:  a line for each network: its verdict, and for what is not equal its layers, the quantizer's
      options and the reason; counts of verdicts.
Next: `python -m tests.quantizers`; test_campaign.py runs some.

equal: every element; near: only where a real number lies so near a tie that float32 cannot tell on
which side (tests/fuzz/float_sums.py, torch_sums.py bound it element by element); unquantized: the
tool itself raised. Loadstone and framework run in processes of their own.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

from tests.fuzz.models import Mutant, verdict, workers
from tests.quantizers.plan import plan

__all__ = ["TOOLS", "campaign", "counts", "done"]

#: A tool's name -> the module that quantizes with it, and its files' kind.
TOOLS = {"ort": ("as_onnx", "onnx"), "pt2e": ("as_torch", "pt2")}
#: A network takes part of a second; a campaign may run at night, beside what is more urgent.
TIMEOUT_SECONDS = 600
_LINE = re.compile(r"(\w+):(\d+) (\w+)")


def campaign(tool: str, numbers: Iterable[int]) -> Iterator[str]:
    """A line for each network."""
    module, kind = TOOLS[tool]
    quantized: Callable[..., tuple[bytes, str]] = import_module(
        f"tests.quantizers.{module}"
    ).quantized
    import_module("loadstone.compiler")  # before the forks: it takes seconds
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = workers(Path(folder), TIMEOUT_SECONDS)
        with ours, theirs:
            for number in numbers:
                network = plan(number)
                try:
                    model, options = quantized(network, number)
                except Exception as error:  # whatever a tool may raise
                    said = (str(error).splitlines() or [""])[0]
                    yield f"{tool}:{number} unquantized: {type(error).__name__}: {said} [{network}]"
                    continue
                case = Mutant(kind, number, model, [network.samples[-1]], ())
                said, why = verdict(case, ours, theirs)
                more = "" if said == "equal" else f": {why} [{network}; {options}]"
                yield f"{tool}:{number} {said}{more}"


def done(log: Path, tool: str) -> set[int]:
    """Numbers that a log has."""
    lines = log.read_text().splitlines() if log.exists() else []
    found = [_LINE.match(line) for line in lines]
    return {int(match[2]) for match in found if match and match[1] == tool}


def counts(lines: Iterable[str]) -> Counter[str]:
    """Of verdicts, by tool."""
    found = [_LINE.match(line) for line in lines]
    return Counter(f"{match[1]} {match[3]}" for match in found if match)
