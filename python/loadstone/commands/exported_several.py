# SPDX-License-Identifier: Apache-2.0
"""Several networks in one firmware: one device and one schedule (runtime/include/lds_schedule.h).

In:   artifacts for one device by their files; priorities, periods.
Out:  SharedModel, each with its name in C; the files that only such a project has.
Next: export.py writes them beside the files of each; boards/several/main.c runs them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.commands.exported_names import TAKEN, UNNAMED
from loadstone.commands.times import times_ns
from loadstone.errors import ArtifactError, ConfigError
from loadstone.printable import c_string
from loadstone.runtime.footprint import pool_bytes
from loadstone.runtime.schedule import isolated_scratch_bytes, why_not_isolated

__all__ = ["POOL_BLOCKS", "SharedModel", "own_file", "own_sample", "several_files", "shared_models"]

#: Entries of the pool's table that a session needs: 8 regions, the stream, some to spare.
POOL_BLOCKS = 12
#: Headers of C and of the project, which a model's must not hide.
_HEADERS = (
    *("networks", "device", "float", "limits", "stdarg", "stdbool", "stddef", "stdint"),
    *("stdio", "stdlib", "string"),
)
_MOST_PRIORITY = (1 << 32) - 1


@dataclass(frozen=True)
class SharedModel:
    """One of them. name: in C. sample: of its first input, or None. period_ns: 0: released once."""

    name: str
    artifact: Artifact
    sample: bytes | None
    priority: int
    period_ns: int


def shared_models(
    paths: Sequence[str],
    artifacts: Sequence[Artifact],
    samples: Sequence[bytes | None],
    priorities: str | None,
    periods: str | None,
) -> list[SharedModel]:
    """priorities, periods: as on the command line; without them the first has the highest, and each
    runs once. Raises ArtifactError for models that cannot share one device, ConfigError for other
    words."""
    count = len(paths)
    every = [0] * count if periods is None else _whole(periods, count)
    orders = list(range(count, 0, -1)) if priorities is None else _priorities(priorities, count)
    names = _names(paths)
    first = artifacts[0]
    for path, artifact in zip(paths, artifacts, strict=True):
        if artifact.further:
            raise ArtifactError(
                f"{path}: it has programs of several devices, and networks of one firmware share "
                "one: compile it for one"
            )
        if artifact.fingerprint != first.fingerprint:
            raise ArtifactError(
                f"{path} was compiled for {artifact.device}, {paths[0]} for {first.device}: networks "
                "of one firmware share a device: compile them for one"
            )
        reason = why_not_isolated(artifact)
        if reason:
            raise ArtifactError(f"{path}, {reason}")
    made = zip(names, artifacts, samples, orders, every, strict=True)
    return [SharedModel(*each) for each in made]


def _whole(periods: str, count: int) -> list[int]:
    found = [int(each) for each in times_ns(periods, "--periods", count)]
    if min(found) == 0:
        raise ConfigError(f"--periods {periods}: a period is at least 1ns")
    if max(found) >= 1 << 63:
        raise ConfigError(f"--periods {periods}: a period is less than 2^63 ns, 292 years")
    return found


def _priorities(text: str, count: int) -> list[int]:
    words = text.split(",")
    if len(words) != count or not all(re.fullmatch("[0-9]{1,10}", word) for word in words):
        raise ConfigError(
            f"--priorities {text}: {count} whole numbers are wanted, one for each model, such as "
            f"{','.join(str(n) for n in range(count, 0, -1))}"
        )
    found = [int(word) for word in words]
    if max(found) > _MOST_PRIORITY:
        raise ConfigError(f"--priorities {text}: a priority is at most {_MOST_PRIORITY}")
    return found


def _names(paths: Sequence[str]) -> list[str]:
    """Of the files, as C has them."""
    found: dict[str, str] = {}
    for path in paths:
        name = re.sub(r"[^a-z0-9]+", "_", Path(path).stem.lower(), flags=re.ASCII).strip("_")[:36]
        if not re.match("[a-z]", name) or name in (*TAKEN, UNNAMED, *_HEADERS):
            name = f"net_{name}".rstrip("_")
        if name in found:
            raise ArtifactError(
                f"{found[name]} and {path} would both be {name} in C: rename one of the files"
            )
        found[name] = path
    return list(found)


# --- files ----------------------------------------------------------------------------------------
def own_file(path: str, name: str) -> str:
    """Where a file of steps stands, of which each model has its own."""
    file = PurePosixPath(path)
    return str(file.with_name(f"{name}_{file.name}")) if file.parent.name == "steps" else path


def own_sample(text: str, name: str) -> str:
    """A text in which the sample is the model's own."""
    return re.sub(r"\bsample(?=_bytes|\.bin)", f"{name}_sample", text)


def several_files(
    models: Sequence[SharedModel], files: Sequence[str], device: Device, align: int
) -> dict[str, str]:
    """By their paths. files: paths of what each model has. align: of the DMA memory, bytes."""
    return {"model.h": _header(models, align), "networks.c": _table(models, set(files), device)}


def _header(models: Sequence[SharedModel], align: int) -> str:
    first = models[0].name.upper()
    dma = sum(-(-pool_bytes(model.artifact) // align) * align for model in models)
    scratch = max(isolated_scratch_bytes(model.artifact) for model in models)
    includes = "".join(f'#include "{model.name}.h"\n' for model in models)
    same = ("REGISTERS", "REGISTER_BASE", "REGISTER_BYTES", "BUS_OFFSET", "CONFIG_HASH")
    device = "".join(f"#define MODEL_{what} {first}_{what}\n" for what in same)
    return f"""/* GENERATED by `loadstone export`: what the networks of the firmware share. */
#ifndef MODEL_H
#define MODEL_H

{includes}
{device}#ifndef MODEL_CLOCK_HZ /* -D gives your bitstream's, where that is another */
#define MODEL_CLOCK_HZ {first}_CLOCK_HZ
#endif
/* Of all. */
#define MODEL_DMA_BYTES {dma}u
#define MODEL_DMA_ALIGN {align}u
#define MODEL_POOL_BLOCKS {POOL_BLOCKS * len(models)}
#define NETWORKS {len(models)}
#define NETWORK_SCRATCH_BYTES {scratch}u

#endif /* MODEL_H */
"""


def _table(models: Sequence[SharedModel], files: set[str], device: Device) -> str:
    memory = "".join(
        f"static uint64_t {m.name}_session[({m.name.upper()}_SESSION_BYTES + 7) / 8];\n"
        for m in models
    )
    entries = "".join(f"    {{{_entry(model, files)}}},\n" for model in models)
    return f"""/* GENERATED by `loadstone export`: the networks that share {device.name}.
 *
 * In:   the header of each.
 * Out:  the table that networks.h declares: priorities and periods are here.
 * Next: main.c.
 */
#include "networks.h"

{memory}
const network networks[NETWORKS] = {{
{entries}}};
"""


def _entry(model: SharedModel, files: set[str]) -> str:
    name = model.name
    sample = [f"{name}_sample_bytes", f"{name}_sample_bytes_end"]
    return ", ".join(
        [
            *(c_string(name), f"{name}_bytes", f"{name}_bytes_end"),
            *(f"{name}_session", f"sizeof {name}_session", f"{name.upper()}_INPUTS"),
            *(sample if model.sample is not None else ["NULL", "NULL"]),
            *(f"{model.priority}u", f"{model.period_ns}ull"),
            f"&{name}_operators" if f"steps/{name}_operators.c" in files else "NULL",
            f"{name}_external" if f"steps/{name}_steps.c" in files else "NULL",
        ]
    )
