"""bench: every number that this project publishes, re-run by one command.

    python3 bench.py                            a short run on data that it makes itself (under 20 s)
    python3 bench.py outputs DIR                needles kept and characters saved on real outputs
    python3 bench.py trajectories FILE...       recorded sessions, scored by what the agent did next
    python3 bench.py sessions PATH...           the same on your own recorded sessions
    python3 bench.py dialogues FILE             evidence found in long conversations
    python3 bench.py distil FILE                what leaving finished work out of later turns saves, costs and harms
    python3 bench.py sweep FILE... --set a=1,2  one setting at a time, or a grid, over trajectories
    python3 bench.py speed                      time by size and kind, growth, peak memory, process starts

Every command takes `--json`; long work shows a bar on stderr; the order is fixed and nothing is random. Standard
library only, no network (unless `--judge jev` asks for one). No product logic lives here. Licence: MIT.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import html
import itertools
import json
import math
import multiprocessing
import operator
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import history
import jevlens

# ---------------------------------------------------------------- scoring a session by what the agent did next
#
# A session is one row of the JSONL schema: {"id", "agent", "group", "task", "turns": [...]}. A result of LARGE
# characters or more is scored; every result, small or large, passes the lens in order, and what was sent whole counts:
# gutter, markers, footer. Two sets of rules stand side by side. *Referee rules* look ahead from each result, as the
# first published scorers did. *Corrected* looks back from each edit to the last result that showed the line, so that a
# miss counts once; it also sees edits by shell command and by line number, and forgives names that any model knows.

LARGE = 4_800  # characters: 1,200 tokens of four, the size gate
STEPS = 12  # assistant messages after a result in which an edit is held against its view
USED = 2  # assistant messages after a result in which names and phrases are held against its view
QUOTE = 40  # characters: a shorter line may be repeated by chance
PROOF = 20  # characters: a shorter line counts as shown only where it stands as a whole line
SHELL_OLD = 12  # characters: a shorter string of a shell command is seldom old text
# words and names of a text; below, line numbers, files by their names, and what calls and commands say they change
WORD = r"\w+"
NAME = r"[A-Za-z_][A-Za-z0-9_]{4,}"
NAME_FORM = r"[a-z][A-Z]|[A-Za-z0-9]_|_[A-Za-z0-9]|\d"  # camelCase, an underscore or a digit: no plain word
NUMBER = r"\s*\d+(?:→|\t|: |│ ?|:)"  # a line number that a tool put before a line
NUMBERED = r"(?m)^[ \t]*{}(?:→|\t|: |│ ?|:)(.*)$"
COMPACTED = (  # how the summary begins that a host puts in the place of the conversation
    r"(?i)\s*(?:<summary>|This session is being continued from a previous conversation|The conversation history before"
    r" this point was compacted|\[?(?:Context|Conversation) (?:was |has been )?(?:compacted|summarized))")  # fmt: skip
PATCHED = r"\*\*\* (?:Update|Delete) File: (.+)|--- (?:a/)?(\S+)"
CODE_FILE = r"\.(?:js|mjs|cjs|ts|tsx|jsx|py|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|scala|sh|lua|sql|ex|exs)$"
PROSE_FILE = r"\.(?:md|txt|rst|adoc)$"
COMMAND_KINDS = {  # first match wins: a display of a test file is a display
    "display": r"^\s*(cd [^&;]+(&&|;)\s*)?(cat|sed -n|head|tail|nl|bat)\b",
    "search": r"\b(rg|grep|ag|git grep)\b",
    "test": r"\b(pytest|go test|npm (run )?test|vitest|jest|cargo test|mvn|gradle|unittest|bun test|mocha)\b",
    "git": r"\bgit (diff|log|show|status|blame)\b",
    "listing": r"\b(ls|find|tree|fd)\b"}  # fmt: skip
WRITES = r"\b(?:sed|perl)\s+(?:-\S+\s+)*-\w*i|write_text\(|\.write\(|writelines\(|open\([^)\n]{1,200}['\"][wa]"
QUOTED = r"(?s)'''(.+?)'''|\"\"\"(.+?)\"\"\"|'((?:\\.|[^'\\\n])+)'|\"((?:\\.|[^\"\\\n])+)\""
SED_PART = r"\bs([/|#,@])((?:\\.|(?!\1)[^\n])+)\1"
SED_LINES = r"\bsed\s[^\n]{0,40}?['\"](\d+)(?:,(\d+))?\s*[sdcai]"
ESCAPED = r"\\(.)"
FILE_NAME = r"[\w.-]+\.\w{1,5}\b"
RECALLED = r"\brecall\s+(\S+)"
SPAN = r"\s*(\d+)(?:\s*-\s*(\d+))?\s*"
# Names that an agent would write without having read them here: builtin exceptions, products, common methods.
TRAINED = frozenset(
    """AssertionError AttributeError FileNotFoundError ImportError IndexError KeyError NameError OSError
    ModuleNotFoundError NotImplementedError PermissionError RuntimeError StopIteration SyntaxError TypeError
    ValueError ZeroDivisionError RangeError NullPointerException IllegalArgumentException GitHub OpenAI TypeScript
    JavaScript PostgreSQL SQLite GraphQL WebSocket base64 sha256 total_seconds toString hashCode setUp""".split())

Counts = collections.Counter  # field -> number; the fields are FIELDS, those of the corrected rules begin with c_
FIELDS = ("n tokens sent compressed phrases phrases_kept edits first strict quote ref recalls recall"
          " c_edits c_first c_strict c_ref").split()  # fmt: skip


class BenchError(Exception):
    """Something that the caller gave cannot be used; the message says what and why."""


def tokens(text: str) -> int:
    """Tokens of a text: characters divided by four, rounded up."""
    return -(-len(text) // 4)


@functools.lru_cache(maxsize=1 << 16)
def _is_name(word: str) -> bool:
    return re.search(NAME_FORM, word) is not None


def names(text: str) -> set[str]:
    """The identifiers of a text: five characters or more, camelCase or with an underscore or a digit."""
    return {word for word in set(re.findall(NAME, text)) if _is_name(word)}


def trained(name: str) -> bool:
    """Whether any model knows this name without having read it here."""
    return name in TRAINED or (name.startswith("__") and name.endswith("__"))


def grams(text: str) -> set[int]:
    """The 4-word sequences of a text, hashed: what an agent takes over word for word."""
    words = re.findall(WORD, text.lower())
    return set(map(hash, zip(words, words[1:], words[2:], words[3:])))


def bare(text: str) -> set[str]:
    """The trimmed lines of four characters or more, each also without its number prefix and diff sign."""
    out = {line for line in map(str.strip, text.split("\n")) if len(line) >= 4}
    plain = {line[match.end() :].strip() for line in out for match in [re.match(NUMBER, line)] if match}
    return out | plain | {line[1:].strip() for line in out if line[0] in "+-"}


def clean_path(path: Any) -> str:
    """A path in its normal form, without the `@` that some hosts put before it."""
    return os.path.normpath(str(path).lstrip("@")) if path else ""


class Call:
    """One tool call of a row, and what scoring asks of it: `kind`, and `edits` as (path, old lines)."""

    def __init__(self, raw: dict[str, Any], said: str) -> None:
        """`raw` as in the row; `said` is the text before the call. Arguments that are no object count as none."""
        self.id, self.tool, self.name, self.said = raw["id"], raw["tool"], raw.get("name", raw["tool"]), said
        self.args: dict[str, Any] = raw["args"] if isinstance(raw["args"], dict) else {}
        self.text = json.dumps(raw["args"], ensure_ascii=False)
        self.path = clean_path(self.args.get("path") or self.args.get("file_path") or self.args.get("filePath"))
        self.command = str(self.args.get("command") or self.args.get("cmd") or "")
        self.kind = kind_of(self)
        self.edits = old_lines(self) if self.tool in ("edit", "write") else []

    def shows(self, path: str) -> bool:
        """Whether this call puts file `path` before the agent."""
        if self.tool == "read" and path and self.path:
            return self.path == path or self.path.endswith("/" + path) or path.endswith("/" + self.path)
        return bool(path) and self.tool == "bash" and os.path.basename(path) in self.command


def kind_of(call: Call) -> str:
    """The rough kind that the slices go by: read files by their ending, commands by their first match."""
    if call.tool == "read":
        path = call.path.lower()
        return "code" if re.search(CODE_FILE, path) else "prose" if re.search(PROSE_FILE, path) else "data"
    if call.tool == "bash":
        return next((kind for kind, pattern in COMMAND_KINDS.items() if re.search(pattern, call.command)), "command")
    kinds = {"edit": "edit", "write": "edit", "grep": "search", "find": "listing", "ls": "listing"}
    return kinds.get(call.tool, "other")


def old_lines(call: Call) -> list[tuple[str, list[str]]]:
    """(path, lines) of the old text of an edit, of each of several; of a patch, per file, what it removes and keeps."""
    several = call.args.get("edits") or [call.args]
    out = [(call.path, str(each["old"]).split("\n")) for each in several if each.get("old")]
    current = ""
    for line in str(call.args.get("patch") or "").split("\n") if not out else ():
        header = re.match(PATCHED, line)
        if header or line.startswith("*** Add File"):
            current = clean_path((header.group(1) or header.group(2)).strip()) if header else ""
            out.append((current, []))
        elif current and (line.startswith(" ") or line.startswith("-") and not line.startswith("---")):
            out[-1][1].append(line[1:])
    return [(path, old) for path, old in out if old]


def shell_old(command: str) -> list[str]:
    """What a writing shell command takes from the file it changes: sed and perl patterns, quoted strings.

    Whether a string is old text is decided later: it counts when the output that showed the file has it.
    """
    if not re.search(WRITES, command): return []
    found = [part for _, part in re.findall(SED_PART, command)] + ["".join(g) for g in re.findall(QUOTED, command)]
    lines = (line for part in found for line in part.replace("\\n", "\n").split("\n"))
    return [line for line in (re.sub(ESCAPED, r"\1", line).strip() for line in lines) if len(line) >= SHELL_OLD]


def line_numbers(call: Call) -> list[int]:
    """The lines that an edit names by number: an insert's anchor, a range without old text, sed's addresses."""
    args = call.args
    spans: list[tuple[Any, Any]] = [(args.get("insert_line"), args.get("insert_line"))]
    if call.tool == "bash":
        spans = [(int(a), int(b or a)) for a, b in re.findall(SED_LINES, call.command)]
        spans = spans if re.search(WRITES, call.command) else []
    elif args.get("new") and not args.get("old") and "insert_line" not in args:
        spans = [(args.get("start"), args.get("end", args.get("start")))]
    spans = [(a, b) for a, b in spans if isinstance(a, int) and isinstance(b, int) and 0 < a <= b]
    return [n for a, b in spans for n in range(a, min(b, a + 200) + 1)]


class Turn:
    """One turn of a session and what every engine's scoring needs of it, computed once.

    `names` and `grams` of an assistant turn include its calls' arguments. A result whose call is unknown has none.
    """

    def __init__(self, raw: dict[str, Any], calls: dict[str, Call]) -> None:
        """`raw` as in the row; `calls` are those before it, by id, and get this turn's."""
        self.role: str = raw["role"]
        self.text: str = raw["output"] if self.role == "tool" else raw.get("text", "")
        self.calls = [Call(each, self.text) for each in raw.get("calls", [])]
        calls.update((call.id, call) for call in self.calls)
        self.names = names(self.text).union(*(names(call.text) for call in self.calls))
        self.grams = grams(self.text).union(*(grams(call.text) for call in self.calls))
        self.bare = bare(self.text) if self.role == "tool" else set()
        self.call = calls.get(raw["call_id"]) if self.role == "tool" else None
        self.is_error = bool(raw.get("is_error"))
        self.compacted = self.role == "user" and bool(raw.get("compacted") or re.match(COMPACTED, self.text))
        mine = self.call is not None and self.call.tool in ("edit", "write")
        self.large = self.call is not None and len(self.text) >= LARGE and not mine  # these get a score


