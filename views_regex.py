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

"The reference" in comments is jev-lens (npm, version 0.5.1). Kinds, names of views and the bounds that are said to be
its are taken from it, so that both can be compared; what differs was measured, or says why.

Copy this file; it needs nothing but the standard library, Python 3.9 or newer, and imports none of its sisters.
Licence: MIT.
"""
from __future__ import annotations

import posixpath
import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import lru_cache, partial
from itertools import accumulate, chain, count, dropwhile, groupby, islice, takewhile
from math import inf, log2
from typing import AbstractSet, Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

__all__ = ["LONG_LINE", "MARK", "RULES", "Block", "Doc", "Known", "Numbering", "Rendered", "Rule", "Shown", "View",
           "blocks", "bounded", "candidates", "classify", "close_gaps", "cover", "dropped", "ends", "fit", "names",
           "named_files", "pattern", "places", "programs", "read", "render", "shown_by", "signatures", "terms", "tidy",
           "without_known"]

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
    own kind: `function`, `class`, `constant`, `header`, `key`; `section` for all else.
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
    last: int | None = None


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
    keep: tuple[int, ...]
    pieces: Mapping[int, _Spans] = {}
    known: tuple[Known, ...] = ()


class Rendered(NamedTuple):
    """What is sent (without the footer) and the 0-based numbers of the lines in it that are whole and untouched."""

    text: str
    kept: tuple[int, ...]


_T = TypeVar("_T")
_Terms = Mapping[str, float]  # the case's words, each with its weight (see `terms`)
_Spans = tuple[tuple[int, int], ...]  # character ranges [start, end) of one line

MARK = "⋯"  # U+22EF, the sign that every marker starts with
LONG_LINE = 1000  # characters; a longer line may be shown in pieces

# ---------------------------------------------------------------- rules: all patterns of this file

# what the rules of code are made of
_NEVER = r"(?!)"
_MODIFIERS = (r"(?:(?:export|default|declare|abstract|async|public|private|protected|internal|fileprivate|static|final"
              r"|readonly|override|sealed|open|suspend|inline|data|inner|annotation|companion|partial|unsafe"
              r"|extern(?: \"\w+\")?|virtual|implicit|lazy|case|local|mutating|indirect|convenience|required|operator"
              r"|typedef|pub(?:\([^)\n]{0,40}\))?|@\w+(?:\([^)\n]{0,200}\))?|template[ \t]*<[^>\n]{0,200}>"
              r"|const(?=\s+(?:fn|val|enum|unsafe|async))|/\*[^*\n]{0,80}\*/)[ \t]{1,40}){0,8}")
# after the keyword: type parameters, Go's receiver, Rust's `Trait for`, then a name or a test's title; or a bracket
_NAME_AFTER = (r"\b!?[ \t]{0,40}(?:<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]{0,80}>){0,80}>){0,200}>[ \t]{0,40})?"
               r"(?:\([^():\n]{0,120}?\*?(?P<owner>\w{1,120})(?:\[[^\]\n]{0,80}\])?\)"
               r"[ \t]+(?=\w))?(?:[^{(\n]{0,200}[ \t]for[ \t]{1,40})?[&*]?(?:((?:[\w$]+(?:\.|::))*[\w$]+[!?=]?)"
               r"|(?<=def |unc )([^\w\s({]{1,3})(?=[ \t]?\()|\(?[ \t]{0,40}[\"'`]([^\"'`\n]{1,120})|(?=[({]))")


def _declaration(functions: str = "", types: str = "", constants: str = _NEVER) -> str:
    """The pattern of a language's declarations: words before a name, and constants; the last group is the name."""
    words = f"(?:(?P<function>{functions or _NEVER})|(?P<type>{types or _NEVER}))".replace(" ", "|")
    return f"^{_MODIFIERS if functions else ''}(?:{words}{_NAME_AFTER}|(?P<constant>{constants}))"


_DOUBLE, _SINGLE = r'"(?:[^"\\\n]|\\[\s\S])*"', r"'(?:[^'\\\n]|\\[\s\S])*'"
# a comment over lines, also one that begins above a fragment
_NOTE = r"/\*[\s\S]*?(?:\*/|\Z)|\A(?=[ \t]*\*[\s/])[\s\S]*?\*/"
_TRIPLE = r"(?P<three>\"{3}|'{3})[\s\S]*?(?:(?P=three)|\Z)"
# a `${ }` with templates in it, one deep; any other counts as text: what matters is that it balances
_TEMPLATE = (r"`(?:[^`\\$]|\\[\s\S]|\$\{(?:[^`{}]|`(?:[^`\\]|\\[\s\S])*`|\{[^`{}]*\})*\}|\$)*"
             r"(?:`|\\?\Z)")
