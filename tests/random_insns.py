# SPDX-License-Identifier: Apache-2.0
"""Instructions of every kind with random and boundary values, for the tests of everything that
handles bits.

In:   a device.
Out:  `any_insn`: a hypothesis strategy of single instructions; `random_stream`: many at once, as
      columns.
Next: vta/isa/test_codec.py, vta/isa/test_asm.py, tools/isa/test_main.py, tests/bench.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import Stream
from loadstone.vta.isa.insn import CLASSES, KINDS, Insn
from loadstone.vta.isa.spec import BitField, Opcode, layout

#: Devices whose layouts differ: the default, a batch, a wide block, every width small, and one that
#: is no built-in device.
CONFIGS = [
    *(load_config(name) for name in ("vta-pynq", "vtaq-4x16x16", "vtaq-1x32x32", "vtaq-tiny")),
    load_config(
        {
            "name": "odd",
            "LOG_INP_WIDTH": 3,
            "LOG_WGT_WIDTH": 3,
            "LOG_ACC_WIDTH": 5,
            "LOG_BATCH": 1,
            "LOG_BLOCK": 3,
            "LOG_UOP_BUFF_SIZE": 12,
            "LOG_INP_BUFF_SIZE": 18,
            "LOG_WGT_BUFF_SIZE": 13,
            "LOG_ACC_BUFF_SIZE": 14,
        }
    ),
]


def any_insn(config: HwConfig) -> st.SearchStrategy[Insn]:
    """Any instruction that decodes on the device, its unused fields included."""
    return st.one_of([_of_kind(opcode, config) for opcode in Opcode])


def _of_kind(opcode: Opcode, config: HwConfig) -> st.SearchStrategy[Insn]:
    places = layout(KINDS[opcode].fields, config.widths)
    return st.builds(
        CLASSES[opcode],
        **{name: _value(place) for name, place in places.items() if name != "opcode"},
    )


def _value(place: BitField) -> st.SearchStrategy[int]:
    if place.field.enum is not None:
        return st.sampled_from(place.field.enum)
    # small values are what programs hold, and where the text has its short forms
    return st.one_of(
        st.integers(0, min(2, place.high)),
        st.integers(place.low, place.high),
        st.sampled_from([place.low, place.high]),
    )


def random_stream(
    config: HwConfig, count: int, seed: int, kinds: tuple[Opcode, ...] = tuple(Opcode)
) -> Stream:
    """`count` instructions, the kinds in turn; a fourth of the values of each field lie on its
    limits."""
    rng = np.random.default_rng(seed)
    opcode = np.resize(np.array(kinds, np.uint8), count)
    index = {op: np.flatnonzero(opcode == op) for op in Opcode}
    columns = {}
    for op, rows in index.items():
        places = layout(KINDS[op].fields, config.widths)
        columns[op] = {
            name: _values(place, rows.size, rng)
            for name, place in places.items()
            if name != "opcode"
        }
    return Stream(opcode, index, columns)


def _values(place: BitField, count: int, rng: np.random.Generator) -> np.ndarray:
    if place.field.enum is not None:
        return rng.choice(np.array([int(e) for e in place.field.enum]), count)
    inside = rng.integers(place.low, place.high, count, np.int64, endpoint=True)
    limits = rng.choice(np.array([place.low, place.high]), count)
    return np.where(rng.random(count) < 0.25, limits, inside)
