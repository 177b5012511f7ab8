# SPDX-License-Identifier: Apache-2.0
"""Train the demo's network: `python -m tools.train_digits`, some seconds, NumPy only.

In:   the training split of load_digits().
Out:  python/loadstone/demo/digits.onnx; the accuracy on both splits is printed.
Next: `loadstone demo`.

    image 1x8x8 -> conv 3x3, 8, relu -> conv 3x3, 12, relu -> max pool 2x2 -> conv 3x3, 12; add its
    input; relu
                -> max pool 2x2 -> dense 10

Everything a small network has (a residual addition, pooling, a dense layer), in 2,800 weights.
While it trains, half of the images move by up to one pixel, and all get noise; Adam, cosine
learning rate. The seed is fixed: the file can be made again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.demo import Digits, load_digits, network_path

__all__ = ["DigitNetwork", "main"]

Array = NDArray[np.float32]
Parameters = dict[str, Array]

SEED = 1
EPOCHS = 120
BATCH = 32
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 2e-2
MOVED = 0.5  # share of images that move
NOISE = 0.1  # of the brightness, and of each pixel
CHANNELS = (1, 8, 12, 12)
INK = 16.0  # the largest pixel


def windows(x: Array) -> Array:
    """(N, H, W, C) -> (N, H, W, 9 * C): the 3x3 neighbourhood of each pixel, zero outside."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    return np.concatenate(
        [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=-1
    )


def scatter(gradient: Array, channels: int) -> Array:
    """The transpose of `windows`: (N, H, W, 9 * C) -> (N, H, W, C)."""
    count, height, width, _ = gradient.shape
    padded = np.zeros((count, height + 2, width + 2, channels), np.float32)
    for tap in range(9):
        i, j = divmod(tap, 3)
        padded[:, i : i + height, j : j + width] += gradient[
            ..., tap * channels : (tap + 1) * channels
        ]
    return padded[:, 1:-1, 1:-1]