_RULES = (
    # ---- lines and words
    Rule("word", r"[A-Za-z_][A-Za-z0-9_]{2,}", "fetch_all(3)", "a = b2 + c3"),
    # a file and a line as searches, tracebacks, compilers and test runners print them
    Rule("place", r"(?<![\w.\-])([\w.\-]{1,80}\.[A-Za-z]\w{0,5})(?::|\(|\", line )(\d{1,6})\b",
         'File "a/b.py", line 12, in f', "at 10.5:30"),
    # ---- kinds and shapes
    # what hosts print before an output: codex, Claude Code, opencode, OpenHands, SWE-agent, mini-swe-agent
    Rule("host-header", r"^(?:Chunk ID: |Wall time: |Process (?:exited|running) with|Original token count: |Output:$"
         r"|Exit code:? \d|Total output lines: |<(?:path|type|file|returncode|output)>|<content>$|\[File: |<<<<< "
         r"|Here's the result of running `cat -n`|\(\d+ more lines above\))", "Wall time: 0.01 s", "Wall time", re.A),
    Rule("wrapped-file", r"^(?:<path>([^<\n]{1,400})</path>$|\[File: (\S{1,400}) \(\d+ lines total\)\])",
         "<path>/repo/a.ts</path>", "<path>/repo/a.ts", re.A),
    Rule("json-head", r"^\s*[{\[]\s*(?:[\"{}\[\]]|$)", '{"a": 1}', "[main 0baa988] Add"),
    Rule("path-only", r"^(?!\d+-\W)(\.?[\w@+~.-]*(?:[/\\][\w@+~ .()\[\]$-]*)+|[\w.-]+\.[A-Za-z]\w{0,5})"
         r"(?::\d+| \(\d+ match(?:es)?\))?[: \r]{0,9}$", "./src/a.py", "a, b", re.A),
    Rule("listing-row", r"^(?:total \d+$|[-dlrwxst@+.]{10,11} +\d+ |[ \t│|]{0,80}(?:├──|└──|\|--|`--) )",
         "-rw-r--r-- 1 a a 12 Jan 1 x", "-rw 1", re.A),
    Rule("log-row", r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d "
         r"|\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE)\]?[: ])", "2026-01-02T03:04:05Z started", "2026-01-02", re.A),
    # ---- shell commands
    # an operator, a here-document, or a word with its quotes; an unclosed quote is a word of its own
    Rule("shell-word", r"(?P<pipe>\|(?!\|))|(?P<end>&&|\|\||;|\n\s*|&(?![>\d]))|(?P<here><<-?)|(?:[^\s;|&'\"<\\]"
         r"|\\[\s\S]|'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"|<(?!<)|(?<=[<>])&|&(?=[>\d]))+|['\"]", "echo 'a; b'", " "),
    # one stage, its words joined by newlines: options that only cut or number lines, then paths
    Rule("stage", r"^(?:(?:/usr)?/bin/)?(?:cat(?:\n(?:-n|--number))*|nl(?:\n(?:-ba|-b\na|--body-numbering=a))*"
         r"|bat(?:cat)?(?:\n(?:-[npP]+|--(?:number|plain|style|paging|color|decorations|language)(?:=\S*)?|-l\n\w+"
         r"|(?:-r\n?|--line-range[=\n])(?P<low>\d{0,9}):(?P<high>\d{0,9})))*|(?P<end>head|tail)(?:\n(?:-n\n?"
         r"|--lines[=\n]|-)(?P<count>\d{1,9})|(?<=tail)\n(?:-n\n?|--lines[=\n])?\+(?P<from>\d{1,9})|\n(?P<bytes>-c\n?"
         r"|--bytes[=\n])\d{1,9})?|sed\n(?:-n|-ne|--quiet|--silent)(?P<script>(?:[\n;](?:-e\n)?(?:\d{1,9}|\$)"
         r"(?:,(?:\d{1,9}|\$))?p)+(?:;\d{1,9}q)?)|git(?:\n--no-pager)?\nshow\n[\w./~^@{}][\w./~^@{}-]{0,200}"
         r":(?P<object>[^:\n~!$]+)$)"
         r"(?:\n--)?(?P<paths>(?:\n[^\n~!$-][^\n~!$]*)*)\Z", "sed\n-n\n301,660p\nsrc/a.py",
         "sed\n-i\n301,660p\nsrc/a.py", re.A),
    Rule("sed-range", r"(\d{1,9}|\$)(?:,(\d{1,9}|\$))?p", "301,660p", "q;5q", re.A),
    Rule("brace-group", r"\{([^{},]{0,4000},[^{}]{0,4000})\}", "src/{a,b}.py", "src/{a}.py"),
    Rule("not-program", r"^(?:[A-Za-z_]\w*=|-|\d?>|(?:sudo|npx|bunx|time|nohup|env|exec|rtk|command|then|do|if|else"
         r"|nice|timeout|stdbuf|xvfb-run|uv|poetry|pdm|bundle|run|exec|dlx|\d+[smh]?|[!{(])$)",
         "PYTHONPATH=src", "pytest", re.A),
    Rule("file-word", r"^[^*?\[\]{}$<>|]{0,300}?[\w@)-]\.[A-Za-z][A-Za-z0-9]{0,9}$", "src/a.test.ts", "src/*.ts", re.A),
    # ---- code
    # the keyword table, a row for one language or several that read alike
    Rule("declare-python", _declaration("def", "class", r"([A-Za-z_]\w*)(?:[ \t]*:[^=\n]{1,200})?[ \t]*=(?!=)"),
         "async def main():", "definitely(x)", re.A),
    Rule("declare-ruby", _declaration("def it specify", "class module describe context", r"([A-Z][A-Z0-9_]+)[ \t]*="),
         "def self.load(x)", "default = 1", re.A),
    Rule("declare-lua", _declaration("function", "", r"(?:local[ \t]+)?([\w.]+)[ \t]*=[ \t]*(?:function\b|\{[ \t]*$)"),
         "local function load(x)", "functional(x)", re.A),
    Rule("declare-elixir", _declaration("defmacrop? defp? defguardp? test schema", "defmodule defprotocol defimpl "
         r"describe", r"@([a-z]\w*)[ \t]+[\[%~{]"), "defp load(x) do", "default(x)", re.A),
    Rule("declare-sql", _declaration(
        r"(?i:(?:create|alter|drop|insert|update|delete|merge|with|select|grant|do|call|copy)(?:\s+(?:or|replace|temp"
        r"|temporary|unique|materialized|table|view|function|procedure|trigger|index|type|schema|policy|into|from|on"
        r"|if|not|exists|only|concurrently)\b){0,8})"),
         "CREATE TABLE IF NOT EXISTS users (", "created_at timestamptz,", re.A),
    Rule("declare-js", _declaration(r"function\b\s*\*? (?:it|test)(?:\.\w+){0,3}(?=\()", r"class interface trait enum "
         r"namespace type (?:describe|suite|context)(?:\.\w+){0,3}(?=\()", r"(?:const|let|var)\s+([\w$]+)|\$?"
         r"([\w$.]{1,100})\s*=\s*(?:async\s*)?(?:function|[({\[])"), "export async function load() {", "typeof", re.A),
    Rule("declare-go", _declaration("func", "type", r"(?:var|const)[ \t]+([\w(]+)"),
         "func (p *Parser) Feed(b []byte) int {", "funcs.Add(x)", re.A),
    Rule("declare-rust", _declaration("fn fun func def macro_rules typealias init deinit subscript", "class interface "
         r"struct enum trait impl mod union type object protocol extension actor",
         r"(?:const|static|val|var|let)[ \t]+(?:mut[ \t]+)?(\w+)"), "pub(crate) async fn run() {", "fnord(x)", re.A),
    Rule("declare-c", _declaration("delegate", r"struct class enum(?:\s+(?:class|struct))? union namespace record "
         r"@?interface @implementation", r"#\s*define\s+(\w+)|[\w:<>*, ]{0,80}?(\w{1,120})"
         r"(?:\[[^\]\n]{0,40}\]){1,3}\s*="), "typedef struct parser {", "structure(x);", re.A),
    Rule("declare-css", _declaration(constants=r"([^{}]{1,200}?)[ \t]*\{"), ".card > a:hover {", "color: red;", re.A),
    Rule("declare-bash", _declaration("function"), "function clean {", "functional x", re.A),
    Rule("declare-keys", _declaration(constants=r"(?:- )?(?:\"([^\"\n]{1,200})\"|([\w./@$%-]{1,200}))\s*:(?:\s|$)"
         r"|([{\[])\s*$|<([A-Za-z][\w:.-]{0,80})[^<]*$|- (\S.{0,200})|([\w-]{1,80}(?: \"[^\"]{0,200}\"){0,3}) ?\{\s*$"),
         '"scripts": {', "}, 1", re.A),
    # strings and comments, also over lines; what nobody closes runs to the end
    Rule("scan-js", rf"//.*|{_NOTE}|{_TEMPLATE}|{_DOUBLE}|{_SINGLE}" r"|(?:(?<=[=(,:;!&|?\[{])\s{0,60}|(?<=return ))"
         r"/(?![/*])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.){0,200}\]){1,400}/", "a = '}';", "a = b"),
    Rule("scan-c", rf"//.*|{_NOTE}|`[^`]*(?:`|\Z)|{_TRIPLE}|\b[bc]?r(?P<r>#{{0,8}})\"[\s\S]*?(?:\"(?P=r)|\Z)"
         rf"|R\"(?P<raw>\w{{0,16}})\([\s\S]*?(?:\)(?P=raw)\"|\Z)|@\"[\s\S]*?(?:\"|\Z)|{_DOUBLE}"
         r"|'(?:[^'\\]|\\[^']{1,10}|\\')'", "c = '{';", "fn f<'a>(x: &'a str)", re.A),
    Rule("scan-hash", rf"(?:^|(?<=[ \t;]))#.*|{_TRIPLE}|{_DOUBLE}|{_SINGLE}|\\.", "x # {", "echo $#", re.M),
    Rule("scan-lua", rf"(?:--)?\[\[[\s\S]*?(?:\]\]|\Z)|{_NOTE}|--.*|{_DOUBLE}|'[^'\n]*'", "x = [[", "x = y[1]"),
    # `name(…) {`: words of a type, a name, an opening parenthesis, not a statement; the caller checks what follows
    Rule("declare-method", r"^(?!(?:if|for|foreach|while|switch|catch|using|lock|fixed|when|try"
         r"|synchronized(?=\s*\())\b|(?:return|else|do|finally|new|throw|case|await|yield|typeof|delete|super|sizeof"
         r"|assert|goto|in|of)\b(?!\())(?:[\w<>\[\],.&*:?~@|$\"]{1,200}[ \t]+){0,12}?[*&]{0,2}((?:\w+::){0,4}"
         r"(?:operator[^\s\w(]{1,3}|[#~]?[A-Za-z_$][\w$:.-]*|\[[\w$.]{1,80}\]))[ \t]*(?:<[^()\n]{0,200}>)?\(",
         "static int load(const char *x) {", "x = y(z)", re.A),
    # what goes on with a signature on the next line
    Rule("clause", r"^\s*(?:\{|(?:throws|where|extends|implements|with|requires|noexcept|->|:)(?!\w)"
         r"|(?:const|override|final)\s*(?:[{;]?\s*$|&|noexcept|override|final|->))",
         "    throws IOException {", "throwsUp();", re.A),
    Rule("import", r"^(?:export[ \t]+)?(?:import|from|use|using|require|require_relative|include|alias|package|open"
         r"|extern crate)\b(?![ \t]*[=:.])|^#[ \t]*(?:include|import|pragma)|^(?:const|let|var)[ \t].{1,200}?="
         r"[ \t]*require\(", "from a import b", "important = 1", re.A),
    # ---- sections
    Rule("atx", r"^ {0,3}(#{1,6})[ \t]+(\S.{0,400})", "## Usage", "#!/bin/sh"),
    Rule("rule-line", r"^([=\-~^\"'*+#`])\1{2,}\s*$", "=====", "=== a"),
    # what names a section that runs to the next name: a table of TOML or INI, the folder of an entry or of `ls -R`
    Rule("table-head", r"^\[\[?([^\[\]\n]{1,200})\]?\]\s*(?:#.*)?$", "[tool.ruff]", "x = [1]"),
    # a row of a search without line numbers
    Rule("path-row", r"^([\w@+~./-]{0,300}?[\w@+-]\.[A-Za-z]\w{0,5})[:-](?!:)", "src/a.py:def load():", "if a.b: c"),
    Rule("entry", r"^([^\n]{1,400})(?::|/[^/\n]{0,299}[^/:\s]/?)\s*$", "src/a.py", "a.py"),
    Rule("patch-file", r"^(?:diff --git .{0,400} \"?b/|diff --\w+ (?:\S{1,300} )?|Index: "
         r"|\*\*\* (?:Add|Update|Delete) File: )([^\"\n]{1,300})\"?$",
         "diff --git a/x.py b/x.py", "diff --stat"),
    Rule("section-mark", r"^(?:\*{3,}|-{3,}|_{3,}|={3,}|#{1,6} |⎯{3,}|\$ |COMMAND|URL|EXIT|FILE|STEP|TEST|RUN"
         r"|Traceback \(most recent|(?:Error|ERROR|Warning|WARNING)\b|--- (?:FAIL|PASS|SKIP)|(?:FAIL|PASS|FAILED) +\S"
         r"|● |Running |Collecting |Installing |Processing |[A-Z][A-Z _-]{2,40}:[ \t]*\S|\[[^\[\]\n]{1,120}\]\s*$)",
         "COMMAND: ls", "a COMMAND: ls", re.A),
    Rule("bar-only", r"^[\s{}\[\]()=*_~#`⎯\-]*$", "======", "=== a"),
    # ---- terms and names
    # quotations; versions (7.8.1, 5.0.0-beta.2) and codes of linters and compilers (F541, TS2345, E0308)
    Rule("literal", r"`([^`\n]{3,60})`|\"([^\"\n]{4,60})\"|(?<![A-Za-z0-9])'([^'\n]{4,60})'"
         r"|\b([0-9]{1,6}(?:\.[0-9]{1,6}){1,5}|[A-Z]{1,6}[0-9]{2,6})\b", "rxjs 7.8.1", "rxjs 7, `b`"),
    Rule("name", r"[A-Za-z_][A-Za-z0-9_]{4,}", "x = max_value", "a = b12c"),
    Rule("name-sign", r"[a-z][A-Z]|[A-Za-z0-9]_|_[A-Za-z0-9]|[0-9]", "maxValue", "value"),
    Rule("name-part", r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+", "HTTPError", "12_34"),
    # where a term may stand: at the start of a word or of a part of an identifier, or where it starts with no letter
    Rule("word-start", r"(?<![^\W\d_])(?=.)|(?=[^a-z])", "FooTable", ""),
    # ---- views
    # words and marks that tell of trouble, in any tool; `…Error` and `…Exception` count without a word boundary before
    Rule("signal", r"(?:error|exception)s?\b|\b(?:fail(?:ed|ing|ures?|s)?|traceback|panic(?:ked)?|fatal|warn(?:ings?)?"
         r"|denied|refused|missing|cannot|killed|time(?:d )?-?out|assert(?:ion)?|expected|actual|undefined|not ok"
         r"|no such file|segmentation fault|err!|unable to|enoent|eacces)(?![a-z])|[✖✗✘❌]|(?<=[0-9]) passed\b",
         "java.lang.NullPointerException: x", "failover of the warned masses", re.I),
    Rule("passing-row", r"^\s*(?:✔|✓|√|ok\b|--- PASS|PASS\b)|\bPASSED\b|\.\.\. ok$|\b0 (?:errors?|fail)",
         "tests/test_a.py::test_error PASSED  [ 3%]", "FAILED tests/test_a.py::test_x"),
    Rule("ansi", r"\x1b\[[0-9;]{0,20}m", "\x1b[31mred\x1b[39m", "[31m"),
    Rule("match-row", r"^(?P<path>[^\s:][^:\n]{0,300}?)([:-])[0-9]{1,7}\2", "a/b.py:12:x = 1", "a b c"),
    # what differs between two lines of one kind: numbers, hashes, paths, URLs, quotations
    Rule("varying", r"https?://[^\s\"']+|(?<![\w.@+-])[\w.@+-]{0,80}/[^\s:,\"'()]+|\b[0-9a-f]{8,40}\b|[0-9]+"
         r"|\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|‘[^’\n]{0,200}’|`[^`\n]{0,200}`", "took 12 ms", "done"),
    # also in a row of a search or of a diff
    Rule("declaration", r"^(?:[^\s:]{1,250}:[0-9]{1,7}:)?[+-]?\s*(?:(?:export|default|async|pub|public|private"
         r"|protected|static|final|abstract|override|inline|unsafe|const|virtual|suspend|open|data|sealed|local)"
         r"\s+){0,5}(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module|namespace|const|record"
         r"|object|fun)\s+\(?[A-Za-z_$]", "+    def feed(self, data):", "+    default = 3"),
    # files that nobody fixes from here: frames and notes in them are folded
    Rule("library", r"site-packages|dist-packages|node_modules|/usr/(?:local/)?(?:lib|include|share)|/opt/conda|\.pyenv"
         r"|lib/python3|\.cargo/registry|/rustc/|node:|/go/(?:src|pkg/mod)/|<frozen|<template>|/gems/|/vendor/"
         r"|internal/modules|\b(?:core|std)::|__rustc|\b(?:java|jdk|sun|org\.(?:junit|apache\.maven)|kotlin)\.[A-Za-z]",
         "/usr/lib/python3.11/json/__init__.py:346: in loads", "src/library.py:3: in load"),
    # a stack frame: Python, pytest, JS, Java, .NET, vitest, rspec, Rust, Go; node's in TAP
    Rule("frame", r"^\s*(?:File \"[^\"\n]{1,300}\", line [0-9]+|at [^\n]{1,400}|❯ .{0,200}:[0-9]+|# \S+\.rb:[0-9]+"
         r"|[0-9]+: +[A-Za-z_<]\S*::|<frozen [\w.]{1,80}>:[0-9]+:|[^\s:]{1,250}\.[a-z]{1,4}:[0-9]{1,7}(?::|$| \+0x)"
         r"|(?:[\w$.<>\[][\w$.<>\[\] ]{0,150} \()?(?:node:|file:|/)[^\s()]{1,300}:[0-9]+:[0-9]+\)?$)",
         '  File "a.py", line 3', "  x = 1"),
    # where a diagnostic stands: path:line:col (gcc, go, javac, mypy, ruff), path(line,col) (tsc, msvc), --> (rust),
    # path:[line,col] (Maven)
    Rule("diagnostic", r"^\s*(?:-->\s*|\[?(?:ERROR|WARNING|error|warning)\]?:? )?(?![0-9]{1,4}[-:T])(?P<path>(?:"
         r"[A-Za-z]:)?[^\s:()|]{1,250})(?::[0-9]{1,7}(?::[0-9]{1,6})?:?|\([0-9,]{1,14}\):?|:\[[0-9,]{1,14}\])(?:\s|$)",
         "src/kilo.c:514:43: error: x", "12:30 lunch at noon"),
    Rule("severity", r"(?P<error>\b(?:fatal|errors?|err!|failed|failure|undefined reference|unresolved|panicked"
         r"|traceback|cannot)(?![a-z])|[a-z](?:error|exception)\b|\*\*\*)|(?P<warning>\bwarn(?:ing)?\b)"
         r"|(?P<note>\b(?:note|help|info|required from)\b)", "npm ERR! code 1", "informative errorless text", re.I),
    Rule("message-code", r"\b[A-Z]{1,7}[0-9]{2,5}\b|\[-W[a-z0-9=+-]+\]|\[[a-z][a-z-]{2,40}\]$"
         r"|(?<=  )[@a-z][a-z/-]{1,60}-[a-z-]{2,60}$", "x.py:1:1: D205 blank line", "error: bad thing"),
    Rule("source-quote", r"^\s*(?:-->|:::|\||= |\^|[0-9]+ +[|+-])", " 12 |   let x = 1;", "a | b"),
    # what diffs and commits begin with; classify and blocks read them too
    Rule("diff-file", r"^(?:diff --git |Index: |\*\*\* (?:Add|Update|Delete) File: )", "diff --git a/x b/x", "--- a/x"),
    Rule("diff-head", r"^(?:index [0-9a-f]|--- |\+\+\+ |(?:new|deleted) file|rename |similarity |Binary |old m|new m)",
         "+++ b/x.py", "++ x"),
    Rule("hunk", r"^@@ -[0-9]", "@@ -1,3 +1,4 @@ class A:", "@@ @@"),
    Rule("commit", r"^[*|\\/ ]{0,20}(?:commit )?[0-9a-f]{7,40}\b", "commit dff7cc3", "    Fix a1b2"),
    Rule("number", r"^\s*[+-]?(?:[0-9]{1,15}\.?[0-9]{0,15}|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,2})?\s*$",
         "-20.5", "5 mm", re.A),
    Rule("json-pair", r"^\s*\"([^\"\n]{1,80})\": (.{1,200}?),?$", '    "code": "E501",', '    "5.0.0",'),
    Rule("piece", r"[\s\S]{59,238}?(?:[,;}\]]|\\n)|[\s\S]{1,240}", "abc", ""),
    # what tidying shortens
    Rule("bar", r"([=\-_.*#~])(?:\1{24,}| (?:\1 ){11,})", "=" * 30 + " FAILURES", "_ " * 11),
    Rule("padding", r"(?<=\S)[ \t]{8,}(?=\S)", "name        value", "name       value"),
    # ---- tests: what a failing one looks like in the print of its runner: the line that opens it, and a line that does
    # not belong to it any more (another failure also ends it); one alternative a runner family, no branch
    Rule("failure-start", r"^_{3,} \S.* _{3,}$|^=+ (?:FAILURES|ERRORS) =+$"  # pytest, with --tb=line
         r"|^(?:FAIL|ERROR): \S+(?: \(|$)|^\s*--- FAIL: (?P<test>\S+)"  # unittest; go
         r"|^---- \S.* stdout ----|^thread '[^'\n]{1,200}'.{0,40} panicked at "  # cargo test
         r"|^\s*● \S|^ ?FAIL  ?\S+\.[a-z]+|^\(fail\) |^\s*[0-9]{1,4}\) \S"  # jest, vitest, bun; mocha, rspec, phpunit
         r"|^\s*[✖✗✘×] |^\s*not ok [0-9]"  # node:test, vitest, phpunit --testdox, TAP
         r"|^\S[^>\n]{0,200} > .{1,200} FAILED$"  # Gradle
         r"|^\s*Failed \S.*\[[<0-9]"  # dotnet
         # a file that cannot be loaded: rspec, mocha, node
         r"|^An error occurred |^ *Exception during run|^(?:# )?(?:node:inter|[^\s:]{1,300}\.[cm]?[jt]sx?:)\S*[0-9]$"
         r"|^.{0,400}(?:<<< (?:FAILURE|ERROR)!|\[FAIL\]$|\*\*\*(?:Failed|Exc|Time|Not R))",  # Maven, xunit, ctest
         "--- FAIL: TestParse (0.00s)", "FAILED (failures=1)"),
    Rule("failure-end", r"^=+ \S.*=$|^={50,}$|^Ran [0-9]+ test|^\s*--- (?:PASS|SKIP): |^=== (?:RUN|CONT|PAUSE)"
         r"|^(?:FAIL|ok|\?)\s+\S+\s|^\(pass\)|^(?:FAIL|PASS|failures:)$|^test result: |^(?:PASS |Snapshots: )|^⎯{5,}$"
         r"|^\s*(?:Test Suites|Test Files|Tests):? |^Finished in |^(?:FAILURE|ERROR)S!|^\s*\d+ (?:pass|fail|pend)ing"
         r"|^\s*(?:[✔✓▶] |ok [0-9]|[#ℹ] [a-z]+ [0-9])|^\[(?:INFO|WARNING)\]|^[0-9]+ tests? comp|^[0-9]+% tests"
         r"|^\S[^>\n]{0,200} > .{1,200} PASSED$|^\s*(?:(?:Passed|Skipped) \S|[0-9]+/[0-9]+ Test|Start +[0-9]+:)"
         r"|^(?:Failed|Passed)! ", "test result: FAILED. 1 passed; 1 failed", "    a_test.go:3: FAIL"),
    # what is said about a whole run, by any of them; the verdict tells that a text is a test run
    Rule("test-summary", r"^(?:(?P<verdict>(?:=+ )?[0-9]+ (?:passed|failed|errors?)\b.{0,80} in [0-9.]+ ?m?s"
         r"|=+ (?:FAILURES|ERRORS|test session)|FAILED (?:\((?:fail|err)|\S+::)|Ran [0-9]+ test|FAIL\s+\S+\s|FAIL$"
         r"|ok\s+\S+\s+(?:[0-9.]+s|\(c)|test result: |1\.\.[0-9]+$|[ℹ#] (?:tests|suites|pass|fail) [0-9]"
         r"|\s{0,8}(?:Test Suites|Test Files|Tests) *:? +[0-9]|\s{0,8}[0-9]+ (?:(?:pass|fail)(?:ing)?|pending)\b"
         r"|[0-9]+ (?:examples?|runs), |(?:\[[A-Z]+\] )?Tests run: [^-\n]{1,80}$|[0-9]+ tests? comp|(?:Failed|Passed)! "
         r"|[0-9]+% tests passed|OK \([0-9]+ test)|={3,} [^\n]{0,200}\b(?:passed|failed|errors?|skipped|short test)\b"
         r"|[0-9]+ (?:passed|failed|errors?|skipped)\b|!+ .{1,200}!$|(?:FAILED|ERROR) \S|OK\b|FAILED \(|PASS$|rspec \S"
         r"|\s{0,8}(?:Snapshots|Time|Duration):? +[0-9]|(?:\[[A-Z]+\] )?BUILD |The following tests FAIL"
         r"|\s+[0-9]+ - .{1,99}\((?:Fail|Time))",
         "=== 2 failed, 1190 passed in 3.10s ===", "tests/test_a.py::test_x PASSED"),
    Rule("suite-failure", r"(?P<build>\[build failed\]|could not compile|COMPILATION ERROR|\bcompile\w* FAILED$)"
         r"|Test suite failed to run|\[setup failed\]|BUILD FAILED|^no tests ran|^ImportError while importing"
         r"|^Segmentation fault|^Fatal Python error|\bFAILED(?: +\[ *[0-9]+%\])?$",
         "FAIL\tpkg/a [build failed]", "build failed tests: none"),
)
RULES: dict[str, Rule] = {row.name: row for row in _RULES}


@lru_cache(maxsize=None)
def pattern(name: str) -> "re.Pattern[str]":
    """The compiled rule `name` of RULES; compiled on first use, so that importing costs nothing."""
    return re.compile(RULES[name].pattern, RULES[name].flags)


# ---------------------------------------------------------------- lines, numbers and number prefixes

# What a tool may print between a line's number and the line, the longest first: Claude Code and cat -n (tab, arrow),
# opencode ("N| ", "N: "), bat (box bar), SWE-agent windows and grep -n of one file (":").
_SEPARATORS = ("→", "\t", "| ", "│ ", ": ", ":")
_PREFIX_WIDTH = 15  # characters before the separator at most: padding and up to 7 digits fit well within
_SAMPLE = 60  # lines looked at to see whether a text carries prefixes


class Numbering(NamedTuple):
    """How an output's lines are numbered for its reader.

    `origin`: `tool` (prefixes printed by the tool), `file` (lines of one file, not printed) or `output` (1 … n).
    `numbers[i]` is the number of line i as its reader sees it, 0 where it has none. `prefix[i]` is (length in
    characters, number) of line i's printed prefix, (0, 0) for none; the list is empty when no tool printed any.
    """

    origin: str
    numbers: Sequence[int]
    prefix: Sequence[tuple[int, int]] = ()

    def label(self, start: int, end: int) -> str:
        """The lines [start, end) named in these numbers, as recall takes them: `81-140`, `7,9-12`, `40-90 +2`.

        `+2` counts lines that have no number of their own.
        """
        shown = list(filter(None, self.numbers[start:end]))
        torn = bool(shown) and shown[-1] - shown[0] >= len(shown)  # numbers rise: this spares most gaps the search
        breaks = [at for at, (low, high) in enumerate(zip(shown, shown[1:]), 1) if high != low + 1] if torn else []
        runs = [shown[low:high] for low, high in zip([0, *breaks], [*breaks, len(shown)])]
        named = ",".join([f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if run])
        bare = end - start - len(shown)
        return " ".join([named] * bool(named) + [f"+{bare}"] * bool(bare))

    def lines(self, first: int, last: int) -> list[int]:
        """The 0-based lines whose numbers lie in first..last, ascending."""
        return [line for line, number in enumerate(self.numbers) if number and first <= number <= last]


def _prefix_of(line: str, separator: str) -> tuple[int, int]:
    """(length, number) of the printed prefix of one line, (0, 0) when it has none."""
    digits, sign, _ = f"{line[:_PREFIX_WIDTH]} ".partition(separator)  # "12:" for a blank line may be trimmed
    bare = digits.lstrip(" \t")
    return (len(digits + sign), int(bare)) if sign and bare.isdigit() and bare.isascii() else (0, 0)


def _prefixes(lines: Sequence[str]) -> Sequence[tuple[int, int]]:
    """The printed prefix of each line (see Numbering), none when the lines are not numbered one by one."""
    sample = [line for line in lines[:_SAMPLE] if line.strip()]
    for separator in _SEPARATORS:
        found = [number for number in (_prefix_of(line, separator)[1] for line in sample) if number]
        steps = sum(b == a + 1 for a, b in zip(found, found[1:]))
        # blank file lines keep their number, so nearly every line has one; a header of a few lines is allowed for
        if len(found) >= max(5, 0.6 * len(sample)) and steps >= 0.9 * (len(found) - 1):
            return [_prefix_of(line, separator) for line in lines]
    return ()


def numbering(lines: Sequence[str], shown: Sequence[Shown] = ()) -> Numbering:
    """How these lines are numbered: by printed prefixes, else by the one file they come from, else from 1.

    `shown`: the files and ranges of a read or display. Several files, or a tail whose place is not known: the
    output's own numbers; also where a number would stand twice.
    """
    prefix = _prefixes(lines)
    printed = [number for _, number in prefix]
    rising = list(filter(None, printed))
    if rising and rising == sorted(set(rising)): return Numbering("tool", printed, prefix)
    bounds = [bound for item in shown for bound in (item.first, (item.last or inf) + 1)]
    if not prefix and len({item.path for item in shown}) == 1 and bounds == sorted(bounds) and bounds[0]:
        parts = (range(item.first, (item.last or 0) + 1) for item in shown[:-1])
        counted = chain([0] * header_lines(lines), *parts, count(shown[-1].first))  # the host's own lines stand first
        numbers = list(islice(counted, len(lines)))
        if numbers[-1] >= shown[-1].first: return Numbering("file", numbers)
    return Numbering("output", range(1, len(lines) + 1), prefix)


UNIT_LINES = 40  # a longer block is taken apart into its members (blocks of 40 lines were kept or dropped best)


class Doc:
    """One output, read once: its lines, what it is, and how it is numbered.

    text, lines: the output and `text.split("\\n")`; bare: the lines without printed number prefixes; shown: files
    that a read or display shows; path: the file when it is one, else ""; numbers: a Numbering; kind, shape: see
    `classify`.
    """

    def __init__(self, text: str, tool: str = "", args: Mapping[str, Any] = {}) -> None:
        self.text, self.lines = text, text.split("\n")
        self.shown = _shown(tool, args)
        self.path = self.shown[0].path if len({item.path for item in self.shown}) == 1 else ""
        self.numbers = numbering(self.lines, self.shown)
        self.bare = [line[cut:] for line, (cut, _) in zip(self.lines, self.numbers.prefix)] or self.lines
        self.kind, self.shape = classify(self.bare, tool, args, self.shown)
        self.memo: dict[Any, Any] = {}  # what is worked out or settled once for this output, by who keeps it

    def units(self) -> list[Block]:
        """The blocks as a partition of the lines: nested blocks are split where the outer one is long.

        A block of up to UNIT_LINES lines is one unit; a longer one with members gives its members and what lies
        between them; lines in no block are units without a name.
        """
        total = len(self.lines)
        owner = [Block("", 0, total + UNIT_LINES + 1, -1, "rest")] * total
        for block in blocks(self):
            outer = owner[block.start]
            if outer.end - outer.start > UNIT_LINES: owner[block.start:block.end] = [block] * (block.end - block.start)
        parts = ((block, list(lines)) for block, lines in groupby(range(total), owner.__getitem__))
        return [block._replace(start=lines[0], end=lines[-1] + 1) for block, lines in parts]


def _once(make: Callable[..., _T]) -> Callable[..., _T]:
    """A function of a Doc (and of terms) that is worked out once for each; the Doc keeps what it gave."""
    def _kept(doc: Doc, *terms: _Terms) -> Any:
        key = (make, *(pair for each in terms for pair in each.items()))
        if key not in doc.memo: doc.memo[key] = make(doc, *terms)
        return doc.memo[key]
    return _kept


def read(text: str, tool: str = "", args: Mapping[str, Any] = {}) -> Doc:
    """Read an output: what it is, and how its lines are numbered. `tool` and `args` are the canonical ones."""
    return Doc(text, tool, args)


def places(doc: Doc) -> list[tuple[str, int]]:
    """(file name, line) of every place that an output names: search rows, tracebacks, diagnostics, diff hunks."""
    # a search of files that are one line long, a minified bundle: only the head of a line names its place
    text = "\n".join([line[:_PLACES] for line in doc.lines[:_PLACES] + doc.lines[_PLACES:][-_PLACES:]])
    return [(name, int(number)) for name, number in pattern("place").findall(text)]


_PLACES = 300  # lines at either end, and characters of a line, looked at: more point everywhere and so nowhere


def ends(doc: Doc) -> list[int]:
    """The first and the last line with something on it (0-based); none for a blank text."""
    lines = range(len(doc.lines))
    found = (next((line for line in way if doc.lines[line].strip()), -1) for way in (lines, lines[::-1]))
    return [line for line in found if line >= 0]


def close_gaps(doc: Doc, keep: Iterable[int], small: int) -> list[int]:
    """The lines kept, with the ends of the text and with every gap of fewer than `small` characters filled."""
    found = [-1]
    for line in (*sorted({*keep, *ends(doc)}), len(doc.lines)):
        gap = range(found[-1] + 1, line)
        found += [*gap, line] if len(gap) <= small and _size(doc, gap.start, line) < small else [line]
    return found[1:-1]


def _shown(tool: str, args: Mapping[str, Any]) -> list[Shown]:
    """The files and ranges that a call shows, empty when it does not just show files."""
    path, offset, limit = args.get("path"), args.get("offset"), args.get("limit")
    if tool != "read" or not isinstance(path, str) or not path:
        return (shown_by(str(args.get("command") or "")) or []) if tool == "bash" else []
    first = offset if isinstance(offset, int) and offset > 0 else 1
    return [Shown(path, first, first + limit - 1 if isinstance(limit, int) and limit > 0 else None)]


# ---------------------------------------------------------------- kinds and shapes

# The extensions of the files of each language of the rules `declare-…`, and of what is not code.
_EXTENSIONS = {
    "python": "py pyi pyx", "js": "js mjs cjs jsx ts mts cts tsx vue svelte php", "go": "go",
    "rust": "rs kt kts swift scala", "c": "c h cc cpp cxx hpp hh cu cuh m mm cs java groovy dart",
    "css": "css scss less", "bash": "sh bash zsh ps1 psm1", "ruby": "rb rake rakefile gemfile", "lua": "lua",
    "elixir": "ex exs", "sql": "sql", "table": "csv tsv jsonl ndjson", "log": "log", "diff": "diff patch",
    "docs": "md mdx txt rst adoc license readme changelog",
    "config": "json jsonc json5 xml yaml yml toml ini cfg conf lock env properties plist gradle tf makefile dockerfile "
              "justfile gitignore"}
_LANGUAGE_OF = {extension: name for name, row in _EXTENSIONS.items() for extension in row.split()}
_NOT_CODE = ("config", "table", "log", "docs", "diff", "")  # of several, the first names the shape
_HEAD, _MIDDLE, _TAIL = 160, 60, 100  # lines of an output that are looked at: verdicts stand last, banners first
_WIDTH = 400  # characters of a line that are looked at

# The programs, with the verb where it tells, whose output has a shape that its text may not show.
_PROGRAMS = {
    "terminal": "tmux capture-pane,workmux capture,screen,herdr pane",
    "diff": "git diff,git show,diff,git format-patch,git stash",
    "git-log": "git log,git reflog,git shortlog,git blame", "web": "curl,wget,lynx",
    "search": "grep,egrep,fgrep,rg,ag,ack,git grep,zgrep", "tree": "find,ls,tree,fd,git ls-files,du",
    "log": "docker logs,journalctl,kubectl logs,gh run,dmesg",
    "test": "pytest,tox,nox,unittest,jest,vitest,mocha,rspec,phpunit,ctest,go test,cargo test,npm test,pnpm test"
            ",bun test,yarn test,make test,mise test,mvn test,gradle test,dotnet test,mix test,deno test",
    "build": "gcc,g++,clang,make,cmake,ninja,tsc,eslint,ruff,mypy,flake8,pylint,biome,cargo,go build,go vet,npm,pnpm"
             ",yarn,bun,pip,pip3,poetry,uv,mvn,gradle,dotnet,docker,javac,pdflatex,latexmk,apt,apt-get,brew,prettier"
             ",golangci-lint,markdownlint-cli2,mise,turbo,vite,webpack,swift,git commit"}
_SHAPE_OF_PROGRAM = {program: shape for shape, row in _PROGRAMS.items() for program in row.split(",")}
# Programs that print files as they are, or parts of them.
_SHOWERS = frozenset(("cat", "head", "tail", "sed", "nl", "bat", "batcat", "awk", "less"))
# The kind of each shape; else command.
_KIND_OF_SHAPE = {
    "read": "code", "display": "code", "docs": "prose", "report": "prose", "web": "prose", "other": "prose",
    "config": "data", "table": "data", "json": "data", "search": "listing", "filelist": "listing", "tree": "listing"}
# Words in the names of other tools that tell the shape of what they give.
_TOOLS = {"report": ("agent", "task", "plan", "oracle", "prompt"),
          "web": ("web", "exa", "docs", "fetch", "url", "query")}


def language_of(path: str) -> str:
    """The language of a path by its name: a key of _EXTENSIONS, "" for one that is not known."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    first = _LANGUAGE_OF.get(name.strip(".").partition(".")[0], "")  # Makefile, Dockerfile.dev, .env.local
    return _LANGUAGE_OF.get(name.rpartition(".")[2], first)


def header_lines(lines: Sequence[str]) -> int:
    """How many lines at the top are the host's (`Exit code: 0`, `<path>`), not the output's; at most 8."""
    return len([*takewhile(pattern("host-header").match, [line[:_WIDTH] for line in lines[:8]])])


def _sample(lines: Sequence[str]) -> list[str]:
    """The non-blank lines, cut to _WIDTH, of the first, some of the middle and the last, without the host's header."""
    body = lines[header_lines(lines):]
    rest = len(body) - _HEAD - _TAIL
    if rest > _MIDDLE: body = [*body[:_HEAD], *body[_HEAD:_HEAD + rest:rest // _MIDDLE], *body[-_TAIL:]]
    clean = pattern("ansi").sub  # colours hide what a line begins with
    return [line for line in (clean("", line[:_WIDTH]).rstrip("\r") for line in body) if line.strip()]


def _count(sample: Iterable[str], name: str) -> int:
    """How many lines the rule matches."""
    return sum(map(bool, map(pattern(name).match, sample)))


def _is_table(sample: Sequence[str]) -> bool:
    """The reference's test: of 20 or more rows over 70 % have the same number of commas, tabs and pipes."""
    signs = Counter((row.count(","), row.count("\t"), row.count("|")) for row in sample[:200])
    named = bool(sample) and bool(sample[0].strip(",\t| -+")) and any(map(sample[0].count, ",\t|"))
    return named and len(sample) >= 20 and max(signs.values()) > 0.7 * sum(signs.values())


def _is_code(sample: Sequence[str]) -> bool:
    """Whether a text without a known extension is code: declarations and imports in its first 100 lines."""
    return _count(sample[:100], "declaration") + _count(sample[:100], "import") >= 3


def _messages(sample: Sequence[str]) -> int:
    """How many lines are messages of compilers and linters: a place, with a severity or a code."""
    told = filter(pattern("diagnostic").match, sample)
    return sum(bool(pattern("severity").search(row) or pattern("message-code").search(row)) for row in told)


def _content_shape(sample: Sequence[str]) -> str:
    """The shape that a text itself shows, "" when it shows none; the first test that holds wins."""
    total, commits = len(sample), _count(sample, "commit")
    return next((shape for shape, found in (
        # before the verdicts: a patch may add lines that look like one, but a test run has no `diff --git`
        ("diff", _count(sample, "diff-file") or _count(sample, "hunk") and _count(sample, "diff-head") > 1),
        ("test", any("Tests run: " in row for row in sample)  # Maven says it of each class as well
         or any(row and row["verdict"] for row in map(pattern("test-summary").match, sample))),
        ("json", _count(sample[:1], "json-head") and (sample[-1].rstrip()[-1] in "}]" or len(sample[0]) >= _WIDTH)),
        ("build", _messages(sample) >= max(3, 0.1 * total)),
        ("log", _count(sample, "log-row") > 0.3 * total),
        ("git-log", commits > 2 and (commits > 0.7 * total or sample[0].startswith("commit "))),
        ("search", total >= 10 and _count(sample, "match-row") >= 0.6 * total), ("table", _is_table(sample)),
    ) if found), "")


def _search_shape(sample: Sequence[str]) -> str:
    """The shape of what a search gave: rows, also without a path or with context, or a list of files."""
    lists = _count(sample, "path-only")
    return "filelist" if lists > max(0.7 * len(sample), _count(sample, "match-row")) else "search"


def _file_shape(paths: Sequence[str], sample: Sequence[str], by_tool: bool) -> tuple[str, str]:
    """(kind, shape) of shown files. A shell display is typed only where all are code, or all prose with headings."""
    languages = {language_of(path) for path in paths}
    if not languages.issubset(_NOT_CODE):
        failed = any(row.partition(": ")[0] in _SHOWERS for row in sample[:3])  # `cat: a.py: No such file`
        typed = by_tool or languages.isdisjoint(_NOT_CODE) and not failed
        return "code" if typed else "command", "read" if by_tool else "display"
    shape = next(name for name in _NOT_CODE if name in languages)
    shape = shape or ("table" if _is_table(sample) else "read" if _is_code(sample) else "docs")
    if by_tool: return "data" if shape == "log" else _KIND_OF_SHAPE.get(shape, "command"), shape
    typed = languages == {"docs"} and _count(sample, "atx") + _count(sample, "rule-line") > 1
    return "prose" if typed else "command", "display" if shape == "read" else shape


def _command_shape(sample: Sequence[str], command: str) -> str:
    """The shape of a shell command's output that is not just files."""
    words = programs(command)
    shape_of = _SHAPE_OF_PROGRAM.get
    known = [shape for shape in (shape_of(word) or shape_of(word.split(" ")[0]) for word in words) if shape]
    if "terminal" in known: return "terminal"  # a capture may hold anything
    if known[-1:] == ["search"] and set(known) <= {"search", "tree"}: return _search_shape(sample)
    shape = _content_shape(sample)
    if shape not in ("diff", "test", "search") and not _SHOWERS.isdisjoint(words) and _is_code(sample) and any(
            language_of(word) not in _NOT_CODE for word in named_files("bash", {"command": command})):
        return "display"  # several files with titles between them, say: it may be edited from
    # a program says more than a weak sign in the text, and a test run may print a compiler's messages
    if known and shape in ("", "log", "table"):
        return next((name for name in ("test", "build") if name in known), known[-1])
    return shape or "other"


def classify(lines: Sequence[str], tool: str = "", args: Mapping[str, Any] = {},
             shown: Sequence[Shown] = ()) -> tuple[str, str]:
    """(kind, shape) of an output, by its content first and its command or tool second; a bounded sample is read.

    Kinds: code, prose, command, listing, data. Shapes: read, display, docs, config, table, test, build, search,
    filelist, diff, log, git-log, tree, json, report, web, terminal, edit, other. tool, args: canonical.
    """
    if tool in ("edit", "write"):
        return "prose" if language_of(str(args.get("path") or "")) in _NOT_CODE else "code", "edit"
    sample = _sample(lines)
    wrapped = next((row[row.lastindex or 0] for row in map(pattern("wrapped-file").match, lines[:8]) if row), "")
    # the reference's test, with rows of `ls -l` and `tree`: of 15 or more lines over 70 % are paths
    listed = len(sample) >= 15 and _count(sample, "path-only") + _count(sample, "listing-row") > 0.7 * len(sample)
    if listed or "Here's the files and directories up to" in "".join(sample[:1]):
        return "listing", "filelist" if tool == "grep" else "tree"
    paths = [wrapped] if wrapped else [item.path for item in shown]
    if paths: return _file_shape(paths, sample, bool(wrapped) or tool == "read")
    if tool == "bash": return "command", _command_shape(sample, str(args.get("command") or ""))
    if tool in ("ls", "find"): return "listing", "tree"
    shape = _search_shape(sample) if tool == "grep" else _content_shape(sample)
    if shape not in ("diff", "search", "filelist", "json", "test"):
        # a recorded call may come without its tool's name: what it was asked with tells as well
        told = " ".join(args) if tool == "other" else tool.lower()
        shape = next((shape for shape, words in _TOOLS.items() if any(word in told for word in words)), shape)
    return _KIND_OF_SHAPE.get(shape or "other", "command"), shape or "other"


# ---------------------------------------------------------------- the display-command parser

_COMMAND_CAP = 16384  # characters of a command that are parsed; the reference's bound
_PATH_CAP = 256  # paths and brace results of one display; the reference's bound
_BOUND = 400  # lines at most of an output that counts as cut by the agent itself
# Lines let through are a range of the file's numbers, so that a filter of a filter is a slice of a slice; one that
# starts below 1 lies somewhere: `tail -5` is range(-5, 0).
_END = 10 ** 9  # the number after the last line of a file whose length is not known
_WHOLE, _SOMEWHERE = range(1, _END), range(-_END, 0)


def _statements(command: str) -> list[list[list[str]]]:
    """Statements of pipeline stages of words with their quotes; what follows a here-document is not read."""
    out: list[list[list[str]]] = [[[]]]
    for found in pattern("shell-word").finditer(command[:_COMMAND_CAP]):
        if found["here"]: break
        if found["end"]: out.append([[]])
        if found["pipe"]: out[-1].append([])
        if not found.lastgroup: out[-1][-1].append(found.group())
    return out


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _strict(word: str) -> str:
    """What a word stands for in the subset of `shown_by`, "" when it is not of it.

    A quoted glob rejects: it is a literal name to the shell, and could not be told from a glob afterwards.
    """
    text = _unquoted(word)
    barred = "'\">" + ("" if word[:1] == "'" else "$") + ("{}*?[]\n" if text is not word else "")
    return text if set(text).isdisjoint(barred) else ""


def shown_by(command: str) -> list[Shown] | None:
    """The files that a command shows, in order, or None when it could do anything else than show files.

    A small subset of the shell that fails closed: cat, head, tail, sed -n RANGES, nl, bat and `git show REV:path`,
    after `cd DIR`, through filters that only cut lines. Redirections (but `2>/dev/null`), substitutions, variables,
    `||`, `&`, comments and escapes reject. It is the reference's subset and what that takes for any other command: `cd
    DIR &&`, `nl`, `cat -n`, several ranges, `head -c`, `tail -n +20`, `git show REV:path`, `2>/dev/null`.
    """
    text = command.strip(" \t\n;")
    spare = text.replace("&&", "").replace("2>/dev/null", "")
    if len(command) > _COMMAND_CAP or not set(spare).isdisjoint("<>&`\\()#\r") or "||" in text or text[-1:] in "|&":
        return None
    shown: list[Shown] = []
    folder = ""
    for statement in _statements(text):
        stages = [[_strict(word) for word in stage if word != "2>/dev/null"] for stage in statement]
        moves = len(stages) == 1 and stages[0][:1] == ["cd"]
        items = _pipeline([["cat", *stages[0][1:]]] if moves else stages)
        if not items or moves and len(items) > 1: return None
        items = [item._replace(path=_under(folder, item.path)) for item in items]
        folder, shown = (items[0].path, shown) if moves else (folder, shown + items)
    return shown if 0 < len(shown) <= _PATH_CAP else None


def _under(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path)) if folder and path[1:2] != ":" else path


def _pipeline(stages: Sequence[Sequence[str]]) -> list[Shown]:
    """What one pipeline shows; empty when a stage is not of the subset."""
    (cuts, paths), *filters = map(_stage, stages)
    if not paths or any(named or not cut for cut, named in filters): return []  # a filter names no file
    cuts = cuts if len(paths) == 1 or cuts == [_WHOLE] else [_SOMEWHERE]
    for others in [cut for cut, _ in filters if cut != [_WHOLE]]:
        alone = len(cuts) == len(others) == len(paths) == 1 and others[0].start > 0
        cuts = [cuts[0][others[0].start - 1:others[0].stop - 1] if alone else _SOMEWHERE]
    ranges = [(max(cut.start, 0), cut.stop - 1 if 0 < cut.stop < _END else None) for cut in cuts]
    return [Shown(path, first, last) for path in paths for first, last in ranges]


def _stage(words: Sequence[str]) -> tuple[list[range], list[str]]:
    """(lines let through, paths) of one stage; no ranges when it is not of the subset."""
    found = pattern("stage").match("\n".join(words))
    named = [found["object"] or "", *found["paths"].split("\n")] if found else []
    paths = [path for word in named if word for path in islice(_braces(word), _PATH_CAP + 1)]
    if not found or not all(paths) or len(paths) > _PATH_CAP: return [], []
    cuts = [range(int(found["from"] or found["low"] or 1), int(found["high"] or _END - 1) + 1)]
    if found["script"]:
        cuts = [range(-1, 0) if low == "$" else range(int(low), _END if high == "$" else int(high or low) + 1)
                for low, high in pattern("sed-range").findall(found["script"])]
    elif found["end"] and not found["from"]:
        lines = _END - 1 if found["bytes"] else int(found["count"] or 10)
        cuts = [range(1, lines + 1) if found["end"] == "head" else range(-lines, 0)]
    return cuts if all(a.stop <= b.start for a, b in zip(cuts, cuts[1:])) else [_SOMEWHERE], paths


def _braces(word: str) -> Iterator[str]:
    """The words that brace groups with commas stand for; "" (no path) for any other brace and for too many groups."""
    group = pattern("brace-group").search(word)
    # more groups than anybody writes
    if not group or word.count("{") > 64: return iter([word if set(word).isdisjoint("{}") else ""])
    words = (word[:group.start()] + part + word[group.end():] for part in group[1].split(","))
    return chain.from_iterable(map(_braces, words))


# Programs whose next word says what they do, options that take a word, and what is not worth naming beside others.
_VERBS = frozenset("git npm pnpm yarn bun cargo go gh docker kubectl make mise gradle mvn dotnet mix tmux workmux "
                   "herdr swift deno playwright".split())
_VALUED = frozenset("-C --filter -F --prefix --dir --cwd -p -w --workspace -g --glob -e -m -A -B -t --type --include "
                    "--exclude -k -o -f -s".split())
_QUIET = frozenset(["", *"cd echo printf true pwd sleep mkdir export source . set sort uniq fi done".split()])


def _program(words: Sequence[str]) -> tuple[str, list[str]]:
    """(program with its verb where that says what it does, the words after it) of a stage."""
    plain = list(map(_unquoted, words)) or [""]
    name, *rest = list(dropwhile(pattern("not-program").match, plain)) or plain[-1:]
    name = name.rsplit("/", 1)[-1]
    if name[:6] == "python" and rest[:1] == ["-m"] and len(rest) > 1: name, *rest = rest[1:]
    if name in ("bash", "sh", "zsh") and len(rest) > 1 and rest[0][:1] == "-" and rest[0][-1] == "c":
        return next(iter(programs(rest[1])), name), rest[2:]
    name = {"gradlew": "gradle", "mvnw": "mvn", "py.test": "pytest"}.get(name, name)
    while name in _VERBS and rest and (rest[0][:1] == "-" or rest[0] == "run"):
        rest = rest[2 if rest[0] in _VALUED else 1:]
    verb = name in _VERBS and rest and rest[0][:1] not in "12>"
    return (f"{name} {rest[0]}", rest[1:]) if verb else (name, rest)


def programs(command: str) -> list[str]:
    """The programs of a command's pipelines, the first stage of each, with the verb: ["git diff"], ["npm test"].

    `cd`, `echo` and their like are left out when something else runs. `bash -c '…'` counts as what it runs.
    """
    found = [_program(stages[0])[0] for stages in _statements(command)]
    return [name for name in found if name.split(" ")[0] not in _QUIET] or list(filter(None, found))


def bounded(tool: str, args: Mapping[str, Any]) -> bool:
    """Whether the agent cut the output itself to at most 400 lines: a read's limit, `head`, `tail`, `sed -n 'a,bp'`."""
    total = args["limit"] if tool == "read" and isinstance(args.get("limit"), int) else 0
    for first, *others in _statements(str(args.get("command") or "") if tool != "read" else ""):
        if _program(first)[0] not in _QUIET:
            cuts, paths = _stage([_unquoted(word) for word in (others or [first])[-1] if word[:2] != "2>"])
            total += sum(map(len, cuts or [_WHOLE])) * max(1, len(paths))
    return 0 < total <= _BOUND


def named_files(tool: str, args: Mapping[str, Any]) -> list[str]:
    """The single files that a call names by its path, or a command in its words; folders and globs are none.

    A word counts when its last part has an extension. A search's pattern and the values of options do not count.
    """
    words = list(strings(args.get("paths") or args.get("path")))
    for stages in _statements(str(args.get("command") or "") if tool == "bash" else ""):
        program, rest = _program(stages[0])
        plain = [word for before, word in zip(["", *rest], rest) if word[:1] != "-" and before not in _VALUED]
        pattern_first = _SHAPE_OF_PROGRAM.get(program) == "search" and "-e" not in rest
        words += [word.partition("::")[0] for word in plain[pattern_first:]]
    return list(filter(pattern("file-word").match, words))


# ---------------------------------------------------------------- blocks of code

# How the blocks of a language end: by indentation, by an `end` of their own, at the next statement; else by braces.
_FAMILY = {"python": "indent", "ruby": "end", "lua": "end", "elixir": "end", "sql": "sql", "keys": "keys"}
# The rule of the strings and comments that could mislead; else scan-hash.
_SCAN = {"js": "scan-js", "css": "scan-js", "go": "scan-c", "rust": "scan-c", "c": "scan-c", "lua": "scan-lua",
         "sql": "scan-lua"}
_METHODS = ("js", "c", "bash")  # `name(…) {` declares there, too
_LONG_CODE = 10_000  # characters; a longer line is data: it is not scanned and counts as one without brackets
_CODE_MOST = 1_000_000  # characters; a longer file is generated, and nobody reads its outline
_CONSTANT = 4  # lines from which a constant is a block, as the reference
_SIGNATURE = 6  # lines of a signature that an outline shows at most
_LOOKAHEAD = 40  # lines in which a signature must reach its body
_DEEP = 1 << 30  # the level of a line inside a string: it ends no block
_INSIDE = "\0"  # stands for a line inside a string that runs over lines
_CLOSERS = {"end": ("}", "]", ")", "end"), "keys": ("}", "]", ")", "- ", "</")}  # else brackets; by family


# A declaration: its block, with leading comments; its signature is the lines [line, body); its level.
_Found = NamedTuple("_Found", [("block", Block), ("line", int), ("body", int), ("level", int)])


def _clean(lines: Sequence[str], scan: str) -> list[str]:
    """The lines without comments and with `"` for a string; _INSIDE for the inside of a string over lines."""
    def _blank(found: "re.Match[str]") -> str:
        sign = found.group()
        over = sign.count("\n")
        return "\n" * over if sign.lstrip().startswith(("//", "/*", "*", "--", "#")) else '"' + ("\n" + _INSIDE) * over

    text = "\n".join([line if len(line) <= _LONG_CODE else _INSIDE for line in lines])
    rows = pattern(scan).sub(_blank, text).split("\n")
    return [_INSIDE if row.strip(" \t\r") == _INSIDE else row.replace(_INSIDE, "") for row in rows]


def _levels(clean: Sequence[str], language: str) -> list[int]:
    """The level of each line, and the lowest after the last; a block ends before the line that falls to its own level.

    Braces: how many brackets are open (braces only where others need not balance). Else twice the indentation, one
    more for what closes something; where a body has its own `end`, or is a statement, only an `end` or a declaration
    may end a block: texts in it may be indented less.
    """
    family = _FAMILY.get(language, "brace")
    if family == "brace":
        opening, closing = ("{", "}") if language in ("bash", "css") else ("{([", "})]")
        steps = (sum(map(line.count, opening)) - sum(map(line.count, closing)) for line in clean)
        return [*accumulate(steps, initial=0)][:-1] + [-_DEEP]  # a fragment may close more than it opens
    declares, closers = pattern(f"declare-{language}").match, _CLOSERS.get(family, ("}", "]", ")"))
    out = [-_DEEP]
    for text in reversed(clean):
        bare = text.strip()
        closes = bare.startswith(closers)
        if text == _INSIDE and family != "end" or family == "sql" and bare and not declares(bare):
            out.append(_DEEP)
        elif not bare or family == "end" and not closes and not declares(bare):
            out.append(out[-1])
        else:
            level = 2 * (len(text) - len(text.lstrip()))
            if family == "end" and closes: out[-1] = min(out[-1], level)  # what is below an `end` is out of its block
            out.append(level + closes)
    return out[::-1]


def _body(clean: Sequence[str], line: int, family: str) -> tuple[int, bool]:
    """(first line after the signature that starts at `line`, whether a body follows)."""
    level = 0
    clause = False
    for at, text in enumerate(map(str.rstrip, clean[line:line + _LOOKAHEAD]), line):
        level += sum(map(text.count, "([")) - sum(map(text.count, ")]"))
        clause = clause or ") where " in text or bool(pattern("clause").match("".join(clean[at + 1:at + 2])))
        argument = at == line and text.endswith(("=> {", ") {"))  # the body of a function that is an argument
        if argument or text and level <= 0 and (family != "brace" or text[-1] in "{;}" or not clause):
            return at + 1, family != "brace" or "{" in text
    return line + 1, False


_Declared = tuple[str, str, int]  # (name, kind, first line after the signature)


def _declared_at(lines: Sequence[str], clean: Sequence[str], levels: Sequence[int], at: int, language: str,
                 inside: str) -> _Declared | None:
    """What line `at` declares; `inside`: the kind of the block around it ("class" for none)."""
    family = _FAMILY.get(language, "brace")
    text = clean[at].strip()
    found = pattern(f"declare-{language}").match(lines[at].strip()[:_WIDTH])
    if not found:
        return _method_at(clean, levels, at, language, inside) if language in _METHODS and "(" in text else None
    name = [group for group in found.groups() if group][-1].strip()
    if family == "keys":
        if name in ("{", "["):  # an item of a list, named by its first line
            name = lines[at + 1].strip(" ,\r") if 0 < at < len(lines) - 1 else ""
        return (name, "key", at + 1) if name else None
    # an item of a list or literal, no open signature; a statement in the body of another
    if text[-1:] == "," and text.count("(") <= text.count(")") or family == "sql" and clean[at][0].isspace():
        return None
    body, opened = _body(clean, at, family)
    if found["constant"] is None:
        name = ".".join(filter(None, (found["owner"], name))).replace("::", ".")
        return name, "class" if found["type"] else "function", body
    signature = " ".join(clean[at:min(body, at + _SIGNATURE)])
    value = signature.partition("=")[2].lstrip()
    called = language == "css" or "=>" in value or value.startswith(("function", "async function"))
    if inside != "class" and not (called and opened): return None  # a local variable
    return ("const" if name == "(" else name), "function" if called else "constant", body if called else at + 1


def _method_at(clean: Sequence[str], levels: Sequence[int], at: int, language: str, inside: str) -> _Declared | None:
    """What line `at` declares as `name(…) {`, or as a prototype with its types."""
    script = language in ("js", "bash")
    text = clean[at].strip()
    found = pattern("declare-method").match(text)
    if not found or not script and inside == "function" and clean[at][0].isspace(): return None  # none in a function
    body, opened = _body(clean, at, "brace")
    last = clean[body - 1].rstrip()
    # `name(…) {` opens one bracket; a call with a function as its argument opens two, or is closed by `)` or `;`
    method = opened and last.endswith(("{", "}", "};")) and levels[body] <= levels[at] + 1
    prototype = not opened and last[-1:] == ";" and not script and found.start(1) > 0
    return (found[1].replace("::", "."), "function", body) if method or prototype else None


@_once
def _declarations(doc: Doc) -> list[_Found]:
    """The declarations of a text, in order, nested or disjoint: a block ends at the line that falls to its level."""
    lines, language = doc.bare, _language(doc)
    if not language: return []
    total = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip()), 0)
    clean = _clean(lines[:total], _SCAN.get(language, "scan-hash"))
    levels = _levels(clean, language)
    annotations = ("@",) if language in _FAMILY else ("@", "[", "#[", "template")
    found: list[_Found] = []
    opened: list[_Found] = []  # those whose end is not found yet, the outermost first
    ends: dict[int, int] = {}
    lead, base = -1, 0  # the first line of the comments and annotations before a declaration, and their level
    for at, text in enumerate(clean):
        bare, blank = text.strip(), not lines[at].strip()
        if not bare and blank: lead = -1  # what stands above leads nothing
        if not bare and not blank and lead < 0: lead, base = at, _DEEP  # comments begin
        if bare and text != _INSIDE and (lead < 0 or levels[at] <= base):
            start = lead if lead >= 0 else at
            inside = opened[-1].block.kind if opened else "class"
            declared = _declared_at(lines, clean, levels, at, language, inside) if bare[0] not in "}])>|&" else None
            lead, base = (start, levels[at]) if not declared and bare.startswith(annotations) else (-1, 0)
            if declared:
                while opened and not text[0].isspace() and _misled(lines, opened[-1]): ends[opened.pop().line] = start
                owner = opened[-1].block.name + "." if opened else ""
                block = Block((owner + declared[0])[:_NAME], start, at, len(opened), declared[1])
                found.append(_Found(block, at, declared[2], levels[at]))
                opened.append(found[-1])
        while opened and levels[at + 1] <= opened[-1].level and at + 1 >= opened[-1].body:
            ends[opened.pop().line] = at + 1
    return [item._replace(block=item.block._replace(end=ends[item.line])) for item in found]


def _misled(lines: Sequence[str], item: _Found) -> bool:
    """Whether a function in column 0 has an indented body: another declaration in column 0 cannot be inside it."""
    body = any(line[:1].isspace() and line.strip() for line in lines[item.body:item.body + 5])
    return item.block.kind == "function" and not lines[item.line][:1].isspace() and body


def _language(doc: Doc) -> str:
    """The language of code by its path, else by its shebang, signatures or line ends; "" for what declares nothing."""
    if doc.shape in ("config", "json"): return "keys"
    if doc.shape not in ("read", "display", "edit") or len(doc.text) > _CODE_MOST: return ""
    named = language_of(doc.shown[0].path) if doc.shown else ""
    rows = [line.strip() for line in doc.bare[:300]]
    if f"declare-{named}" in RULES: return named
    if rows[0][:2] == "#!":
        return next((word for word in ("python", "ruby") if word in rows[0]), "js" if "node" in rows[0] else "bash")
    if sum(row.startswith(("def ", "class ", "async def ")) and row.endswith((":", "(")) for row in rows) > 1:
        return "python"
    return "js" if sum(row.endswith(("{", "}", ";")) for row in rows) > 0.3 * len(rows) else ""


def signatures(doc: Doc) -> list[int]:
    """The 0-based lines that an outline of code shows, ascending.

    Every declaration at any depth with its signature (at most 6 lines), its decorators and the first line of the
    comment that leads it, and the first line of each constant outside functions; no other comments, imports or local
    variables.
    Empty for what is not code.
    """
    keep: set[int] = set()
    for block, line, body, _ in _declarations(doc):
        keep.add(block.start)  # what a function is for; and edits begin there
        keep.update(at for at in range(block.start, line) if doc.bare[at].lstrip()[:1] in ("@", "["))
        keep.update(range(line, min(line + _SIGNATURE, max(body, line + 1))))
    return sorted(keep)


@_once
def blocks(doc: Doc) -> list[Block]:
    """The named line ranges of an output that can be put back whole, in order, nested or disjoint, never crossing.

    Code: functions, classes, constants of 4 and more lines at every depth, with the comments and decorators that lead
    them, under their qualified names; `header` for the lines with imports before them; what stands between at depth 0
    under its first line. Everything else: see _SECTIONS_OF. An output of one line has none: there is nothing to cut.
    """
    found: list[Block] = []
    skipped = 0  # the end of a short constant or key: an outline shows it whole, and what is inside it
    for block, line, _, _ in _declarations(doc):
        least = {"constant": _CONSTANT, "key": _CONSTANT if block.depth else 2}.get(block.kind, 1)
        if block.end - line < least: skipped = max(skipped, block.end)
        if block.start >= skipped: found.append(block)
    if doc.shape == "table" or len(doc.lines) < 2: return []
    if not found: return _section_blocks(doc)
    return found if found[0].kind == "key" else _with_gaps(doc, found)


def _with_gaps(doc: Doc, found: Sequence[Block]) -> list[Block]:
    """The blocks with what stands between them at depth 0: `header` where it imports, else named by its first line."""
    out: list[Block] = []
    at = header_lines(doc.lines)
    for block in (*found, Block("", len(doc.lines), len(doc.lines))):
        rows = [line for line in range(at, block.start) if doc.bare[line].strip()] if not block.depth else []
        if not out and any(pattern("import").match(doc.bare[line].lstrip()) for line in rows):
            out.append(Block("header", rows[0], rows[-1] + 1, 0, "header"))
        elif len(rows) > 1:
            out.append(Block(doc.bare[rows[0]].strip()[:_NAME], rows[0], rows[-1] + 1))
        at = max(at, block.end)
        out += [block] if block.name else []
    return out


# ---------------------------------------------------------------- sections of everything else

_NAME = 120  # characters of a section's name, as the reference
_SECTION = 3  # lines; a shorter section joins the one before it, as the reference
_CHUNK = 50  # lines of a chunk where nothing marks a section, as the reference
_UNDERLINES = "=-~^\"'*+#`"  # the signs below headings of Setext and reST, in the order of their levels
_Start = tuple[int, int, str]  # (line, level, name)


def _sections(starts: Iterable[_Start], total: int) -> list[Block]:
    """Blocks that begin at these lines and end where the next one of their level or a smaller one begins."""
    out: list[Block] = []
    opened: list[tuple[int, int]] = []  # (place in out, level)
    for line, level, name in (*starts, (total, -1, "")):
        while opened and opened[-1][1] >= level:
            place, _ = opened.pop()
            out[place] = out[place]._replace(end=line)
        out.append(Block(name.strip()[:_NAME], line, total, len(opened)))
        opened.append((len(out) - 1, level))
    return out[:-1]


def _meaning(lines: Sequence[str]) -> str:
    return next((line for line in lines[:_CHUNK] if not pattern("bar-only").match(line[:_WIDTH])), "")


def _with_next(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """(number, line, the line below) of each line."""
    return zip(count(), lines, chain(islice(lines, 1, None), [""]))


def _headings(lines: Sequence[str]) -> Iterator[_Start]:
    """Markdown and reST: a section runs to the next heading of its level or above; headings in code fences are none."""
    fenced = ruled = False
    for at, line, below in _with_next(lines):
        fenced ^= not ruled and line.lstrip()[:3] in ("```", "~~~")  # `~~~` may be the rule below a heading
        atx = pattern("atx").match(line) if not fenced and "#" in line[:4] else None
        ruled = (not fenced and line[:1].isalnum() and below[:3] == below[:1] * 3 and len(below) >= 0.6 * len(line)
                 and bool(pattern("rule-line").match(below)))
        if atx: yield at, len(atx[1]), atx[2].strip(" #\r")
        if ruled: yield at, _UNDERLINES.index(below[0]) + 1, line


def _named_by(rule: str, other: str, again: bool, lines: Sequence[str]) -> Iterator[_Start]:
    """Sections that begin where a rule gives another name, or a name at all (`again`); `--` ends a name."""
    name = ""
    match, match_other = pattern(rule).match, pattern(other).match
    for at, line in enumerate(lines):
        found = match(line, 0, _WIDTH) or match_other(line, 0, _WIDTH)
        if found and (again or found[1] != name): yield at, 0, found[1]
        name = found[1] if found else "" if line == "--" else name


def _patches(lines: Sequence[str]) -> Iterator[_Start]:
    """A diff: its files and, inside them, their hunks."""
    name, headed = "", False  # headed: the file is named and its first hunk is still to come
    for at, line, below in _with_next(lines):
        found = pattern("patch-file").match(line) if line[:4] in ("diff", "Inde", "*** ") else None
        bare = line[:4] == "--- " and below[:4] == "+++ " and "".join(lines[at + 2:at + 3])[:2] == "@@"
        if found or bare and not headed:  # without a `diff` line above
            name, headed = found[1] if found else below[4:].split("\t")[0].replace("b/", "", 1), True
            yield at, 0, name
        if line[:2] == "@@":
            headed = False
            yield at, 1, f"{name} {line[:_NAME]}"


def _commits(lines: Sequence[str]) -> Iterator[_Start]:
    """git log: one commit each, named by its hash and subject."""
    return ((at, 0, line[7:17] + " " + next((row.strip() for row in lines[at + 1:at + 8] if row[:4] == "    "), ""))
            for at, line in enumerate(lines) if line[:7] == "commit " and pattern("commit").match(line))


def _paragraphs(lines: Sequence[str]) -> Iterator[_Start]:
    """Marker lines (`COMMAND:`, bars, tracebacks, headings) and paragraphs of 3 lines and more; else chunks of 50."""
    starts = [0]
    mark = pattern("section-mark").match
    for at, line, below in _with_next(lines):
        if at + 1 - starts[-1] >= _SECTION and below.strip() and (
                not line.strip() or not below[0].isspace() and mark(below[:_WIDTH])):
            starts.append(at + 1)
    if len(starts) < 2 and len(lines) >= 2 * _CHUNK: starts = list(range(0, len(lines), _CHUNK))
    return ((at, 0, _meaning(lines[at:at + _SECTION]) or lines[at]) for at in starts)


_ENTRIES = partial(_named_by, "entry", "entry", False)
_ROWS = partial(_named_by, "match-row", "path-row", False)
# What finds the sections of a shape; else _paragraphs.
_SECTIONS_OF: dict[str, Callable[[Sequence[str]], Iterator[_Start]]] = {
    "docs": _headings, "report": _headings, "web": _headings, "diff": _patches, "git-log": _commits,
    "config": partial(_named_by, "table-head", "table-head", True), "tree": _ENTRIES, "filelist": _ENTRIES,
    "search": partial(_named_by, "match-row", "path-only", False)}


def _section_blocks(doc: Doc) -> list[Block]:
    """The sections of a text that is not code, by its shape, else by marker lines and paragraphs."""
    # rows that carry their path, not those that stand below it
    rows = doc.shape == "search" and 2 * _count(doc.bare[:_SAMPLE], "path-row") > len(doc.bare[:_SAMPLE])
    for starts_of in (_ROWS if rows else _SECTIONS_OF.get(doc.shape, _paragraphs), _paragraphs):
        starts = list(starts_of(doc.bare))
        if len(starts) > 1 or starts and starts[0][0]:
            head = _meaning(doc.bare[:starts[0][0]])  # what stands before the first one
            return _sections([(0, 99, head)] * bool(head) + starts, len(doc.bare))
    return []


# ---------------------------------------------------------------- terms and names

# Words that say what to do or that every program has: they find nothing (the reference's stop words).
_STOP_WORDS = frozenset("""
    about added adding after again also because before could each every existing from have into just more most only
    other should some such than that their then there these they this what when where which while will with would does
    must always never please sure change changed changes current default defaults delete following keep keeps make need
    needs needed read remove removed rename renamed return returns running update updated used uses using write find
    array behaviour behavior class code const export file files function functions import line lines module modules
    number object string test tests type types value values true false none null self grep head tail echo look check
    issue work user data here been them your were""".split())
_TERM_TEXT = 6000  # characters of each text that are read for terms: a request's first pages say what it is about
_MOST_TERMS = 80  # more words than this say nothing about one call, and each costs one pass over the output
_NAMED = 2.0  # an identifier, version or code finds its line more surely than a plain word (weight 1)
_HITS_MOST = 20_000  # lines; a term in more of them tells no line from another, and looking takes time and memory


def names(text: str) -> set[str]:
    """The identifiers of a text: 5 word characters or more that show by case, `_` or a digit that they are names."""
    return set(filter(pattern("name-sign").search, set(pattern("name").findall(text))))


def terms(task: str = "", latest: str = "", said: str = "", args: Any = None) -> dict[str, float]:
    """The case's words, lower-case, each with a weight of 0.5 … 8; the most telling 80, the best first.

    Sources: the first request, the latest message, what the assistant said before the call, and the values (never the
    keys) of the arguments (a mapping, or a text). Identifiers, versions and codes count twice; the parts of an
    identifier count as words.
    """
    found: dict[str, float] = {}
    # what was just said and asked for is nearer to this call than the first request
    for text, nearness in (("\n".join(strings(args)), 1.5), (said, 1.5), (latest, 1.0), (task, 1.0)):
        for term, weight in _words(text[:_TERM_TEXT]):
            found[term] = min(found.get(term, 0.0) + weight * nearness, 4 * weight)
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:_MOST_TERMS])


