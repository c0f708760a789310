"""libpg for Python: weight files from parallel training, and the trainer pgfit. `man pg-python` shows how."""
from ._compare import check, diff
from ._errors import (AmbiguousError, ArgumentError, CancelledError, DamagedError, DeviceError, Error, FileError, LibraryError,
                      MemoryExceededError, MismatchError, NothingToDoError, UnknownFormatError, UnsupportedError)
from ._fit import evaluate, fit, predict
from ._inspect import Info, Part, Wrapper, inspect
from ._open import Checkpoint, Tensors, open
from ._reports import Change, Check, CheckReport, Comparison, ConvertReport, OnnxReport, Report, RewriteReport, ShardFile, ShardReport
from ._rewrite import convert, join, repair, split, to_onnx, unwrap, wrap
from ._tensors import Layer, Stats, Tensor
from ._trainer import History, Trainer
from ._version import __version__
