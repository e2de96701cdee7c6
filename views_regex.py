"""views_regex: text in, views out.

A *view* of a tool result is an ordered choice of the result's own lines. This file finds out what a text is (its kind
and shape), which lines belong together (blocks), which lines a reader needs first (the views), and prints a choice of
lines with markers that name what was left out.

What a view promises, always:
- it is made of the output's lines, in their order; nothing is generated but markers;
- kept lines + lines named by markers = all lines, also before the first kept line;
- for `code` and `prose` a kept line is byte-exact; for `command`, `listing` and `data` it may be tidied (bars and
  padding shortened), never a line that starts with `E` or `>`; a line of over 1,000 characters may be shown in pieces;
- the first and the last non-blank line stay, so a view of a non-empty text is never empty;
- work and memory grow no faster than the text, also for one line of 40 MB.

Copy this file; it needs nothing but the standard library, Python 3.9 or newer, and imports none of its sisters.
Licence: MIT.
"""
from __future__ import annotations

import re
from bisect import bisect_right
from heapq import heapify, heappop, heappush
from math import log2
from typing import (AbstractSet, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence,
                    Set, Tuple)

__all__ = [
    "Block", "Doc", "Known", "Numbering", "Rendered", "Rule", "RULES", "Shown", "View",
    "MARK", "LONG_LINE", "blocks", "candidates", "classify", "cover", "pattern", "read", "render", "shown_by", "tidy",
]

# ---------------------------------------------------------------- vocabulary


class Rule(NamedTuple):
    """One regular expression with a real line that it must hit and the nearest line that it must miss."""

    name: str
    pattern: str
    hit: str
    miss: str
    flags: int = 0


class Block(NamedTuple):
    """A named range of lines [start, end), 0-based, that can be put back whole: a function body, a diff hunk, a key.

    `depth` is 0 for a top-level block; a block's members lie inside it with depth 1 and so on. `kind` is a word of its
    own kind: `function`, `class`, `constant`, `header`, `section`, `hunk`, `group`, `key`.
    """

    name: str
    start: int
    end: int
    depth: int = 0
    kind: str = "section"


class Shown(NamedTuple):
    """A file that a command shows: lines first..last, 1-based; `last` None: to the end; `first` 0: not known (tail)."""

    path: str
    first: int = 1
    last: Optional[int] = None


class Known(NamedTuple):
    """Lines [start, end), 0-based, that the session was sent before; `note` says where they stand."""

    start: int
    end: int
    note: str


class View(NamedTuple):
    """A choice of lines: `keep` holds their 0-based numbers, ascending.

    `pieces` gives, for a kept line of over LONG_LINE characters that is shown in part, its character ranges
    [start, end). `known` are runs that are left out because the session has them; `keep` does not contain them.
    """

    name: str
    keep: Tuple[int, ...]
    pieces: Mapping[int, Tuple[Tuple[int, int], ...]] = {}
    known: Tuple[Known, ...] = ()


class Rendered(NamedTuple):
    """What is sent (without the footer) and the 0-based numbers of the lines in it that are whole and untouched."""

    text: str
    kept: Tuple[int, ...]


MARK = "⋯"  # U+22EF, the sign that every marker starts with
LONG_LINE = 1000  # characters; a longer line may be shown in pieces (design D1)


def pattern(name: str) -> "re.Pattern[str]":
    """The compiled rule `name` of RULES; compiled on first use, so that importing costs nothing."""
    found = _COMPILED.get(name)
    if found is None:
        row = RULES[name]
        found = _COMPILED[name] = re.compile(row.pattern, row.flags)
    return found


_COMPILED: Dict[str, "re.Pattern[str]"] = {}

# ---------------------------------------------------------------- lines, numbers and number prefixes

_CORE_RULES = (
    Rule("word", r"[A-Za-z_][A-Za-z0-9_]{2,}", "fetch_all(3)", "a = b2 + c3"),
    # a file and a line as searches, tracebacks, compilers and test runners print them
    Rule("place", r"(?<![\w.\-])([\w.\-]{1,80}\.[A-Za-z]\w{0,5})(?::|\(|\", line )(\d{1,6})\b",
         'File "a/b.py", line 12, in f', "at 10.5:30"),
)

# What a tool may print between a line's number and the line, the longest first: Claude Code and cat -n (tab, arrow),
# opencode ("N| ", "N: "), bat (box bar), SWE-agent windows and grep -n of one file (":").
_SEPARATORS = ("→", "\t", "| ", "│ ", ": ", ":")
_PREFIX_WIDTH = 14  # characters before the separator at most: padding and up to 7 digits fit well within
_SAMPLE = 60  # lines looked at to see whether a text carries prefixes


class Numbering(NamedTuple):
    """How an output's lines are numbered for its reader.

    `origin`: `tool` (prefixes printed by the tool), `file` (lines of one file, not printed) or `output` (1 … n). Run r
    starts at line `starts[r]` (0-based) and counts up from `numbers[r]`; 0 stands for lines without a number.
    `prefix[i]` is the length of line i's printed prefix in characters; the list is empty when no tool printed any.
    """

    origin: str
    starts: Tuple[int, ...] = (0,)
    numbers: Tuple[int, ...] = (1,)
    prefix: Tuple[int, ...] = ()

    def number(self, line: int) -> int:
        """The number of a 0-based line as its reader sees it; 0 for a line that has none."""
        run = _run_of(self.starts, line)
        return self.numbers[run] + line - self.starts[run] if self.numbers[run] else 0

    def label(self, start: int, end: int) -> str:
        """The lines [start, end) named in these numbers, as recall takes them: `81-140`, `7,9-12`, `40-90 +2`.

        `+2` counts lines that have no number of their own.
        """
        parts: List[str] = []
        bare = 0
        at = start
        while at < end:
            run = _run_of(self.starts, at)
            stop = min(end, self.starts[run + 1]) if run + 1 < len(self.starts) else end
            if self.numbers[run]:
                first = self.numbers[run] + at - self.starts[run]
                parts.append(str(first) if stop - at == 1 else f"{first}-{first + stop - at - 1}")
            else:
                bare += stop - at
            at = stop
        return ",".join(parts) + (f" +{bare}" if bare else "") if parts else f"+{bare}"

    def lines(self, first: int, last: int, total: int) -> List[int]:
        """The 0-based lines of an output of `total` lines whose numbers lie in first..last, ascending."""
        found: List[int] = []
        for run, start in enumerate(self.starts):
            number = self.numbers[run]
            if not number:
                continue
            size = (self.starts[run + 1] if run + 1 < len(self.starts) else total) - start
            low = max(first, number)
            high = min(last, number + size - 1)
            found.extend(range(start + low - number, start + high - number + 1))
        return found


def _run_of(starts: Sequence[int], line: int) -> int:
    """The index of the last start that is not after `line` (binary search)."""
    low = 0
    high = len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= line:
            low = middle
        else:
            high = middle
    return low


def _prefix_of(line: str, separator: str) -> Tuple[int, int]:
    """(length, number) of the printed prefix of one line, (0, 0) when it has none."""
    at = line.find(separator, 0, _PREFIX_WIDTH + len(separator))
    if at < 0 and separator.endswith(" ") and len(line) <= _PREFIX_WIDTH:  # "12:" for a blank line, trimmed
        bare = separator.rstrip()
        if line.endswith(bare):
            at = len(line) - len(bare)
            separator = bare
    digits = line[:at].lstrip(" \t") if at > 0 else ""
    if not digits.isdigit() or not digits.isascii():
        return 0, 0
    return at + len(separator), int(digits)


def _separator(lines: Sequence[str]) -> str:
    """The separator after which this output's lines are numbered one by one, or "" when they are not."""
    sample = [line for line in lines[:_SAMPLE] if line.strip()]
    for separator in _SEPARATORS:
        numbers = [_prefix_of(line, separator)[1] for line in sample]
        found = [number for number in numbers if number]
        steps = sum(1 for a, b in zip(found, found[1:]) if b == a + 1)
        # blank file lines keep their number, so nearly every line has one; a header of a few lines is allowed for
        if len(found) >= 5 and len(found) >= 0.6 * len(sample) and steps >= 0.9 * (len(found) - 1):
            return separator
    return ""


