# SPDX-License-Identifier: Apache-2.0
"""The command line: `loadstone COMMAND ...`.

In:   sys.argv.
Out:  text on stdout; a user's mistake is one line on stderr and exit status 2, with --json also a
      value on stdout.
Next: loadstone/commands/<command>.py, imported only when the command is called, so that `loadstone
      disasm` on a board needs neither TVM nor a compiler.

To add a command: one line in COMMANDS, and a module commands/<name>.py with

    def configure(parser: argparse.ArgumentParser) -> None    adds arguments; an epilog with
                          examples
    def run(args: argparse.Namespace) -> int | None           does it; None and 0 are success
    def extend(parser, words: Sequence[str]) -> None          optional: adds arguments that depend
                              on those given (plug-ins)
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from loadstone.errors import (
    MAX_MESSAGE_CHARACTERS,
    LoadstoneError,
    Refusal,
    UnsupportedError,
    VerificationError,
    not_installed,
    shortened,
    suggestion,
)
from loadstone.printable import one_line

__all__ = ["COMMANDS", "main"]

#: Command -> its purpose; in the order of the data flow.
COMMANDS = {
    "demo": "run the whole flow on a sample network, in a few seconds",
    "quantize": "quantize a float model to int8, and report the loss of accuracy",
    "compile": "compile a model to an artifact for a device",
    "tune": "search for schedules that are faster than the compiler's own",
    "target": "list the targets: accelerators, boards, attributes",
    "backend": "create a back end of your own: a template that works, and its test",
    "conform": "test a back end with generated operators: taken, refused (with the reason), wrong",
    "doctor": "list which parts are installed, and their purpose",
    "completion": "print the code by which a shell completes commands and options",
    "devices": "show the devices: geometry, scratchpads, speed, capabilities",
    "run": "run a compiled model on a device, and compare its outputs with expected ones",
    "generate": "let a language model write on behind a text, and say how fast it is",
    "perplexity": "measure how well a language model predicts texts, beside its float network",
    "profile": "show the cycles and the bound of each layer: a table, a page, a trace",
    "bound": "how long responses take at most, of networks that share a device",
    "compare": "find the first layer whose results differ from the framework's",
    "prove": "prove that a compiled model computes its network, for every input",
    "inspect": "show the contents of a compiled model",
    "sweep": "find the best device for given networks: time, energy and area of many devices",
    "export": "write a small C project that runs a compiled model",
    "disasm": "disassemble: print instructions as text, one line each",
    "asm": "assemble: convert text to instruction bytes",
    "mcp": "serve compile, explain, profile, compare, conform and disasm to other programs (MCP)",
    "serve": "share one device among processes: their networks run by priorities",
    "simd": "serve the simulator to other processes: registers over a socket, DMA in a shared file",
    "replay": "run conformance vectors on the simulator: memory byte for byte, and cycles",
    "vectors": "write conformance vectors from a model or a program, for a hardware team's RTL",
}

_EPILOG = """\
examples:
  loadstone demo                          the whole flow on a sample network
  loadstone devices                       one line for each device
  loadstone devices vtaq-1x16x16          all properties of one
  loadstone COMMAND --help                examples and arguments of a command
  source <(loadstone completion bash)     complete commands and options with the Tab key

exit status: 0 done; 1 a check found a difference; 2 a user's mistake, in one line on stderr
"""

#: Package -> the extra that installs it; other packages are those of `compiler`.
_EXTRAS = dict.fromkeys(("dask", "distributed", "optuna", "pyarrow", "yaml"), "search")
_EXTRAS |= dict.fromkeys(("anyio", "mcp"), "mcp")
_AS_JSON = "--json"
_EXIT_MISTAKE = 2
_EXIT_OUR_MISTAKE = 70  # EX_SOFTWARE of BSD's exit statuses
_EXIT_INTERRUPTED = 130  # 128 + SIGINT
_EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None, interrupted: Callable[[], bool] = lambda: False) -> int:
    """Runs one command; returns the exit status. Only our own errors end in tracebacks; so does an
    exception that a library made of Ctrl-C, where `interrupted` reports that there was one."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # NumPy's and other libraries': not for who runs a command
    try:
        _check_words(words)
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what could stand here
            _complete()
        args = _parser(words).parse_args(words or ["--help"])
        status = int(args.run(args) or 0)
        print(end="", flush=True)
        return status
    except BrokenPipeError:  # the reader has left: `loadstone disasm ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except VerificationError as error:  # our own mistake, found and named: one line, too
        return _mistake(error, error, words, _EXIT_OUR_MISTAKE)
    except (LoadstoneError, OSError, ImportError) as error:
        ours = isinstance(error, ImportError) and str(error.name).partition(".")[0] == "loadstone"
        if ours or interrupted():
            raise
        return _mistake(_reason(error), error, words)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return _EXIT_INTERRUPTED


