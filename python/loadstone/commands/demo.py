"""`loadstone demo`: what Loadstone does today, on a sample.

In:   nothing.
Out:  the devices.
Next: the same command shows more as the project grows.
"""

from __future__ import annotations

import argparse

from loadstone.commands import devices
from loadstone.vta.hw_config import device_names, load_config

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Takes no arguments."""


def run(args: argparse.Namespace) -> None:
    """Prints the devices."""
    print(devices.table([load_config(name) for name in device_names()]))