def _runs(numbers: Iterable[int]) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Group line numbers (0: none) into runs that count up by one: (starts, first numbers)."""
    starts: List[int] = []
    firsts: List[int] = []
    expected = -1
    for line, number in enumerate(numbers):
        if number != expected:
            starts.append(line)
            firsts.append(number)
        expected = number + 1 if number else 0
    return tuple(starts), tuple(firsts)


def _rising(starts: Sequence[int], numbers: Sequence[int]) -> bool:
    """Whether no number stands twice, so that a number names one line."""
    last = 0
    for run, number in enumerate(numbers):
        if not number:
            continue
        if number <= last:
            return False
        last = number + (starts[run + 1] - starts[run] - 1 if run + 1 < len(starts) else 0)
    return True


def numbering(lines: Sequence[str], shown: Sequence[Shown] = ()) -> Numbering:
    """How these lines are numbered: by printed prefixes, else by the one file they come from, else from 1.

    `shown`: the files and ranges of a read or display. Several files, or a tail whose place is not known: the
    output's own numbers.
    """
    separator = _separator(lines)
    if separator:
        pairs = [_prefix_of(line, separator) for line in lines]
        starts, numbers = _runs(number for _, number in pairs)
        prefix = tuple(length for length, _ in pairs)
        if _rising(starts, numbers):
            return Numbering("tool", starts, numbers, prefix)
        return Numbering("output", prefix=prefix)
    if shown and len({item.path for item in shown}) == 1 and all(item.first for item in shown):
        starts_list = [0]
        for item in shown[:-1]:
            starts_list.append(starts_list[-1] + ((item.last or 0) - item.first + 1))
        firsts = tuple(item.first for item in shown)
        if starts_list == sorted(set(starts_list)) and starts_list[-1] < len(lines) and _rising(starts_list, firsts):
            return Numbering("file", tuple(starts_list), firsts)
    return Numbering("output")


class Doc:
    """One output, read once: its lines, what it is, and how it is numbered.

    text, lines: the output and `text.split("\\n")`; tool, args: canonical (`read {path, offset?, limit?}`,
    `bash {command}`, `grep {pattern, path?}` …); path: the file shown when it is one file, else ""; command: of bash;
    shown: files that a read or display shows; kind, shape, language: see `classify`; numbers: a Numbering.
    """

    __slots__ = ("text", "lines", "tool", "args", "path", "command", "shown", "kind", "shape", "language", "numbers",
                 "_blocks", "_units", "_bare", "memo")

    def __init__(self, text: str, tool: str = "", args: Optional[Mapping[str, Any]] = None) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.tool = tool
        self.args: Mapping[str, Any] = args or {}
        self.command = str(self.args.get("command") or "") if tool == "bash" else ""
        self.shown = _shown(tool, self.args, self.command)
        paths = {item.path for item in self.shown}
        self.path = self.shown[0].path if len(paths) == 1 else ""
        self.kind, self.shape = classify(self.lines, tool, self.args, self.shown)
        self.language = language_of(self.path or (self.shown[0].path if self.shown else ""))
        self.numbers = numbering(self.lines, self.shown)
        self._blocks: Optional[List[Block]] = None
        self._units: Optional[List[Block]] = None
        self._bare: Optional[List[str]] = None
        self.memo: Dict[Any, Any] = {}  # what views work out more than once (term scores, names of lines)

    @property
    def bare(self) -> List[str]:
        """The lines without printed number prefixes (the same list when there are none)."""
        if self._bare is None:
            prefix = self.numbers.prefix
            self._bare = [line[cut:] for line, cut in zip(self.lines, prefix)] if prefix else self.lines
        return self._bare

    def units(self) -> List[Block]:
        """Blocks that together hold every line once, worked out once: see `units`."""
        if self._units is None:
            self._units = units(self)
        return self._units

    def blocks(self) -> List[Block]:
        """`blocks(self)`, worked out once."""
        if self._blocks is None:
            self._blocks = blocks(self)
        return self._blocks


def read(text: str, tool: str = "", args: Optional[Mapping[str, Any]] = None) -> Doc:
    """Read an output: what it is, and how its lines are numbered. `tool` and `args` are the canonical ones."""
    return Doc(text, tool, args)


UNIT_LINES = 40  # a longer block is taken apart into its members (blocks of 40 lines were kept or dropped best)


def units(doc: Doc) -> List[Block]:
    """The blocks of an output as a partition: nested blocks are split where the outer one is long.

    A block of up to UNIT_LINES lines is one unit; a longer one with members gives its members and what lies between
    them; lines in no block are units without a name.
    """
    found: List[Block] = []
    _split(doc.blocks(), 0, len(doc.lines), Block("", 0, len(doc.lines), -1), found)
    return found


def _split(inside: Sequence[Block], start: int, end: int, parent: Block, found: List[Block]) -> None:
    """Add to `found` the units of lines [start, end) of `parent`, whose descendants are `inside`."""
    at = start
    rest = parent._replace(kind=parent.kind if parent.depth >= 0 else "rest")
    index = 0
    while index < len(inside):
        block = inside[index]
        members = index + 1
        while members < len(inside) and inside[members].start < block.end:
            members += 1
        if block.start > at:
            found.append(rest._replace(start=at, end=block.start))
        below = inside[index + 1:members]
        if block.end - block.start > UNIT_LINES and below:
            _split(below, block.start, block.end, block, found)
        else:
            found.append(block)
        at = block.end
        index = members
    if at < end:
        found.append(rest._replace(start=at, end=end))


def places(doc: Doc) -> List[Tuple[str, int]]:
    """(file name, line) of every place that an output names: search rows, tracebacks, diagnostics, diff hunks."""
    found: List[Tuple[str, int]] = []
    place = pattern("place")
    for line in doc.lines[:PLACES_LINES]:
        # a search of files that are one line long, a minified bundle: only the head of a line names its place
        for match in place.finditer(line, 0, PLACES_WIDTH):
            found.append((match.group(1), int(match.group(2))))
    return found


PLACES_LINES = 5000  # lines looked at: beyond that a result points everywhere and so nowhere
PLACES_WIDTH = 300  # characters of a line looked at


def ends(doc: Doc) -> List[int]:
    """The first and the last line with something on it (0-based); none for a blank text."""
    total = len(doc.lines)
    first = next((line for line in range(total) if doc.lines[line].strip()), None)
    if first is None:
        return []
    last = next(line for line in range(total - 1, -1, -1) if doc.lines[line].strip())
    return [first, last]


def close_gaps(doc: Doc, keep: Iterable[int], small: int) -> List[int]:
    """The lines kept, with the ends of the text and with every gap of fewer than `small` characters filled."""
    lines = sorted({*keep, *ends(doc)})
    found: List[int] = []
    at = 0
    for line in (*lines, len(doc.lines)):
        if line > at and line - at <= small and sum(len(text) + 1 for text in doc.lines[at:line]) < small:
            found.extend(range(at, line))
        if line < len(doc.lines):
            found.append(line)
        at = line + 1
    return found


def _shown(tool: str, args: Mapping[str, Any], command: str) -> List[Shown]:
    """The files and ranges that a call shows, empty when it does not just show files."""
    if tool == "bash":
        return shown_by(command) or []
    path = args.get("path")
    if tool != "read" or not isinstance(path, str) or not path:
        return []
    offset, limit = args.get("offset"), args.get("limit")
    first = offset if isinstance(offset, int) and offset > 0 else 1
    return [Shown(path, first, first + limit - 1 if isinstance(limit, int) and limit > 0 else None)]


# ---------------------------------------------------------------- kinds and shapes


def classify(
    lines: Sequence[str], tool: str = "", args: Optional[Mapping[str, Any]] = None, shown: Sequence[Shown] = ()
) -> Tuple[str, str]:
    """(kind, shape) of an output."""
    return "command", "other"


def language_of(path: str) -> str:
    """The language of a path."""
    return ""


# ---------------------------------------------------------------- the display-command parser


def shown_by(command: str) -> Optional[List[Shown]]:
    """The files that a command shows."""
    return None


def bounded(tool: str, args: Mapping[str, Any]) -> bool:
    """Whether the agent bounded this result itself."""
    return False


def named_files(tool: str, args: Mapping[str, Any]) -> List[str]:
    """Single files that a diff, search or test names."""
    return []



# ---------------------------------------------------------------- blocks of code


def blocks(doc: Doc) -> List[Block]:
    """The blocks."""
    return []


def signatures(doc: Doc) -> List[int]:
    """The lines."""
    return []


# ---------------------------------------------------------------- sections of everything else


# ---------------------------------------------------------------- terms and names

_TERM_RULES = (
    Rule("quoted", r"`([^`\n]{3,60})`|\"([^\"\n]{4,60})\"|(?<![A-Za-z0-9])'([^'\n]{4,60})'",
         "see `_render`", "a `b` c"),
    # versions (7.8.1, 5.0.0-beta.2) and codes of linters and compilers (F541, TS2345, E0308)
    Rule("code-term", r"\b(?:[0-9]{1,6}(?:\.[0-9]{1,6}){1,5}|[A-Z]{1,6}[0-9]{2,6})\b", "rxjs 7.8.1", "rxjs 7"),
    Rule("name", r"[A-Za-z_][A-Za-z0-9_]{4,}", "x = max_value", "a = b12c"),
    Rule("name-sign", r"[a-z][A-Z]|[A-Za-z0-9]_|_[A-Za-z0-9]|[0-9]", "maxValue", "value"),
    Rule("name-part", r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+", "HTTPError", "12_34"),
    Rule("hash-like", r"\A(?:[0-9a-f]{7,40}\Z|[A-Za-z_]{0,40}[0-9]{6,})", "b0098ca1", "sha256_of"),
)
# Words that say what to do or that every program has: they find nothing (reference: the stop words of the seeds).
_STOP_WORDS = frozenset(
    """about added adding after again also because before could each every existing from have into just more most only
    other should some such than that their then there these they this what when where which while will with would does
    must always never please sure change changed changes current default defaults delete following keep keeps make need
    needs needed read remove removed rename renamed return returns running update updated used uses using write find
    array behaviour behavior class code const export file files function functions import line lines module modules
    number object string test tests type types value values true false none null self grep head tail echo the and for
    not let you can are was how show look check issue fix work user data here been them your were""".split()
)
_TERM_TEXT = 6000  # characters of each text that are read for terms: a request's first pages say what it is about
_MOST_TERMS = 80  # more words than this say nothing about one call, and each costs one pass over the output
_NAMED = 2.0  # an identifier, version or code finds its line more surely than a plain word (weight 1)


def names(text: str) -> Set[str]:
    """The identifiers of a text: 5 word characters or more that show by case, `_` or a digit that they are names."""
    sign = pattern("name-sign").search
    return {word for word in pattern("name").findall(text) if sign(word)}


def terms(task: str = "", latest: str = "", said: str = "", args: Any = None) -> Dict[str, float]:
    """The case's words, lower-case, each with a weight of 0.5 … 12; the most telling 80, the best first.

    Sources: the first request, the latest message, what the assistant said before the call, and the values (never the
    keys) of the arguments (a mapping, or a text). Identifiers, versions and codes count twice; the parts of an identifier count as words.
    """
    found: Dict[str, float] = {}
    # what was just said and asked for is nearer to this call than the first request
    for text, nearness in (("\n".join(_strings(args)), 1.5), (said, 1.5), (latest, 1.0), (task, 1.0)):
        for term, weight in _words(text[:_TERM_TEXT]):
            found[term] = min(found.get(term, 0.0) + weight * nearness, 4 * weight)
    best = sorted(found.items(), key=lambda pair: -pair[1])[:_MOST_TERMS]
    return {term: round(weight, 3) for term, weight in best}


def _strings(value: Any) -> Iterator[str]:
    """The strings inside a JSON-like value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def _words(text: str) -> Iterator[Tuple[str, float]]:
    """(term, weight) for each quotation, code and word of a text, in their order."""
    for groups in pattern("quoted").findall(text):
        yield "".join(groups).strip().lower(), _NAMED
    for code in pattern("code-term").findall(text):
        yield code.lower(), _NAMED
    named = pattern("name-sign").search
    for word in pattern("word").findall(text):
        parts = [part.lower() for part in pattern("name-part").findall(word)]
        if len(word) >= 4 and named(word):
            yield word.lower(), _NAMED
        else:
            parts = [word.lower()]
        for part in parts:
            if len(part) >= 4 and part not in _STOP_WORDS:
                yield _stem(part), 1.0