def strings(value: Any) -> Iterator[str]:
    """The strings inside a JSON-like value, keys left out."""
    if isinstance(value, str): yield value
    if isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value: yield from strings(item)


def _words(text: str) -> Iterator[tuple[str, float]]:
    """(term, weight) for each quotation, code and word of a text, in their order."""
    for groups in pattern("literal").findall(text): yield "".join(groups).strip().lower(), _NAMED
    named, parts = pattern("name-sign").search, pattern("name-part").findall
    for word in pattern("word").findall(text):
        if len(word) >= 4 and named(word): yield word.lower(), _NAMED
        for part in parts(word):
            if len(part) >= 4 and part.lower() not in _STOP_WORDS: yield _stem(part.lower()), 1.0


@lru_cache(maxsize=1 << 14)
def _stem(word: str) -> str:
    """A plain word without its ending, so that `published` finds `publish` (terms are searched as beginnings)."""
    ending = next((end for end in ("ing", "ed", "es", "s") if word.endswith(end) and len(word) - len(end) >= 5), "")
    return word[: len(word) - len(ending)]


@_once
def _lowered(doc: Doc) -> tuple[str, "array[int]"]:
    """The text in lower case, as long as the text, and where its lines start (with one start after the end)."""
    text = doc.text.replace("İ", "i")  # the one letter that lower() makes two of
    # in parts, for lower() works with 12 bytes a character where one of them is not ASCII
    low = "".join([text[at:at + 65_536].lower() for at in range(0, len(text), 65_536)])
    return low, array("q", accumulate((len(line) + 1 for line in doc.lines), initial=0))


