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

from loadstone.errors import ConfigError, suggestion
from loadstone.passes.compiler_pass import CompilerPass, numbered, relax_pass, stage

__all__ = ["PASSES", "STAGES", "CompilerPass", "pass_named"]

PASSES = numbered(
    *stage(
        "frontend",
        (
            "import",
            "frontend",
            "reads a model file and writes it as Relax, as the importer of its format does",
            "a .tflite, .onnx, .pt2 or .gguf file, or a module in memory",
            "Relax whose calls have the names of the file; what is not understood is refused",
        ),
        relax_pass(
            "single", "frontend.half", "computes float16 in float32", "Relax of an importer"
        ),
        relax_pass(
            "ranks",
            "frontend.ranks",
            "makes images of sequences, and convolutions of transposed convolutions",
            "no float16 but at inputs and outputs",
        ),
        relax_pass(
            "layout",
            "frontend.layout",
            "turns convolutions and pools to channels last, and moves the transposes outwards",
            "convolutions and pools have two spatial axes",
        ),
        relax_pass(
            "canonical",
            "frontend.canonical",
            "brings every way to say quantization into one: int8 between quantize and dequantize",
            "channels last",
        ),
        relax_pass(
            "tables",
            "frontend.tables",
            "makes a lookup table of what is computed between a dequantize and a quantize alone",
            "the QDQ form",
        ),
        relax_pass(
            "products",
            "frontend.products",
            "turns matrix products whose constant stands on the left",
            "the QDQ form",
        ),
        relax_pass(
            "wide",
            "frontend.wide",
            "makes int8 layers of layers whose activations have 16 bits, where that is exact",
            "the QDQ form",
        ),
        relax_pass(
            "names",
            "frontend.names",
            "gives outputs the names that the model's file has, and drops what nobody reads",
            "the QDQ form",
        ),
    ),
    *stage(
        "quantization",
        relax_pass(
            "fold",
            "quantization.fold",
            "folds batch normalization and constants into convolutions and dense layers",
            "a float module in canonical form",
        ),
        (
            "equalize",
            "quantization.equalize",
            "scales the channels of a tensor to similar ranges; kept where the outputs gain by it",
            "a folded float network, and the ranges of its channels",
            "on a sample the network computes what it did",
            "quantization.verify.verify_equalized",
        ),
        (
            "calibrate",
            "quantization.calibrate",
            "runs the float network on the samples, and records the range of every tensor",
            "a float network",
            "each histogram counts all values of its tensors, and its range contains 0",
            "quantization.verify.verify_calibration",
        ),
        (
            "scales",
            "quantization.plan",
            "chooses a scale for every tensor, by the method and among those of the scheme",
            "ranges of all tensors",
            "every quantized tensor and weight has a scale of the scheme; biases fit 32 bits",
            "quantization.verify.verify_scales",
        ),
        (
            "round_weights",
            "quantization.rounding",
            "rounds weights such that their errors compensate each other",
            "scales; the covariances of the layers' inputs",
            "weights are integers of 8 bits; nothing else of the plan has changed",
            "quantization.verify.verify_rounded",
        ),
        (
            "correct_biases",
            "quantization.rounding",
            "corrects biases by the mean error that rounding has left",
            "a plan; the means of the layers' inputs",
            "biases are finite and fit the accumulator; nothing else of the plan has changed",
            "quantization.verify.verify_corrected",
        ),
        (
            "keep_on_host",
            "quantization.mixed",
            "leaves the layers that lose most on the host, as far as its cycles are allowed",
            "a plan; the sensitivity of each layer",
            "only layers that a device could compute stay; nothing else of the plan has changed",
            "quantization.verify.verify_host",
        ),
        relax_pass(
            "rewrite",
            "quantization.rewrite",
            "writes the chosen scales, repaired weights and biases as QDQ",
            "a folded float module; a plan with a scale for every tensor that is quantized",
        ),
    ),
    *stage(
        "partition",
        relax_pass(
            "relax_passes",
            "backend.scope",
            "writes scales of rows as the runtime has them; runs the back ends' passes (RELAX)",
            "the QDQ form",
        ),
        relax_pass(
            "composites",
            "partition.composites",
            "makes a composite function of every match that a back end or the host takes",
            "the QDQ form",
        ),
        relax_pass(
            "composite_passes",
            "backend.scope",
            "runs the back ends' own passes on composite functions (Phase.COMPOSITE)",
            "Relax with composite functions",
        ),
        (
            "graph",
            "partition.fused_graph",
            "makes the network of integers: an operator of graph/ for each composite function",
            "Relax with composite functions",
            "operators in execution order, each reading what is there (Graph asserts it when made)",
        ),
        (
            "segments",
            "partition.segments",
            "divides the network into runs of operators that one back end takes together",
            "a place for every operator",
            "every operator of a back end in one of its segments; the order can be executed",
            "partition.segments.verify_segments",
        ),
        (
            "graph_passes",
            "partition.network_pass",
            "runs the back ends' own passes on the network (Phase.GRAPH), and places what is new",
            "a network in segments",
            "the network's inputs and outputs stay (a pass that changes them is refused)",
        ),
        (
            "batch",
            "graph.batching",
            "gives the network, made for one sample, the batch of the device",
            "samples do not meet in any operator (one that mixes them is refused)",
            "the same operators, each for all samples of a run",
        ),
    ),
    *stage(
        "operator",
        (
            "fold_columns",
            "vta.region.fold_pixels",
            "folds neighbouring columns of images into channels, where that is faster (VTA)",
            "the operators of one region",
            "the same operators in the same order; tensors seen from outside have their shapes",
            "vta.region.fold_pixels.verify_columns",
        ),
        (
            "computation",
            "vta.schedule",
            "says an operator as loops over tiles, without any memory (VTA)",
            "an operator's integers, and the tile that the cost model or a tuned file chooses",
            "nests of instructions on whole tensors",
        ),
        (
            "schedule",
            "ir_pass.pipeline",
            "runs a back end's own passes on an operator in TensorIR (Phase.TENSOR_IR)",
            "TensorIR with blocks, by TVM's primitives, or loops, by ir_pass/to_tir.py",
            "the same",
        ),
        (
            "loops",
            "ir_pass.pipeline",
            "lowers blocks to loops over compact buffers (TVM's passes, then Phase.LOOPS)",
            "TensorIR of one operator",
            "loops, no blocks",
        ),
        (
            "nests",
            "ir_pass.from_tir",
            "reads TensorIR as nests over tiles",
            "loops around perfect nests, each of one store (anything else is refused)",
            "nests of instructions, with all of their copies or without any",
        ),
        (
            "insert_dma_copy",
            "ir_pass.insert_dma_copy",
            "inserts the copies between DRAM and the scratchpads, and the allocations",
            "nests in which no tensor has a memory",
            "every operand stands where its instruction reads it, and is what it was",
            "ir_pass.verify_dma_copy.verify_dma_copy",
        ),
        (
            "copies",
            "ir_pass.pipeline",
            "runs a back end's own passes on TensorIR with copies (Phase.COPIES)",
            "every operand stands where its instruction reads it",
            "the same (the reader refuses what stands elsewhere)",
        ),
        (
            "match_instructions",
            "selection.match_instructions",
            "finds which instructions of a table mean what the nests say",
            "nests with copies; instructions whose meanings the table gives",
            "instructions that name tiles; replayed by their meanings, they do what the nests say",
            "selection.verify_match.verify_match",
        ),
        (
            "operations",
            "vta.operators",
            "unrolls an operator's kernels into operations on virtual tiles (VTA)",
            "nests with copies",
            "operations on DRAM tensors and virtual tiles: tile by tile what the nests say",
            "vta.kernels.verify.verify_kernel",
        ),
    ),
    *stage(
        "memory",
        (
            "memory_plan",
            "artifact.memory_layout",
            "gives every tensor and constant a place; tensors that never live together share bytes",
            "regions that say which layouts they touch, and from when to when",
            "tensors that are alive together share no byte of the arena or of the host's memory",
            "artifact.memory_layout.verify_memory",
        ),
    ),
    *stage(
        "program",
        (
            "skip_pads",
            "vta.passes.skip_pads.skip_pads",
            "leaves out products with tiles of zeros",
            "operations on virtual tiles",
            "nothing but steps of products that read zeros is gone, and nothing is new",
            "vta.passes.skip_pads.skip_pads.SkipPads.verify",
        ),
        (
            "store_requantize",
            "vta.passes.store_requantize.store_requantize",
            "requantizes what is only stored on its way to DRAM, where the device can",
            "operations on virtual tiles",
            "every tile of DRAM gets what it got, and all else reads what it read",
            "vta.passes.store_requantize.store_requantize.StoreRequantize.verify",
        ),
        (
            "weave",
            "vta.passes.weave",
            "lets layers of a chain take turns, so that what one makes is read soon",
            "operations on virtual tiles",
            "every product reads what it read, and others find in DRAM what they found",
            "vta.passes.weave.Weave.verify",
        ),
        (
            "store_inp",
            "vta.passes.store_inp.store_inp",
            "stores to INP what the next layer reads from there, where the device can",
            "operations on virtual tiles",
            "every product reads what it read, and others find in DRAM what they found",
            "vta.passes.store_inp.store_inp.StoreInp.verify",
        ),
        (
            "prefetch",
            "vta.passes.prefetch",
            "moves loads of weights forward, to where the load stage would wait",
            "operations on virtual tiles",
            "only loads of weights moved, forward, in their own order",
            "vta.passes.prefetch.Prefetch.verify",
        ),
        (
            "allocate",
            "vta.passes.allocate.allocate",
            "gives virtual tiles scratchpad addresses; leaves out loads of what is still there",
            "operations on virtual tiles",
            "whatever an operation reads is, in program order, what its tile should hold",
            "vta.passes.allocate.allocate.Allocate.verify",
        ),
        (
            "encode",
            "vta.passes.encode.encode",
            "makes instructions and micro-ops of operations",
            "operations with scratchpad addresses",
            "every instruction fits its fields and the device, and finds its micro-ops",
            "vta.passes.encode.encode.Encode.verify",
        ),
        (
            "synchronize",
            "vta.passes.synchronize.synchronize",
            "sets tokens that order the stages wherever they touch the same memory",
            "instructions in program order",
            "every hazard between stages is ordered, and no queue of tokens overflows",
            "vta.passes.synchronize.synchronize.Synchronize.verify",
        ),
    ),
    *stage(
        "table",
        (
            "rows",
            "isa.tiled",
            "gives the tiles that instructions name rows of the accelerator's memories",
            "instructions of a table, with tiles",
            "instructions with rows; each finds there what it found in its tiles",
            "isa.verify_rows.verify_rows",
        ),
        (
            "tokens",
            "isa.program_tokens",
            "sets the tokens of an accelerator whose units are ordered by queues",
            "instructions in program order",
            "every hazard between units is ordered, and no queue overflows",
            "isa.program_tokens.prove_tokens",
        ),
        (
            "code",
            "isa.codec",
            "makes bytes of instructions; addresses become relocations",
            "instructions with rows and tokens",
            "the bytes decode to the same instructions",
            "backend.program.verify_code",
        ),
    ),
    *stage(
        "artifact",
        (
            "steps",
            "artifact.deploy",
            "puts device programs and steps of the host in order: pack, run, unpack",
            "programs, and a place for everything",
            "the C runtime validates every program and builds every step (else it is refused)",
        ),
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
