# SPDX-License-Identifier: Apache-2.0
"""Parts of small networks of images, as people write them today.

In:   nothing: weights are random, of a fixed seed.
Out:  modules of PyTorch.
Next: images.py and sequences.py put them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from torch import nn

__all__ = [
    "Apply",
    "Chain",
    "ChannelNorm",
    "block",
    "conv",
    "depthwise",
    "excite",
    "focus",
    "head",
    "inverted",
    "joined",
    "mixer",
    "patches",
    "pyramid",
    "residual",
    "shuffled",
    "spatial_attention",
    "ssd",
    "stem",
    "unet",
    "upsample",
    "yolo",
]

Tensor = Any


class Apply(nn.Module):
    """A network whose forward is a function of its parts and an input."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **parts: nn.Module) -> None:
        super().__init__()
        self._function = forward
        self.parts = nn.ModuleDict(parts)

    def forward(self, x: Tensor) -> Any:
        """What the function gives."""
        return self._function(self.parts, x)


def Chain(*parts: nn.Module) -> nn.Sequential:  # noqa: N802 (a class to whoever reads it)
    """One after the other."""
    return nn.Sequential(*parts)


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, **more: Any) -> nn.Conv2d:
    """Padded so that a stride of 1 keeps the size."""
    dilation = more.get("dilation", 1)
    return nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel // 2), **more)


def block(
    inputs: int,
    outputs: int,
    stride: int = 1,
    act: type[nn.Module] = nn.ReLU,
    kernel: int = 3,
    **more: Any,
) -> nn.Sequential:
    """Convolution, batch normalization, activation."""
    return Chain(
        conv(inputs, outputs, kernel, stride, bias=False, **more), nn.BatchNorm2d(outputs), act()
    )


def depthwise(
    inputs: int, outputs: int, stride: int = 1, act: type[nn.Module] = nn.ReLU
) -> nn.Sequential:
    """Depthwise, then pointwise."""
    return Chain(
        block(inputs, inputs, stride, act, groups=inputs), block(inputs, outputs, act=act, kernel=1)
    )


