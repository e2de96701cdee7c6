"""history: what is already in the conversation.

Extractive evidence from long conversations, distilling of finished runs and old exchanges, checkpoints,
the post-send ledger, and readers for recorded sessions.

Copy this file; it needs nothing but the standard library, Python 3.9 or newer. It imports none of its sisters: a
classifier comes in as a callable `ask(state, questions, timeout) -> {id: float | (choice, probabilities)}`, a clock as
a callable, settings as keyword arguments. Licence: MIT.
"""
from __future__ import annotations

__all__: list[str] = []


# ---------------------------------------------------------------- entries and recorded sessions


# ---------------------------------------------------------------- evidence: terms and scores


# ---------------------------------------------------------------- evidence: bundles, index, selection, view


# ---------------------------------------------------------------- evidence: the controller and its recall


# ---------------------------------------------------------------- distilling finished runs and old exchanges


# ---------------------------------------------------------------- the post-send ledger
