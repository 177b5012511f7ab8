# SPDX-License-Identifier: Apache-2.0
"""VTA's instructions, executed on symbols.

In:   a program's instructions in their order, DRAM of symbols.
Out:  DRAM as the program leaves it; what each instruction touched (tokens.py).
Next: proof.py asks whether the outputs are the network's.

A read of what nobody wrote, and what the device does not have, is NotProved: such a program
has no meaning. Whether the order of the stream is that of every run is tokens.py's question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.alu_lanes import by_lanes, by_numbers
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.memory import NOBODY, SymbolDram
from loadstone.prove.products import products
from loadstone.prove.requantized_lanes import rq_parameters
from loadstone.prove.runs import runs
from loadstone.prove.steps import Taps, sums, windows
from loadstone.prove.terms import Terms
from loadstone.prove.tokens import CellAccess
from loadstone.prove.values import CENTRE, CONSTANTS, RADIUS, Values
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_uops
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.packed_weights import expanded
from loadstone.vta.isa.spec import (
    SCRATCHPAD_OF,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Stage,
    initial_registers,
)
from loadstone.vta.isa.weight_planes import decoded_rows, rows_of_tile

__all__ = ["SymbolMachine"]


class SymbolMachine:
    """One device, for one program: scratchpads hold nothing at its beginning."""

    def __init__(self, values: Values, config: HwConfig, dram: SymbolDram) -> None:
        self.values, self.config, self.dram = values, config, dram
        tile = config.batch * config.block
        self._tile = np.arange(tile)
        depth = config.depth(Memory.ACC)
        self.uop = np.full((config.depth(Memory.UOP), 3), NOBODY)
        self.inp = np.full((config.depth(Memory.INP), config.batch, config.block), NOBODY)
        self.wgt = np.zeros((config.depth(Memory.WGT), config.block, config.block), np.int8)
        self.wgt_symbols = np.zeros(self.wgt.shape, np.int64)
        self.wgt_known, self.wgt_varies = np.zeros((2, config.depth(Memory.WGT)), bool)
        self.lanes = SymbolLanes(values, depth * tile)
        self.known = np.zeros(depth, bool)
        # VTA's STORE reads what a product or an ALU operation put out, and not what a LOAD left.
        self.put_out = np.zeros(depth, bool)
        self.registers = initial_registers()
        self.steps = 0

    def run(self, instruction: Insn, number: int) -> CellAccess:
        """Executes one; what it touched. number: names it as a writer."""
        for what, capability in instruction.needs():
            # Regions of a device without them are the whole memory, relocated by the runtime.
            if capability != Capability.REGIONS and not self.config.has(capability):
                raise NotProved(
                    f"{what} needs {str(capability.name).lower()}, which the device lacks"
                )
        match instruction:
            case Load():
                return self._load(instruction)
            case Store():
                return self._store(instruction, number)
            case Gemm() | Depthwise():
                return self._multiply(instruction)
            case Alu():
                return self._alu(instruction)
            case Config():
                self._config(instruction)
            case _:
                assert isinstance(instruction, Finish), instruction
        return CellAccess()

    def _config(self, i: Config) -> None:
        if i.stage not in set(Stage) or i.register_id not in set(ConfigRegister):
            raise NotProved(f"CONFIG of register {i.register_id} of stage {i.stage}, which is none")
        name = Stage(i.stage), ConfigRegister(i.register_id)
        if name not in self.registers:
            raise NotProved(f"CONFIG of {name[1].name}, which stage {name[0].name} has not")
        self.registers[name] = i.value

    # --- transfers --------------------------------------------------------------------------------
    def _tiles(self, i: Load | Store, memory: Memory) -> tuple[Integers, Integers]:
        """Tiles [rows, tiles] of a transfer behind its first, and the bytes of each in DRAM [...,
        bytes]."""
        tiles = np.arange(i.dram_rows)[:, None] * i.x_stride + np.arange(i.x_size)
        size, first = self.config.tile_bytes(memory), i.dram_base * self.config.base_bytes(memory)
        return tiles, first + tiles[..., None] * size + np.arange(size)

    def _load(self, i: Load) -> CellAccess:
        if i.is_noop:
            return CellAccess()
        if i.memory_id not in set(Memory) or i.memory_id == Memory.OUT:
            raise NotProved(f"LOAD of memory {i.memory_id}, which is none")
        memory = Memory(i.memory_id)
        rows, width = i.y_pad_0 + i.dram_rows + i.y_pad_1, i.x_pad_0 + i.x_size + i.x_pad_1
        end = i.sram_base + i.places(self.config.filled_tiles(memory))
        if i.misfit():
            raise NotProved(i.misfit())
        if end > self.config.depth(memory):
            raise NotProved(f"LOAD leaves {memory.name}: tile {end - 1}")
        _, place = self._tiles(i, memory)
        held = self.dram.read(i.region, place, "LOAD")
        stage = {Memory.INP: Stage.LOAD, Memory.ACC_8BIT: Stage.COMPUTE}.get(memory)
        pad = 0 if stage is None else self.registers[stage, ConfigRegister.PAD_VALUE] & 255
        tiles = np.full((rows, width, place.shape[-1]), pad)
        inner = slice(i.y_pad_0, i.y_pad_0 + i.y_size), slice(i.x_pad_0, i.x_pad_0 + i.x_size)
        tiles[inner] = held
        if (tiles < NOBODY).any():
            raise Unsupported("LOAD of levels of uint8, which the device reads as int8")
        self._fill(memory, slice(i.sram_base, end), tiles.reshape(-1, place.shape[-1]))
        space = SCRATCHPAD_OF[memory]
        access = CellAccess(writes=[(space.name, np.arange(i.sram_base, end))])
        if not self.dram.is_constant(i.region):
            access.reads.append((f"region {i.region}", self._cells(place)))
        return access

    def _cells(self, place: Integers) -> Integers:
        """Bytes of DRAM [..., bytes], of which each row is one range, as cells of a tile of OUT:
        one byte of each, and the last of the range, which need not begin where a cell does."""
        size = self.config.tile_bytes(Memory.OUT)
        looked_at = np.append(place[..., ::size].reshape(-1), place[..., -1])
        return np.unique(looked_at // size)

    def _fill(self, memory: Memory, at: slice, tiles: Integers) -> None:
        """tiles: [tiles, bytes] of symbols."""
        if memory == Memory.INP:
            self.inp[at] = tiles.reshape(-1, *self.inp.shape[1:])
            return
        if (tiles == NOBODY).any():
            raise NotProved(f"LOAD {memory.name} of bytes that nobody wrote")
        if memory == Memory.ACC_8BIT:
            self._written(np.arange(at.start, at.stop))
            lanes = np.arange(at.start * len(self._tile), at.stop * len(self._tile))
            self.lanes.put_symbols(lanes, tiles.reshape(-1))
            return
        if memory == Memory.WGT:
            self.wgt_symbols[at] = tiles.reshape(-1, *self.wgt.shape[1:])
            self.wgt_varies[at] = (tiles >= CONSTANTS).any(1)
        elif (tiles >= CONSTANTS).any():
            raise Unsupported(f"LOAD {memory.name} of activations")
        raw = tiles.astype(np.uint8)
        if memory == Memory.WGT_4BIT:
            raw = expanded(raw, self.config.block).view(np.uint8)
            self.wgt_symbols[at], self.wgt_varies[at] = raw, False
        if memory == Memory.WGT_PLANES:
            wanted = (at.stop - at.start) * rows_of_tile(self.config.block)
            found = decoded_rows(raw, wanted)
            if len(found) < wanted:
                raise NotProved("LOAD of WGT_PLANES whose code has fewer tiles than it says")
            raw = found.view(np.uint8).reshape(-1, *self.wgt.shape[1:])
            self.wgt_symbols[at], self.wgt_varies[at] = raw, False
        if memory == Memory.UOP:
            self.uop[at] = decode_uops(raw, self.config)
        elif SCRATCHPAD_OF[memory] == Memory.WGT:
            self.wgt[at] = raw.view(np.int8).reshape(-1, *self.wgt.shape[1:])
            self.wgt_known[at] = True
        else:
            self._written(np.arange(at.start, at.stop))
            numbers = np.ascontiguousarray(raw).view("<i4").astype(np.int64).reshape(-1)
            lanes = np.arange(at.start * len(self._tile), at.stop * len(self._tile))
            self.lanes.put_numbers(lanes, numbers)

    def _written(self, tiles: Integers) -> None:
        self.known[tiles], self.put_out[tiles] = True, False

    def _store(self, i: Store, number: int) -> CellAccess:
        if i.is_noop:
            return CellAccess()
        if i.is_whole:
            raise Unsupported("STORE of whole accumulators, which are symbols of four bytes")
        if i.memory_id not in (Memory.OUT, Memory.INP):
            raise NotProved("STORE of another memory than OUT, and not to INP")
        end = i.sram_base + i.y_size * i.x_size
        there = self.known if i.requantize else self.put_out
        if end > len(self.known) or not there[i.sram_base : end].all():
            raise NotProved("STORE of tiles that no product and no ALU operation put out")
        tiles, place = self._tiles(i, Memory.OUT)
        lanes = np.arange(i.sram_base * len(self._tile), end * len(self._tile))
        read = [np.arange(i.sram_base, end)]
        if i.requantize:
            rows = np.repeat(np.arange(i.y_size), i.x_size)
            src = i.operands + (3 * rows if i.operand_step else 0 * rows)
            read.append(np.unique(src[:, None] + np.arange(3)))
            if read[1].max(initial=0) >= len(self.known) or not self.known[read[1]].all():
                raise NotProved("STORE requantizes by tiles that nobody wrote")
            by = self._operands(Stage.STORE, src)
            sources, functions = self.lanes.stepped(lanes, FunctionKind.RQ, by)
        else:
            sources, functions = self.lanes.resolve(lanes)
        symbols = functions & 255
        varies = sources >= 0
        if self.values.is_unknown(sources[varies]).any():
            raise NotProved("STORE of what is made of several sums, none of them the network's")
        symbols[varies] = self.values.stored(sources[varies], functions[varies])
        if i.to_inp:
            written = self._store_to_inp(i, i.dram_base + tiles, symbols)
        else:
            self.dram.write(i.region, place.reshape(-1), symbols, "STORE", number)
            written = f"region {i.region}", self._cells(place)
        reads = [("ACC", cells) for cells in read]
        return CellAccess(reads, [written], symbols.astype(np.int32))

    def _store_to_inp(self, i: Store, tiles: Integers, symbols: Integers) -> tuple[str, Integers]:
        """tiles: [rows, tiles] of INP; of rows that overlap the last stays. What it wrote."""
        if i.region or tiles.max() >= len(self.inp):
            raise NotProved(f"STORE leaves INP: region {i.region}, tile {tiles.max()}")
        for row, held in zip(tiles, symbols.reshape(*tiles.shape, -1), strict=True):
            self.inp[row] = held.reshape(-1, *self.inp.shape[1:])
        return Memory.INP.name, np.unique(tiles)

    # --- loops ------------------------------------------------------------------------------------
    def _indices(self, i: Gemm | Depthwise | Alu) -> Integers:
        """dst, src, wgt of all steps, in their order: (3, steps)."""
        if not 0 <= i.uop_bgn <= i.uop_end <= len(self.uop):
            raise NotProved(f"micro-op {i.uop_end - 1} of {len(self.uop)}")
        used = self.uop[i.uop_bgn : i.uop_end]
        if (used < 0).any():
            raise NotProved("a micro-op that nobody loaded")
        wgt = getattr(i, "wgt_out", 0), getattr(i, "wgt_in", 0)
        outer, inner = np.array([(i.dst_out, i.dst_in), (i.src_out, i.src_in), wgt]).T
        turns = np.arange(i.iter_out)[:, None, None, None] * outer
        turns = turns + np.arange(i.iter_in)[:, None, None] * inner
        self.steps += i.steps
        return np.ascontiguousarray((turns + used).reshape(-1, 3).T)

    def _lanes_of(self, tiles: Integers) -> Integers:
        return (tiles[:, None] * len(self._tile) + self._tile).reshape(-1)

    def _multiply(self, i: Gemm | Depthwise) -> CellAccess:
        (dst, src, wgt), name = self._indices(i), i.SPEC.name
        if not len(dst):
            return CellAccess()
        if dst.max() >= len(self.known):
            raise NotProved(f"{name} leaves ACC: tile {dst.max()}")
        touched = np.unique(dst)
        if isinstance(i, Gemm) and i.reset:
            self._written(touched)
            self.lanes.put_numbers(self._lanes_of(touched), 0)
            return CellAccess(writes=[("ACC", touched)])
        taps = Taps.of(i, self.config.block)
        inputs, weights = np.unique(src[:, None] + taps.tiles), np.unique(wgt)
        if inputs.max() >= len(self.inp) or wgt.max() >= len(self.wgt):
            raise NotProved(f"{name} leaves INP or WGT: tiles {inputs.max()}, {wgt.max()}")
        if not self.wgt_known[weights].all() or (self.inp[inputs] == NOBODY).any():
            raise NotProved(f"{name} reads tiles that nobody wrote")
        if i.overwrite:
            _, last = np.unique(dst[::-1], return_index=True)
            keep = len(dst) - 1 - last
            dst, src, wgt = dst[keep], src[keep], wgt[keep]
            self.known[touched] = True
            self.lanes.put_numbers(self._lanes_of(touched), 0)
        elif not self.known[touched].all():
            raise NotProved(f"{name} adds to tiles that nobody wrote")
        self.put_out[touched] = True
        self.lanes.linear(self._lanes_of(touched))
        if isinstance(i, Gemm):
            for part in sums(dst, src, wgt, self.inp.shape[1:]):
                self._product(*part)
        else:
            self._windows(taps, dst, src, wgt)
        return CellAccess([("INP", inputs), ("WGT", weights)], [("ACC", touched)])

    def _windows(self, taps: Taps, dst: Integers, src: Integers, wgt: Integers) -> None:
        for to, of, tile in windows(dst, src, wgt, len(taps.tiles) * len(self._tile)):
            if self.wgt_varies[tile]:
                raise Unsupported("DEPTHWISE by activations")
            symbols = self._symbols(of[:, None] + taps.tiles)
            self._linear(self._lanes_of(to), symbols, taps.matrix(self.wgt[tile]))

    def _symbols(self, tiles: Integers) -> Integers:
        """Of each row of tiles (n, m): (n * batch, m * block)."""
        rows = len(tiles) * self.config.batch
        return self.inp[tiles].transpose(0, 2, 1, 3).reshape(rows, -1)

    def _product(self, dst: Integers, src: Integers, tiles: Integers) -> None:
        """Adds to tiles dst (n,) the products of tiles src (n, m) with weight tiles (m,)."""
        symbols, lanes = self._symbols(src), self._lanes_of(dst)
        if self.wgt_varies[tiles].any():
            self._product_of_two(lanes, symbols, tiles)
            return
        weights = self.wgt[tiles].transpose(1, 0, 2).reshape(self.config.block, -1)
        self._linear(lanes, symbols, weights.astype(np.float64))

    def _linear(self, lanes: Integers, symbols: Integers, weights: NDArray[np.float64]) -> None:
        """Adds to lanes (n * outputs,) what weights (outputs, inputs) make of symbols (n,
        inputs)."""
        values = self.values
        varies = symbols >= CONSTANTS
        internal = np.zeros(symbols.shape, bool)
        internal[varies] = values.is_internal(symbols[varies])
        shape = lanes.reshape(len(symbols), -1)
        if internal.any():
            reads = internal.astype(np.float32) @ (weights != 0).T.astype(np.float32) > 0
            self.lanes.settle(shape[reads])
        columns = values.columns(symbols)
        totals = np.matmul(columns[:RADIUS], weights.T).reshape(RADIUS, -1)
        radius = np.matmul(columns[RADIUS], np.abs(weights).T).reshape(-1)
        low, high = ((totals[CENTRE] + sign * radius).astype(np.int64) >> 1 for sign in (-1, 1))
        self.lanes.add_products(lanes, totals[:CENTRE].astype(np.int64), low, high)
        self._name(self.lanes.digits, shape, symbols, internal, weights)
        self._name(self.lanes.named, shape, symbols, varies & ~internal, weights)

    def _product_of_two(self, lanes: Integers, symbols: Integers, tiles: Integers) -> None:
        """Adds to lanes (n * outputs,) products of symbols (n, inputs) with tiles of symbols."""
        others = self.wgt_symbols[tiles].transpose(1, 0, 2).reshape(self.config.block, -1)
        for held in (symbols, others):
            if self.values.is_internal(held[held >= CONSTANTS]).any():
                raise Unsupported("GEMM of activations with what is no element of the network")
        totals, constant, low, high = products(self.values, symbols, others)
        flat = np.concatenate([totals, constant[None]]).reshape(len(totals) + 1, -1)
        low, high = ((end - constant).reshape(-1) for end in (low, high))
        self.lanes.add_products(lanes, flat, low, high)
        self.lanes.named.count[lanes] = self.lanes.named.slots + 1

    def _name(
        self,
        terms: Terms,
        lanes: Integers,
        symbols: Integers,
        wanted: NDArray[np.bool_],
        weights: NDArray[np.float64],
    ) -> None:
        """Keeps the terms of lanes (n, outputs) that are wanted of symbols (n, inputs)."""
        if not wanted.any():
            return
        used = weights != 0
        count = wanted.astype(np.float32) @ used.T.astype(np.float32)
        terms.count[lanes[count > terms.slots]] = terms.slots + 1
        few = (count > 0) & (count <= terms.slots) & (terms.count[lanes] <= terms.slots)
        row, output = np.nonzero(few)
        if not len(row):
            return
        which, column = np.nonzero(wanted[row] & used[output])
        at = lanes[row, output][which]
        coefficients = weights[output[which], column].astype(np.int64) << self.lanes.s[at]
        terms.add(at, symbols[row[which], column], coefficients)

    # --- ALU --------------------------------------------------------------------------------------
    def _alu(self, i: Alu) -> CellAccess:
        if i.reset or i.alu_op not in set(AluOp):
            raise NotProved(f"ALU with reset={i.reset}, alu_op={i.alu_op}")
        operation = AluOp(i.alu_op)
        dst, src, _ = self._indices(i)
        if not len(dst):
            return CellAccess()
        operands = 3 if operation == AluOp.RQ else 0 if i.use_imm else 1
        last = max(int(dst.max()), int(src.max()) + operands - 1 if operands else 0)
        if last >= len(self.known):
            raise NotProved(f"ALU leaves ACC: tile {last}")
        read = np.unique(src[:, None] + np.arange(operands))
        touched = np.unique(dst)
        if not (self.known[touched].all() and self.known[read].all()):
            raise NotProved("ALU reads tiles that nobody wrote")
        for run in runs(dst, src, operands):
            self._operate(operation, dst[run], src[run], i)
        self.put_out[touched] = True
        return CellAccess(reads=[("ACC", read)], writes=[("ACC", touched)])

    def _operate(self, operation: AluOp, dst: Integers, src: Integers, i: Alu) -> None:
        lanes = self._lanes_of(dst)
        if operation == AluOp.RQ:
            self.lanes.step(lanes, FunctionKind.RQ, self._operands(Stage.COMPUTE, src))
            return
        if i.use_imm:
            by_numbers(self.lanes, operation, lanes, np.full(len(lanes), int(i.imm)))
            return
        others = self._lanes_of(src)
        fixed = self.lanes.is_number(others)
        numbers = self.lanes.numbers(others[fixed])
        if not fixed.all():
            by_lanes(self.lanes, operation, lanes[~fixed], others[~fixed])
        if fixed.any():
            by_numbers(self.lanes, operation, lanes[fixed], numbers)

    def _operands(self, stage: Stage, src: Integers) -> Integers:
        """Of the lanes of tiles that a stage requantizes, the parameters: (lanes, 7). src (tiles,):
        where their operands stand."""
        operands = [self._lanes_of(src + k) for k in range(3)]
        return rq_parameters(self.lanes, operands, self.registers, stage)
