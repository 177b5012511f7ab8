# SPDX-License-Identifier: Apache-2.0
"""The ways from a network in PyTorch to a compiled one, each with what the quantized model gives.

In:   a network (torch.nn.Module), samples.
Out:  WAYS: a name -> Exported: what compile() takes, and the results of the quantized model itself:
      ONNX Runtime without optimizations, PyTorch, or LiteRT's reference kernels.
Next: cells.py compiles them.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from numpy.typing import NDArray

from tests.matrix.as_tflite import written
from tests.onnx_builder import session
from tests.tflite_builder import interpreter, invoke, run

__all__ = ["WAYS", "Exported", "quietly"]

Array = NDArray[Any]
Samples = Sequence[Any]
#: Of torch.onnx.export and of quantize_static with a scale per channel.
OPSET = 18
#: Of the signal, in the TFLite way: 15 dB.
MOST_NOISE = 10**-1.5


@dataclass(frozen=True)
class Exported:
    """model: what compile() takes. samples: to quantize it with, where it is float. reference: what
    the quantized model gives for an input; None where Loadstone's quantizer makes it, whose file
    says it."""

    model: Any
    samples: Array | None = None
    reference: Callable[[Array], list[Array]] | None = None


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Exporters talk a lot."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _program(network: Any, samples: Samples) -> Any:
    return torch.export.export(network, (samples[0],))


def _arrays(samples: Samples) -> Array:
    return np.stack([sample.numpy() for sample in samples])


def _exported(network: Any, samples: Samples) -> Exported:
    """torch.export, quantized by Loadstone."""
    return Exported(_program(network, samples), _arrays(samples))


def onnx_file(network: Any, samples: Samples, folder: Path, *, new: bool) -> Path:
    """By the exporter of today, or the one before it."""
    path = folder / "network.onnx"
    more = {"opset_version": OPSET} if new else {"opset_version": 17, "do_constant_folding": True}
    torch.onnx.export(network, (samples[0],), str(path), dynamo=new, **more)
    return path


def _onnx(network: Any, samples: Samples, folder: Path) -> Exported:
    return Exported(onnx_file(network, samples, folder, new=True), _arrays(samples))


def _onnx_legacy(network: Any, samples: Samples, folder: Path) -> Exported:
    return Exported(onnx_file(network, samples, folder, new=False), _arrays(samples))


def _pt2e(network: Any, samples: Samples, quantizer: Any) -> Exported:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(_program(network, samples).module(), quantizer)
    for sample in samples:
        prepared(sample)
    converted = convert_pt2e(prepared)

    def reference(x: Array) -> list[Array]:
        with torch.no_grad():
            found = converted(torch.from_numpy(x))
        return [y.numpy() for y in (found if isinstance(found, tuple | list) else [found])]

    return Exported(torch.export.export(converted, (samples[0],)), None, reference)


def _xnnpack(network: Any, samples: Samples) -> Exported:
    from torchao.testing.pt2e._xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=True)
    return _pt2e(network, samples, XNNPACKQuantizer().set_global(config))


def _x86(network: Any, samples: Samples) -> Exported:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    config = x86.get_default_x86_inductor_quantization_config()
    return _pt2e(network, samples, x86.X86InductorQuantizer().set_global(config))


def _folded(network: Any, samples: Samples, folder: Path) -> Path:
    """A float ONNX file, its batch normalizations and constants folded."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source, ready = onnx_file(network, samples, folder, new=False), folder / "ready.onnx"
    quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
    return ready


def _ort(network: Any, samples: Samples, folder: Path) -> Exported:
    """ONNX Runtime's quantize_static, as its documentation has it: preprocessed, QDQ, int8, a scale
    per channel."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    source = _folded(network, samples, folder)
    name = session(source).get_inputs()[0].name

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            sample = next(self.left, None)
            return None if sample is None else {name: sample.numpy()}

    target = folder / "quantized.onnx"
    quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    opened = session(target)
    return Exported(target, None, lambda x: list(opened.run(None, {name: x})))


def _tflite(network: Any, samples: Samples, folder: Path) -> Exported:
    """int8 TFLite, written by the tests as TFLite's converter writes such networks; not far from
    the float network."""
    source = _folded(network, samples, folder)
    model = written(source, [sample.numpy() for sample in samples])
    _near(model, session(source), samples[-1].numpy())
    target = folder / "network.tflite"
    target.write_bytes(model)
    opened = interpreter(model)
    return Exported(target, None, lambda x: invoke(opened, [x]))


def _near(model: bytes, source: Any, x: Array) -> None:
    """A sample of the calibration keeps most of its signal: the writer wrote this network."""
    wanted = source.run(None, {source.get_inputs()[0].name: x})
    for got, want in zip(run(model, [x]), wanted, strict=True):
        off = np.square(got.reshape(want.shape).astype(np.float64) - want).mean()
        assert off <= MOST_NOISE * np.square(want.astype(np.float64)).mean()


Way = Callable[[Any, Samples, Path], Exported]


def _in_memory(way: Callable[[Any, Samples], Exported]) -> Way:
    return lambda network, samples, folder: way(network, samples)


WAYS: dict[str, Way] = {
    "export": _in_memory(_exported),
    "onnx": _onnx,
    "legacy": _onnx_legacy,
    "xnnpack": _in_memory(_xnnpack),
    "x86": _in_memory(_x86),
    "ort": _ort,
    "tflite": _tflite,
}
