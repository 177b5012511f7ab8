# SPDX-License-Identifier: Apache-2.0
"""Small models made by hand, for the tests of everything after the compiler.

In:   a device configuration.
Out:  `copy_model` (one LOAD, one STORE), `dense_model` (pack, matrix product, unpack): an
      Artifact with what it computes.
Next: artifact/test_format.py, runtime/test_device.py, tests/c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loadstone.artifact import host_step
from loadstone.artifact.content import ModelEntry
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    LayerRange,
    MemoryRegion,
    ProgramStep,
    RegionKind,
    ViewLayout,
)
from loadstone.backend.device import ProgramDevice
from loadstone.numerics import Rounding, quantize_multiplier, rq, shift_lane
from loadstone.vta.device.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.codec import (
    Alu,
    Config,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    decode_stream,
    encode_stream,
    encode_uops,
)
from loadstone.vta.isa.spec import INSN_BYTES, AluOp, Capability, ConfigRegister, Memory, Stage

__all__ = [
    "INTEGER_DEVICES",
    "Dense",
    "copy_model",
    "dense_model",
    "endless_model",
    "entries_model",
    "state_model",
    "stored_twice_model",
    "with_host_memory",
]

Int8Array = npt.NDArray[np.int8]

#: The devices that dense_model is for: those of bfloat16 are in test_real_networks.py.
INTEGER_DEVICES = [name for name in device_names() if not load_config(name).is_float]


def copy_model(config: HwConfig | None = None) -> Artifact:
    """y = x of 16 int8: the smallest sound model. x goes through ACC and a shift by 0, on any
    device with ACC_8BIT."""
    config = config or load_config("vtaq-1x16x16")
    tile = config.tile_bytes(Memory.OUT)
    uops = encode_uops(np.zeros((1, 3), np.int64), config).tobytes().ljust(64, b"\0")
    program = [
        Load(memory_id=Memory.UOP, region=0, y_size=1, x_size=1, x_stride=1),
        Load(memory_id=Memory.ACC_8BIT, region=1, y_size=1, x_size=1, x_stride=1),
        Alu(
            uop_bgn=0,
            uop_end=1,
            iter_out=1,
            iter_in=1,
            alu_op=AluOp.ADD,
            use_imm=1,
            imm=0,
            push_next=1,
        ),
        Store(
            memory_id=Memory.OUT, region=2, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1
        ),
        Finish(pop_next=1),
    ]
    return Artifact(
        name="copy",
        devices=(ProgramDevice.of(config),),
        samples=1,
        regions=(
            MemoryRegion(
                "micro-ops", RegionKind.CONSTANTS, len(uops), 256, device_reads=True, data=uops
            ),
            MemoryRegion("in", RegionKind.INPUT, 64, 64, device_reads=True),
            MemoryRegion("out", RegionKind.OUTPUT, 64, 64, device_writes=True),
        ),
        tensors=(
            BufferView("x", (1, tile), DataType.INT8, 1, 0, 0.5, 3),
            BufferView("y", (1, tile), DataType.INT8, 2, 0, 0.5, 3),
        ),
        inputs=(0,),
        outputs=(1,),
        steps=(
            ProgramStep(
                "copy",
                encode_stream(program, config).tobytes(),
                (LayerRange("copy", 0, len(program)),),
            ),
        ),
    )


def stored_twice_model() -> Artifact:
    """copy_model, whose layer `kept` stores to tile 5 of INP before `copy` stores to DRAM."""
    base = load_config("vtaq2-1x16x16")
    config = replace(base, capabilities=base.capabilities | Capability.STORE_INP)
    model = copy_model(config)
    (program,) = model.programs
    insns = list(decode_stream(program.instructions, config))
    to_inp = Store(memory_id=Memory.INP, dram_base=5, y_size=1, x_size=1, pop_prev=1)
    insns[3:4] = [to_inp, insns[3].changed(pop_prev=0)]
    layers = (LayerRange("kept", 0, 4), LayerRange("copy", 4, 2))
    changed = replace(program, instructions=encode_stream(insns, config).tobytes(), layers=layers)
    return replace(model, steps=(changed,))


def with_fingerprint(model: Artifact, fingerprint: bytes) -> Artifact:
    """The same for another device 0."""
    own = replace(model.devices[0], fingerprint=fingerprint)
    return replace(model, devices=(own, *model.devices[1:]))


def endless_model(config: HwConfig | None = None) -> Artifact:
    """copy_model with one sound instruction more, which takes the simulator many minutes."""
    config = config or load_config("vtaq-1x16x16")
    model = copy_model(config)
    (step,) = model.steps
    assert isinstance(step, ProgramStep)
    count = 2048
    uops = replace(model.regions[0], size_bytes=4 * count, data=bytes(4 * count))
    load = Load(memory_id=Memory.UOP, region=0, y_size=1, x_size=count, x_stride=count)
    loop = Alu(uop_end=count, iter_out=16383, iter_in=16383, alu_op=AluOp.ADD, use_imm=1)
    old = [
        step.instructions[at : at + INSN_BYTES]
        for at in range(0, len(step.instructions), INSN_BYTES)
    ]
    new = [encode_stream([insn], config).tobytes() for insn in (load, loop)]
    stream = b"".join([new[0], old[1], new[1], *old[2:]])
    layers = (LayerRange("endless", 0, len(old) + 1),)
    return replace(
        model,
        name="endless",
        regions=(uops, *model.regions[1:]),
        steps=(ProgramStep("endless", stream, layers),),
    )


def state_model(begin: bytes = b"") -> Artifact:
    """y = what the run before got as x, at first `begin` or zeros; the sum of nothing."""
    model = copy_model()
    last = BufferView("last", (1, 16), DataType.INT8, len(model.regions), 0)
    shift = [
        host_step.copy("give", 2, 1, [16], host_step.Strided([1]), host_step.Strided([1])),
        host_step.copy("keep", 0, 2, [16], host_step.Strided([1]), host_step.Strided([1])),
    ]
    region = MemoryRegion("state", RegionKind.STATE, 16, 64, data=begin)
    regions, tensors = (*model.regions, region), (*model.tensors, last)
    return replace(model, regions=regions, tensors=tensors, steps=tuple(shift))


def entries_model() -> Artifact:
    """Three entries that share a state of 16 int8, at first 0 to 15: `give`, whose output is the
    state; `keep`, whose input becomes it; `both`, which does the one and then the other."""
    model = state_model(bytes(range(16)))
    give, keep = model.steps
    return replace(
        model,
        inputs=(0, 0),
        outputs=(1, 1),
        steps=(give, keep, give, keep),
        entries=(
            ModelEntry("give", 1, 0, 1),
            ModelEntry("keep", 1, 1, 0),
            ModelEntry("both", 2, 1, 1),
        ),
    )


@dataclass(frozen=True)
class Dense:
    """A model y = f(x @ weights.T) with what it computes: f is RQ on a device that has it, else a
    shift and a clamp."""

    artifact: Artifact
    weights: Int8Array
    bias: npt.NDArray[np.int32]
    multiplier: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]

    def expected(self, x: Int8Array) -> Int8Array:
        """x: (samples, 1, inputs)."""
        acc = x.astype(np.int32) @ self.weights.T.astype(np.int32)
        if self.bias.size == 0:
            return np.clip(acc >> SHIFT, -128, 127).astype(np.int8)
        y = rq(
            acc,
            self.bias,
            self.multiplier,
            self.shift,
            zero_point=-7,
            low=-120,
            high=119,
            rounding=Rounding.DOUBLE,
        )
        return y.astype(np.int8)


SHIFT = 6


def dense_model(config: HwConfig, page_bytes: int = 4096) -> Dense:
    """A matrix product from 1.5 to 4 blocks of channels: pack, GEMM, RQ or SHR/MIN/MAX, unpack. Any
    device. page_bytes: where micro-ops begin behind the constants."""
    random = np.random.default_rng(1)
    block, batch, blocks_in, blocks_out = config.block, config.batch, 2, 4
    inputs, outputs = block + block // 2, blocks_out * block
    weights = random.integers(-128, 128, (outputs, inputs), np.int8)
    padded = np.zeros((outputs, blocks_in * block), np.int8)
    padded[:, :inputs] = weights
    tiles = padded.reshape(blocks_out, block, blocks_in, block).transpose(0, 2, 1, 3)
    has_rq = config.has(Capability.REQUANTIZE)
    bias = random.integers(-20000, 20000, outputs if has_rq else 0).astype(np.int32)
    multiplier, shift = quantize_multiplier(random.uniform(0.001, 0.01, bias.size))
    lanes = np.stack(
        [v.reshape(-1, 1, block) for v in (bias, multiplier, shift_lane(shift))], axis=1
    )
    operands = (
        np.broadcast_to(lanes.reshape(-1, 3, 1, block), (bias.size // block, 3, batch, block))
        .astype("<i4")
        .tobytes()
    )

    constants = tiles.tobytes() + operands
    uop_offset = -(-len(constants) // page_bytes) * page_bytes
    uops = encode_uops(np.array([[0, 0, 0], [0, blocks_out, 0]]), config).tobytes()
    constants = constants.ljust(uop_offset, b"\0") + uops
    tail = _requantize(config, blocks_out, tiles.size) if has_rq else _shift_and_clamp(blocks_out)
    program = [
        Load(memory_id=Memory.INP, region=1, y_size=1, x_size=blocks_in, x_stride=blocks_in),
        Load(
            memory_id=Memory.WGT,
            region=0,
            y_size=1,
            x_size=tiles.shape[0] * blocks_in,
            x_stride=1,
            push_next=1,
        ),
        Load(
            memory_id=Memory.UOP,
            region=0,
            dram_base=uop_offset // 4,
            y_size=1,
            x_size=2,
            x_stride=2,
        ),
        Gemm(reset=1, uop_bgn=0, uop_end=1, iter_out=blocks_out, iter_in=1, dst_out=1, pop_prev=1),
        Gemm(
            uop_bgn=0,
            uop_end=1,
            iter_out=blocks_out,
            iter_in=blocks_in,
            dst_out=1,
            src_in=1,
            wgt_out=blocks_in,
            wgt_in=1,
        ),
        *tail,
        Store(
            memory_id=Memory.OUT,
            region=2,
            y_size=1,
            x_size=blocks_out,
            x_stride=1,
            pop_prev=1,
            push_prev=1,
        ),
        Finish(pop_next=1),
    ]
    io_bytes = batch * max(blocks_in, blocks_out) * block
    artifact = Artifact(
        name="dense",
        devices=(ProgramDevice.of(config),),
        samples=batch,
        regions=(
            MemoryRegion(
                "constants",
                RegionKind.CONSTANTS,
                len(constants),
                4096,
                device_reads=True,
                data=constants,
            ),
            MemoryRegion("packed", RegionKind.ARENA, io_bytes, 4096, device_reads=True),
            MemoryRegion("result", RegionKind.ARENA, io_bytes, 4096, device_writes=True),
            MemoryRegion("host", RegionKind.HOST, 2 * io_bytes, 16),
        ),
        tensors=(
            BufferView("x", (batch, inputs), DataType.INT8, 3, 0),
            BufferView(
                "x.packed",
                (batch, 1, 1, inputs),
                DataType.INT8,
                1,
                0,
                0.0,
                0,
                ViewLayout.BLOCKED,
                batch,
                block,
            ),
            BufferView(
                "y.packed",
                (batch, 1, 1, outputs),
                DataType.INT8,
                2,
                0,
                0.0,
                0,
                ViewLayout.BLOCKED,
                batch,
                block,
            ),
            BufferView("y", (batch, outputs), DataType.INT8, 3, io_bytes),
        ),
        inputs=(0,),
        outputs=(3,),
        steps=(
            host_step.pack("pack", 0, 1, (1, 1, inputs)),
            ProgramStep(
                "dense",
                encode_stream(program, config).tobytes(),
                (LayerRange("dense", 0, len(program)),),
            ),
            host_step.unpack("unpack", 2, 3),
        ),
    )
    return Dense(artifact, weights, bias, multiplier, shift_lane(shift))


def _requantize(config: HwConfig, blocks: int, constants_bytes: int) -> list[Insn]:
    first = constants_bytes // config.tile_bytes(Memory.ACC)
    settings = {
        ConfigRegister.RQ_ZERO_POINT: -7,
        ConfigRegister.RQ_MIN: -120,
        ConfigRegister.RQ_MAX: 119,
    }
    return [
        Load(
            memory_id=Memory.ACC,
            region=0,
            sram_base=blocks,
            dram_base=first,
            y_size=1,
            x_size=3 * blocks,
            x_stride=1,
        ),
        *(
            Config(stage=Stage.COMPUTE, register_id=register, value=value)
            for register, value in settings.items()
        ),
        Alu(
            uop_bgn=1,
            uop_end=2,
            iter_out=blocks,
            iter_in=1,
            dst_out=1,
            src_out=3,
            alu_op=AluOp.RQ,
            push_next=1,
        ),
    ]


def _shift_and_clamp(blocks: int) -> list[Insn]:
    def immediate(op: AluOp, value: int, push: int = 0) -> Insn:
        loops = {
            "uop_bgn": 0,
            "uop_end": 1,
            "iter_out": blocks,
            "iter_in": 1,
            "dst_out": 1,
            "src_out": 1,
        }
        return Alu(**loops, alu_op=op, use_imm=1, imm=value, push_next=push)

    return [
        immediate(AluOp.SHR, SHIFT),
        immediate(AluOp.MIN, 127),
        immediate(AluOp.MAX, -128, push=1),
    ]


def with_host_memory(model: Artifact, pieces: list[tuple[int, int]]) -> Artifact:
    """The model with regions of the host's own: (size_bytes, align_bytes) each."""
    regions = [
        MemoryRegion(f"host {k}", RegionKind.HOST, size, align)
        for k, (size, align) in enumerate(pieces)
    ]
    return replace(model, regions=(*model.regions, *regions))
