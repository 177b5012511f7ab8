# SPDX-License-Identifier: Apache-2.0
"""`loadstone completion SHELL`: completion of commands, options and device names in a shell.

In:   a shell's name; from the shell itself, the words so far.
Out:  a script on stdout; completions, by argcomplete.
Next: cli.py calls `complete` when a shell asks for completions.
"""

from __future__ import annotations

import argparse
import os
import shlex
from types import ModuleType
from typing import Any

from loadstone.commands.answers import add_json_option, answer
from loadstone.errors import ConfigError

__all__ = ["complete", "configure", "run", "words_so_far"]

_EPILOG = """\
examples:
  source <(loadstone completion bash)                                        in this shell; in ~/.bashrc, in every one
  source <(loadstone completion zsh)                                         the same in ~/.zshrc, behind compinit
  loadstone completion fish > ~/.config/fish/completions/loadstone.fish
"""
_SHELLS = ("bash", "zsh", "fish")
_OF_DEVICES = frozenset({"--device", "--target", "-t"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds SHELL."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    add_json_option(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the script."""
    script = str(_argcomplete().shellcode(["loadstone"], shell=args.shell))
    answer(args, {"shell": args.shell, "script": script}, script.splitlines())


def words_so_far() -> list[str]:
    """The command line that a shell wants to complete, without the program's name."""
    line = os.environ["COMP_LINE"]
    line = line.encode()[: int(os.environ.get("COMP_POINT", len(line)))].decode(errors="ignore")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # a quotation mark that is still open
        return line.split()[1:]


def complete(parser: argparse.ArgumentParser) -> None:
    """Prints the completions, and ends the process."""
    module = _argcomplete()
    files = module.completers.FilesCompleter()

    def names(prefix: str, action: argparse.Action, **rest: Any) -> list[str]:
        if _OF_DEVICES.isdisjoint(action.option_strings):
            return list(files(prefix=prefix, action=action, **rest))
        from loadstone.backend.builtin import device_names

        return [name for name in device_names() if name.startswith(prefix)]

    module.autocomplete(parser, default_completer=names)


def _argcomplete() -> ModuleType:
    try:
        import argcomplete
    except ModuleNotFoundError:
        raise ConfigError(
            "completion needs argcomplete: pip install 'loadstone[terminal]'"
        ) from None
    module: ModuleType = argcomplete
    return module
