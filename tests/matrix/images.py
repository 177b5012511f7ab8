# SPDX-License-Identifier: Apache-2.0
"""Small networks of images, as people write them today.

In:   nothing: weights are random, of a fixed seed.
Out:  IMAGES: a name -> a network (torch.nn.Module) and the shape of its input.
Next: cells.py prepares them, ways.py exports them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from tests.matrix.parts import (
    Apply,
    Chain,
    ChannelNorm,
    block,
    conv,
    depthwise,
    excite,
    focus,
    head,
    inverted,
    joined,
    mixer,
    patches,
    pyramid,
    residual,
    shuffled,
    spatial_attention,
    ssd,
    stem,
    unet,
    upsample,
    yolo,
)

__all__ = ["IMAGES", "Builder"]

Builder = Callable[[], nn.Module]
SMALL = (1, 3, 16, 16)
LARGE = (1, 3, 32, 32)
IMAGES: dict[str, tuple[Builder, Sequence[int]]] = {
    "lenet": (
        lambda: Chain(
            nn.Conv2d(1, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        ),
        (1, 1, 28, 28),
    ),
    "resnet": (
        lambda: Chain(
            stem(),
            residual(Chain(block(16, 16), conv(16, 16, bias=False), nn.BatchNorm2d(16))),
            residual(Chain(block(16, 16), conv(16, 16, bias=False), nn.BatchNorm2d(16))),
            head(16),
        ),
        LARGE,
    ),
    "ds_cnn": (
        lambda: Chain(
            nn.Conv2d(1, 32, (10, 4), 2, (5, 1)),
            nn.ReLU(),
            depthwise(32, 32),
            depthwise(32, 32),
            head(32, 12),
        ),
        (1, 1, 49, 10),
    ),
    "mobilenet_v2": (
        lambda: Chain(
            stem(nn.ReLU6), inverted(16, 48, nn.ReLU6), inverted(16, 48, nn.ReLU6), head(16)
        ),
        LARGE,
    ),
    "mobilenet_v3": (
        lambda: Chain(
            stem(nn.Hardswish),
            inverted(16, 32, nn.Hardswish, excite(32, nn.Hardsigmoid)),
            inverted(16, 32, nn.Hardswish),
            head(16),
        ),
        LARGE,
    ),
    "efficientnet": (
        lambda: Chain(stem(nn.SiLU), inverted(16, 32, nn.SiLU, excite(32)), head(16)),
        LARGE,
    ),
    "squeeze_excite": (lambda: Chain(stem(), excite(16), block(16, 16), head(16)), SMALL),
    "squeezenet": (
        lambda: Chain(
            stem(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            block(16, 8, kernel=1),
            joined(block(8, 16, kernel=1), block(8, 16)),
            conv(32, 10, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        LARGE,
    ),
    "densenet": (
        lambda: Chain(
            stem(),
            joined(nn.Identity(), block(16, 16)),
            joined(nn.Identity(), block(32, 16)),
            nn.AvgPool2d(2),
            head(48),
        ),
        SMALL,
    ),
    "inception": (
        lambda: Chain(
            stem(),
            joined(
                block(16, 8, kernel=1),
                block(16, 16),
                block(16, 8, kernel=5),
                Chain(nn.AvgPool2d(3, 1, 1), block(16, 8, kernel=1)),
            ),
            head(40),
        ),
        SMALL,
    ),
    "shufflenet": (lambda: Chain(stem(), shuffled(16), shuffled(16), head(16)), SMALL),
    "grouped": (
        lambda: Chain(
            stem(), residual(block(16, 16, groups=4)), residual(block(16, 16, groups=2)), head(16)
        ),
        SMALL,
    ),
    "unet_nearest": (lambda: unet(upsample("nearest")), SMALL),
    "unet_bilinear": (lambda: unet(upsample("bilinear")), SMALL),
    "unet_transposed": (lambda: unet(nn.ConvTranspose2d(16, 16, 2, 2)), SMALL),
    "autoencoder_2d": (
        lambda: Chain(
            stem(),
            block(16, 8, 2),
            nn.ConvTranspose2d(8, 16, 3, 2, 1, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1),
            nn.Sigmoid(),
        ),
        SMALL,
    ),
    "super_resolution": (
        lambda: Chain(conv(3, 16, 5), nn.Tanh(), conv(16, 12), nn.PixelShuffle(2)),
        SMALL,
    ),
    "deeplab": (lambda: pyramid(16), SMALL),
    "segment": (
        lambda: Apply(
            lambda p, x: p["net"](x).argmax(1), net=Chain(stem(), block(16, 16), conv(16, 5, 1))
        ),
        SMALL,
    ),
    "yolo": (yolo, LARGE),
    "ssd": (ssd, LARGE),
    "focus": (lambda: Chain(focus(), head(16)), SMALL),
    "leaky": (
        lambda: Chain(
            conv(3, 16),
            nn.LeakyReLU(0.1),
            conv(16, 16),
            nn.PReLU(16),
            conv(16, 16),
            nn.PReLU(),
            head(16),
        ),
        SMALL,
    ),
    "activations": (
        lambda: Chain(
            conv(3, 16),
            nn.Mish(),
            conv(16, 16),
            nn.ELU(),
            conv(16, 16),
            nn.Softplus(),
            conv(16, 16),
            nn.GELU(),
            head(16),
        ),
        SMALL,
    ),
    "group_norm": (
        lambda: Chain(conv(3, 16), nn.GroupNorm(4, 16), nn.ReLU(), conv(16, 16), head(16)),
        SMALL,
    ),
    "attention_of_places": (
        lambda: Chain(stem(), excite(16), spatial_attention(16), block(16, 16), head(16)),
        SMALL,
    ),
    "convnext": (
        lambda: Chain(
            nn.Conv2d(3, 16, 4, 4),
            residual(
                Chain(
                    conv(16, 16, 7, groups=16),
                    ChannelNorm(16),
                    conv(16, 64, 1),
                    nn.GELU(),
                    conv(64, 16, 1),
                ),
                relu=False,
            ),
            head(16),
        ),
        LARGE,
    ),
    "mixer": (
        lambda: Apply(
            lambda p, x: p["head"](p["mixer"](p["patches"](x)).mean(1)),
            patches=patches(8, 32),
            mixer=mixer(16, 32),
            head=nn.Linear(32, 10),
        ),
        LARGE,
    ),
}
