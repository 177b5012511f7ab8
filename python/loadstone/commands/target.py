# SPDX-License-Identifier: Apache-2.0
"""`loadstone target [NAME] [--json]`: lists the targets.

In:   a target as `loadstone compile --target` takes it, or nothing for all names.
Out:  accelerators and aliases; or one target in full: its parts, their attributes and defaults; or
      JSON that parses back.
Next: `loadstone compile --target`.
"""

from __future__ import annotations

import argparse

from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options as extend
from loadstone.commands.plugin_options import target_of

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone target                               names of accelerators, and aliases of boards
  loadstone target vtaq-1x16x16                  its attributes, with defaults
  loadstone target npu --uma-backends mine/      a back end of your own
  loadstone target "vtaq-1x16x16 -clock_mhz=250,llvm -mtriple=aarch64-linux-gnu" --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds NAME and --json."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "name", nargs="?", metavar="TARGET", help="a name, an alias, a composite, or a JSON file"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> None:
    """Prints the table, or one target."""
    from loadstone.backend.target import accelerators, attributes_of, externals, resolve
    from loadstone.backend.target_spec import ALIASES, HOSTS

    if args.name is None:
        if args.json:
            print(
                json_text(
                    {
                        "accelerators": accelerators(args.plugins),
                        "aliases": ALIASES,
                        "hosts": HOSTS,
                    }
                )
            )
            return
        print("accelerators   " + "\n               ".join(accelerators(args.plugins)))
        print(
            "aliases        "
            + "\n               ".join(f"{name:<12} {text}" for name, text in ALIASES.items())
        )
        print(
            "of TVM         "
            + "\n               ".join(f"{name:<12} {state}" for name, state in externals().items())
        )
        print(
            "hosts          "
            + "\n               ".join(
                f"{name:<12} {' '.join(f'-{a}=' for a in known)}" for name, known in HOSTS.items()
            )
        )
        return
    target = resolve(target_of(args, args.name), args.plugins)
    if args.json:
        print(json_text(target.spec.to_json()))
        return
    print(target.spec)
    for entry in target.spec.accelerators:
        print(f"  accelerator {entry.name}")
        for attribute in attributes_of(entry.name, args.plugins):
            value = entry.attributes.get(attribute.name, attribute.default)
            allowed = f", {attribute.limits}" if attribute.limits else ""
            print(
                f"    -{attribute.name}={value:<8} {attribute.doc}{allowed} (default "
                f"{attribute.default})"
            )
    print(f"  host {target.spec.host}")
