"""history: what is already in the conversation.

Extractive evidence from long conversations, distilling of finished runs and old exchanges, checkpoints,
the post-send ledger, and readers for recorded sessions.

Copy this file; it needs nothing but the standard library, Python 3.9 or newer. It imports none of its sisters: a
classifier comes in as a callable `ask(state, questions, timeout) -> {id: float | (choice, probabilities)}`, a clock as
a callable, settings as keyword arguments. Licence: MIT.
"""
from __future__ import annotations

import gzip
import json
import os
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Dict, List, Set, Tuple

__all__ = ["Session", "SessionError", "read_session"]


# ---------------------------------------------------------------- entries and recorded sessions
#
# An entry is a dict: `id`, `role` (user, assistant, tool), `content` (text); an assistant entry has `calls`, a list of
# {"id", "tool", "args"}; a tool entry has `call_id`, `tool`, `args`, `is_error`. Tool names and arguments are the
# host's own. `compacted: True` marks the summary that replaced all before it. Hidden reasoning, system prompts,
# sub-agent side chains and images are left out.

Entry = Dict[str, Any]
Record = Dict[str, Any]
# What a host wrote in the user's place (Claude Code 2.1, Codex 0.171).
HOST_TEXT = ("<command-", "<local-command-", "<task-notification", "<bash-", "<environment_context",
             "<user_instructions", "# AGENTS.md instructions", "<permissions", "<collaboration_mode")  # fmt: skip
FENCE = r"(?s)```(?:bash|mswea_bash_command)\n(.*?)\n```"  # a command of mini-swe-agent without tool calls
FAILED = r"(?:Process exited with code|Exit code:) [1-9]"  # Codex says it in the text alone


class SessionError(ValueError):
    """A file is no recorded session; the message reads `path: why`."""


@dataclass
class Session:
    """One recorded session: `entries` in order, and how many records were `skipped` as no part of the conversation.

    Each method adds what one record says; FORMATS names them. An id of None is made up; a result of None answers the
    last call.
    """

    id: str
    format: str
    agent: str
    group: str
    entries: List[Entry] = field(default_factory=list)
    skipped: int = 0
    calls: Dict[str, Record] = field(default_factory=dict)  # by id

    @property
    def task(self) -> str:
        """The first user text, "" where there is none."""
        return next((entry["content"] for entry in self.entries if entry["role"] == "user"), "")

    def _add(self, role: str, content: Any, **more: Any) -> Entry:
        self.entries.append({"id": f"e{len(self.entries) + 1}", "role": role, "content": flat(content), **more})
        return self.entries[-1]

    def _last(self, message: Any) -> Entry:
        """The assistant entry that ends the session, when it is of this message (None: of any); else a new one."""
        last = self.entries[-1] if self.entries else {}
        same = last.get("role") == "assistant" and message in (None, last["message"])
        return last if same else self._add("assistant", "", calls=[], message=message)

    def user(self, text: Any, compacted: Any = None) -> None:
        """What the user said, or the summary at a compaction; a host's text in the user's place is skipped."""
        if flat(text).startswith(HOST_TEXT):
            self.skipped += 1
        else:
            self._add("user", text, **({"compacted": True} if compacted else {}))

    def said(self, text: Any, message: Any = None) -> None:
        """What the assistant said; parts of one message id become one entry."""
        entry = self._add("assistant", "", calls=[], message=None) if message is None else self._last(message)
        entry["content"] = "\n".join(filter(None, (entry["content"], flat(text))))

    def call(self, id: Any, tool: Any, args: Any, message: Any = None) -> None:
        """A tool call; arguments that are no object are bash's `command`, else `input`."""
        calls = self._last(message)["calls"]
        made = f"call{len(self.entries)}.{len(calls)}" if id is None else str(id)
        value = loaded(args) if isinstance(args, str) else args
        known = dict(value) if isinstance(value, dict) else {"command" if tool == "bash" else "input": args}
        calls.append(self.calls.setdefault(made, {"id": made, "tool": str(tool or "other"), "args": known}))

    def fenced(self, text: Any) -> None:
        """What the assistant said, with its command in a fence."""
        self.said(text)
        for command in re.findall(FENCE, flat(text)):
            self.call(None, "bash", command)

    def shell(self, command: Any) -> None:
        """A command of SWE-agent; the options of its editor become arguments."""
        text = flat(command).strip()
        try:
            words = shlex.split(text) if text.startswith("str_replace_editor ") else []
        except ValueError:
            words = []
        options = {word[2:]: value for word, value in zip(words[3:], words[4:]) if word.startswith("--")}
        args = {"command": words[1], "path": words[2], **options} if len(words) > 2 else text
        self.call(None, words[0] if len(words) > 2 else "bash", args)

    def result(self, call_id: Any, output: Any, is_error: Any = None) -> None:
        """The result of a call; of an unknown call, with the tool `other`."""
        key = next(reversed(self.calls), "") if call_id is None else str(call_id)
        call = self.calls.get(key, {"id": key, "tool": "other", "args": {}})
        failed = is_error not in (0, -1, "0") if is_error is not None else re.search(FAILED, flat(output)[:200])
        self._add("tool", output, call_id=key, tool=call["tool"], args=call["args"], is_error=bool(failed))

    def reply(self, output: Any, is_error: Any = None) -> None:
        """A result when the assistant has just run something, else what the user said."""
        if self.entries and self.entries[-1].get("calls"):
            self.result(None, output, is_error)
        else:
            self.user(output)


