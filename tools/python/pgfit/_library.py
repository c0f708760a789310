"""Finds libpg.so and gives its functions their prototypes, at the first call of one."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
import sys
from typing import Any, Iterator, Tuple

from ._abi import abi
from ._errors import LibraryError
from ._version import __version__

_NAMES = ("libpg.so", "libpg.so.0")


def _of_the_wheel() -> Iterator[str]:
    """Where the installer put the library, if this package was installed: the list is read only if it is needed."""
    import importlib.metadata
    try:
        yield from (str(f.locate()) for f in importlib.metadata.files("pgfit") or () if f.name == "libpg.so")
    except importlib.metadata.PackageNotFoundError:
        pass


def _places() -> Iterator[str]:
    """Where the library may be, the nearest first. A wheel has it in libexec/libpg of its prefix, with its plug-ins."""
    here = pathlib.Path(__file__).resolve().parent
    prefixes = list(dict.fromkeys([*list(here.parents)[:4], pathlib.Path(sys.prefix)]))
    folders = [here, *sorted(here.glob("lib*")), here.parent / "pgfit.libs", *(p / "libexec" / "libpg" for p in prefixes)]
    yield from (str(folder / name) for folder in folders for name in _NAMES)
    yield from _of_the_wheel()
    if os.environ.get("PG_LIBRARY"):
        yield os.environ["PG_LIBRARY"]
    yield str(here.parents[2] / "build" / "libpg" / "libpg.so")  # a source tree
    for prefix in prefixes:
        for lib in ("lib", "lib64", *sorted(str(p.relative_to(prefix)) for p in prefix.glob("lib/*-linux-gnu*"))):
            yield str(prefix / lib / "libpg.so.0")
    found = ctypes.util.find_library("pg")
    if found:
        yield found


def _find() -> Tuple[str, ctypes.CDLL]:
    """The first library there that has this package's version."""
    searched = []
    for place in _places():
        if os.path.isabs(place) and not os.path.exists(place):
            searched.append(place)
            continue
        try:
            library = ctypes.CDLL(place)
            library.pg_version.restype = ctypes.c_char_p
            version = library.pg_version().decode()
        except (OSError, AttributeError) as e:
            searched.append("%s (%s)" % (place, e))
            continue
        if version == __version__:
            return place, library
        searched.append("%s (version %s, this package is of %s)" % (place, version, __version__))
    raise LibraryError("libpg.so %s was not found; PG_LIBRARY may name it" % __version__, status="PG_E_IO", object="libpg.so",
                       details=["searched: " + x for x in dict.fromkeys(searched)])


def path() -> str:
    """The path of the libpg.so that is used."""
    return _find()[0]


class _Library:
    """Attributes are the functions of abi.h."""

    def __init__(self) -> None:
        self._library: Any = None

    def __getattr__(self, name: str) -> Any:
        if name not in abi.functions:
            raise AttributeError(name)
        if self._library is None:
            self._library = _find()[1]
        function = getattr(self._library, name)
        function.restype, function.argtypes = abi.functions[name].result, abi.functions[name].arguments
        setattr(self, name, function)
        return function


lib = _Library()
