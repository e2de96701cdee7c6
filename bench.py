"""bench: every number that this project publishes, re-run by one command.

    python3 bench.py                            a short run on data that it makes itself (under 20 s)
    python3 bench.py outputs DIR                needles kept and characters saved on real outputs
    python3 bench.py trajectories FILE...       recorded sessions, scored by what the agent did next
    python3 bench.py sessions PATH...           the same on your own recorded sessions
    python3 bench.py dialogues FILE             evidence found in long conversations
    python3 bench.py sweep FILE... --set a=1,2  one setting at a time, or a grid, over trajectories
    python3 bench.py speed                      time by size and kind, growth, peak memory, process starts

Every command takes `--json`; long work shows a bar on stderr; the order is fixed and nothing is random. Standard
library only, no network (unless `--judge jev` asks for one). No product logic lives here. Licence: MIT.
"""
from __future__ import annotations

import argparse
import collections
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
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

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
WORD = r"\w+"
NAME = r"[A-Za-z_][A-Za-z0-9_]{4,}"
NAME_FORM = r"[a-z][A-Z]|[A-Za-z0-9]_|_[A-Za-z0-9]|\d"  # camelCase, an underscore or a digit: no plain word
NUMBER = r"\s*\d+(?:→|\t|: |│ ?|:)"  # a line number that a tool put before a line
NUMBERED = r"(?m)^[ \t]*{}(?:→|\t|: |│ ?|:)(.*)$"
COMPACTED = (
    r"(?i)\s*(?:<summary>|This session is being continued from a previous conversation"
    r"|The conversation history before this point was compacted"
    r"|\[?(?:Context|Conversation) (?:was |has been )?(?:compacted|summarized))"
)
PATCHED = r"\*\*\* (?:Update|Delete) File: (.+)|--- (?:a/)?(\S+)"
CODE_FILE = r"\.(?:js|mjs|cjs|ts|tsx|jsx|py|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|scala|sh|lua|sql|ex|exs)$"
PROSE_FILE = r"\.(?:md|txt|rst|adoc)$"
COMMAND_KINDS = (  # first match wins: a display of a test file is a display
    ("display", r"^\s*(cd [^&;]+(&&|;)\s*)?(cat|sed -n|head|tail|nl|bat)\b"),
    ("search", r"\b(rg|grep|ag|git grep)\b"),
    ("test", r"\b(pytest|go test|npm (run )?test|vitest|jest|cargo test|mvn|gradle|unittest|bun test|mocha)\b"),
    ("git", r"\bgit (diff|log|show|status|blame)\b"),
    ("listing", r"\b(ls|find|tree|fd)\b"),
)
WRITES = r"\b(?:sed|perl)\s+(?:-\S+\s+)*-\w*i|write_text\(|\.write\(|writelines\(|open\([^)\n]{1,200}['\"][wa]"
QUOTED = r"'''(.+?)'''|\"\"\"(.+?)\"\"\"|'((?:\\.|[^'\\\n])+)'|\"((?:\\.|[^\"\\\n])+)\""
SED_PART = r"\bs([/|#,@])((?:\\.|(?!\1)[^\n])+)\1"
SED_LINES = r"\bsed\s[^\n]{0,40}?['\"](\d+)(?:,(\d+))?\s*[sdcai]"
FILE_NAME = r"[\w.-]+\.\w{1,5}\b"
RECALLED = r"\brecall\s+(\S+)"
# Names that an agent would write without having read them here: builtin exceptions, products, common methods.
# Collected from the names that agents of two or more unrelated projects used first; dunder names go by their form.
TRAINED = frozenset(
    """ArithmeticError AssertionError AttributeError BaseException ConnectionError FileExistsError FileNotFoundError
    ImportError IndexError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError
    NotImplementedError OverflowError PermissionError RecursionError RuntimeError StopIteration SyntaxError SystemExit
    TimeoutError TypeError UnicodeDecodeError UnicodeEncodeError ValueError ZeroDivisionError DeprecationWarning
    UserWarning RangeError ReferenceError NullPointerException IllegalArgumentException IllegalStateException
    IOException GitHub GitLab OpenAI ChatGPT TypeScript JavaScript PostgreSQL MySQL SQLite MongoDB GraphQL WebSocket
    PowerShell macOS OAuth2 base64 sha256 sha512 is_file is_dir setUp tearDown total_seconds toString hashCode forEach
    indexOf innerHTML addEventListener setTimeout clearTimeout int32 int64 uint8 uint32 uint64 float32 float64
    node_modules""".split()
)

Counts = collections.Counter  # field -> number; the fields are FIELDS
FIELDS = (
    "n tokens sent compressed phrases phrases_kept edits first strict quote ref recalls recall"
    " c_edits c_first c_strict c_ref"
).split()


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
    out = set()
    for line in map(str.strip, text.split("\n")):
        if len(line) < 4:
            continue
        out.add(line)
        number = re.match(NUMBER, line)
        if number:
            out.add(line[number.end() :].strip())
        if line[0] in "+-":
            out.add(line[1:].strip())
    return out