# format -> (where a document keeps its records, where a record keeps its parts, what tells a file with one record a
# line, rules). A rule: when it holds, the methods of Session with the paths of their arguments. The first rule that
# holds is taken, for the record and for each part; in a part `_` is its record. `a.b` goes down, `a|b` takes the first
# that is there, `a=x|y` compares, `=a` is a itself, `-` is None.
FORMATS: Dict[str, Tuple[str, str, str, Tuple[str, ...]]] = {
    "row": ("turns", "calls", "", (  # the JSONL schema that bench.py scores
        "role=user: user text compacted", "role=assistant: said text", "role=tool: result call_id output is_error",
        "tool args: call id tool args")),
    "mini-swe-agent": ("messages", "extra.actions", "", (
        "role=assistant extra.actions: said content", "role=assistant: fenced content",
        "role=user|tool: reply extra.raw_output|content extra.returncode",
        "command _: call tool_call_id =bash command")),
    "swe-agent": ("trajectory", "", "", ("action: said thought; shell action; result - observation",)),
    "atif": ("steps", "tool_calls observation.results", "", (
        "is_copied_context: skip", "_.is_copied_context: skip", "source=user: user message",
        "source=agent: said message", "function_name: call tool_call_id function_name arguments",
        "content _: result source_call_id content")),
    "openhands": ("history", "", "source", (  # events of the SDK have a kind; the older history actions, observations
        "kind=MessageEvent source=user: user llm_message.content", "kind=MessageEvent: said llm_message.content",
        "kind=ActionEvent: said thought; call tool_call_id tool_name action",
        "kind=ObservationEvent: result tool_call_id observation.content observation.is_error|observation.exit_code",
        "kind=AgentErrorEvent: result tool_call_id error =1", "kind=Condensation: user summary kind",
        "action=message source=user: user args.content", "action=message: said args.content",
        "action=system|recall: skip", "action source=agent: said args.thought; call id action args",
        "observation cause: result cause content extras.metadata.exit_code|extras.exit_code")),
    "claude-code": ("", "message.content", "sessionId type=user|assistant", (
        "_.isMeta: skip", "_.isSidechain: skip", "type=text _.type=user: user text _.isCompactSummary",
        "type=text _.type=assistant: said text _.message.id", "type=tool_use: call id name input _.message.id",
        "type=tool_result: result tool_use_id content is_error")),
    "codex": ("", "payload", "type=session_meta|response_item|event_msg", (
        "type=message role=assistant: said content", "type=message role=user: user content",
        "type=function_call|custom_tool_call|local_shell_call: call call_id name|type arguments|input|action",
        "type=function_call_output|custom_tool_call_output: result call_id output",
        "_.type=compacted: user message _")),
    "pi": ("", "message.content", "type=session cwd", (
        "type=compaction: user summary type", "type=text _.message.role=user: user text",
        "message.role=toolResult: result message.toolCallId message.content message.isError",
        "type=text _.message.role=assistant: said text _.id", "type=toolCall: call id name arguments _.id")),
}  # fmt: skip


def at(record: Any, path: str) -> Any:
    """The value at a path of a record, None where there is none or an empty text."""
    for option in path.split("|"):
        value = record
        for key in option.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value not in (None, ""):
            return value
    return path[1:] if path.startswith("=") else None


def holds(record: Record, when: str) -> bool:
    """Whether every `path` has a value other than False, and every `path=x|y` one of these."""
    pairs = (test.partition("=") for test in when.split())
    return all(str(at(record, p)) in v.split("|") if e else at(record, p) not in (None, False) for p, e, v in pairs)


