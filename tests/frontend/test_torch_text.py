# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_text.py: no text of a .pt2 file runs as code; what the exporter writes is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
from torch import nn

from loadstone.errors import ModelError
from loadstone.frontend.torch import from_bytes
from loadstone.frontend.torch_text import MAX_EXPRESSION_CHARACTERS, checked_program
from loadstone.relax.compat import shape
from tests.frontend.torch_programs import Change, changed, saved

BATCH = torch.export.Dim("batch", min=2, max=64)
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"


class Halves(nn.Module):
    """Sizes that are sums, products and quotients of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Any, more: Any) -> Any:
        """(N, 6), (N, 6) -> (N, 8)."""
        y = self.layer(torch.cat([x, more]))
        rows = y.reshape(2 * x.shape[0], 4)[: 2 * (y.shape[0] // 2)]
        return rows.reshape(x.shape[0], -1)


@pytest.fixture(scope="module")
def good() -> bytes:
    args = (torch.zeros(4, 6), torch.zeros(4, 6))
    shapes = ({0: BATCH}, {0: BATCH})
    return saved(torch.export.export(Halves().eval(), args, dynamic_shapes=shapes))


def every(tree: Any, key: str, value: Any) -> None:
    """Sets the value of a key wherever it stands."""
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    if isinstance(tree, dict) and key in tree:
        tree[key] = value
    for item in items:
        every(item, key, value)


def renamed(tree: Any, old: str, new: str) -> Any:
    """A name, everywhere."""
    return json.loads(json.dumps(tree).replace(json.dumps(old), json.dumps(new)))


def replace_name(old: str, new: str) -> Change:
    def change(tree: dict[str, Any]) -> None:
        made = renamed(tree, old, new)
        tree.clear()
        tree.update(made)

    return change


def nodes(tree: dict[str, Any]) -> Any:
    return tree["graph_module"]["graph"]["nodes"]


def spec(kind: str, context: Any) -> str:
    leaf = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": json.dumps(context), "children_spec": [leaf]}])


TOUCH = "__import__('pathlib').Path({path!r}).touch()"
#: What stands in the place of a symbolic size. `TOUCH` makes a file when it is evaluated.
EXPRESSIONS = (
    TOUCH,
    "Symbol('s0') + " + TOUCH,
    "Symbol(" + TOUCH + ")",
    "Symbol(str(" + TOUCH + "), integer=True)",
    "Symbol('s0', positive=" + TOUCH + ")",
    "Add(Symbol('s0', integer=True), eval(\"" + TOUCH + '"))',
    "[" + TOUCH + "][0]",
    "(lambda: " + TOUCH + ")()",
    "Integer.__class__.mro.__self__",
    'sympify("' + TOUCH + '")',
    "Lambda(Symbol('x'), 1)",
    "preview",
    "f'{" + TOUCH + "}'",
    "Mod(Symbol('s0'), (y := 3))",
    "Integer(1) if " + TOUCH + " else 2",
    "Pow(Integer(9), Integer(1000000000))",
    "9 ** 9 ** 9",
    "Pow(Pow(Integer(9), Integer(60)), Integer(60))",
    "LShift(Integer(1), Integer(10000000000))",
    "Pow(Integer(2), Symbol('s0'))",
    "1" + "0" * 100,
    "factorial(Integer(100000))",
    "(" * 300 + "1" + ")" * 300,
    "-" * 500 + "1",
    "1+" * MAX_EXPRESSION_CHARACTERS + "1",
    "s0 +",
    "s0; s0",
    "Symbol('a b')",
    "Float('1', precision=10000000000)",
    "*s0",
    "s0.args",
    "s0[0]",
    "'text'",
    "Symbol('s0', **{'integer': True})",
    "Symbol(*['s0'])",
    "x!",
)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_an_expression_is_refused_and_not_evaluated(
    expression: str, good: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "touched"
    text = expression.replace("{path!r}", repr(str(path)))
    file = changed(good, MODEL, lambda tree: every(tree, "expr_str", text))
    with pytest.raises(ModelError, match=r'net.pt2: the symbolic size "') as caught:
        from_bytes(file, "net.pt2")
    assert "\n" not in str(caught.value)
    assert not path.exists()


#: Other places that PyTorch evaluates, imports, or writes into the code of a graph.
CHANGES: dict[str, tuple[str, Change, str]] = {
    "an expression that is a list": (
        MODEL,
        lambda tree: every(tree, "expr_str", ["1"]),
        "damaged file",
    ),
    "a function of Python": (
        MODEL,
        lambda tree: nodes(tree)[0].update(target="torch.os.system"),
        '"torch.os.system" is no operator of a model',
    ),
    "a function of operator": (
        MODEL,
        lambda tree: nodes(tree)[0].update(target="_operator.methodcaller"),
        "is no operator of a model",
    ),
    "an operator that reads files": (
        MODEL,
        lambda tree: nodes(tree)[0].update(target="torch.ops.aten.from_file.default"),
        "which touch no files",
    ),
    "an operator that is an argument": (
        MODEL,
        lambda tree: nodes(tree)[0]["inputs"][0].update(arg={"as_operator": "torch.hub.load"}),
        '"torch.hub.load" is no operator',
    ),
    "an extension's operator": (
        MODEL,
        lambda tree: nodes(tree)[0].update(target="#aoti:x"),
        "is no operator of a model",
    ),
    "a name with code in it": (
        MODEL,
        replace_name("linear", "linear = 1; import antigravity"),
        "stands where a name does, and is none",
    ),
    "an input's name with code in it": (
        MODEL,
        replace_name("more", "more=print(1)"),
        "stands where a name does, and is none",
    ),
    "a weight's name with a quote": (
        MODEL,
        replace_name("layer.weight", 'layer"), print("'),
        "holds other characters than names do",
    ),
    "a structure that is imported": (
        MODEL,
        lambda tree: every(
            tree,
            "in_spec",
            spec("collections.defaultdict", {"default_factory_module": "antigravity"}),
        ),
        'a "collections.defaultdict": use tensors',
    ),
    "a key that is imported": (
        MODEL,
        lambda tree: every(
            tree,
            "out_spec",
            spec("builtins.dict", [{"__enum__": True, "fqn": "antigravity:a", "name": "b"}]),
        ),
        "nested is not sound",
    ),
    "a structure of no form": (MODEL, lambda tree: every(tree, "in_spec", "[1"), "not sound"),
    "pickled weights": (
        WEIGHTS,
        lambda tree: every(tree, "use_pickle", True),
        "stored as a pickled object, which could run code",
    ),
    "weights elsewhere": (
        WEIGHTS,
        lambda tree: every(tree, "path_name", "../constants/custom_obj_0"),
        "where PyTorch stores no tensor",
    ),
    "weights of no form": (WEIGHTS, lambda tree: every(tree, "config", [1]), "not sound"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_could_run_is_refused(case: str, good: bytes) -> None:
    member, change, message = CHANGES[case]
    with pytest.raises(ModelError) as caught:
        from_bytes(changed(good, member, change), "net.pt2")
    assert str(caught.value).startswith("net.pt2: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_guards_and_traces_are_left_out(good: bytes, tmp_path: Path) -> None:
    touch = f"__import__('pathlib').Path({str(tmp_path / 'touched')!r}).touch()"

    def change(tree: dict[str, Any]) -> None:
        tree["guards_code"] = [touch]
        for node in nodes(tree):
            node["metadata"].update(source_fn_stack="a,torch.os", custom=touch, stack_trace=touch)

    from_bytes(changed(good, MODEL, change), "net.pt2")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"a": ' + b"[" * 100000 + b"]" * 100000 + b"}"])
def test_what_is_no_program_is_one_line(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"^net: a damaged file: its program is"):
        checked_program(data, "net")


class Nested(nn.Module):
    """A dict and a tuple, in and out; names of modules that no identifier may have."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("block-1", nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)))

    def forward(self, pair: tuple[Any, Any], named: dict[str, Any]) -> Any:
        """Sums of products."""
        y = self.get_submodule("block-1")(pair[0]) * pair[1]
        return {"the sum": (y + named["more"], torch.clamp(y, min=0)), "last": [y]}


def test_what_the_exporter_writes_is_read(good: bytes) -> None:
    """Symbolic batches with arithmetic, containers, constants that are lifted."""
    assert [shape(each) for each in from_bytes(good, "net.pt2")["main"].params] == [(1, 6), (1, 6)]
    x, batch = torch.zeros(4, 6), {0: BATCH}
    program = torch.export.export(
        Nested().eval(),
        ((x, x), {"more": x}),
        dynamic_shapes=((batch, batch), {"more": batch}),
    )
    assert len(from_bytes(saved(program), "net.pt2")["main"].params) == 3
    sizes = (
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s77', integer=True))",
        "Add(Mul(Integer(-1), FloorDiv(Symbol('s0', integer=True), Integer(2))), Integer(3))",
        "Max(Integer(1), Min(Mod(Symbol('u0', integer=True), 3), Pow(Symbol('s1'), Integer(2))))",
        "Float('0.10000000000000001', precision=53)",
        "StrictLessThan(Symbol('s0'), Integer(7))",
        "2*s0 + s1//3",
    )
    program_json = json.dumps({"sizes": [{"as_expr": {"expr_str": text}} for text in sizes]})
    assert json.loads(checked_program(program_json.encode(), "net"))["sizes"]
