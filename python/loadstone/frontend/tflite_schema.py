# SPDX-License-Identifier: Apache-2.0
"""The package `tflite` without its 205 modules: each is imported when somebody names it.

In:   the installed package, which imports all of its modules when it is imported.
Out:  `import_in_parts`: in sys.modules a package of the same name, which imports what is asked of
      it.
Next: frontend/__init__.py calls it before it imports the reader of TFLite files.

A model needs some twenty of the modules, and importing all takes longer than anything else that a
small network's compilation does once. What the package gives is what it always gives: a name that
is a module's gives that module's class, and any other name imports the whole package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType

__all__ = ["import_in_parts"]

_PACKAGE = "tflite"


class _InParts(ModuleType):
    """The package while it is not imported as a whole."""

    __spec__: ModuleSpec

    def __setattr__(self, name: str, value: object) -> None:
        """A module that is imported does not take the place of its class."""
        if not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if find_spec(f"{self.__name__}.{name}") is not None:
            found = vars(import_module(f"{self.__name__}.{name}")).get(name)
            if found is not None:
                setattr(self, name, found)
                return found
        self._import_all()
        return getattr(self, name)

    def _import_all(self) -> None:
        """As the package's own import leaves it."""
        begin = f"{self.__name__}."
        modules = {
            name.removeprefix(begin): module
            for name, module in sys.modules.items()
            if name.startswith(begin) and "." not in name.removeprefix(begin)
        }
        object.__setattr__(self, "__class__", ModuleType)
        vars(self).update(modules)
        loader = self.__spec__.loader
        assert loader is not None
        loader.exec_module(self)


def import_in_parts() -> None:
    """Nothing where the package was imported already, or is not installed."""
    if _PACKAGE in sys.modules:
        return
    spec = find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return
    package = module_from_spec(spec)
    object.__setattr__(package, "__class__", _InParts)
    sys.modules[_PACKAGE] = package