def prepare(row: dict[str, Any]) -> list[Turn]:
    """The turns of a row, in order."""
    calls: dict[str, Call] = {}
    # a generator, here and below: in one a StopIteration becomes an error; from a worker it would end `imap` in silence
    return list(Turn(raw, calls) for raw in row["turns"])


class Sent(NamedTuple):
    """What an engine sent for one result; `kept` are 1-based line numbers, None where the engine does not say."""

    text: str
    view: str
    shape: str = ""
    kept: tuple[int, ...] | None = None
    reason: str = ""


class Engine:
    """What sends the results of one session; this one, a baseline that sees large results only and has no memory."""

    sees_all = False  # whether small results and the agent's own edits pass it too

    def __init__(self, name: str = "full") -> None:
        """`full`, or `headtail`: the first and the last 5,000 characters, as most agents clip."""
        self.name = name

    def send(self, turn: Turn, task: str, latest: str) -> Sent:
        """What the model gets for the result of `turn`."""
        text, whole = turn.text, self.name == "full" or len(turn.text) <= 10_000
        return Sent(text, "full") if whole else Sent(f"{text[:5000]}\n… elided …\n{text[-5000:]}", self.name)

    def forget(self) -> None:
        """What was sent so far has left the model's context."""


class Product(Engine):
    """A jevlens.Lens in memory, called as a host calls it."""

    sees_all = True

    def __init__(self, judge: Any = "local", gutter: bool | None = None, settings: Any = None) -> None:
        """The arguments go to the Lens as they are."""
        self.lens = jevlens.Lens(judge=judge, store=None, gutter=gutter, settings=settings)

    def send(self, turn: Turn, task: str, latest: str) -> Sent:
        """What `see` gives back."""
        call = turn.call or Call({"id": "", "tool": "other", "args": {}}, "")
        seen = self.lens.see(turn.text, call.tool, call.args, task, latest, call.said, turn.is_error)
        return Sent(seen.text, seen.view, seen.shape, seen.kept, seen.reason)

    def forget(self) -> None:
        """Passed on to the lens."""
        self.lens.forget()


@dataclass
class Scored:
    """One large result: its slices and counts; `misses` are (kind, what was lost)."""

    row: str
    call: str
    group: str
    slices: tuple[str, ...]  # all, kind, agent, view, shape, reason
    counts: Counts[str]
    ms: float = 0.0
    misses: list[tuple[str, str]] = field(default_factory=list)
    page: tuple[str, tuple[int, ...], list[str]] | None = None  # text, kept lines, lines of later edits

    def miss(self, kind: str, lost: str, *fields: str) -> None:
        """Count a miss under these fields."""
        for name in fields: self.counts[name] = 1
        self.misses.append((kind, lost[:160]))


class Known:
    """What the session has been sent since its start or its last compaction."""

    def __init__(self, task: str) -> None:
        """The task is always known."""
        self.names, self.grams = names(task), grams(task)
        self.lines: set[str] = set()
        self.texts: list[str] = []

    def learn(self, turn: Turn, sent: str) -> None:
        """The model has got `sent` for this turn; what is sent whole was computed before."""
        whole = sent == turn.text
        self.names |= turn.names if whole else names(sent)
        self.grams |= turn.grams if whole else grams(sent)
        if turn.role == "tool":
            self.lines |= turn.bare if whole else bare(sent)
            self.texts.append(sent)

    def has(self, line: str, chars: int) -> bool:
        """Whether the line is known whole, or its first `chars` characters somewhere."""
        return line in self.lines or any(line[:chars] in text for text in self.texts)

    def shown(self, line: str, whole: bool) -> bool:
        """As `has`, but a short line that is a whole line of its output must stand as one."""
        return line in self.lines or ((not whole or len(line) >= PROOF) and self.has(line, 200))


def proven(old: Sequence[str], output: str) -> list[str]:
    """The trimmed old lines that an output shows; a lone brace proves nothing."""
    return [line for line in map(str.strip, old) if len(line) >= 4 and line[:200] in output]


def at_numbers(output: str, numbers: Sequence[int]) -> list[str]:
    """The lines that an output prints with one of these numbers before them."""
    found = (re.search(NUMBERED.format(number), output) for number in numbers)
    return [line for line in (match.group(1).strip() for match in found if match) if len(line) >= 4]


Open = tuple[int, Turn, Sent, Scored]  # a result, with the number of assistant messages before it