def clean_path(path: Any) -> str:
    """A path in its normal form, without the `@` that some hosts put before it."""
    return os.path.normpath(str(path).lstrip("@")) if path else ""


@dataclass
class Call:
    """One tool call with what scoring asks of it: `edits` are (path, old lines)."""

    id: str
    tool: str
    name: str
    args: dict[str, Any]
    said: str
    path: str = ""
    command: str = ""
    kind: str = ""
    edits: list[tuple[str, list[str]]] = field(default_factory=list)

    @classmethod
    def of(cls, raw: dict[str, Any], said: str) -> Call:
        """The call of a row's turn; arguments that are no object count as none."""
        args = raw["args"] if isinstance(raw["args"], dict) else {}
        call = cls(raw["id"], raw["tool"], raw.get("name", raw["tool"]), args, said)
        call.path = clean_path(args.get("path") or args.get("file_path") or args.get("filePath"))
        call.command = str(args.get("command") or args.get("cmd") or "")
        call.kind = kind_of(call)
        if call.tool in ("edit", "write"):
            call.edits = old_lines(call)
        return call

    def shows(self, path: str) -> bool:
        """Whether this call puts file `path` before the agent."""
        if not path:
            return False
        if self.tool == "read":
            mine = self.path
            return bool(mine) and (mine == path or mine.endswith("/" + path) or path.endswith("/" + mine))
        return self.tool == "bash" and os.path.basename(path) in self.command


def kind_of(call: Call) -> str:
    """The rough kind that the slices go by: read files by their ending, commands by their first match."""
    if call.tool in ("edit", "write", "grep"):
        return {"grep": "search"}.get(call.tool, "edit")
    if call.tool == "read":
        path = call.path.lower()
        return "code" if re.search(CODE_FILE, path) else "prose" if re.search(PROSE_FILE, path) else "data"
    if call.tool in ("find", "ls"):
        return "listing"
    if call.tool != "bash":
        return "other"
    return next((kind for kind, pattern in COMMAND_KINDS if re.search(pattern, call.command)), "command")


def old_lines(call: Call) -> list[tuple[str, list[str]]]:
    """(path, lines) of the old text of an edit; of a patch, per file, its removed and context lines."""
    if call.args.get("old"):
        return [(call.path, str(call.args["old"]).split("\n"))]
    out: list[tuple[str, list[str]]] = []
    current = ""
    lines: list[str] = []
    for line in str(call.args.get("patch") or "").split("\n"):
        header = re.match(PATCHED, line)
        if header or line.startswith("*** Add File"):
            out.append((current, lines))
            current, lines = clean_path((header.group(1) or header.group(2)).strip()) if header else "", []
        elif current and (line.startswith(" ") or line.startswith("-") and not line.startswith("---")):
            lines.append(line[1:])
    return [(path, old) for path, old in [*out, (current, lines)] if path and old]


def shell_old(command: str) -> list[str]:
    """What a writing shell command takes from the file it changes: sed and perl patterns, quoted strings.

    Whether a string is old text is decided later: it counts when the output that showed the file has it.
    """
    if not re.search(WRITES, command):
        return []
    found = [part for _, part in re.findall(SED_PART, command)]
    found += ["".join(groups) for groups in re.findall(QUOTED, command, re.DOTALL)]
    lines = [line for part in found for line in part.replace("\\n", "\n").split("\n")]
    return [line for line in (re.sub(r"\\(.)", r"\1", line).strip() for line in lines) if len(line) >= 12]


def line_numbers(call: Call) -> list[int]:
    """The lines that an edit names by number: an insert's anchor, a range without old text, sed's addresses."""
    args = call.args
    if call.tool == "bash":
        pairs = re.findall(SED_LINES, call.command) if re.search(WRITES, call.command) else []
        spans = [(int(a), int(b or a)) for a, b in pairs]
    elif isinstance(args.get("insert_line"), int):
        spans = [(args["insert_line"], args["insert_line"])]
    elif args.get("new") and not args.get("old") and isinstance(args.get("start"), int):
        end = args.get("end")
        spans = [(args["start"], end if isinstance(end, int) else args["start"])]
    else:
        spans = []
    return [n for a, b in spans if 0 < a <= b for n in range(a, min(b, a + 200) + 1)]


@dataclass
class Turn:
    """One turn of a session and what every engine's scoring needs of it, computed once."""

    role: str
    text: str
    names: set[str]
    grams: set[int]
    bare: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    call: Call | None = None
    is_error: bool = False
    compacted: bool = False

    @property
    def large(self) -> bool:
        """Whether this is a result that gets a score."""
        return self.call is not None and len(self.text) >= LARGE and self.call.tool not in ("edit", "write")


