"""What calls raise: one class for each kind of failure, all of them Error."""
from __future__ import annotations

from typing import List, Optional, Sequence, Type


class Error(Exception):
    """A call that failed; nothing was written then.

    Attributes:
        message: one line: the object and what is wrong with it.
        status: name of libpg's code, "PG_E_MISMATCH" for example.
        object: path of the file that it is about, or None.
        hint: the call that would help, as Python, or advice in words; "" if there is none.
        details: more facts, one line each.
    """

    def __init__(self, message: str, status: str = "PG_E_ARG", object: Optional[str] = None, hint: str = "",
                 details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message, self.status, self.object, self.hint = message, status, object, hint
        self.details: List[str] = list(details)

    def __str__(self) -> str:
        lines = [self.message] + ["  " + x for x in self.details]
        return "\n".join(lines + (["try: " + self.hint] if self.hint else []))


class ArgumentError(Error, ValueError):
    """An argument that makes no sense, or an output that exists."""


class FileError(Error, OSError):
    """The operating system refused; errno says why."""


class DamagedError(Error, ValueError):
    """A file that is damaged, or not what it claims to be."""


class UnknownFormatError(Error, ValueError):
    """No format that libpg knows; the message says what the file is."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not covered by this version; for layers, the message names all of them."""


class NothingToDoError(Error, ValueError):
    """The answer is no: there is nothing to unwrap, for example."""


class AmbiguousError(Error, ValueError):
    """The file alone does not decide; the hint names the argument that would."""


class MismatchError(Error, ValueError):
    """Two models, or data and a model, that should agree do not."""


class CancelledError(Error):
    """The call was stopped."""


class DeviceError(Error, RuntimeError):
    """A device failed during its work, or another process of the job."""


class MemoryExceededError(Error, MemoryError):
    """An allocation failed."""


class LibraryError(Error, ImportError):
    """libpg.so is missing or of another version; details name the places that were searched."""


_CLASSES = {
    "PG_E_ARG": ArgumentError, "PG_E_NOMEM": MemoryExceededError, "PG_E_IO": FileError, "PG_E_FORMAT": DamagedError,
    "PG_E_LIMIT": DamagedError, "PG_E_UNSUPPORTED": UnsupportedError, "PG_E_UNKNOWN": UnknownFormatError,
    "PG_E_NO": NothingToDoError, "PG_E_AMBIGUOUS": AmbiguousError, "PG_E_MISMATCH": MismatchError,
    "PG_E_CANCELLED": CancelledError, "PG_E_DEVICE": DeviceError, "PG_E_PEER": DeviceError,
}


def class_of(status: str) -> Type[Error]:
    """The exception for a status of libpg."""
    return _CLASSES[status]


for _class in [Error, *_CLASSES.values(), LibraryError]:
    _class.__module__ = "pgfit"  # as people catch them
