"""The tests of jevlens, in one file: python3 -m pytest -q test_jevlens.py (no network, no data but what stands here).

Cases stand in tables whose keys are sentences. Fixtures are short real outputs; a comment names tool and version.
"""
from __future__ import annotations

from typing import Any, Sequence

import pytest

import bench

# ================================================================ fixtures: short real outputs


# ================================================================ rules: every pattern hits, misses and is linear


# ================================================================ kinds and shapes


# ================================================================ the display-command parser


# ================================================================ blocks and sections


# ================================================================ views


# ================================================================ rendering, markers, tidying


# ================================================================ decide


# ================================================================ the local judge


# ================================================================ the lens


# ================================================================ recall and the store


# ================================================================ System One: the wire


# ================================================================ System One: transport, providers, keys


# ================================================================ the Jev judge


# ================================================================ message lists


# ================================================================ hook, MCP, filter, status line


# ================================================================ the command line


# ================================================================ history: recorded sessions


# ================================================================ history: evidence


# ================================================================ history: distil and checkpoint


# ================================================================ history: the ledger


# ================================================================ bench


# What stands dropped in the hand-made sessions: 120 lines, each new to the session. The engine under test sends line 1.
DROPPED = [f"total = compute(alpha, beta, {n}, 'a rather long line of its own')" for n in range(1, 121)]
NAMED = "\n".join([*DROPPED, "print(value_41, value_42)"])
READ = {"id": "c1", "tool": "read", "name": "read", "args": {"path": "src/app.py"}}
CAT = {"id": "c1", "tool": "bash", "name": "bash", "args": {"command": "cat src/app.py"}}


class FirstLine(bench.Engine):
    """Sends the first line of a large result and nothing else of it."""

    def send(self, turn: bench.Turn, task: str, latest: str) -> bench.Sent:
        return bench.Sent(turn.text.split("\n")[0], "first", "read", (1,))


def said(text: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """An assistant turn: (tool, args) calls."""
    made = [{"id": f"d{k}", "tool": tool, "name": tool, "args": args} for k, (tool, args) in enumerate(calls)]
    return {"role": "assistant", "text": text, "calls": made}


def result(call_id: str, output: str) -> dict[str, Any]:
    """The result of a call."""
    return {"role": "tool", "call_id": call_id, "output": output, "is_error": False}


def scored(*after: dict[str, Any], call: dict[str, Any] = READ, before: Sequence[dict[str, Any]] = (),
           output: str = "\n".join(DROPPED)) -> dict[str, int]:  # fmt: skip
    """The counts of one large result of which the first line was sent, and after which `after` happened."""
    start = [{"role": "user", "text": "Please fix it."}, *before, {"role": "assistant", "text": "", "calls": [call]}]
    turns = [*start, result("c1", output), *after]
    row = {"id": "r", "agent": "a", "group": "g", "task": "Please fix it.", "turns": turns}
    (one,) = bench.Scorer(row, bench.prepare(row), FirstLine()).run()
    return dict(one.counts)


def edit(old: str, path: str = "src/app.py", **more: Any) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "old": old, "new": "pass", **more}


HEREDOC = f'python - <<E\np.write_text(s.replace("""{DROPPED[40]}""", ""))\nE\ncat src/app.py'
PATCH = "*** Begin Patch\n*** Update File: src/app.py\n@@\n {}\n-{}\n+new\n*** End Patch"
LATE = [said("working")] * 12
NUMBERED_OUTPUT = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(DROPPED, 1))