def prepare(row: dict[str, Any]) -> list[Turn]:
    """The turns of a row, in order; a result whose call is unknown has no `call`."""
    out = []
    calls: dict[str, Call] = {}
    for raw in row["turns"]:
        role = raw["role"]
        text = raw["output"] if role == "tool" else raw.get("text", "")
        turn = Turn(role, text, names(text), grams(text))
        if role == "assistant":
            for each in raw.get("calls", []):
                call = calls[each["id"]] = Call.of(each, text)
                turn.calls.append(call)
                args = json.dumps(each["args"], ensure_ascii=False)
                turn.names |= names(args)
                turn.grams |= grams(args)
        elif role == "tool":
            turn.bare, turn.call, turn.is_error = bare(text), calls.get(raw["call_id"]), bool(raw.get("is_error"))
        else:
            turn.compacted = bool(raw.get("compacted") or re.match(COMPACTED, text))
        out.append(turn)
    return out


class Sent(NamedTuple):
    """What an engine sent for one result; `kept` are 1-based line numbers, None where the engine does not say."""

    text: str
    view: str
    shape: str = ""
    kept: tuple[int, ...] | None = None
    reason: str = ""


class Engine:
    """Sends every result whole: the base line of all. One engine serves one session."""

    sees_all = False  # whether small results and the agent's own edits pass it too

    def send(self, turn: Turn, task: str, latest: str) -> Sent:
        """What the model gets for the result of `turn`."""
        return Sent(turn.text, "full")

    def forget(self) -> None:
        """What was sent so far has left the model's context."""


class HeadTail(Engine):
    """The first and the last 5,000 characters, as most agents clip."""

    def send(self, turn: Turn, task: str, latest: str) -> Sent:
        """The clipped text."""
        text = turn.text
        if len(text) <= 10_000:
            return Sent(text, "full")
        return Sent(text[:5000] + "\n… elided …\n" + text[-5000:], "headtail")


class Product(Engine):
    """A jevlens.Lens in memory, called as a host calls it."""

    sees_all = True

    def __init__(self, judge: str = "local", gutter: bool | None = None, settings: Any = None) -> None:
        """`gutter` and `settings` go to the Lens as they are; `judge` is `local` or `jev`."""
        import jevlens

        self.lens = jevlens.Lens(judge=judge, store=None, gutter=gutter, settings=settings)

    def send(self, turn: Turn, task: str, latest: str) -> Sent:
        """What `see` gives back."""
        call = turn.call or Call("", "other", "other", {}, "")
        seen = self.lens.see(turn.text, tool=call.tool, args=call.args, task=task, latest=latest, said=call.said,
                             is_error=turn.is_error)  # fmt: skip
        return Sent(seen.text, seen.view, seen.shape, seen.kept, seen.reason)

    def forget(self) -> None:
        """Passed on to the lens."""
        self.lens.forget()


@dataclass
class Scored:
    """One large result: the slices it belongs to and its counts. `misses` are (kind of miss, what was lost)."""

    row: str
    call: str
    group: str
    slices: tuple[str, ...]
    counts: Counts[str]
    ms: float = 0.0
    misses: list[tuple[str, str]] = field(default_factory=list)
    page: tuple[str, tuple[int, ...], list[str]] | None = None  # text, kept lines, lines of later edits


class Known:
    """What the session has been sent since its start or its last compaction."""

    def __init__(self, task: str) -> None:
        """The task is always known."""
        self.names = names(task)
        self.grams = grams(task)
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


Open = tuple[int, Turn, Sent, Scored]  # a result, with the number of assistant messages before it


