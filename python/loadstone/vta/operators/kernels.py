# SPDX-License-Identifier: Apache-2.0
"""From a spec to operations: the part that every operator family shares.

In:   a spec (integers only), and the names of the DRAM tensors that it stands for.
Out:  `LoweredOperator`.
Next: __init__.py returns it to the back end.

    spec -> nests over tiles -> copies inserted -> operations
    \\______________ Kernel, cached by spec ______________/

Passes of a back end see the nests as TensorIR on the way (ir_pass/pipeline.py). Layers with the
same spec are lowered once (by the same passes); only the emission, which puts in names, runs for
each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.ir_pass.nest_text import printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import Passes, with_copies
from loadstone.numerics import Array
from loadstone.passes.log import PassLog, PassRun, checked, verified
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import PAD_TENSOR, Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.kernels.verify import verify_kernel
from loadstone.vta.operators import constants
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule import (
    bilinear,
    chain,
    conv,
    elementwise,
    matmul,
    max_pool,
    rescaled,
    select,
    window,
)
from loadstone.vta.schedule.bilinear import BilinearSpec
from loadstone.vta.schedule.chain import ChainSpec
from loadstone.vta.schedule.choices import ORDERS, LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.elementwise import ElementwiseSpec
from loadstone.vta.schedule.matmul import MatmulSpec
from loadstone.vta.schedule.max_pool import MaxPoolSpec
from loadstone.vta.schedule.rescaled_spec import RescaledSpec
from loadstone.vta.schedule.select import SelectSpec
from loadstone.vta.schedule.window import WindowSpec
from loadstone.vta.stream.cost import CostModel, cost_model
from loadstone.vta.stream.operations import DramTile, Operation
from loadstone.vta.stream.table import StreamColumns, columns_of

__all__ = [
    "IDENTITY",
    "PRODUCT_INPUT",
    "Constants",
    "LoweredOperator",
    "Spec",
    "chosen_tile",
    "emit",
    "joined",
]

Constants = Mapping[str, tuple[Memory, Array]]
Spec = (
    BilinearSpec
    | ChainSpec
    | ConvSpec
    | ElementwiseSpec
    | MatmulSpec
    | MaxPoolSpec
    | RescaledSpec
    | SelectSpec
    | WindowSpec
)
#: The weight tile that passes lanes through; one for all operators.
IDENTITY = "identity"
#: The input tile whose product with a tile of constants adds a value per channel.
PRODUCT_INPUT = "product.input"


@dataclass(frozen=True)
class LoweredOperator:
    """operations: on virtual tiles. constants: name -> (memory, tiles as they lie in DRAM).
    kernels: what it was lowered by. scratch: tensors in DRAM that it alone writes and reads, name
        -> tiles of INP. remark: makes what --explain says of it. placed: whether
        passes/allocate/allocate.py has found room for just these operations.

    Two constants of one name are the same, also between operators (identity and pad tiles).
    """

    operations: list[Operation]
    constants: Constants
    kernels: tuple[Kernel, ...] = ()
    scratch: Mapping[str, int] = field(default_factory=dict)
    remark: Callable[[], str] | None = None
    placed: bool = False
    #: Columns of the operations, where somebody has looked at them.
    known: StreamColumns | None = None

    @cached_property
    def columns(self) -> StreamColumns:
        """Of the operations."""
        return self.known or columns_of(self.operations)

    @property
    def is_verified(self) -> bool:
        """Whether the operations of its kernels were held against their nests; False where it has
        no kernels, of which there is nothing to verify."""
        return bool(self.kernels) and all(kernel.verified for kernel in self.kernels)

    def runs(self, name: str) -> list[PassRun]:
        """Of the passes that made its kernels. name: of the operator; those of the second kernel
        have the subject `name.kernel_2`."""
        return [
            replace(run, subject=f"{name}.kernel_{number}" if number > 1 else name)
            for number, kernel in enumerate(dict.fromkeys(self.kernels), start=1)
            for run in kernel.runs
        ]


def emit(
    spec: Spec,
    names: Mapping[str, str | DramTile],
    own: Constants,
    op: g.Operator,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """Runs the kernel of a spec. names: of its parameters in DRAM, or where in a tensor they begin.
    own: the operator's constants."""
    kernel = _kernel(_with_choice(spec, request.choice), config, request.passes, cost_model(config))
    emitter = Emitter(_sizes(op, own, config))
    places = [
        DramTile(place, 0) if isinstance(place, str) else place
        for place in (names[name] for name in kernel.parameters)
    ]
    kernel.emit(emitter, *places)
    shared: dict[str, tuple[Memory, Array]] = {}
    if any(place.tensor == IDENTITY for place in places):
        shared[IDENTITY] = (Memory.WGT, constants.identity_tile(config))
    if any(place.tensor == PRODUCT_INPUT for place in places):
        shared[PRODUCT_INPUT] = (Memory.INP, constants.product_input(config))
    for value in sorted(emitter.pad_values):
        shared[PAD_TENSOR.format(value)] = (Memory.INP, constants.pad_tile(value, config))
    return LoweredOperator(emitter.operations, {**own, **shared}, (kernel,))


