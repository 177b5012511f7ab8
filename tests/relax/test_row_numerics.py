# SPDX-License-Identifier: Apache-2.0
"""row_numerics.py against the C of the runtime, by several compilers: bit by bit; and against
NumPy's own functions, where an order of sums has no say."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.artifact.memory_plan import DataType
from loadstone.library.native import ffi
from loadstone.relax import row_numerics as rows
from tests.board.tools import run, work
from tests.c.build import STRICT, includes
from tests.repeat import times

Array = NDArray[Any]
F = np.float32
COMPILERS = [
    ("gcc", "-O1"),
    ("gcc", "-O3"),
    ("gcc", "-O3", "-march=native"),
    ("clang", "-O3", "-march=native"),
]
SOURCES = ("operators_rows.c", "operators_cache.c", "model.c")

Caches: TypeAlias = tuple[Array, Array, Array, Array]
Call: TypeAlias = Callable[[str, Sequence[Array], Sequence[int]], None]


def bits(number: float) -> int:
    return int(F(number).view(np.int32))


@pytest.fixture(scope="module", params=COMPILERS, ids=" ".join)
def call(request: pytest.FixtureRequest, root: Path) -> Call:
    """Runs an operator on arrays, each behind a byte, so that nothing is aligned."""
    compiler, *flags = request.param
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (apt-get install {compiler})")
    library = work() / f"rows-{'-'.join(request.param)}.so"
    sources = [str(root / "runtime" / name) for name in SOURCES]
    common = [*STRICT, "-ffp-contract=off", "-shared", "-fPIC", *includes(root)]
    run([compiler, *flags, *common, *sources, "-o", str(library)])
    loaded = ctypes.CDLL(str(library))

    def execute(name: str, arrays: Sequence[Array], parameters: Sequence[int]) -> None:
        operands, kept = ffi.new("lds_operand[]", len(arrays)), []
        for operand, array in zip(operands, arrays, strict=True):
            kept.append(bytearray(b"\0" + array.tobytes()))
            operand.data = ffi.cast("uint8_t *", ffi.from_buffer(kept[-1])) + 1
            operand.tensor.dtype = DataType.of(array.dtype).value
            operand.tensor.size_bytes = array.nbytes
        address = ctypes.cast(getattr(loaded, f"lds_{name}"), ctypes.c_void_p).value
        function = ffi.cast("void (*)(const lds_operand *, const int32_t *)", address)
        function(operands, ffi.new("int32_t[]", list(parameters)))
        for array, memory in zip(arrays, kept, strict=True):
            array[...] = np.frombuffer(bytes(memory[1:]), array.dtype).reshape(array.shape)

    return execute


def same(got: Array, wanted: Array) -> bool:
    """Bit by bit, but for the payload of what is no number."""
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if got.dtype != np.float32:
        return np.array_equal(got, wanted)
    none = np.isnan(got)
    equal = got.view(np.int32) == wanted.view(np.int32)
    return bool(np.array_equal(none, np.isnan(wanted)) and (equal | none).all())


def random_rows(rng: np.random.Generator, *shape: int) -> Array:
    """Of all sizes, some with outliers."""
    x = (rng.standard_normal(shape) * 10 ** rng.uniform(-3, 2)).astype(F)
    x[..., rng.integers(shape[-1])] *= F(rng.choice([1, 30]))
    return x


def odd_rows() -> Array:
    """Zeros, denormal numbers, infinity, what is none, and the largest."""
    x = np.tile(np.linspace(-3, 3, 64, dtype=F), (9, 1))
    x[0] = 0
    x[1, 5], x[2, 6], x[3, 7] = np.inf, -np.inf, np.nan
    x[4] *= F(1e-45) * F(30)
    x[5] *= F(1e-38)
    x[6, :2] = np.inf, np.nan
    x[7] = -0.0
    x[8, 3] = np.finfo(F).max
    return x


SEEDS = range(times(25, 200))


def test_norms(call: Call) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        depth = int(rng.choice([64, 576, 1, 7, 100]))
        x, w = random_rows(rng, 3, depth), rng.standard_normal(depth).astype(F)
        y = np.empty_like(x)
        call("rms_norm", [x, w, y], [depth, bits(1e-5)])
        assert same(y, rows.rms_norm(x, w, 1e-5)), seed
    x, w = odd_rows(), np.ones(64, F)
    y = np.empty_like(x)
    call("rms_norm", [x, w, y], [64, bits(1e-5)])
    with np.errstate(all="ignore"):
        assert same(y, rows.rms_norm(x, w, 1e-5))


@pytest.mark.parametrize("neighbours", [False, True])
def test_rotations_of_places(call: Call, neighbours: bool) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        count, heads, size = (int(n) for n in rng.integers(1, 6, 3))
        size *= 4
        turned = int(rng.choice([2, size]))
        x, angles = random_rows(rng, count, heads, size), random_rows(rng, 9, turned)
        place = np.array([rng.integers(0, 10), 0], np.int32)
        y = np.empty_like(x)
        call("rotate_places", [x, place, angles, y], [heads, size, turned, neighbours])
        assert same(y, rows.rotate_places(x, place, angles, neighbours)), seed


@pytest.mark.parametrize("rotate", [False, True])
def test_scales_and_integers_of_rows(call: Call, rotate: bool) -> None:
    cases = [random_rows(np.random.default_rng(s), 3, 64 * (1 + s % 3)) for s in SEEDS]
    for x in [*cases, odd_rows()]:
        scales, q = np.empty((len(x), 1), F), np.empty(x.shape, np.int8)
        call("row_scales", [x, scales], [x.shape[1], rotate])
        call("quantize_rows", [x, scales, q], [x.shape[1], rotate])
        with np.errstate(all="ignore"):
            assert same(scales, rows.row_scales(x, rotate))
            assert same(q, rows.quantize_rows(x, scales, rotate))


def test_integers_of_any_scale(call: Call) -> None:
    """Also of one that is not the row's own: clamped, ties to even."""
    x = np.array([[0.5, 1.5, -2.5, 126.5, 127.5, -1e30, 3e38, -0.4, np.nan, -128]], F)
    for scale in (1.0, 1e-30, 3e38, np.inf, np.nan):
        q = np.empty(x.shape, np.int8)
        call("quantize_rows", [x, np.array([scale], F), q], [10, 0])
        with np.errstate(all="ignore"):
            assert same(q, rows.quantize_rows(x, np.array([scale], F)))
        if scale == 1:
            assert q.tolist() == [[0, 2, -2, 126, 127, -127, 127, 0, 127, -127]]