def _reason(error: LoadstoneError | OSError | ImportError) -> object:
    """What the one line says."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return _absent(error) if isinstance(error, ImportError) else error


def _absent(error: ImportError) -> str:
    """What a library lacks: the library itself, or its memory and parts."""
    if not isinstance(error, ModuleNotFoundError):
        return f"{error.name or 'a library'} cannot be loaded: {error}"
    extra = _EXTRAS.get(str(error.name).partition(".")[0], "compiler")
    return not_installed(str(error.name), extra)


def _check_words(words: Sequence[str]) -> None:
    """Raises LoadstoneError for a word that cannot be the name of a file."""
    if any("\0" in word for word in words):  # from a program: no shell can pass one
        raise LoadstoneError("a zero byte in the command: a name that no file can have")
    if any(word in ("", "-o=", "--output=") for word in words):  # `-o "$UNSET"`; "" is also "."
        raise LoadstoneError("an empty word in the command: a name that no file can have")


def _complete() -> None:
    from loadstone.commands.completion import complete, words_so_far

    complete(_parser(words_so_far()))


def _mistake(
    what: object, error: Exception, words: Sequence[str], status: int = _EXIT_MISTAKE
) -> int:
    """Says it in one line on stderr, and with --json as a value on stdout."""
    text = shortened(f"loadstone: {one_line(what)}", MAX_MESSAGE_CHARACTERS)
    print(text, file=sys.stderr)
    if _AS_JSON in words:
        refusal = error.refusal if isinstance(error, UnsupportedError) else None
        kind = type(error).__name__
        _print_error(kind, text.removeprefix("loadstone: "), status, refusal)
    return status


def _print_error(kind: str, message: str, status: int, refusal: Refusal | None = None) -> None:
    """commands/schemas/error.json: of a refusal also its parts, as far as it has them."""
    parts = {} if refusal is None else {**vars(refusal), "reason": refusal.why}
    shown = ("model", "operator", "node", "reason", "remedy")
    said = {name: one_line(parts[name]) for name in shown if parts.get(name)}
    error = {"type": kind, "message": message, "exit_status": status, **said}
    print(json.dumps({"error": error}, indent=2), flush=True)


class _Parser(argparse.ArgumentParser):
    """Reports an error in the arguments in one line, keeps the line breaks of epilogs, and begins
    its help with the examples. words: of the command line."""

    words: Sequence[str] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                "allow_abbrev": False,
                **options,
            }
        )

    def format_help(self) -> str:
        """What it does, examples, then the arguments by groups; the rest of the epilog last."""
        description, epilog = self.description, self.epilog or ""
        examples, _, rest = epilog.partition("\n\n")
        if not examples.startswith("examples:"):
            examples, rest = "", epilog
        self.description, self.epilog = None, rest
        try:
            arguments = super().format_help()
        finally:
            self.description, self.epilog = description, epilog
        return (
            "\n\n".join(part.rstrip() for part in (description, examples, arguments) if part) + "\n"
        )

    def error(self, message: str) -> NoReturn:
        near = self._near(message)
        text = shortened(one_line(message), MAX_MESSAGE_CHARACTERS - 80 - len(near)) + near
        if _AS_JSON in self.words:
            _print_error("ArgumentError", f"{self.prog}: {text}", _EXIT_MISTAKE)
        self.exit(_EXIT_MISTAKE, f"{self.prog}: {text} (see {self.prog} --help)\n")

    def _near(self, message: str) -> str:
        """What was meant by an option, or by one of a few words, that does not exist."""
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        if choice is not None:
            return suggestion(choice[1], re.findall(r"'([^']*)'", choice[2]))
        known = list(_options(self))
        words = (word.partition("=")[0] for word in self.words if word.startswith("--"))
        for word in words:
            if word not in known and (near := suggestion(word, known)):
                return near if word in message else f"; {word} is no option{near}"
        return ""


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options, including those of the command that was called."""
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                yield from _options(command)


class _Version(argparse.Action):
    """Prints more than a number, which is determined only on request."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from loadstone.commands.doctor import version_text

        print(version_text())
        parser.exit()


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with every command's name, and the arguments of the command in `words`."""
    parser = _Parser(
        prog="loadstone",
        description="From a trained int8 network to an accelerator nobody can write C for.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action=_Version, help="version, commit, TVM's version")
    parser.words = words
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    wanted = next((word for word in words if not word.startswith("-")), None)
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        if name == wanted:
            sub.words = words
            module = importlib.import_module(f"loadstone.commands.{name}")
            module.configure(sub)
            if hasattr(module, "extend"):
                module.extend(sub, words)
            sub.set_defaults(run=module.run)
    return parser
