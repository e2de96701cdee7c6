"""jevlens: a large tool result goes in, a short view of its own lines comes out; the rest is one recall away.

    from jevlens import Lens
    lens = Lens()
    seen = lens.see(output, tool="bash", args={"command": "pytest -q"}, task="fix the failing test")
    send_to_model(seen.text)             # `output` itself, the same object, when nothing is gained
    lens.recall(seen.id, lines="40-90")  # or pattern="…", or block="Parser.feed"

Contract: `see` never raises; on any doubt, fault or timeout the original text is sent. Everything that is left out is
in the store before the view leaves. Same history of calls, same bytes. Nothing is written to disk and nothing is sent
anywhere unless you ask for it (a store directory, a System One key).

Copy this file and views_regex.py (history.py only for the commands `evidence` and `distil`); they need nothing but the
standard library, Python 3.9 or newer. Licence: MIT.
"""
from __future__ import annotations

import os
import sys

import json
import threading
import time
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union
)

if TYPE_CHECKING or not __package__:  # a script, or installed; a type checker knows no other place
    import views_regex as views
else:  # vendored into a package
    from . import views_regex as views

__version__ = "0.1.0"
__all__ = [
    "Case", "Choice", "Decision", "DirectoryStore", "JevlensError", "Lens", "LocalJudge", "MemoryStore", "Seen",
    "Session", "Settings", "canonical", "decide", "main", "tokens",
]

# ---------------------------------------------------------------- settings and errors


class JevlensError(Exception):
    """Every error that this file raises; the message reads `what: why`."""


def _setting(default: Any, env: str, low: float = 0.0, high: float = 1.0, words: Tuple[str, ...] = ()) -> Any:
    """A field of Settings: its environment name, its bounds (numbers) or its allowed words."""
    return field(default=default, metadata={"env": "JEV_LENS_" + env, "low": low, "high": high, "words": words})


@dataclass(frozen=True)
class Settings:
    """Every setting of the lens with its default; names of the environment are JEV_LENS_ + the second word.

    Probabilities lie in 0..1. `prompts` and `views` come only from a JEV_LENS_VARIANT file.
    """

    presend: bool = _setting(True, "PRESEND")
    disabled: bool = _setting(False, "DISABLED")
    min_tokens: int = _setting(1200, "PRESEND_MIN_TOKENS", 0, 10**9)  # smaller results cost less than a mistake
    needs_full_above: float = _setting(0.5, "PRESEND_NEEDS_FULL_ABOVE")
    full_mass_above: float = _setting(0.5, "PRESEND_FULL_MASS_ABOVE")
    code_needs_full_above: float = _setting(0.5, "PRESEND_CODE_NEEDS_FULL_ABOVE")
    command_needs_full_above: float = _setting(0.65, "PRESEND_COMMAND_NEEDS_FULL_ABOVE")
    code_policy: str = _setting("gate", "PRESEND_CODE_POLICY", words=("gate", "outline"))
    command_policy: str = _setting("sections", "PRESEND_COMMAND_POLICY", words=("sections", "gate"))
    expand_above: float = _setting(0.5, "PRESEND_EXPAND_ABOVE")
    section_expand_above: float = _setting(0.5, "PRESEND_SECTION_EXPAND_ABOVE")
    section_floor: float = _setting(0.3, "PRESEND_SECTION_FLOOR")
    min_confidence: float = _setting(0.0, "PRESEND_MIN_CONFIDENCE")
    wait_ms: int = _setting(5000, "PRESEND_WAIT_MS", 1, 600_000)  # both steps of a judge that is asked over the wire
    steps: int = _setting(2, "STEPS", 1, 2)
    on_error: str = _setting("full", "ON_ERROR", words=("full", "local"))
    redact: bool = _setting(True, "REDACT")
    model: str = _setting("jev-latest", "MODEL")
    classifier: str = _setting("", "CLASSIFIER", words=("", "mock", "local", "jev"))
    key_file: str = _setting("", "KEY_FILE")
    log: bool = _setting(True, "LOG")
    keep_days: float = _setting(90.0, "KEEP_DAYS", 0, 36_500)
    data_dir: str = _setting("", "DATA_DIR")
    hook_timeout_ms: int = _setting(30_000, "HOOK_TIMEOUT_MS", 100, 600_000)
    exclude: str = _setting("", "EXCLUDE")  # tool names and path globs, comma-separated: never shortened
    variant: str = _setting("", "VARIANT")
    prompts: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, environ: Mapping[str, str], warn: Callable[[str], object] = lambda line: None) -> "Settings":
        """Settings from an environment; what is not a value of its setting stays at the default and is reported."""
        names = {item.name: item.metadata["env"] for item in fields(cls) if item.metadata}
        values = _valid(cls, {name: environ[env] for name, env in names.items() if environ.get(env)}, warn)
        if values.get("variant"):
            try:
                with open(values["variant"], encoding="utf-8") as file:
                    data = json.load(file)
                data = data.get("variant", data)
                values.update(_valid(cls, dict(data.get("config", {})), warn))
                values.update({part: dict(data[part]) for part in ("prompts", "views") if part in data})
            except (OSError, ValueError, TypeError, AttributeError) as error:
                warn(f"jevlens: JEV_LENS_VARIANT: ignored, {type(error).__name__}")
        return cls(**values)


def _valid(cls: Any, raw: Mapping[str, Any], warn: Callable[[str], object]) -> Dict[str, Any]:
    """The raw values by field name that are of their setting's type and within its bounds; the others are reported."""
    values: Dict[str, Any] = {}
    for item in fields(cls):
        if not item.metadata or item.name not in raw:
            continue
        value, rule = raw[item.name], item.metadata
        default: Any = item.default
        try:
            if isinstance(default, bool):
                values[item.name] = value if isinstance(value, bool) else {"1": True, "0": False}[str(value)]
            elif isinstance(default, str):
                values[item.name] = rule["words"][rule["words"].index(value)] if rule["words"] else str(value)
            elif rule["low"] <= float(value) <= rule["high"]:
                values[item.name] = type(default)(float(value))
            else:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            warn(f"jevlens: {rule['env']}: not a value of this setting, using {default!r}")
    return values


def tokens(text: str) -> int:
    """Estimated tokens: ceil(characters / 4), the estimate that every number of this project uses."""
    return -(-len(text) // 4)


# ---------------------------------------------------------------- cases: tools, arguments, what is known

# Names that the known hosts give to the six canonical tools, compared in lower case.
TOOL_NAMES: Dict[str, str] = {
    name: tool
    for tool, names in {
        "bash": "bash shell exec_command execute_bash run_shell_command run_command terminal local_shell "
                "run_in_terminal powershell execute_command shell_command bash_command",
        "read": "read view open read_file readfile view_file viewcode cat read_many_files open_file",
        "grep": "grep search rg grep_search search_files search_file_content ripgrep find_in_files",
        "find": "find glob find_files glob_search file_search search_file find_file",
        "ls": "ls list list_dir list_directory list_files",
        "edit": "edit multiedit apply_patch str_replace replace edit_file search_replace notebookedit insert patch",
        "write": "write create create_file write_file write_to_file",
    }.items()
    for name in names.split()
}
# one tool for all; its argument `command` says what
EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "file_editor", "editor")
ARG_NAMES = {
    "path": ("path", "file_path", "filePath", "filename", "file", "target_file", "relative_workspace_path",
             "absolute_path", "AbsolutePath", "dir_path"),
    "command": ("command", "cmd", "CommandLine", "script"),
    "pattern": ("pattern", "query", "regex", "search"),
    "old": ("old", "old_str", "old_string", "oldText", "oldString"),
    "new": ("new", "new_str", "new_string", "newText", "newString"),
    "content": ("content", "file_text", "contents"),
    "patch": ("patch", "input", "diff"),
    "offset": ("offset", "start_line", "startLine", "line_start"),
}


def canonical(tool: str, args: Optional[Mapping[str, Any]]) -> Tuple[str, Dict[str, Any]]:
    """Canonical (tool, args) of a host's: `read {path, offset?, limit?}`, `bash {command}`, `grep {pattern, path?}`…

    Unknown tools keep their name, unknown arguments stay as they are. Also `view_range` [a, b], end lines, a command
    given as a list of words, and one editor tool with a `command` argument.
    """
    found: Dict[str, Any] = dict(args) if isinstance(args, Mapping) else {}
    name = str(tool or "").lower()
    if name in EDITORS:
        name = {"view": "read", "create": "write"}.get(str(found.pop("command", "")), "edit")
    name = TOOL_NAMES.get(name, str(tool or ""))
    for key, others in ARG_NAMES.items():
        if found.get(key) is None:
            value = next((found[other] for other in others if found.get(other) is not None), None)
            if value is not None:
                found[key] = value
    if isinstance(found.get("command"), (list, tuple)):
        words = [str(word) for word in found["command"]]
        found["command"] = words[-1] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    span = found.get("view_range")
    if isinstance(span, (list, tuple)) and len(span) == 2 and all(isinstance(n, int) for n in span):
        found["offset"], found["limit"] = span[0], (span[1] - span[0] + 1 if span[1] >= span[0] else None)
    last = next((found[key] for key in ("end_line", "endLine", "line_end") if isinstance(found.get(key), int)), None)
    if last is not None and isinstance(found.get("offset"), int) and not found.get("limit"):
        found["limit"] = max(1, last - found["offset"] + 1)
    return name, found