class Scorer:
    """Walks one session with one engine. `run` gives a Scored for every large result, in order."""

    def __init__(self, row: dict[str, Any], turns: list[Turn], engine: Engine, pages: bool = False) -> None:
        """`turns` are `prepare(row)`, shared by the engines that score the same row."""
        self.row, self.turns, self.engine, self.pages = row, turns, engine, pages
        self.known = Known(row["task"])
        self.open: list[Open] = []  # for looking back
        self.steps = 0

    def run(self, skip: Iterable[str] = ()) -> list[Scored]:
        """Scores of the large results whose call id is not in `skip`."""
        out = []
        latest = self.row["task"]
        skipped = set(skip)
        for i, turn in enumerate(self.turns):
            sent = turn.text
            if turn.role == "user":
                latest = turn.text
                if turn.compacted:
                    self.known, self.open = Known(self.row["task"]), []
                    self.engine.forget()
            elif turn.role == "assistant":
                self.steps += 1
                for call in turn.calls:
                    self.look_back(call)
            elif turn.large or (turn.call and self.engine.sees_all):
                start = time.perf_counter()
                got = self.engine.send(turn, self.row["task"], latest)
                ms = (time.perf_counter() - start) * 1000
                sent = got.text
                if turn.large and turn.call and turn.call.id not in skipped:
                    out.append(self.score(i, turn, turn.call, got, ms))
            self.known.learn(turn, sent)
        return out

    def score(self, i: int, turn: Turn, call: Call, sent: Sent, ms: float) -> Scored:
        """Counts of one large result by the referee's rules; `look_back` adds the corrected ones."""
        output, text = turn.text, sent.text
        slices = ("all", call.kind, "agent:" + self.row["agent"], "view:" + sent.view, "shape:" + sent.shape,
                  "reason:" + sent.reason)  # fmt: skip
        counts = Counts(n=1, tokens=tokens(output), sent=tokens(text), compressed=int(text != output))
        scored = Scored(self.row["id"], call.id, self.row.get("group", ""), slices, counts, ms)
        if self.pages and text != output:
            scored.page = output, kept_lines(output, sent), []
        following = [later for later in self.turns[i + 1 :] if later.role == "assistant"]
        used = set().union(*(later.grams for later in following[:USED])) & turn.grams - self.known.grams
        counts["phrases"] = len(used)
        counts["phrases_kept"] = len(used & grams(text)) if text != output else len(used)
        self.look_ahead(scored, call, output, text, following[:STEPS])
        if text != output:
            self.quote_and_ref(scored, turn, text, following[:USED])
        self.open.append((self.steps, turn, sent, scored))
        return scored

    def look_ahead(self, scored: Scored, call: Call, output: str, text: str, following: list[Turn]) -> None:
        """Edits of a file that this call shows, until it is read again (referee rules)."""
        reread = set()
        edits = ((later, other) for later in following for other in later.calls)
        for _, other in edits:
            if other.tool == "read":
                reread.add(other.path)
            for path, old in other.edits:
                lines = proven(old, output) if path not in reread and call.shows(path) else []
                if not lines:
                    continue
                scored.counts["edits"] = 1
                lost = [line for line in lines if line[:200] not in text and not self.known.has(line, 200)]
                if lines[0][:80] not in text and not self.known.has(lines[0], 80):
                    scored.counts["first"] = 1
                if lost:
                    scored.counts["strict"] = 1
                    scored.misses.append(("edit", f"{path}: {lost[0][:120]}"))

    def quote_and_ref(self, scored: Scored, turn: Turn, text: str, following: list[Turn]) -> None:
        """Lines that the next message quotes and names that the next two use, gone from what was sent."""
        for line in map(str.strip, following[0].text.split("\n") if following else ()):
            if len(line) >= QUOTE and line in turn.text and line[:400] not in text and not self.known.has(line, 400):
                scored.counts["quote"] = 1
                scored.misses.append(("quote", line[:120]))
                break
        only = set().union(*(later.names for later in following)) & turn.names - self.known.names - names(text)
        scored.counts["ref"] = int(bool(only))
        untrained = sorted(name for name in only if not trained(name))
        scored.counts["c_ref"] = int(bool(untrained))
        if only:
            lost = " ".join(untrained[:6]) or "known from training: " + " ".join(sorted(only)[:6])
            scored.misses.append(("ref", lost))

    def look_back(self, call: Call) -> None:
        """Hold an edit or a recall against the last result that showed what it needs (corrected rules)."""
        recent = [entry for entry in reversed(self.open) if self.steps - entry[0] <= STEPS]
        if not recent:
            return
        numbers = line_numbers(call)
        edits = call.edits or ([(call.path, [])] if numbers else [])
        if call.tool == "bash":
            old = shell_old(call.command)
            edits = [(name, old) for name in dict.fromkeys(re.findall(FILE_NAME, call.command)) if old or numbers]
        for path, old in edits:
            self.hold(recent, path, old, numbers)
        self.recall(call)

    def hold(self, recent: Sequence[Open], path: str, old: list[str], numbers: list[int]) -> None:
        """Count an edit of `path` at the last result that shows one of its old lines or line numbers."""
        for _, turn, sent, scored in recent:
            if not (turn.call and turn.call.shows(path)):
                continue
            lines = proven(old, turn.text) + at_numbers(turn.text, numbers)
            if not lines:
                continue
            scored.counts["c_edits"] = 1
            if scored.page:
                scored.page[2].extend(lines)
            if sent.text == turn.text:
                return
            lost = [line for line in lines if not self.known.shown(line, line in turn.bare)]
            if lost:
                scored.counts["c_strict"] = 1
                scored.counts["c_first"] |= int(lost[0] == lines[0])
                scored.misses.append(("edit*", lost[0][:120]))
            return

    def recall(self, call: Call) -> None:
        """A recorded recall that the view sent here would not answer."""
        command = re.search(RECALLED, call.command)
        wanted = command.group(1) if command else ""
        if "recall" in call.name.lower():
            wanted = str(call.args.get("id") or "")
        for _, turn, sent, scored in reversed(self.open) if wanted else ():
            if wanted in turn.text or (turn.call and turn.call.id == wanted):
                scored.counts["recalls"] = 1
                if sent.text != turn.text and recall_lost(call.args, turn.text, kept_lines(turn.text, sent)):
                    scored.counts["recall"] = 1
                    scored.misses.append(("recall", json.dumps(call.args, ensure_ascii=False)[:120]))
                return


