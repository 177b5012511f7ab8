# SPDX-License-Identifier: Apache-2.0
"""Options of accelerators, built in and from plug-ins: a parser in two phases, shared by the
commands that take a target.

In:   the words of the command line: first only --uma-backends is read, and its folders are loaded.
Out:  `args.plugins`; an option --target-NAME-ATTRIBUTE for every attribute; a line on stderr for
      each broken plug-in.
Next: target.with_attributes puts the values into the target.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadstone.backend.interface import Attribute
    from loadstone.backend.plugins import Registry
    from loadstone.backend.target import TargetSource

__all__ = ["add_plugin_options", "target_of"]

_PREFIX = "target attribute "
_HELP_TARGETS = "--help-targets"


def add_plugin_options(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    *,
    attributes: bool = True,
    installed: bool = True,
) -> None:
    """Adds --uma-backends and, with `attributes`, the options of the plug-ins that it names. Raises
    TargetError for a path that is neither a folder nor a *.py file."""
    group = parser.add_argument_group("back ends of your own")
    group.add_argument(
        "--uma-backends",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder whose *.py files define back ends, or one such file; may be repeated",
    )
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--uma-backends", action="append", default=[])
    try:
        folders = first.parse_known_args(list(words))[0].uma_backends
    except argparse.ArgumentError:  # --uma-backends without a folder: the second phase says so
        folders = []
    if folders or installed:
        # here: searching for them takes as long as reading an artifact, and most commands need none
        from loadstone.backend.plugins import load_plugins

        plugins = load_plugins(folders, installed)
        for problem in plugins.problems:
            print("loadstone:", problem, file=sys.stderr)
        parser.set_defaults(plugins=plugins)
    if attributes and installed:
        shown = _HELP_TARGETS in words
        _add_attributes(parser, plugins, shown)
        group.add_argument(
            _HELP_TARGETS, action="help", help="show the attributes of accelerators, too"
        )


def _add_attributes(parser: argparse.ArgumentParser, plugins: Registry, shown: bool) -> None:
    """shown: whether --help lists them; they are many."""
    from loadstone.backend.builtin import attributes_of_device, device_names, load_config

    known = {name: attributes_of_device(load_config(name)) for name in device_names()}
    for name, attributes in {
        **known,
        **{name: backend.target_attributes for name, backend in plugins.backends.items()},
    }.items():
        group = parser.add_argument_group(f"attributes of accelerator {name}") if shown else parser
        for entry in attributes:
            group.add_argument(
                f"--target-{name}-{entry.name}",
                dest=f"{_PREFIX}{name} {entry.name}",
                metavar=type(entry.default).__name__.upper(),
                help=_described(entry) if shown else argparse.SUPPRESS,
            )


def _described(entry: Attribute) -> str:
    limits = f", {entry.limits}" if entry.limits else ""
    return f"{entry.doc}{limits} (default: {entry.default})".replace("%", "%%")


def target_of(args: argparse.Namespace, target: str | Sequence[str]) -> TargetSource:
    """The target, with the values of those options. Raises TargetError."""
    from loadstone.backend.target import with_attributes
    from loadstone.backend.target_spec import parse_target

    given = {
        key[len(_PREFIX) :]: text
        for key, text in vars(args).items()
        if key.startswith(_PREFIX) and text is not None
    }
    if not given:
        return target
    pairs = {
        (name, attribute): text
        for (name, attribute), text in ((key.split(" "), text) for key, text in given.items())
    }
    return with_attributes(parse_target(target), pairs)
