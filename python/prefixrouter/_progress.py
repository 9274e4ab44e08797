"""A progress bar on standard error, and work that Ctrl-C can leave."""

from __future__ import annotations

import importlib
import sys
import threading
from types import TracebackType
from typing import Any, Callable, TypeVar

T = TypeVar("T")


class ProgressBar:
    """Shows how much is done, where standard error is a terminal; elsewhere it shows nothing.

    Drawn by tqdm. Without it a line says how to get it.
    """

    def __init__(self, what: str, total: int | None, *, shown: bool = True) -> None:
        """`total` is None if it is not known."""
        self._bar: Any = None
        if not shown or not sys.stderr.isatty():
            return
        try:
            tqdm = importlib.import_module("tqdm")
        except ImportError:
            print(f"{what} ... (pip install 'prefixrouter[cli]' shows progress)", file=sys.stderr)
            return
        self._bar = tqdm.tqdm(
            desc=what, total=total, unit=" requests", unit_scale=True, leave=False, file=sys.stderr
        )

    def set(self, done: int) -> None:
        """So many are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def interruptible(call: Callable[[], T]) -> T:
    """The value of `call`, which looks at no signals itself: Ctrl-C leaves it behind.

    It runs in a thread of its own, which does not keep the process alive.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            values.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]
    return values[0]