@pytest.mark.parametrize("planes", [0, 1, 3, 4])
def test_sums_as_real_numbers(call: Call, planes: int) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        count, channels, apart = 3, int(rng.integers(1, 40)), 48
        most = {0: 31, 1: 7, 3: 23, 4: 31}[planes]
        sums = rng.integers(-(1 << most), 1 << most, (count, channels)).astype(np.int32)
        sums[0, 0], sums[1, 0] = -(1 << most), (1 << most) - 1
        scales, c = random_rows(rng, count, 1), random_rows(rng, channels)
        x: Array = sums.astype(np.int8) if planes == 1 else sums
        if planes > 1:
            x = np.zeros((count, planes, apart), np.int8)
            for k in range(planes):
                x[:, k, :channels] = (sums >> (8 * k)).astype(np.int8)
        y = np.empty((count, channels), F)
        call("rescale_rows", [x, scales, c, y], [channels, planes])
        assert same(y, sums.astype(F) * scales * c), seed
        assert same(y, rows.rescale_rows(x, scales, c, planes)), seed


def test_rows_are_kept_at_a_place(call: Call) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        count, groups, size, places = (int(n) for n in rng.integers(1, 7, 4))
        dtype = rng.choice(["int8", "float32"])
        x = rng.integers(-99, 99, (count, groups, size)).astype(dtype)
        cache = rng.integers(-99, 99, (groups, places, size)).astype(dtype)
        begin = int(rng.integers(0, places + 1))
        valid = int(rng.integers(0, min(count, places - begin) + 1))
        place = np.array([begin, valid], np.int32)
        wanted = rows.keep_rows(cache, x, place)
        call("keep_rows", [x, place, cache], [groups, size])
        assert same(cache, wanted), seed
        for row in range(valid):
            assert np.array_equal(cache[:, begin + row], x[row])


def caches(rng: np.random.Generator, groups: int, places: int, size: int) -> Caches:
    keys, values = (rng.integers(-127, 128, (groups, places, size)).astype(np.int8) for _ in "kv")
    scales = [rng.uniform(0.001, 0.1, (groups, places)).astype(F) for _ in "kv"]
    return keys, scales[0], values, scales[1]


def attended(call: Call, q: Array, place: Array, kept: Caches, window: int = 0) -> Array:
    groups, places, size = kept[0].shape
    y, scratch = np.full_like(q, 7), np.empty(places, F)
    numbers = [q.shape[1], groups, size, window, bits(size**-0.5)]
    call("attention", [q, place, *kept, y, scratch], numbers)
    return y


def test_attention(call: Call) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        groups, share, size = (int(n) for n in rng.integers(1, 4, 3))
        size = int(rng.choice([size, 8, 64, 96]))
        places, count = int(rng.integers(4, 40)), int(rng.integers(1, 4))
        kept = caches(rng, groups, places, size)
        q = random_rows(rng, count, groups * share, size)
        place = np.array([rng.integers(0, places - 2), rng.integers(0, count + 1)], np.int32)
        place[1] = min(place[1], places - place[0])
        window = int(rng.choice([0, 1, 5, 100]))
        said = {"window": window, "factor": float(F(size**-0.5))}
        wanted = rows.attention(q, place, kept, **said)
        assert same(attended(call, q, place, kept, window), wanted), seed
        assert not wanted[place[1] :].any()