def _stem(word: str) -> str:
    """A plain word without its ending, so that `published` finds `publish` (terms are searched inside words)."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 5:
            return word[: -len(ending)]
    return word


def _lowered(doc: Doc) -> Tuple[str, List[int]]:
    """The text in lower case, as long as the text, and where its lines start."""
    if "low" not in doc.memo:
        starts = [0]
        for line in doc.lines:
            starts.append(starts[-1] + len(line) + 1)
        doc.memo["low"] = (doc.text.replace("İ", "i").lower(), starts)  # the one letter that grows by lower()
    found: Tuple[str, List[int]] = doc.memo["low"]
    return found


def _lines_with(doc: Doc, literal: str, most: int = 0, word: bool = False) -> List[int]:
    """The lines that hold a lower-case literal, ascending; stops after `most` (0: never).

    word: where a word or a part of an identifier starts, so that `table` is found in `FooTable`, not in `renderable`.
    """
    low, starts = _lowered(doc)
    found: List[int] = []
    at = low.find(literal)
    inner = 0
    while at >= 0 and (not most or len(found) < most) and inner <= len(doc.lines):
        if word and at and low[at - 1].isalpha() and literal[0].isalpha() and not doc.text[at].isupper():
            at = low.find(literal, at + 1)
            inner += 1  # more of them than lines: the literal stands inside words here
            continue
        line = bisect_right(starts, at) - 1
        found.append(line)
        at = low.find(literal, starts[line + 1])
    return found


def _scores(doc: Doc, terms: Mapping[str, float]) -> List[float]:
    """For each line the sum of weight × log(lines / lines with the term) over the case terms in it."""
    key = ("scores", tuple(terms.items()))
    if key not in doc.memo:
        total = len(doc.lines)
        scores = [0.0] * total
        common = max(20, total * 2 // 3)  # a term in two of three lines tells no line from another
        for term, weight in terms.items():
            hits = _lines_with(doc, term, common, word=True)
            gain = weight * log2(1.1 * total / len(hits)) if hits and (len(hits) < common or total < 20) else 0.0
            for line in hits if gain else ():
                scores[line] += gain
        doc.memo[key] = [round(score, 6) for score in scores]
    found: List[float] = doc.memo[key]
    return found


def _line_names(doc: Doc) -> List[Tuple[str, ...]]:
    """The different names of each line, in their order."""
    if "names" not in doc.memo:
        find, sign = pattern("name").findall, pattern("name-sign").search
        is_name: Dict[str, bool] = {}
        table: List[Tuple[str, ...]] = []
        for line in doc.lines:
            words = dict.fromkeys(find(line if len(line) <= _FAR else line[:_FAR]))
            for word in words:
                if word not in is_name:
                    is_name[word] = bool(sign(word))
            table.append(tuple(word for word in words if is_name[word]))
        doc.memo["names"] = table
    found: List[Tuple[str, ...]] = doc.memo["names"]
    return found


# ---------------------------------------------------------------- views

_VIEW_RULES = (
    # words and marks that tell of trouble, in any tool; `…Error` and `…Exception` count without a word boundary before
    Rule("signal", r"(?:error|exception)s?\b|\b(?:fail(?:ed|ing|ures?|s)?|traceback|panic(?:ked)?|fatal|warn(?:ings?)?"
         r"|denied|refused|missing|cannot|killed|time(?:d )?-?out|assert(?:ion)?|expected|actual|undefined|not ok"
         r"|no such file|segmentation fault|err!|unable to|enoent|eacces)(?![a-z])|[✖✗✘❌]|\b[0-9]+ passed\b",
         "java.lang.NullPointerException: x", "failover of the warned masses", re.IGNORECASE),
    Rule("passing-row", r"^\s*(?:✔|✓|√|ok\b|--- PASS|PASS\b)|\bPASSED\b|\.\.\. ok$|\b0 (?:errors?|fail)",
         "tests/test_a.py::test_error PASSED  [ 3%]", "FAILED tests/test_a.py::test_x"),
    Rule("heading", r"^(?: {0,3}#{1,6} |[A-Z][A-Z0-9 ]{3,60}:?$|\*\*[^*\n]{2,80}\*\*:?$"
         r"|[0-9]{1,2}(?:\.[0-9]{1,2})*\.? +[A-Z])", "## Version 8.4.2", "#include <stdio.h>"),
    Rule("underline", r"^(?:=+|-+|~+|\^+)\s*$", "=======", "== a =="),
    Rule("match-row", r"^(?P<path>[^\s:][^:\n]{0,300}?)(?P<sign>[:-])(?P<line>[0-9]{1,7})(?P=sign)",
         "a/b.py:12:x = 1", "a b c"),
    # what differs between two lines of one kind: numbers, hashes, paths, URLs, quotations
    Rule("varying", r"https?://[^\s\"']+|(?<![\w.@+-])[\w.@+-]{0,80}/[^\s:,\"'()]+|\b[0-9a-f]{8,40}\b|[0-9]+"
         r"|\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|‘[^’\n]{0,200}’|`[^`\n]{0,200}`", "took 12 ms", "done"),
    Rule("declaration", r"^[+-]?\s*(?:(?:export|default|async|pub|public|private|protected|static|final|abstract|override"
         r"|inline|unsafe|const|virtual|suspend|open|data|sealed|local)\s+){0,5}(?:def|class|function|func|fn|interface"
         r"|struct|enum|trait|impl|type|module|namespace|const|record|object|fun)\s+\(?[A-Za-z_$]",
         "+    def feed(self, data):", "+    default = 3"),
    # where a diagnostic stands: path:line:col (gcc, clang, go, javac, mypy, ruff), path(line,col) (tsc, msvc), --> (rust)
    Rule("diagnostic", r"^\s*(?:-->\s*|(?:ERROR|WARNING|error|warning):? )?(?![0-9]{1,4}[-:T])"
         r"(?P<path>(?:[A-Za-z]:)?[^\s:()|]{1,250})(?::[0-9]{1,7}(?::[0-9]{1,6})?:?|\([0-9]{1,7}(?:,[0-9]{1,6})?\):?)(?:\s|$)",
         "src/kilo.c:514:43: error: x", "12:30 lunch at noon"),
    Rule("severity", r"(?P<error>\b(?:fatal|errors?|err!|failed|failure|undefined reference|unresolved|panicked|traceback"
         r"|cannot)(?![a-z])|[a-z](?:error|exception)\b|\*\*\*)|(?P<warning>\bwarn(?:ing)?\b)"
         r"|(?P<note>\b(?:note|help|info|required from)\b)", "npm ERR! code 1", "informative errorless text", re.IGNORECASE),
    Rule("message-code", r"\b[A-Z]{1,7}[0-9]{2,5}\b|\[-W[a-z0-9=+-]+\]|\[[a-z][a-z-]{2,40}\]$"
         r"|(?<=  )[@a-z][a-z/-]{1,60}-[a-z-]{2,60}$", "x.py:1:1: D205 blank line", "error: bad thing"),
    # files that nobody fixes from here: frames and notes in them are folded
    Rule("library", r"site-packages|dist-packages|node_modules|/usr/(?:local/)?(?:lib|include|share)|/opt/conda|\.pyenv"
         r"|lib/python3|\.cargo/registry|/rustc/|node:|/go/(?:src|pkg/mod)/|<frozen|<template>|/gems/|/vendor/"
         r"|internal/modules|\b(?:java|jdk|sun|org\.junit|org\.apache\.maven|kotlin|scala)\.[a-z]",
         "/usr/lib/python3.11/json/__init__.py:346: in loads", "src/library.py:3: in load"),
    # a stack frame: Python, pytest, JS, Java, Go, Rust, Ruby, PHP, .NET
    Rule("frame", r"^\s*(?:File \"[^\"\n]{1,300}\", line [0-9]+|at [^\n]{1,400}|❯ \S+:[0-9]+|# \S+\.rb:[0-9]+"
         r"|[0-9]+: +[A-Za-z_<]\S*::|[^\s:]{1,250}\.[a-z]{1,4}:[0-9]{1,7}(?::|$))",
         "  File \"a.py\", line 3, in f", "    x = 1"),
)
# Where signals may stand, for a quick search; the rule then decides.
_SIGNAL_WORDS = ("error", "exception", "fail", "traceback", "panic", "fatal", "warn", "denied", "refused", "missing",
                 "cannot", "killed", "timeout", "timed", "assert", "expected", "actual", "undefined", "not ok",
                 "no such file", "segmentation", "err!", "unable to", "enoent", "eacces", "✖", "✗", "✘", "❌", " passed")
_HEAD, _TAIL = 40, 20  # lines of head_tail (the seeds' parameters, as all of this group)
_FOCUS_AROUND = 3
_SAMPLE_HEAD, _SAMPLE_TAIL = 12, 2
_SIGNALS_TAIL = 8
_PER_FILE, _PER_DIRECTORY = 6, 8
_NEARLY_ALL = 0.8  # a view that keeps more of the lines is no view
_ADMITTED = 0.6  # share of the full characters that a view may have at most, this much included


def _view(doc: Doc, name: str, keep: Iterable[int], terms: Mapping[str, float] = {}) -> Optional[View]:
    """The view of these lines and the two ends; None when that is nearly all."""
    total = len(doc.lines)
    lines = sorted({line for line in (*keep, *ends(doc)) if 0 <= line < total})
    view = View(name, tuple(lines), fit(doc, lines, terms))
    return None if len(lines) >= _NEARLY_ALL * total and not view.pieces else view


def _around(lines: Iterable[int], before: int, after: int) -> Set[int]:
    """These lines with their neighbours (possibly beyond the ends)."""
    return {near for line in lines for near in range(line - before, line + after + 1)}


def _best(doc: Doc, scores: Sequence[float], share: float, among: Optional[Iterable[int]] = None) -> Set[int]:
    """The best-scored lines (of `among`) that together hold at most `share` of the characters; never a score of 0."""
    left = share * len(doc.text)
    lines = [line for line in (range(len(scores)) if among is None else among) if scores[line] > 0]
    chosen: Set[int] = set()
    for line in sorted(lines, key=lambda line: -scores[line]):
        left -= min(len(doc.lines[line]), LONG_LINE)
        if left < 0:
            break
        chosen.add(line)
    return chosen


def _part(doc: Doc, share: float, backwards: bool = False) -> Set[int]:
    """The first (or last) lines that hold `share` of the characters; a long line counts as LONG_LINE."""
    left = share * len(doc.text)
    chosen: Set[int] = set()
    order = range(len(doc.lines) - 1, -1, -1) if backwards else range(len(doc.lines))
    for line in order:
        left -= min(len(doc.lines[line]), LONG_LINE) + 1
        if left < 0:
            break
        chosen.add(line)
    return chosen


def _whole(doc: Doc, scores: Sequence[float], groups: Iterable[Tuple[int, int]], share: float, least: float = 0.0) -> Set[int]:
    """The lines of the best-scored ranges [start, end) of at least `least` that together hold `share` of the text."""
    left = share * len(doc.text)
    ranked = []
    for start, end in groups:
        score = sum(scores[start:end]) / (end - start + 8) ** 0.5  # neither the longest nor the shortest by itself
        ranked.append((-round(score, 6), start, end))
    chosen: Set[int] = set()
    for score, start, end in sorted(ranked):
        size = sum(min(len(text), LONG_LINE) + 1 for text in doc.lines[start:end])
        if -score >= least and size <= left:
            left -= size
            chosen.update(range(start, end))
    return chosen


def _signal_lines(doc: Doc) -> List[int]:
    """The lines that tell of trouble, ascending; rows of passing tests never do."""
    if "signals" not in doc.memo:
        near = sorted({line for word in _SIGNAL_WORDS for line in _lines_with(doc, word)})
        hit, passing = pattern("signal").search, pattern("passing-row").search
        short = ((line, doc.lines[line][:_FAR]) for line in near)
        doc.memo["signals"] = [line for line, text in short if hit(text) and not passing(text)]
    found: List[int] = doc.memo["signals"]
    return found


def outline(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """Code: the signature lines. Prose: each heading (also underlined ones) with the first line of its text."""
    if doc.kind == "code":
        rows: Iterable[int] = signatures(doc)
    else:
        rows = _heading_lines(doc)
    rows = list(rows)
    return _view(doc, "outline", rows, terms) if len(rows) >= 2 else None


def _heading_lines(doc: Doc) -> Set[int]:
    """The headings of a text, each with the first line below it that says something."""
    lines = doc.bare
    heading, underline = pattern("heading").match, pattern("underline").match
    chosen: Set[int] = set()
    for line, text in enumerate(lines):
        below = lines[line + 1] if line + 1 < len(lines) else ""
        under = bool(text.strip()) and len(below.strip()) >= 3 and bool(underline(below))
        if under or heading(text):
            at = line + (2 if under else 1)
            while at < min(line + 5, len(lines)) and not lines[at].strip():
                at += 1
            chosen.update((line, at))
    return chosen


def focus(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The lines with the most telling case terms (15 % of the text), each with three lines around."""
    hits = _best(doc, _scores(doc, terms), _SHARES["search"])
    return _view(doc, "focus", _around(hits, _FOCUS_AROUND, _FOCUS_AROUND), terms) if hits else None