def head(inputs: int, classes: int = 10) -> nn.Sequential:
    """Mean and classes."""
    return Chain(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def residual(inner: nn.Module, relu: bool = True) -> Apply:
    """x + inner(x)."""
    return Apply(lambda p, x: F.relu(x + p["inner"](x)) if relu else x + p["inner"](x), inner=inner)


def excite(channels: int, gate: type[nn.Module] = nn.Sigmoid) -> Apply:
    """Squeeze and excite."""
    return Apply(
        lambda p, x: x * p["gate"](x),
        gate=Chain(
            nn.AdaptiveAvgPool2d(1),
            conv(channels, channels // 2, 1),
            nn.ReLU(),
            conv(channels // 2, channels, 1),
            gate(),
        ),
    )


def inverted(channels: int, wide: int, act: type[nn.Module], *inner: nn.Module) -> Apply:
    """MobileNet's block: wide, depthwise, what is inside, narrow; added."""
    return residual(
        Chain(
            block(channels, wide, act=act, kernel=1),
            block(wide, wide, act=act, groups=wide),
            *inner,
            conv(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        ),
        relu=False,
    )


def joined(*branches: nn.Module) -> Apply:
    """Branches of one input, concatenated."""
    return Apply(
        lambda p, x: torch.cat([part(x) for part in p.values()], 1),
        **{f"b{k}": part for k, part in enumerate(branches)},
    )


def shuffled(channels: int) -> Apply:
    """ShuffleNet's block: half of the channels pass, the others are computed; then mixed."""

    def forward(p: Any, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        whole = torch.cat([left, p["right"](right)], 1)
        n, c, h, w = whole.shape
        return whole.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    return Apply(forward, right=depthwise(channels // 2, channels // 2))


def unet(up: nn.Module, channels: int = 16) -> Apply:
    """Down, up by one of three ways, joined with what was before."""

    def forward(p: Any, x: Tensor) -> Tensor:
        first = p["first"](x)
        low = p["low"](F.max_pool2d(first, 2))
        return p["last"](torch.cat([p["up"](low), first], 1))

    return Apply(
        forward,
        first=block(3, channels),
        low=block(channels, channels),
        up=up,
        last=Chain(block(2 * channels, channels), conv(channels, 4, 1)),
    )


def bottleneck_of_yolo(channels: int) -> Apply:
    """C2f: split, a residual of one half, all parts joined."""

    def forward(p: Any, x: Tensor) -> Tensor:
        left, right = p["first"](x).chunk(2, 1)
        return p["last"](torch.cat([left, right, right + p["inner"](right)], 1))

    half = channels // 2
    return Apply(
        forward,
        first=block(channels, channels, act=nn.SiLU, kernel=1),
        inner=Chain(block(half, half, act=nn.SiLU), block(half, half, act=nn.SiLU)),
        last=block(3 * half, channels, act=nn.SiLU, kernel=1),
    )


def yolo() -> Apply:
    """Two scales, SPPF, an upsampling, boxes as expectations over softmax (DFL), classes."""

    def forward(p: Any, x: Tensor) -> Tensor:
        near = p["near"](p["stem"](x))
        far = p["squeeze"](p["far"](near))
        once = F.max_pool2d(far, 5, 1, 2)
        far = p["pooled"](torch.cat([far, once, F.max_pool2d(once, 5, 1, 2)], 1))
        near = p["mix"](torch.cat([F.interpolate(far, scale_factor=2.0), near], 1))
        found = torch.cat([p["head"](near).flatten(2), p["deep"](far).flatten(2)], 2)
        boxes, classes = found.split([16, 4], 1)
        n, _, places = boxes.shape
        chances = boxes.view(n, 4, 4, places).transpose(1, 2).softmax(1)
        return torch.cat([p["bins"](chances).view(n, 4, places), classes.sigmoid()], 1)

    return Apply(
        forward,
        stem=Chain(block(3, 16, 2, nn.SiLU), bottleneck_of_yolo(16)),
        near=block(16, 32, 2, nn.SiLU),
        far=block(32, 32, 2, nn.SiLU),
        squeeze=block(32, 16, act=nn.SiLU, kernel=1),
        pooled=block(48, 32, act=nn.SiLU, kernel=1),
        mix=block(64, 32, act=nn.SiLU, kernel=1),
        head=conv(32, 20, 1),
        deep=conv(32, 20, 1),
        bins=nn.Conv2d(4, 1, 1, bias=False),
    )


def ssd() -> Apply:
    """Boxes and classes of two scales, in rows."""

    def forward(p: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        near = p["near"](x)
        far = p["far"](near)
        rows = {
            name: torch.cat(
                [
                    p[f"{name}{k}"](y).permute(0, 2, 3, 1).reshape(1, -1, width)
                    for k, y in enumerate((near, far))
                ],
                1,
            )
            for name, width in (("boxes", 4), ("classes", 3))
        }
        return rows["boxes"], rows["classes"].softmax(-1)

    return Apply(
        forward,
        near=Chain(block(3, 16, 2), depthwise(16, 16, 2)),
        far=depthwise(16, 32, 2),
        boxes0=conv(16, 8),
        boxes1=conv(32, 8),
        classes0=conv(16, 6),
        classes1=conv(32, 6),
    )


class ChannelNorm(nn.Module):
    """ConvNeXt's: layer norm over the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Of (N, C, H, W)."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def spatial_attention(channels: int) -> Apply:
    """CBAM's second half: the mean and the largest over channels weigh every place."""

    def forward(p: Any, x: Tensor) -> Tensor:
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(p["conv"](both))

    return Apply(forward, conv=conv(2, 1, 7))


def focus() -> Apply:
    """YOLOv5's: every second pixel, as channels."""
    return Apply(
        lambda p, x: p["conv"](
            torch.cat([x[..., i::2, j::2] for j in range(2) for i in range(2)], 1)
        ),
        conv=block(12, 16),
    )


def pyramid(channels: int) -> Apply:
    """DeepLab's: dilated convolutions and the mean of the image, joined and made large again."""

    def forward(p: Any, x: Tensor) -> Tensor:
        low = p["stem"](x)
        mean = p["mean"](F.adaptive_avg_pool2d(low, 1))
        parts = [p["one"](low), p["two"](low), p["four"](low), mean.expand_as(low)]
        found = p["last"](torch.cat(parts, 1))
        return F.interpolate(found, size=x.shape[2:], mode="bilinear", align_corners=False)

    return Apply(
        forward,
        stem=Chain(block(3, channels, 2), block(channels, channels)),
        one=block(channels, channels, kernel=1),
        two=block(channels, channels, dilation=2),
        four=block(channels, channels, dilation=4),
        mean=Chain(conv(channels, channels, 1), nn.ReLU()),
        last=Chain(block(4 * channels, channels, kernel=1), conv(channels, 4, 1)),
    )


def patches(size: int, width: int) -> Apply:
    """(1, 3, H, W) -> (1, places, width)."""
    return Apply(
        lambda p, x: p["conv"](x).flatten(2).transpose(1, 2), conv=nn.Conv2d(3, width, size, size)
    )


def mixer(places: int, width: int) -> Apply:
    """MLP-Mixer's block: dense over places, dense over channels."""

    def dense(size: int) -> nn.Sequential:
        return Chain(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(p: Any, x: Tensor) -> Tensor:
        x = x + p["across"](p["first"](x).transpose(1, 2)).transpose(1, 2)
        return x + p["along"](p["second"](x))

    return Apply(
        forward,
        first=nn.LayerNorm(width),
        across=dense(places),
        second=nn.LayerNorm(width),
        along=dense(width),
    )


def stem(act: type[nn.Module] = nn.ReLU, channels: int = 16) -> nn.Sequential:
    """Half the size."""
    return block(3, channels, 2, act)


def upsample(mode: str) -> nn.Upsample:
    """By two."""
    corners = None if mode == "nearest" else False
    return nn.Upsample(scale_factor=2.0, mode=mode, align_corners=corners)
