# SPDX-License-Identifier: Apache-2.0
"""docs/passes.md: the list of passes, for people.

In:   PASSES.
Out:  the page's text.
Next: tests/passes/test_page.py holds the page against it, and writes it anew.
"""

from __future__ import annotations

from loadstone.passes.table import PASSES, STAGES, CompilerPass

__all__ = ["passes_page"]

_HEAD = """\
# Passes

Every step from the model's file to the artifact's bytes, in the order in which a compile runs them.
The compiler runs a pass by its name in `python/loadstone/passes/table.py`, from which this page is
written; a pass out of the list's order stops it.

- `loadstone compile --dump DIR` writes what each pass made, as `DIR/FILE.SUBJECT.txt` with the file
  names below; the subject is the operator, or the segment, that the pass worked on. The file in
  front of it is what the pass was given.
- A compile that fails writes what its passes had made all the same; the last file begins with
  the error, and has the name of the pass in which it came.
- `--dump-after NAME` prints what one pass made.
- `--verify` runs the verifier of each: a function that checks what must hold behind the pass by
  other means than the pass works with. In the tests all verifiers run. What one finds is a mistake
  of the compiler's, never of the model's: please report it.

A compile runs the passes that apply: those of quantization for a float model with samples, those of
TensorIR (`schedule`, `loops`, `nests`, `copies`) where a schedule is made with TVM's primitives or
a back end has passes of its own, those of `program` for VTA and its kind, those of `table` for
accelerators that an instruction table describes.
"""

_TITLES = "| file | what it does | before | behind | verifier |"


def passes_page() -> str:
    """Markdown, a section for each stage."""
    return "\n".join([_HEAD, *(part for stage in STAGES for part in _section(stage))])


def _section(stage: str) -> list[str]:
    head = [
        "| file | what it does | before | behind | verifier |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows = [_row(entry) for entry in PASSES if entry.stage == stage]
    return [f"## {stage.capitalize()}", "", *head, *rows, ""]


def _row(entry: CompilerPass) -> str:
    verifier = f"`{entry.verifier}`" if entry.verifier else "none"
    name = f"`{entry.file_name}`<br>`{entry.module}`"
    return f"| {name} | {entry.does} | {entry.before} | {entry.after} | {verifier} |"
