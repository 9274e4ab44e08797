"""Gives Lease its methods for ``async with``, which need coroutines."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from prefixrouter._core import Lease

AnyLease = TypeVar("AnyLease", bound=Lease)


async def _aenter(self: AnyLease) -> AnyLease:
    return self


async def _aexit(
    self: Lease,
    exc_type: type[BaseException] | None,
    exc_value: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    self.__exit__(exc_type, exc_value, traceback)


Lease.__aenter__ = _aenter  # type: ignore[method-assign]
Lease.__aexit__ = _aexit  # type: ignore[method-assign]
