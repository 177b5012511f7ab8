"""Small models made by hand, for the tests of everything after the compiler.

In:   a device configuration.
Out:  `copy_model` (one LOAD, one STORE), `dense_model` (pack, matrix product with RQ, unpack, softmax): Artifacts, with what they compute.
Next: test_artifact.py, test_device.py, tests/c.
"""

from __future__ import annotations

import numpy as np

from loadstone.artifact import Artifact, DataType, DeviceProgram, Layer, Region, RegionKind, Tensor
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import Alu, Finish, Load, Store, encode_stream, encode_uops
from loadstone.vta.isa.spec import AluOp, Memory

__all__ = ["copy_model"]


def copy_model(config: HwConfig | None = None) -> Artifact:
    """y = x of 16 int8: the smallest sound model. x goes through ACC and a shift by 0, on any device with ACC_8BIT."""
    config = config or load_config("vtaq-1x16x16")
    tile = config.tile_bytes(Memory.OUT)
    uops = encode_uops(np.zeros((1, 3), np.int64), config).tobytes().ljust(64, b"\0")
    program = [
        Load(memory_id=Memory.UOP, region=0, y_size=1, x_size=1, x_stride=1),
        Load(memory_id=Memory.ACC_8BIT, region=1, y_size=1, x_size=1, x_stride=1),
        Alu(uop_bgn=0, uop_end=1, iter_out=1, iter_in=1, alu_op=AluOp.ADD, use_imm=1, imm=0, push_next=1),
        Store(memory_id=Memory.OUT, region=2, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1),
        Finish(pop_next=1),
    ]
    return Artifact(
        name="copy",
        device=config.name,
        fingerprint=config.fingerprint(),
        samples=1,
        regions=(
            Region("micro-ops", RegionKind.CONSTANTS, len(uops), 256, device_reads=True, data=uops),
            Region("in", RegionKind.INPUT, 64, 64, device_reads=True),
            Region("out", RegionKind.OUTPUT, 64, 64, device_writes=True),
        ),
        tensors=(Tensor("x", (1, tile), DataType.INT8, 1, 0, 0.5, 3), Tensor("y", (1, tile), DataType.INT8, 2, 0, 0.5, 3)),
        inputs=(0,),
        outputs=(1,),
        steps=(DeviceProgram("copy", encode_stream(program, config).tobytes(), (Layer("copy", 0, len(program)),)),),
    )
