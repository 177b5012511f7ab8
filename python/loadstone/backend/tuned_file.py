# SPDX-License-Identifier: Apache-2.0
"""The file of `loadstone tune`: the schedules of a network on a device, and the cycles that they
save.

In:   a Tuned; or a file, and the back ends that use it.
Out:  the file, the same for the same search; or the ScheduleChoices in it.
Next: search/tune.py writes one, compiler.py follows it.

    {"format": "loadstone-tuned", "version": 1, "model": ..., "device": ..., "device_digest": ...,
     "default_cycles": 75024, "cycles": 71816, "choices": {key: record}, "layers": [rows]}

The back end defines keys and records (vta/schedule/choices.py); rows are for readers. A file for
another device or network is refused, because its choices need not be fast here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from loadstone.backend.interface import Backend
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.errors import ConfigError
from loadstone.files import JsonObject, parsed_json, read_whole, write_whole

__all__ = ["Tuned", "TunedLayer", "check_all_used", "read_tuned", "tuned_choices", "write_tuned"]

_FORMAT, _VERSION = "loadstone-tuned", 1


@dataclass(frozen=True)
class TunedLayer:
    """One layer in the whole network. bound_cycles: no order of its steps takes less; None where it
    was not tried alone. choice: its record."""

    name: str
    kind: str
    default_cycles: int
    cycles: int
    bound_cycles: int | None
    choice: JsonObject


@dataclass(frozen=True)
class Tuned:
    """What a search found. default_cycles, cycles: of one run of the whole network, without and
    with the choices. layers: in order."""

    model: str
    device: str
    device_digest: str
    default_cycles: int
    cycles: int
    choices: Mapping[str, JsonObject]
    layers: Sequence[TunedLayer] = ()
    seed: int = 0


def write_tuned(path: str | Path, tuned: Tuned) -> None:
    """Raises ConfigError when it cannot be written."""
    content = {"format": _FORMAT, "version": _VERSION, **asdict(tuned)}
    try:
        write_whole(path, json.dumps(content, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def read_tuned(path: str | Path) -> Tuned:
    """Its rows are left out. Raises ConfigError for what is no such file."""
    try:
        data = parsed_json(read_whole(path), str(path), ConfigError)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ConfigError(f"{path}: it is no file of `loadstone tune`: no format {_FORMAT!r}")
    if data.get("version") != _VERSION:
        raise ConfigError(
            f"{path}: version {data.get('version')!r} is not {_VERSION}: tune with this Loadstone"
        )
    choices = data.get("choices")
    if not isinstance(choices, dict) or not all(isinstance(x, dict) for x in choices.values()):
        raise ConfigError(f"{path}: choices: it is no object of records")
    texts = [data.get(name) for name in ("model", "device", "device_digest")]
    cycles = [data.get(name) for name in ("default_cycles", "cycles")]
    if not all(isinstance(text, str) for text in texts) or not all(
        type(count) is int for count in cycles
    ):
        raise ConfigError(f"{path}: model, device, device_digest or cycles are missing")
    model, device, digest = map(str, texts)
    default, best = (count for count in cycles if isinstance(count, int))
    return Tuned(model, device, digest, default, best, choices)


def tuned_choices(path: str | Path | None, backends: Sequence[Backend]) -> ScheduleChoices | None:
    """The file's choices; without a file None, and the cost model chooses. Raises ConfigError for
    a file of another device."""
    if path is None:
        return None
    tuned = read_tuned(path)
    if not set(tuned.device_digest.split("+")) <= {b.schedule_digest for b in backends}:
        names = [str(b.attributes.get("device", b.name)) for b in backends]
        raise ConfigError(
            f"{path}: tuned for device {tuned.device} ({tuned.device_digest}), not for "
            f"{', '.join(names)} as it is now: tune for the target"
        )
    return ScheduleChoices(tuned.choices)


def check_all_used(path: str | Path, choices: ScheduleChoices, model: str) -> None:
    """Once a network was compiled: raises ConfigError where it has not the layers that the file's
    choices are for."""
    if choices.unused:
        raise ConfigError(
            f"{path}: tuned for {read_tuned(path).model}: {len(choices.unused)} of its "
            f"{len(choices.records)} choices are for layers that {model} does not have: tune this "
            "model"
        )
