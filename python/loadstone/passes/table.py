# SPDX-License-Identifier: Apache-2.0
"""Every pass from the model's file to the artifact's bytes, in order. Read this first.

In:   nothing.
Out:  PASSES: for each pass its stage, its name, what it does, what must hold before and behind it,
      and who looks whether it does (`loadstone compile --verify`).
Next: log.py runs passes, by these names alone and in this order; dump.py shows what each made
      (`--dump`, `--dump-after NAME`); docs/passes.md is written from it (page.py).

A compile runs those that apply. Passes of the stages frontend, quantization, partition, memory and
artifact take the whole network; of operator one kernel, on any device; of program the operations of
one region on VTA, of table those of one on an accelerator that an instruction table describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loadstone.errors import ConfigError, suggestion

__all__ = ["PASSES", "STAGES", "CompilerPass", "pass_named"]


@dataclass(frozen=True)
class CompilerPass:
    """One line of the list.

    name: unique. module: the file that does it, inside the package. before, after: what must hold.
    verifier: the function that checks `after` by other means than the pass works with; empty where
        there is none.
    """

    stage: str
    name: str
    module: str
    does: str
    before: str
    after: str
    verifier: str = ""

    @property
    def number(self) -> int:
        """Its place in the list, from 1 on."""
        return PASSES.index(self) + 1

    @property
    def file_name(self) -> str:
        """What a dump's file begins with: place, stage and name, as in `12-partition-segments`."""
        return f"{self.number:02}-{self.stage}-{self.name}"


_WELL_FORMED = "relax.interface.verify_interface"
_SAME_MODEL = "well-formed Relax; inputs and outputs have the shapes and types that they had"

PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        "frontend",
        "import",
        "frontend",
        "reads a model file and writes it as Relax, as the importer of its format does",
        "a .tflite, .onnx or .pt2 file, or a module in memory",
        "Relax whose calls have the names of the file; what is not understood is refused",
    ),
    CompilerPass(
        "frontend",
        "single",
        "frontend.half",
        "computes float16 in float32",
        "Relax of an importer",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "ranks",
        "frontend.ranks",
        "makes images of sequences, and convolutions of transposed convolutions",
        "no float16 but at inputs and outputs",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "layout",
        "frontend.layout",
        "turns convolutions and pools to channels last, and moves the transposes outwards",
        "convolutions and pools have two spatial axes",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "canonical",
        "frontend.canonical",
        "brings every way to say quantization into one: int8 between quantize and dequantize",
        "channels last",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "tables",
        "frontend.tables",
        "makes a lookup table of what is computed between a dequantize and a quantize alone",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "products",
        "frontend.products",
        "turns matrix products whose constant stands on the left",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "wide",
        "frontend.wide",
        "makes int8 layers of layers whose activations have 16 bits, where that is exact",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "frontend",
        "names",
        "frontend.names",
        "gives outputs the names that the model's file has for them, and drops what nobody reads",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "quantization",
        "fold",
        "quantization.fold",
        "folds batch normalization and constants into convolutions and dense layers",
        "a float module in canonical form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "quantization",
        "rewrite",
        "quantization.rewrite",
        "writes the chosen scales, repaired weights and biases as QDQ",
        "a folded float module; a plan with a scale for every tensor that is quantized",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "partition",
        "relax_passes",
        "backend.scope",
        "runs the back ends' own passes on Relax (Phase.RELAX)",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "partition",
        "composites",
        "partition.composites",
        "makes a composite function of every match that a back end or the host takes",
        "the QDQ form",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "partition",
        "composite_passes",
        "backend.scope",
        "runs the back ends' own passes on composite functions (Phase.COMPOSITE)",
        "Relax with composite functions",
        _SAME_MODEL,
        _WELL_FORMED,
    ),
    CompilerPass(
        "partition",
        "graph",
        "partition.fused_graph",
        "makes the network of integers: an operator of graph/ for each composite function",
        "Relax with composite functions",
        "operators in execution order, each reading what is there (Graph asserts it when made)",
    ),
    CompilerPass(
        "partition",
        "segments",
        "partition.segments",
        "divides the network into runs of operators that one back end takes together",
        "a place for every operator",
        "every operator of a back end in one segment of that back end; the order can be executed",
        "partition.segments.verify_segments",
    ),
    CompilerPass(
        "partition",
        "graph_passes",
        "partition.network_pass",
        "runs the back ends' own passes on the network (Phase.GRAPH), and places what is new",
        "a network in segments",
        "the network's inputs and outputs stay (a pass that changes them is refused)",
    ),
    CompilerPass(
        "partition",
        "batch",
        "graph.batching",
        "gives the network, made for one sample, the batch of the device",
        "samples do not meet in any operator (one that mixes them is refused)",
        "the same operators, each for all samples of a run",
    ),
    CompilerPass(
        "operator",
        "fold_columns",
        "vta.region.fold_pixels",
        "folds neighbouring columns of images into channels, where that takes fewer cycles (VTA)",
        "the operators of one region",
        "the same operators in the same order; tensors seen from outside have their shapes",
        "vta.region.fold_pixels.verify_columns",
    ),
    CompilerPass(
        "operator",
        "computation",
        "vta.schedule",
        "says an operator as loops over tiles, without any memory (VTA)",
        "an operator's integers, and the tile that the cost model or a tuned file chooses",
        "nests of instructions on whole tensors",
    ),
    CompilerPass(
        "operator",
        "schedule",
        "ir_pass.pipeline",
        "runs a back end's own passes on an operator in TensorIR (Phase.TENSOR_IR)",
        "TensorIR with blocks, by TVM's primitives, or loops, by ir_pass/to_tir.py",
        "the same",
    ),
    CompilerPass(
        "operator",
        "loops",
        "ir_pass.pipeline",
        "lowers blocks to loops over compact buffers (TVM's passes, then Phase.LOOPS)",
        "TensorIR of one operator",
        "loops, no blocks",
    ),
    CompilerPass(
        "operator",
        "nests",
        "ir_pass.from_tir",
        "reads TensorIR as nests over tiles",
        "loops around perfect nests, each of one store (anything else is refused)",
        "nests of instructions, with all of their copies or without any",
    ),
    CompilerPass(
        "operator",
        "insert_dma_copy",
        "ir_pass.insert_dma_copy",
        "inserts the copies between DRAM and the scratchpads, and the allocations",
        "nests in which no tensor has a memory",
        "every operand stands where its instruction reads it, and is what it was",
        "ir_pass.verify_dma_copy.verify_dma_copy",
    ),
    CompilerPass(
        "operator",
        "copies",
        "ir_pass.pipeline",
        "runs a back end's own passes on TensorIR with copies (Phase.COPIES), and reads it back",
        "every operand stands where its instruction reads it",
        "the same (the reader refuses what stands elsewhere)",
    ),
    CompilerPass(
        "operator",
        "operations",
        "vta.operators",
        "unrolls an operator's kernels into operations on virtual tiles (VTA)",
        "nests with copies",
        "operations on DRAM tensors and virtual tiles: tile by tile what the nests say",
        "vta.kernels.verify.verify_kernel",
    ),
    CompilerPass(
        "memory",
        "memory_plan",
        "artifact.memory_layout",
        "gives every tensor and constant a place; tensors that never live together share bytes",
        "regions that say which layouts they touch, and from when to when",
        "tensors that are alive together share no byte of the arena or of the host's memory",
        "artifact.memory_layout.verify_memory",
    ),
    CompilerPass(
        "program",
        "skip_pads",
        "vta.passes.skip_pads.skip_pads",
        "leaves out products with tiles of zeros",
        "operations on virtual tiles",
        "nothing but steps of products that read zeros is gone, and nothing is new",
        "vta.passes.skip_pads.skip_pads.SkipPads.verify",
    ),
    CompilerPass(
        "program",
        "prefetch",
        "vta.passes.prefetch",
        "moves loads of weights forward, to where the load stage would wait",
        "operations on virtual tiles",
        "only loads of weights moved, forward, in their own order",
        "vta.passes.prefetch.Prefetch.verify",
    ),
    CompilerPass(
        "program",
        "allocate",
        "vta.passes.allocate.allocate",
        "gives virtual tiles scratchpad addresses; leaves out loads of what is still there",
        "operations on virtual tiles",
        "whatever an operation reads is, in program order, what its tile should hold",
        "vta.passes.allocate.allocate.Allocate.verify",
    ),
    CompilerPass(
        "program",
        "encode",
        "vta.passes.encode.encode",
        "makes instructions and micro-ops of operations",
        "operations with scratchpad addresses",
        "every instruction fits its fields and the device, and finds its micro-ops",
        "vta.passes.encode.encode.Encode.verify",
    ),
    CompilerPass(
        "program",
        "synchronize",
        "vta.passes.synchronize.synchronize",
        "sets tokens that order the stages wherever they touch the same memory",
        "instructions in program order",
        "every hazard between stages is ordered, and no queue of tokens overflows",
        "vta.passes.synchronize.synchronize.Synchronize.verify",
    ),
    CompilerPass(
        "table",
        "rows",
        "isa.tiled",
        "gives the tiles that instructions name rows of the accelerator's memories",
        "instructions of a table, with tiles",
        "instructions with rows; fields inside their limits",
        "isa.codec.check_fields",
    ),
    CompilerPass(
        "table",
        "tokens",
        "isa.program_tokens",
        "sets the tokens of an accelerator whose units are ordered by queues",
        "instructions in program order",
        "every hazard between units is ordered, and no queue overflows",
        "isa.program_tokens.prove_tokens",
    ),
    CompilerPass(
        "table",
        "code",
        "isa.codec",
        "makes bytes of instructions; addresses become relocations",
        "instructions with rows and tokens",
        "the bytes decode to the same instructions",
        "backend.program.verify_code",
    ),
    CompilerPass(
        "artifact",
        "steps",
        "artifact.deploy",
        "puts device programs and steps of the host in order: pack, run, unpack",
        "programs, and a place for everything",
        "the C runtime validates every program and builds every step (else the model is refused)",
    ),
)

STAGES = tuple(dict.fromkeys(entry.stage for entry in PASSES))
_BY_NAME = {entry.name: entry for entry in PASSES}


def pass_named(name: str, option: str = "pass") -> CompilerPass:
    """The pass of that name. Raises ConfigError with the nearest one, or all. option: what the name
    was given for.

    >>> pass_named("allocate").stage
    'program'
    >>> pass_named("alocate", "--dump-after")
    Traceback (most recent call last):
    loadstone.errors.ConfigError: --dump-after alocate: no such pass; did you mean allocate?
    """
    if name not in _BY_NAME:
        near = suggestion(name, _BY_NAME) or f": the passes are {_listed(_BY_NAME)}"
        raise ConfigError(f"{option} {name}: no such pass{near}")
    return _BY_NAME[name]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