def _with_choice(spec: Spec, choice: LayerChoice) -> Spec:
    """The spec with the tile that was chosen for its layer. Raises LoweringError for a tile of
    other loops."""
    if isinstance(spec, ConvSpec):
        return chosen_tile(spec, choice)
    if choice.tile is None or not isinstance(spec, ElementwiseSpec | ChainSpec):
        return spec
    fits = len(choice.tile) == len(spec.extents) and all(
        1 <= size <= extent for size, extent in zip(choice.tile, spec.extents, strict=True)
    )
    if not fits:
        raise LoweringError(f"tile: {list(choice.tile)} is no tile of {list(spec.extents)}")
    return replace(spec, chosen=choice.tile)


def chosen_tile(spec: ConvSpec, choice: LayerChoice) -> ConvSpec:
    """A convolution's spec with the tile that was chosen for its layer, where one was."""
    if choice.tile is None:
        return spec
    return replace(spec, chosen=(choice.tile, choice.order or ORDERS[0]))


def joined(parts: Sequence[LoweredOperator]) -> LoweredOperator:
    """One after the other, as one operator."""
    operations = [operation for part in parts for operation in part.operations]
    return LoweredOperator(
        operations,
        {name: tiles for part in parts for name, tiles in part.constants.items()},
        tuple(kernel for part in parts for kernel in part.kernels),
        {name: tiles for part in parts for name, tiles in part.scratch.items()},
    )


@lru_cache(maxsize=1024)
def _kernel(spec: Spec, config: HwConfig, passes: Passes, cost: CostModel) -> Kernel:
    """cost: what the schedule is chosen by, so that devices that differ in timing alone differ
    here."""
    log = PassLog(texts=True)
    computation = log.run("computation", partial(_written, config=config), spec, show=printed)
    function = with_copies(computation, memory_table(config), passes, log)
    kernel = kernel_of_nests(function, config)
    looked = verified()
    if looked:
        checked("operations", lambda: verify_kernel(kernel, function), function.name)
    return replace(kernel, runs=tuple(log.runs), verified=looked)


def _written(spec: Spec, config: HwConfig) -> Function:
    match spec:
        case BilinearSpec():
            return bilinear.schedule(spec, config)
        case ChainSpec():
            return chain.schedule(spec, config)
        case ConvSpec():
            return conv.schedule(spec, config)
        case ElementwiseSpec():
            return elementwise.schedule(spec, config)
        case MatmulSpec():
            return matmul.schedule(spec, config)
        case MaxPoolSpec():
            return max_pool.schedule(spec, config)
        case RescaledSpec():
            return rescaled.schedule(spec, config)
        case SelectSpec():
            return select.schedule(spec, config)
        case WindowSpec():
            return window.schedule(spec, config)


def _sizes(op: g.Operator, own: Constants, config: HwConfig) -> dict[str, int]:
    """Tiles of the DRAM tensors. The input is left out: the host may have folded it."""
    tensors = [tensor for tensor in (*op.inputs[1:], op.output) if len(tensor.shape) > 1]
    activations = {
        tensor.name: Blocked(tensor.shape, config.batch, config.block).size_tiles
        for tensor in tensors
    }
    return {**activations, **{name: len(tiles) for name, (_, tiles) in own.items()}}
