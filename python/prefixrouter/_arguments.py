"""What the command line's options take, checked where they are given."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prefixrouter._simulator import FleetEvent

T = TypeVar("T")


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number from `low` to `high`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if low <= value <= high:
            return value
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {low} to {high}, got {text!r}"
        )

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    """A number from `low` to `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if low <= value <= high:
            return value
        raise argparse.ArgumentTypeError(f"must be a number from {low:g} to {high:g}, got {text!r}")

    return parse


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """One of `names`."""

    def parse(text: str) -> str:
        if text in names:
            return text
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, got {text!r}")

    return parse


def listed(parse_one: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Values between commas."""

    def parse(text: str) -> list[T]:
        return [parse_one(item.strip()) for item in text.split(",")]

    return parse


def fleet_event(text: str) -> FleetEvent:
    """SECONDS:CHANGE:INSTANCE."""
    parts = text.split(":")
    changes = ("fail", "restart", "join", "leave")
    if len(parts) != 3 or parts[1] not in changes:
        raise argparse.ArgumentTypeError(
            f"must be SECONDS:CHANGE:INSTANCE, with one of {', '.join(changes)}, got {text!r}"
        )
    change: Any = parts[1]
    return FleetEvent(number(0, 1e9)(parts[0]), change, whole(0, 65535)(parts[2]))
