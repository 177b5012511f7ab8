# SPDX-License-Identifier: Apache-2.0
"""passes/log.py: passes run by names of the list and in its order, and a verifier's finding is the
compiler's mistake."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError, LoadstoneError, LoweringError, VerificationError
from loadstone.passes.log import VERIFY, PassLog, checked, stopped, verified


def refused(_: object, after: object) -> None:
    raise LoweringError(f"a store moved to {after}")


def test_a_run_keeps_what_was_made_where_texts_are_wanted() -> None:
    log = PassLog("net", texts=True)
    assert log.run("import", str.upper, "x") == "X"
    assert log.run("graph", len, "abc", show=lambda made: f"{made} operators") == 3
    assert [(r.name, r.subject, r.verified, r.text and r.text()) for r in log.runs] == [
        ("import", "net", False, "X"),
        ("graph", "net", False, "3 operators"),
    ]
    plain = PassLog()
    plain.run("import", str.upper, "x")
    assert plain.runs[0].text is None


def test_a_log_goes_on_and_leaves_the_one_before_as_it_is() -> None:
    log = PassLog("net", texts=True)
    log.run("import", str.upper, "x")
    later = log.continued()
    later.run("graph", len, "abc")
    assert [run.name for run in log.runs] == ["import"]
    assert [run.name for run in later.runs] == ["import", "graph"]
    assert later.texts


def test_what_is_not_in_the_list_or_not_in_its_order_does_not_run() -> None:
    log = PassLog()
    with pytest.raises(ConfigError, match="pass imports: no such pass; did you mean import"):
        log.run("imports", str.upper, "x")
    log.run("graph", len, "abc")
    with pytest.raises(AssertionError, match="import runs behind graph"):
        log.run("import", str.upper, "x")
    with pytest.raises(AssertionError, match="encode: verifier and list differ"):
        log.run("encode", str.upper, "x")
    with pytest.raises(AssertionError, match="batch: verifier and list differ"):
        log.run("batch", str.upper, "x", verify=refused)


def test_a_verifier_runs_when_asked_and_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(VerificationError) as caught:
        PassLog("vta_0").run("prefetch", str.upper, "x", verify=refused)
    assert str(caught.value) == (
        "pass prefetch on vta_0 is wrong: a store moved to X: a mistake of Loadstone's, not of the "
        "model's: please report it with model and command"
    )
    assert not isinstance(caught.value, LoadstoneError)  # which an operator stays on the host for
    monkeypatch.setenv(VERIFY, "0")
    log = PassLog("vta_0")
    assert log.run("prefetch", str.upper, "x", verify=refused) == "X"
    assert [run.verified for run in log.runs] == [False]


def test_the_environment_says_whether_verifiers_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified()
    for said, expected in (("1", True), ("yes", True), ("0", False), ("", False)):
        monkeypatch.setenv(VERIFY, said)
        assert verified() is expected
    monkeypatch.delenv(VERIFY)
    assert not verified()


def test_what_is_no_finding_passes_as_it_is() -> None:
    checked("encode", lambda: None)
    with pytest.raises(ZeroDivisionError):
        checked("encode", lambda: 1 / 0)


def test_an_error_tells_the_passes_until_it_came() -> None:
    log = PassLog("net", texts=True)
    log.run("import", str.upper, "x")
    inner = PassLog("conv", texts=True)

    def lowered(_: str) -> str:
        inner.run("computation", str.upper, "c")
        return inner.run("operations", int, "no number", verify=lambda *_: None)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="no number") as caught:
        log.run("graph", lowered, "x")
    runs = [(r.name, r.subject, r.text and r.text()) for r in stopped(caught.value)]
    said = "# stopped: invalid literal for int() with base 10: 'no number'\n"
    assert runs == [
        ("import", "net", "X"),
        ("computation", "conv", "C"),
        ("operations", "conv", said),
    ]
    assert stopped(ValueError()) == []
    with pytest.raises(LoweringError) as named:
        raise LoweringError("net: no number") from caught.value
    assert stopped(named.value) == stopped(caught.value)


def test_what_a_verifier_refuses_is_shown_behind_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VERIFY, "1")
    log = PassLog("vta_0", texts=True)
    with pytest.raises(VerificationError) as caught:
        log.run("prefetch", str.upper, "x", verify=refused)
    (run,) = stopped(caught.value)
    assert run.text is not None
    first, second = run.text().splitlines()
    assert first.startswith("# stopped: pass prefetch on vta_0 is wrong: a store moved to X")
    assert second == "X"
