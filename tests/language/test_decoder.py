# SPDX-License-Identifier: Apache-2.0
"""decoder.py: tokens through a session, against the independent decoder in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.artifact.format import Artifact
from loadstone.errors import ModelError
from loadstone.language.decoder import TextSession, decoder_shape, host_seconds
from tests.frontend.gguf_models import Reference
from tests.language.texts import PLACES, small
from tests.sample_model import copy_model


def test_scores_are_those_of_the_last_token() -> None:
    path, artifact = small()
    reference = Reference(path)
    for token in (7, 3):
        reference.next(token)
    wanted = reference.next(9)
    with TextSession(Artifact.load(artifact)) as session:
        assert np.array_equal(session.next([7, 3, 9]), wanted)
        assert session.place == 3
        assert session.single is None  # a chunk has been run
        one = session.measured().cycles
        assert 0 < one < session.cycles
        session.reset()
        assert np.array_equal(session.next([7]), Reference(path).next(7))
        with pytest.raises(ModelError, match=f"25 tokens are more than the {PLACES} places"):
            session.next([1] * PLACES)
        with pytest.raises(ModelError, match="a text of no tokens"):
            session.next([])


def test_a_prompt_by_chunks_is_one_by_tokens() -> None:
    tokens = [(7 * k) % 250 for k in range(PLACES - 3)]  # a chunk of 16, and one of 5
    with TextSession(Artifact.load(small()[1])) as session:
        whole = session.next(tokens)
        session.reset()
        for token in tokens:
            single = session.next([token])
    assert np.array_equal(whole, single)
    reference = Reference(small()[0])
    assert np.array_equal(whole, [reference.next(token) for token in tokens][-1])


def test_what_an_artifact_is() -> None:
    shape = decoder_shape(Artifact.load(small()[1]))
    assert (shape.rows, shape.places, shape.words) == ((1, 16), PLACES, 266)
    with pytest.raises(ModelError, match="takes no tokens"):
        decoder_shape(copy_model())


def test_the_hosts_time() -> None:
    assert 0 < host_seconds(Artifact.load(small()[1]), 3) < 1