def test_a_chunk_attends_as_single_rows(call: Call) -> None:
    rng = np.random.default_rng(0)
    kept, q = caches(rng, 2, 16, 32), random_rows(rng, 4, 6, 32)
    whole = attended(call, q, np.array([5, 4], np.int32), kept)
    single = [attended(call, q[k : k + 1], np.array([5 + k, 1], np.int32), kept) for k in range(4)]
    assert same(whole, np.concatenate(single))


def test_attention_to_what_is_no_number(call: Call) -> None:
    rng = np.random.default_rng(0)
    for odd in (np.nan, np.inf, -np.inf, 3e38):
        kept, q = caches(rng, 1, 8, 8), random_rows(rng, 1, 2, 8)
        q[0, 0, 3] = odd
        place = np.array([7, 1], np.int32)
        with np.errstate(all="ignore"):
            wanted = rows.attention(q, place, kept, window=0, factor=float(F(8**-0.5)))
        assert same(attended(call, q, place, kept), wanted)
        assert np.isfinite(wanted[0, 1]).all()


def test_attention_is_softmax() -> None:
    """Against the textbook in float64."""
    rng = np.random.default_rng(3)
    keys, key_scales, values, value_scales = kept = caches(rng, 1, 20, 16)
    q = rng.standard_normal((1, 3, 16)).astype(F)
    got = rows.attention(q, np.array([19, 1], np.int32), kept, window=0, factor=0.25)
    k, v = (
        (a.astype(float) * s[..., None])[0] for a, s in ((keys, key_scales), (values, value_scales))
    )
    score = q[0].astype(float) @ k.T * 0.25
    weight = np.exp(score - score.max(-1, keepdims=True))
    np.testing.assert_allclose(got[0], weight / weight.sum(-1, keepdims=True) @ v, 2e-5, 1e-5)


@pytest.mark.parametrize("function", [0, 1])
def test_gates(call: Call, function: int) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        a, x = random_rows(rng, 2, 100), random_rows(rng, 2, 100)
        y = np.empty_like(a)
        call("gate", [a, x, y], [function])
        assert same(y, rows.gate(a, x, function)), seed
    a = np.concatenate([odd_rows().reshape(-1), np.linspace(-300, 300, 2001, dtype=F)])
    y = np.empty_like(a)
    call("gate", [a, np.ones_like(a), y], [function])
    with np.errstate(all="ignore"):
        assert same(y, rows.gate(a, np.ones_like(a), function))


def test_gates_are_silu_and_gelu() -> None:
    a = np.linspace(-20, 20, 4001, dtype=F)
    wide = a.astype(float)
    np.testing.assert_allclose(rows.gate(a, np.ones_like(a), 0), wide / (1 + np.exp(-wide)), 1e-6)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    np.testing.assert_allclose(
        rows.gate(a, np.ones_like(a), 1), 0.5 * wide * (1 + np.tanh(inner)), 4e-5, 1e-7
    )


def test_exponentials() -> None:
    """Within 1e-7 where normal; clamped, never an exception."""
    x = np.linspace(-87, 88, 200_001, dtype=F)
    exact = np.exp(x.astype(float))
    assert np.abs(rows.row_exp(x) / exact - 1).max() < 1.2e-7
    odd = np.array([-np.inf, -1e38, -200, -90, 90, 200, 1e38, np.inf, np.nan], F)
    with np.errstate(all="ignore"):
        found = rows.row_exp(odd)
    assert found[:4].tolist() == [0.0] * 4
    assert np.isinf(found[4:8]).all()
    assert np.isnan(found[8])


def test_hadamard_is_its_matrix() -> None:
    matrix = np.ones((1, 1))
    for _ in range(6):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    x = np.random.default_rng(0).integers(-9, 9, (3, 128)).astype(F)
    wanted = (x.reshape(3, 2, 64) @ matrix / 8).reshape(3, 128)
    assert np.array_equal(rows.hadamard(x), wanted.astype(F))
    assert np.array_equal(rows.hadamard(rows.hadamard(x)), x)


def test_sums_have_lanes() -> None:
    """Not NumPy's order: 1 is lost beside 2^24 in its own lane, and not in another."""
    x = np.zeros((1, 16), F)
    x[0, 0], x[0, 8], x[0, 9] = 1 << 24, 1, 1
    assert rows.sum_rows(x)[0] == 1 << 24
    x[0, 1] = 1
    assert rows.sum_rows(x)[0] == (1 << 24) + 2
