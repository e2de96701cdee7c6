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
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

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
                 "_blocks", "_units", "_bare")

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


# ---------------------------------------------------------------- sections of everything else


# ---------------------------------------------------------------- terms and names


def terms(task: str, latest: str, said: str, args: str) -> Dict[str, float]:
    """Terms."""
    return {}


def names(text: str) -> Set[str]:
    """Names."""
    return set()


def candidates(doc: Doc, terms: Mapping[str, float], known: AbstractSet[str] = frozenset()) -> List[View]:
    """Views."""
    return []


def cover(
    doc: Doc, keep: Sequence[int], known: AbstractSet[str], terms: Mapping[str, float], price: float
) -> List[int]:
    """Cover."""
    return list(keep)


def fit(doc: Doc, keep: Sequence[int], terms: Mapping[str, float]) -> Dict[int, Tuple[Tuple[int, int], ...]]:
    """Pieces."""
    return {}


# ---------------------------------------------------------------- views

# ---------------------------------------------------------------- base views by shape, name cover, long lines

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

RULES: Dict[str, Rule] = {row.name: row for row in (*_CORE_RULES, *_RENDER_RULES)}
