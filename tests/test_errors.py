# SPDX-License-Identifier: Apache-2.0
"""errors.py: one line of at most 400 characters; a cause names its file and line."""

from __future__ import annotations

import ast
import doctest
import pickle
import sys
from pathlib import Path

import pytest

from loadstone import errors
from loadstone.errors import (
    MAX_MESSAGE_CHARACTERS,
    ConfigError,
    LoadstoneError,
    Refusal,
    UnsupportedError,
    cause_of,
    check_arguments,
    not_installed,
    shortened,
)


def test_every_error_is_a_users() -> None:
    for name in set(errors.__all__) - {"naming", "Refusal", "VerificationError"}:
        kind = getattr(errors, name)
        assert not isinstance(kind, type) or issubclass(kind, LoadstoneError)


def test_what_a_verifier_finds_is_none() -> None:
    """Else an operator would stay on the host for it."""
    assert not issubclass(errors.VerificationError, LoadstoneError)


def test_a_long_message_keeps_its_ends() -> None:
    text = "begin " + 1000 * "x" + " end"
    said = str(LoadstoneError(text))
    assert len(said) <= MAX_MESSAGE_CHARACTERS
    assert said.startswith("begin ")
    assert said.endswith(" end")
    assert " ... " in said
    assert str(LoadstoneError("short")) == "short"


@pytest.mark.parametrize("most", range(5, 40))
def test_what_is_cut_is_never_longer_than_asked(most: int) -> None:
    text = "what is longer is cut in the middle"
    assert len(shortened(text, most)) <= max(most, len(" ... "))
    assert shortened(text, len(text)) == text


def test_a_cause_is_one_line_with_its_place() -> None:
    def divide() -> None:
        1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError) as caught:
        divide()
    said = cause_of(caught.value)
    assert said.startswith("ZeroDivisionError: division by zero (test_errors.py:")
    assert cause_of(ValueError("two\nlines")) == "ValueError: two lines"
    assert cause_of(ValueError()) == "ValueError: no message"


def test_a_message_begins_with_the_model_once() -> None:
    for said in ("it is too large", "model.onnx: it is too large"):
        with (
            pytest.raises(errors.LoweringError, match=r"^model(\.onnx)?: it is too large$"),
            errors.naming("model"),
        ):
            raise errors.LoweringError(said)


def test_a_refusal_is_one_line_of_what_is_known() -> None:
    whole = Refusal("axis 5\nof 4", "an axis below 4", "Concat", "join", "net.onnx")
    assert str(whole) == 'net.onnx: Concat (node "join"): axis 5 of 4: an axis below 4'
    assert str(Refusal("axis 5 of 4", "an axis below 4")) == "axis 5 of 4: an axis below 4"
    assert str(Refusal("it is a secret", "", "If")) == "If: it is a secret"


def test_an_error_keeps_the_refusal_that_it_was_raised_with() -> None:
    refusal = Refusal("axis 5 of 4", "an axis below 4", "Concat", "join")
    with pytest.raises(UnsupportedError) as caught, errors.naming("net.onnx"):
        raise UnsupportedError(refusal)
    assert str(caught.value) == 'net.onnx: Concat (node "join"): axis 5 of 4: an axis below 4'
    assert caught.value.refusal == Refusal(
        "axis 5 of 4", "an axis below 4", "Concat", "join", "net.onnx"
    )
    assert pickle.loads(pickle.dumps(caught.value)).refusal == caught.value.refusal
    assert UnsupportedError("a text").refusal is None


def test_what_is_missing_is_not_asked_for_where_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not_installed("tvm", "compiler") == (
        "tvm is not installed: pip install 'loadstone[compiler]'"
    )
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert not_installed("tvm", "compiler") == (
        "tvm is not installed, and the compiler needs Python 3.11 or newer, and this is 3.10: "
        "compile with a newer one, on any machine, and run the artifact here"
    )
    assert not_installed("rich", "terminal") == (
        "rich is not installed: pip install 'loadstone[terminal]'"
    )


def test_an_argument_that_is_none_has_a_near_one_or_all() -> None:
    with pytest.raises(ConfigError, match=r"^compile takes no 'sample'; did you mean samples\?$"):
        check_arguments("compile", ["target", "sample"], ["target", "samples"])
    with pytest.raises(ConfigError, match=r"takes no 'q'; it takes target, samples$"):
        check_arguments("compile", {"q": 1}, ["target", "samples"])


#: Asserts that are none of a type: of tables that are written by hand, and are read whenever the
#: package is tested. `python -O` leaves out all asserts.
TABLES = {
    "artifact/file_layout.py",
    "frontend/onnx/importer.py",
    "isa/tokens.py",
    "passes/log.py",
    "vta/isa/insn.py",
}


def is_for_types(node: ast.Assert) -> bool:
    """Whether it tells a type checker what a value is: the next line would fail as well."""
    text = ast.unparse(node.test)
    return text.startswith(("isinstance(", "type(")) or text.endswith(" is not None")


def test_what_guards_a_program_is_no_assert() -> None:
    """It is an error that stays under `python -O`."""
    package = Path(errors.__file__).parent
    others = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and not is_for_types(node)
    }
    tests_of_users = {name for name in others if Path(name).name.startswith("test_")}
    assert others - tests_of_users == TABLES


def test_the_examples_of_the_module_are_true() -> None:
    assert doctest.testmod(errors).failed == 0