def max_pool(x: Array) -> tuple[Array, Array]:
    """2x2 maxima of (N, H, W, C), and a mask of where they were."""
    count, height, width, channels = x.shape
    blocks = x.reshape(count, height // 2, 2, width // 2, 2, channels)
    best = blocks.max(axis=(2, 4), keepdims=True)
    mask = (blocks == best).astype(np.float32)
    mask /= mask.sum(axis=(2, 4), keepdims=True)
    return best.reshape(count, height // 2, width // 2, channels), mask


def unpool(gradient: Array, mask: Array) -> Array:
    """The gradient of max_pool."""
    count, height, _, width, _, channels = mask.shape
    return (mask * gradient[:, :, None, :, None, :]).reshape(count, 2 * height, 2 * width, channels)


class DigitNetwork:
    """Weights: conv{1,2,3}.w (9 * I, O), dense.w (2 * 2 * 12, 10), and a .b for each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.parameters: Parameters = {}
        shapes = {f"conv{k}": (9 * CHANNELS[k - 1], CHANNELS[k]) for k in (1, 2, 3)} | {
            "dense": (4 * CHANNELS[3], 10)
        }
        for name, (inputs, outputs) in shapes.items():
            self.parameters[f"{name}.w"] = rng.normal(
                0, np.sqrt(2 / inputs), (inputs, outputs)
            ).astype(np.float32)
            self.parameters[f"{name}.b"] = np.zeros(outputs, np.float32)

    def forward(self, images: Array) -> tuple[Array, dict[str, Array]]:
        """Scores (N, 10) of images (N, 8, 8, 1) in [0, 16], and what the backward pass needs."""
        p, kept = self.parameters, {}
        kept["x1"] = windows(images)
        kept["y1"] = np.maximum(kept["x1"] @ p["conv1.w"] + p["conv1.b"], 0)
        kept["x2"] = windows(kept["y1"])
        kept["y2"] = np.maximum(kept["x2"] @ p["conv2.w"] + p["conv2.b"], 0)
        kept["p2"], kept["mask2"] = max_pool(kept["y2"])
        kept["x3"] = windows(kept["p2"])
        kept["y3"] = np.maximum(kept["x3"] @ p["conv3.w"] + p["conv3.b"] + kept["p2"], 0)
        p3, kept["mask3"] = max_pool(kept["y3"])
        kept["flat"] = p3.transpose(0, 3, 1, 2).reshape(
            len(p3), -1
        )  # as ONNX flattens: channels first
        return kept["flat"] @ p["dense.w"] + p["dense.b"], kept

    def backward(self, gradient: Array, kept: dict[str, Array]) -> Parameters:
        """Gradients of the parameters from the gradient of the scores.

        gradient: (samples, classes), of the scores. Each result has the shape of its parameter.
        """
        p, out = self.parameters, {}

        def linear(name: str, x: Array, g: Array) -> Array:
            flat_x, flat_g = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
            out[f"{name}.w"], out[f"{name}.b"] = flat_x.T @ flat_g, flat_g.sum(axis=0)
            return g @ p[f"{name}.w"].T

        channels = CHANNELS[3]
        g = (
            linear("dense", kept["flat"], gradient)
            .reshape(-1, channels, 2, 2)
            .transpose(0, 2, 3, 1)
        )
        g = unpool(g, kept["mask3"]) * (kept["y3"] > 0)
        g = g + scatter(linear("conv3", kept["x3"], g), CHANNELS[2])
        g = unpool(g, kept["mask2"]) * (kept["y2"] > 0)
        g = scatter(linear("conv2", kept["x2"], g), CHANNELS[1]) * (kept["y1"] > 0)
        linear("conv1", kept["x1"], g)
        return out


def varied(images: Array, rng: np.random.Generator) -> Array:
    """Some images (N, 8, 8, 1) moved by -1, 0 or 1 pixel in both directions; all with noise."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    moves = rng.integers(-1, 2, (2, len(images))) * (rng.random(len(images)) < MOVED)
    rows, columns = (1 + moves)[..., None] + np.arange(8)
    moved = padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
    brightness = 1 + NOISE * rng.normal(size=(len(images), 1, 1, 1))
    return np.asarray(moved * brightness + NOISE * rng.normal(size=images.shape), np.float32)


def train(digits: Digits) -> DigitNetwork:
    """Softmax cross entropy with Adam (weight decay decoupled)."""
    rng = np.random.default_rng(SEED)
    network = DigitNetwork(rng)
    images = digits.train_images.transpose(0, 2, 3, 1) / np.float32(INK)
    first, second = (
        {name: np.zeros_like(value) for name, value in network.parameters.items()} for _ in range(2)
    )
    step, steps = 0, EPOCHS * (len(images) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))[: len(images) // BATCH * BATCH]
        total = 0.0
        for batch in order.reshape(-1, BATCH):
            step += 1
            scores, kept = network.forward(varied(images[batch], rng))
            probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            labels = digits.train_labels[batch]
            total -= float(np.log(probabilities[np.arange(BATCH), labels] + 1e-9).sum())
            probabilities[np.arange(BATCH), labels] -= 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in network.backward(probabilities / BATCH, kept).items():
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                update = (
                    first[name]
                    / (1 - 0.9**step)
                    / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                )
                network.parameters[name] -= np.float32(rate) * (
                    update + WEIGHT_DECAY * network.parameters[name]
                )
        if epoch % 20 == 19:
            print(f"epoch {epoch + 1}: loss {total / order.size:.4f}")
    network.parameters["conv1.w"] /= np.float32(INK)  # images come as they are, from 0 to 16
    return network


def save(network: DigitNetwork, path: Path) -> None:
    """Writes the network as ONNX."""
    from onnx import TensorProto, checker, helper, numpy_helper, save_model

    initializers = []
    for name, parameter in network.parameters.items():
        value = parameter
        if name.startswith("conv") and name.endswith(".w"):
            value = value.reshape(3, 3, -1, value.shape[1]).transpose(3, 2, 0, 1)
        initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))

    def conv(k: int, source: str, target: str) -> object:
        return helper.make_node(
            "Conv",
            [source, f"conv{k}.w", f"conv{k}.b"],
            [target],
            name=target,
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
        )

    def pool(source: str, target: str) -> object:
        return helper.make_node(
            "MaxPool", [source], [target], name=target, kernel_shape=[2, 2], strides=[2, 2]
        )

    nodes = [
        conv(1, "image", "conv1"),
        helper.make_node("Relu", ["conv1"], ["relu1"], name="relu1"),
        conv(2, "relu1", "conv2"),
        helper.make_node("Relu", ["conv2"], ["relu2"], name="relu2"),
        pool("relu2", "pool2"),
        conv(3, "pool2", "conv3"),
        helper.make_node("Add", ["conv3", "pool2"], ["add3"], name="add3"),
        helper.make_node("Relu", ["add3"], ["relu3"], name="relu3"),
        pool("relu3", "pool3"),
        helper.make_node("Flatten", ["pool3"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "dense.w", "dense.b"], ["scores"], name="scores"),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [image], [scores], initializers)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="loadstone", ir_version=8
    )
    checker.check_model(model, full_check=True)
    save_model(model, path)


def accuracy(network: DigitNetwork, images: Array, labels: NDArray[np.int64]) -> float:
    """Share of images (N, 1, 8, 8) with ink from 0 to 16 whose highest score is the label's."""
    scores, _ = network.forward(images.transpose(0, 2, 3, 1))
    return float((scores.argmax(axis=1) == labels).mean())


def main() -> None:
    """Trains, prints, writes."""
    digits = load_digits()
    network = train(digits)
    path = network_path()
    save(network, path)
    print(
        f"accuracy: training {accuracy(network, digits.train_images, digits.train_labels):.4f}",
        end=", ",
    )
    print(
        f"test {accuracy(network, digits.test_images, digits.test_labels):.4f}; {path} "
        f"written: {path.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