class Case(NamedTuple):
    """What is known when a result arrives. `doc`: the result, read; `session`: what came before, not to be changed."""

    task: str
    latest: str
    said: str
    tool: str
    args: Mapping[str, Any]
    is_error: bool
    doc: views.Doc
    session: "Session"
    terms: Mapping[str, float]


# ---------------------------------------------------------------- the session: what earlier results told

RUN = 5  # lines of a run that need not be sent twice (measured: 3 touches twice the results, 20 saves a fifth less)
TRIVIAL = 4  # characters; shorter lines (brackets, blanks) bridge a run but do not count
MEMORY_LINE = 10_000  # characters; longer lines are not remembered (one would hold a whole dump in memory)
MEMORY_RESULT = 20_000  # lines; a longer result is not remembered, no host sends such a result whole
MEMORY_TOTAL = 400_000  # lines remembered in one session, about 100 MB at worst; then the oldest half is forgotten


class Memory:
    """Which runs of lines the session was sent, and where they stand.

    Lines are compared without printed number prefixes and trailing blanks. A run is contiguous in one earlier result.
    """

    def __init__(self) -> None:
        self._ids: Dict[str, int] = {}
        self._results: List[Tuple[str, List[int], views.Numbering]] = []  # label, line ids (-1: not sent), numbers
        self._grams: Dict[Tuple[int, ...], Tuple[int, int]] = {}  # ids of RUN lines -> (result, first line)
        self._size = 0

    def _line_ids(self, lines: Sequence[str], new: bool) -> List[int]:
        """An id for each line; unknown lines get a new one, or -1 when nothing may be added."""
        found = []
        for line in lines:
            text = line.rstrip()
            if len(text) > MEMORY_LINE:
                found.append(-1)
                continue
            number = self._ids.get(text, -1)
            if number < 0 and new:
                number = self._ids[text] = len(self._ids) * 2 + (len(text.lstrip()) >= TRIVIAL)  # odd: counts
            found.append(number)
        return found

    def learn(self, label: str, doc: views.Doc, kept: Optional[Iterable[int]] = None) -> None:
        """Remember the lines of a result that were sent (`kept` None: all)."""
        if len(doc.lines) > MEMORY_RESULT:
            return
        ids = self._line_ids(doc.bare, True)
        if kept is not None:
            sent = set(kept)
            ids = [number if line in sent else -1 for line, number in enumerate(ids)]
        if self._size + len(ids) > MEMORY_TOTAL:
            self.__init__()  # type: ignore[misc]  # a session this long was compacted by its host long ago
        place = len(self._results)
        self._results.append((label, ids, doc.numbers))
        self._size += len(ids)
        counting = [line for line, number in enumerate(ids) if number < 0 or number % 2]
        for gram in zip(*(counting[shift:] for shift in range(RUN))):
            key = tuple(ids[line] for line in gram)
            if min(key) >= 0:
                self._grams[key] = (place, gram[0])

    def runs(self, doc: views.Doc) -> List[views.Known]:
        """The runs of RUN or more counting lines of `doc` that the session was sent, in order, not overlapping."""
        if not self._grams:
            return []
        ids = self._line_ids(doc.bare, False)
        counting = [line for line, number in enumerate(ids) if number < 0 or number % 2]
        found: List[views.Known] = []
        free = 0
        for at in range(len(counting) - RUN + 1):
            start = counting[at]
            if start < free:
                continue
            hit = self._grams.get(tuple(ids[line] for line in counting[at:at + RUN]))
            if hit is None:
                continue
            label, old, numbers = self._results[hit[0]]
            size = _match(ids, start, old, hit[1])
            if sum(1 for number in ids[start:start + size] if number % 2) >= RUN:
                place = numbers.label(hit[1], hit[1] + size)
                found.append(views.Known(start, start + size, f"= {place} of {label}"))
                free = start + size
        return found


def _match(new: Sequence[int], at: int, old: Sequence[int], place: int) -> int:
    """How many lines from `new[at]` and `old[place]` on are the same and were sent."""
    size = 0
    while at + size < len(new) and place + size < len(old) and new[at + size] == old[place + size] >= 0:
        size += 1
    return size


RECENT = 5  # edits whose words still point at code that will be edited next


class Session:
    """What one conversation has told so far: results, edits, paths, line hits, names. Judges only read it.

    results, messages, edits: counts; reads: files shown since the last user message or edit; last_was_read; edited and
    shown: counts by file name; hits: file name -> lines that a search, traceback, diagnostic or diff named; searched:
    words of search patterns; names: identifiers that the model has seen; recent: words of the last edits; errors:
    words of the last failing result; memory: lines that were sent.
    """

    def __init__(self) -> None:
        self.results = self.messages = self.edits = self.reads = 0
        self.last_was_read = False
        self.latest = self.said = ""
        self.edited: Dict[str, int] = {}
        self.shown: Dict[str, int] = {}
        self.hits: Dict[str, Set[int]] = {}
        self.searched: Set[str] = set()
        self.names: Set[str] = set()
        self.recent: List[Set[str]] = []
        self.errors: Set[str] = set()
        self.line_edits = False
        self.memory = Memory()

    def forget(self) -> None:
        """The conversation was compacted: what was sent is no longer known to the model. Facts about files stay."""
        self.names = set()
        self.memory = Memory()

    def hear(self, task: str, latest: str, said: str, args: Mapping[str, Any]) -> None:
        """Take in what stands before a result: the request, the message, the arguments of the call."""
        if not self.messages:
            self.names |= views.names(task)
        if latest != self.latest:
            self.latest, self.reads = latest, 0
            self.names |= views.names(latest)
        if said != self.said or not said:
            self.messages += 1
            self.said = said
            self.names |= views.names(said)
        self.names |= views.names(_flat(args))

    def learn(self, case: Case, text: str, kept: Optional[Iterable[int]]) -> None:
        """Take in a result as it was sent: `text`, made of the lines `kept` (None: all) of case.doc."""
        doc = case.doc
        self.results += 1
        self.names |= views.names(text)
        self.memory.learn(_label(case), doc, kept)
        is_edit = case.tool in ("edit", "write")
        self.last_was_read = bool(doc.shown)
        if is_edit:
            self._learn_edit(case)
        for item in doc.shown:
            name = os.path.basename(item.path)
            self.shown[name] = self.shown.get(name, 0) + 1
        self.reads = 0 if is_edit else self.reads + bool(doc.shown)
        if case.tool == "grep" or doc.shape == "search":
            self.searched |= words(str(case.args.get("pattern") or case.args.get("command") or ""))
        if case.is_error or doc.shape in ("test", "build"):
            self.errors = words(text[-20_000:])  # the end of a long log holds what failed
        if doc.shape in ("search", "test", "build", "diff", "other"):
            for name, line in views.places(doc):
                self.hits.setdefault(name, set()).add(line)

    def _learn_edit(self, case: Case) -> None:
        self.edits += 1
        args = case.args
        paths = [args.get("path")] + list(args.get("paths") or ())
        for path in paths:
            if isinstance(path, str) and path:
                name = os.path.basename(path)
                self.edited[name] = self.edited.get(name, 0) + 1
        self.line_edits = self.line_edits or any(key in args for key in ("start", "insert_line", "end"))
        self.recent = (self.recent + [words(_flat(args))])[-RECENT:]


def words(text: str) -> Set[str]:
    """The identifiers of a text, whole: what two texts can share."""
    return set(views.pattern("word").findall(text))