class Scorer:
    """Walks one session with one engine. `run` gives a Scored for every large result, in order."""

    def __init__(self, row: dict[str, Any], turns: list[Turn], engine: Engine, pages: bool = False) -> None:
        """`turns` are `prepare(row)`, shared by the engines that score the same row."""
        self.row, self.turns, self.engine, self.pages = row, turns, engine, pages
        self.known, self.steps = Known(row["task"]), 0
        self.open: list[Open] = []  # the scored results since the last compaction, for looking back

    def run(self, skip: Sequence[str] = ()) -> list[Scored]:
        """Scores of the large results whose call id is not in `skip`."""
        out = []
        task = latest = self.row["task"]
        for i, turn in enumerate(self.turns):
            sent = Sent(turn.text, "")
            if turn.role == "user":
                latest = turn.text
                if turn.compacted:
                    self.known, self.open = Known(task), []
                    self.engine.forget()
            for call in turn.calls: self.look_back(call)
            self.steps += turn.role == "assistant"
            if turn.call and (turn.large or self.engine.sees_all):
                start = time.perf_counter()
                sent = self.engine.send(turn, task, latest)
                ms = (time.perf_counter() - start) * 1000
                if turn.large and turn.call.id not in skip: out.append(self.score(i, turn, turn.call, sent, ms))
            self.known.learn(turn, sent.text)
        return out

    def score(self, i: int, turn: Turn, call: Call, sent: Sent, ms: float) -> Scored:
        """Counts of one large result by the referee's rules; `look_back` adds the corrected ones."""
        cut = sent.text != turn.text
        slices = ("all", call.kind, "agent:" + self.row["agent"], "view:" + sent.view, "shape:" + sent.shape,
                  "reason:" + sent.reason)  # fmt: skip
        counts = Counts(n=1, tokens=tokens(turn.text), sent=tokens(sent.text), compressed=int(cut))
        scored = Scored(self.row["id"], call.id, self.row.get("group", ""), slices, counts, ms)
        if self.pages and cut: scored.page = turn.text, kept_lines(turn.text, sent), []
        later = [each for each in self.turns[i + 1 :] if each.role == "assistant"]
        used = set().union(*(each.grams for each in later[:USED])) & turn.grams - self.known.grams
        counts.update(phrases=len(used), phrases_kept=len(used & grams(sent.text)) if cut else len(used))
        self.look_ahead(scored, call, turn.text, sent.text, later[:STEPS])
        if cut: self.quote_and_ref(scored, turn, sent.text, later[:USED])
        self.open.append((self.steps, turn, sent, scored))
        return scored

    def look_ahead(self, scored: Scored, call: Call, output: str, text: str, later: list[Turn]) -> None:
        """Edits of a file that this call shows, until it is read again (referee rules)."""
        reread = set()
        for other in (each for turn in later for each in turn.calls):
            if other.tool == "read": reread.add(other.path)
            for path, old in other.edits:
                lines = proven(old, output) if path not in reread and call.shows(path) else []
                lost = [line for line in lines if line[:200] not in text and not self.known.has(line, 200)]
                if lines: scored.counts["edits"] = 1
                if lines and lines[0][:80] not in text and not self.known.has(lines[0], 80): scored.counts["first"] = 1
                if lost: scored.miss("edit", f"{path}: {lost[0]}", "strict")

    def quote_and_ref(self, scored: Scored, turn: Turn, text: str, later: list[Turn]) -> None:
        """Lines that the next message quotes and names that the next two use, gone from what was sent."""
        lines = [line for line in map(str.strip, later[0].text.split("\n")) if len(line) >= QUOTE] if later else []
        lost = [q for q in lines if q in turn.text and q[:400] not in text and not self.known.has(q, 400)]
        if lost: scored.miss("quote", lost[0], "quote")
        only = set().union(*(each.names for each in later)) & turn.names - self.known.names - names(text)
        untrained = sorted(name for name in only if not trained(name))
        if only:
            kind, fields = ("ref", ["ref", "c_ref"]) if untrained else ("ref, known from training", ["ref"])
            scored.miss(kind, " ".join((untrained or sorted(only))[:6]), *fields)

    def look_back(self, call: Call) -> None:
        """Hold an edit or a recall against the last result that showed what it needs (corrected rules)."""
        recent = [entry for entry in reversed(self.open) if self.steps - entry[0] < STEPS]
        numbers, old = line_numbers(call), shell_old(call.command) if call.tool == "bash" else []
        paths = re.findall(FILE_NAME, call.command) if call.tool == "bash" else [call.path]
        by_shell_or_number = [(path, old) for path in dict.fromkeys(paths) if old or numbers]
        for path, lines in (call.edits or by_shell_or_number) if recent else (): self.hold(recent, path, lines, numbers)
        self.recall(call)

    def hold(self, recent: Sequence[Open], path: str, old: list[str], numbers: list[int]) -> None:
        """Count an edit of `path` at the last result that shows one of its old lines or line numbers."""
        for _, turn, sent, scored in recent:
            shows = turn.call is not None and turn.call.shows(path)
            lines = proven(old, turn.text) + at_numbers(turn.text, numbers) if shows else []
            if not lines: continue
            scored.counts["c_edits"] = 1
            if scored.page: scored.page[2].extend(lines)
            lost = [line for line in lines if not self.known.shown(line, line in turn.bare)]
            if lost and sent.text != turn.text:
                scored.miss("edit*", f"{path}: {lost[0]}", "c_strict", *(["c_first"] if lost[0] == lines[0] else []))
            return

    def recall(self, call: Call) -> None:
        """A recorded recall that the view sent here would not answer."""
        command = re.search(RECALLED, call.command)
        wanted = str(call.args.get("id") or "") if "recall" in call.name.lower() else command[1] if command else ""
        asked = [entry for entry in self.open if wanted and (wanted in entry[1].text or wanted == entry[3].call)]
        for _, turn, sent, scored in asked[-1:]:
            scored.counts["recalls"] = 1
            if sent.text != turn.text and recall_lost(call.args, turn.text, kept_lines(turn.text, sent)):
                scored.miss("recall", json.dumps(call.args, ensure_ascii=False), "recall")


def kept_lines(output: str, sent: Sent) -> tuple[int, ...]:
    """1-based numbers of the lines that were sent whole; found by their text where the engine does not say."""
    have = set(sent.text.split("\n")) if sent.kept is None else ()
    return tuple(n for n, line in enumerate(output.split("\n"), 1) if line in have) if have else sent.kept or ()


def recall_lost(args: dict[str, Any], output: str, kept: Sequence[int]) -> bool:
    """Whether a recall of lines, of a pattern or of all asks for a line that is not among the kept ones."""
    lines = output.split("\n")
    gone = set(range(1, len(lines) + 1)) - set(kept)
    if args.get("lines"):
        span = re.fullmatch(SPAN, str(args["lines"]))
        return span is None or not gone.isdisjoint(range(int(span[1]), int(span[2] or span[1]) + 1))
    return any(str(args.get("pattern") or "").strip("/") in lines[n - 1] for n in gone)


# ---------------------------------------------------------------- tables, intervals, progress, pages

RESAMPLES = 400  # bootstrap replicates: the ends of a 95 % interval move by under a tenth of its width beyond that
MEASURES = {  # name: fields of the misses and of what they are a share of
    "edit": ("first", "edits"), "strict": ("strict", "edits"), "quote": ("quote", "n"), "ref": ("ref", "n"),
    "recall": ("recall", "recalls"), "c_edit": ("c_first", "c_edits"), "c_strict": ("c_strict", "c_edits"),
    "c_ref": ("c_ref", "n")}  # fmt: skip
OBJECTIVES = {  # name: the measures that stand for the edit-miss and the ref-miss in it
    "objective": ("edit", "ref"), "strict_objective": ("strict", "ref"),
    "c_objective": ("c_edit", "c_ref"), "c_strict_objective": ("c_strict", "c_ref")}  # fmt: skip


def measures(counts: Sequence[int]) -> dict[str, float]:
    """Percentages and objectives of summed counts (in the order of FIELDS)."""
    c = dict(zip(FIELDS, counts))
    out = {"saved": 100 - 100 * c["sent"] / (c["tokens"] or 1) if c["tokens"] else 0.0}
    out.update((name, 100 * c[above] / (c[below] or 1)) for name, (above, below) in MEASURES.items())
    out["phrases"] = 100 * c["phrases_kept"] / c["phrases"] if c["phrases"] else 100.0
    rest = out["saved"] - 2 * out["quote"] - 2 * out["recall"]  # percentage points; an edit-miss weighs five, a ref one
    out.update((name, rest - 5 * out[edit] - out[ref]) for name, (edit, ref) in OBJECTIVES.items())
    return out


def resample(size: int) -> Iterator[list[int]]:
    """RESAMPLES times, how often each of `size` groups is drawn when `size` are drawn with replacement.

    The draws come from one linear congruential generator (Knuth's MMIX constants) that always starts at `size`: the
    same input gives the same interval on every machine.
    """
    state = size
    for _ in range(RESAMPLES):
        drawn = [0] * size
        for _ in range(size):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            drawn[(state >> 33) % size] += 1
        yield drawn


