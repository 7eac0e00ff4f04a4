"""The questions that a course asks, and the state of a panel that shows each answer."""

from collections.abc import Mapping
from typing import Any

QUIZ = "quiz"
QUESTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "integers": ("grid", {"length": 64, "position": 63}),
    "cosines": ("waves", {"offset": 7, "dim": 8}),
    "alternatives": ("comparison", {"shown": "loss"}),
    "frequencies": ("waves", {"pair": 8, "length": 128}),
    "buffer": ("grid", {"length": 128, "position": 127}),
    "rotation": ("rotation", {"m": 9, "n": 3, "step": 10}),
}
