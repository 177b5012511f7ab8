"""What can go wrong, as one tree of exceptions.

In:   nothing.
Out:  the exception classes every stage raises.
Next: cli.py turns a LoadstoneError into one line on stderr and exit status 2.

    LoadstoneError                 a user's mistake or a limit: one clear line, no traceback
     +-- ConfigError               a device description that cannot be used
     +-- EncodingError             a field or opcode that the instruction set cannot express
     +-- AssemblerError            assembler text that does not parse
     +-- ArtifactError             a file that is not a sound artifact, or for another device
     +-- ModelError                a model file that cannot be read
     |    +-- UnsupportedError     a model that can be read, but holds what Loadstone does not do
     +-- TargetError               a target string, alias or attribute that means nothing
     +-- LoweringError             a stage met what it cannot lower (names the stage)
     +-- DeviceError               the device, the driver or the runtime reported an error
     |    +-- DeviceHungError      the deadline passed without progress
     +-- SimulationError           the simulator stopped a program: bounds, deadlock, cycle limit

Our own mistakes are `assert`s and never LoadstoneErrors.
A message names the thing, its value, the limit, and what to do:
`LOAD.y_pad_0=16 does not fit 4 bits [0, 15]`.
"""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "AssemblerError",
    "ConfigError",
    "DeviceError",
    "DeviceHungError",
    "EncodingError",
    "LoadstoneError",
    "LoweringError",
    "ModelError",
    "SimulationError",
    "TargetError",
    "UnsupportedError",
]


class LoadstoneError(Exception):
    """Base of everything a user can cause; its text is one line."""


class ConfigError(LoadstoneError):
    """A device description that cannot be used: names the field, its value and the limit."""


class EncodingError(LoadstoneError):
    """A field value, opcode or byte stream that the instruction set cannot express."""


class AssemblerError(LoadstoneError):
    """Assembler text that does not parse: names the line and what was expected."""


class ArtifactError(LoadstoneError):
    """A file that is not a sound artifact, or one made for another device."""


class ModelError(LoadstoneError):
    """A model file that cannot be read."""


class UnsupportedError(ModelError):
    """A model that can be read but holds an operator or form that Loadstone does not do."""


class TargetError(LoadstoneError):
    """A target string, alias or attribute that means nothing."""


class LoweringError(LoadstoneError):
    """A compiler stage met what it cannot lower; the text begins with the stage's name."""


class DeviceError(LoadstoneError):
    """The device, the driver or the C runtime reported an error status."""


class DeviceHungError(DeviceError):
    """The deadline passed while the device made no progress."""


class SimulationError(LoadstoneError):
    """The simulator stopped a program: access out of bounds, deadlock, cycle limit, race."""