def _lines_with(doc: Doc, literal: str, most: int = _HITS_MOST, rule: str = "") -> list[int]:
    """The lines that hold a lower-case literal, ascending, up to `most`. rule: what must match where it stands."""
    low, starts = _lowered(doc)
    match = pattern(rule).match if rule else None
    found: list[int] = []
    at = low.find(literal)
    for _ in range(2 * len(doc.lines)):  # places looked at: where there are more, the literal stands inside words
        if at < 0 or len(found) >= most: break
        fits = not match or match(doc.text, at)
        if fits: found.append(bisect_right(starts, at) - 1)
        at = low.find(literal, starts[found[-1] + 1] if fits else at + 1)
    return found


@_once
def _scores(doc: Doc, terms: _Terms) -> Mapping[int, float]:
    """For each line with case terms the sum of weight × log(lines / lines with the term) over them.

    A line that declares something counts more.
    """
    total = len(doc.lines)
    common = max(20, min(total * 2 // 3, _HITS_MOST))  # a term in more lines tells none of them from another
    scores: defaultdict[int, float] = defaultdict(float)
    for term, weight in terms.items():
        hits = _lines_with(doc, term, common, "word-start")
        for line in hits if len(hits) < common else (): scores[line] += weight * log2(1.1 * total / len(hits))
    declared, lines = pattern("declaration").match, _plain(doc)
    return {line: round(scores[line] * (_STRUCTURE_LIFT if declared(lines[line]) else 1.0), 6)
            for line in sorted(scores)}


# ---------------------------------------------------------------- views

# Where signals may stand, for a quick search; the rule then decides.
_SIGNAL_WORDS = ("error", "exception", "fail", "traceback", "panic", "fatal", "warn", "denied", "refused", "missing",
                 "cannot", "killed", "timeout", "timed", "assert", "expected", "actual", "undefined", "not ok", "err!",
                 "no such file", "segmentation", "unable to", "enoent", "eacces", "✖", "✗", "✘", "❌", " passed")
_LISTS = ("tree", "filelist", "search")  # shapes whose blocks are what stands under one name, here and there
_NEARLY_ALL = 0.8  # a view that keeps more of the lines is no view
_ADMITTED = 0.6  # share of the full characters that a view may have at most, this much included
_FAR = 2000  # characters of a line that rules look at
_FEW = 2  # equals that are shown: one may be an accident, a third says nothing new
_MANY = 40  # errors, files, lines of one failure or diagnostic that are read one by one; more are only looked through


def _view(doc: Doc, name: str, keep: Iterable[int], terms: _Terms = {}) -> View | None:
    """The view of these lines and the two ends; None when that is nearly all."""
    total = len(doc.lines)
    lines = sorted({line for line in (*keep, *ends(doc)) if 0 <= line < total})
    view = View(name, tuple(lines), fit(doc, lines, terms))
    return None if len(lines) >= _NEARLY_ALL * total and not view.pieces else view


@_once
def _plain(doc: Doc) -> list[str]:
    """The lines as rules look at them: without colours, and no further than _FAR."""
    clean = pattern("ansi").sub
    return [clean("", line[:_FAR]) if "\x1b" in line else line[:_FAR] for line in doc.lines]


def _edges(doc: Doc, head: int, tail: int) -> set[int]:
    """So many lines from either end (of a short text possibly beyond the ends)."""
    return {*range(head), *range(len(doc.lines) - tail, len(doc.lines))}


def _around(lines: Iterable[int], before: int, after: int) -> set[int]:
    """These lines with their neighbours (possibly beyond the ends)."""
    return {near for line in lines for near in range(line - before, line + after + 1)}


def _size(doc: Doc, start: int, end: int) -> int:
    """Characters of lines [start, end) in a view; a long line is shown in pieces and counts as LONG_LINE."""
    return sum(min(len(text), LONG_LINE) + 1 for text in doc.lines[start:end])


def _best(doc: Doc, scores: Mapping[int, float], share: float, most: float = 0) -> set[int]:
    """The best-scored lines that together hold `share` of the text; units of up to `most` lines are taken whole.

    A unit counts by the sum of its lines' scores over the square root of its length, so that neither the longest nor
    the shortest wins by itself. Ties by position.
    """
    left = share * min(len(doc.text), _SHARED_MOST)
    wholes = [range(unit.start, unit.end) for unit in (doc.units() if most else ()) if unit.end - unit.start <= most]
    alone = set(scores).difference(*wholes)
    ranked = [(-round(sum([scores.get(line, 0.0) for line in lines]) / len(lines) ** 0.5, 6), lines[0], lines[-1] + 1)
              for lines in (*wholes, *(range(line, line + 1) for line in alone))]
    chosen: set[int] = set()
    for score, start, end in sorted(ranked):
        size = _size(doc, start, end)
        if score < 0 and size <= left:
            left -= size
            chosen.update(range(start, end))
    return chosen


def _part(doc: Doc, share: float, backwards: bool = False) -> set[int]:
    """The first (or last) lines that hold `share` of the characters."""
    lines = range(len(doc.lines))[::-1 if backwards else 1]
    sizes = accumulate(_size(doc, line, line + 1) for line in lines)
    return {line for line, _ in zip(lines, takewhile((share * min(len(doc.text), _SHARED_MOST)).__ge__, sizes))}


@_once
def _signal_lines(doc: Doc) -> set[int]:
    """The lines that tell of trouble; rows of passing tests never do."""
    told = {line for word in _SIGNAL_WORDS for line in _lines_with(doc, word, rule="signal")}
    passing, lines = pattern("passing-row").search, _plain(doc)
    return {line for line in told if not passing(lines[line])}


def _firsts(doc: Doc, count: int) -> set[int]:
    """The first `count` lines of each block (of a list: of each name) that say something: neither blank nor a bar."""
    found: set[int] = set()
    heads = {block.name if doc.shape in _LISTS else block: block for block in (blocks(doc)[::-1] if count else ())}
    for block in heads.values():
        lines = range(block.start, min(block.start + _NEAR, block.end))
        found.update([line for line in lines if len(set(doc.bare[line].strip())) > 1][:count])
    return found


def outline(doc: Doc, terms: _Terms = {}) -> View | None:
    """Code: the signature lines. Prose: each heading (also underlined ones) with the first line of its text."""
    rows = list(signatures(doc) if doc.kind == "code" else _firsts(doc, 2))
    return _view(doc, "outline", rows, terms) if len(rows) >= 2 else None


def focus(doc: Doc, terms: _Terms) -> View | None:
    """The lines with the most telling case terms, each with three lines around."""
    hits = _best(doc, _scores(doc, terms), _SHARES["search"][3])
    return _view(doc, "focus", _around(hits, 3, 3), terms) if hits else None


def signals(doc: Doc, terms: _Terms = {}) -> View | None:
    """Every line that tells of trouble and the last eight, each with its neighbours."""
    return _view(doc, "signals", _around(_signal_lines(doc) | _edges(doc, 0, 8), 1, 1), terms)


def tree(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first eight entries of each directory, and entries that case terms name; for two directories or more."""
    if doc.shape not in _LISTS[:2] or len(blocks(doc)) < 2: return None
    return _view(doc, "tree", _firsts(doc, 8) | _by_shares(doc, terms), terms)


def matches(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first six rows of each file of a search, and every line that is no row; needs 10 rows, 60 % of the lines."""
    row, least = pattern("match-row").match, max(10, 0.6 * len(doc.lines))
    rows = {line for line, text in enumerate(_plain(doc)) if row(text)}
    if len(rows) < least and doc.shape == "search":  # rows below the name of their file, or without numbers
        rows.update(*(range(block.start, block.end) for block in blocks(doc)))
    others = [line for line, text in enumerate(doc.lines) if line not in rows and text.strip() not in ("", "--")]
    return _view(doc, "matches", _firsts(doc, 6).union(others), terms) if len(rows) >= least else None


def log(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first two and the last line of each template, so also every rare line and rare signal, and the end.

    A template is the line with numbers, paths, URLs and quotations taken out. Not offered when that is more than 60 %
    of the lines (the text is no log).
    """
    keep = {line for group in _templates(doc) for line in (*group[:_FEW], group[-1])}
    return _view(doc, "log", keep | _edges(doc, 0, 5), terms) if len(keep) <= _ADMITTED * len(doc.lines) else None


@_once
def _templates(doc: Doc) -> list[list[int]]:
    """The lines grouped by their template (see `log`), blank ones left out."""
    thin = pattern("varying").sub
    # any digit is as good as another there: with one digit for all, most lines of a log are the same few texts (in
    # bytes: that takes a hundredth of the time)
    raw = "\n".join([line[:300] for line in doc.lines]).encode("utf-8", "surrogatepass")
    texts = raw.translate(bytes.maketrans(b"123456789", b"0" * 9)).decode("utf-8", "surrogatepass").split("\n")
    template = {text: thin("#", text.strip()) for text in set(texts)}
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for line, text in enumerate(texts): groups[template[text]].append(line)
    groups.pop("", None)
    return list(groups.values())


def sections(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first line of each section; for two sections or more."""
    return _view(doc, "sections", _firsts(doc, 1), terms) if len(blocks(doc)) >= 2 else None


def sample(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first 12 and the last 2 lines, as the reference."""
    return _view(doc, "sample", _edges(doc, 12, 2), terms)


def head_tail(doc: Doc, terms: _Terms = {}) -> View | None:
    """The first 40 and the last 20 lines."""
    return _view(doc, "head_tail", _edges(doc, 40, 20), terms)


# Where failures may start and runs break, for a quick search; the rules then decide.
_FAILURE_WORDS = ("(fail)", "___ ", "fail: ", "error: ", " stdout ----", " panicked at ", "● ", "fail ", ") ", "✖ ",
                  "✗ ", "✘ ", "× ", "not ok ", "<<< ", "failed", "[fail]", "***", "could not compile",
                  "importerror while", "compilation error", "no tests ran", "segmentation fault", "fatal python",
                  "=== ", "failures =", "errors =", "error occurred", "exception during", "node:internal", "js:", "ts:")
# Source lines before pytest's `>` line: without the 6 edits were missed, with more nothing was gained; but up to 5
# failures are fixed one by one, from the source that the runner printed: most of a function.
_BEFORE_MARK, _FEW_FAILURES, _BEFORE_MARK_FEW = 6, 5, 24


def testlog(doc: Doc, terms: _Terms = {}) -> View | None:
    """Failing tests with their assertion and own frames with source, suite-level failures, final counts."""
    return _view(doc, "testlog", _failed(doc), terms) if _failed(doc) else None


@_once
def _failed(doc: Doc) -> set[int]:
    """What `testlog` keeps of a run in which something failed; nothing of another.

    Library frames are folded; a failure that says what an earlier one said keeps its first line and its `E` lines.
    """
    lines, lost = _plain(doc), pattern("suite-failure").search
    near = sorted({line for word in _FAILURE_WORDS for line in _lines_with(doc, word)})
    failed = _failures(lines, near)
    suites = {line: found["build"] for line in near for found in [lost(lines[line])] if found}
    keep = set(suites)
    if any(suites.values()):  # the first errors of what was not built; a place in a failure is a frame
        inside = {line for start, end in failed for line in range(start, end)}
        errors = [item for item in _diagnostics(doc) if item.kind == "error" and item.start not in inside]
        keep.update(*(range(item.start, min(item.end, item.start + _MANY)) for item in errors[:_MANY]))
    # a bar above the failures, or a verdict without words, is a line alone
    before = _BEFORE_MARK if sum(end - start > 1 for start, end in failed) > _FEW_FAILURES else _BEFORE_MARK_FEW
    told: set[str] = set()
    for start, end in failed: keep |= _failure(lines, start, end, told, before)
    return keep | _summary_lines(doc) | _edges(doc, 3, 5) if keep else set()


def _summary_lines(doc: Doc) -> set[int]:
    """The lines that speak of a whole test run or name what failed in it."""
    summary = pattern("test-summary").match
    return {line for line, text in enumerate(_plain(doc)) if summary(text)}


def _failures(lines: Sequence[str], near: Sequence[int]) -> list[tuple[int, int]]:
    """The failures that these lines open as ranges [start, end): to a line of `failure-end` or the next failure."""
    ended = pattern("failure-end").match
    matched = ((line, pattern("failure-start").match(lines[line])) for line in near)
    opened = {line: found["test"] for line, found in matched if found}
    # `go test -v` prints the words of a test below its name (`=== RUN   TestX`), and all verdicts at the end
    named = {line for line in near if lines[line][:4] == "=== " and lines[line].split()[-1] in opened.values()}
    starts = sorted(named.union(opened))
    found: list[tuple[int, int]] = []
    for start, stop in zip(starts, [*starts[1:], len(lines)]):
        end = next((line for line in range(start + 1, stop) if ended(lines[line])), stop)
        # go, bun and ctest print the verdict after the words
        if lines[start].lstrip().startswith(("--- FAIL:", "(fail)")) or "***" in lines[start]:
            least = max(found[-1][1] if found else 0, start - _MANY)
            while start > least and not ended(lines[start - 1]): start -= 1
        found.append((start, end))
    return found


def _failure(lines: Sequence[str], start: int, end: int, told: set[str], before: int) -> set[int]:
    """The lines of one failure [start, end) that are worth reading; `told` holds what earlier ones said.

    before: lines of source kept above a marked line.
    """
    frame, folded = pattern("frame").match, _library_lines(lines, start, end)
    own = [line for line in range(start + 1, end) if lines[line].strip() and line not in folded]
    exact = {line for line in own if lines[line].startswith("E  ")}
    marked = [line for line in own if lines[line].startswith(">")]
    near = _around(marked, before, 0) if marked else set(own[:_MANY])
    near |= exact | _around([line for line in own if frame(lines[line])], 0, 1)  # a frame's source stands below it
    kept = near.intersection(own)
    fresh = {line for line in kept if line in exact or lines[line] not in told}
    told.update(lines[line] for line in kept)
    return {start, *fresh}


def _library_lines(lines: Sequence[str], start: int, end: int) -> set[int]:
    """The lines of frames in libraries: a frame line with the deeper lines below it, or, where pytest prints the place
    below the source, all lines back to the frame before; `E` lines never."""
    frame, library = pattern("frame").match, pattern("library").search
    frames = [line for line in range(start + 1, end) if frame(lines[line])]
    folded: set[int] = set()
    for before, line, after in zip([start, *frames], frames, [*frames[1:], end]):
        text = lines[line]
        indent = len(text) - len(text.lstrip())
        below_source = not indent and text[0] != "F" and ": in " not in text
        deeper = takewhile(lambda at: lines[at][:indent + 1].isspace(), range(line + 1, after))
        named = line - (" +0x" in text)  # Go prints the place of a frame below its name
        if library(text): folded.update(range(before + 1, line + 1) if below_source else (named, line, *deeper))
    return {line for line in folded if not lines[line].startswith("E  ")}


# ---------------------------------------------------------------- base views by shape, name cover, long lines

# What a base view takes by shape: lines of each block that say something, then shares of the characters: first lines,
# last lines, lines with case terms; the best of those measured on recorded sessions. A screen's end is its
# present; a report's end is used most. Last: the lines up to which a unit with terms is taken whole, for hunks and
# commits are read whole, and short records of JSON.
_SHARES = {
    "test": (0, 0.06, 0.04, 0, 0), "build": (0, 0, 0, 0.08, 0), "search": (0, 0, 0, 0.15, 0),
    "diff": (0, 0, 0, 0.18, inf), "git-log": (1, 0, 0, 0.1, inf), "json": (0, 0, 0, 0.1, UNIT_LINES),
    "report": (2, 0, 0.25, 0.15, 0), "web": (0, 0.15, 0, 0.15, 0), "tree": (1, 0, 0, 0.15, 0),
    "filelist": (1, 0, 0, 0.15, 0), "terminal": (0, 0, 0.3, 0, 0), "table": (0, 0, 0, 0.05, 0),
    "log": (0, 0.06, 0.06, 0.1, 0), "other": (0, 0.06, 0.06, 0.2, 0)}
_LIST_WHOLE = 110  # lines: a path list this short stays whole, for any of its equals may be the one that is picked
_SHARED_MOST = 400_000  # characters; the shares of a larger text are those of a text of this size: views stay small
_RARE = 0.03  # share of the lines: more lines than these that are unlike all others are no exception
_BUILD_LINES = 20_000  # lines read for diagnostics: the first ones are mended first, and the rest is their echo
_FEW_VALUES = 12  # different values of a JSON key that make it a kind, not a content
_NEAR = 12  # lines below a heading in which its text begins, and below a commit's hash its subject


def base(doc: Doc, terms: _Terms) -> View | None:
    """The view that suits the shape best by measurement; None when the text is better sent whole.

    Code has none (its outline and blocks are the lens's); docs and config are shown by their outline, else sections.
    """
    if doc.shape in ("docs", "config"): return outline(doc, terms) or sections(doc, terms)
    if doc.shape in ("read", "display", "edit") or doc.shape in ("tree", "filelist") and len(doc.lines) <= _LIST_WHOLE:
        return None
    return _view(doc, "base", _BASES.get(doc.shape, _by_shares)(doc, terms), terms)


def _by_shares(doc: Doc, terms: _Terms) -> set[int]:
    """The lines of each block, the first, the last and those with case terms, as _SHARES gives them to the shape."""
    firsts, head, tail, told, whole = _SHARES.get(doc.shape, _SHARES["other"])
    named = _best(doc, _scores(doc, terms), told, whole)
    return _firsts(doc, firsts) | _part(doc, head) | _part(doc, tail, backwards=True) | named


def _base_test(doc: Doc, terms: _Terms) -> set[int]:
    """Failures as `testlog`; of a run that passed its ends and summary lines."""
    return _failed(doc) or _summary_lines(doc) | _by_shares(doc, terms) | _rare_signals(doc, 0.02)


def _base_build(doc: Doc, terms: _Terms) -> set[int]:
    """Each diagnostic as a block: all errors up to 40, else two per code; each file once; term rows; the end.

    What is said a third time word for word shows its place only, without the source below.
    """
    found, lines, place, library = _diagnostics(doc), _plain(doc), pattern("diagnostic"), pattern("library").search
    keep = _edges(doc, 2, 20)  # the last lines of an install or build say how it ended
    few = sum(item.kind == "error" for item in found) <= _MANY
    seen: "Counter[str]" = Counter()
    paths = {""}
    for item in found:
        rows = range(item.start, min(item.end, item.start + _MANY))
        where = next((line for line in rows if place.match(lines[line])), item.start)
        at = place.match(lines[where])
        path, message = at["path"] if at else "", place.sub("", lines[item.start])
        seen.update({item.name, message})
        error, foreign = few and item.kind == "error", item.kind != "error" and library(path)
        if seen[message] <= _FEW and (error or seen[item.name] <= _FEW and not foreign): keep.update(rows)
        if error or path not in paths and len(paths) < _MANY and not foreign: keep.update((item.start, where))
        paths.add(path)
    scores = _scores(doc, terms)  # one of a rare code tells more than one of hundreds
    rare = {item.start: scores.get(item.start, 0.0) * log2(1 + len(found) / seen[item.name]) for item in found}
    inside = {line for item in found for line in range(item.start, item.end)}
    return keep | _best(doc, rare, _SHARES["build"][3]) | _outstanding(doc) - inside


def _diagnostics(doc: Doc) -> list[Block]:
    """The diagnostics of a build, ascending: one begins where a place or a severity word stands and takes the lines
    below that are deeper or quote source. Its name is the tool's code, else the message without particulars."""
    place, severe = pattern("diagnostic").match, pattern("severity").search
    quote, coded, thin = pattern("source-quote").match, pattern("message-code").search, pattern("varying").sub
    near = _signal_lines(doc).union(_lines_with(doc, "note"))
    found: list[Block] = []
    indent = -1  # of the diagnostic that is open; -1: none
    for line, text in enumerate(_plain(doc)[:_BUILD_LINES]):
        at, depth = place(text), len(text) - len(text.lstrip())
        if indent >= 0 and text.strip() and (quote(text) or depth > indent and not at):
            found[-1] = found[-1]._replace(end=line + 1)
            continue
        said = severe(text) if line in near else None
        indent = depth if at or said else -1
        if indent >= 0:
            code = coded(text)
            name = code.group() if code else thin("#", text[:_WIDTH])[:80].strip()
            found.append(Block(name, line, line + 1, 0, said.lastgroup or "" if said else "error"))
    return found


def _base_search(doc: Doc, terms: _Terms) -> set[int]:
    """The rows that the case terms choose, and each term's best two: a frequent word must not crowd out the others."""
    scores, keep = _scores(doc, terms), _by_shares(doc, terms)
    for term in terms:
        hits = _lines_with(doc, term, 400, "word-start")  # of more the best is no better, and looking takes time
        keep.update(sorted(hits, key=lambda line: -scores.get(line, 0.0))[:_FEW])
    return keep


def _base_diff(doc: Doc, terms: _Terms) -> set[int]:
    """The first line of each file and hunk, changed declarations, and hunks by case terms, whole."""
    declared = pattern("declaration").match
    changed = {line for line, text in enumerate(_plain(doc)) if text[:1] in ("+", "-") and declared(text)}
    return changed.union(block.start for block in blocks(doc)) | _by_shares(doc, terms)


def _base_json(doc: Doc, terms: _Terms) -> set[int]:
    """The first record, each value of few-valued keys once, whole records of term hits."""
    found = enumerate(map(pattern("json-pair").match, _plain(doc)))
    rows = [(line, pair[1], pair[2]) for line, pair in found if pair]
    firsts = {(key, value): line for line, key, value in reversed(rows)}
    counts, values = Counter(key for _, key, _ in rows), Counter(key for key, _ in firsts)
    kinds = {key for key, different in values.items() if different <= _FEW_VALUES and counts[key] >= 4 * different}
    first = range(min(UNIT_LINES, doc.units()[:2][-1].end))
    return {*first, *(line for (key, _), line in firsts.items() if key in kinds)} | _by_shares(doc, terms)


def _base_git_log(doc: Doc, terms: _Terms) -> set[int]:
    """Hash and subject of each commit, and whole commits of term hits."""
    heads = [range(block.start, min(block.end, block.start + _NEAR)) for block in blocks(doc)]
    subjects = {next((line for line in head if doc.lines[line][:4] == "    "), head[0]) for head in heads}
    return subjects | _by_shares(doc, terms)


def _base_table(doc: Doc, terms: _Terms) -> set[int]:
    """The header, the first eight and last four rows, the rows of extremes, those with terms, and what stands out."""
    number = pattern("number").match
    sign = max("\t;|,", key=doc.lines[0].count)
    best: dict[tuple[int, int], tuple[float, int]] = {}  # (column, direction): (value × direction, -row)
    for line, text in enumerate(doc.lines):
        for column, cell in enumerate(text[:LONG_LINE].split(sign)):
            for way in (1, -1) if number(cell) else ():
                best[column, way] = max(best.get((column, way), (-inf, 0)), (float(cell) * way, -line))
    return {-line for _, line in best.values()} | _edges(doc, 9, 5) | _by_shares(doc, terms) | _outstanding(doc)


def _base_other(doc: Doc, terms: _Terms) -> set[int]:
    """Head, end, lines with case terms, and what stands out; of a log its templates, as in `log`, and such lines."""
    view = log(doc, terms) if doc.shape == "log" else None
    told = _best(doc, _scores(doc, terms), _SHARES["log"][3])
    return told.union(view.keep) if view else _by_shares(doc, terms) | _outstanding(doc)


def _outstanding(doc: Doc) -> set[int]:
    """Rare signals, and what is said once or twice among many lines that are alike; few, or none."""
    rare = {line for group in _templates(doc) if len(group) <= _FEW for line in group}
    return _rare_signals(doc, 0.2) | (rare if len(rare) <= _RARE * len(doc.lines) else set())


def _rare_signals(doc: Doc, share: float) -> set[int]:
    """Two signal lines of each template, when these are at most `share` of the lines: more are a program's own talk."""
    told = {line for group in _templates(doc) for line in [line for line in group if line in _signal_lines(doc)][:_FEW]}
    return told if len(told) <= share * len(doc.lines) else set()


# What chooses the lines of a shape's base view; else _by_shares.
_BASES = {"test": _base_test, "build": _base_build, "search": _base_search, "diff": _base_diff, "json": _base_json,
          "git-log": _base_git_log, "table": _base_table, "log": _base_other, "other": _base_other}

# P(a new name of an output is used in the next two messages), by shape, counted per name on recorded sessions; of
# tests and builds 0.46 and 0.23 of it, for their names are mostly not the reader's and nothing was lost by that; of
# reports twice, for a report is what its reader asked for.
_USED = {"report": 0.102, "docs": 0.026, "other": 0.023, "test": 0.00874, "json": 0.013, "build": 0.00299,
         "search": 0.010, "diff": 0.007, "terminal": 0.006, "tree": 0.001, "filelist": 0.001, "table": 0.001}
_PRICE = 13_000  # characters that a name which was needed and missing costs (3,240 tokens a lost reference, measured)
_SEEN_LIFT = (0.6, 0.6, 1.0, 2.3, 2.3, 2.3, 2.8)  # by how often a name stands in the output; the last for more
_SHARED_LIFT, _STRANGE_LIFT = 1.7, 0.8  # the name shares a word with the case, or not
_STRUCTURE_LIFT, _TERM_LIFT, _EARLY_LIFT = 1.6, 2.0, 1.5  # of the line: a declaration, many terms, in the first fifth
_MARKER_COST = 8  # characters: a line that is put back splits a gap and makes one more marker
_COVER_LINES = 400  # at either end of a text; between them only lines with many terms: others are a list of equals
_COVER_CHARS = 8_000  # characters; with four times as many no more names that were needed were there (measured)
_COVER_MOST = 0.35  # of the text: a full cover of a text costs 12-28 %, one of a list of equals 60-79 % for nothing
_LONG_COST = 600  # characters that a long line costs in pieces, before the pieces of the names


def cover(doc: Doc, keep: Iterable[int], known: AbstractSet[str] = frozenset(), terms: _Terms = {}) -> list[int]:
    """`keep` with the dropped lines whose names are worth their characters, ascending.

    A line is worth P(its names are used) × _PRICE; names in kept lines or in `known` (the session's) are worth nothing.
    Greedy by worth per character, as long as the worth exceeds the length.
    """
    shown, scores, lines, find = set(keep), _scores(doc, terms), range(len(doc.lines)), pattern("name").findall
    ranked = sorted(scores.values())
    telling = {line for line, score in scores.items() if score >= ranked[len(ranked) * 4 // 5]}
    rows = telling.union(lines[:_COVER_LINES], lines[-_COVER_LINES:])
    named = {line: find(doc.lines[line], 0, _FAR) for line in rows}
    have = known | names("\n".join([doc.lines[line] for line in shown]))
    chance = _chances(doc, Counter(chain.from_iterable(named.values())), have, terms)
    left = min(_COVER_CHARS, _COVER_MOST * len(doc.text))
    wanted = {line: [name for name in dict.fromkeys(named[line]) if name in chance] for line in rows - shown}
    for _, line, gain, size in sorted(_priced(doc, wanted, chance, telling)):
        if size <= left and round(gain * sum([chance.get(name, 0.0) for name in wanted[line]]), 9) > 1:
            left -= size
            shown.add(line)
            for name in wanted[line]: chance.pop(name, None)  # a name is worth something once
    return sorted(shown)


def _priced(doc: Doc, wanted: Mapping[int, Sequence[str]], chance: Mapping[str, float],
            telling: AbstractSet[int]) -> Iterator[tuple[float, int, float, int]]:
    """Of each line with new names that could be worth it: minus its worth per character, its number, what a unit of P
    is worth per character there, its size."""
    structure = pattern("declaration").match
    for line, new in wanted.items():
        text = doc.lines[line]
        size = len(text) + _MARKER_COST if len(text) <= LONG_LINE else _LONG_COST
        gain, chances = _PRICE / size, sum([chance[name] for name in new])
        if line < len(doc.lines) / 5: gain *= _EARLY_LIFT
        if line in telling: gain *= _TERM_LIFT
        if gain * chances * _STRUCTURE_LIFT > 1:
            gain *= _STRUCTURE_LIFT if structure(text, 0, LONG_LINE) else 1.0
            yield -round(gain * chances, 9), line, gain, size


def _chances(doc: Doc, counts: Mapping[str, int], have: AbstractSet[str], terms: _Terms) -> dict[str, float]:
    """P(used) of each of these names, counted, that is not in `have`."""
    part, rate = pattern("name-part").findall, _USED.get(doc.shape, 0.012)  # that of all shapes together
    found: dict[str, float] = {}
    for name in names(" ".join(counts)).difference(have):
        shared = any([_stem(word.lower()) in terms for word in part(name) if len(word) > 3])
        lift = _SHARED_LIFT if shared else _STRANGE_LIFT
        found[name] = rate * lift * _SEEN_LIFT[min(counts[name], len(_SEEN_LIFT) - 1)]
    return found


_LINE_READ = 500_000  # characters at either end of a long line that are cut into pieces; what is between them goes


def fit(doc: Doc, keep: Iterable[int], terms: _Terms = {}, known: AbstractSet[str] = frozenset()) -> dict[int, _Spans]:
    """The pieces of the kept lines of over LONG_LINE characters (see View.pieces); none where bytes must stay exact.

    Two pieces at either end, those with case terms, and those whose names are worth their characters.
    """
    return {line: _pieces(doc, doc.lines[line], terms, known) for line in keep
            if len(doc.lines[line]) > LONG_LINE and doc.kind in TIDIED}


def _pieces(doc: Doc, text: str, terms: _Terms, known: AbstractSet[str]) -> _Spans:
    """The pieces of one long line, chosen as the lines of a text are: each piece is a line of a Doc of its own."""
    cut, middle = pattern("piece").finditer, max(_LINE_READ, len(text) - _LINE_READ)
    spans = [found.span() for found in (*cut(text, 0, _LINE_READ), *cut(text, middle))]
    pieces = Doc("\n".join([text[start:end] for start, end in spans]))
    pieces.kind, pieces.shape = doc.kind, doc.shape
    keep = _edges(pieces, 2, 2) | _best(pieces, _scores(pieces, terms), _SHARES["search"][3])
    return tuple([spans[at] for at in cover(pieces, keep, known, terms)])


# Which views a kind offers after its base view, in this order (the reference's table, with more for data).
_OFFERED: dict[str, Sequence[Callable[[Doc, _Terms], View | None]]] = {
    "code": (outline, focus, head_tail), "prose": (outline, focus, head_tail),
    "command": (testlog, matches, log, sections, signals, focus, head_tail),
    "listing": (matches, tree, signals, focus, head_tail), "data": (outline, sample, log, signals, focus, head_tail)}


def candidates(doc: Doc, terms: _Terms, most: int = 99) -> list[View]:
    """The views on offer: the shape's base view, then the kind's; each of at most 60 % of the full characters.

    One of each name. The name cover is not in them: the caller adds it to the chosen view (`cover`, then `fit`); a view
    itself depends on the output and the case alone. most: how many are wanted, the first of them: who only takes the
    base view need not pay for others.
    """
    found: dict[str, View] = {}
    for make in (base, *_OFFERED.get(doc.kind, ())):
        view = make(doc, terms) if len(found) < most else None
        if view and view.name not in found and len(render(doc, view).text) <= _ADMITTED * len(doc.text):
            found[view.name] = view
    return list(found.values())


def without_known(doc: Doc, view: View, runs: Sequence[Known]) -> View:
    """The view without the lines of these runs; a run of under 120 characters, about two markers, is sent again."""
    kept = set(view.keep)
    known = [run for run in runs if sum(len(doc.lines[at]) + 1 for at in kept & {*range(run.start, run.end)}) >= 120]
    kept.difference_update(*(range(run.start, run.end) for run in known))
    name = "memory" if known and view.name == "full" else view.name
    return view._replace(name=name, keep=tuple(sorted(kept)), known=tuple(known))


def dropped(doc: Doc, view: View) -> tuple[str, ...]:
    """Names of the outermost blocks of code of which no line but the first is sent or known; what stands between blocks
    has no name that tells anything.

    Beginning and end of a huge text need none, and finding blocks in it would take half a second a megabyte.
    """
    kept = set(view.keep).union(*(range(run.start, run.end) for run in view.known))
    units = doc.units() if doc.kind == "code" and view.name != "head_tail" and len(kept) < len(doc.lines) else ()
    named = [unit for unit in units if unit.kind not in ("rest", "section") and unit.end - unit.start > 3]
    return tuple(dict.fromkeys(unit.name for unit in named if kept.isdisjoint((unit.end - 2, unit.end - 1))))


# ---------------------------------------------------------------- rendering and tidying

_BAR = 24  # characters of a bar that stay; the rule takes longer ones only, so that no bar grows by its `…`
TIDIED = ("command", "listing", "data")  # kinds whose lines may be tidied; code and prose are edited from
# shapes of those kinds that show lines of files: these are edited from and quoted, byte for byte
FILE_TEXT = ("diff", "search", "display", "config", "docs", "read")


def tidy(line: str) -> str:
    """Shorten bars and inner padding, drop trailing blanks; a line that starts with `E` or `>` stays as it is.

    `E` and `>` lines carry pytest's assertion columns, which are read by alignment.
    """
    if line[:1] in ("E", ">"): return line
    if "  " in line or "\t" in line: line = pattern("padding").sub("  ", line).rstrip(" \t")
    return pattern("bar").sub(lambda match: match.group()[:_BAR] + "…", line)


def _thinned(doc: Doc, line: int) -> str:
    """The line without its number prefix where the number follows from the line before.

    Every tenth number stays, so that any line is at most nine lines from a printed number (measured best).
    """
    (_, before), (cut, number) = doc.numbers.prefix[line - 1:line + 1]
    return doc.lines[line][cut if before and number == before + 1 and number % 10 else 0:]


def _in_pieces(text: str, pieces: Sequence[tuple[int, int]]) -> str:
    """One long line with the ranges of `pieces` and, between them, how many characters are missing."""
    spans = zip([0, *(end for _, end in pieces)], (*pieces, (len(text), len(text))))  # (end of the piece before, piece)
    return "".join([f"{MARK}{start - at} chars{MARK}" * (start > at) + text[start:end] for at, (start, end) in spans])


def markers(doc: Doc, view: View, start: int, end: int) -> list[str]:
    """The marker lines for the gap [start, end): one for each run that the session knows, one for each other run."""
    found: list[str] = []
    for known in (*view.known, Known(end, end, "")):
        low, high = min(max(start, known.start), end), min(known.end, end)
        found += [f"{MARK} {doc.numbers.label(start, low)}"] if start < low else []
        found += [f"{MARK} {doc.numbers.label(low, high)} {known.note}"] if low < high else []
        start = max(start, high)
    return found


def render(doc: Doc, view: View, *, gutter: bool = False, thin: bool = True) -> Rendered:
    """Print a view: kept lines in order, a marker line for every gap (also a leading and a trailing one).

    gutter: put ` 16│ ` before each line of an output that has no numbers of its own. thin: drop printed number
    prefixes that follow from the line before. Lines of the kinds in TIDIED are tidied when the view leaves
    something out.
    """
    total = len(doc.lines)
    tidied = doc.kind in TIDIED and doc.shape not in FILE_TEXT and (len(view.keep) < total or bool(view.pieces))
    width = len(str(doc.numbers.numbers[-1] or total)) if gutter and not doc.numbers.prefix else 0
    out, kept, edges = list[str](), list[int](), (-1, *view.keep)
    for before, line in zip(edges, view.keep):
        gap = markers(doc, view, before + 1, line) if line > before + 1 else []
        text = doc.lines[line]
        shown = _in_pieces(text, view.pieces[line]) if line in view.pieces else tidy(text) if tidied else text
        if shown == text:
            kept.append(line)
            shown = _thinned(doc, line) if thin and doc.numbers.prefix and line and not gap else text
        out += [*gap, f"{doc.numbers.numbers[line]:>{width}}│ {shown}" if width else shown]
    return Rendered("\n".join(out + markers(doc, view, edges[-1] + 1, total)), tuple(kept))
