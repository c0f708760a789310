"""The C API as ctypes, out of abi.h: classes of structures, values of enums, prototypes of functions."""
from __future__ import annotations

import ctypes as c
import pathlib
import re
from typing import Any, Dict, List, NamedTuple, Tuple

_BASIC = {"void": None, "char": c.c_char, "int": c.c_int, "unsigned": c.c_uint, "size_t": c.c_size_t, "double": c.c_double,
          "uint32_t": c.c_uint32, "uint64_t": c.c_uint64}


class Prototype(NamedTuple):
    """A function: what it returns and takes."""

    result: Any
    arguments: List[Any]
    text: str


class Abi:
    """Attributes are the structures and the values of enums, under their names in C."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        self.structures: Dict[str, Any] = {}
        self.enums: Dict[str, List[str]] = {}
        self.functions: Dict[str, Prototype] = {}
        self.constants = {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)$", text, re.M)}
        for kind, name, body in re.findall(r"^(enum|struct) (\w+) \{(.*?)\};", text, re.M | re.S):
            getattr(self, "_add_" + kind)(name, body)
        for result, stars, name, arguments in re.findall(r"^((?:const )?\w+) (\**)(\w+)\(([^;]*)\);", text, re.M):
            self.functions[name] = Prototype(self._type(result, len(stars)), self._arguments(arguments),
                                             "%s %s%s(%s);" % (result, stars, name, arguments))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["structures"][name]
        except KeyError:
            raise AttributeError(name) from None

    def _add_enum(self, name: str, body: str) -> None:
        self.enums[name] = [re.sub(r"\s*=.*", "", x.strip()) for x in body.split(",") if x.strip()]
        self.__dict__.update({x: i for i, x in enumerate(self.enums[name])})

    def _add_struct(self, name: str, body: str) -> None:
        fields: List[Tuple[str, Any]] = []
        for member in re.split(r";(?![^(]*\))", body):
            fields += self._members(" ".join(member.split())) if member.strip() else []
        self.structures[name] = type(name, (c.Structure,), {"_fields_": fields})

    def _members(self, text: str) -> List[Tuple[str, Any]]:
        """The members of one declaration: "size_t n, m", "char **names", "void (*f)(void *)"."""
        pointer = re.fullmatch(r"(\w+) (\**)\(\*(\w+)\)\((.*)\)", text)
        if pointer:
            result, stars, name, arguments = pointer.groups()
            return [(name, c.CFUNCTYPE(self._type(result, len(stars)), *self._arguments(arguments)))]
        base, rest = self._base(text)
        members = []
        for one in rest.split(","):
            stars, name, size = re.fullmatch(r"\s*(\**)\s*(\w*)(?:\[(\w+)\])?", one).groups()  # type: ignore[union-attr]
            kind = self._type(base, len(stars))
            members.append((name, kind * (self.constants.get(size) or int(size)) if size else kind))
        return members

    @staticmethod
    def _base(text: str) -> Tuple[str, str]:
        text = re.sub(r"\b(?:const|volatile)\b", "", text).strip()
        base = re.match(r"\w+", text)
        assert base, text
        return base.group(), text[base.end():].replace("* *", "**").replace(" ", "")

    def _arguments(self, text: str) -> List[Any]:
        return [] if text == "void" else [self._members(x.strip())[0][1] for x in text.split(",")]

    def _type(self, base: str, stars: int) -> Any:
        base = self._base(base)[0]
        kind: Any
        if base in ("char", "void") and stars:
            kind, stars = (c.c_char_p if base == "char" else c.c_void_p), stars - 1
        elif base in _BASIC:
            kind = _BASIC[base]
        elif base in self.enums:
            kind = c.c_int
        elif base in self.structures:
            kind = self.structures[base]
        else:  # only its address is known
            kind, stars = c.c_void_p, stars - 1
        for _ in range(stars):
            kind = c.POINTER(kind)
        return kind


abi = Abi(pathlib.Path(__file__).with_name("abi.h").read_text(encoding="ascii"))
