# SPDX-License-Identifier: Apache-2.0
"""`loadstone generate MODEL.lds TEXT`: a language model writes on behind a text.

In:   an artifact that was compiled from a GGUF file, with the words beside it; a text.
Out:  the text as it grows, then its speed; or both as JSON.
Next: a person, or a script.
"""

from __future__ import annotations

import argparse
import sys

from loadstone.commands.answers import json_text
from loadstone.commands.decoder_options import add_decoder_run_options
from loadstone.language.generate import Generated, generate

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone compile model.gguf -t vtaq-1x16x16 -o model.lds             first: the artifact, and model.words.json beside it
  loadstone generate model.lds "The capital of France is"               64 tokens, always the most likely one
  loadstone generate model.lds "Once upon a time" --tokens 200 --temperature 0.8 --seed 7
  echo "Dear reader," | loadstone generate model.lds -                  the text from standard input
  loadstone generate model.lds "1 + 1 =" --json                         text, tokens, cycles_per_token ... as JSON
  loadstone generate model.lds "Hello" --device uio:/dev/uio0           on a board
  loadstone generate model.lds "Hello" --tokenizer model.gguf           words from elsewhere
  loadstone generate chat.lds $'<|im_start|>user\\nWho are you?<|im_end|>\\n<|im_start|>assistant\\n'

The text goes on as the model was trained to; a model for conversations is asked with its own signs around the question, as above (SmolLM2).
It ends at a token that ends texts, after --tokens, or when the window is full (compile with --shape window=N).
The same seed gives the same text on every device and machine: scores are defined to the bit (docs/language-models.md).

speed: the device's by its cycles and clock; the host's by the processor time of its steps on this machine, one thread; both, one after the other.
devices: as in `loadstone run`
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL, TEXT and the options."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("what is written")
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact of a .gguf file")
    parser.add_argument("text", metavar="TEXT", help="what it goes on from; - reads it")
    what.add_argument(
        "--tokens", metavar="N", type=int, default=64, help="as many at most (default: %(default)s)"
    )
    what.add_argument(
        "--temperature",
        metavar="T",
        type=float,
        default=0.0,
        help="0 (default): the most likely token; above: drawn, the likely ones less often the higher it is",
    )
    what.add_argument(
        "--seed", metavar="S", type=int, default=0, help="of what is drawn (default: %(default)s)"
    )
    add_decoder_run_options(parser, what)


def run(args: argparse.Namespace) -> None:
    """Writes the text, then its speed."""
    text = sys.stdin.read() if args.text == "-" else args.text

    begun = False

    def show(piece: str) -> None:
        nonlocal begun
        if not args.json:
            print(piece if begun else text + piece, end="", flush=True)
        begun = True

    made = generate(
        args.model,
        text,
        tokens=args.tokens,
        temperature=args.temperature,
        seed=args.seed,
        device=args.device,
        tokenizer=args.tokenizer,
        show=show,
    )
    print(json_text(made.to_json()) if args.json else "\n\n" + _speed(made))


def _speed(made: Generated) -> str:
    """How much was written, and how fast."""
    ends = {"end": "the text has ended", "tokens": "as many as asked for", "window": "window full"}
    counted = (
        f"{made.cycles_per_token:,} cycles a token at {made.clock_mhz} MHz"
        if made.cycles_per_token
        else "measured on this machine: it counts no cycles"
    )
    first = (
        f"; the first one after {made.prompt_cycles / made.clock_mhz / 1e6:.2f} s of the device"
        if made.prompt_cycles
        else ""
    )
    return "\n".join(
        (
            f"{len(made.tokens)} tokens behind {made.prompt_tokens} of the prompt{first}; {ends[made.ended_by]}",
            f"  {made.device:<14} {made.device_per_second:8.1f} tokens a second, {counted}",
            f"  {'host':<14} {made.host_per_second:8.1f} tokens a second, its steps on one thread of this machine",
            f"  {'both':<14} {made.per_second:8.1f} tokens a second, one after the other",
        )
    )