def signals(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """Every line that tells of trouble and the last eight, each with its neighbours."""
    total = len(doc.lines)
    hits = _signal_lines(doc) + list(range(total - _SIGNALS_TAIL, total))
    return _view(doc, "signals", _around(hits, 1, 1), terms)


def tree(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first eight entries of each directory, and entries that case terms name; for two directories or more."""
    groups = _by_directory(doc)
    if len(groups) < 2:
        return None
    first = {line for members in groups.values() for line in members[:_PER_DIRECTORY]}
    return _view(doc, "tree", first | _best(doc, _scores(doc, terms), 0.1), terms)


def _by_directory(doc: Doc) -> Dict[str, List[int]]:
    """The entries of a path list by the text before their last slash; a `dir:` line of ls -R opens a group."""
    groups: Dict[str, List[int]] = {}
    heading = ""
    for line, text in enumerate(doc.bare):
        path = text.strip().rstrip("/")
        if path.endswith(":") and " " not in path:
            heading = path
        if path:
            groups.setdefault(path.rpartition("/")[0] or heading, []).append(line)
    return groups


def matches(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first six rows of each file of a search, and every line that is no row; needs 10 rows, 60 % of the lines."""
    row = pattern("match-row").match
    seen: Dict[str, int] = {}
    keep: List[int] = []
    rows = 0
    for line, text in enumerate(doc.lines):
        found = row(text[:400])
        if found:
            rows += 1
            seen[found["path"]] = seen.get(found["path"], 0) + 1
        if seen[found["path"]] <= _PER_FILE if found else text.strip() not in ("", "--"):
            keep.append(line)
    return _view(doc, "matches", keep, terms) if rows >= 10 and rows >= 0.6 * len(doc.lines) else None


def log(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first two and the last line of each template, so also every rare line; signals, two per template; the end.

    A template is the line with numbers, paths, URLs and quotations taken out. Not offered when templates that occur
    three times or more make up less than 30 % of the lines (the text is no log).
    """
    groups = _templates(doc, range(len(doc.lines)))
    repeated = sum(len(group) for group in groups if len(group) >= 3)
    if repeated < 0.3 * len(doc.lines):
        return None
    keep = {line for group in groups for line in (*group[:2], group[-1])}
    return _view(doc, "log", keep | set(range(len(doc.lines) - 5, len(doc.lines))), terms)


def _templates(doc: Doc, lines: Iterable[int]) -> List[List[int]]:
    """These lines grouped by their template (see `log`), blank ones left out."""
    thin = pattern("varying").sub
    groups: Dict[str, List[int]] = {}
    for line in lines:
        text = doc.lines[line][:300].strip()
        if text:
            groups.setdefault(thin("#", text), []).append(line)
    return list(groups.values())


def sections(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first line of each section; for two sections or more."""
    starts = sorted({block.start for block in doc.blocks()})
    return _view(doc, "sections", starts, terms) if len(starts) >= 2 else None


def sample(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first 12 and the last 2 lines."""
    total = len(doc.lines)
    wanted = [*range(_SAMPLE_HEAD), *range(total - _SAMPLE_TAIL, total)]
    return _view(doc, "sample", wanted, terms) if total > _SAMPLE_HEAD + 6 else None


def head_tail(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """The first 40 and the last 20 lines."""
    total = len(doc.lines)
    wanted = [*range(_HEAD), *range(total - _TAIL, total)]
    return _view(doc, "head_tail", wanted, terms) if total > _HEAD + _TAIL + 5 else None


# What a failure looks like, two rows a family of test runners: its first line, and the first line after it. A family
# whose failures start at a line that holds none of its literals (_FAMILIES) does not exist, so the rest is quick.
_FAILURE_RULES = (
    Rule("pytest-start", r"^_{3,} \S.* _{3,}$", "____ test_loop ____", "_ _ _ _ _"),
    Rule("pytest-end", r"^=+ \S.*=$", "=== short test summary info ===", "____ test_loop ____"),
    Rule("unittest-start", r"^(?:FAIL|ERROR): \S+(?: \(|$)", "FAIL: test_a (tests.T.test_a)", "FAILED (failures=1)"),
    Rule("unittest-end", r"^(?:={50,}|Ran [0-9]+ tests?\b)", "Ran 3 tests in 0.001s", "----"),
    Rule("go-start", r"^\s*--- FAIL: ", "--- FAIL: TestParse (0.00s)", "--- PASS: TestParse (0.00s)"),
    Rule("go-end", r"^(?:\s*--- (?:PASS|SKIP): |=== (?:RUN|CONT|PAUSE)|FAIL\b|ok\s|PASS$|\?\s)", "FAIL\tpkg/a\t0.01s",
         "    a_test.go:3: FAIL"),
    Rule("cargo-start", r"^(?:---- \S.* stdout ----|thread '[^'\n]{1,200}'.{0,40} panicked at )",
         "---- tests::a stdout ----", "---- a"),
    Rule("cargo-end", r"^(?:failures:$|test result: )", "test result: FAILED. 1 passed; 1 failed", "failures: 3"),
    Rule("jest-start", r"^\s*(?:● \S| FAIL  ?\S|FAIL \S+\.[a-z]+)", "  ● sum › adds", "Tests: 1 failed"),
    Rule("jest-end", r"^(?:PASS |\s*(?:Test Suites|Test Files|Tests|Snapshots):? |⎯)", "Tests:       1 failed, 1 total",
         "at tests"),
    Rule("numbered-start", r"^\s*[0-9]{1,4}\) \S", "  1) Array indexOf:", "1. one"),
    Rule("numbered-end", r"^(?:Finished in |FAILURES!|Failed examples:|ERRORS!|Tests: |\s*[0-9]+ (?:passing|failing|pending))",
         "Finished in 0.01 seconds", "in 3 seconds"),
    Rule("node-start", r"^\s*(?:[✖✗] |not ok [0-9])", "not ok 3 - adds", "ok 3 - adds"),
    Rule("node-end", r"^\s*(?:[✔✓▶] |ok [0-9]|# |ℹ )", "ok 4 - subtracts", "  ---"),
    Rule("jvm-start", r"<<< (?:FAILURE|ERROR)!|^\S.{0,200} > .{1,200} FAILED$", "AppTest > adds() FAILED",
         "BUILD FAILED in 1s"),
    Rule("jvm-end", r"^(?:\[(?:INFO|WARNING)\]|\S.{0,200} > .{1,200} (?:PASSED|SKIPPED)$|[0-9]+ tests? completed|$)",
         "[INFO] Results:", "\tat a.B.c(B.java:3)"),
    Rule("dotnet-start", r"^\s*(?:\[xUnit[^\]]{0,40}\]\s*)?(?:Failed \S.*\[[<0-9]|\S.*\[FAIL\])", "  Failed Calc.Adds [12 ms]",
         "Failed!  - Failed: 1"),
    Rule("dotnet-end", r"^(?:\s*(?:Passed|Skipped) \S|Failed! |Passed! |Test Run |Total tests)", "Failed!  - Failed:     1",
         "  Stack Trace:"),
    Rule("ctest-start", r"\*\*\*(?:Failed|Exception|Timeout|Not Run)", "1/2 Test #1: a ...***Failed 0.01 sec", "*** a"),
    Rule("ctest-end", r"^\s*(?:[0-9]+/[0-9]+ Test|Start +[0-9]+:|[0-9]+% tests)",
         "50% tests passed, 1 tests failed out of 2", "a"),
    # what is said about a whole run, by any of them
    Rule("test-summary", r"^(?:={3,} [^\n]{0,200}\b(?:passed|failed|errors?|skipped|no tests ran|FAILURES|ERRORS|short test)\b"
         r"|[0-9]+ (?:passed|failed|errors?|skipped|deselected)\b|!+ .{1,200}!$|(?:FAILED|ERROR) \S|Ran [0-9]+ test|OK\b"
         r"|FAILED \(|(?:FAIL|ok)\s+\S+\s|(?:FAIL|PASS)$|test result: |[ℹ#] (?:tests|suites|pass|fail|cancelled|skipped) [0-9]"
         r"|\s{0,8}(?:Test Suites|Test Files|Tests|Snapshots|Time|Duration|Assertions):? +[0-9]|rspec \S|[0-9]+ examples?, "
         r"|\s{0,8}[0-9]+ (?:passing|failing|pending)|(?:\[[A-Z]+\] )?(?:Tests run: [0-9]|BUILD )|[0-9]+ tests? completed"
         r"|(?:Failed|Passed)! |[0-9]+% tests passed|The following tests FAILED|\s+[0-9]+ - .{1,200}\((?:Failed|Timeout))",
         "=== 2 failed, 1190 passed in 3.10s ===", "tests/test_a.py::test_x PASSED"),
    Rule("suite-failure", r"Test suite failed to run|\[(?:build|setup) failed\]|could not compile|^ImportError while importing"
         r"|BUILD FAILED|COMPILATION ERROR|^no tests ran|^Segmentation fault|^Fatal Python error|\bFAILED(?: +\[ *[0-9]+%\])?$",
         "FAIL\tpkg/a [build failed]", "build failed tests: none"),
)
_FAMILIES = (
    ("pytest", ("___ ",)), ("unittest", ("fail: ", "error: ")), ("go", ("--- fail: ",)), ("jest", ("● ", "fail ")),
    ("cargo", (" stdout ----", " panicked at ")), ("numbered", (") ",)), ("node", ("✖ ", "✗ ", "not ok ")),
    ("jvm", ("<<< ", " failed")), ("dotnet", ("[fail]", "failed ")), ("ctest", ("***",)),
)
_BROKEN_WORDS = ("failed", "could not compile", "importerror while", "compilation error", "no tests ran", "segmentation",
                 "fatal python")
_BEFORE_MARK = 6  # source lines before pytest's `>` line: without them edits were missed, with more nothing was gained
_FAILURE_LINES = 40  # lines of a failure that has no marked line
_TEST_TAIL = 5


def failures(doc: Doc) -> List[Tuple[int, int]]:
    """The failing tests of a run as line ranges [start, end), by the grammars of _FAILURE_RULES."""
    starts: Dict[int, str] = {}
    for name, literals in _FAMILIES:
        begins = pattern(f"{name}-start").search
        for line in (line for literal in literals for line in _lines_with(doc, literal)):
            if begins(doc.lines[line][:_FAR]):
                starts.setdefault(line, name)
    order = sorted(starts)
    found: List[Tuple[int, int]] = []
    for start, stop in zip(order, [*order[1:], len(doc.lines)]):
        ends_at = pattern(f"{starts[start]}-end").match
        end = next((line for line in range(start + 1, stop) if ends_at(doc.lines[line][:_FAR])), stop)
        found.append((start, end))
    return found


def testlog(doc: Doc, terms: Mapping[str, float] = {}) -> Optional[View]:
    """Failing tests with their assertion and own frames with source, suite-level failures, final counts.

    Library frames are folded; a failure that says what an earlier one said keeps its first line and its `E` lines.
    """
    failed, broken = failures(doc), pattern("suite-failure").search
    near = {line for word in _BROKEN_WORDS for line in _lines_with(doc, word)}
    lost = {line for line in near if broken(doc.lines[line][:_FAR])}
    if not failed and not lost:
        return None
    keep = lost | _summary_lines(doc) | {0, 1, 2} | set(range(len(doc.lines) - _TEST_TAIL, len(doc.lines)))
    bodies: Set[str] = set()
    for start, end in failed:
        keep.update(_failure(doc, start, end, bodies))
    return _view(doc, "testlog", keep, terms)


def _summary_lines(doc: Doc) -> Set[int]:
    """The lines that speak of a whole test run or name what failed in it."""
    summary = pattern("test-summary").match
    return {line for line, text in enumerate(doc.lines) if summary(text[:_FAR])}


def _failure(doc: Doc, start: int, end: int, bodies: Set[str]) -> List[int]:
    """The lines of one failure [start, end) that are worth reading; `bodies` holds what earlier ones said."""
    folded = _library_lines(doc, start, end)
    lines = [line for line in range(start + 1, end) if doc.lines[line].strip() and line not in folded]
    exact = [line for line in lines if doc.lines[line].startswith("E  ")]
    marked = [line for line in lines if doc.lines[line].startswith(">")]
    if marked:
        frame = pattern("frame").match
        near = _around(marked, _BEFORE_MARK, 0) | set(exact)
        lines = [line for line in lines if line in near or frame(doc.lines[line][:_FAR])]
    elif len(lines) > _FAILURE_LINES:
        lines = sorted({*lines[:_FAILURE_LINES], *exact})
    fresh = [line for line in lines if doc.lines[line] not in bodies or line in exact]
    bodies.update(doc.lines[line] for line in lines)
    return [start, *fresh]


def _library_lines(doc: Doc, start: int, end: int) -> Set[int]:
    """The lines of frames in libraries: a frame line with the deeper lines below it, or, where pytest prints the place
    below the source, all lines back to the frame before; `E` lines never."""
    frame, library = pattern("frame").match, pattern("library").search
    folded: Set[int] = set()
    before = start
    inside = -1  # the indentation of the library frame above
    for line in range(start + 1, end):
        text = doc.lines[line][:_FAR]
        indent = len(text) - len(text.lstrip())
        if frame(text):
            foreign = bool(library(text))
            inside = indent if foreign else -1
            if foreign:
                below_source = not indent and text[0] != "F" and ": in " not in text
                folded.update(range(before + 1, line + 1) if below_source else (line,))
            before = line
        elif inside >= 0 and indent > inside:
            folded.add(line)
        else:
            inside = -1
    return {line for line in folded if not doc.lines[line].startswith("E  ")}


# ---------------------------------------------------------------- base views by shape, name cover, long lines

_BASE_RULES = (
    Rule("diff-file", r"^(?:diff --git |Index: |\*\*\* (?:Add|Update|Delete) File: )", "diff --git a/x b/x", "diff of x"),
    Rule("diff-head", r"^(?:index [0-9a-f]|--- |\+\+\+ |new file|deleted file|rename |similarity |Binary files |old mode|new mode)",
         "+++ b/x.py", "++ x"),
    Rule("hunk", r"^@@ ", "@@ -1,3 +1,4 @@ class A:", "@ -1"),
    Rule("commit", r"^(?:[*|\\/ ]{0,20})(?:commit )?[0-9a-f]{7,40}\b", "commit dff7cc3", "    Fix a1b2"),
    Rule("json-pair", r"^\s*\"([^\"\n]{1,80})\": (.{1,200}?),?$", '    "code": "E501",', '    "5.0.0",'),
)
# Share of the characters that a base view takes by each means (levers: best of those measured on recorded sessions).
_SHARES = {"head": 0.06, "search": 0.15, "tree": 0.15, "diff": 0.3, "report": 0.15, "web": 0.15, "json": 0.1, "git-log": 0.1,
           "table": 0.05, "build": 0.08, "log": 0.1, "other": 0.2}
_LIST_WHOLE = 110  # lines: a path list this short stays whole, for any of its equals may be the one that is picked
_ERRORS_WHOLE = 40  # diagnostics: as many are read one by one; of more, two of each code tell what there is
_PER_CODE = 2
_PER_TERM = 2  # rows of a search that each case term shows
_FEW = 400  # hits of a term among which its best are looked for
_BUILD_TAIL = 20  # the last lines of an install or build say how it ended
_BLOCK_LINES = 40
_FEW_VALUES = 12  # different values of a JSON key that make it a kind, not a content


def base(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The view that suits the shape best by measurement; None when the text is better sent whole."""
    choose = _BASES.get(doc.shape, _base_other)
    view = choose(doc, terms)
    return View("base", view.keep, view.pieces) if view else None


def _terms_in(doc: Doc, terms: Mapping[str, float], shape: str, among: Optional[Iterable[int]] = None) -> Set[int]:
    """The shape's share of lines that case terms choose."""
    return _best(doc, _scores(doc, terms), _SHARES[shape], among)


def _base_test(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Failures as `testlog`; of a run that passed its first 6 %, last 4 % and summary lines."""
    failed = testlog(doc, terms)
    if failed:
        return failed
    return _view(doc, "base", _summary_lines(doc) | _part(doc, 0.06) | _part(doc, 0.04, backwards=True), terms)


def _base_build(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Each diagnostic as a block: all errors up to 40, else two per code; each file once; term rows; the end.

    What is said a third time word for word shows its place only, without the source below.
    """
    found = _diagnostics(doc)
    total = len(doc.lines)
    keep = set(range(total - _BUILD_TAIL, total)) | {0, 1}
    whole = sum(1 for item in found if item[2] == "error") <= _ERRORS_WHOLE
    codes: Dict[str, int] = {}
    said: Dict[str, int] = {}
    paths: Set[str] = set()
    library = pattern("library").search
    for start, end, severity, code, path in found:
        foreign = bool(library(path))
        message = pattern("diagnostic").sub("", doc.lines[start][:_FAR])
        codes[code] = codes.get(code, 0) + 1
        said[message] = said.get(message, 0) + 1
        exact = severity == "error" and whole
        if (exact or codes[code] <= _PER_CODE and not (foreign and severity == "note")) and said[message] <= _PER_CODE:
            keep.update(range(start, min(end, start + _BLOCK_LINES)))
        elif exact or path and path not in paths and not foreign:
            keep.update(range(start, start + 1 + doc.lines[min(start + 1, total - 1)].lstrip().startswith("-->")))
        paths.add(path)
    scores = list(_scores(doc, terms))
    for start, _, _, code, _ in found:
        scores[start] *= log2(1 + len(found) / codes[code])  # one of a rare code tells more than one of hundreds
    return _view(doc, "base", keep | _best(doc, scores, _SHARES["build"], [item[0] for item in found]), terms)


def _diagnostics(doc: Doc) -> List[Tuple[int, int, str, str, str]]:
    """(start, end, severity, code, path) of each diagnostic, ascending.

    One begins where a place or a severity word stands and takes the lines below that are deeper, or quote source
    (`12 |`, `|`, `=`), or name the place (`-->`). The code is the tool's, else the message without its particulars.
    """
    place, severity, passing = pattern("diagnostic").match, pattern("severity").search, pattern("passing-row").search
    near = set(_signal_lines(doc)) | set(_lines_with(doc, "note")) | set(_lines_with(doc, "required from"))
    found: List[Tuple[int, int, str, str, str]] = []
    line, total = 0, len(doc.lines)
    while line < total:
        text = doc.lines[line][:_FAR]
        at = place(text)
        said = severity(text) if line in near and not passing(text) else None
        if not at and not said:
            line += 1
            continue
        end = line + 1
        indent = len(text) - len(text.lstrip())
        while end < total and _belongs(doc.lines[end], indent, place):
            end += 1
        path = at["path"] if at else _place_below(doc, line + 1, end, place)
        found.append((line, end, said.lastgroup or "error" if said else "error", _code_of(text), path))
        line = end
    return found


def _belongs(text: str, indent: int, place: Callable[[str], Optional["re.Match[str]"]]) -> bool:
    """Whether a line belongs to the diagnostic above it, which has this indentation."""
    bare = text.lstrip()
    if not bare:
        return False
    if bare.startswith(("-->", "|", "=", "^", "::: ")):
        return True
    return len(text) - len(bare) > indent and not place(text[:_FAR]) or bare.partition(" ")[0].isdigit() and "|" in bare[:12]


def _place_below(doc: Doc, start: int, end: int, place: Callable[[str], Optional["re.Match[str]"]]) -> str:
    """The path that a `-->` line in [start, end) names."""
    for line in range(start, min(end, start + 3)):
        at = place(doc.lines[line][:_FAR])
        if at:
            return at["path"]
    return ""


def _code_of(text: str) -> str:
    """The code of a diagnostic, else its message without numbers, paths and quotations."""
    code = pattern("message-code").search(text)
    return code.group() if code else pattern("varying").sub("#", text)[:80].strip()


def _base_search(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The rows that the case terms choose; of equal ones those that declare something."""
    row, declared = pattern("match-row").match, pattern("declaration").match
    scores = list(_scores(doc, terms))
    for line, score in enumerate(scores):
        if score:
            text = doc.lines[line][:_FAR]
            found = row(text)
            scores[line] = score * _STRUCTURE_LIFT if declared(text[found.end() :] if found else text) else score
    each = {line for term in terms for line in _first_of(doc, scores, term)}
    return _view(doc, "base", each | _best(doc, scores, _SHARES["search"]), terms)


def _first_of(doc: Doc, scores: Sequence[float], term: str) -> List[int]:
    """The best-scored two lines of a term, so that the rows of one frequent word do not crowd out the others."""
    return sorted(_lines_with(doc, term, _FEW, word=True), key=lambda line: -scores[line])[:_PER_TERM]


def _base_diff(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """File and hunk headers, changed declarations, and whole hunks by their case terms and those of their file."""
    opens, head, hunk = pattern("diff-file").match, pattern("diff-head").match, pattern("hunk").match
    declared = pattern("declaration").match
    scores = list(_scores(doc, terms))
    keep: Set[int] = set()
    starts: List[int] = []
    files: List[int] = []
    for line, text in enumerate(doc.lines):
        if opens(text):
            files.append(line)
        elif hunk(text):
            starts.append(line)
            scores[line] += scores[files[-1]] if files else 0.0
        elif text[:1] in "+-" and declared(text[:_FAR]) or not starts and not head(text):
            keep.add(line)
    keep.update((*starts, *files))
    stops = sorted([*starts, *files, len(doc.lines)])
    hunks = [(start, stops[bisect_right(stops, start)]) for start in starts]
    spent = sum(len(doc.lines[line]) + 1 for line in keep) / (len(doc.text) or 1)
    chosen = _whole(doc, scores, hunks, max(_SHARES["diff"] - spent, _SHARES["other"] / 2))
    for first in files:
        keep.update(range(first, first + 5) if chosen.intersection(range(first, first + 6)) else ())
    return _view(doc, "base", keep | chosen, terms)


def _base_report(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Headings with their first lines, the last quarter (used more than the head), term lines."""
    keep = _heading_lines(doc) | _part(doc, 0.25, backwards=True) | _terms_in(doc, terms, "report")
    return _view(doc, "base", keep, terms)


def _base_web(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The first 15 % and term lines."""
    return _view(doc, "base", _part(doc, 0.15) | _terms_in(doc, terms, "web"), terms)


def _base_terminal(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The last 30 %: a screen's end is its present."""
    return _view(doc, "base", _part(doc, 0.3, backwards=True), terms)


def _base_tree(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The first entry of each directory and the entries that case terms name; short lists stay whole."""
    if len(doc.lines) <= _LIST_WHOLE:
        return None
    first = {members[0] for members in _by_directory(doc).values()}
    return _view(doc, "base", first | _terms_in(doc, terms, "tree"), terms)


def _base_json(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The first record, each value of few-valued keys once, whole records of rare values and of term hits."""
    pair = pattern("json-pair").match
    values: Dict[str, Dict[str, List[int]]] = {}
    for line, text in enumerate(doc.lines):
        found = pair(text) if len(text) < 300 else None
        if found:
            values.setdefault(found[1], {}).setdefault(found[2], []).append(line)
    once: Set[int] = set()
    for rows in values.values():
        if sum(map(len, rows.values())) >= 4 * len(rows) and len(rows) <= _FEW_VALUES:
            once.update(lines[0] for lines in rows.values())
    scores, level = _scores(doc, terms), _indents(doc)
    records = {_record(doc, level, line) for line, score in enumerate(scores) if score}
    keep = once | _whole(doc, scores, sorted(records), _SHARES["json"], 1e-6) | {0, 1}
    return _view(doc, "base", keep.union(range(*_record(doc, level, 1))), terms)


def _indents(doc: Doc) -> List[int]:
    """The indentation of each line, blank lines as deep as can be."""
    return [len(text) - len(text.lstrip()) if text.strip() else 1 << 30 for text in doc.lines]


def _record(doc: Doc, level: Sequence[int], line: int) -> Tuple[int, int]:
    """The object or array around a line when it has at most 40 lines, else the line alone, as a range [start, end)."""
    line = min(line, len(level) - 1)
    depth = level[line] - (0 if doc.lines[line].strip()[-1:] in ("{", "[") else 1)
    start = line
    while start > 0 and level[start] > depth and line - start <= _BLOCK_LINES:
        start -= 1
    end = line + 1
    while end < len(level) and level[end] > depth and end - start <= _BLOCK_LINES:
        end += 1
    whole = 0 < start and end - start < _BLOCK_LINES
    return (start, min(end + 1, len(level))) if whole else (line, line + 1)


def _base_git_log(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Hash and subject of each commit, and whole commits of term hits."""
    commit = pattern("commit").match
    starts = [line for line, text in enumerate(doc.lines) if commit(text)]
    keep = set(starts)
    for start, end in zip(starts, [*starts[1:], len(doc.lines)]):
        keep.update([line for line in range(start + 1, min(end, start + 12)) if doc.lines[line].startswith("    ")][:1])
    if len(starts) < 2 or len(keep) >= 0.5 * len(doc.lines):
        return _base_other(doc, terms)
    commits = zip(starts, [*starts[1:], len(doc.lines)])
    return _view(doc, "base", keep | _whole(doc, _scores(doc, terms), commits, _SHARES["git-log"], 1e-6), terms)


def _base_table(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The header, the first eight and last four rows, the rows of each column's extremes, term rows."""
    total = len(doc.lines)
    head = doc.lines[0]
    sign = max("\t;|,", key=head.count)
    best: Dict[Tuple[int, int], Tuple[float, int]] = {}  # (column, direction): (value × direction, row)
    for line, text in enumerate(doc.lines if head.count(sign) else []):
        for column, cell in enumerate(text[:LONG_LINE].split(sign)):
            cell = cell.strip().lstrip("$€")
            if cell[:1] in "-.0123456789" and _number(cell) is not None:
                value = _number(cell) or 0.0
                for way in (1, -1):
                    if (column, way) not in best or value * way > best[column, way][0]:
                        best[column, way] = (value * way, line)
    keep = {line for _, line in best.values()} | set(range(9)) | set(range(total - 5, total))
    return _view(doc, "base", keep | _terms_in(doc, terms, "table"), terms)


def _number(cell: str) -> Optional[float]:
    """The number that a cell holds, None for other text and for what is not finite."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def _base_log(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Templates as in `log`, signals, term lines; of a text without templates the lines that case terms choose."""
    view = log(doc, terms)
    if not view or len(view.keep) > _ADMITTED * len(doc.lines):
        return _base_other(doc, terms)
    return _view(doc, "base", {*view.keep, *_terms_in(doc, terms, "log")}, terms)


def _base_other(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """Head, end, two signals of each template, and the lines that case terms choose."""
    told = {line for group in _templates(doc, _signal_lines(doc)) for line in group[:_PER_CODE]}
    ends = _part(doc, _SHARES["head"]) | _part(doc, _SHARES["head"], backwards=True)
    few = told if len(told) <= 0.2 * len(doc.lines) else set()
    return _view(doc, "base", ends | few | _terms_in(doc, terms, "other"), terms)


def _base_outline(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """What is edited from is shown by its outline, else by its sections; a judge must allow it."""
    return outline(doc, terms) or sections(doc, terms)


def _base_none(doc: Doc, terms: Mapping[str, float]) -> Optional[View]:
    """The agent's own edits are never shortened."""
    return None


_BASES: Dict[str, Callable[[Doc, Mapping[str, float]], Optional[View]]] = {
    "read": _base_outline, "display": _base_outline, "docs": _base_outline, "config": _base_outline, "table": _base_table,
    "test": _base_test, "build": _base_build, "search": _base_search, "filelist": _base_tree, "diff": _base_diff,
    "log": _base_log, "git-log": _base_git_log, "tree": _base_tree, "json": _base_json, "report": _base_report,
    "web": _base_web, "terminal": _base_terminal, "edit": _base_none, "other": _base_other,
}

# P(a new name of an output is used in the next two messages), by shape (levers 2.2, per name, recorded sessions).
_USED = {"report": 0.051, "docs": 0.026, "other": 0.023, "test": 0.019, "json": 0.013, "build": 0.013, "web": 0.012,
         "search": 0.010, "diff": 0.007, "terminal": 0.006, "tree": 0.001, "filelist": 0.001, "table": 0.001}
_USED_ELSE = 0.012  # all shapes together
_PRICE = 13000  # characters that a name which was needed and missing costs (3,240 tokens a lost reference, measured)
# of the price, by shape: a passing run's and a build's names are mostly not the reader's and nothing was lost at these
# prices; a report is what its reader asked for
_PRICE_OF = {"test": 0.46, "build": 0.23, "report": 2.0}
_SEEN_LIFT = (0.6, 0.6, 1.0, 2.3, 2.3, 2.3, 2.8)  # by how often a name stands in the output; the last for more
_SHARED_LIFT, _STRANGE_LIFT = 1.7, 0.8  # the name shares a word with the case, or not
_HASH_LIFT = 0.4  # long numbers and hashes are rarely typed again
_COMMIT_LIFT = 7.0  # but a commit's hash is, in what a commit printed
_STRUCTURE_LIFT, _TERM_LIFT, _EARLY_LIFT = 1.6, 2.0, 1.5  # of the line: declaration or heading, terms, first fifth
_MARKER_COST = 8  # characters: a line that is put back splits a gap and makes one more marker
_LONG_COST = 600  # characters that a long line costs in pieces, before the pieces of the names


def cover(doc: Doc, keep: Sequence[int], known: AbstractSet[str] = frozenset(),
          terms: Mapping[str, float] = {}, price: float = _PRICE) -> List[int]:
    """`keep` with the dropped lines whose names are worth their characters, ascending.

    A line is worth P(its names are used) × price; names in kept lines or in `known` (the session's) are worth nothing.
    Greedy by worth per character, as long as the worth exceeds the length. price: characters that a missing name costs;
    a test's or a build's cost less, a report's more (_PRICE_OF).
    """
    table = _line_names(doc)
    shown = set(keep)
    have = {name for line in shown for name in table[line]}
    counts: Dict[str, int] = {}
    for found in table:
        for name in found:
            counts[name] = counts.get(name, 0) + 1
    chance = _chances(doc, (name for name in counts if name not in have and name not in known), counts, terms)
    scores = _scores(doc, terms)
    ranked = sorted((score for score in scores if score), reverse=True)
    telling = ranked[len(ranked) // 5] if ranked else 1.0
    structure = pattern("declaration").match
    worth = price * _PRICE_OF.get(doc.shape, 1.0)
    units: List[Tuple[int, Sequence[str], float, int]] = []
    for line, found in enumerate(table):
        wanted = [name for name in found if name in chance] if line not in shown else []
        if wanted:
            text = doc.lines[line]
            lift = _STRUCTURE_LIFT if structure(text[:_FAR]) else 1.0
            lift *= (_TERM_LIFT if scores[line] >= telling else 1.0) * (_EARLY_LIFT if line < len(table) / 5 else 1.0)
            units.append((line, wanted, lift * worth, len(text) + _MARKER_COST if len(text) <= LONG_LINE else _LONG_COST))
    return sorted(shown.union(_priced(units, chance)))


def _chances(doc: Doc, new: Iterable[str], counts: Mapping[str, int], terms: Mapping[str, float]) -> Dict[str, float]:
    """P(used) of each new name."""
    part, hashed = pattern("name-part").findall, pattern("hash-like").match
    rate = _USED.get(doc.shape, _USED_ELSE)
    committed = "git commit" in doc.command
    found: Dict[str, float] = {}
    for name in new:
        shares = name.lower() in terms or any(_stem(word.lower()) in terms for word in part(name) if len(word) > 3)
        lift = _SEEN_LIFT[min(counts[name], len(_SEEN_LIFT) - 1)] * (_SHARED_LIFT if shares else _STRANGE_LIFT)
        if hashed(name):
            lift *= _COMMIT_LIFT if committed else _HASH_LIFT
        found[name] = rate * lift
    return found


def _priced(units: Sequence[Tuple[int, Sequence[str], float, int]], chance: Dict[str, float]) -> List[int]:
    """The units (id, names, worth of a name, length) worth more than their length, the best per character first.

    Worth only falls while names get covered, so a heap with late re-evaluation is exact. `chance` is used up.
    """
    heap = [(-round(sum(chance[name] for name in found) * worth / size, 9), number)
            for number, (_, found, worth, size) in enumerate(units)]
    heap = [row for row in heap if row[0] < -1]
    heapify(heap)
    chosen: List[int] = []
    while heap:
        value, number = heappop(heap)
        unit, found, worth, size = units[number]
        now = -round(sum(chance[name] for name in found if name in chance) * worth / size, 9)
        if now > value and now < -1:
            heappush(heap, (now, number))
        elif now < -1:
            chosen.append(unit)
            for name in found:
                chance.pop(name, None)
    return chosen


_PIECE_RULES = (Rule("piece-end", r"[,;}\]]|\\n", '"a": 1, "b": 2', "a b c"),)
_FAR = 2000  # characters of a line that rules look at
_PIECE_LEAST, _PIECE_MOST = 60, 240  # characters of a piece: shorter says nothing, longer chooses too coarsely
_LINE_HEAD, _LINE_TAIL = 300, 200  # characters of a long line that always stay
_LINE_SHARE = 0.15  # of a long line that case terms choose
_LINE_MOST = 12000  # characters of a long line that may stay, so that a view of one line stays small
_LINE_READ = 200_000  # characters at either end of a long line that are cut into pieces; between them only term hits


def fit(doc: Doc, keep: Iterable[int], terms: Mapping[str, float] = {},
        known: AbstractSet[str] = frozenset()) -> Dict[int, Tuple[Tuple[int, int], ...]]:
    """The pieces of the kept lines of over LONG_LINE characters (see View.pieces); none where bytes must stay exact."""
    if doc.kind not in TIDIED:
        return {}
    return {line: _pieces(doc, line, terms, known) for line in keep if len(doc.lines[line]) > LONG_LINE}


def _pieces(doc: Doc, line: int, terms: Mapping[str, float], known: AbstractSet[str]) -> Tuple[Tuple[int, int], ...]:
    """Head, tail, the pieces with case terms and those whose names are worth their characters, joined."""
    text = doc.lines[line]
    spans = _spans(text, terms)
    chosen = {i for i, (start, end) in enumerate(spans) if end <= _LINE_HEAD or start >= len(text) - _LINE_TAIL}
    chosen.update((0, len(spans) - 1))
    low = [text[start:end].lower() for start, end in spans]
    scores = [0.0] * len(spans)
    for term, weight in terms.items():
        hits = [i for i, piece in enumerate(low) if term in piece]
        for i in hits if len(hits) * 3 <= len(spans) else ():
            scores[i] += weight * log2(1 + len(spans) / len(hits))
    left = min(_LINE_SHARE * len(text), _LINE_MOST / 2)
    for i in sorted((i for i, score in enumerate(scores) if score), key=lambda i: -round(scores[i], 6)):
        left -= spans[i][1] - spans[i][0]
        if left < 0:
            break
        chosen.add(i)
    chosen.update(_named_pieces(doc, [text[start:end] for start, end in spans], chosen, terms, known))
    return _joined(spans, chosen)


def _named_pieces(doc: Doc, pieces: Sequence[str], chosen: Set[int], terms: Mapping[str, float],
                  known: AbstractSet[str]) -> List[int]:
    """The pieces that the priced cover adds to `chosen`, as many as _LINE_MOST allows."""
    table = [sorted(names(piece)) for piece in pieces]
    have = {name for i in chosen for name in table[i]}
    counts: Dict[str, int] = {}
    for found in table:
        for name in found:
            counts[name] = counts.get(name, 0) + 1
    chance = _chances(doc, (name for name in counts if name not in have and name not in known), counts, terms)
    worth = _PRICE * _PRICE_OF.get(doc.shape, 1.0)
    wanted = [(i, [name for name in found if name in chance], worth, len(pieces[i]) + 2 * _MARKER_COST)
              for i, found in enumerate(table) if i not in chosen]
    return _priced(wanted, chance)[: _LINE_MOST // 2 // _PIECE_MOST]


def _spans(text: str, terms: Mapping[str, float]) -> List[Tuple[int, int]]:
    """A long line cut after `,` `;` `}` `]` and escaped newlines into ranges; of a huge one the ends and term hits."""
    if len(text) <= 2 * _LINE_READ:
        return _cut(text, 0, len(text))
    inner: List[Tuple[int, int]] = []
    low = text.replace("İ", "i").lower()
    windows = sorted({low.find(term, _LINE_READ, len(text) - _LINE_READ) // _PIECE_MOST for term in terms})
    for window in windows:
        if window > 0:
            start = max(window * _PIECE_MOST, inner[-1][1] if inner else _LINE_READ)
            inner.extend([(start, min(start + 2 * _PIECE_MOST, len(text) - _LINE_READ))])
    tail = len(text) - _LINE_READ
    return [*_cut(text, 0, _LINE_READ), *(span for span in inner if span[0] < span[1]), *_cut(text, tail, len(text))]


def _cut(text: str, start: int, end: int) -> List[Tuple[int, int]]:
    """[start, end) in pieces of _PIECE_LEAST … _PIECE_MOST characters."""
    search = pattern("piece-end").search
    spans: List[Tuple[int, int]] = []
    while start < end:
        found = search(text, min(start + _PIECE_LEAST, end), min(start + _PIECE_MOST, end))
        stop = found.end() if found else min(start + _PIECE_MOST, end)
        spans.append((start, stop))
        start = stop
    return spans


def _joined(spans: Sequence[Tuple[int, int]], chosen: Iterable[int]) -> Tuple[Tuple[int, int], ...]:
    """The chosen ranges in order; those closer than a marker is long become one."""
    found: List[Tuple[int, int]] = []
    for i in sorted(chosen):
        start, end = spans[i]
        if found and start - found[-1][1] <= 2 * _MARKER_COST:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return tuple(found)


# Which views a kind offers after its base view, in this order (reference: the seeds' table, with `signals` for data too).
_OFFERED: Dict[str, Tuple[Callable[[Doc, Mapping[str, float]], Optional[View]], ...]] = {
    "code": (outline, focus, head_tail),
    "prose": (outline, focus, head_tail),
    "command": (testlog, matches, log, sections, signals, focus, head_tail),
    "listing": (matches, tree, signals, focus, head_tail),
    "data": (outline, sample, log, signals, focus, head_tail),
}


def candidates(doc: Doc, terms: Mapping[str, float], known: AbstractSet[str] = frozenset()) -> List[View]:
    """The views on offer: the shape's base view, then the kind's; each of at most 60 % of the full characters.

    One of each name. `known`: names that long lines in pieces need not show. The name cover is not in them (`cover`).
    """
    found: Dict[str, View] = {}
    for make in (base, *_OFFERED.get(doc.kind, ())):
        view = make(doc, terms)
        if view and view.name not in found and _admitted(doc, view):
            found[view.name] = view
    return list(found.values())


def _admitted(doc: Doc, view: View) -> bool:
    """Whether the view, printed, has at most 60 % of the full characters."""
    most = _ADMITTED * len(doc.text)
    least = sum(len(doc.lines[line]) + 1 for line in view.keep if line not in view.pieces)
    return not (least > 2 * most) and len(render(doc, view).text) <= most

# ---------------------------------------------------------------- rendering and tidying

_RENDER_RULES = (
    Rule("bar", r"([=\-_.*#~])\1{24,}", "=" * 30 + " FAILURES", "-" * 24),
    Rule("spaced-bar", r"(?:([=\-_.*#~]) )(?:\1 ){11,}", "_ " * 20, "_ " * 11),
    Rule("padding", r"(?<=\S)[ \t]{8,}(?=\S)", "name        value", "name       value"),
)
_BAR = 24  # characters of a bar that stay (reference: a bar is recognised by less, and 24 is what the field keeps)
TIDIED = ("command", "listing", "data")  # kinds whose lines may be tidied; code and prose are edited from


def tidy(line: str) -> str:
    """Shorten bars and inner padding, drop trailing blanks; a line that starts with `E` or `>` stays as it is.

    `E` and `>` lines carry pytest's assertion columns, which are read by alignment.
    """
    if line[:1] in ("E", ">"):
        return line
    if "  " in line or "\t" in line:
        line = pattern("padding").sub("  ", line)
        line = line.rstrip(" \t")
    line = pattern("bar").sub(lambda match: match.group()[:_BAR] + "…", line)
    return pattern("spaced-bar").sub(lambda match: match.group()[:_BAR] + "…", line)


def _thinned(doc: Doc, line: int, after_gap: bool) -> str:
    """The line with its number prefix, or without it where the number follows from the line before."""
    text = doc.lines[line]
    cut = doc.numbers.prefix[line]
    if not cut or after_gap or not line:
        return text
    before, number = _printed(doc, line - 1), _printed(doc, line)
    # every tenth number stays, so that any line is at most nine lines from a printed number (measured best)
    return text[cut:] if number == before + 1 and before and number % 10 else text


def _printed(doc: Doc, line: int) -> int:
    """The number printed before a line by its tool, 0 when none."""
    cut = doc.numbers.prefix[line]
    digits = "".join(sign for sign in doc.lines[line][:cut] if sign in "0123456789")
    return int(digits) if digits else 0


def _in_pieces(text: str, pieces: Sequence[Tuple[int, int]]) -> str:
    """One long line with the ranges of `pieces` and, between them, how many characters are missing."""
    parts: List[str] = []
    at = 0
    for start, end in (*pieces, (len(text), len(text))):
        if start > at:
            parts.append(f"{MARK}{start - at} chars{MARK}")
        parts.append(text[start:end])
        at = end
    return "".join(parts)


def markers(doc: Doc, view: View, start: int, end: int) -> List[str]:
    """The marker lines for the gap [start, end): one for each run that the session knows, one for each other run."""
    found: List[str] = []
    at = start
    for known in view.known:
        if known.end <= at or known.start >= end:
            continue
        if known.start > at:
            found.append(f"{MARK} {doc.numbers.label(at, known.start)}")
        found.append(f"{MARK} {doc.numbers.label(max(at, known.start), min(end, known.end))} {known.note}")
        at = min(end, known.end)
    if at < end:
        found.append(f"{MARK} {doc.numbers.label(at, end)}")
    return found


def render(doc: Doc, view: View, *, gutter: bool = False, thin: bool = True) -> Rendered:
    """Print a view: kept lines in order, a marker line for every gap (also a leading and a trailing one).

    gutter: put ` 16│ ` before each line of an output that has no numbers of its own. thin: drop printed number
    prefixes that follow from the line before. Lines of the kinds in TIDIED are tidied when the view leaves
    something out.
    """
    total = len(doc.lines)
    tidied = doc.kind in TIDIED and (len(view.keep) < total or bool(view.pieces))
    thinning = thin and bool(doc.numbers.prefix)
    width = len(str(doc.numbers.number(total - 1) or total)) if gutter and not doc.numbers.prefix else 0
    out: List[str] = []
    kept: List[int] = []
    at = 0
    for line in view.keep:
        gap = line > at
        if gap:
            out.extend(markers(doc, view, at, line))
        text = doc.lines[line]
        if line in view.pieces:
            shown = _in_pieces(text, view.pieces[line])
        else:
            shown = tidy(text) if tidied else text
            if shown == text:
                kept.append(line)
                shown = _thinned(doc, line, gap) if thinning else text
        out.append(f"{doc.numbers.number(line):>{width}}│ {shown}" if width else shown)
        at = line + 1
    if at < total:
        out.extend(markers(doc, view, at, total))
    return Rendered("\n".join(out), tuple(kept))


# ---------------------------------------------------------------- all rules

RULES: Dict[str, Rule] = {row.name: row for row in (*_CORE_RULES, *_RENDER_RULES, *_TERM_RULES, *_VIEW_RULES,
                                                *_FAILURE_RULES, *_BASE_RULES, *_PIECE_RULES)}
