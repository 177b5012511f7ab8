# SPDX-License-Identifier: Apache-2.0
"""How long a stream of a million instructions takes to encode and to decode.

In:   random instructions of all kinds.
Out:  seconds; the limit is one second each.
Next: `make bench` prints it.
"""

from __future__ import annotations

import time

import numpy as np

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from tests.random_insns import random_stream

COUNT = 1_000_000
LIMIT_SECONDS = 1.0


def run() -> bool:
    """Prints both times; whether both are under the limit."""
    config = load_config("vtaq-1x16x16")
    stream = random_stream(config, COUNT, seed=0)
    start = time.perf_counter()
    encoded = encode_stream(stream, config)
    encode_seconds = time.perf_counter() - start
    start = time.perf_counter()
    decoded = decode_stream(encoded, config)
    decode_seconds = time.perf_counter() - start
    assert np.array_equal(encode_stream(decoded, config), encoded)
    print(
        f"{COUNT} instructions: encode {encode_seconds:.3f} s, decode {decode_seconds:.3f} s "
        f"(limit {LIMIT_SECONDS} s each)"
    )
    return encode_seconds < LIMIT_SECONDS and decode_seconds < LIMIT_SECONDS