# sentence -> (turns after the result, other arguments of `scored`, the fields that must be 1; every other miss is 0)
MISSES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "an edit of a dropped line": ([said("", edit(DROPPED[40]))], {}, "first strict c_first c_strict"),
    "an edit of the line that was sent": ([said("", edit(DROPPED[0]))], {}, ""),
    "an edit whose second line was dropped": ([said("", edit(DROPPED[0] + "\n" + DROPPED[1]))], {}, "strict c_strict"),
    "an edit of another file": ([said("", edit(DROPPED[40], path="src/other.py"))], {}, ""),
    "an edit of text that the output never had": ([said("", edit("total = something(else)"))], {}, ""),
    "an edit of a lone brace": ([said("", edit("}"))], {"output": "\n".join([*DROPPED, "}"])}, ""),
    "an edit after twelve more messages": ([*LATE, said("", edit(DROPPED[40]))], {}, ""),
    "an edit of a line that a small result shows first": (
        [said("", ("bash", {"command": "tail -1 src/app.py"})), result("d0", DROPPED[40]), said("", edit(DROPPED[40]))],
        {},
        "first strict",
    ),
    "an edit after the file was read again whole": (
        [said("", ("read", {"path": "src/app.py"})), result("d0", DROPPED[40]), said("", edit(DROPPED[40]))],
        {},
        "",
    ),
    "an edit after another part of the file was read": (
        [said("", ("read", {"path": "src/app.py"})), result("d0", DROPPED[50]), said("", edit(DROPPED[40]))],
        {},
        "c_first c_strict",
    ),
    "an edit of a line that was sent before": (
        [said("", edit(DROPPED[40]))],
        {"before": [said("", ("bash", {"command": "ls"})), result("d0", DROPPED[40])]},
        "",
    ),
    "an edit of a line that was sent before a compaction": (
        [said("", edit(DROPPED[40]))],
        {
            "before": [
                said("", ("bash", {"command": "ls"})),
                result("d0", DROPPED[40]),
                {"role": "user", "text": "This session is being continued from a previous conversation: nothing."},
            ]
        },
        "first strict c_first c_strict",
    ),
    "a patch with a dropped context line": (
        [said("", ("edit", {"patch": PATCH.format(DROPPED[40], DROPPED[0])}))],
        {},
        "first strict c_first c_strict",
    ),
    "a patch of the line that was sent": (
        [said("", ("edit", {"patch": PATCH.format(DROPPED[0], DROPPED[0])}))],
        {},
        "",
    ),
    "sed on a dropped line": (
        [said("", ("bash", {"command": "sed -i 's/compute(alpha, beta, 41,/run(/' src/app.py"}))],
        {"call": CAT},
        "c_first c_strict",
    ),
    "sed on the line that was sent": (
        [said("", ("bash", {"command": "sed -i 's/compute(alpha, beta, 1,/run(/' src/app.py"}))],
        {"call": CAT},
        "",
    ),
    "sed that only prints": (
        [said("", ("bash", {"command": "sed -n 's/compute(alpha, beta, 41,/run(/p' src/app.py"}))],
        {"call": CAT},
        "",
    ),
    "a Python heredoc that replaces a dropped line": (
        [said("", ("bash", {"command": HEREDOC}))],
        {},
        "c_first c_strict",
    ),
    "sed by the number of a dropped line": (
        [said("", ("bash", {"command": "sed -i '41d' src/app.py"}))],
        {"call": CAT, "output": NUMBERED_OUTPUT},
        "c_first c_strict",
    ),
    "an insert after a dropped line": (
        [said("", ("edit", {"path": "src/app.py", "insert_line": 41, "new": "pass"}))],
        {"output": NUMBERED_OUTPUT},
        "c_first c_strict",
    ),
    "an insert after the line that was sent": (
        [said("", ("edit", {"path": "src/app.py", "insert_line": 1, "new": "pass"}))],
        {"output": NUMBERED_OUTPUT},
        "",
    ),
    "a quote of a dropped line": ([said(DROPPED[40])], {}, "quote"),
    "a quote of the line that was sent": ([said(DROPPED[0])], {}, ""),
    "a quote of under 40 characters": ([said("end of file")], {"output": "\n".join([*DROPPED, "end of file"])}, ""),
    "a quote two messages later": ([said("ok"), said(DROPPED[40])], {}, ""),
    "a dropped name": ([said("ok"), said("see value_41")], {"output": NAMED}, "ref c_ref"),
    "a dropped name three messages later": ([said("ok"), said("ok"), said("see value_41")], {"output": NAMED}, ""),
    "a name that was sent": ([said("see value_41")], {"output": "value_41\n" + NAMED}, ""),
    "a name of the session": ([said("see value_41")], {"output": NAMED, "before": [said("value_41 is odd")]}, ""),
    "a dropped plain word": ([said("see print")], {"output": NAMED}, ""),
    "a dropped name that any model knows": (
        [said("raises NotImplementedError in __init__")],
        {"output": "\n".join([*DROPPED, "NotImplementedError __init__"])},
        "ref",
    ),
    "a recall of a dropped line": ([said("", ("recall", {"id": "c1", "lines": "40-42"}))], {}, "recall"),
    "a recall of the line that was sent": ([said("", ("recall", {"id": "c1", "lines": "1"}))], {}, ""),
    "a recall of all": ([said("", ("recall", {"id": "c1"}))], {}, "recall"),
    "a recall of a pattern in a dropped line": ([said("", ("recall", {"id": "c1", "pattern": "a, 41"}))], {}, "recall"),
}
MISS_FIELDS = "first strict quote ref recall c_first c_strict c_ref".split()


@pytest.mark.parametrize("sentence", MISSES)
def test_bench_counts_the_misses_it_should_and_no_other(sentence: str) -> None:
    after, more, expected = MISSES[sentence]
    counts = scored(*after, **more)
    assert [name for name in MISS_FIELDS if counts.get(name)] == expected.split()
    assert counts["n"] == 1
    assert counts["sent"] < counts["tokens"]


def test_bench_counts_the_phrases_that_the_next_two_messages_take_over() -> None:
    output = "\n".join([*DROPPED, "seven plain words stand here for once"])
    counts = scored(said("it says seven plain words stand here"), said("Please fix it."), output=output)
    assert (counts["phrases"], counts["phrases_kept"]) == (2, 0)
    counts = scored(said("compute alpha beta 1 a rather, it says"), said("seven plain words stand"), output=output)
    assert (counts["phrases"], counts["phrases_kept"]) == (4, 3)


def test_bench_sends_everything_without_a_miss() -> None:
    call = {"role": "assistant", "text": "", "calls": [READ]}
    turns = [call, result("c1", "\n".join(DROPPED)), said(DROPPED[40], edit(DROPPED[40]))]
    row = {"id": "r", "agent": "a", "group": "g", "task": "t", "turns": turns}
    (one,) = bench.score_row(row, bench.Plan(("full",)))[0]
    of = bench.measures([one.counts[name] for name in bench.FIELDS])
    assert (of["saved"], of["objective"], of["strict_objective"], of["phrases"]) == (0, 0, 0, 100)
    assert one.counts["edits"] == one.counts["c_edits"] == 1


def test_bench_intervals_are_the_same_every_time_and_widen_with_fewer_groups() -> None:
    counts = bench.Counts(n=1, tokens=100, sent=40, edits=1)
    many = [bench.Scored("r", "c", f"g{k}", ("all",), bench.Counts(counts, first=int(k % 9 == 0))) for k in range(90)]
    low, high = bench.intervals(many)["edit"]
    assert low < 100 / 9 < high
    assert bench.intervals(many) == bench.intervals(many)
    narrow = bench.intervals(many[:18])["edit"]
    assert narrow[1] - narrow[0] > high - low
    assert bench.intervals([each for each in many if not each.counts["first"]])["edit"] == (0.0, 300 / 80)


# ================================================================ the README