def _flat(value: Any) -> str:
    """The strings inside a JSON-like value, without its keys, a line each."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_flat(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return "\n".join(_flat(item) for item in value)
    return ""


LABEL = 48  # characters of a command that name an earlier result in a marker: enough to tell it from its neighbours


def _label(case: Case) -> str:
    """How a marker names this result: `read views.py`, `bash go test ./...`."""
    what = os.path.basename(case.doc.path) if case.doc.path else ""
    what = what or str(case.args.get("command") or case.args.get("pattern") or case.args.get("path") or "")
    what = " ".join(what.split())
    return f"{case.tool or 'result'} {what if len(what) <= LABEL else what[:LABEL - 1] + '…'}".strip()


# ---------------------------------------------------------------- the decision


class Choice(NamedTuple):
    """A judge's answer. `view` is the likeliest of the offered views, `p` a probability per view (with `full`).

    needs_full: P(the next steps need the exact full text). need: P(needed) per block; None: not asked yet, the lens
    asks `judge.need` when the view has a second step; an empty list: this view needs nothing put back.
    """

    view: str
    p: Mapping[str, float]
    needs_full: float
    confidence: float = 1.0
    need: Optional[Sequence[float]] = None


class Decision(NamedTuple):
    """The view to send and the rule that chose it."""

    view: str
    reason: str


def decide(kind: str, choice: Choice, offered: Sequence[str], settings: Settings, blocks: int = 0) -> Decision:
    """Which view to send: arithmetic over the judge's numbers, rules in order, the first that speaks wins.

    offered: names of the candidate views, without `full`; blocks: how many blocks could be put back. Bounds are
    strict: a probability equal to its threshold does not force the full text.
    """
    whole = settings.command_needs_full_above if kind == "command" else settings.needs_full_above
    if kind == "code":
        whole = min(settings.needs_full_above, settings.code_needs_full_above)
    needed = not round(choice.needs_full, 6) <= whole  # so that what is not a number means full
    if kind == "command" and settings.command_policy == "sections" and "sections" in offered:
        if choice.view == "full" and not needed:
            return Decision("sections", "sections-policy")
    if kind == "code" and settings.code_policy == "outline" and "outline" in offered:
        return Decision("outline", "outline-policy") if blocks >= 2 else Decision("full", "no-blocks")
    if needed:
        return Decision("full", "needs-full")
    if kind == "code" and choice.view == "focus" and "outline" in offered:
        return Decision("outline", "focus-to-outline")
    if not round(choice.p.get("full", 0.0), 6) <= settings.full_mass_above:
        return Decision("full", "full-mass")
    if settings.min_confidence and choice.confidence < settings.min_confidence:
        return Decision("full", "low-confidence")
    if choice.view in offered:
        return Decision(choice.view, "chosen")
    return Decision("full", "chose-full" if choice.view == "full" else "not-offered")


# ---------------------------------------------------------------- judges: local

# Every constant of the local judge. P(edited within 12 messages) was counted on recorded sessions; one edit that no
# longer matches costs as much as 85,000 tokens, so a view of 3,000 tokens pays below about 3 in 100 (`break_even`).
LOCAL: Dict[str, float] = {
    "break_even": 0.03,
    # P(edit) by shape where it is not near zero
    "docs": 0.20, "config": 0.33, "named diff": 0.21, "named search": 0.16,
    # points for a read of code, summed to the phase of the session
    "no edit yet": -2, "many edits": 1, "many edits from": 16, "long reading": -2, "long reading from": 5,
    "reading": -1, "reading from": 3, "after a read": -1, "asked to look": -1, "opening": 2, "opening messages": 3,
    "change announced": 1, "line hit in it": 1, "shown before": 1, "test file": 1,
    # overlap (share of the best block's) from which a block has a sign, by points; above the last nothing is dropped
    "sure at": -6, "likely at": -4, "likely overlap": 0.7, "perhaps at": -3, "perhaps overlap": 0.5,
    "perhaps lines": 12,  # a shorter block is not worth dropping at these odds
    "unit lines": 40,  # a longer block is judged by its members
}
# P(edited) by points, both halves of the recorded sessions together
EDITED_AT: Dict[int, float] = {-6: 0.0, -5: 0.03, -4: 0.07, -3: 0.03, -2: 0.15, -1: 0.28, 0: 0.39, 1: 0.43, 2: 0.49}

_JUDGE_RULES: Dict[str, str] = {
    "look": r"(?i)\b(?:review|audit|analy[sz]e|explain|investigat\w*|explor\w*|understand)\b",
    "order": r"(?i)^\W*(?:please\s+)?(?:implement|fix|add|change|update|create|write|refactor|remove|rename|make)\b",
    "announce": r"(?i)\b(?:now|let me (?:fix|update|change|edit|add)|i'll (?:fix|update|change|edit|add))\b",
    "test-file": r"(?i)(?:^|[/_.\-])(?:tests?|spec)(?:[/_.\-]|$)|_test\.|\.test\.",
    "outside": r"/(?:site-packages|dist-packages|node_modules|\.cargo/registry|pkg/mod)/"
               r"|^(?:~|/(?:home|Users)/[^/]{1,80}|/root)/\.(?!\w{1,40}/(?:projects|plans)/)",
    "question": r"(?i)^\W*(?:how|what|where|which|why|who|when|does|is|are|can)\b[^\n]*\?\s*$",
    "shell-edit": r"\bsed\s+-i|\bperl\s+-p?i|\bapply_patch\b|\bgit apply\b|\bpatch -p"
                  r"|\b(?:cat|tee)\s*>{0,2}\s*\S{1,200}\s*<<|\bpython3? -\s*<<",
}
_PATTERNS: Dict[str, Any] = {}


def _says(rule: str, text: str) -> bool:
    """Whether the first 20,000 characters of a text match a rule of _JUDGE_RULES (compiled on first use)."""
    if rule not in _PATTERNS:
        import re
        _PATTERNS[rule] = re.compile(_JUDGE_RULES[rule])
    return _PATTERNS[rule].search(text[:20_000]) is not None


def _odds(p: float) -> float:
    """P(edit) weighed against its price: above 0.5 exactly when sending less does not pay."""
    return p / (p + LOCAL["break_even"])


class LocalJudge:
    """The deterministic judge that needs no key: edit evidence of the session, and signs that point at blocks."""

    name = "local"

    def choose(self, case: Case, offered: Sequence[views.View], blocks: Sequence[views.Block]) -> Choice:
        """The base view of the shape unless the session says that the result will be edited from."""
        if not offered:
            return Choice("full", {"full": 1.0}, 1.0)
        if case.doc.kind == "code":
            points = phase(case)
            at = max(min(points, max(EDITED_AT)), min(EDITED_AT))
            view = next((item.name for item in offered if item.name == "outline"), "full")
            needed = _odds(EDITED_AT[at] if points > LOCAL["perhaps at"] else 0.0)
            return Choice(view, _spread(view, offered), needed, need=self._needed(case, blocks, points))
        return Choice(offered[0].name, _spread(offered[0].name, offered), _odds(_edit_odds(case)), need=())

    def need(self, case: Case, blocks: Sequence[views.Block]) -> List[float]:
        """P(needed) per block: 0.9 with a sign, else 0.1."""
        return self._needed(case, blocks, phase(case))

    def _needed(self, case: Case, blocks: Sequence[views.Block], points: int) -> List[float]:
        least = LOCAL["likely overlap"] if points <= LOCAL["likely at"] else LOCAL["perhaps overlap"]
        short = 0 if points <= LOCAL["likely at"] else LOCAL["perhaps lines"]
        overlaps = signs(case, blocks)
        found = []
        for block, overlap in zip(blocks, overlaps):
            signed = overlap >= least or block.end - block.start < short
            found.append(0.9 if signed and points > LOCAL["sure at"] else 0.1)
        return found


def _spread(view: str, offered: Sequence[views.View]) -> Dict[str, float]:
    """0.9 on the chosen view, the rest shared by the others."""
    others = [name for name in ("full", *(item.name for item in offered)) if name != view]
    return {view: 0.9, **{name: round(0.1 / len(others), 6) for name in others}} if others else {view: 1.0}


def _edit_odds(case: Case) -> float:
    """P(edited from) of a result that is not code, by shape, what the command names, and what was asked."""
    doc, session = case.doc, case.session
    looking = _says("look", case.latest or case.task) and not session.edits
    if doc.shape in ("docs", "config"):
        path = str(doc.path or case.args.get("path") or "")
        named = os.path.basename(path).lower() in (case.latest + case.task).lower() if path else False
        if looking or (_says("outside", path) and not named):
            return 0.0
        return LOCAL[doc.shape]
    if doc.shape in ("diff", "search") and views.named_files(case.tool, case.args):
        if looking or (doc.shape == "search" and _says("question", case.latest)):
            return 0.0
        return LOCAL["named " + doc.shape]
    return 0.0


def phase(case: Case) -> int:
    """Points for what the session's phase says of a read of code; the more, the likelier it is edited soon."""
    doc, session = case.doc, case.session
    name = os.path.basename(doc.path or (doc.shown[0].path if doc.shown else ""))
    latest = case.latest or case.task
    rows = {
        "no edit yet": not session.edits,
        "many edits": session.edits >= LOCAL["many edits from"],
        "long reading": session.reads >= LOCAL["long reading from"],
        "reading": LOCAL["reading from"] <= session.reads < LOCAL["long reading from"],
        "after a read": session.last_was_read,
        "asked to look": _says("look", latest) and not _says("order", latest),
        "opening": session.messages <= LOCAL["opening messages"],
        "change announced": _says("announce", case.said) or bool(name) and name in case.said,
        "line hit in it": bool(session.hits.get(name)),
        "shown before": name in session.shown or name in session.edited,
        "test file": bool(session.edits) and _says("test-file", doc.path),
    }
    return int(sum(LOCAL[row] for row, holds in rows.items() if holds))