def flat(content: Any) -> str:
    """The text of a message's content: a string, a block with `text`, `content` or `output`, or a list of these."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(flat, content)))
    return content if isinstance(content, str) else flat(at(content, "text|content|output") or "")


def loaded(text: str) -> Any:
    """The value of a JSON text, None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def parts_of(record: Record, paths: str) -> List[Record]:
    """A record and its parts: a dict, the dicts of a list, or a text as one text block; each has its record as `_`."""
    found = [record]
    for value in (at(record, path) for path in paths.split()):
        text = {"type": "text", "text": value} if isinstance(value, str) else value
        blocks = value if isinstance(value, list) else [text]
        found += [{**block, "_": record} for block in blocks if isinstance(block, dict)]
    return found


def read_session(path: str) -> List[Session]:
    """The sessions of a file, or of a directory of event files; the format is found out from the records.

    Claude Code, Codex and pi write one record a line and one session a file; mini-swe-agent, SWE-agent and ATIF one
    document a file; OpenHands a directory of events, or a document with its history a line; so do bench.py's own rows.
    `.gz` is unpacked. Records that are no part of the conversation are skipped and counted, torn lines too.
    Raises SessionError where nothing is recognised, OSError where nothing can be read.
    """
    values = _values(path)
    records = [value for value in values if isinstance(value, dict)]
    name = os.path.basename(os.path.abspath(path))
    keys = [(kind, row[0]) for kind, row in FORMATS.items() if row[0]]
    kinds = [next((kind for kind, key in keys if isinstance(record.get(key), list)), "") for record in records]
    if any(kinds):
        return [_read(kind, each, f"{name}#{n}") for n, (kind, each) in enumerate(zip(kinds, records), 1) if kind]
    for kind, (key, _, tell, _) in FORMATS.items():
        if tell and any(holds(record, tell) for record in records[:50]):
            chosen = branch(records) if kind == "pi" else records
            session = _read(kind, {key: chosen}, name)
            session.skipped += len(values) - len(chosen)
            return [session]
    raise SessionError(f"{path}: no format of a recorded session that we know")


def _values(path: str) -> List[Any]:
    """The JSON values of a file, or of the JSON files of a directory by name; None for a line that is none."""
    names = sorted(name for name in os.listdir(path) if name.endswith(".json")) if os.path.isdir(path) else [""]
    values: List[Any] = []
    for name in names:
        with open(os.path.join(path, name) if name else path, "rb") as raw:
            data = raw.read()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
        value = loaded(text)
        lines = [loaded(line) for line in text.split("\n") if line.strip()] if value is None else [value]
        values += value if isinstance(value, list) else lines
    return values


def _read(kind: str, document: Record, name: str) -> Session:
    key, parts, _, rules = FORMATS[kind]
    id = str(at(document, "id|instance_id|session_id") or name)
    session = Session(id, kind, str(at(document, "agent") if kind == "row" else kind), str(at(document, "group") or id))
    if kind == "swe-agent":
        asked = (each.get("content") for each in document.get("history", ()) if each.get("role") == "user")
        session.user(next(asked, ""))
    table = [(when, acts.split(";")) for when, _, acts in (rule.partition(": ") for rule in rules)]
    seen: Set[Any] = set()  # a resumed Claude Code session repeats records
    for each in (each for record in document[key] for each in (record if isinstance(record, list) else [record])):
        fresh = isinstance(each, dict) and at(each, "uuid") not in seen
        acts = [(part, act.split()) for part in (parts_of(each, parts) if fresh else ())
                for act in next((acts for when, acts in table if holds(part, when)), ())]  # fmt: skip
        session.skipped += all(words[0] == "skip" for _, words in acts)
        for part, (method, *paths) in acts:
            if method != "skip":
                getattr(session, method)(*(at(part, path) for path in paths))
        seen.add(at(each, "uuid") or id)  # not None, which would hide every record without a uuid
    return session


def branch(records: List[Record]) -> List[Record]:
    """The records of a tree that lead to its last one, by `id` and `parentId`, and those without an id."""
    by_id = {record["id"]: record for record in records if record.get("id")}
    wanted: Set[Any] = set()
    place = records[-1].get("id")
    while place in by_id and place not in wanted:
        wanted.add(place)
        place = by_id[place].get("parentId")
    return [record for record in records if not record.get("id") or record["id"] in wanted]


# ---------------------------------------------------------------- evidence: terms and scores


# ---------------------------------------------------------------- evidence: bundles, index, selection, view


# ---------------------------------------------------------------- evidence: the controller and its recall


# ---------------------------------------------------------------- distilling finished runs and old exchanges


# ---------------------------------------------------------------- the post-send ledger