def at_numbers(output: str, numbers: Sequence[int]) -> list[str]:
    """The lines that an output prints with one of these numbers before them."""
    found = (re.search(NUMBERED.format(number), output) for number in numbers)
    return [line for line in (match.group(1).strip() for match in found if match) if len(line) >= 4]


def kept_lines(output: str, sent: Sent) -> tuple[int, ...]:
    """1-based numbers of the lines that were sent whole; found by their text where the engine does not say."""
    if sent.kept is not None:
        return sent.kept
    have = set(sent.text.split("\n"))
    return tuple(n for n, line in enumerate(output.split("\n"), 1) if line in have)


def recall_lost(args: dict[str, Any], output: str, kept: Sequence[int]) -> bool:
    """Whether a recall of lines, of a pattern or of all asks for a line that is not among the kept ones."""
    lines = output.split("\n")
    gone = set(range(1, len(lines) + 1)) - set(kept)
    if args.get("lines"):
        span = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", str(args["lines"]))
        return span is None or any(n in gone for n in range(int(span[1]), min(int(span[2] or span[1]), len(lines)) + 1))
    if args.get("pattern"):
        return any(str(args["pattern"]).strip("/") in lines[n - 1] for n in gone)
    return bool(gone)


# ---------------------------------------------------------------- tables, intervals, progress, pages

RESAMPLES = 400  # bootstrap replicates: the ends of a 95 % interval move by under a tenth of its width beyond that
WEIGHTS = {"edit": 5, "quote": 2, "ref": 1, "recall": 2}  # points of the objective that a percent of misses costs
MEASURES = (  # name, numerator field, denominator field
    ("edit", "first", "edits"),
    ("strict", "strict", "edits"),
    ("quote", "quote", "n"),
    ("ref", "ref", "n"),
    ("recall", "recall", "recalls"),
    ("c_edit", "c_first", "c_edits"),
    ("c_strict", "c_strict", "c_edits"),
    ("c_ref", "c_ref", "n"),
)