def signs(case: Case, blocks: Sequence[views.Block]) -> List[float]:
    """How strongly the session points at each block, 0..1; 1 for a line hit, a named or an edited one.

    Else the overlap: in-file idf of the identifiers that the block shares with the request, what was said, the
    searches, the last error or the last edits, divided by the best block's, the largest over these sources.
    """
    doc, session = case.doc, case.session
    inside = [words("\n".join(doc.bare[block.start:block.end])) for block in blocks]
    count: Dict[str, int] = {}
    for found in inside:
        for word in found:
            count[word] = count.get(word, 0) + 1
    best = [0.0] * len(blocks)
    sources = (words(case.latest + "\n" + case.task), words(case.said), session.searched, session.errors,
               *session.recent)
    for source in sources:
        scores = [sum(1.0 / count[word] for word in sorted(found & source)) for found in inside]
        top = max(scores, default=0.0)
        if top > 0:
            best = [max(old, round(score / top, 4)) for old, score in zip(best, scores)]
    forced = pointed(case, blocks)
    return [1.0 if hit else score for hit, score in zip(forced, best)]


def pointed(case: Case, blocks: Sequence[views.Block]) -> List[bool]:
    """Which blocks no judge is asked about: named by the task, message or call, or holding a line that was hit."""
    doc, session = case.doc, case.session
    name = os.path.basename(doc.path)
    hits = session.hits.get(name, set())
    said = words(case.latest + "\n" + case.said + "\n" + case.task)
    found = []
    for block in blocks:
        own = block.name.split(".")[-1].split(" ")[0]
        numbers = (doc.numbers.number(line) for line in range(block.start, block.end))
        named = len(own) >= TRIVIAL and (own in said or own in session.searched)
        found.append(named or bool(hits) and any(number in hits for number in numbers))
    return found


# ---------------------------------------------------------------- judges: Jev

# ---------------------------------------------------------------- System One: the wire

# ---------------------------------------------------------------- System One: transport, providers, keys

# ---------------------------------------------------------------- the recall store

ID_DIGITS = 11  # hex digits after the "r"; 44 bits: a clash among a million results is a 3 in 100 chance, and is caught
RECORD_VERSION = 1
PRUNE_EVERY = 3600  # seconds between two sweeps of a store directory


def digest(text: str) -> str:
    """SHA-256 in hex of a text; lone surrogates (bytes that were not UTF-8) count as they are."""
    import hashlib
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pack(text: str) -> Dict[str, str]:
    """The text of a record as JSON can hold it: `text`, or `text_b64` when it is not encodable as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        import base64
        return {"text_b64": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")}
    return {"text": text}


def unpack(record: Mapping[str, Any]) -> str:
    """The text of a record."""
    if "text_b64" in record:
        import base64
        return base64.b64decode(record["text_b64"]).decode("utf-8", "surrogatepass")
    return str(record.get("text", ""))


class MemoryStore:
    """Records in this process only: `put(id, record)`, `get(id)`, `ids()`. The protocol of every store."""

    def __init__(self) -> None:
        self._records: Dict[str, Dict[str, Any]] = {}

    def put(self, id: str, record: Dict[str, Any]) -> None:
        """Keep a record under its id; ids come from the text, so the same id is the same text."""
        self._records[id] = record

    def get(self, id: str) -> Optional[Dict[str, Any]]:
        """The record of an id, None when there is none."""
        return self._records.get(id)

    def ids(self) -> List[str]:
        """All ids, the oldest first."""
        return list(self._records)


class DirectoryStore:
    """One JSON file a result in a directory, readable by the owner only; safe with several processes writing at once.

    A file is written under another name and moved into place, so a reader sees all of it or nothing. Records older
    than `keep_days` are removed, at most one sweep an hour. `clock` gives seconds since the epoch.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], keep_days: float = 90.0,
                 clock: Callable[[], float] = time.time) -> None:
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._keep = keep_days * 86_400
        self._clock = clock

    def _file(self, id: str) -> str:
        if not valid_id(id):
            raise JevlensError(f"recall: {str(id)[:40]!r} is not an id (r and hex digits)")
        return os.path.join(self.path, "outputs", id + ".json")

    def put(self, id: str, record: Dict[str, Any]) -> None:
        """Write a record atomically. Raises OSError when the directory cannot be written."""
        target = self._file(id)
        for folder in (self.path, os.path.dirname(target)):  # makedirs gives its mode to the last one only
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._prune()  # before, so that what was just stored outlives any setting
        write_private(target, json.dumps(record, ensure_ascii=True, default=str).encode("ascii"))

    def get(self, id: str) -> Optional[Dict[str, Any]]:
        """Read a record; None when there is none, or it is not a readable record of ours."""
        try:
            with open(self._file(id), "rb") as file:
                record = json.loads(file.read())
            unpack(record)
            return record if isinstance(record["text" if "text" in record else "text_b64"], str) else None
        except (OSError, ValueError, TypeError, LookupError, AttributeError, JevlensError):
            return None

    def ids(self) -> List[str]:
        """All ids, the oldest first."""
        folder = os.path.join(self.path, "outputs")
        found = []
        try:
            for entry in os.scandir(folder):
                if entry.name.endswith(".json") and valid_id(entry.name[:-5]):
                    found.append((entry.stat().st_mtime, entry.name[:-5]))
        except OSError:
            return []
        return [id for _, id in sorted(found)]

    def log(self, event: Mapping[str, Any]) -> None:
        """Append one line to log.jsonl, in one write, so that lines of parallel processes do not mix."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        append_private(os.path.join(self.path, "log.jsonl"), {"t": round(self._clock(), 3), **event})

    def events(self) -> List[Dict[str, Any]]:
        """The lines of log.jsonl that are whole JSON objects, in order."""
        return read_jsonl(os.path.join(self.path, "log.jsonl"))

    def _prune(self) -> None:
        """One sweep an hour; a directory that cannot be swept now is swept by a later put."""
        stamp = os.path.join(self.path, "prune.stamp")
        now = self._clock()
        try:
            if os.path.exists(stamp) and 0 <= now - os.stat(stamp).st_mtime < PRUNE_EVERY:
                return
            with open(stamp, "wb"):
                os.utime(stamp, (now, now))
            for entry in os.scandir(os.path.join(self.path, "outputs")):
                if now - entry.stat().st_mtime > self._keep:
                    os.unlink(entry.path)
        except OSError:
            return


def valid_id(id: str) -> bool:
    """Whether this is an id of ours: `r` and 11 to 64 lower-case hex digits; nothing else reaches a file name."""
    return (isinstance(id, str) and id[:1] == "r" and ID_DIGITS < len(id) <= 65
            and not set(id[1:]) - set("0123456789abcdef"))


def write_private(target: str, data: bytes) -> None:
    """Write a file for the owner only, whole or not at all."""
    temporary = f"{target}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # it was never made
        raise


def append_private(target: str, event: Mapping[str, Any]) -> None:
    """Append one JSON line to a file for the owner only, in a single write."""
    line = json.dumps(event, ensure_ascii=True, separators=(",", ":")) + "\n"
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line.encode("ascii"))
    finally:
        os.close(handle)


def read_jsonl(path: str) -> List[Dict[str, Any]]:
    """The JSON objects of a file, a line each; torn or foreign lines are skipped, a missing file is empty."""
    found = []
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    for line in lines:
        try:
            event = json.loads(line or b"0")
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def data_dir(settings: Settings, environ: Mapping[str, str] = os.environ) -> str:
    """The directory of the command line, hook and MCP: JEV_LENS_DATA_DIR, else the platform's per-user data folder."""
    base = {"win32": environ.get("LOCALAPPDATA") or "~/AppData/Local", "darwin": "~/Library/Application Support"}.get(
        sys.platform, environ.get("XDG_DATA_HOME") or "~/.local/share")
    return settings.data_dir or os.path.join(os.path.expanduser(base), "jevlens")


# ---------------------------------------------------------------- recall: getting omitted text back

