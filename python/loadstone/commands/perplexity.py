# SPDX-License-Identifier: Apache-2.0
"""`loadstone perplexity MODEL.lds FILES...`: how well a compiled language model predicts texts.

In:   an artifact that was compiled from a GGUF file, with the words beside it; texts; that file.
Out:  its perplexity on the device, and that of the float network; or both as JSON.
Next: a person, or a script.
"""

from __future__ import annotations

import argparse
import sys

from loadstone.commands.answers import json_text
from loadstone.commands.decoder_options import add_decoder_run_options
from loadstone.language.perplexity import Perplexity, perplexity

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone perplexity model.lds README.md                                  what the compiled model reaches
  loadstone perplexity model.lds README.md docs/*.md --against model.gguf   beside the float network
  loadstone perplexity model.lds book.txt --tokens 3000                     a part, spread over the text
  loadstone perplexity model.lds book.txt --against model.gguf --json       perplexity, perplexity_float ...

Perplexity is e to the mean of -log(probability) of each token: as if the model had to choose among so many words that are equally likely.
Texts are cut into windows as long as the model's; each begins with empty caches, and each of its tokens but the first is predicted.
The difference has a +-: what so few tokens leave open (a standard deviation). Perplexities of different tokenizers or texts say nothing of each other.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL, FILES and the options."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("what is measured")
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact of a .gguf file")
    parser.add_argument("files", metavar="FILE", nargs="+", help="texts in UTF-8")
    what.add_argument(
        "--against", metavar="MODEL.gguf", help="the model's own file: float32, by NumPy"
    )
    what.add_argument(
        "--tokens",
        metavar="N",
        type=int,
        help="so many or some more, in windows spread evenly over the texts (default: all)",
    )
    add_decoder_run_options(parser, what)


def run(args: argparse.Namespace) -> None:
    """Measures, and prints."""
    made = perplexity(
        args.model,
        args.files,
        against=args.against,
        tokens=args.tokens,
        device=args.device,
        tokenizer=args.tokenizer,
        progress=_progress,
    )
    print(json_text(made.to_json()) if args.json else _text(made))


def _progress(done: int, count: int) -> None:
    """On a terminal, rewritten; cleared at the end."""
    if sys.stderr.isatty():
        text = "" if done == count else f"{done}/{count} tokens"
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def _text(made: Perplexity) -> str:
    lines = [f"perplexity {made.perplexity:.2f}, {made.tokens} tokens in {made.windows} windows"]
    if made.perplexity_float is not None:
        assert made.difference is not None
        assert made.difference_error is not None
        lines.append(
            f"float32    {made.perplexity_float:.2f}: {100 * made.difference:+.2f} % "
            f"(+- {100 * made.difference_error:.2f} %)"
        )
    return "\n".join(lines)
