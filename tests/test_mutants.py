# SPDX-License-Identifier: Apache-2.0
"""mutants.py and mutations.py: a planted survivor is found, listed ones need to survive, and a
sample of real judges' mutants is noticed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.passes.table import PASSES
from tests.judges import FUNCTIONS, JUDGES, SAMPLED
from tests.mutants import LISTED, arguments, listed, mutations_of, work
from tests.mutations import mutations

JUDGE = '''
"""0 < text: no constant."""
__all__ = ["inside"]
def inside(first: int, end: int) -> bool:
    if first < 0 or end > 8:
        raise ValueError(f"{first + 1}")
    return True
'''
TESTS = """
from planted import inside
def test_inside():
    assert inside(0, {end}) is True
    for first, end in ((-1, 4), (0, 9)):
        try:
            inside(first, end)
        except ValueError:
            continue
        raise AssertionError
"""
LIST = """planted.py
  if first < 0 or end > 8:
    end > 8 -> end >= 8  # {reason}
    end > 8 -> end > 7  # {reason}
"""


def mutants(folder: Path, *words: str) -> tuple[int, list[str]]:
    """The exit status, and the lines."""
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", *words],
        cwd=folder,
        env={"PYTHONPATH": f"{root}:{root}/python:{folder}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]


def planted(folder: Path, end: int, reason: str | None = None) -> tuple[int, list[str]]:
    """Of the judge above, whose tests look at windows that end at `end`."""
    (folder / "planted.py").write_text(JUDGE)
    (folder / "test_planted.py").write_text(TESTS.format(end=end))
    (folder / "list.txt").write_text(LIST.format(reason=reason) if reason is not None else "")
    words = ("--tests", "test_planted.py", "--list", "list.txt", "--jobs", "1")
    return mutants(folder, "planted.py", *words)


def test_changes_are_made_and_taken_back() -> None:
    tree = ast.parse(JUDGE)
    before = ast.unparse(tree)
    texts = []
    for mutation in mutations(tree):
        back = mutation.make()
        assert ast.unparse(tree) != before, mutation
        back()
        assert ast.unparse(tree) == before, mutation
        texts.append((mutation.line, mutation.text))
    assert texts == [
        (5, "first < 0 or end > 8 -> first < 0 and end > 8"),
        (5, "first < 0 -> False"),
        (5, "end > 8 -> False"),
        (5, "first < 0 -> first <= 0"),
        (5, "first < 0 -> first < -1"),
        (5, "first < 0 -> first < 1"),
        (5, "end > 8 -> end >= 8"),
        (5, "end > 8 -> end > 7"),
        (5, "end > 8 -> end > 9"),
        (6, "raise ValueError(f'{first + 1}') -> pass"),
        (7, "True -> False"),
    ]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("not x", {"not not x"}),
        ("-x", {"+x"}),
        ("a + b", {"a - b"}),
        ("a << b", {"a >> b"}),
        ("c = min(a, b)", {"c = max(a, b)"}),
        ("c = a.all()", {"c = a.any()"}),
        ("a == b == c", {"a != b == c", "a == b != c"}),
        ("a is b", {"a is not b"}),
        ("a in b", {"a not in b"}),
        ("a if b else c", {"a if False else c", "a if True else c"}),
        ("check(a)", {"pass"}),
        ("a += b", {"pass"}),
        ("if a:\n    b", {"if False:\n    b", "if True:\n    b"}),
        ("a: Final[1] = b", set()),
        ("A: TypeAlias = B | C", set()),
        ("f'{a + 1}'", set()),
        ("if TYPE_CHECKING:\n    b", set()),
    ],
)
def test_every_kind_of_change(source: str, changed: set[str]) -> None:
    tree, found = ast.parse(source), set()
    for mutation in mutations(tree):
        back = mutation.make()
        found.add(ast.unparse(tree))
        back()
    assert found == changed


def test_every_judge_has_tests_and_every_listed_mutant_exists() -> None:
    root = LISTED.parents[1]
    assert JUDGES.keys() > SAMPLED
    for name, tests in JUDGES.items():
        assert all((root / each).is_file() for each in (name, *tests))
    made = set[tuple[str, str, str]]()
    for name in {name for name, _, _ in listed(LISTED)}:
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        made |= {(name, lines[m.line - 1].strip(), m.text) for m in mutations_of(root / name)}
    assert sorted(listed(LISTED).keys() - made) == []


def test_every_verifier_of_a_pass_is_a_judge() -> None:
    for entry in PASSES:
        if not entry.verifier:
            continue
        *parts, function = entry.verifier.split(".")
        file = Path("python", "loadstone", *parts).with_suffix(".py")
        if parts[-1][0].isupper():  # a class
            file = file.parent.with_suffix(".py")
        assert str(file) in JUDGES, entry.verifier
        assert function in FUNCTIONS.get(str(file), {function})


def test_the_functions_of_a_judge_are_there() -> None:
    """Of a file that holds more, they alone are changed."""
    root = LISTED.parents[1]
    for name, functions in FUNCTIONS.items():
        tree = ast.parse((root / name).read_text(encoding="utf-8"))
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        own = [node for node in nodes if node.name in functions]
        assert {node.name for node in own} == functions
        lines = {mutation.line for mutation in mutations_of(root / name)}
        assert lines
        for line in lines:
            assert any(node.lineno <= line <= (node.end_lineno or 0) for node in own)


@pytest.mark.parametrize("name", ["runtime/isolated.c", "python/loadstone/prove/tokens.py"])
def test_a_judge_has_one_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its place in the tree, from here and from elsewhere, and by its whole path; also with
    other tests than the table's."""
    root = LISTED.parents[1]
    for folder, word in ((root, name), (tmp_path, name), (tmp_path, str(root / name)),
                         ((root / name).parent, Path(name).name)):  # fmt: skip
        monkeypatch.chdir(folder)
        for others in ([], ["--tests", "test_planted.py"]):
            ((judge, chosen),) = work(arguments([word, *others]))
            assert (judge.name, judge.path) == (name, root / name)
            assert judge.module == ("" if name.endswith(".c") else "loadstone.prove.tokens")
            assert judge.tests == (others[1:] or JUDGES[name])
            assert len(chosen) == len(mutations_of(root / name)) > 0


