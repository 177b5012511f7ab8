# SPDX-License-Identifier: Apache-2.0
"""A folder of images as samples: sizes, orders of axes, what pixels mean; and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.quantization.images import MAX_IMAGES, PIXELS, ImageFolder
from loadstone.quantization.samples import samples_from
from tests.float_models import network

Image = pytest.importorskip("PIL.Image")

RED_GREEN = np.zeros((4, 6, 3), np.uint8)
RED_GREEN[:, :3, 0] = 255
RED_GREEN[:, 3:, 1] = 255


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "class a").mkdir()
    Image.fromarray(RED_GREEN).save(tmp_path / "class a" / "1.png")
    Image.fromarray(RED_GREEN[:, ::-1].copy()).save(tmp_path / "2.PNG")
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_pixels_stand_where_the_input_has_them(folder: Path) -> None:
    """Sorted by path, of their own size nothing is changed, channels first or last."""
    wanted = np.stack([RED_GREEN[:, ::-1], RED_GREEN]).astype(np.float32)
    last = ImageFolder(folder, "0..255").read((1, 4, 6, 3))
    np.testing.assert_array_equal(last[:, 0], wanted)
    first = ImageFolder(str(folder), "0..255").read((1, 3, 4, 6))
    np.testing.assert_array_equal(first[:, 0], wanted.transpose(0, 3, 1, 2))
    assert (last.dtype, first.dtype) == (np.float32, np.float32)
    assert ImageFolder(folder, "0..255").read((4, 6, 3)).shape == (2, 4, 6, 3)


@pytest.mark.parametrize(
    ("pixels", "black", "white"),
    [
        ("0..1", 0.0, 1.0),
        ("-1..1", -1.0, 1.0),
        ("0..255", 0.0, 255.0),
        # torchvision: (x / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        ("imagenet", np.array([-2.1179, -2.0357, -1.8044]), np.array([2.2489, 2.4286, 2.64])),
    ],
)
def test_what_pixels_mean(tmp_path: Path, pixels: str, black: object, white: object) -> None:
    assert pixels in PIXELS
    for value, wanted in ((0, black), (255, white)):
        Image.new("RGB", (5, 5), (value,) * 3).save(tmp_path / "x.png")
        found = ImageFolder(tmp_path, pixels).read((1, 7, 9, 3))  # resized
        np.testing.assert_allclose(found[0, 0], np.broadcast_to(wanted, (7, 9, 3)), atol=1e-3)


def test_grey_and_transparent_images(tmp_path: Path) -> None:
    Image.new("L", (3, 3), 100).save(tmp_path / "grey.png")
    Image.new("RGBA", (3, 3), (100, 100, 100, 255)).save(tmp_path / "transparent.png")
    assert np.all(ImageFolder(tmp_path, "0..255").read((1, 1, 3, 3)) == 100)
    assert np.all(ImageFolder(tmp_path, "0..255").read((1, 3, 3, 3)) == 100)


def test_of_many_images_some_are_read(tmp_path: Path) -> None:
    for number in range(MAX_IMAGES + 44):
        Image.new("L", (1, 1), number % 256).save(tmp_path / f"{number:03}.png")
    found = ImageFolder(tmp_path, "0..255").read((1, 1, 1, 1))
    assert len(found) == MAX_IMAGES
    assert (found[0, 0, 0, 0, 0], found[-1, 0, 0, 0, 0]) == (0, (MAX_IMAGES + 43) % 256)


def test_they_are_samples_of_a_network(folder: Path) -> None:
    samples = samples_from(ImageFolder(folder, "-1..1"), network().parameters)
    assert len(samples) == 2
    assert samples.arrays[0].shape == (2, 1, 3, 12, 12)
    assert samples.arrays[0].min() >= -1


def test_mistakes_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"pixels 'imagnet' .*; did you mean imagenet\?"):
        ImageFolder(folder, "imagnet")
    with pytest.raises(ModelError, match=r"shape \[1, 16\] is no image of 1 or 3 channels"):
        ImageFolder(folder, "0..1").read((1, 16))
    with pytest.raises(ModelError, match=r"three colours, and the network's input has one channel"):
        ImageFolder(folder, "imagenet").read((1, 1, 4, 4))
    (folder / "empty").mkdir()
    with pytest.raises(ModelError, match="no image in this folder"):
        ImageFolder(folder / "empty", "0..1").read((1, 3, 4, 4))
    with pytest.raises(ModelError, match="--pixels 0..1, -1..1, 0..255, imagenet"):
        samples_from(folder, network().parameters)
    (folder / "0.png").write_bytes(b"\x89PNG damaged")
    with pytest.raises(ModelError, match=r"0\.png: no image that Pillow reads"):
        ImageFolder(folder, "0..1").read((1, 3, 4, 4))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModelError, match=r"pip install 'loadstone\[images\]', or give an .npz"):
        ImageFolder(folder, "0..1").read((1, 3, 4, 4))