PAGE_LINES = 400  # lines of one answer; more would be the flood that the view avoided
PAGE_CHARS = 50_000  # characters of one answer, about 12,500 tokens
AROUND = 2  # lines shown before and after a hit of a pattern
REGEX_SECONDS = 1.0  # a search that takes longer is stopped: the pattern backtracks
_SEARCH = ("import re,sys,json\nbody,lines=json.loads(sys.stdin.buffer.read())\nrule=re.compile(body,re.I)\n"
           "print(json.dumps([i for i,l in enumerate(lines) if rule.search(l)]))")


def _is_number(text: str) -> bool:
    """Whether these are ASCII digits of a number that lines can have."""
    return text.isascii() and text.isdigit() and len(text) < 13


def ranges(text: str) -> List[Tuple[int, int]]:
    """`40-90`, `40`, `40-`, `-90`, several with commas, also `a:b` -> [(first, last)], last 10**12 when open."""
    found = []
    for part in str(text).replace(":", "-").replace("–", "-").split(","):
        low, dash, high = (side.strip() for side in part.strip().partition("-"))
        if not (low or high) or not all(map(_is_number, (low or "1", high or "1"))):
            raise JevlensError(f"recall: lines {str(text)[:80]!r}: write 40-90, 40, 40-, -90, or several with commas")
        first = int(low or 1)
        last = int(high) if high else (10**12 if dash else first)
        found.append((min(first, last), max(first, last)))
    return found


def search(pattern: str, lines: Sequence[str]) -> List[int]:
    """0-based lines that contain a text (any case), or match `/regex/` (any case).

    A regex runs in a child interpreter for REGEX_SECONDS at most, since `re` cannot be stopped in a thread.
    """
    body = pattern.rsplit("/", 1)
    # two flags at most, of those that people write: `/src/img` is a path
    if not (pattern.startswith("/") and len(body[0]) > 1 and len(body[1]) < 3 and set(body[1]) <= set("gimsuy")):
        low = pattern.lower()
        return [number for number, line in enumerate(lines) if low in line.lower()]
    import subprocess
    request = json.dumps([body[0][1:], list(lines)]).encode("ascii")
    budget = REGEX_SECONDS + len(request) / 20_000_000  # plus what the child needs to read the text
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _SEARCH], input=request, capture_output=True,
                              timeout=budget + 0.2)
    except subprocess.TimeoutExpired:
        raise JevlensError(f"recall: pattern {pattern[:80]!r}: stopped after one second, it backtracks; "
                           "try a plain substring") from None
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1][:200]
        raise JevlensError(f"recall: pattern {pattern[:80]!r}: {why}")
    return [int(number) for number in json.loads(done.stdout)]


def block_lines(doc: views.Doc, name: str) -> List[int]:
    """The lines of the block so named: exact, else any case, else its last part, else the only one it is part of."""
    blocks = doc.blocks()
    low = name.strip().lower()
    tests: Tuple[Callable[[views.Block], bool], ...] = (
        lambda block: block.name == name.strip(),
        lambda block: block.name.lower() == low,
        lambda block: block.name.lower().rsplit(".", 1)[-1] == low,
        lambda block: low in block.name.lower(),
    )
    for rank, test in enumerate(tests):
        hits = [block for block in blocks if test(block)]
        if hits and (rank < 3 or len(hits) == 1):
            return sorted({line for block in hits for line in range(block.start, block.end)})
    names = ", ".join(dict.fromkeys(block.name for block in blocks))
    raise JevlensError(f"recall: block {name[:80]!r}: not in this output; it has {names[:600] or 'no blocks'}")


def select(doc: views.Doc, lines: Optional[str], pattern: Optional[str], block: Optional[str]) -> List[int]:
    """The 0-based lines that a recall asks for; hits of a pattern and their surroundings stay within the range."""
    total = len(doc.lines)
    chosen = set(range(total))
    if lines:
        chosen = {line for low, high in ranges(lines) for line in doc.numbers.lines(low, high, total)}
    if block:
        chosen &= set(block_lines(doc, block))
    if pattern:
        order = sorted(chosen)
        near: Set[int] = set()
        for hit in search(pattern, [doc.lines[line] for line in order]):
            near.update(range(order[hit] - AROUND, order[hit] + AROUND + 1))
        chosen &= near
    return sorted(chosen)


def page(doc: views.Doc, chosen: Sequence[int], cursor: Optional[str], plain: bool) -> Tuple[str, str]:
    """(text, next cursor or ""): the lines of one page; `K` or `K.C` is the K-th chosen line, from character C on.

    plain: lines as they are; else each behind a gutter with its number, where the output has none of its own.
    """
    at, offset = _cursor(cursor)
    out: List[str] = []
    size = 0
    width = len(str(doc.numbers.number(chosen[-1]))) if chosen else 0
    while at < len(chosen) and len(out) < PAGE_LINES:
        text = doc.lines[chosen[at]][offset:]
        room = PAGE_CHARS - size
        if len(text) > room:
            if out and (len(text) <= PAGE_CHARS or room <= 0):
                break
            out.append(text[:room])
            return "\n".join(out), f"{at}.{offset + room}"
        gutter = "" if plain or offset or doc.numbers.prefix else f"{doc.numbers.number(chosen[at]):>{width}}│ "
        out.append(gutter + text)
        size += len(out[-1]) + 1
        at, offset = at + 1, 0
    return "\n".join(out), str(at) if at < len(chosen) else ""


def _cursor(cursor: Optional[str]) -> Tuple[int, int]:
    line, _, offset = str(cursor or "0").partition(".")
    if not (_is_number(line) and _is_number(offset or "0")):
        raise JevlensError(f"recall: cursor {str(cursor)[:40]!r}: use the one that the page before names")
    return int(line), int(offset or 0)


def answer(id: str, record: Mapping[str, Any], lines: Optional[str] = None, pattern: Optional[str] = None,
           block: Optional[str] = None, cursor: Optional[str] = None) -> str:
    """One page of a stored output. Without a restriction, and when it fits a page, the text itself and nothing else."""
    doc = views.read(unpack(record), str(record.get("tool", "")), record.get("args") or {})
    total = len(doc.lines)
    chosen = select(doc, lines, pattern, block)
    plain = len(chosen) == total
    text, follow = page(doc, chosen, cursor, plain)
    if plain and not follow and not cursor:
        return text
    numbers = {"tool": "the tool's", "file": "the file's", "output": "the output's"}[doc.numbers.origin]
    head = f"[{id}: {len(chosen)} of {total} lines, in {numbers} numbers"
    asked = "".join(f", {key}={value!r}" for key, value in
                    (("lines", lines), ("pattern", pattern), ("block", block)) if value)
    head += f'; next page: recall("{id}"{asked}, cursor="{follow}")]' if follow else "]"
    return head + "\n" + text if chosen else head + "\n[no line matches]"


# ---------------------------------------------------------------- the lens


class Seen(NamedTuple):
    """What to send, and how it came about; see the table of outcomes in README.md.

    kept: 1-based numbers of the output's lines that are sent whole; tokens_*: ceil(characters / 4) of everything
    sent; id: "" when nothing was stored.
    """

    text: str
    view: str
    kept: Tuple[int, ...]
    total: int
    id: str
    kind: str
    shape: str
    reason: str
    tokens_before: int
    tokens_after: int
    dropped: Tuple[str, ...] = ()


MIN_GAIN = 0.05  # less than this share saved in all: the original object
MIN_BLOCK_GAIN = 0.10  # less than this share saved by dropping blocks: no block is dropped
RELEVANT_FULL = 0.90  # a `relevant` view of this share of full is sent as full
HEADER_LINES = 20  # a shorter header (imports) always stays
SMALL_GAP = 40  # characters; a smaller gap costs as much as its marker
RUN_GAIN = 120  # characters that a known run must have, about two markers
COVER_PRICE = 13_000  # characters that a missed name costs: 3,240 tokens a lost reference, measured
DROPPED_NAMES = 8  # names of dropped blocks in a footer at most
DROPPED_CHARS = 160


def default_footer(seen: Seen) -> str:
    """The line under a view: the output is whole and stored, this view is short, and how to get the rest."""
    text = (f"[jevlens {seen.view}: {len(seen.kept)} of {seen.total} lines, complete output stored; {views.MARK} = left"
            f' out, see recall("{seen.id}", lines="a-b" or pattern=… or block=…)]')
    names = ""
    for name in seen.dropped[:DROPPED_NAMES]:
        if len(names) + len(name) + 2 > DROPPED_CHARS:
            break
        names += ", " + name
    return text[:-1] + "; left out: " + names[2:] + "]" if names else text