def test_a_reason_is_needed(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(LIST.format(reason=""))
    with pytest.raises(SystemExit, match="end > 8 -> end >= 8 has no reason"):
        listed(tmp_path / "list.txt")


def test_a_planted_survivor_is_found(tmp_path: Path) -> None:
    status, lines = planted(tmp_path, 7)
    assert status == 1
    assert lines == [
        "planted.py:5: survived: end > 8 -> end >= 8",
        "planted.py:5: survived: end > 8 -> end > 7",
        "planted.py: 11 of 11 mutants: 9 noticed, 0 without end, 2 survived, 0 of these listed",
    ]


def test_what_is_listed_may_survive_and_must(tmp_path: Path) -> None:
    status, lines = planted(tmp_path, 7, "no window ends at 8")
    assert (status, len(lines)) == (0, 1)
    assert lines[0].endswith("2 survived, 2 of these listed")
    status, lines = planted(tmp_path, 8, "no window ends at 8")
    assert status == 1
    assert lines[0] == "list.txt: end > 8 -> end >= 8 is noticed: it need not be listed"


def test_judges_that_have_no_time_are_counted(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(JUDGE)
    words = ("planted.py", "--tests", "test_planted.py", "--list", "list.txt", "--seconds", "0")
    assert mutants(tmp_path, *words) == (0, ["1 of 1 judges had no time"])


def test_tests_that_say_nothing_are_refused(tmp_path: Path) -> None:
    """Ones that fail without a mutant, and ones that do not import the judge."""
    status, lines = planted(tmp_path, 9)
    assert (status, lines) == (1, ["planted.py does not pass its own tests: test_planted.py"])
    (tmp_path / "test_planted.py").write_text("def test_nothing():\n    pass\n")
    words = ("planted.py", "--tests", "test_planted.py", "--list", "list.txt")
    status, lines = mutants(tmp_path, *words)
    assert (status, lines) == (1, ["planted.py is not imported by its tests: test_planted.py"])


@pytest.mark.parametrize(
    "judge",
    ["python/loadstone/vta/passes/synchronize/hazards.py", "python/loadstone/isa/token_proof.py"],
)
def test_a_sample_of_mutants_is_noticed(judge: str) -> None:
    words = (judge, "--seconds", "10", "--seed", "0", "--jobs", "1")
    status, lines = mutants(LISTED.parents[1], *words)
    assert (status, len(lines)) == (0, 1), lines
    assert not lines[0].startswith(f"{judge}: 0 of")


C = """/* a < 1 */
#define MOST 8
static int check(const int *p) {
  if (p->x > 8u || *p == 0) return LDS_ERR_X;
  return "x < 1"[0] - 'x';
}
"""


def test_every_kind_of_change_in_c(tmp_path: Path) -> None:
    """Comments, texts, and lines of the preprocessor stay."""
    (tmp_path / "judge.c").write_text(C)
    assert [(m.line, m.text) for m in mutations_of(tmp_path / "judge.c")] == [
        (4, "p->x > 8u || *p == 0 -> 0 in column 6"),
        (4, "> -> >= in column 11"),
        (4, "8 -> 7 in column 13"),
        (4, "8 -> 9 in column 13"),
        (4, "|| -> && in column 16"),
        (4, "== -> != in column 22"),
        (4, "0 -> 1 in column 25"),
        (5, "0 -> 1 in column 17"),
        (5, "- -> + in column 20"),
    ]


def test_a_changed_validator_is_the_one_that_is_asked() -> None:
    """In a process of its own. It refuses the end of every program."""
    program = (
        "from tests.conftest import ROOT;"
        "from tests.sample_model import copy_model;"
        "from loadstone.runtime import device;"
        "print(device.validate(copy_model())[0], end=' ');"
        "text = 'return last ? LDS_OK : LDS_ERR_FINISH';"
        "path = ROOT / 'runtime' / 'validate.c';"
        "from tests.c_mutations import with_source;"
        "source = path.read_text();"
        "assert text in source;"
        "with_source(path, source.replace(text, 'return LDS_ERR_FINISH'));"
        "print(device.validate(copy_model())[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=LISTED.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["0", "-26"], done.stderr
