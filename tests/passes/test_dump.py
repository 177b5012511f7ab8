# SPDX-License-Identifier: Apache-2.0
"""passes/dump.py: the text of every pass on a small network, compared with tests/golden/passes; for
VTA-Q, for VTA, and for an accelerator from outside the tree.

A change of the compiler is read as a change of these texts: the file before is what a pass was
given. A pass that changed nothing has a line that says so. pytest tests/passes/test_dump.py
--update-golden writes them anew.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.cli import main
from loadstone.errors import ConfigError, LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.numerics import Rounding
from loadstone.passes.dump import Dump
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.region.offload import OffloadedRegion
from tests import lowered as lo
from tests.passes.networks import TARGETS, dumped, residual_block

GOLDEN = Path(__file__).parents[1] / "golden" / "passes"


@cache
def texts(target: str) -> dict[str, str]:
    """What each pass made; of one that changed nothing, a line that says so."""
    found, last = dict[str, str](), dict[str, tuple[str, str]]()
    for name, text in dumped(target).items():
        title, subject = name.removesuffix(".txt"), name.removesuffix(".txt").partition(".")[2]
        before = last.get(subject)
        same = before is not None and before[1] == text
        found[name] = f"# as behind {before[0]}\n" if before is not None and same else text
        last[subject] = (title, text)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_every_pass_makes_what_it_made_before(target: str, update_golden: bool) -> None:
    folder, made = GOLDEN / target, texts(target)
    if update_golden:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert list(made) == sorted(path.name for path in folder.iterdir()), (
        "other passes ran: read the difference, then run pytest with --update-golden"
    )
    for name, text in made.items():
        assert text == (folder / name).read_text(encoding="utf-8"), (
            f"{target}/{name} changed: read the difference, then run pytest with --update-golden"
        )


@pytest.mark.parametrize(("target", "device"), [("vtaq", "vtaq-tiny"), ("vta", "vta-pynq")])
@pytest.mark.parametrize("layer", ["conv", "sum"])
def test_copies_inserted_into_the_text_give_the_text(target: str, device: str, layer: str) -> None:
    """The text of the golden file is read, and the pass run on it."""
    before, after = (
        path.read_text(encoding="utf-8")
        for name in ("computation", "insert_dma_copy")
        for path in (GOLDEN / target).glob(f"*-{name}.{layer}.txt")
    )
    table = memory_table(load_config(device))
    assert printed(insert_dma_copy(parsed(before), table)) == after


def test_a_pass_alone_is_printed_or_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "block.tflite").write_bytes(residual_block())
    arguments = ["compile", str(tmp_path / "block.tflite"), "-t", "vtaq-tiny", "-o"]
    arguments.append(str(tmp_path / "block.lds"))
    assert main([*arguments, "--dump-after", "synchronize"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# program synchronize vta_0\n")
    assert "\npop(load) gemm" in printed
    folder = tmp_path / "one"
    assert main([*arguments, "--dump", str(folder), "--dump-after", "allocate"]) == 0
    (one,) = folder.iterdir()
    assert one.read_text() == dumped("vtaq")[one.name]
    capsys.readouterr()
    for name, said in (
        ("alocate", "--dump-after alocate: no such pass; did you mean allocate?"),
        ("link", "--dump-after link: no such pass: the passes are import, single, ranks"),
        ("rows", "--dump-after rows: this compilation did not need that pass; it ran import"),
    ):
        assert main([*arguments, "--dump-after", name]) == 2
        assert said in capsys.readouterr().err
    assert main([*arguments, "--dump-after", "graph", "--json"]) == 2
    assert "needs --dump DIR" in capsys.readouterr().err


def test_a_compile_that_fails_dumps_what_it_had_made_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder finds no room for a field; all before it is there, and it names the error."""

    def refused(*_: object) -> object:
        raise LoweringError("encode: x_size 70000 does not fit 16 bits")

    before = dumped("vtaq")
    monkeypatch.setattr(Encode, "run", refused)
    model, folder = tmp_path / "block.tflite", tmp_path / "stopped"
    model.write_bytes(residual_block())
    arguments = ["compile", str(model), "-t", "vtaq-tiny", "-o", str(tmp_path / "block.lds")]
    assert main([*arguments, "--dump", str(folder)]) != 0
    assert "x_size 70000 does not fit 16 bits" in capsys.readouterr().err
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "01-frontend-import.txt"
    (last,) = folder.glob("*-program-encode.vta_0.txt")
    assert names[-1] == last.name
    assert last.read_text() == "# stopped: encode: x_size 70000 does not fit 16 bits\n"
    written = {name: (folder / name).read_text() for name in names[:-1]}
    assert any("-program-allocate" in name for name in written)
    assert written == {name: before[name] for name in written}


def test_an_unknown_pass_is_refused_before_anything_is_compiled() -> None:
    with pytest.raises(ConfigError, match="did you mean synchronize"):
        Dump(after="synchronise")


def test_operators_without_a_kernel_show_their_operations() -> None:
    """A concatenation by copies has no kernel; a reshape has no operations either."""
    config = load_config("vtaq-tiny")
    a, b = (lo.tensor(name, (1, 4, 4, 8)) for name in "ab")
    joined = lo.tensor("joined", (1, 4, 4, 16))
    flat = lo.tensor("flat", (1, 2, 8, 16))
    flags = {"low": -128, "high": 127, "rounding": Rounding.SINGLE}
    operators = [
        g.Concatenate(name="concat", inputs=(a, b), outputs=(joined,), axis=3, **flags),
        g.Reshape(name="reshape", inputs=(joined,), outputs=(flat,)),
    ]
    region = OffloadedRegion("region", operators, (), (a, b, flat), config)
    shown = {run.subject: run.text() for run in region.runs if run.text and run.name != "encode"}
    assert "store joined[" in shown["concat"]
    assert shown["reshape"] == "# nothing to do: its tensors share memory\n"
    # Of a reshape there is nothing to verify, and so the log does not say that it was.
    looked = {run.subject: run.verified for run in region.runs if run.name == "operations"}
    assert looked == {"concat": True, "reshape": False}