def intervals(scored: Sequence[Scored]) -> dict[str, tuple[float, float]]:
    """95 % intervals of every measure, by bootstrap over groups; of no miss in n, up to 300/n % (rule of three)."""
    groups: dict[str, list[int]] = {}
    for each in scored:
        sums = groups.setdefault(each.group, [0] * len(FIELDS))
        sums[:] = map(operator.add, sums, (each.counts[name] for name in FIELDS))
    columns = list(zip(*groups.values()))
    runs = [measures([sum(map(operator.mul, drawn, column)) for column in columns]) for drawn in resample(len(groups))]
    values = {name: sorted(run[name] for run in runs) for name in runs[0]}
    out = {name: (each[RESAMPLES // 40], each[-1 - RESAMPLES // 40]) for name, each in values.items()}
    total = dict(zip(FIELDS, map(sum, columns)))
    none = {name: below for name, (above, below) in MEASURES.items() if total[below] and not total[above]}
    return {**out, **{name: (0.0, min(100.0, 300 / total[below])) for name, below in none.items()}}


def summary(scored: Sequence[Scored]) -> dict[str, Any]:
    """Counts, measures and their intervals over some results."""
    counts = {name: sum(each.counts[name] for each in scored) for name in FIELDS}
    spread = {k: (round(a, 2), round(b, 2)) for k, (a, b) in intervals(scored).items()} if scored else {}
    return {"counts": counts, **{k: round(v, 3) for k, v in measures(list(counts.values())).items()}, "ci95": spread}


def machine() -> dict[str, str]:
    """Where and on what a number was taken."""
    git = ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty"]
    commit = ""
    with contextlib.suppress(OSError):
        commit = subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip()
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return {"machine": system, "python": python, "version": jevlens.__version__, "commit": commit or "unknown"}


def report(as_json: bool, data: dict[str, Any], tables: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> None:
    """Print `data` as JSON, or the tables (title, head, rows) as aligned columns under one line on the machine."""
    if as_json:
        print(json.dumps({**machine(), **data}, ensure_ascii=False))
        return
    print("; ".join(machine().values()))
    for title, head, rows in tables:
        cells = [[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in (head, *rows)]
        widths = [min(40, max(map(len, column))) for column in zip(*cells)]  # a lost line may be longer
        aligned = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells)
        print(f"\n{title}", *aligned, sep="\n")


def progress(share: float) -> None:
    """Redraw the bar on stderr, where that is a terminal, at 0 <= share <= 1; 1 ends its line."""
    if sys.stderr.isatty():
        bar = f"\r[{'#' * int(25 * share):<25}] {100 * share:3.0f} %"
        print(bar, end="\n" if share == 1 else "", file=sys.stderr, flush=True)


PAGE = """<!doctype html><meta charset="utf-8"><title>Misses</title><style>
:root{color-scheme:light dark;--kept:#1a7f37;--need:#b35900;--mark:#fff1c2}
@media(prefers-color-scheme:dark){:root{--kept:#57c26f;--need:#ffb259;--mark:#4a3a10}}
body{font:14px/1.5 system-ui,sans-serif;margin:2rem}pre{overflow-x:auto;border:1px solid #8886;padding:.5rem}
.k{color:var(--kept)}.d{opacity:.6}.n{color:var(--need);background:var(--mark);font-weight:bold}summary{cursor:pointer}
</style><h1>Misses</h1><p><span class="k">+ sent</span> · <span class="d">- left out</span> ·
<span class="n">! left out and used later</span></p>"""
MARKS = {"+": "k", "-": "d", "!": "n"}  # classes of PAGE
NEAR = 3  # lines around a marked one that a page shows; the rest of a stretch is folded into a count


def write_page(path: str, scored: Sequence[Scored]) -> None:
    """Write every result with a miss as the original with what was sent, left out and used later; one HTML file."""
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(PAGE)
        for each in (each for each in scored if each.page and each.misses):
            title = html.escape(" · ".join([each.row, each.call, *each.slices[1:]]))
            lost = "".join(f"<li>{html.escape(f'{kind}: {what}')}" for kind, what in each.misses)
            file.write(f"<details open><summary>{title}</summary><ul>{lost}</ul><pre>{page_text(each)}</pre></details>")


def page_text(each: Scored) -> str:
    """The lines of one result's page: those near a needed line or the edge of a stretch, and counts of the others."""
    text, kept, needed = each.page or ("", (), [])
    words = {*needed, *(word for kind, what in each.misses for word in (what.split() if "ref" in kind else [what]))}
    lines, sent = text.split("\n"), set(kept)
    used = [any(word in line or line.strip() in word for word in words) and bool(line.strip()) for line in lines]
    marks = "".join("+" if n in sent else "!" if use else "-" for n, use in enumerate(used, 1))
    dull = [marks[n] != "!" and len(set(marks[max(0, n - NEAR) : n + NEAR + 1])) == 1 for n in range(len(lines))]
    out = []
    for folded, group in itertools.groupby(range(len(lines)), dull.__getitem__):
        rows = [f'<span class="{MARKS[marks[n]]}">{marks[n]} {n + 1:5} {html.escape(lines[n])}</span>' for n in group]
        out += [f"⋯ {len(rows)} more"] if folded else rows
    return "\n".join(out)


# ---------------------------------------------------------------- outputs, trajectories, sessions, sweep, speed


_LOCAL = dict(jevlens.LOCAL)  # the local judge's table as it was before any change


def new_engine(name: str, args: argparse.Namespace) -> Engine:
    """An engine for one session."""
    lens = name not in ("full", "headtail")
    return Product(judge_of(name), args.gutter, settings_of(args.settings)) if lens else Engine(name)


@functools.lru_cache(maxsize=None)
def judge_of(name: str) -> Any:
    """The judge of a name; Jev remembers its answers by state and questions for the life of the process."""
    judge = jevlens.make_judge(name, jevlens.Settings())
    if name == "jev" and not judge.client.key_source:
        raise BenchError("--judge jev: no key is set, so every result would be sent whole")
    return judge


def settings_of(changes: dict[str, str]) -> jevlens.Settings:
    """The default Settings with these fields changed; other names change the local judge's table LOCAL."""
    fields: dict[str, Any] = {}
    jevlens.LOCAL.update(_LOCAL)
    for name, value in changes.items():
        default = getattr(jevlens.Settings, name, None)
        if name in jevlens.LOCAL:
            jevlens.LOCAL[name] = float(value)
        elif isinstance(default, (bool, int, float, str)):
            fields[name] = value in ("1", "True", "true") if isinstance(default, bool) else type(default)(value)
        else:
            raise BenchError(f"--set {name}: neither a setting nor a constant of the local judge")
    return dataclasses.replace(jevlens.Settings(), **fields)


def score_line(args: argparse.Namespace, line: bytes) -> list[list[Scored]]:
    """Per engine of the options, the scored results of the session on a line of JSON."""
    row = json.loads(line)
    digest = hashlib.sha256(row.get("group", "").encode("utf-8", "surrogatepass")).hexdigest()
    if args.half and args.half != ("A" if digest < "8" else "B"):  # by the first hexadecimal digit
        return [[] for _ in args.engines]
    turns, skip = prepare(row), (row.get("seen_in_dev") or ()) if args.fresh else ()
    return list(Scorer(row, turns, new_engine(name, args), bool(args.html)).run(skip) for name in args.engines)


def read_lines(paths: Sequence[str], every: int = 1, offset: int = 0) -> Iterator[bytes]:
    """Every `every`-th line of JSONL files, gzip or plain, with a bar on stderr."""
    sizes = [os.path.getsize(path) for path in paths]
    number = 0
    for k, path in enumerate(paths):
        with open(path, "rb") as raw:
            for line in gzip.open(raw) if path.endswith(".gz") else raw:
                progress(0.999 * (sum(sizes[:k]) + raw.tell()) / max(1, sum(sizes)))
                if number % every == offset and line.strip(): yield line
                number += 1
    progress(1)


def score_lines(lines: Iterable[bytes], args: argparse.Namespace) -> list[list[Scored]]:
    """Per engine, the results of all rows in the order of the rows; `args.jobs` processes share the rows."""
    out: list[list[Scored]] = [[] for _ in args.engines]
    job = functools.partial(score_line, args)
    with multiprocessing.Pool(args.jobs) if args.jobs > 1 else contextlib.nullcontext() as pool:
        # imap reads ahead by what fits its pipe, so memory stays bounded
        for per_engine in pool.imap(job, lines) if pool else map(job, lines):
            for scored, more in zip(out, per_engine): scored.extend(more)
    return out


def print_scores(args: argparse.Namespace, all_scored: list[list[Scored]], **more: Any) -> None:
    """Headline with intervals and baselines, slices, times and the misses, as tables or as JSON."""
    results = {name: summary(scored) for name, scored in zip(args.engines, all_scored)}
    first = all_scored[0]
    order = sorted({name for each in first for name in each.slices}, key=lambda key: (key != "all", ":" in key, key))
    slices = {name: summary([each for each in first if name in each.slices]) for name in order}
    times = sorted(each.ms for each in first) or [0.0]
    ms = {name: times[int(len(times) * at)] for name, at in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))}
    shown = [name for name in results[args.engines[0]] if name not in ("counts", "ci95")]
    counted = ("n", "compressed", "tokens", "edits", "c_edits")
    tables: list[Any] = [
        ("all large results", ["", "of", "referee rules", "corrected", *args.engines[1:]],
         [headline(name, results) for name in shown if not name.startswith("c_")]),
        ("slices (c_: corrected rules)", ["", *counted, *shown],
         [[name, *(of["counts"][k] for k in counted), *(of[k] for k in shown)] for name, of in slices.items()]),
        ("ms per large result", ["", "ms"], list(ms.items()))]  # fmt: skip
    misses = [[kind, each.row, each.call, *each.slices[1:], lost] for each in first for kind, lost in each.misses]
    if args.worst:
        tables.append(("misses", "miss row call kind agent view shape reason lost".split(), misses))
        more["misses"] = misses
    if args.html: write_page(args.html, first)
    report(args.json, {"engines": results, "slices": slices, "ms": ms, **more}, tables)


def headline(name: str, results: dict[str, dict[str, Any]]) -> list[str]:
    """One measure: what it is a share of, the judged engine by both rules with 95 % intervals, the others' values."""
    first, *others = results.values()
    fair = "c_" + name if "c_" + name in first else name
    values = [f"{first[k]:.2f} [{', '.join(f'{end:.1f}' for end in first['ci95'].get(k, ()))}]" for k in (name, fair)]
    below = dict.fromkeys(MEASURES.get(k, ("", "phrases" if k == "phrases" else "n"))[1] for k in (name, fair))
    of = " / ".join(str(first["counts"][k]) for k in below)
    return [name, of, *values, *(f"{other[name]:.2f}" for other in others)]


OPTIONS: dict[str, dict[str, Any]] = {
    "files": {"nargs": "+", "metavar": "FILE", "help": "JSONL, plain or gzip"},
    "paths": {"nargs": "+", "metavar": "PATH", "help": "files, or folders that hold sessions anywhere below"},
    "folder": {"metavar": "DIR", "help": "outputs and their needles.json"},
    "--judge": {"choices": ("local", "jev", "none"), "default": "local"},
    "--gutter": {"action": "store_true", "default": None, "help": "number the lines where the tool did not"},
    "--set": {"action": "append", "default": [], "metavar": "NAME=VALUE", "help": "a setting or a local constant"},
    "--json": {"action": "store_true"},
    "--jobs": {"type": int, "default": min(2, os.cpu_count() or 1)},
    "--worst": {"action": "store_true", "help": "list every miss"},
    "--html": {"metavar": "FILE", "help": "write the misses as a page"},
    "--no-baselines": {"action": "store_true", "help": "the lens alone: half the time"},
    "--every": {"type": int, "default": 1, "metavar": "N", "help": "every Nth row only"},
    "--offset": {"type": int, "default": 0},
    "--half": {"choices": ("A", "B"), "default": "", "help": "half of the groups, by the first digit of their SHA-256"},
    "--fresh": {"action": "store_true", "help": "without the results that rows mark as seen_in_dev"},
    "--tuned": {"type": int, "default": 3, "metavar": "N", "help": "the first N conversations are reported apart"},
    "--grid": {"action": "store_true", "help": "all combinations, not one setting at a time"}}  # fmt: skip
ENGINE = ("--judge", "--gutter", "--set", "--json", "--no-baselines")
SCORES = (*ENGINE, "--jobs", "--worst", "--html")
ROWS = ("--every", "--offset", "--half", "--fresh")


def parsed(name: str, about: str | None, argv: Sequence[str], *options: str) -> argparse.Namespace:
    """The arguments of a command that takes these of OPTIONS; `engines`: the judged one first; `settings`: of --set."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"bench.py {name}", description=about, formatter_class=form)
    parser.set_defaults(**{option.strip("-").replace("-", "_"): of.get("default") for option, of in OPTIONS.items()})
    for option in options: parser.add_argument(option, **OPTIONS[option])
    args = parser.parse_args(argv)
    judged = [] if args.judge == "none" else [args.judge]
    args.engines = judged if judged and args.no_baselines else [*judged, "headtail", "full"]
    args.settings = dict(word.partition("=")[::2] for word in args.set)
    return args


def cmd_trajectories(argv: Sequence[str]) -> None:
    """recorded sessions, scored by what the agent did next"""
    args = parsed("trajectories", cmd_trajectories.__doc__, argv, "files", *SCORES, *ROWS)
    print_scores(args, score_lines(read_lines(args.files, max(1, args.every), args.offset), args))


def session_paths(path: str) -> Iterator[str]:
    """The path of a file; below a folder what may hold sessions, by name; a folder of event files is one."""
    if os.path.isfile(path): yield path
    for folder, _, files in sorted(os.walk(path)):
        found = [name for name in sorted(files) if name.endswith((".json", ".jsonl", ".traj", ".gz"))]
        events = [folder] if any(name.startswith("event-") for name in files) else []
        yield from events or [os.path.join(folder, name) for name in found]


def typed(command: str) -> tuple[str, dict[str, Any]]:
    """Tool and arguments of a line that SWE-agent typed: of its editors the words in their places and the options (what
    follows its `edit 10:20` is a text without quotes, and no command line); all else is bash's."""
    editor, words = command.startswith(("str_replace_editor ", "edit '", 'edit "')), list[str]()
    with contextlib.suppress(ValueError): words = shlex.split(command) if editor else []
    if not words: return "bash", {"command": command}
    places = ("old", "new") if words[0] == "edit" else ("command", "path")
    return words[0], {**dict(zip(places, words[1:])), **{k[2:]: v for k, v in zip(words[3::2], words[4::2])}}


def row_of(session: history.Session) -> dict[str, Any]:
    """A recorded session as a row; tools and arguments get the canonical names."""
    turns = []
    for entry in session.entries:
        turns.append({**entry, "text": entry["content"], "output": entry["content"], "calls": []})
        for call in entry.get("calls", ()):
            shell = session.format == "swe-agent"
            tool, args = jevlens.canonical(*typed(call["args"]["command"]) if shell else (call["tool"], call["args"]))
            args["edits"] = [jevlens.canonical("edit", each)[1] for each in args.get("edits") or ()]
            known = tool if tool in ("read", "bash", "grep", "find", "ls", "edit", "write") else "other"
            turns[-1]["calls"].append({"id": call["id"], "tool": known, "name": call["tool"], "args": args})
    return {"id": session.id, "agent": session.agent, "group": session.group, "task": session.task, "turns": turns}


def cmd_sessions(argv: Sequence[str]) -> None:
    """what would have been saved, and missed, on your own recorded sessions; nothing is uploaded, copied or written"""
    args = parsed("sessions", cmd_sessions.__doc__, argv, "paths", *SCORES)
    found: Counts[str] = Counts()

    def rows() -> Iterator[bytes]:
        for path in itertools.chain.from_iterable(map(session_paths, args.paths)):
            try:
                sessions = history.read_session(path)
            except history.HistoryError:
                found["files of no known format"] += 1
                continue
            for session in sessions:
                found.update({"sessions": 1, session.format: 1, "records skipped": session.skipped})
                yield json.dumps(row_of(session)).encode()

    scored = score_lines(rows(), args)
    if not found["sessions"]: raise BenchError(f"{' '.join(args.paths)}: no recorded session of a known format")
    print(", ".join(f"{number} {name}" for name, number in found.items()), file=sys.stderr)
    print_scores(args, scored, found=found)


GAIN = 0.3  # points of the strict objective that a change must bring to be kept: less is noise
PHRASES = 0.1  # points of phrases kept that it may cost: a view must not win by listing names


def cmd_sweep(argv: Sequence[str]) -> None:
    """one setting at a time, each merged into the best so far, or a grid; --set NAME=VALUE,VALUE"""
    args = parsed("sweep", cmd_sweep.__doc__, argv, "files", "--grid", "--judge", "--set", "--jobs", "--json", *ROWS)
    choices = [[(name, value) for value in values.split(",")] for name, values in args.settings.items()]
    args.engines, args.jobs = args.engines[:1], 1 if args.judge == "jev" else args.jobs  # one process remembers Jev's
    head = ["", "saved", "edit", "strict", "quote", "ref", "phrases", "objective", "strict_objective", "kept"]
    rows: list[list[Any]] = []

    def tried(changes: dict[str, str]) -> dict[str, Any]:
        args.settings = changes
        of = summary(score_lines(read_lines(args.files, max(1, args.every), args.offset), args)[0])
        rows.append([" ".join(map("=".join, changes.items())) or "as it is", *(of[key] for key in head[1:-1]), ""])
        return of

    kept: dict[str, str] = {}
    best = tried(kept)
    for group in [list(itertools.product(*choices))] if args.grid else [list(zip(each)) for each in choices]:
        start = kept
        for trial in ({**start, **dict(proposal)} for proposal in group):
            of = tried(trial)
            if of["strict_objective"] > best["strict_objective"] + GAIN and of["phrases"] >= best["phrases"] - PHRASES:
                best, kept, rows[-1][-1] = of, trial, "*"
    report(args.json, {"sweep": [dict(zip(head, row)) for row in rows]}, [("sweep", head, rows)])


# kind: what was read or run, the lines of the made output by number, and the rare line that TASK asks for
SAMPLES = {
    "code": ("app/parts.py", "    def part_{0}(self):\n        return self.left_{0}\n", "    def odd_part(self):"),
    "test": ("pytest -v", "tests/test_a.py::test_part_{0} PASSED [ 50%]", "tests/test_a.py::test_odd_part FAILED"),
    "search": ("grep -rn part src", "src/mod_{1}.py:{0}:    part = parts[{0}]", "src/mod_7.py:901:    odd_part = 0"),
    "listing": ("find . -type f", "./src/pack_{1}/mod_{0}.py", "./src/pack_7/odd_part.py"),
    "json": ("cat rows.json", '  {{"id": {0}, "name": "part {0}"}},', '  {"id": -1, "name": "odd_part"},'),
    "prose": ("NOTES.md", "Point {0} of the notes tells what was done about part {1}.", "The odd_part was left out.")}


def call_of(what: str) -> Call:
    """A read of a file, or a shell command, as a call."""
    reads = " " not in what
    return Call({"id": "c", "tool": "read" if reads else "bash", "args": {"path" if reads else "command": what}}, "")


def sample(kind: str, size: int) -> str:
    """A made output of at least `size` characters, its rare line a third of the way down."""
    _, line, rare = SAMPLES[kind]
    count = size // len(line.format(10_000, 100)) + 1
    lines = [line.format(n, n // 40) for n in range(count)]
    return "\n".join([*lines[: count // 3], rare, *lines[count // 3 :]])


TASK = "Find odd_part and mend it."


def needle_test(cases: Sequence[tuple[str, str, str, str, list[str]]], args: argparse.Namespace) -> None:
    """Print for every case (name, command, text, task, needles) what was sent; a saving is safe with all needles."""
    rows: list[dict[str, Any]] = []
    for name, what, text, task, needles in cases:
        turn = Turn({"role": "tool", "output": text, "call_id": "c"}, {"c": call_of(what)})
        row: dict[str, Any] = {"output": name, "tokens": tokens(text)}
        for engine in args.engines:
            start = time.perf_counter()
            sent = new_engine(engine, args).send(turn, task, task)
            ms, kept = (time.perf_counter() - start) * 1000, sum(needle in sent.text for needle in needles)
            saved = 100 - 100 * tokens(sent.text) / row["tokens"]
            cells = {"safe %": saved if kept == len(needles) else 0.0, "needles": f"{kept}/{len(needles)}"}
            if engine == args.engines[0]:
                cells = {"sent": tokens(sent.text), "view": sent.view, "ms": ms, "saved %": saved, **cells}
            row.update((f"{engine} {key}", cell) for key, cell in cells.items())
        rows.append(row)
    mean = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0] if "%" in key}
    whole = {key: sum(len(set(row[key].split("/"))) == 1 for row in rows) for key in rows[0] if "needles" in key}
    last = {"output": "mean; all needles", **mean, **whole}
    table = [[row.get(key, "") for key in rows[0]] for row in (*rows, last)]
    report(args.json, {"outputs": rows, "mean": mean, "all needles": whole}, [("needles", list(rows[0]), table)])


def cmd_outputs(argv: Sequence[str]) -> None:
    """needles kept and characters saved on real outputs"""
    args = parsed("outputs", cmd_outputs.__doc__, argv, "folder", *ENGINE)
    with open(os.path.join(args.folder, "needles.json"), encoding="utf-8") as file: wanted = json.load(file)
    cases = []
    for each in wanted:
        with open(os.path.join(args.folder, each["name"] + ".txt"), encoding="utf-8", newline="") as file:
            what = each["command"].split()[-1] if each["tool"] == "read" else each["command"]
            cases.append((each["name"], what, file.read(), each["task"], each["needles"]))
    needle_test(cases, args)


def cmd_short(argv: Sequence[str]) -> None:
    """a short run on outputs that it makes itself"""
    args = parsed("", __doc__, argv, *ENGINE)
    needle_test([(kind, what, sample(kind, 100_000), TASK, [rare]) for kind, (what, _, rare) in SAMPLES.items()], args)


SIZES = (10_000, 100_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000)  # characters
STARTS = 9  # rounds of process starts, one of each kind in turn, of which the median counts
HOOKED = b'{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash", "tool_response": {"stdout": "a"}}'


def median_ms(job: Callable[[], object], repeats: int = 9) -> float:
    """The median time of a job."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[repeats // 2]


def seeing(kind: str, text: str) -> Callable[[], object]:
    """A job: a new session sees one output."""
    call = call_of(SAMPLES[kind][0])
    return lambda: jevlens.Lens(judge="local", settings=jevlens.Settings()).see(text, call.tool, call.args, TASK)


def starts() -> list[list[Any]]:
    """Median milliseconds from start to finish of a bare interpreter, of `see` and of `hook` on a small result."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jevlens.py")
    commands = {"bare": (["-c", ""], b""), "see": ([script, "see", "-"], b"a.py\n"), "hook": ([script, "hook"], HOOKED)}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "JEV_LENS_DATA_DIR": folder, "JEV_LENS_CLASSIFIER": "local"}
        for name, (words, given) in list(commands.items()) * STARTS:
            job = functools.partial(subprocess.run, [sys.executable, "-E", "-s", *words], input=given, env=env)
            times[name].append(median_ms(functools.partial(job, check=True, capture_output=True), 1))
    middle = {name: sorted(each)[STARTS // 2] for name, each in times.items()}
    return [[name, ms, f"{ms / middle['bare']:.2f}", ms - middle["bare"]] for name, ms in middle.items()]


def cmd_speed(argv: Sequence[str]) -> None:
    """time by size and kind, growth, peak memory, process starts"""
    args = parsed("speed", cmd_speed.__doc__, argv, "--json")
    begun, rows = starts(), []
    for kind, size in [*itertools.product(SAMPLES, SIZES[:3]), *(("test", size) for size in SIZES[3:])]:
        text, repeats = sample(kind, size), 9 if size < 1_000_000 else 3 if size < 4_000_000 else 1
        ms, once = median_ms(seeing(kind, text), repeats), median_ms(functools.partial(names, text), repeats)
        rows.append([kind, f"{size / 1e6:g} MB", ms, ms / (size / 1e6), ms / once])
    rows.append(["one line", "40 MB", one := median_ms(seeing("json", "x" * 40_000_000), 1), one / 40, ""])
    text = sample("test", 10_000_000)
    tracemalloc.start()
    seeing("test", text)()
    peak = len(text) + tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tables: list[Any] = [
        ("time of a view", ["", "size", "ms", "ms per MB", "in identifier passes"], rows),
        ("peak memory (test log, the input counted)", ["", "MB", "x input", "bytes a line beyond 8 x input"],
         [["10 MB", peak / 1e6, peak / len(text), (peak - 8 * len(text)) / (text.count("\n") + 1)]]),
        ("process start to finish", ["", "ms", "x bare", "ms above bare"], begun)]  # fmt: skip
    report(args.json, {title: [dict(zip(head, row)) for row in rows] for title, head, rows in tables}, tables)


# ---------------------------------------------------------------- dialogues and distil
#
# `distil` replays recorded sessions of two user turns or more: a policy edits what was sent, and each later call is
# priced as by a provider that reads a cached prefix at a tenth of the price of plain input, the cache never cold.
# What an edit removes is saved on every later call; what stands behind it is paid in full once. Harm: a later message
# of the agent edits, quotes or names something that only removed text had shown.

PLAIN = 10  # price of a token of plain input, of a cached one being 1
POLICIES = ("run end", "cold run end", "checkpoint", "rolling", "batch", "budget")


def row_entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of a row, with turn numbers as ids."""
    out = []
    for i, turn in enumerate(row["turns"]):
        entry = {"id": str(i), "role": turn["role"], "content": turn.get("text", turn.get("output", ""))}
        out.append({**entry, **{key: turn[key] for key in ("calls", "call_id", "is_error") if key in turn}})
    return out


def entry_tokens(entry: dict[str, Any]) -> int:
    """Tokens of an entry as sent: its text, and its calls as JSON."""
    return tokens(entry.get("content", "") + "".join(map(json.dumps, entry.get("calls", ()))))


def scripted(state: dict[str, Any], questions: dict[str, Any], timeout: float) -> dict[str, Any]:
    """A judge without a model: something is needed when what came after shares one of its names, else it is not."""
    rest = {key: state[key] for key in state if key not in ("chunks", "items", "exchanges", "item", "situation")}
    used = names(json.dumps(rest, ensure_ascii=False))
    parts = {**state.get("chunks", {}), **state.get("items", {}), **state.get("exchanges", {})}
    needed = {key: 0.8 if names(str(part)) & used else 0.1 for key, part in parts.items()}
    best = next((key for key in needed if needed[key] > 0.5), "none")
    item = 0.8 if names(str(state.get("item", ""))) & used else 0.1
    return {"keep_whole": 0.1, "focus": (best, {best: 0.9}), "needed": item, "outcome_only": 0.5, **needed}


class Replay:
    """One session under one policy, beside the same session as recorded; `counts`: tokens, price units, turns."""

    def __init__(self, row: dict[str, Any], turns: list[Turn], policy: str, judged: bool) -> None:
        """`turns` are `prepare(row)`; `judged`: by the scripted judge, else by rule."""
        self.task, self.turns, self.policy, self.ask = row["task"], turns, policy, scripted if judged else None
        self.entries, self.records = row_entries(row), list[dict[str, Any]]()
        self.sent = list(self.entries)  # as the model sees them
        self.sizes = [entry_tokens(entry) for entry in self.entries]
        self.ledger = history.Ledger(policy, self.ask) if policy in POLICIES[3:] else None
        self.counts: Counts[str] = Counts()
        self.cold = False  # whether a pause has cost the cache
        self.restart(0)

    def restart(self, base: int) -> None:
        """The context begins here: at the start, or at the summary of a compaction."""
        self.base = self.cached = self.whole = base  # end of what is cached: as sent, as recorded
        self.known, self.gone = Known(self.task), dict[int, Turn]()

    def run(self) -> Counts[str]:
        """All calls of the session, in order."""
        for i, turn in enumerate(self.turns):
            if turn.compacted: self.restart(i)
            before = self.turns[i - 1] if i > self.base else None
            ended = before is not None and before.role != "tool" and not before.calls
            if turn.role == "user" and ended and "run end" in self.policy:
                self.cold = "cold" in self.policy
                self.edit(i, history.distil)
            if turn.role == "assistant":
                if self.policy == "checkpoint":
                    self.edit(i, history.checkpoint)
                elif self.ledger:
                    self.ledger.decide(self.entries[self.base : i])
                    self.show(i, self.ledger.apply(self.entries[self.base : i]))
                self.call(i, turn)
            self.known.learn(turn, turn.text)
        return self.counts

    def edit(self, i: int, way: Any) -> None:
        """Let `distil` or `checkpoint` edit what stands before turn `i`."""
        pairs = list(zip(self.entries[self.base : i], self.sent[self.base : i]))
        old = [{"targetId": raw["id"], "replacement": now.get("content")} for raw, now in pairs if now is not raw]
        raws = [raw for raw, _ in pairs]
        edits, record = way(raws, self.ask, edits=old, records=self.records, prices="openai", cold=self.cold)
        self.records += [record] if record else []
        latest = {edit["targetId"]: edit["replacement"] for edit in [*old, *edits]}
        texts = [latest.get(raw["id"], raw["content"]) for raw in raws]
        self.show(i, [{} if text is None else {**raw, "content": text} for raw, text in zip(raws, texts)])

    def show(self, i: int, shown: Sequence[dict[str, Any]]) -> None:
        """Send these entries before turn `i`; where one differs, the cache ends, and what is known is counted anew."""
        changed = [k for k, now in enumerate(shown, self.base) if now.get("content") != self.sent[k].get("content")]
        for k in changed:
            self.sent[k], self.gone[k] = shown[k - self.base], self.turns[k]
            self.sizes[k] = entry_tokens(self.sent[k])
        if changed:
            self.cached = min(self.cached, changed[0])
            self.counts["edits"] += len(changed)
            self.known = Known(self.task)
            for turn, now in zip(self.turns[self.base : i], self.sent[self.base : i]):
                self.known.learn(turn, now.get("content", ""))

    def call(self, i: int, turn: Turn) -> None:
        """Price the call that gave turn `i`, and hold what the agent did there against what was removed."""
        raw = [entry_tokens(entry) for entry in self.entries[self.base : i]]
        sides = (("recorded", raw, self.whole), ("sent", self.sizes[self.base : i], self.cached))
        for side, sizes, end in sides:
            cached = 0 if self.cold else sum(sizes[: end - self.base])
            self.counts[side] += sum(sizes)
            self.counts["cost of " + side] += PLAIN * (sum(sizes) - cached) + cached
        self.cached, self.whole, self.cold = i, i, False
        self.counts["later turns"] += bool(self.gone)
        lost = self.lost(turn) if self.gone else ()
        self.counts["harmed"] += any(lost)
        for kind, found in zip(("edit", "quote", "name"), lost): self.counts[kind] += bool(found)

    def lost(self, turn: Turn) -> tuple[list[str], list[str], set[str]]:
        """What turn takes over of removed text alone: old lines of its edits, lines that it quotes, names."""
        gone = list(self.gone.values())
        olds = [line for call in turn.calls for _, old in [*call.edits, ("", shell_old(call.command))] for line in old]
        shown = [(line, line in each.bare) for each in gone for line in proven(olds, each.text)]
        edits = [line for line, whole in shown if not self.known.shown(line, whole)]
        long = [line for line in map(str.strip, turn.text.split("\n")) if len(line) >= QUOTE]
        quotes = [line for line in long if any(line in each.text for each in gone) and not self.known.has(line, 400)]
        used = set().union(*(each.names for each in gone)) & turn.names - self.known.names
        return edits, quotes, {name for name in used if not trained(name)}


def replay_line(line: bytes) -> dict[tuple[str, bool], Counts[str]]:
    """Every policy over one row, by rule and judged; nothing for a session of one user turn."""
    row = json.loads(line)
    if sum(turn["role"] == "user" for turn in row["turns"]) < 2: return {}
    turns = prepare(row)
    ways = itertools.product(POLICIES, (False, True))
    return dict((way, Replay(row, turns, *way).run()) for way in ways)


def cmd_distil(argv: Sequence[str]) -> None:
    """what distilling finished runs, checkpoints and the ledger keep out of later turns, cost, and harm"""
    args = parsed("distil", cmd_distil.__doc__, argv, "files", "--every", "--offset", "--json", "--jobs")
    totals: dict[tuple[str, bool], Counts[str]] = collections.defaultdict(Counts)
    with multiprocessing.Pool(args.jobs) as pool:
        replayed = pool.imap(replay_line, read_lines(args.files, max(1, args.every), args.offset))
        for way, counts in (pair for ways in replayed for pair in ways.items()):
            totals[way].update(counts)
            dearer = counts["cost of sent"] > counts["cost of recorded"]
            totals[way].update(sessions=1, dearer=int(dearer), edited=int(counts["edits"] > 0))
    head = "policy judge sessions edited edits tokens% cost% dearer turns edit quote name harmed%".split()
    rows = []
    for (policy, judged), c in totals.items():
        saved = [100 - 100 * c[part + "sent"] / c[part + "recorded"] for part in ("", "cost of ")]
        of = [c["sessions"], c["edited"], c["edits"], *(f"{each:.2f}" for each in saved), c["dearer"], c["later turns"]]
        harmed = f"{100 * c['harmed'] / max(1, c['later turns']):.2f}"
        rows.append([policy, "scripted" if judged else "rule", *of, c["edit"], c["quote"], c["name"], harmed])
    data = {"distil": [dict(zip(head, row)) for row in rows]}
    title = "tokens left out of all calls, cost saved, sessions that cost more, later turns and harm to them"
    report(args.json, data, [(title, head, rows)])

VIEW_BYTES = (4_096, 8_192, 32_768)  # the default of `history.extract`, half of it, the most it allows
OLD = 10  # turns: what an agent takes over from further back than this may be gone from its context
FRAME = 600  # bytes of a baseline's view around its rows
Picker = Callable[[Sequence[dict[str, Any]], str, int, set[str]], set[str]]  # entries, query, bytes, visible ids -> ids


def fill(entries: Sequence[dict[str, Any]], order: Iterable[int], size: int, visible: set[str]) -> set[str]:
    """The ids of a baseline's view: rows [id, role, text] as compact JSON, in this order, up to the first
    that does not fit."""
    left, taken = size - FRAME, set()
    for i in order:
        entry = entries[i]
        row = json.dumps([entry["id"], entry["role"], entry["content"]], ensure_ascii=False, separators=(",", ":"))
        cost = len(row.encode("utf-8", "surrogatepass")) + 1
        if entry["id"] not in visible:
            left -= cost
            if left < 0: break
            taken.add(entry["id"])
    return taken


def newest_first(entries: Sequence[dict[str, Any]], query: str, size: int, visible: set[str]) -> set[str]:
    """Baseline: the newest entries."""
    return fill(entries, range(len(entries) - 1, -1, -1), size, visible)


@functools.lru_cache(maxsize=4_096)
def bag(text: str) -> collections.Counter[str]:
    """The words of a text, counted."""
    return collections.Counter(re.findall(WORD, text.lower()))


def plain_bm25(entries: Sequence[dict[str, Any]], query: str, size: int, visible: set[str]) -> set[str]:
    """Baseline: BM25 over single entries with the speaker's name, k1 1.2, b 0.75, neither stems nor stop words."""
    docs = [bag(f"{e['name']} {e['content']}") for e in entries]
    lengths = [sum(doc.values()) for doc in docs]
    average = sum(lengths) / max(1, len(docs)) or 1.0
    scores = [0.0] * len(docs)
    for word in re.findall(WORD, query.lower()):
        df = sum(word in doc for doc in docs)
        idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
        for i, doc in enumerate(docs):
            if word in doc:
                scores[i] += idf * doc[word] * 2.2 / (doc[word] + 1.2 * (0.25 + 0.75 * lengths[i] / average))
    return fill(entries, sorted(range(len(docs)), key=lambda i: (-round(scores[i], 9), i)), size, visible)


def our_view(entries: Sequence[dict[str, Any]], query: str, size: int, visible: set[str]) -> set[str]:
    """history.extract; its whole text is held against the bound."""
    view = history.extract(entries, query, max_view_bytes=size, exclude=visible)
    if len(view.text.encode("utf-8")) > size:
        raise BenchError(f"a view of {len(view.text.encode('utf-8'))} bytes where {size} were allowed")
    return set(view.entry_ids)


PICKERS: dict[str, Picker] = {"history": our_view, "plain BM25": plain_bm25, "newest first": newest_first}


def dialogue_recall(row: dict[str, Any]) -> dict[tuple[str, int], list[float]]:
    """For each picker and view size, per question the share of its evidence that the view holds."""
    entries = [{"id": t["entryId"], "role": t["role"], "content": t["text"], "name": t["speaker"], "at": t["date"]}
               for t in row["turns"]]
    out: dict[tuple[str, int], list[float]] = {}
    for asked in row["questions"]:
        for (name, pick), size in itertools.product(PICKERS.items(), VIEW_BYTES):
            ids = pick(entries, asked["question"], size, set())
            share = sum(each in ids for each in asked["evidence"]) / len(asked["evidence"])
            out.setdefault((name, size), []).append(share)
    return out


def taken_items(text: str) -> set[str]:
    """What can be seen to be taken over: identifiers, and lines of QUOTE characters or more."""
    return names(text) | {line for line in map(str.strip, text.split("\n")) if len(line) >= QUOTE}


def taken_recall(row: dict[str, Any]) -> dict[tuple[str, int], list[float]]:
    """For each picker and view size, 1 or 0 per item that an assistant turn took from user or assistant text further
    back than OLD turns and before the latest user message: would the view for that message have held it?"""
    entries: list[dict[str, Any]] = []
    last: dict[str, int] = {}  # item -> the latest turn that shows it, tool results included
    said: dict[str, set[str]] = {}  # item -> ids of the user and assistant entries that hold it
    views: dict[tuple[str, int], set[str]] = {}
    out: dict[tuple[str, int], list[float]] = {}
    before = 0
    for at, turn in enumerate(row["turns"]):
        items = taken_items(turn.get("text") or turn.get("output") or "")
        if turn["role"] == "user":
            before, visible = at, {e["id"] for e in entries if int(e["id"]) >= at - OLD}
            views = {(name, size): pick(entries, turn["text"], size, visible)
                     for (name, pick), size in itertools.product(PICKERS.items(), VIEW_BYTES)} if at > OLD else {}
        old = min(before, at - OLD) if turn["role"] == "assistant" else -1
        for item in sorted(i for i in items if i in said and last[i] < old):
            for key, ids in views.items(): out.setdefault(key, []).append(float(bool(ids & said[item])))
        items.update(taken_items(json.dumps([c["args"] for c in turn.get("calls", ())], ensure_ascii=False)))
        last.update(dict.fromkeys(items, at))
        if turn["role"] != "tool" and turn["text"]:
            entries.append({"id": str(at), "role": turn["role"], "content": turn["text"], "name": "", "at": ""})
            for item in taken_items(turn["text"]): said.setdefault(item, set()).add(str(at))
    return out


def share_rows(label: str, parts: Sequence[dict[tuple[str, int], list[float]]]) -> list[list[str]]:
    """A table row per picker: the mean share in percent at each view size, with a 95 % interval at 8,192 bytes."""
    out = []
    for name in PICKERS:
        columns = [[share for part in parts for share in part.get((name, size), ())] for size in VIEW_BYTES]
        n = len(columns[0])
        if n:
            draws = sorted(sum(map(operator.mul, drawn, columns[1])) / n for drawn in resample(n))
            spread = f"{100 * draws[RESAMPLES // 40]:.1f}–{100 * draws[-1 - RESAMPLES // 40]:.1f}"
            out.append([f"{label}, {name}", str(n), *(f"{100 * sum(c) / n:.1f}" for c in columns), spread])
    return out


def cmd_dialogues(argv: Sequence[str]) -> None:
    """evidence found in long conversations, or, for recorded sessions, what an agent takes from far back"""
    args = parsed("dialogues", cmd_dialogues.__doc__, argv, "files", "--tuned", "--every", "--json")
    rows = [json.loads(line) for line in read_lines(args.files, max(1, args.every), 0)]
    asked, other = [r for r in rows if "questions" in r], [r for r in rows if "questions" not in r]
    found, taken = [dialogue_recall(row) for row in asked], [taken_recall(row) for row in other]
    table = share_rows("all", found)
    if len(found) > args.tuned > 0:
        table += share_rows(f"first {args.tuned}", found[:args.tuned]) + share_rows("the rest", found[args.tuned:])
    head = ("", "n", *(f"{size:,} B" for size in VIEW_BYTES), "95 % at 8,192 B")
    tables = [("Evidence recall, % of a question's evidence in the view", head, table)] if found else []
    if taken: tables += [("Taken from far back, % held by the view", head, share_rows("sessions", taken))]
    report(args.json, {title: [dict(zip(head, row)) for row in cells] for title, _, cells in tables}, tables)


# ---------------------------------------------------------------- command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run `cmd_NAME` of this file for the command NAME, `cmd_short` without one; exit 0 done, 1 failed, 2 usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    commands = {name[4:]: each for name, each in globals().items() if name.startswith("cmd_")}
    name = words.pop(0) if words and not words[0].startswith("-") else "short"
    if name not in commands:
        print(f"bench: {name}: use one of {', '.join(commands)}", file=sys.stderr)
        return 2
    try:
        commands[name](words)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    except (OSError, ValueError, subprocess.SubprocessError, BenchError, jevlens.JevlensError) as error:
        print(f"bench: {name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__": sys.exit(main())
