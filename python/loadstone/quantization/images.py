# SPDX-License-Identifier: Apache-2.0
"""A folder of images as samples to calibrate with.

In:   a folder, the conversion of pixels to numbers, the shape of the network's input.
Out:  one array (samples, *shape) of float32.
Next: samples.py.

Each image is resized as a whole to the input's size (bilinear, without cropping), with as many
channels as the input has: 1 is grey; 3 are red, green and blue, in this order. Subfolders are
searched as well. Pillow reads the files: the extra `images`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError, suggestion

__all__ = ["PIXELS", "ImageFolder"]

#: The conversion of a pixel's byte x to a number, (x - mean) / deviation: by name, for each
#: channel.
PIXELS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "0..1": ((0.0,), (255.0,)),
    "-1..1": ((127.5,), (127.5,)),
    "0..255": ((0.0,), (1.0,)),
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}
_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm"))
#: The largest number of images that are read, spread evenly over the sorted names.
MAX_IMAGES = 256


@dataclass(frozen=True)
class ImageFolder:
    """path: a folder. pixels: a name of PIXELS, the conversion that the network's training used.
    Raises ModelError for another name."""

    path: str | Path
    pixels: str

    def __post_init__(self) -> None:
        if self.pixels not in PIXELS:
            raise ModelError(
                f"pixels {self.pixels!r} is none of {', '.join(PIXELS)}"
                f"{suggestion(self.pixels, PIXELS)}"
            )

    def read(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """(samples, *shape). shape: of the network's input, (1, C, H, W) or (1, H, W, C) with 1 or
        3 channels, or without its first axis.

        Raises ModelError for a folder without images, a file that is none, a shape that no image
        has, and where Pillow is not installed.
        """
        height, width, channels, is_first = self._sizes(shape)
        mean, deviation = (np.asarray(part, np.float32) for part in PIXELS[self.pixels])
        if channels == 1 and len(mean) == 3:
            raise ModelError(
                f"{self.path}: pixels 'imagenet' are of three colours, and the network's input has "
                "one channel: choose 0..1, -1..1 or 0..255"
            )
        rows = []
        for file in self._files():
            values = (self._pixels(file, width, height, channels) - mean) / deviation
            rows.append(values.transpose(2, 0, 1) if is_first else values)
        return np.stack(rows).reshape(len(rows), *shape)

    def _sizes(self, shape: Sequence[int]) -> tuple[int, int, int, bool]:
        """Height, width, channels, and whether these are the first axis."""
        sizes = tuple(shape[1:]) if len(shape) == 4 and shape[0] == 1 else tuple(shape)
        if len(sizes) == 3:
            for place in (2, 0):  # where both could be channels, what is last is
                if sizes[place] in (1, 3):
                    height, width = sizes[:2] if place == 2 else sizes[1:]
                    return height, width, sizes[place], place == 0
        raise ModelError(
            f"{self.path} is a folder of images, and the network's input of shape {list(shape)} is "
            "no image of 1 or 3 channels: give an .npz file"
        )

    def _files(self) -> list[Path]:
        files = sorted(
            path
            for path in Path(self.path).rglob("*")
            if path.suffix.lower() in _SUFFIXES and path.is_file()
        )
        if not files:
            raise ModelError(
                f"{self.path}: no image in this folder: names end with "
                f"{', '.join(sorted(_SUFFIXES))}"
            )
        if len(files) > MAX_IMAGES:
            chosen = np.linspace(0, len(files) - 1, MAX_IMAGES).astype(int)
            return [files[index] for index in chosen]
        return files

    def _pixels(self, file: Path, width: int, height: int, channels: int) -> NDArray[np.float32]:
        """(height, width, channels), 0 to 255."""
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise ModelError(
                f"{self.path} is a folder of images, which Pillow reads: pip install "
                "'loadstone[images]', or give an .npz file"
            ) from None
        try:
            with Image.open(file) as image:
                colours = image.convert("L" if channels == 1 else "RGB")
        # what a damaged image raises is listed nowhere: SyntaxError, struct.error, OSError ...
        except Exception as error:
            raise ModelError(f"{file}: no image that Pillow reads: {error}") from None
        sized = colours.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(sized, np.float32).reshape(height, width, channels)
