# SPDX-License-Identifier: Apache-2.0
"""Samples from the photographs of ../shared/models/images: crops, flips, and each model's own
preparation.

Only the BMP files are read (NumPy is enough for them).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODELS", "FloatModel", "crops", "prepare", "read_bmp"]

Array = NDArray[np.float32]


def read_bmp(path: Path) -> Array:
    """(height, width, 3) RGB, 0 to 255, of an uncompressed BMP with 8 (grey), 24 or 32 bits a
    pixel."""
    data = path.read_bytes()
    offset, _, width, height, _, bits = struct.unpack_from("<IIiiHH", data, 10)
    stride = (width * bits // 8 + 3) // 4 * 4
    rows = np.frombuffer(data, np.uint8, stride * abs(height), offset).reshape(abs(height), stride)[
        :, : width * bits // 8
    ]
    pixels = rows.reshape(abs(height), width, bits // 8)[:: -1 if height > 0 else 1]
    colours = np.repeat(pixels, 3, axis=2) if bits == 8 else pixels[..., 2::-1]
    return colours.astype(np.float32)


def resized(image: Array, height: int, width: int) -> Array:
    """The mean of the pixels under each new pixel (area interpolation)."""
    for axis, extent in ((0, height), (1, width)):
        edges = np.linspace(0, image.shape[axis], extent + 1)
        sums = np.concatenate(
            [np.zeros_like(np.take(image, [0], axis)), np.cumsum(image, axis, dtype=np.float64)],
            axis,
        )
        whole = np.minimum(edges.astype(int), image.shape[axis] - 1)
        part = (edges - whole).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        at = np.take(sums, whole, axis) + part * np.take(image, whole, axis)
        image = np.diff(at, axis=axis) / np.diff(edges).reshape(
            (-1, 1, 1) if axis == 0 else (1, -1, 1)
        )
    return image.astype(np.float32)


def crops(folder: Path, count: int, height: int, width: int, seed: int) -> Array:
    """(count, height, width, 3) RGB, 0 to 255: random crops of 40 to 100 % of a photograph, half of
    them flipped."""
    rng = np.random.default_rng(seed)
    photographs = [
        read_bmp(path) for path in sorted(folder.glob("*.bmp")) if path.stat().st_size > 100_000
    ]
    found = []
    for index in range(count):
        image = photographs[index % len(photographs)]
        share = rng.uniform(0.4, 1.0)
        tall = min(image.shape[0], image.shape[1] * height / width) * share
        size = int(tall), int(tall * width / height)
        top, left = (int(rng.integers(0, image.shape[axis] - size[axis] + 1)) for axis in (0, 1))
        crop = resized(image[top : top + size[0], left : left + size[1]], height, width)
        found.append(crop[:, ::-1] if rng.random() < 0.5 else crop)
    return np.stack(found)


def _grey(images: Array) -> Array:
    return images @ np.array([0.299, 0.587, 0.114], np.float32)


def _first(images: Array) -> Array:
    return images.transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class FloatModel:
    """size: of the images that `prepare` takes; it gives the array of inputs, with a leading 1
    after the samples."""

    file: str
    size: tuple[int, int]
    prepare: Callable[[Array], Array]


#: The float models of the folder and the preparation that they were trained with (the first three:
#: MLPerf Tiny's).
MODELS = (
    FloatModel("mlpt_resnet8_f32.tflite", (32, 32), lambda x: x),
    FloatModel("mlpt_vww_f32.tflite", (96, 96), lambda x: x / 255),
    # five frames of a spectrogram with 128 bands, in decibels: here the rows of a picture
    FloatModel(
        "mlpt_ad_f32.tflite", (5, 128), lambda x: (_grey(x) / 255 * 30 - 20).reshape(len(x), 640)
    ),
    FloatModel("mnv1_0.25_128_f32.tflite", (128, 128), lambda x: x / 127.5 - 1),
    FloatModel("st_mnv2_0.5_128_f32.onnx", (128, 128), lambda x: _first(x / 127.5 - 1)),
    FloatModel(
        "squeezenet_f32.onnx",
        (224, 224),
        lambda x: _first(x[..., ::-1] - np.array([104, 117, 123], np.float32)),
    ),
    FloatModel("mnist8_f32.onnx", (28, 28), lambda x: _grey(x)[:, None]),
    FloatModel("ulfg_slim_320_f32.onnx", (240, 320), lambda x: _first((x - 127) / 128)),
)


def prepare(model: FloatModel, shared: Path, count: int, seed: int = 0) -> Any:
    """float32 samples (count, 1, ...) of a model."""
    images = crops(shared / "models" / "images", count, *model.size, seed)
    return np.ascontiguousarray(model.prepare(images)[:, None], np.float32)
