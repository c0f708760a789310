"""One way into libpg: errors become exceptions, Ctrl-C sets the cancel flag, progress is shown."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _errors
from ._abi import abi
from ._hints import hint_of
from ._library import lib

Path = Union[str, "os.PathLike[str]"]
Progress = Union[bool, Callable[[int, int], None]]


def text(value: Optional[bytes]) -> Optional[str]:
    """A string of the library; bytes that are no UTF-8 come back as os.fsencode() takes them."""
    return None if value is None else value.decode("utf-8", "surrogateescape")


def error_of(err: Any, objects: Sequence[Path] = ()) -> _errors.Error:
    """The exception for a filled pg_err; objects: the files that the call was about."""
    names = [os.fspath(x) for x in objects]
    status = abi.enums["pg_status"][err.code]
    message, detail = err.msg.decode("utf-8", "replace"), err.detail.decode("utf-8", "replace")
    named = [n for n in names if message.startswith(n + ":")] + names[:1]
    hint = hint_of(err.action) if err.action.what else err.hint.decode("utf-8", "replace")
    error = _errors.class_of(status)(message or status, status=status, object=named[0] if named else None, hint=hint,
                                     details=[x.strip() for x in detail.split("\n") if x.strip()])
    if err.sys:
        setattr(error, "errno", err.sys)
    return error


def call(name: str, *arguments: Any, objects: Sequence[Path] = ()) -> None:
    """Calls a function that returns a pg_status, with a pg_err as its last argument."""
    err = abi.pg_err()
    if getattr(lib, name)(*arguments, ctypes.byref(err)):
        raise error_of(err, objects)


class Bar:
    """What progress=True shows: tqdm's bar if it is there, else a line on stderr."""

    def __init__(self, what: str, unit: str = "B") -> None:
        self.what, self.done = what, 0
        try:
            from tqdm.auto import tqdm
            self.bar: Any = tqdm(desc=what, unit=unit, unit_scale=unit == "B")
        except ImportError:
            self.bar = None

    def __call__(self, done: int, total: int) -> None:
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.done)
        else:
            sys.stderr.write("\r%s: %3d %%" % (self.what, 100 * done // max(total, 1)))
        self.done = done

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.done:
            sys.stderr.write("\n")


def _tell(show: Callable[[int, int], None], stop: "ctypes.c_int", failed: List[BaseException]) -> Any:
    """The function that libpg calls after each piece; what `show` raises ends the call."""
    last = [0.0]

    def tell(_context: Any, done: int, total: int) -> None:
        now = time.monotonic()
        if failed or (now - last[0] < 0.1 and done < total):
            return
        last[0] = now
        try:
            show(done, total)
        except BaseException as e:  # it must not pass through C
            failed.append(e)
            stop.value = 1
    return dict(abi.pg_progress._fields_)["tell"](tell)


def long_call(name: str, *arguments: Any, steer: Any, objects: Sequence[Path] = (), progress: Progress = False,
              label: str = "") -> None:
    """The same for calls that may take long. steer: the options that hold `cancel` and `progress`.

    The call runs in a thread of its own, so that Ctrl-C reaches Python at once; the cancel flag then ends the call, which
    leaves nothing behind, and KeyboardInterrupt goes on.
    """
    stop, bar = ctypes.c_int(0), None
    failed: List[BaseException] = []
    steer.cancel = ctypes.pointer(stop)
    if progress:
        show = progress if callable(progress) else Bar(label or name[3:].replace("_file", ""))
        bar = show if isinstance(show, Bar) else None
        told = abi.pg_progress(tell=_tell(show, stop, failed))
        steer.progress = ctypes.pointer(told)

    ended = threading.Event()

    def work() -> None:
        try:
            call(name, *arguments, objects=objects)
        except BaseException as e:
            failed.append(e)
        finally:
            ended.set()

    threading.Thread(target=work, name="pgfit").start()
    try:
        interrupted = _wait(ended, stop)
    finally:
        if bar:
            bar.close()
    if interrupted and (not failed or isinstance(failed[0], _errors.CancelledError)):
        raise KeyboardInterrupt
    if failed:
        raise failed[0]


def _wait(ended: threading.Event, stop: "ctypes.c_int") -> bool:
    """Waits for the end of a call, through any number of Ctrl-C; True if there was one."""
    interrupted = False
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            interrupted, stop.value = True, 1
    return interrupted


def fill(options: Any, keywords: Dict[str, Any], names: Optional[Dict[str, str]] = None) -> Any:
    """Sets members of a struct of options, or of its `write`, from keywords; None leaves the default.

    names: members whose keyword has another name here."""
    for key, value in keywords.items():
        if value is None:
            continue
        member, target = (names or {}).get(key, key), options
        if member not in dict(target._fields_):
            target = options.write
        if isinstance(value, (str, os.PathLike)):
            value = os.fsencode(value)
        setattr(target, member, value)
    return options