class Lens:
    """One per session: shown every result, it sends short views and remembers what was sent.

    judge: "auto" (Jev with a TypeSafe key, else local), "local", "jev", or an object with `choose` and `need`.
    store: None (memory), a directory, or an object with `put`, `get`, `ids`. settings: Settings (default: from the
    environment). remember: runs that were sent before are not sent again. gutter: True numbers the lines of outputs
    that have no numbers of their own. footer: Seen -> str, or False for none. session: an id; with a directory store a
    later process that opens the same session knows what was sent.
    """

    def __init__(self, judge: Any = "auto", store: Any = None, settings: Optional[Settings] = None,
                 remember: bool = True, gutter: Optional[bool] = None, footer: Any = None,
                 session: Optional[str] = None) -> None:
        self.settings = settings or Settings.load(os.environ, lambda line: print(line, file=sys.stderr))
        self.judge = make_judge(judge, self.settings)
        self.store = open_store(store, self.settings)
        self.remember = remember
        self.gutter = bool(gutter)
        self.footer: Optional[Callable[[Seen], str]] = None if footer is False else (footer or default_footer)
        self.session_id = session or ""
        self.session = Session()
        self._lock = threading.RLock()
        self._counts: Dict[str, int] = {"considered": 0, "shortened": 0, "before": 0, "after": 0, "recalls": 0,
                                        "sent": 0, "cut": 0}

    # ------------------------------------------------ seeing

    def see(self, output: str, tool: str = "", args: Optional[Mapping[str, Any]] = None, task: str = "",
            latest: str = "", said: str = "", is_error: bool = False) -> Seen:
        """What to send to the model instead of `output`. Never raises: on any fault, the output itself.

        tool, args: the call, in the host's own names; task: the first user request; latest: the latest user message;
        said: the assistant's text before the call. Show it every result, also small ones and the agent's own edits:
        that is how the session learns.
        """
        with self._lock:
            try:
                seen = self._see(self.session, output, tool, args, task, latest, said, is_error)
            except Exception as error:  # the promise of `see`: whatever happens, the agent gets its output
                seen = _full(output, "fault: " + type(error).__name__)
            try:
                self._count(seen, tool)
            except Exception:  # a full disk must not cost the result
                pass
            return seen

    def _see(self, session: Session, output: str, tool: str, args: Optional[Mapping[str, Any]], task: str,
             latest: str, said: str, is_error: bool) -> Seen:
        if not isinstance(output, str):
            return _full(output, "not-text")
        name, known = canonical(tool, args)
        session.hear(task, latest, said, known)
        doc = views.read(output, name, known)
        case = Case(task, latest, said, name, known, is_error, doc, session,
                    views.terms(task, latest, said, _flat(known)))
        why = self._exempt(case)
        seen = _full(output, why, doc) if why else self._shorten(case)
        text = seen.text if not why else output
        session.learn(case, text, [line - 1 for line in seen.kept] if seen.id else None)
        return seen

    def _exempt(self, case: Case) -> str:
        """Why this result is not looked at at all, "" when it is."""
        settings, doc = self.settings, case.doc
        if settings.disabled or not settings.presend:
            return "disabled"
        if tokens(doc.text) < settings.min_tokens:
            return "small"
        if case.tool in ("edit", "write"):
            return "own-edit"
        if is_recall(case.tool, case.args):
            return "recall"
        if excluded(settings.exclude, case.tool, case.args):
            return "excluded"
        return ""

    def _shorten(self, case: Case) -> Seen:
        """Views, judge, decision, blocks, cover, memory, numbers, gain: the pipeline of design D3, steps 3 to 11."""
        doc = case.doc
        everything = range(len(doc.lines))
        name, reason, keep, pieces = self._choose(case)
        known: List[views.Known] = []
        if self.remember:
            keep, known = self._forget_known(case, keep)
        if keep is None and not known:
            name, keep_lines = "full", tuple(everything)
        else:
            keep_lines = tuple(sorted(keep if keep is not None else everything))
            name = "memory" if name == "full" else name
        kept = set(keep_lines) if pieces else set()
        shown = {line: pieces[line] for line in sorted(pieces) if line in kept}
        view = views.View(name, keep_lines, shown, tuple(known))
        thin = not case.session.line_edits
        rendered = views.render(doc, view, gutter=self.gutter, thin=thin)
        return self._finish(case, view, rendered, reason)

    def _finish(self, case: Case, view: views.View, rendered: views.Rendered, reason: str) -> Seen:
        """Store, footer, and the last gain check."""
        doc = case.doc
        whole = len(rendered.kept) == len(doc.lines)
        before = tokens(doc.text)
        kept = tuple(line + 1 for line in rendered.kept)
        names = () if whole else dropped_names(doc, view)
        id = "" if whole else self._id(doc.text)
        seen = Seen(rendered.text, "thin" if whole else view.name, kept, len(doc.lines), id, doc.kind, doc.shape,
                    reason, before, 0, names)
        text = rendered.text if whole or self.footer is None else rendered.text + "\n\n" + self.footer(seen)
        after = tokens(text)
        if after > (1 - MIN_GAIN) * before:
            return _full(doc.text, reason if view.name == "full" else "no-gain", doc)
        if not whole:
            self.store.put(id, {"v": RECORD_VERSION, "id": id, **pack(doc.text), "at": round(time.time(), 3),
                                "tool": case.tool, "args": dict(case.args), "view": seen.view,
                                "session": self.session_id})
        return seen._replace(text=text, tokens_after=after)

    def _id(self, text: str) -> str:
        """The id of a text: short, and longer when another text has it."""
        full = digest(text)
        for length in range(ID_DIGITS, len(full) + 1):
            id = "r" + full[:length]
            record = self.store.get(id)
            if record is None or unpack(record) == text:
                return id
        raise JevlensError("store: two texts with one SHA-256")

    def _choose(self, case: Case) -> Tuple[str, str, Optional[List[int]], Dict[int, Any]]:
        """(view, reason, kept lines or None for all, pieces): steps 4 to 8."""
        doc, session = case.doc, case.session
        if views.bounded(case.tool, case.args):
            return "full", "bounded", None, {}
        offered = views.candidates(doc, case.terms, session.names)
        if not offered:
            return "full", "no-candidates", None, {}
        blocks = doc.units()
        choice = self.judge.choose(case, offered, blocks)
        decision = decide(doc.kind, choice, [view.name for view in offered], self.settings, len(blocks))
        if decision.view == "full":
            return "full", decision.reason, None, {}
        view = next(item for item in offered if item.name == decision.view)
        keep: Optional[List[int]] = list(view.keep)
        name = view.name
        if choice.need is None or len(choice.need):
            name, keep = self._put_back(case, view, choice, blocks)
        if keep is None:
            return "full", "floor", None, {}
        keep = views.cover(doc, keep, session.names, case.terms, COVER_PRICE) if doc.kind != "code" else keep
        keep = views.close_gaps(doc, keep, SMALL_GAP)
        pieces = views.fit(doc, keep, case.terms)
        return self._worth(case, views.View(name, tuple(keep), pieces), decision.reason)

    def _worth(self, case: Case, view: views.View, reason: str) -> Tuple[str, str, Optional[List[int]], Dict[int, Any]]:
        """The view when dropping its lines pays, else everything."""
        share = len(views.render(case.doc, view, thin=False).text) / max(1, len(case.doc.text))
        if view.name == "relevant" and share >= RELEVANT_FULL:
            return "full", "relevant-is-nearly-full", None, {}
        if share > 1 - MIN_BLOCK_GAIN:
            return "full", "little-to-drop", None, {}
        return view.name, reason, list(view.keep), dict(view.pieces)

    def _put_back(self, case: Case, view: views.View, choice: Choice,
                  blocks: Sequence[views.Block]) -> Tuple[str, Optional[List[int]]]:
        """The second step: (name, lines) with the needed blocks whole; lines None when nobody could tell."""
        doc, settings = case.doc, self.settings
        if len(blocks) < 2 or not (doc.kind == "code" and view.name in ("outline", "focus") or view.name == "sections"):
            return view.name, list(view.keep)
        need = list(choice.need or self.judge.need(case, blocks))
        section = doc.kind != "code"
        if section and settings.section_floor and max(need, default=0.0) < settings.section_floor:
            return view.name, None
        limit = settings.section_expand_above if section else settings.expand_above
        keep = set(view.keep)
        for block, p, forced in zip(blocks, need, pointed(case, blocks)):
            header = block.kind == "header" and block.end - block.start < HEADER_LINES
            if round(p, 6) > limit or forced or header:
                keep.update(range(block.start, block.end))
        return "relevant", sorted(keep)

    def _forget_known(self, case: Case, keep: Optional[List[int]]) -> Tuple[Optional[List[int]], List[views.Known]]:
        """Leave out of `keep` what the session was sent; the first and the last non-blank line stay."""
        doc = case.doc
        found = []
        ends = views.ends(doc)
        gone: Set[int] = set()
        kept = None if keep is None else set(keep)
        for run in case.session.memory.runs(doc):
            start, end = run.start + (run.start in ends), run.end - (run.end - 1 in ends)
            inside = [line for line in range(start, end) if kept is None or line in kept]
            if sum(len(doc.lines[line]) + 1 for line in inside) < RUN_GAIN or end - start < RUN:
                continue
            found.append(views.Known(start, end, run.note))
            gone.update(inside)
        if not gone:
            return keep, []
        return [line for line in (range(len(doc.lines)) if keep is None else keep) if line not in gone], found

    # ------------------------------------------------ recall, session, numbers

    def original(self, id: str) -> str:
        """The whole stored text of an id, exact."""
        return unpack(self._record(id))

    def recall(self, id: str, lines: Optional[str] = None, pattern: Optional[str] = None,
               block: Optional[str] = None, cursor: Optional[str] = None) -> str:
        """Stored text: lines `40-90`, `40`, `40-`, `-90`, several with commas; a substring or /regex/ with 2 lines
        around; a block by name. Pages of 400 lines or 50,000 characters; a page names the cursor of the next.

        Raises JevlensError for an unknown id, a bad range, pattern, block or cursor.
        """
        record = self._record(id)
        text = answer(id, record, lines, pattern, block, cursor)
        with self._lock:
            self._counts["recalls"] += 1
            self._log({"event": "recall", "id": id, "session": record.get("session", ""), "lines": lines or "",
                       "pattern": bool(pattern), "block": bool(block)})
        return text

    def _record(self, id: str) -> Dict[str, Any]:
        record: Optional[Dict[str, Any]] = self.store.get(id) if valid_id(id) else None
        if record is None:
            known = self.store.ids()
            ids = ", ".join(known[-20:]) or "none"
            more = f" and {len(known) - 20} older" if len(known) > 20 else ""
            raise JevlensError(f"recall: nothing is stored for {str(id)[:80]!r}: run the command again; "
                               f"ids that exist: {ids}{more}")
        return record

    def forget(self) -> None:
        """The conversation was compacted: the model no longer has what was sent before."""
        with self._lock:
            self.session.forget()

    def used(self, input_tokens: int, cache_read_tokens: int = 0) -> None:
        """Feed one model call: its uncached and its cached input tokens."""
        with self._lock:
            self._counts["sent"] += int(input_tokens) + int(cache_read_tokens)
            self._counts["cut"] += self._counts["before"] - self._counts["after"]

    def stats(self) -> Dict[str, Any]:
        """Counts, tokens of shortened results before and after, and `kept_out`: cut / (sent + cut) over all calls."""
        with self._lock:
            counts: Dict[str, Any] = dict(self._counts)
        total = counts["sent"] + counts["cut"]
        counts["kept_out"] = round(counts["cut"] / total, 4) if total else 0.0
        return counts

    def _count(self, seen: Seen, tool: str) -> None:
        if seen.reason == "small":
            return
        self._counts["considered"] += 1
        if seen.view != "full":
            self._counts["shortened"] += 1
            self._counts["before"] += seen.tokens_before
            self._counts["after"] += seen.tokens_after
        self._log({"event": "see", "session": self.session_id, "id": seen.id, "tool": str(tool)[:80],
                   "kind": seen.kind, "shape": seen.shape, "view": seen.view, "reason": seen.reason,
                   "kept": len(seen.kept), "kept_lines": _spans(seen.kept) if seen.id else "", "total": seen.total,
                   "before": seen.tokens_before,
                   "after": seen.tokens_after})

    def _log(self, event: Mapping[str, Any]) -> None:
        log = getattr(self.store, "log", None)
        if log is not None and self.settings.log:
            try:
                log(event)
            except OSError:
                pass  # the log is a service, a full disk must not cost the result


