# SPDX-License-Identifier: Apache-2.0
"""A sweep as a Parquet file: one row for each device, option and network.

In:   a Sweep.
Out:  bytes: the same for the same sweep, with any workers and in any order.
Next: pandas, DuckDB or another program; commands/sweep.py.

Rows are sorted by the space's order and then by network. Columns: the varied keys, by their own
names; the figures of evaluate.py; `device_json`, which `loadstone compile --target` accepts as a
file; `layers`, JSON with a list for each layer.
"""

from __future__ import annotations

import io
import json

from loadstone.files import JsonObject, JsonValue
from loadstone.search.evaluate import LAYER_FIELDS
from loadstone.search.plugin_device import device_file
from loadstone.search.sweep import Sweep

__all__ = ["FIGURES", "parquet_bytes", "table_rows"]

#: Columns behind those of the space, and their types.
FIGURES = {
    "model": "string",
    "feasible": "bool",
    "why": "string",
    "pareto": "bool",
    "samples_per_run": "int64",
    "cycles": "int64",
    "us": "double",
    "host_us": "double",
    "energy_uj": "double",
    "energy_multipliers_uj": "double",
    "energy_alu_uj": "double",
    "energy_scratchpads_uj": "double",
    "energy_dram_uj": "double",
    "energy_clock_uj": "double",
    "area_mm2": "double",
    "area_multipliers_mm2": "double",
    "area_alu_mm2": "double",
    "area_scratchpads_mm2": "double",
    "area_registers_mm2": "double",
    "area_queues_mm2": "double",
    "clock_limit_mhz": "double",
    "dram_read_bytes": "int64",
    "dram_write_bytes": "int64",
    "macs": "int64",
    "utilisation": "double",
    "instructions": "int64",
    "constants_bytes": "int64",
    "arena_bytes": "int64",
    "operators": "int64",
    "operators_on_host": "int64",
    "accuracy": "double",
    "layers": "string",
    "device_json": "string",
}


def table_rows(sweep: Sweep) -> list[JsonObject]:
    """As dicts, sorted."""
    front = {candidate.point for candidate in sweep.front()}
    rows = []
    for candidate in sweep.candidates:
        for model, row in zip(sweep.networks, candidate.rows, strict=True):
            rows.append(
                {
                    "device": candidate.name,
                    **candidate.settings,
                    **row,
                    "model": model,
                    "pareto": candidate.point in front,
                    "layers": json.dumps(_layers(row.get("layers", []))),
                    "device_json": json.dumps(device_file(candidate.device)),
                }
            )
    return rows


def _layers(layers: JsonValue) -> list[JsonObject]:
    return [dict(zip(LAYER_FIELDS, layer, strict=True)) for layer in layers]


def parquet_bytes(sweep: Sweep) -> bytes:
    """The file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = table_rows(sweep)
    kinds = {"string": pa.string(), "bool": pa.bool_(), "int64": pa.int64(), "double": pa.float64()}
    axes = {axis.name: _kind(axis.values) for axis in sweep.space.axes}
    columns = {"device": "string", **axes, **FIGURES}
    table = pa.table(
        {
            name: pa.array([_cell(row.get(name), kind) for row in rows], kinds[kind])
            for name, kind in columns.items()
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def _kind(values: tuple[JsonValue, ...]) -> str:
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return "int64" if whole else "string"


def _cell(value: JsonValue, kind: str) -> JsonValue:
    if kind != "string" or value is None or isinstance(value, str):
        return value
    return json.dumps(value)
