# SPDX-License-Identifier: Apache-2.0
"""`loadstone demo text`: a transformer writes, its caches the states of a session.

In:   demo/text.py's steps.
Out:  one line for each step; a folder with the int8 model and the artifact.
Next: commands/demo.py calls it.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from loadstone.commands.answers import Steps

__all__ = ["run_text"]


def run_text(folder: Path, target: str, scheme: str, symbols: int, steps: Steps) -> int:
    """Says each step; 1 when the simulator writes another text than ONNX Runtime."""
    from loadstone.demo import text
    from loadstone.simulator.programs import program_cycles

    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    model = folder / "text.int8.onnx"
    text.quantized(scheme).save(model)
    seconds = time.perf_counter() - start
    steps.done("quantized", f"{text.network_path().name}, {scheme}: {model} ({seconds:.1f} s)")

    found = text.compiled(model, target)
    artifact = folder / "text.lds"
    found.save(artifact)
    rows = found.explain()
    total = sum(row["macs"] for row in rows)
    share = sum(row["macs"] for row in rows if row["where"] != "host") / total
    size = sum(region.size_bytes for region in found.artifact.regions if region.name == "state")
    steps.done(
        "compiled",
        f"{artifact}: {100 * share:.1f} % of {total:,} multiply-accumulates a token on "
        f"{found.device.name}; {size:,} bytes of states "
        f"({sum(found.report()['seconds'].values()):.1f} s)",
    )

    start = time.perf_counter()
    mine = text.written_by_simulator(found, symbols)
    seconds = time.perf_counter() - start
    right, count = text.sentences_right(mine.text)
    steps.done(
        "simulated",
        f"{symbols} tokens in {seconds:.1f} s, through the C runtime:\n"
        f"{text.PROMPT.strip()}{mine.text}\n"
        f"{right} of {count} whole sentences are the grammar's",
    )

    wanted = text.written_by_onnx_runtime(model, symbols)
    equal = sum(a == b for a, b in zip(mine.text, wanted.text, strict=True))
    differing = int(np.count_nonzero((mine.scores != wanted.scores).any(1)))
    steps.done(
        "compared",
        f"{equal} of {symbols} tokens are ONNX Runtime's for the same file; "
        f"{differing} times a score differs (its sums are float32)",
    )
    cycles = sum(program_cycles(found.artifact, found.device))
    clock = found.device.clock_mhz
    steps.done(
        "timed",
        f"{cycles:,} cycles of {found.device.name} a token, "
        f"{1e6 * clock / cycles:,.0f} tokens a second at {clock} MHz, without the host's steps",
    )
    return steps.end(mine.text == wanted.text)
