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

__all__ = ["run_text"]


def run_text(folder: Path, target: str, scheme: str, symbols: int) -> int:
    """Prints; 1 when the simulator writes another text than ONNX Runtime."""
    from loadstone.demo import text
    from loadstone.simulator.programs import program_cycles

    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    model = folder / "text.int8.onnx"
    text.quantized(scheme).save(model)
    seconds = time.perf_counter() - start
    print(f"quantized  {text.network_path().name}, {scheme}: {model} ({seconds:.1f} s)")

    found = text.compiled(model, target)
    artifact = folder / "text.lds"
    found.save(artifact)
    rows = found.explain()
    total = sum(row["macs"] for row in rows)
    share = sum(row["macs"] for row in rows if row["where"] != "host") / total
    size = sum(region.size_bytes for region in found.artifact.regions if region.name == "state")
    print(
        f"compiled   {artifact}: {100 * share:.1f} % of {total:,} multiply-accumulates a token on "
        f"{found.device.name}; {size:,} bytes of states "
        f"({sum(found.report()['seconds'].values()):.1f} s)"
    )

    start = time.perf_counter()
    mine = text.written_by_simulator(found, symbols)
    seconds = time.perf_counter() - start
    right, count = text.sentences_right(mine.text)
    print(f"simulated  {symbols} tokens in {seconds:.1f} s, through the C runtime:")
    print(f"           {text.PROMPT.strip()}{mine.text}")
    print(f"           {right} of {count} whole sentences are the grammar's")

    wanted = text.written_by_onnx_runtime(model, symbols)
    equal = sum(a == b for a, b in zip(mine.text, wanted.text, strict=True))
    differing = int(np.count_nonzero((mine.scores != wanted.scores).any(1)))
    print(
        f"compared   {equal} of {symbols} tokens are ONNX Runtime's for the same file; "
        f"{differing} times a score differs (its sums are float32)"
    )
    cycles = sum(program_cycles(found.artifact, found.device))
    clock = found.device.clock_mhz
    print(
        f"timed      {cycles:,} cycles of {found.device.name} a token, "
        f"{1e6 * clock / cycles:,.0f} tokens a second at {clock} MHz, without the host's steps"
    )
    return 0 if mine.text == wanted.text else 1
