"""The tests of jevlens, in one file: python3 -m pytest -q test_jevlens.py (no network, no data but what stands here).

Cases stand in tables whose keys are sentences. Fixtures are short real outputs; a comment names tool and version.
"""
from __future__ import annotations

import gzip
import json
from typing import Any, Sequence

import pytest

import bench
import history

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


def lines_of(*records: Any) -> str:
    return "\n".join(json.dumps(record) for record in records)


def claude(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """A Claude Code record."""
    message = {"role": kind, "content": content, **({"id": "msg_1"} if kind == "assistant" else {})}
    return {"type": kind, "sessionId": "s", "message": message, **more}


def codex(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-30T12:00:00Z", "type": "response_item", "payload": payload}


def pi(id: str, parent: Any, **message: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "parentId": parent, "message": message}


TEXT = {"type": "text", "text": "I look."}
LS = {"command": "ls"}
PI_CALL = {"type": "toolCall", "name": "bash"}


def event(source: str, text: str) -> dict[str, Any]:
    """A message event of the OpenHands SDK."""
    return {"kind": "MessageEvent", "source": source, "llm_message": {"content": [{"type": "text", "text": text}]}}


# The same little session as each host writes it (versions in the reader's comments), composed by hand: the user says
# "Fix it.", the assistant "I look." and runs `ls`, which prints "a.py" and fails; then the assistant says "Done."
SESSIONS: dict[str, tuple[str, int]] = {
    "claude-code": (
        lines_of(
            {"type": "queue-operation", "sessionId": "s"},
            claude("user", "Fix it.", uuid="u1"),
            claude("user", "Fix it.", uuid="u1"),
            claude("user", "<command-name>/clear</command-name>"),
            claude("user", "a reminder", isMeta=True),
            claude("assistant", [{"type": "thinking", "thinking": "hm"}]),
            claude("assistant", [TEXT]),
            claude("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": LS}]),
            claude("user", "a side task", isSidechain=True),
            claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py", "is_error": True}]),
            {"type": "assistant", "sessionId": "s", "message": {"id": "msg_2", "content": [{**TEXT, "text": "Done."}]}},
        ),
        6,
    ),
    "codex": (
        lines_of(
            {"type": "session_meta", "payload": {"id": "s"}},
            codex(type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>"}]),
            codex(type="message", role="user", content=[{"type": "input_text", "text": "Fix it."}]),
            {"type": "event_msg", "payload": {"type": "user_message", "message": "Fix it."}},
            codex(type="reasoning", summary=[]),
            codex(type="message", role="assistant", content=[{"type": "output_text", "text": "I look."}]),
            codex(type="function_call", call_id="t1", name="bash", arguments='{"command": "ls"}'),
            codex(type="function_call_output", call_id="t1", output="Exit code: 2\nOutput:\na.py"),
            codex(type="message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
        ),
        4,
    ),
    "pi": (
        lines_of(
            {"type": "session", "id": "s", "cwd": "/repo"},
            pi("1", None, role="user", content=[{"type": "text", "text": "Fix it."}]),
            pi("9", "1", role="assistant", content=[{"type": "text", "text": "A branch that was left."}]),
            pi("2", "1", role="assistant", content=[TEXT, {**PI_CALL, "id": "t1", "arguments": LS}]),
            pi("3", "2", role="toolResult", toolCallId="t1", content=[{"type": "text", "text": "a.py"}], isError=True),
            pi("4", "3", role="assistant", content=[{"type": "text", "text": "Done."}]),
        ),
        2,
    ),
    "openhands": (
        json.dumps([
            {"kind": "SystemPromptEvent", "source": "agent"},
            event("user", "Fix it."),
            {"kind": "ActionEvent", "source": "agent", "thought": [TEXT], "tool_name": "terminal", "tool_call_id": "t1",
             "action": {"kind": "TerminalAction", "command": "ls"}},
            {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "t1",
             "observation": {"content": [{"type": "text", "text": "a.py"}], "exit_code": 2}},
            event("agent", "Done."),
        ]),
        1,
    ),
    "openhands, the older history": (
        lines_of({"instance_id": "s", "history": [
            {"id": 0, "source": "agent", "action": "system", "args": {"content": "You are"}},
            {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}},
            {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."}},
            {"id": 3, "observation": "run", "cause": 2, "content": "a.py", "extras": {"exit_code": 2}},
            {"id": 4, "source": "agent", "action": "message", "args": {"content": "Done."}},
        ]}),
        1,
    ),
    "mini-swe-agent": (
        json.dumps({"trajectory_format": "mini-swe-agent-1.1", "messages": [
            {"role": "system", "content": "You are"},
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "I look.", "extra": {"actions": [LS]}},
            {"role": "tool", "content": "<output>a.py", "extra": {"raw_output": "a.py", "returncode": 2}},
            {"role": "assistant", "content": "Done."},
        ]}),
        1,
    ),
    "swe-agent": (
        json.dumps({"history": [{"role": "system", "content": "You are"}, {"role": "user", "content": "Fix it."}],
                    "trajectory": [{"thought": "I look.", "action": "ls\n", "observation": "a.py"}, {"query": []}]}),
        1,
    ),
    "atif": (
        json.dumps({"schema_version": "ATIF-v1.4", "session_id": "s", "steps": [
            {"source": "system", "message": "You are"},
            {"source": "user", "message": "Fix it."},
            {"source": "agent", "message": "I look.",
             "tool_calls": [{"tool_call_id": "t1", "function_name": "bash", "arguments": LS}],
             "observation": {"results": [{"source_call_id": "t1", "content": "a.py"}]}},
            {"source": "agent", "message": "I look.", "is_copied_context": True},
            {"source": "agent", "message": "Done."},
        ]}),
        2,
    ),
    "row": (
        lines_of({"id": "s", "agent": "a", "group": "g", "turns": [
            {"role": "user", "text": "Fix it."},
            {"role": "assistant", "text": "I look.", "calls": [{"id": "t1", "tool": "bash", "name": "B", "args": LS}]},
            {"role": "tool", "call_id": "t1", "output": "a.py", "is_error": True},
            {"role": "assistant", "text": "Done.", "calls": []},
        ]}),
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SESSIONS)
@pytest.mark.parametrize("packed", (False, True))
def test_a_recorded_session_is_read_whoever_wrote_it(sentence: str, packed: bool, tmp_path: Any) -> None:
    text, skipped = SESSIONS[sentence]
    path = tmp_path / "session"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (session,) = history.read_session(str(path))
    assert session.format == sentence.split(",")[0]
    assert (session.task, session.skipped) == ("Fix it.", skipped)
    asked, looked, ran, *done = session.entries
    assert (looked["role"], looked["content"], len(looked["calls"])) == ("assistant", "I look.", 1)
    call = looked["calls"][0]
    assert call["args"]["command"] == "ls"
    assert (ran["role"], ran["call_id"], ran["tool"], ran["args"]) == ("tool", call["id"], call["tool"], call["args"])
    assert "a.py" in ran["content"]
    assert ran["is_error"] is (sentence not in ("swe-agent", "atif"))  # these two do not say
    assert [each["content"] for each in done] == ([] if sentence == "swe-agent" else ["Done."])
    assert len({entry["id"] for entry in session.entries}) == len(session.entries)


def test_a_session_ends_before_a_torn_line_and_keeps_what_came_before(tmp_path: Any) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(SESSIONS["claude-code"][0] + '\n{"type": "assist')
    (session,) = history.read_session(str(path))
    assert (len(session.entries), session.skipped) == (4, 7)


def test_a_directory_of_events_is_one_session(tmp_path: Any) -> None:
    for n, event in enumerate(json.loads(SESSIONS["openhands"][0])):
        (tmp_path / f"event-{n:05}.json").write_text(json.dumps(event))
    (session,) = history.read_session(str(tmp_path))
    assert [entry["role"] for entry in session.entries] == ["user", "assistant", "tool", "assistant"]


COMPACTIONS = {
    "claude-code": lines_of(claude("user", "Fix it."), claude("user", "So far: nothing.", isCompactSummary=True)),
    "codex": lines_of(codex(type="message", role="user", content="Fix it."),
                      {"type": "compacted", "payload": {"message": "So far: nothing."}}),
    "pi": lines_of({"type": "session", "id": "s", "cwd": "/"}, pi("1", None, role="user", content="Fix it."),
                   {"type": "compaction", "id": "2", "parentId": "1", "summary": "So far: nothing."}),
    "openhands": json.dumps([{"kind": "MessageEvent", "source": "user", "llm_message": {"content": "Fix it."}},
                             {"kind": "Condensation", "source": "environment", "summary": "So far: nothing."}]),
}  # fmt: skip


@pytest.mark.parametrize("kind", COMPACTIONS)
def test_the_summary_at_a_compaction_is_marked(kind: str, tmp_path: Any) -> None:
    path = tmp_path / "session"
    path.write_text(COMPACTIONS[kind])
    (session,) = history.read_session(str(path))
    marked = [(entry["content"], entry.get("compacted", False)) for entry in session.entries]
    assert marked == [("Fix it.", False), ("So far: nothing.", True)]


def test_commands_of_the_older_agents_become_calls(tmp_path: Any) -> None:
    fenced = [{"role": "user", "content": "Fix it."},
              {"role": "assistant", "content": "THOUGHT: I look.\n\n```bash\nls\n```"},
              {"role": "user", "content": "<returncode>0</returncode>\na.py"}]  # fmt: skip
    path = tmp_path / "a.traj.json"
    path.write_text(json.dumps({"messages": fenced}))
    (session,) = history.read_session(str(path))
    assert (session.entries[2]["tool"], session.entries[2]["args"]) == ("bash", {"command": "ls"})
    action = "str_replace_editor str_replace /a.py --old_str 'x = 1' --new_str 'x = 2'"
    path.write_text(json.dumps({"trajectory": [{"thought": "", "action": action, "observation": "done"}]}))
    (session,) = history.read_session(str(path))
    expected = {"command": "str_replace", "path": "/a.py", "old_str": "x = 1", "new_str": "x = 2"}
    assert session.entries[-1]["args"] == expected


@pytest.mark.parametrize("text", ("", "no session", '{"a": 1}', "[]", '{"turns": 3}'))
def test_what_is_no_session_is_refused(text: str, tmp_path: Any) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(history.SessionError, match="no format"):
        history.read_session(str(path))


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
