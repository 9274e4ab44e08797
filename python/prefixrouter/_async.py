"""Gives Lease its methods for ``async with``, which need coroutines."""

from prefixrouter._core import Lease


async def _aenter(self):
    return self


async def _aexit(self, exc_type, exc_value, traceback):
    self.__exit__(exc_type, exc_value, traceback)


Lease.__aenter__ = _aenter
Lease.__aexit__ = _aexit