def _full(output: Any, reason: str, doc: Optional[views.Doc] = None) -> Seen:
    """The output itself, unchanged."""
    total = output.count("\n") + 1 if isinstance(output, str) else 0
    size = tokens(output) if isinstance(output, str) else 0
    return Seen(output, "full", tuple(range(1, total + 1)), total, "", doc.kind if doc else "",
                doc.shape if doc else "", reason, size, size)


def dropped_names(doc: views.Doc, view: views.View) -> Tuple[str, ...]:
    """Names of the outermost blocks of which no line but the first is kept."""
    if doc.kind != "code":
        return ()
    kept = set(view.keep)
    for known in view.known:
        kept.update(range(known.start, known.end))
    found = []
    for block in doc.units():
        if block.end - block.start > 3 and block.name and not kept.intersection((block.end - 2, block.end - 1)):
            found.append(block.name)
    return tuple(dict.fromkeys(found))


def is_recall(tool: str, args: Mapping[str, Any]) -> bool:
    """Whether this is our own recall: the tool, an MCP name that ends in it, or the shell command."""
    if tool == "recall" or (tool.endswith("__recall") and "lens" in tool):
        return True
    command = str(args.get("command") or "") if tool == "bash" else ""
    return "jevlens" in command and any(f"jevlens{mid} recall " in command for mid in ("", ".py"))


def excluded(rules: str, tool: str, args: Mapping[str, Any]) -> bool:
    """Whether a tool name or a path glob of JEV_LENS_EXCLUDE names this call."""
    if not rules:
        return False
    import fnmatch
    path = str(args.get("path") or "")
    return any(rule == tool or (path and fnmatch.fnmatchcase(path, rule))
               for rule in (part.strip() for part in rules.split(",")) if rule)


def make_judge(judge: Any, settings: Settings) -> Any:
    """The judge of a name; `auto` is Jev when a TypeSafe key is there, else local."""
    if not isinstance(judge, str):
        return judge
    name = settings.classifier or judge if judge == "auto" else judge
    if name in ("local", "mock", "auto"):
        return LocalJudge()
    raise JevlensError(f"judge {judge!r}: use auto, local, jev, or an object with choose and need")


def open_store(store: Any, settings: Settings) -> Any:
    """A store from None, a path or a store."""
    if store is None:
        return MemoryStore()
    if isinstance(store, (str, os.PathLike)):
        return DirectoryStore(store, settings.keep_days)
    return store


# ---------------------------------------------------------------- message lists

# ---------------------------------------------------------------- hook, MCP, filter, status line

# ---------------------------------------------------------------- command line

_OUT, _GONE, _OFF = "", "\x1b[31m", "\x1b[0m"  # colours of `diff` on a terminal
_PAGE = """<!doctype html><meta charset="utf-8"><title>jevlens {id}</title><style>
:root{{color-scheme:light dark;--gone:#fbe3e4;--note:#666}}
@media(prefers-color-scheme:dark){{:root{{--gone:#472226;--note:#aaa}}}}
body{{font:14px/1.45 ui-monospace,monospace;margin:2rem auto;max-width:110ch;padding:0 1rem}}h1{{font-size:1rem}}
pre{{white-space:pre-wrap;overflow-wrap:anywhere}}.gone{{background:var(--gone)}}i{{color:var(--note);user-select:none}}
</style><h1>{head}</h1><p>Marked lines were not sent to the model; the complete output is stored.</p><pre>
{rows}</pre>"""


def _own_store(settings: Settings) -> DirectoryStore:
    return DirectoryStore(data_dir(settings), settings.keep_days)


def _settings() -> Settings:
    return Settings.load(os.environ, lambda line: print(line, file=sys.stderr))


def _shell_footer(seen: Seen) -> str:
    """The footer for people and shells: the recall is a command."""
    lines = default_footer(seen)
    return lines.replace(f'recall("{seen.id}", lines="a-b" or pattern=… or block=…)',
                         f"`jevlens.py recall {seen.id} --lines a-b`, --pattern or --block")


def write_text(text: str, stream: Any = None) -> None:
    """Write a text as the bytes it came from, without newline translation."""
    out = (stream or sys.stdout).buffer
    out.write(text.encode("utf-8", "surrogateescape"))
    out.flush()


def read_text(path: str) -> str:
    """The text of a file or, for `-`, of standard input; bytes that are not UTF-8 become lone surrogates and back."""
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise JevlensError(f"{path}: {error.strerror or type(error).__name__}") from None
    if b"\0" in data[:8000]:  # what git looks at, too
        raise JevlensError(f"{path}: a binary file, nothing to view")
    return data.decode("utf-8", "surrogateescape")


