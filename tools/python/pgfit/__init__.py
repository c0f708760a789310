"""libpg for Python: weight files from parallel training, and the trainer pgfit. `man pg-python` shows how."""
from ._errors import (AmbiguousError, ArgumentError, CancelledError, DamagedError, DeviceError, Error, FileError, LibraryError,
                      MemoryExceededError, MismatchError, NothingToDoError, UnknownFormatError, UnsupportedError)
from ._version import __version__
