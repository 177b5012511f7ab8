# SPDX-License-Identifier: Apache-2.0
"""prove/certificate.py: what is written is read; what does not fit, or is no certificate, is
refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.errors import ArtifactError
from loadstone.prove.certificate import Certificate, certify, read_certificate, require_proof
from loadstone.prove.verdict import Status
from tests.certificates import NETWORK, verdict
from tests.sample_model import copy_model


@pytest.fixture
def artifact() -> bytes:
    return copy_model().to_bytes()


@pytest.fixture
def proved(artifact: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "proof.json"
    certify(verdict(), NETWORK, artifact, b"the model", "1.2.3").save(path)
    return path


def test_what_is_written_is_read(artifact: bytes, proved: Path) -> None:
    read = read_certificate(str(proved))
    assert read == certify(verdict(), NETWORK, artifact, b"the model", "1.2.3")
    assert isinstance(read, Certificate)
    assert [operator.rule for operator in read.operators] == [
        "the same elements in the same places",
        "the host's operator of that name, with equal constants, on the same elements",
    ]
    assert len(read.assumptions) == 4


def test_the_digest_is_that_of_the_file(artifact: bytes, proved: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.lds"
    path.write_bytes(artifact)
    require_proof(str(proved), str(path))
    path.write_bytes(artifact[:-1] + bytes([artifact[-1] ^ 1]))
    with pytest.raises(ArtifactError, match=r"net.lds: its SHA-256 begins with \w{12}, "):
        require_proof(str(proved), str(path))


def test_one_level_off_is_no_proof_of_equal_levels(artifact: bytes, tmp_path: Path) -> None:
    path, proof = tmp_path / "net.lds", tmp_path / "near.json"
    path.write_bytes(artifact)
    certify(verdict(tolerance=1), NETWORK, artifact, b"the model", "1.2.3").save(proof)
    with pytest.raises(ArtifactError, match=r"1 level\(s\) off, .*, or take it with --near$"):
        require_proof(str(proof), str(path))
    assert require_proof(str(proof), str(path), near=True).to_bytes() == artifact
    _spoil(lambda content: content.update(tolerance=2), proof)
    for near in (False, True):
        with pytest.raises(ArtifactError, match=r"2 level\(s\) off, .* and prove that$"):
            require_proof(str(proof), str(path), near=near)


def test_files_that_are_missing_are_named(proved: Path, tmp_path: Path) -> None:
    for pair in ((str(proved), f"{tmp_path}/no.lds"), (f"{tmp_path}/no.json", str(proved))):
        with pytest.raises(ArtifactError, match=r"/no\.(lds|json): No such file"):
            require_proof(*pair)


def test_only_what_is_proved_is_certified(artifact: bytes) -> None:
    with pytest.raises(AssertionError):
        certify(verdict(Status.NOT_PROVED), NETWORK, artifact, b"", "1")


def _spoil(change: Callable[[dict[str, Any]], object], path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("device"), "not a certificate: device is not an object"),
        (lambda c: c.update(schema="loadstone-proof-1"), "its schema is 'loadstone-proof-1', and"),
        (lambda c: c.update(more=1), "not a certificate: the certificate has 'more'"),
        (lambda c: c["artifact"].update(md5=""), "not a certificate: artifact has 'md5'"),
        (lambda c: c.update(error_bits="many"), "not a certificate: error_bits is not a number"),
        (lambda c: c.update(error_bits=True), "not a certificate: error_bits is not a number"),
        (lambda c: c.update(tolerance=-1), "not a certificate: tolerance is -1, below 0"),
        (lambda c: c["operators"].append(3), "not a certificate: an operator is not an object"),
        (lambda c: c["equalities"].update(x=""), "not a certificate: x is not a number"),
        (lambda c: c.update(assumptions=[1]), "not a certificate: assumptions is not a list of"),
    ],
)
def test_another_file_is_refused(
    change: Callable[[dict[str, Any]], object], said: str, proved: Path
) -> None:
    _spoil(change, proved)
    with pytest.raises(ArtifactError, match=said):
        read_certificate(str(proved))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ArtifactError, match="the certificate is not an object"):
        read_certificate(str(path))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"proof.json"):
        read_certificate(str(path))