def cmd_see(args: Any) -> int:
    """Print a view of a file or of standard input."""
    text = read_text(args.file)
    tool = args.tool or ("bash" if args.command or args.file == "-" else "read")
    call = {"command": args.command or ""} if tool == "bash" else {"path": "" if args.file == "-" else args.file}
    settings = replace(_settings(), code_policy="outline")  # a person asked for a view
    lens = Lens(args.judge, _own_store(settings), settings, footer=_shell_footer)
    seen = lens.see(text, tool, call, task=args.task or "")
    if args.json:
        print(json.dumps({**seen._asdict(), "kept": _spans(seen.kept)}))
    else:
        write_text(seen.text if seen.text.endswith("\n") or not seen.text else seen.text + "\n")
    return 0


def cmd_run(args: Any) -> int:
    """Run a command and print views of its output; the exit status is the command's."""
    import shlex
    import subprocess
    command = [word for word in args.words if word != "--"] if args.words[:1] == ["--"] else args.words
    if not command:
        raise JevlensError("run: no command: write `jevlens.py run -- CMD…`")
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        print(f"jevlens: run: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    while True:
        try:
            outputs = child.communicate()
            break
        except KeyboardInterrupt:  # the child got the signal too: wait for what it still has to say
            continue
    settings = _settings()
    lens = Lens(args.judge, _own_store(settings), settings, footer=_shell_footer)
    for data, stream in zip(outputs, (sys.stdout, sys.stderr)):
        text = data.decode("utf-8", "surrogateescape")
        call = {"command": shlex.join(command)}
        seen = lens.see(text, "bash", call, args.task or "", is_error=bool(child.returncode))
        write_text(seen.text + ("" if seen.text is text else "\n"), stream)
    return 128 - child.returncode if child.returncode < 0 else child.returncode


def cmd_recall(args: Any) -> int:
    """Print stored text."""
    lens = Lens("local", _own_store(_settings()))
    if args.raw:
        write_text(lens.original(args.id))
    else:
        write_text(lens.recall(args.id, args.lines, args.pattern, args.block, args.cursor).rstrip("\n") + "\n")
    return 0


def _spans(kept: Sequence[int]) -> str:
    """1-based line numbers as `1-3,7`."""
    found: List[List[int]] = []
    for line in kept:
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def _print_rows(rows: Sequence[Mapping[str, Any]], as_json: bool, keys: str) -> int:
    """Rows as JSON, or the named keys of each in columns."""
    if as_json:
        print(json.dumps(list(rows)))
        return 0
    table = [[str(row.get(key, "")) for key in keys.split()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table)
          or "nothing yet")
    return 0


def cmd_list(args: Any) -> int:
    """List stored outputs, the oldest first."""
    store = _own_store(_settings())
    records = [record for record in map(store.get, store.ids()) if record]
    rows = [{**{key: record.get(key) for key in ("id", "at", "tool", "view", "session")},
             "when": time.strftime("%Y-%m-%d %H:%M", time.localtime(float(record.get("at") or 0))),
             "tokens": tokens(unpack(record))} for record in records]
    return _print_rows(rows, args.json, "id when tokens view tool")


def cmd_decisions(args: Any) -> int:
    """What was decided for each large result, from the log."""
    rows = [event for event in _own_store(_settings()).events() if event.get("event") == "see"]
    return _print_rows(rows, args.json, "view before after shape reason id")


def cmd_stats(args: Any) -> int:
    """Sums over the log."""
    total = log_stats(_own_store(_settings()).events())
    print(json.dumps(total) if args.json else
          f"{total['shortened']} of {total['considered']} large results shortened, {total['saved']:,} tokens "
          f"kept out ({total['share']:.0%} of them), {total['recalls']} recalls")
    return 0


def log_stats(events: Iterable[Mapping[str, Any]]) -> Dict[str, Any]:
    """Sums over log events: considered, shortened, saved, share, recalls."""
    rows = list(events)
    sees = [row for row in rows if row.get("event") == "see"]
    before = sum(int(row.get("before", 0)) for row in sees)
    saved = before - sum(int(row.get("after", 0)) for row in sees)
    return {"considered": len(sees), "shortened": sum(1 for row in sees if row.get("view") != "full"), "saved": saved,
            "share": round(saved / before, 4) if before else 0.0,
            "recalls": sum(1 for row in rows if row.get("event") == "recall")}


def cmd_diff(args: Any) -> int:
    """The original with the lines marked that the model did not get."""
    store = _own_store(_settings())
    sees = [row for row in store.events() if row.get("event") == "see" and row.get("id")]
    row = next((row for row in reversed(sees) if args.id in (None, row["id"])), None)
    record = store.get(str(row["id"])) if row else None
    if row is None or record is None:
        raise JevlensError(f"diff: {args.id or 'no shortened output'}: not in the log of this store")
    doc = views.read(unpack(record), str(record.get("tool", "")), record.get("args") or {})
    kept = [line - 1 for low, high in ranges(row["kept_lines"] or "0") for line in range(low, high + 1) if line]
    saved = 1 - row["after"] / max(1, row["before"])
    head = f"{row['view']} · {row['after']:,} of {row['before']:,} tokens (−{saved:.0%}) · {row['id']}"
    sent = set(kept)
    if args.html:
        import html
        rows = "\n".join(f'<span class="{"" if n in sent else "gone"}"><i>{n + 1:>6} </i>{html.escape(line)}</span>'
                         for n, line in enumerate(doc.lines))
        page = _PAGE.format(id=row["id"], head=html.escape(head), rows=rows)
        write_private(args.html, page.encode("utf-8", "replace"))
        print(f"jevlens: wrote {args.html}", file=sys.stderr)
    elif args.sent:
        write_text(head + "\n" + views.render(doc, views.View(str(row["view"]), tuple(kept))).text + "\n")
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        off, on = (_OFF, _GONE) if colour else ("", "")
        write_text("\n".join([head, *(f"  {line}" if n in sent else f"{on}- {line}{off}"
                                      for n, line in enumerate(doc.lines))]) + "\n")
    return 0


_JSON = ("--json", {"action": "store_true", "help": "print JSON"})
_TASK = ("--task", {"metavar": "T", "help": "what the output is for, in words: names in it stay in the view"})
_JUDGE = ("--judge", {"default": "auto", "help": "auto, local or jev (default: auto)"})
# name -> (function, help, arguments); a function takes the parsed arguments and returns the exit status
COMMANDS: Dict[str, Tuple[Callable[[Any], int], str, Tuple[Tuple[str, Dict[str, Any]], ...]]] = {
    "see": (cmd_see, "print a view of a file, or of standard input (-)", (
        ("file", {"metavar": "FILE"}), _TASK, ("--tool", {"help": "read, bash, grep, … (default: read for a file)"}),
        ("--command", {"metavar": "C", "help": "the shell command that made the output"}), _JUDGE, _JSON)),
    "run": (cmd_run, "run a command, print views of its output, keep its exit status", (
        _TASK, _JUDGE, ("words", {"nargs": "...", "metavar": "-- CMD"}))),
    "recall": (cmd_recall, "print stored text: all, or what is asked for", (
        ("id", {"metavar": "ID"}), ("--lines", {"metavar": "A-B", "help": "40-90, 40, 40-, -90, several with commas"}),
        ("--pattern", {"metavar": "P", "help": "a text, or /regex/; any case, 2 lines around"}),
        ("--block", {"metavar": "NAME", "help": "a function, class, section … by name"}),
        ("--cursor", {"help": "the next page, as a page names it"}),
        ("--raw", {"action": "store_true", "help": "the original bytes, whole"}))),
    "list": (cmd_list, "list what is stored", (_JSON,)),
    "decisions": (cmd_decisions, "what was decided for each large result", (_JSON,)),
    "stats": (cmd_stats, "what was kept out, in sum", (_JSON,)),
    "diff": (cmd_diff, "the original with what the model did not get marked", (
        ("id", {"nargs": "?", "metavar": "ID"}), ("--sent", {"action": "store_true", "help": "what was sent instead"}),
        ("--html", {"metavar": "F", "help": "write one self-contained page"}))),
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line. Exit status: 0 done, 1 failed (`jevlens: what: why` on stderr), 2 usage."""
    import argparse
    parser = argparse.ArgumentParser(prog="jevlens", description="Short views of large tool results; the rest is one "
                                     "recall away.", epilog="Try: jevlens.py see FILE --task \"what you look for\"")
    parser.add_argument("--version", action="version", version=__version__)
    rows = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)
    for name, (_, text, arguments) in COMMANDS.items():
        row = rows.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        for flag, options in arguments:
            row.add_argument(flag, **options)
    args = parser.parse_args(argv)
    try:
        return COMMANDS[args.name][0](args)
    except (JevlensError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # `| head` has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0
        print(f"jevlens: {args.name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
