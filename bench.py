"""bench: every number that this project publishes, re-run by one command.

Standard library only, no network, fixed order, no randomness. No product logic lives here. Licence: MIT.
"""
from __future__ import annotations

# ---------------------------------------------------------------- scoring a session by what the agent did next


# ---------------------------------------------------------------- tables, intervals, progress, pages


# ---------------------------------------------------------------- outputs, trajectories, sessions, sweep, speed


# ---------------------------------------------------------------- dialogues and distil


# ---------------------------------------------------------------- command line