def measures(counts: Sequence[int]) -> dict[str, float]:
    """Percentages and objectives of summed counts (in the order of FIELDS)."""
    c = dict(zip(FIELDS, counts))
    out = {"saved": 100 * (c["tokens"] - c["sent"]) / c["tokens"] if c["tokens"] else 0.0}
    for name, above, below in MEASURES:
        out[name] = 100 * c[above] / c[below] if c[below] else 0.0
    out["phrases"] = 100 * c["phrases_kept"] / c["phrases"] if c["phrases"] else 100.0
    rest = out["saved"] - WEIGHTS["quote"] * out["quote"] - WEIGHTS["recall"] * out["recall"]
    out["objective"] = rest - WEIGHTS["edit"] * out["edit"] - out["ref"]
    out["strict_objective"] = rest - WEIGHTS["edit"] * out["strict"] - out["ref"]
    out["c_objective"] = rest - WEIGHTS["edit"] * out["c_edit"] - out["c_ref"]
    out["c_strict_objective"] = rest - WEIGHTS["edit"] * out["c_strict"] - out["c_ref"]
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
        for k, name in enumerate(FIELDS):
            sums[k] += each.counts[name]
    columns = list(zip(*groups.values()))
    runs = [measures([sum(map(operator.mul, drawn, column)) for column in columns]) for drawn in resample(len(groups))]
    total = [sum(column) for column in columns]
    out = {}
    for name in runs[0]:
        values = sorted(run[name] for run in runs)
        out[name] = values[RESAMPLES // 40], values[-1 - RESAMPLES // 40]
    for name, above, below in MEASURES:
        if total[FIELDS.index(below)] and not total[FIELDS.index(above)]:
            out[name] = 0.0, min(100.0, 300 / total[FIELDS.index(below)])
    return out


def summary(scored: Sequence[Scored], spread: bool = True) -> dict[str, Any]:
    """Counts, measures and (with `spread`) their intervals over some results."""
    counts = {name: sum(each.counts[name] for each in scored) for name in FIELDS}
    out: dict[str, Any] = {"counts": counts, **{k: round(v, 3) for k, v in measures(list(counts.values())).items()}}
    if spread and scored:
        out["ci95"] = {k: (round(a, 2), round(b, 2)) for k, (a, b) in intervals(scored).items()}
    return out


def machine() -> dict[str, str]:
    """Where and on what a number was taken."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        command = ["git", "-C", here, "describe", "--always", "--dirty"]
        commit = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        commit = "unknown"
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "version": _version(here),
        "commit": commit,
    }


def _version(here: str) -> str:
    try:
        with open(os.path.join(here, "pyproject.toml"), encoding="utf-8") as file:
            return next((line.split('"')[1] for line in file if line.startswith("version")), "unknown")
    except OSError:
        return "unknown"


Table = tuple[str, Sequence[str], Sequence[Sequence[Any]]]  # title, head, rows


def report(as_json: bool, data: dict[str, Any], tables: Sequence[Table]) -> None:
    """Print `data` as JSON, or the tables (title, head, rows) as aligned columns under one line on the machine."""
    if as_json:
        print(json.dumps({**machine(), **data}, ensure_ascii=False))
        return
    print("; ".join(machine().values()))
    for title, head, rows in tables:
        cells = [list(map(str, head)), *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells)]
        print(f"\n{title}")
        for row in cells:
            padded = [cell.rjust(width) for cell, width in zip(row, widths)]
            print("  ".join([row[0].ljust(widths[0]), *padded[1:]]).rstrip())


class Progress:
    """A bar on stderr, where that is a terminal."""

    def __init__(self, what: str) -> None:
        """`what` stands before the bar."""
        self.what, self.last = what, -1
        self.live = sys.stderr.isatty()

    def at(self, share: float) -> None:
        """Redraw at 0 <= share <= 1; 1 ends the line."""
        percent = int(100 * min(share, 1.0))
        if self.live and percent != self.last:
            self.last = percent
            end = "\n" if percent == 100 else ""
            print(f"\r{self.what} [{'#' * (percent // 4):<25}] {percent:3d} %", end=end, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- outputs, trajectories, sessions, sweep, speed


class Plan(NamedTuple):
    """How rows are scored; sent once to every worker process."""

    engines: tuple[str, ...]  # `local`, `jev`, `full`, `headtail`
    gutter: bool | None = None
    half: str = ""  # `A` or `B`: rows by a hash of their group
    fresh: bool = False  # leave out the results that a row says are in dev too
    pages: bool = False
    settings: tuple[tuple[str, str], ...] = ()


_PLAN = Plan(())  # of this process; set by `_start`


def _start(plan: Plan) -> None:
    global _PLAN
    _PLAN = plan


def new_engine(name: str, plan: Plan) -> Engine:
    """An engine for one session."""
    if name in ("full", "headtail"):
        return HeadTail() if name == "headtail" else Engine()
    return Product(name, plan.gutter, settings_of(plan.settings))


def settings_of(changes: Sequence[tuple[str, str]]) -> Any:
    """jevlens.Settings with these fields changed; names that are no field change the local judge's table LOCAL."""
    import jevlens

    fields: dict[str, Any] = {}
    if not _LOCAL:
        _LOCAL.update(jevlens.LOCAL)
    jevlens.LOCAL.update(_LOCAL)
    for name, value in changes:
        if name in jevlens.LOCAL:
            jevlens.LOCAL[name] = float(value)
        elif hasattr(jevlens.Settings(), name):
            kind = type(getattr(jevlens.Settings(), name))
            fields[name] = value in ("1", "True", "true") if kind is bool else kind(value)
        else:
            raise BenchError(f"--set {name}: neither a setting nor a constant of the local judge")
    return dataclasses.replace(jevlens.Settings(), **fields)


_LOCAL: dict[str, float] = {}  # the local judge's table as it was before any change


class BenchError(Exception):
    """Something that the caller gave cannot be used; the message says what and why."""


def half_of(group: str) -> str:
    """`A` or `B`, by the first hexadecimal digit of the group's SHA-256."""
    return "A" if hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[0] < "8" else "B"


def score_row(row: dict[str, Any], plan: Plan) -> list[list[Scored]]:
    """Per engine of the plan, the scored results of one session."""
    if plan.half and half_of(row.get("group", "")) != plan.half:
        return [[] for _ in plan.engines]
    turns = prepare(row)
    skip = (row.get("seen_in_dev") or ()) if plan.fresh else ()
    return [
        Scorer(row, turns, new_engine(name, plan), plan.pages and not i).run(skip)
        for i, name in enumerate(plan.engines)
    ]


def _score_line(line: bytes) -> list[list[Scored]]:
    return score_row(json.loads(line), _PLAN)


def read_lines(paths: Sequence[str], every: int, offset: int) -> Iterator[bytes]:
    """Every `every`-th line of JSONL files, gzip or plain, with a bar on stderr."""
    sizes = [os.path.getsize(path) for path in paths]
    bar = Progress("rows")
    number = 0
    for k, path in enumerate(paths):
        with open(path, "rb") as raw:
            for line in gzip.open(raw) if path.endswith(".gz") else raw:
                bar.at((sum(sizes[:k]) + raw.tell()) / max(1, sum(sizes)) - 0.001)
                if number % every == offset and line.strip():
                    yield line
                number += 1
    bar.at(1)


def score_lines(lines: Iterable[bytes], plan: Plan, jobs: int) -> list[list[Scored]]:
    """Per engine, the results of all rows in the order of the rows; `jobs` processes share the rows."""
    out: list[list[Scored]] = [[] for _ in plan.engines]
    if jobs < 2:
        _start(plan)
        done: Iterable[list[list[Scored]]] = map(_score_line, lines)
        pool = None
    else:
        pool = multiprocessing.Pool(jobs, _start, (plan,))
        done = pool.imap(_score_line, lines)  # reads ahead by what fits the pipe: memory stays bounded
    try:
        for per_engine in done:
            for scored, more in zip(out, per_engine):
                scored.extend(more)
    finally:
        if pool:
            pool.terminate()
    return out


def slices_of(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Slice name -> its results: all, then kinds, agents, reasons, shapes and views by name."""
    out: dict[str, list[Scored]] = {}
    for each in scored:
        for name in each.slices:
            out.setdefault(name, []).append(each)
    return dict(sorted(out.items(), key=lambda item: (item[0] != "all", ":" in item[0], item[0])))


LINES = (  # of the headline table: label, measure under referee rules, measure under corrected rules, denominator
    ("saved %", "saved", "saved", "tokens"),
    ("edit-miss % (first line)", "edit", "c_edit", "edits"),
    ("edit-miss % (strict)", "strict", "c_strict", "edits"),
    ("quote-miss %", "quote", "quote", "n"),
    ("ref-miss %", "ref", "c_ref", "n"),
    ("recall-miss %", "recall", "recall", "recalls"),
    ("phrases kept %", "phrases", "phrases", "phrases"),
    ("objective", "objective", "c_objective", "n"),
    ("strict objective", "strict_objective", "c_strict_objective", "n"),
)


def headline(results: dict[str, dict[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    """The table of all results: per measure, denominators, both sets of rules with intervals, then the baselines."""
    first, *others = results
    best = results[first]

    def cell(of: dict[str, Any], name: str) -> str:
        low, high = of.get("ci95", {}).get(name, (0, 0))
        return f"{of[name]:.2f} [{low:.1f}, {high:.1f}]"

    rows = []
    for label, name, corrected, below in LINES:
        counts = best["counts"]
        of = f"{counts[below]}" if below != "edits" else f"{counts['edits']} / {counts['c_edits']}"
        rows.append([label, of, cell(best, name), cell(best, corrected), *(f"{results[o][name]:.2f}" for o in others)])
    return f"all large results: {first}", ["", "of", "referee rules", "corrected", *others], rows


SLICE_HEAD = (  # the columns before `95 %` go by referee rules, those after it by the corrected ones
    "slice n short tokens saved% edits em% strict% quote% ref% phr% obj strict-obj".split()
    + ["95 %"]
    + "c-edits c-em% c-strict% c-ref% c-obj c-strict-obj".split()
)


def slice_row(name: str, of: dict[str, Any]) -> list[str]:
    """One line of the slices table."""
    c = of["counts"]
    low, high = of["ci95"]["strict_objective"] if "ci95" in of else (0, 0)
    cells = [name, c["n"], c["compressed"], c["tokens"], of["saved"], f"{c['first']}/{c['edits']}", of["edit"]]
    cells += [of["strict"], of["quote"], of["ref"], of["phrases"], of["objective"], of["strict_objective"]]
    cells += [f"[{low:.0f}, {high:.0f}]"]
    cells += [f"{c['c_strict']}/{c['c_edits']}", of["c_edit"], of["c_strict"], of["c_ref"]]
    cells += [of["c_objective"], of["c_strict_objective"]]
    return [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]


def print_scores(plan: Plan, all_scored: list[list[Scored]], args: argparse.Namespace, more: dict[str, Any]) -> None:
    """Headline, slices, times and the misses, as tables or as JSON."""
    results = {name: summary(scored) for name, scored in zip(plan.engines, all_scored)}
    first = all_scored[0]
    slices = {name: summary(of) for name, of in slices_of(first).items()}
    times = sorted(each.ms for each in first) or [0.0]
    ms = {"median": times[len(times) // 2], "p95": times[int(len(times) * 0.95)], "max": times[-1]}
    misses = [[kind, each.row, each.call, *each.slices[1:], lost] for each in first for kind, lost in each.misses]
    tables: list[Table] = [headline(results)]
    tables.append(("slices", SLICE_HEAD, [slice_row(name, of) for name, of in slices.items()]))
    tables.append(("ms per large result", ["", "ms"], [[k, f"{v:.1f}"] for k, v in ms.items()]))
    data = {"engines": results, "slices": slices, "ms": ms, **more}
    if args.worst:
        data["misses"] = misses
        tables.append(("misses", ["miss", "row", "call", "kind", "agent", "view", "shape", "reason", "lost"], misses))
    report(args.json, data, tables)


def score_options(parser: argparse.ArgumentParser) -> None:
    """The options that every scoring command has."""
    parser.add_argument("--judge", choices=("local", "jev", "none"), default="local")
    parser.add_argument("--gutter", action="store_true", default=None, help="number lines where the tool did not")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the lens, or a"
                        " constant of the local judge")  # fmt: skip
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--worst", action="store_true", help="list every miss")
    parser.add_argument("--html", metavar="FILE", help="write the misses as a page")
    parser.add_argument("--no-baselines", action="store_true", help="score the lens alone: half the time")


def engines_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The engines that the options ask for, the judged one first."""
    judged = () if args.judge == "none" else (args.judge,)
    return judged if judged and args.no_baselines else (*judged, "headtail", "full")


def changes_of(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(name, value) pairs of `--set` words."""
    pairs = [word.partition("=") for word in words]
    if not all(equals for _, equals, _ in pairs):
        raise BenchError("--set: write NAME=VALUE")
    return tuple((name, value) for name, _, value in pairs)


def cmd_trajectories(argv: Sequence[str]) -> int:
    """recorded sessions, scored by what the agent did next"""
    parser = argparse.ArgumentParser(prog="bench.py trajectories", description=cmd_trajectories.__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSONL, plain or gzip")
    parser.add_argument("--every", type=int, default=1, help="score every Nth row only")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--half", choices=("A", "B"), default="", help="one half of the groups")
    parser.add_argument("--fresh", action="store_true", help="without the results that rows mark as seen_in_dev")
    score_options(parser)
    args = parser.parse_args(argv)
    plan = Plan(engines_of(args), args.gutter, args.half, args.fresh, bool(args.html), changes_of(args.set))
    start = time.perf_counter()
    scored = score_lines(read_lines(args.files, max(1, args.every), args.offset), plan, args.jobs)
    print_scores(plan, scored, args, {"seconds": round(time.perf_counter() - start, 1)})
    return 0


# ---------------------------------------------------------------- dialogues and distil

VIEW_BYTES = (4_096, 8_192, 32_768)  # the seed's default, half of it, and the most that its settings allow
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
            if left < 0:
                break
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
    import history

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
            for key, ids in views.items():
                out.setdefault(key, []).append(float(bool(ids & said[item])))
        items.update(taken_items(json.dumps([c["args"] for c in turn.get("calls", ())], ensure_ascii=False)))
        last.update(dict.fromkeys(items, at))
        if turn["role"] != "tool" and turn["text"]:
            entries.append({"id": str(at), "role": turn["role"], "content": turn["text"], "name": "", "at": ""})
            for item in taken_items(turn["text"]):
                said.setdefault(item, set()).add(str(at))
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


def cmd_dialogues(argv: Sequence[str]) -> int:
    """evidence found in long conversations, or, for recorded sessions, what an agent takes from far back"""
    parser = argparse.ArgumentParser(prog="bench.py dialogues", description=cmd_dialogues.__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSONL, plain or gzip")
    parser.add_argument("--tuned", type=int, default=3, help="the first N conversations are reported apart")
    parser.add_argument("--every", type=int, default=1, help="every Nth row only")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    rows = [json.loads(line) for line in read_lines(args.files, max(1, args.every), 0)]
    asked, other = [r for r in rows if "questions" in r], [r for r in rows if "questions" not in r]
    found, taken = [dialogue_recall(row) for row in asked], [taken_recall(row) for row in other]
    table = share_rows("all", found)
    if len(found) > args.tuned > 0:
        table += share_rows(f"first {args.tuned}", found[:args.tuned]) + share_rows("the rest", found[args.tuned:])
    head = ("", "n", *(f"{size:,} B" for size in VIEW_BYTES), "95 % at 8,192 B")
    tables = [("Evidence recall, % of a question's evidence in the view", head, table)] if found else []
    if taken:
        tables += [("Taken from far back, % held by the view", head, share_rows("sessions", taken))]
    report(args.json, {title: [dict(zip(head, row)) for row in cells] for title, _, cells in tables}, tables)
    return 0


# ---------------------------------------------------------------- command line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the function `cmd_NAME` of this file for the command NAME; exit 0 done, 1 failed, 2 usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    commands = {name[4:]: each for name, each in globals().items() if name.startswith("cmd_")}
    if words and words[0] in commands:
        try:
            return int(commands[words[0]](words[1:]))
        except (OSError, BenchError) as error:
            print(f"bench: {words[0]}: {error}", file=sys.stderr)
            return 1
    print(__doc__ if words[:1] in (["-h"], ["--help"]) else f"bench: one of {', '.join(commands)}", file=sys.stderr)
    return 0 if words[:1] in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
