"""The version of this package: that of the libpg it calls. meson.build at the top of the sources has it; an installed package has
tools/python/_version.py.in in place of this file."""
import pathlib
import re

with open(pathlib.Path(__file__).resolve().parents[3] / "meson.build") as _file:
    __version__ = re.search(r"version: '([^']+)'", _file.readline()).group(1)
