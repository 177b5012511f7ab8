# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.random_campaign --log FILE`: thousands of random networks on one device, a line
for each in a file, so that it can be stopped at any time and goes on where it was.

In:   --log, --device, --count (of each format), --first.
Out:  lines `tflite 12 equal conv2d:device add:device` in the log, and at the end how many networks
      and operators there were; exit status 1 where one of them failed.
Next: a failure names the number: `python -m tests.test_random_graphs tflite 12 vta-pynq`.

What tests/test_random_graphs.py asks of each network is asked here: every element LiteRT's or ONNX
Runtime's, in strict mode, no race, no read of what nobody wrote. A network that is in the log is
not run again; one that failed is, after its line has been taken out. Networks run in a process
beside this one, so that a framework that aborts costs one of them: it has failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.test_random_graphs import FORMATS, check

__all__ = ["main"]

#: An operator's place in the log, for what --explain calls the host.
_HOST, _DEVICE = "host", "device"
#: A format, and a number as it stands in the log.
_Network = tuple[str, str]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_campaign", description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="what has been done")
    parser.add_argument("--device", default="vta-pynq")
    parser.add_argument("--count", type=int, default=2500, help="networks of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    args = parser.parse_args(arguments)
    numbers = range(args.first, args.first + args.count)
    wanted = [(kind, str(seed)) for seed in numbers for kind in FORMATS]
    while left := _left(wanted, args.log):
        # Forked: another process would import TVM again after each that ended early.
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(left, args.device, args.log)
        )
        process.start()
        process.join()
        if process.exitcode:
            with args.log.open("a") as log:
                first = _left(left, args.log)[0]
                print(*first, f"failed its process ended with {process.exitcode}", file=log)
    done = _done(args.log)
    return _summary({network: done[network] for network in wanted})


def _left(networks: Sequence[_Network], log: Path) -> list[_Network]:
    done = _done(log)
    return [network for network in networks if network not in done]


def _run(networks: Sequence[_Network], device: str, log: Path) -> None:
    """A line for each, behind those that are there."""
    with tempfile.TemporaryDirectory(prefix="lds-random-") as folder, log.open("a") as lines:
        for kind, seed in networks:
            result = _result(kind, int(seed), device, Path(folder))
            print(kind, seed, *result, file=lines, flush=True)


def _done(log: Path) -> dict[_Network, list[str]]:
    """Results of (format, number). A line that was cut off when the campaign was stopped counts
    for nothing, and is ended."""
    if not log.exists():
        return {}
    text = log.read_text()
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        log.write_text(complete)
    lines = [line.split() for line in complete.splitlines()]
    return {(words[0], words[1]): words[2:] for words in lines}


def _result(kind: str, seed: int, device: str, folder: Path) -> list[str]:
    """`equal` and each operator with its place; or `failed` and why."""
    try:
        compiled = check(kind, seed, device, folder)
    except Exception as error:  # whatever it is, the next network is tried
        line = (str(error).splitlines() or [""])[0]
        return ["failed", f"{type(error).__name__}: {line[:300]}"]
    return [
        "equal",
        *(
            f"{row['kind']}:{_HOST if row['where'] == 'host' else _DEVICE}"
            for row in compiled.explain()
        ),
    ]


def _summary(done: dict[_Network, list[str]]) -> int:
    places = Counter(
        word.rpartition(":")[2]
        for result in done.values()
        if result[0] == "equal"
        for word in result[1:]
    )
    failed = [(key, result) for key, result in done.items() if result[0] != "equal"]
    for (kind, seed), result in failed:
        print(f"{kind} {seed}: {' '.join(result[1:])}")
    print(
        f"{len(done) - len(failed)} of {len(done)} networks equal; {places[_DEVICE]} operators on "
        f"the device, {places[_HOST]} on the host"
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
