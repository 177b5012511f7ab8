"""Float networks to int8: from samples to the QDQ form that the frontends give.

In:   a float network in canonical form (frontend/), and samples with a leading axis.
Out:  a Quantized: the module in QDQ form, and the same as an ONNX file.
Next: partition.py; or ONNX Runtime, for the exported file. compiler.quantize_model begins with a model file.

    calibrate.py   statistics of every tensor over the samples
    scales.py      from statistics to scales, by method and scheme
    plan.py        every scale of the network
    rewrite.py     float -> QDQ
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__all__ = ["Quantized", "quantize"]


@dataclass(frozen=True)
class Quantized:
    """module: Relax in QDQ form. outputs: names for the exported file."""

    module: Any
    outputs: tuple[str, ...]

    def save(self, path: str | Path) -> None:
        """Standard QDQ ONNX."""
        from loadstone.quantize.export_onnx import export_onnx

        Path(path).write_bytes(export_onnx(self.module, self.outputs).SerializeToString())


def quantize(
    module: Any,
    samples: Mapping[str, NDArray[Any]] | NDArray[Any] | Sequence[NDArray[Any]],
    *,
    scheme: str = "affine",
    method: str = "minmax",
    show: bool = False,
) -> Quantized:
    """Calibrates with `samples` (a leading axis of samples, then the model's own shape) and quantizes.

    module: a float network in canonical form.
    scheme: affine (int8, zero points, a scale per output channel) or pow2 (every scale a power of two). method: minmax, percentile,
    mse or entropy. show: a progress bar. Raises ModelError for samples that do not fit, UnsupportedError for an operator.
    """
    from loadstone._tvm import result
    from loadstone.quantize.calibrate import calibrate
    from loadstone.quantize.fold import fold
    from loadstone.quantize.network import read_network
    from loadstone.quantize.plan import make_plan
    from loadstone.quantize.rewrite import rewrite
    from loadstone.quantize.samples import samples_from
    from loadstone.quantize.scales import SCHEMES
    from loadstone.quantize.simulate import Simulator

    network = read_network(fold(module))
    calibration = calibrate(Simulator(network), samples_from(samples, network.parameters), show=show)
    plan = make_plan(network, calibration.histograms, SCHEMES[scheme], method)
    rewritten = rewrite(network, plan)
    return Quantized(rewritten, tuple(f"out{k}" for k in range(len(result(rewritten["main"])))))
