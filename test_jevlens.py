"""The tests of jevlens, in one file: python3 -m pytest -q test_jevlens.py (no network, no data but what stands here).

Cases stand in tables whose keys are sentences. Fixtures are short real outputs; a comment names tool and version.
"""
from __future__ import annotations

import ast
import base64
import contextlib
import copy
import errno
import gc
import gzip
import hashlib
import html
import io
import itertools
import json
import os
import pathlib
import pickle
import random
import re
import shlex
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

import pytest

import bench
import history
import jevlens
import views_regex
import views_regex as views
from jevlens import (
    PROVIDERS, Answer, AnswerError, DeadlineError, JevlensError, RefusedError, RequestError, SystemOne, JevJudge,
    TransportError, build_request, choice, endpoint, noul, parse_answer, score
)

# ================================================================ fixtures: short real outputs


# ================================================================ rules: every pattern hits, misses and is linear

EVIL_LINE = 100_000  # characters; a quadratic rule takes over a second on it, a linear one a few hundredths


def test_every_rule_has_a_name_of_its_own() -> None:
    tables = [table for name, table in vars(views).items() if name.endswith("_RULES") and isinstance(table, tuple)]
    names = [row.name for table in tables for row in table]
    assert sorted(names) == sorted(views.RULES) and len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(views.RULES))
def test_rule_hits_its_line_and_misses_the_nearest(name: str) -> None:
    row = views.RULES[name]
    assert views.pattern(name).search(row.hit), "hit"
    assert not views.pattern(name).search(row.miss), "miss"


def test_no_rule_takes_half_a_second_on_an_evil_line() -> None:
    common = ("\n", "a", "1", " ", "\t", "a ", "a, ", "a:", "/", "[({", "\"'", "-=")
    for row in views.RULES.values():
        for piece in (*common, row.hit, (row.hit.split() or ["a"])[0]):
            line = piece * (EVIL_LINE // len(piece)) + "\tx##"
            start = time.process_time()
            views.pattern(row.name).search(line)
            assert time.process_time() - start < 0.5, (row.name, piece)


@pytest.mark.parametrize("pad", [" ", "a", ",", "(", "a ", "<a", ":1"])
def test_no_rule_is_quadratic_behind_the_beginning_of_its_line(pad: str) -> None:
    for row in views.RULES.values():
        for stop in re.finditer(r"\b|$", row.hit):
            line = row.hit[:stop.start()] + pad * (EVIL_LINE // 5 // len(pad)) + "\0"
            start = time.process_time()
            views.pattern(row.name).search(line)
            assert time.process_time() - start < 0.5, (row.name, line[:40])


# ================================================================ kinds and shapes

# git 2.39.5, `git diff`
DIFF_TEXT = """diff --git a/pkg/calc.py b/pkg/calc.py
index b4f1976..5e7a757 100644
--- a/pkg/calc.py
+++ b/pkg/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a + b
+    return b + a
 
 
 def mean(values):
"""
# pytest 9.2.0, `pytest -q test_calc.py`
PYTEST_TEXT = """F.                                                                       [100%]
=================================== FAILURES ===================================
___________________________________ test_add ___________________________________

    def test_add():
>       assert add(1, 2) == 4
E       assert 3 == 4
E        +  where 3 = add(1, 2)

test_calc.py:5: AssertionError
=========================== short test summary info ============================
FAILED test_calc.py::test_add - assert 3 == 4
1 failed, 1 passed in 1.26s
"""
# GNU grep 3.8, `grep -rn "def " pkg test_calc.py`
GREP_TEXT = """pkg/calc.py:1:def add(a, b):
pkg/calc.py:5:def mean(values):
test_calc.py:4:def test_add():
test_calc.py:8:def test_mean():
"""
# gcc 12.2.0, `gcc -c a.c`
GCC_TEXT = """a.c: In function ‘main’:
a.c:1:25: error: ‘x’ undeclared (first use in this function)
    1 | int main(void) { return x; }
      |                         ^
a.c:1:25: note: each undeclared identifier is reported only once for each function it appears in
"""
CODE_TEXT = "import os\n\n\ndef add(a, b):\n    return a + b\n\n\nclass Calc:\n    pass\n"
# licence first: the first line says nothing (a fault of the reference)
LICENSED_TEXT = "/*\n * Copyright: nobody.\n */\n\n" + "export function add(a, b) {\n  return a + b;\n}\n" * 3
PATHS_TEXT = "".join(f"./src/pkg{n}/mod.py\n" for n in range(20))
MARKDOWN_TEXT = "# Title\n\nText.\n\n## Usage\n\nMore text.\n"
CSV_TEXT = "day,rain,wind\n" + "".join(f"2026-01-{n:02},{n}.5,{n}\n" for n in range(1, 29))
LOG_TEXT = "".join(f"2026-01-02T03:04:{n:02}Z worker {n} started\n" for n in range(30))
CODEX_TEXT = (
    "Chunk ID: 838920\nWall time: 0.0058 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\n")
OPENCODE_TEXT = "<path>/repo/a.py</path>\n<type>file</type>\n<content>1: import os\n2: x = 1\n"
KIND_ROWS: Dict[str, Tuple[str, str, Dict[str, Any], str, str]] = {  # sentence -> (text, tool, args, kind, shape)
    "a read of a code file is code": (CODE_TEXT, "read", {"path": "a.py"}, "code", "read"),
    "a read of prose is prose": (MARKDOWN_TEXT, "read", {"path": "README.md"}, "prose", "docs"),
    "a licence without an extension is prose": ("Copyright\n", "read", {"path": "LICENSE"}, "prose", "docs"),
    "a read of JSON is data": ('{\n  "a": 1\n}\n', "read", {"path": "package.json"}, "data", "config"),
    "a Makefile is config": ("all:\n\tmake x\n", "read", {"path": "src/Makefile"}, "data", "config"),
    "a read of a table is data": (CSV_TEXT, "read", {"path": "rain.csv"}, "data", "table"),
    "a read of a log is data with the shape log": (LOG_TEXT, "read", {"path": "out.log"}, "data", "log"),
    "code without an extension is code after a licence": (LICENSED_TEXT, "read", {"path": "bin/tool"}, "code", "read"),
    "a table without an extension is data": (CSV_TEXT, "read", {"path": "rain"}, "data", "table"),
    "a patch that is read is a diff": (DIFF_TEXT, "read", {"path": "fix.patch"}, "command", "diff"),
    "a code file by cat is code": (CODE_TEXT, "bash", {"command": "cat a.py"}, "code", "display"),
    "a code file by nl and sed is code": (CODE_TEXT, "bash", {"command": "nl -ba a.py | sed -n '1,80p'"}, "code",
        "display"),
    "under the host's header a code file is code": (CODEX_TEXT + CODE_TEXT, "bash", {"command": "sed -n '1,9p' a.py"},
        "code",
                                                    "display"),
    "a cat that failed stays a command": ("cat: a.py: No such file or directory\n", "bash", {"command": "cat a.py"},
                                          "command", "display"),
    "mixed files stay a command": (CODE_TEXT + MARKDOWN_TEXT, "bash", {"command": "cat a.py README.md"}, "command",
        "display"),
    "prose with headings by cat is prose": (MARKDOWN_TEXT, "bash", {"command": "cat README.md"}, "prose", "docs"),
    "prose without headings by cat stays a command": ("Text.\n", "bash", {"command": "cat a.txt"}, "command", "docs"),
    "data by cat stays a command": (CSV_TEXT, "bash", {"command": "cat rain.csv"}, "command", "table"),
    "files with titles between them may be edited from": (
        CODE_TEXT * 3, "bash", {"command": "for f in a.py b.py; do echo $f; cat $f; done; cat c.py"}, "command",
        "display"),
    "a wrapped file is a read, whatever the call was": (OPENCODE_TEXT, "bash", {"command": "git diff"}, "code", "read"),
    "a diff is one whatever printed it": (DIFF_TEXT, "bash", {"command": "./review.sh"}, "command", "diff"),
    "a diff that adds a verdict is a diff": (DIFF_TEXT + "+1 failed, 1 passed in 1.26s\n", "bash",
        {"command": "git diff"},
                                             "command", "diff"),
    "a test that compares arrays with a diff is a test": (
        "There was 1 failure:\n\n1) CalcTest::testArr\nFailed asserting that two arrays are equal.\n"
        "--- Expected\n+++ Actual\n@@ @@\n-  1 => 2\n+  1 => 3\n\nFAILURES!\n"
        "Tests: 126, Assertions: 122, Failures: 1.\n",
        "bash", {"command": "vendor/bin/phpunit"}, "command", "test"),
    "a test run that is not built is a build": (
        "src/a.ts(1,2): error TS1005: x\n" * 4, "bash", {"command": "npm test"}, "command", "build"),
    "colours hide no diagnostics": (
        "\x1b[96ma.ts\x1b[0m:\x1b[93m1\x1b[0m:\x1b[93m41\x1b[0m - \x1b[91merror\x1b[0m TS2322: no\n" * 4,
        "bash", {"command": "./check"}, "command", "build"),
    "minitest": ("121 runs, 121 assertions, 1 failures, 0 errors, 0 skips\n", "bash", {"command": "ruby mt.rb"},
                 "command", "test"),
    "a test run is one whatever ran it": (PYTEST_TEXT, "bash", {"command": "make check"}, "command", "test"),
    "a commit whose hook runs the tests is a test run": (
        PYTEST_TEXT + "[main 0baa988] Add\n", "bash", {"command": "git commit -m 'Add'"}, "command", "test"),
    "go test": ("--- FAIL: TestX (0.00s)\n    x_test.go:3: no\nFAIL\n", "bash", {"command": "go test ./..."}, "command",
                "test"),
    "node:test": ("✖ adds (1ms)\nℹ pass 3\nℹ fail 1\n", "bash", {"command": "node --test"}, "command", "test"),
    "unittest": ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n", "bash", {"command": "python -m unittest"}, "command",
                 "test"),
    "a compiler": (GCC_TEXT, "bash", {"command": "gcc -c a.c"}, "command", "build"),
    "diagnostics whatever printed them": ("src/a.ts(1,2): error TS1005: x\n" * 4, "bash", {"command": "./check"},
        "command",
                                          "build"),
    "a search by grep": (GREP_TEXT, "bash", {"command": "grep -rn 'def ' ."}, "command", "search"),
    "a search tool lists": (GREP_TEXT, "grep", {"pattern": "def "}, "listing", "search"),
    "a search with headings": ("src/a.py\n12:def f():\n\nsrc/b.py\n3:x\n", "grep", {"pattern": "f"}, "listing",
        "search"),
    "a search with context": ("a.py-11-x\na.py:12:y\na.py-13-z\n--\n", "bash", {"command": "rg -C1 y"}, "command",
        "search"),
    "a search that lists files": ("src/a.py\nsrc/b.py\nsrc/c.py\n", "grep", {"pattern": "f"}, "listing", "filelist"),
    "a search that counts": ("src/a.py:3\nsrc/b.py:1\n", "bash", {"command": "grep -rc f src"}, "command", "filelist"),
    "a list of paths is a listing for any tool": (PATHS_TEXT, "bash", {"command": "./list.sh"}, "listing", "tree"),
    "find is a listing": ("a\nb\n", "find", {"pattern": "*"}, "listing", "tree"),
    "JSON by a command": ('{"a": [1, 2], "b": "' + "x" * 5000 + '"}', "bash", {"command": "gh api x"}, "command",
        "json"),
    "JSON by a tool is data": ('[{"a": 1},\n{"a": 2}]', "mcp__x__list", {}, "data", "json"),
    "a log by its time stamps": (LOG_TEXT, "bash", {"command": "./serve"}, "command", "log"),
    "git log": ("commit 0baa988b1419\nAuthor: A\n\n    Fix\n" * 3, "bash", {"command": "git log"}, "command",
        "git-log"),
    "a terminal may hold anything": (PYTEST_TEXT + DIFF_TEXT, "bash", {"command": "tmux capture-pane -p -t 3"},
        "command", "terminal"),
    "a report of a sub-agent": (MARKDOWN_TEXT, "Task", {"prompt": "look"}, "prose", "report"),
    "a web page": (MARKDOWN_TEXT, "WebFetch", {"url": "https://example.org"}, "prose", "web"),
    "the agent's own edit": (CODE_TEXT, "edit", {"path": "a.py"}, "code", "edit"),
    "the agent's own write of prose": (MARKDOWN_TEXT, "write", {"path": "a.md"}, "prose", "edit"),
    "nothing at all": ("", "bash", {"command": "true"}, "command", "other"),
    "an unknown tool": ("hello\n", "x", {}, "prose", "other"),
    "a bracketed word is no JSON": ("[main 0baa988] Add\n 1 file changed\n", "bash", {"command": "git push"}, "command",
                                    "other"),
}


@pytest.mark.parametrize("sentence", KIND_ROWS)
def test_kind_and_shape(sentence: str) -> None:
    text, tool, args, kind, shape = KIND_ROWS[sentence]
    doc = views.read(text, tool, args)
    assert (doc.kind, doc.shape) == (kind, shape)


def test_the_sample_is_bounded_for_a_long_output() -> None:
    start = time.process_time()
    assert views.classify(["x: y"] * 1_000_000, "bash", {"command": "./run"}) == ("command", "other")
    assert time.process_time() - start < 0.2


# ================================================================ the display-command parser

SHOW_ROWS: Dict[str, Tuple[str, List[Tuple[str, int, Any]]]] = {  # sentence -> (command, [(path, first, last)])
    "cat of one file": ("cat a.py", [("a.py", 1, None)]),
    "braces expand": ("cat src/{models,engine}.py", [("src/models.py", 1, None), ("src/engine.py", 1, None)]),
    "globs stay": ("cat a.py b.py; cat tests/*.py", [("a.py", 1, None), ("b.py", 1, None), ("tests/*.py", 1, None)]),
    "a range, then a tail of a head": ("sed -n '1,80p' x.ts && head -50 y.go | tail -20",
        [("x.ts", 1, 80), ("y.go", 0, None)]),
    "a quoted path": ('/bin/cat "docs/a b.md"', [("docs/a b.md", 1, None)]),
    "a separator in quotes": ("cat 'a;b.ts'", [("a;b.ts", 1, None)]),
    "pipes without blanks": ("cat src/{a,b}.ts|head -n 20|tail -5", [("src/a.ts", 0, None), ("src/b.ts", 0, None)]),
    "a range of lines": ("sed -n '301,660p' f.py", [("f.py", 301, 660)]),
    "one line": ("sed -n 12p f.py", [("f.py", 12, 12)]),
    "to the end": ("sed -n '20,$p' f.py", [("f.py", 20, None)]),
    "several ranges": ("sed -n '10,20p;40,50p' f.py", [("f.py", 10, 20), ("f.py", 40, 50)]),
    "several scripts": ("sed -n -e '1,2p' -e '5,6p' f.py", [("f.py", 1, 2), ("f.py", 5, 6)]),
    "ranges that overlap have no numbers": ("sed -n '10,20p;15,30p' f.py", [("f.py", 0, None)]),
    "a range over two files has none": ("sed -n '10,20p' a.py b.py", [("a.py", 0, None), ("b.py", 0, None)]),
    "numbered by nl, then cut": ("nl -ba f.py | sed -n '10,80p'", [("f.py", 10, 80)]),
    "numbered by cat": ("cat -n f.py", [("f.py", 1, None)]),
    "bat with a range": ("bat -n --paging=never -r 5:9 f.py", [("f.py", 5, 9)]),
    "head of a range": ("sed -n '100,200p' f.py | head -20", [("f.py", 100, 119)]),
    "a range of a head": ("head -n 200 f.py | sed -n '150,300p'", [("f.py", 150, 200)]),
    "from a line on": ("tail -n +20 f.py", [("f.py", 20, None)]),
    "from a line on, cut": ("tail -n +20 f.py | head -5", [("f.py", 20, 24)]),
    "a tail has an unknown place": ("tail -5 f.py", [("f.py", 0, None)]),
    "the default of head": ("head f.py", [("f.py", 1, 10)]),
    "bytes": ("head -c 2000 f.py", [("f.py", 1, None)]),
    "after cd": ("cd src && cat a.py", [("src/a.py", 1, None)]),
    "after cd, an absolute path": ("cd src; cat /x/a.py ./b.py", [("/x/a.py", 1, None), ("src/b.py", 1, None)]),
    "of a revision": ("git show HEAD~1:src/a.py | head -40", [("src/a.py", 1, 40)]),
    "errors thrown away": ("cat a.py 2>/dev/null", [("a.py", 1, None)]),
    "blank lines and a closing semicolon": ("cat a.py\n\ncat b.py;\n", [("a.py", 1, None), ("b.py", 1, None)]),
}
SHOW_NOT_ROWS = (
    # a word that is not of the subset stands last
    "cat a.py $X", "cat a.py ''", 'cat a.py "b*.py"', "cat a.py 2>/dev/null2", "cat a.py | head -3 $N",
    "cd x '' && cat a.py",
    "", "cat", "pwd; cat a.py", "cat a.py | wc -l", "cat <<EOF\na\nEOF", "cat a.ts|python p.py",
    "cat a.ts > /tmp/copy; cat r.txt",
    "cat a.ts 2>&1", "sed -i 's/a/b/' a.py", "cat x || cat y", "cat x &", "cat 'x.ts", "/tmp/cat x.ts",
    "cat $(echo x.ts)",
    "cat `x`", "cat $X", 'sed -n "1,$p" f', "cat a # b", "cat a\\ b", "cat a (b)", "cat -A a", "tail -f a",
    "head -n -5 a",
    "sed 1d a", "sed -n '/x/p' a", "cat '*.py'", "cat {a}", "cat {1..3}", "cat ~/a", "cat a!", "cat a | cat b",
    "cat a | head -5 b",
    "cat a &&", "cat a |", "cat a;;cat b", "cat 'a''b'", "cat 2>/dev/null", "cd a", "less a", "cat a.py >out",
    "nl -v5 a",
    "git show HEAD", "git show HEAD:a b", "git diff HEAD:a", "bat -r x a", "cat " + "a" * 17000, "cat " + "{a,b}" * 9,
)


@pytest.mark.parametrize("sentence", SHOW_ROWS)
def test_command_shows_files(sentence: str) -> None:
    command, want = SHOW_ROWS[sentence]
    assert views.shown_by(command) == [views.Shown(*item) for item in want]


@pytest.mark.parametrize("command", SHOW_NOT_ROWS, ids=lambda command: command[:30] or "nothing")
def test_command_that_could_do_more_is_no_display(command: str) -> None:
    assert views.shown_by(command) is None


def test_numbers_of_a_display_are_those_of_the_file_also_under_a_host_header() -> None:
    doc = views.read(CODEX_TEXT + CODE_TEXT, "bash", {"command": "sed -n '301,309p' a.py"})
    assert (doc.numbers.origin, doc.numbers.numbers[5], doc.numbers.numbers[13]) == ("file", 301, 309)


def test_programs_of_a_command() -> None:
    for command, want in {
        "git diff --stat": ["git diff"], "cd x && npm run test -- -t a": ["npm test"],
        "FOO=1 timeout 30s pytest -q": ["pytest"],
        "uv run pytest": ["pytest"], "python -m unittest -v": ["unittest"], "python a.py": ["python"],
        "pnpm --filter @x/y test 2>&1 | tail -5": ["pnpm test"], "bash -lc 'rg foo src'": ["rg"], "echo hi": ["echo"],
        "git add . && git commit -m \"$(cat <<'EOF'\na; b\nEOF\n)\"": ["git add", "git commit"], "make 2>&1": ["make"],
        "": [],
        "ls | wc -l; grep -rn x . || true": ["ls", "grep"], "./gradlew test": ["gradle test"],
        "git -C /x log": ["git log"],
    }.items():
        assert views.programs(command) == want, command


def test_what_the_agent_bounded_itself() -> None:
    for command, want in {
        "pytest -q | tail -20": True, "cat f | head": True, "sed -n '10,400p' f": True, "sed -n '1,900p' f": False,
        "nl -ba f | sed -n '1,240p'": True, "head -50 f": True, "cat f": False, "git log -5": False,
        "tail -n +5 f": False,
        "cd x && make 2>&1 | tail -n 30": True, "cat a | head -300; cat b | head -300": False,
        "cat a; cat b | head -3": False,
        "echo x; ls | head -5": True, "head -c 100 f": False, "": False, "tail -f f": False,
    }.items():
        assert views.bounded("bash", {"command": command}) is want, command
    assert views.bounded("read", {"path": "a", "offset": 5, "limit": 400})
    assert not views.bounded("read", {"path": "a", "limit": 401}) and not views.bounded("read", {"path": "a"})


def test_single_files_that_a_call_names() -> None:
    for command, want in {
        "git diff -- a/b.ts c.py": ["a/b.ts", "c.py"], "git diff main..HEAD": [],
        "rg -n 'foo.bar' src/a.ts": ["src/a.ts"],
        "grep -rn x.y . --include=*.py": [], "bun test apps/a.test.ts": ["apps/a.test.ts"],
        "pytest tests/test_a.py::test_x -q":
        ["tests/test_a.py"], "git diff src/*.py": [], "rg foo src": [], "rg -g '*.ts' foo": [],
    }.items():
        assert views.named_files("bash", {"command": command}) == want, command
    assert views.named_files("grep", {"pattern": "x", "path": "src/a.py"}) == ["src/a.py"]
    assert views.named_files("grep", {"pattern": "x.py", "path": "src"}) == []


# ================================================================ blocks and sections

TS_TEXT = """import { a } from "./a";
import {
  b,
} from './b';

/** Loads. */
export async function load(x: string): Promise<void> {
  const s = `} function fake() { ${x.map((y) => `<b>{${y}}</b>`).join("}")}
function notreal() {
}`;
  if (x === '}') { // }
    return /[{]"/.test(x);
  }
  const handle = (e: Event) => {
    go(e);
  };
}

@Injectable({
  providedIn: "root",
})
export class Store<T> extends Base {
  constructor(
    private readonly a: string,
    b: number,
  ) {
    super();
  }

  get size(): number { return 1; }

  // finds
  async find<K extends string>(key: K): Promise<T | undefined> {
    for (const x of y) {
      call(x, () => {
        z();
      });
    }
  }

  arrow = async (x: number) => {
    return x;
  };
}

export const TABLE = {
  a: 1,
  b: [1, 2],
};

export default function App({
  a,
}: Props) {
  return <p>don't {a}</p>;
}
describe("store", () => {
  it("finds {", async () => {
    expect(1).toBe(1);
  });
});
"""
PY_TEXT = '''"""Doc.

def fake():
"""
from a import (
    b,
)

TABLE = {
    "a": 1,
    "b": 2,
}

# leads
@decorator(
    a=1
)
async def load(
    x,
    y="):",
):
    """Doc.

def inner_fake():
    """
    def inner():
        return 1
    sql = """
CREATE
"""
    return inner

class Store:
    """One."""

    @property
    def size(self): return 1

if __name__ == "__main__":
    load()
'''
LANGUAGE_ROWS: Dict[str, Tuple[str, str, List[str]]] = {  # sentence -> (path, text, ["name first-last", …])
    "TypeScript: templates, regexes, strings and comments hide braces": ("a.ts", TS_TEXT, [
        "header 1-4", "load 6-17", "load.handle 14-16", "Store 19-44", "Store.constructor 23-28", "Store.size 30-30",
        "Store.find 32-39", "Store.arrow 41-43", "TABLE 46-49", "App 51-55", "store 56-60", "store.finds { 57-59"]),
    "Python: strings over lines, decorators, signatures over lines": ("a.py", PY_TEXT, [
        "header 1-7", "TABLE 9-12", "load 14-31", "load.inner 26-27", "Store 33-37", "Store.size 36-37",
        'if __name__ == "__main__": 39-40']),
    "Python: a fragment that starts inside a function": ("a.py",
        "        x = 1\n        return x\n\n    def g(self):\n        pass\n", [
        "x = 1 1-2", "g 4-5"]),
    "Go: receivers, raw strings, runes, groups": ("a.go", """package main

import "fmt"

// Parser parses.
type Parser struct {
	a int
}

var table = map[string]int{
	"{": 1,
	`}`: 3,
}

func (p *Parser) Feed(b []byte) (int, error) {
	s := `
func fake() {
`
	r := '{'
	return 0, nil
}

func New[T any](x T) *Parser { return &Parser{} }
""", ["header 1-3", "Parser 5-8", "table 10-13", "Parser.Feed 15-21", "New 23-23"]),
    "Rust: lifetimes, raw strings, where clauses, attributes": ("a.rs", """use std::fmt;

#[derive(Debug)]
pub struct Parser<'a> {
    a: &'a str,
}

impl<'a> fmt::Display for Parser<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = r#"} fn fake() {"#;
        let c = '{';
        write!(f, "{}", s)
    }
    pub(crate) async fn run<T>(&self, x: T) -> u8
    where
        T: Clone,
    {
        1
    }
}
macro_rules! x {
    () => {};
}
""", ["header 1-1", "Parser 3-6", "Parser 8-20", "Parser.fmt 9-13", "Parser.run 14-19", "x 21-23"]),
    "Java: annotations, throws on a line of its own, anonymous classes": ("a.java", """import java.util.List;

/**
 * Doc {
 */
@Service
public class Parser implements Foo<Bar> {
    public Parser(String a) {
        this.a = a;
    }

    @Override
    public <T> List<T> parse(final String x, int y)
            throws IOException {
        if (x.equals("}")) {
            return foo(y);
        }
        return null;
    }

    abstract int size(String x);
}
""", ["header 1-1", "Parser 3-22", "Parser.Parser 8-10", "Parser.parse 12-19", "Parser.size 21-21"]),
    "C: return type above, a brace on its own line; after an #if with two openings it starts again at column 0": (
        "a.c", """#include <stdio.h>

struct parser {
    int a;
};

static const char *names[] = {
    "a",
    "{",
};

int parse(const char *s);

static int
gnu(struct parser *p, int x)
{
#ifdef A
    if (x) {
#else
    if (!x) {
#endif
        return '{';
    }
    list_for_each(a, b) {
        x++;
    }
    return 0;
}

int parse(const char *s) {
    return foo(s);
}
""", ["header 1-1", "parser 3-5", "names 7-10", "parse 12-12", "gnu 15-29", "parse 30-32"]),
    "C++: templates, initialisers, raw strings, methods outside": ("a.cpp", """#include <vector>
namespace app {
template <typename T>
class Store : public Base<T> {
 public:
  explicit Store(int x) : x_(x), y_(1) {}
  std::vector<int> items() const {
    return {1, 2};
  }
};

void Store::load(const std::string &s) const noexcept {
  std::string t = R"(} void fake() {)";
}
}  // namespace app
""", ["header 1-1", "app 2-15", "app.Store 3-10", "app.Store.Store 6-6", "app.Store.items 7-9",
    "app.Store.load 12-14"]),
    "C#: verbatim strings, braces on their own lines": ("a.cs", """using System;
namespace App
{
    public class Store : Base
    {
        public async Task<int> Load(string x)
        {
            var s = @"} void Fake() {";
            return 1;
        }
    }
}
""", ["header 1-1", "App 2-12", "App.Store 4-11", "App.Store.Load 6-10"]),
    "Kotlin: data classes, companions, extensions": ("a.kt", """import b.c
data class Point(val x: Int)
class Store(private val a: String) : Base() {
    companion object {
        const val X = 1
    }
    override suspend fun load(x: Int): String {
        return "${x}"
    }
}
fun String.ext(): Int = 1
""", ["header 1-1", "Point 2-2", "Store 3-10", "Store.object 4-6", "Store.load 7-9", "String.ext 11-11"]),
    "Swift: initialisers": ("a.swift", """import Foundation
struct Point {
    init(x: Int) {
        self.x = x
    }
    func move(by d: Int) -> Point {
        return Point(x: x + d)
    }
}
""", ["header 1-1", "Point 2-9", "Point.init 3-5", "Point.move 6-8"]),
    "Scala": ("a.scala",
        "import b._\ncase class Point(x: Int)\nobject Main extends App {\n  def run(x: Int): Int = {\n    x\n  }\n}\n",
        [
        "header 1-1", "Point 2-2", "Main 3-7", "Main.run 4-6"]),
    "PHP": ("a.php",
        "<?php\nuse Foo\\Bar;\nclass Store extends Base {\n"
        "    public function load($x) {\n        return \"}\";\n    }\n}\n", [
        "header 1-2", "Store 3-7", "Store.load 4-6"]),
    "CSS": ("a.css", ".card > a:hover {\n  content: \"}\";\n}\n@media print {\n  .a {\n    color: red;\n  }\n}\n", [
        ".card > a:hover 1-3", "@media print 4-8", "@media print..a 5-7"]),
    "Bash: a closing parenthesis of a case counts for nothing": ("a.sh", """# deploys
deploy() {
  case "$1" in
    a) echo "}" ;; # {
  esac
}
function clean {
  rm x
}
deploy "$@"
clean
""", ["deploy 1-6", "clean 7-9", 'deploy "$@" 10-11']),
    "Ruby: end by its indentation, methods of one line": ("a.rb", """require "x"
module App
  class Store < Base
    # loads
    def self.load(x)
      if x
        1
      end
    end
    def short = 1
    def ok?; true; end
  end
end
describe "x" do
  it "works" do
    expect(1)
  end
end
""", ["header 1-1", "App 2-13", "App.Store 3-12", "App.Store.self.load 4-9", "App.Store.short 10-10",
    "App.Store.ok? 11-11",
      "x 14-18", "x.works 15-17"]),
    "Lua: long strings, functions as values": ("a.lua", """local s = [[
function fake()
]]
local function helper(x)
  if x then
    return 1
  end
end
M.cb = function()
  x()
end
""", ["local s = [[ 1-3", "helper 4-8", "M.cb 9-11"]),
    "Elixir: doc strings, one-liners, heads over lines": ("a.ex", """defmodule App.Store do
  @moduledoc \"\"\"
  def fake do
  \"\"\"
  @impl true
  def load(x) do
    case x do
      1 -> 2
    end
  end
  defp url, do: "x"
  defp long(
         a,
         b
       ) do
    1
  end
end
""", ["App.Store 1-18", "App.Store.load 2-10", "App.Store.url 11-11", "App.Store.long 12-17"]),
    "SQL: statements, bodies in $$ and BEGIN": ("a.sql", """-- users
CREATE TABLE IF NOT EXISTS users (
  id int default ';'
);
CREATE OR REPLACE FUNCTION f() RETURNS int AS $$
BEGIN
  RETURN 1;
END;
$$ LANGUAGE plpgsql;
CREATE PROCEDURE p()
BEGIN
  SELECT 1;
END;
ALTER TABLE users ADD COLUMN x int;
""", ["users 1-4", "f 5-9", "p 10-13", "users 14-14"]),
    "a short constant is no block, nor is what it holds": ("a.js", """const x = foo(function y() {
  return 1;
}, 2);
function b() {
  return 1;
}
""", ["const x = foo(function y() { 1-3", "b 4-6"]),
    "JavaScript: methods by a computed name or a word of the language, nested templates, a regex below an operator": (
        "a.js", r"""class Box {
  *[Symbol.iterator]() {
    yield 1;
  }
  delete(path) {
    return `a ${b(`no \`${path}\` as {`)} c`;
  }
  check(token) {
    return (
      token &&
      /^[([{`]/u.test(token)
    );
  }
}
function after() {
  return 1;
}
""", ["Box 1-14", "Box.[Symbol.iterator] 2-4", "Box.delete 5-7", "Box.check 8-13", "after 15-17"]),
    "TypeScript: a type parameter with a default; a call before a destructuring is none": ("a.ts", """class Core {
  compile<T = unknown>(schema: S): F<T> {
    return x;
  }
}
export const def = {
  code(cxt) {
    check(cxt)
    const {gen, data} = cxt
    gen.add(data)
  },
}
""", ["Core 1-5", "Core.compile 2-4", "def 6-12", "def.code 7-11"]),
    "Java: a comment before the words, bounded type parameters, synchronized": ("A.java", """/* package */ class A {
  /* package */ synchronized boolean has() {
    synchronized (this) {
      return true;
    }
  }
  public static <T extends ViewGroup & Scroll, V extends View> void emit(T view) {
    run();
  }
}
""", ["A 1-10", "A.has 2-6", "A.emit 7-9"]),
    "C++: const or a list of initialisers below the signature, extern \"C\"": ("a.cpp", """const Map& Image::size(int a)
    const {
  return a;
}
Props::Props(const Context& context)
    : base(context),
      text(context) {};
extern "C" jint JNI_OnLoad(JavaVM* vm) {
  return 1;
}
""", ["Image.size 1-4", "Props.Props 5-7", "JNI_OnLoad 8-10"]),
    "Go: a raw string knows no escapes": ("a.go", """package a

func TestEscape(t *testing.T) {
\ttests := []string{`\\`, `{"`, `C:\\`}
\trun(tests)
}

func after() {
}
""", ["header 1-1", "TestEscape 3-6", "after 8-9"]),
    "Rust: nested type parameters, a where clause and a string over lines, extern": (
        "a.rs", """impl<T: AsRef<[u8]>, S: Id> Dfa<T, S> {
    fn pause(&self) {
        panic!("`pause()` needs \\
                a {runtime `#[test].");
    }
    pub fn all<'a, I>(
        &mut self,
    ) where I: Into<T, Item=&'a R>,
            T: Iter<Item=&'a R>
    {
        run();
    }
}
unsafe extern "system" fn callback(p: P) {
    run();
}
""", ["Dfa 1-13", "Dfa.pause 2-5", "Dfa.all 6-12", "callback 14-16"]),
    "Ruby: a method ends at its end, whatever follows; operators": ("a.rb", """class Count
  def times
    self
  end

private

  if OLD
    def cover?(n)
      n
    end
  end

  def ==(other)
    x
  end
end
""", ["Count 1-17", "Count.times 2-4", "Count.cover? 9-11", "Count.== 14-16"]),
    "a fragment that begins within a comment": ("a.ts", """   * An odd `sign.
   */
  load(x: number) {
    return x;
  }
""", ["load 1-5"]),
    "Lua: a comment below an end leads what is deeper": ("a.lua", """function a()
  if x then
    y()
  end
    -- leads
    local function b()
      return 1
    end
end
""", ["a 1-9", "a.b 5-8"]),
    "a scanner that was misled starts again at column 0": ("a.js", """function a() {
  return x.replace(/"{/g, '');
}
function b() {
  return 1;
}
""", ["a 1-3", "b 4-6"]),
}


def _block_names(doc: views.Doc) -> List[str]:
    return [f"{block.name} {block.start + 1}-{block.end}" for block in views.blocks(doc)]


@pytest.mark.parametrize("sentence", LANGUAGE_ROWS)
def test_blocks_of_code(sentence: str) -> None:
    path, text, want = LANGUAGE_ROWS[sentence]
    assert _block_names(views.read(text, "read", {"path": path})) == want


@pytest.mark.parametrize("sentence", LANGUAGE_ROWS)
def test_blocks_of_code_with_printed_numbers(sentence: str) -> None:
    path, text, want = LANGUAGE_ROWS[sentence]
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1))
    assert _block_names(views.read(numbered, "bash", {"command": f"cat -n {path}"})) == want


@pytest.mark.parametrize("name", ["jevlens.py", "views_regex.py", "history.py"])
def test_every_function_and_class_that_python_sees_is_a_block_of_that_name_and_extent(name: str) -> None:
    text = (pathlib.Path(views.__file__).parent / name).read_text("utf-8")
    found = views.blocks(views.read(text, "read", {"path": name}))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            assert any(block.name.split(".")[-1] == node.name and block.start < node.lineno <= block.end
                       and abs(block.end - (node.end_lineno or 0)) <= 2 for block in found), (node.name, node.lineno)


def test_an_outline_shows_signatures_decorators_and_constants_and_nothing_local() -> None:
    doc = views.read(PY_TEXT, "read", {"path": "a.py"})
    assert [doc.lines[line] for line in views.signatures(doc)] == [
        "TABLE = {", "# leads", "@decorator(", "async def load(", "    x,", '    y="):",', "):", "    def inner():",
        "class Store:",
        "    @property", "    def size(self): return 1"]
    doc = views.read("function f(\n" + "  a,\n" * 20 + ") {\n  const x = 1;\n  // note\n  print(x);\n}\n", "read",
        {"path": "a.js"})
    assert views.signatures(doc) == [0, 1, 2, 3, 4, 5]
    suite = ('describe("a", () => {\n  it("b", async function () {\n    one();\n    two();\n  });\n});\n'
             'test("c", (t) => {\n  x();\n});')
    doc = views.read(suite, "read", {"path": "a.test.js"})
    assert views.signatures(doc) == [0, 1, 6]  # the body of a function that is an argument is no part of the signature


# sentence -> (text, tool, args, ["name first-last", …])
SECTION_ROWS: Dict[str, Tuple[str, str, Dict[str, Any], List[str]]] = {
    "Markdown: nested by level, a heading in a fence is none": (
        "intro\n# A\ntext\n## B\n```\n# no\n```\n# C\nend\n", "read", {"path": "a.md"},
        ["intro 1-1", "A 2-7", "B 4-7", "C 8-10"]),
    "Setext and reST headings": ("Title\n=====\ntext\n\nPart\n----\nmore\n", "read", {"path": "a.rst"},
                                 ["Title 1-8", "Part 5-8"]),
    "JSON: top keys, and longer ones inside": (
        '{\n  "a": {\n    "b": [\n      1,\n      2\n    ]\n  },\n  "c": 1\n}\n', "read", {"path": "a.json"},
        ["a 2-7", "a.b 3-6"]),
    "JSON: items of a list": ('[\n  {\n    "id": 1\n  },\n  {\n    "id": 2\n  }\n]\n', "bash", {"command": "gh api x"},
                              ['"id": 1 2-4', '"id": 2 5-7']),
    "YAML: keys, lists at the key's own indentation": ("on:\n- a\n- b\njobs:\n  test:\n    steps:\n      - x\n",
        "read", {"path": "a.yml"},
                                                       ["on 1-3", "jobs 4-7"]),
    "TOML: tables": ("name = 1\n[tool.ruff]\na = 1\n[[bin]]\nb = 2\n", "read", {"path": "a.toml"},
                     ["name = 1 1-1", "tool.ruff 2-3", "bin 4-6"]),
    "search: groups by file": (GREP_TEXT, "grep", {"pattern": "def"}, ["pkg/calc.py 1-2", "test_calc.py 3-5"]),
    "search: headings of ripgrep": ("src/a.py\n12:x\n13:y\n\nsrc/b.py\n3:z\n", "grep", {"pattern": "x"},
                                    ["src/a.py 1-4", "src/b.py 5-7"]),
    "search: context groups": ("a.py-1-x\na.py:2:y\n--\na.py-8-x\na.py:9:y\n", "grep", {"pattern": "y"},
                               ["a.py 1-3", "a.py 4-6"]),
    "search: rows without line numbers": (
        "src/a.py:def f():\nsrc/a.py:x = 1\nsrc/b.py:def g():\nsrc/b.py-  y\n", "grep", {"pattern": "f"},
        ["src/a.py 1-2", "src/b.py 3-5"]),
    "reST: a rule of ~ opens no fence": ("A\n~~~\nx\n\nB\n~~~\ny\n\nC\n---\nz\n", "read", {"path": "a.rst"},
                                         ["A 1-4", "B 5-8", "C 9-12"]),
    "diff: files without a diff line, short hunks, a removed line of dashes": (
        "--- a\n+++ b\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n--- c\n+++ d\n@@ -1 +1 @@\n-a\n+b\n", "bash",
        {"command": "diff -u a b"},
        ["b 1-5", "b @@ -1,2 +1,2 @@ 3-5", "d 6-11", "d @@ -1 +1 @@ 8-11"]),
    "a patch of codex": (
        "*** Begin Patch\n*** Update File: a.py\n@@ class A\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch\n", "bash",
        {"command": "git diff"}, ["*** Begin Patch 1-1", "a.py 2-5", "a.py @@ class A 3-5", "b.py 6-9"]),
    "diff: files and hunks": (DIFF_TEXT + DIFF_TEXT.replace("calc", "more"), "bash", {"command": "git diff"}, [
        "pkg/calc.py 1-11", "pkg/calc.py @@ -1,5 +1,5 @@ 5-11", "pkg/more.py 12-23",
        "pkg/more.py @@ -1,5 +1,5 @@ 16-23"]),
    "diff without a diff line": ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "bash", {"command": "diff -u a b"},
                                 ["x 1-6", "x @@ -1 +1 @@ 3-6"]),
    "git log": ("commit 0baa988b1419618c\nAuthor: A\n\n    Fix a\n\n" * 3, "bash", {"command": "git log"},
                ["0baa988b14 Fix a 1-5", "0baa988b14 Fix a 6-10", "0baa988b14 Fix a 11-16"]),
    "a listing by folders": (PATHS_TEXT, "find", {}, [f"./src/pkg{n} {n + 1}-{n + 1 + (n == 19)}" for n in range(20)]),
    "marker lines": ("COMMAND: a\none\ntwo\nCOMMAND: b\none\ntwo\n", "bash", {"command": "./x"},
                     ["COMMAND: a 1-3", "COMMAND: b 4-7"]),
    "short sections join the one before": ("COMMAND: a\none\nEXIT: 0\nCOMMAND: b\none\ntwo\n", "bash",
        {"command": "./x"},
                                           ["COMMAND: a 1-3", "COMMAND: b 4-7"]),
    "paragraphs": ("a\nb\nc\n\nd\ne\nf\n", "bash", {"command": "./x"}, ["a 1-4", "d 5-8"]),
    "chunks of 50 lines where nothing marks a section": ("x y\n" * 199 + "x y", "bash", {"command": "./x"},
                                                         [f"x y {n + 1}-{n + 50}" for n in range(0, 200, 50)]),
    "one line has none": ('{"a": ' + "1" * 5000 + "}", "bash", {"command": "gh api x"}, []),
    "nothing has none": ("", "bash", {"command": "true"}, []),
}


@pytest.mark.parametrize("sentence", SECTION_ROWS)
def test_sections(sentence: str) -> None:
    text, tool, args, want = SECTION_ROWS[sentence]
    assert _block_names(views.read(text, tool, args)) == want


def test_blocks_never_cross_and_depth_says_how_deep() -> None:
    texts = [text for _, text, _ in LANGUAGE_ROWS.values()] + [text for text, _, _, _ in SECTION_ROWS.values()]
    for path in ("a.py", "a.ts", "a.rb", "a.go", "a.sql", "a.md", "a.json", "a.c", "a.ex", "a.diff", "a.log"):
        for text in texts:
            lines = text.split("\n")
            for cut in range(0, len(lines), 3):  # fragments
                inside: List[views.Block] = []
                for block in views.blocks(views.read("\n".join(lines[cut:]), "read", {"path": path})):
                    assert 0 <= block.start < block.end <= len(lines) - cut, (path, block)
                    while inside and inside[-1].end <= block.start:
                        inside.pop()
                    assert block.depth == len(inside), (path, block, lines[cut:])
                    assert not inside or inside[-1].start <= block.start and block.end <= inside[-1].end, (path, block)
                    inside.append(block)


def test_a_file_of_many_blocks_loses_none() -> None:
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(2000))
    assert len(views.blocks(views.read(text, "read", {"path": "a.py"}))) == 2000


@pytest.mark.parametrize("path", ("a.py", "a.ts", "a.rb", "a.sql", "a.md", "a.yml", "a.c", "a.css", "a.lua"))
def test_blocks_of_hostile_text_take_time_in_proportion_to_it(path: str) -> None:
    hostile = ("def f(x):\nfunction f() {\n(\n", "foo(\n", "`${\n", '"""\n', "/*\n", "[[\n", "a:\n", "# a\n", "}\n",
        "@a\n", "=\n---\n")
    for piece in hostile:
        start = time.process_time()
        views.blocks(views.read(piece * 3000, "read", {"path": path}))
        assert time.process_time() - start < 0.5, piece


def test_one_line_of_40_megabytes_does_not_hang() -> None:
    for tool, args in (("read", {"path": "a.ts"}), ("read", {"path": "a.json"}), ("bash", {"command": "./x"})):
        start = time.process_time()
        views.blocks(views.read('{"a": `' * 6_000_000, tool, args))
        assert time.process_time() - start < 2


# ================================================================ views

views = views_regex


def seen_as(text: str, shape: str = "", kind: str = "command", command: str = "") -> views.Doc:
    """A Doc of a command's output; shape: instead of the one that classify finds."""
    doc = views.read(text, "bash", {"command": command})
    if shape:
        doc.kind, doc.shape = kind, shape
    return doc


def printed(doc: views.Doc, view: Union[views.View, None]) -> str:
    """The view as it is sent; "" for none."""
    return views.render(doc, view).text if view else ""


# sentence -> (task, latest, said, args, terms that must be there, terms that must not)
CASE_TERMS: dict[str, tuple[str, str, str, Any, Sequence[str], Sequence[str]]] = {
    "the first request counts, also before `continue`": (
        "Fix the Range validator", "continue", "", {}, ("range", "validator"), ("continue the",)),
    "argument names are no terms, their values are": (
        "", "", "", {"view_range": [1, 2], "path": "src/lexer_public.ts"}, ("lexer_public", "lexer", "public"),
        ("view_range", "view", "path")),
    "versions and codes are terms": (
        "When was rxjs 7.8.1 out, and what is F541?", "", "", {}, ("7.8.1", "f541"), ("what", "when")),
    "identifiers are split": ("", "see readHTTPError_body", "", {}, ("readhttperror_body", "http", "error", "body"),
            ()),
    "quotations are whole": ("", "find `def render`", "", {}, ("def render",), ("find",)),
    "plurals and past forms are cut to what they share": ("", "published validators", "", {}, ("publish", "validator"),
            ()),
    "stop words say nothing": ("please update the test file", "", "", {}, (), ("please", "update", "test", "file")),
}


@pytest.mark.parametrize("sentence", CASE_TERMS)
def test_case_terms(sentence: str) -> None:
    task, latest, said, args, wanted, unwanted = CASE_TERMS[sentence]
    found = views.terms(task, latest, said, args)
    assert [term for term in wanted if term not in found] == []
    assert [term for term in unwanted if term in found] == []
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_terms_of_a_long_request_are_few() -> None:
    assert len(views.terms(" ".join(f"word{i}name" for i in range(5000)))) == 80


def test_names_show_by_case_underscore_or_digit() -> None:
    text = "value maxValue max_value utf8x __init__ a_b CamelCase HTTPError plain_"
    assert views.names(text) == {"maxValue", "max_value", "utf8x", "__init__", "CamelCase", "plain_"}


def test_a_term_is_found_where_a_word_begins() -> None:
    doc = seen_as("renderables\nadd_table\nFooTable\ntable\nsomething\n" + "other\n" * 30, "search")
    assert views.base(doc, {"table": 1.0}) == views.View("base", (0, 1, 2, 3, 34))


# Failing runs: runner -> (a passing row, the failure, the end, what must stay, what must go). Made with unittest of
# Python 3.11.7, pytest 9.2.0, node 20.20.2, jest 30.5.2, vitest 4.1.12, mocha 12.0.3, cargo 1.95.0, ctest 3.25.1,
# go 1.19.8, rspec 3.12, minitest 5.17, phpunit 9.6.7, Maven 3.8.7; stacks cut short.
FAILING_RUNS: dict[str, tuple[str, str, str, Sequence[str], Sequence[str]]] = {
    "pytest": ("test_calc.py::test_zero[{}] PASSED     [ 12%]",
            '''=================================== FAILURES ===================================
________________________________ Calc.test_load ________________________________

self = <test_calc.Calc testMethod=test_load>

    def test_load(self):
>       json.loads("{bad")

test_calc.py:14:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
/usr/lib/python3.11/json/__init__.py:346: in loads
    return _default_decoder.decode(s)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

        try:
>           obj, end = self.scan_once(s, idx)
E           json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)

/usr/lib/python3.11/json/decoder.py:353: JSONDecodeError''',
               '''=========================== short test summary info ============================
FAILED test_calc.py::Calc::test_load - json.decoder.JSONDecodeError: Expectin...
1 failed, 300 passed in 2.28s''',
               ('>       json.loads("{bad")', "test_calc.py:14:", "E           json.decoder.JSONDecodeError: Expecting",
                "FAILED test_calc.py::Calc::test_load", "1 failed, 300 passed"),
               ("_default_decoder", "scan_once", "test_zero[7]")),
    "unittest": ("test_zero_{} (test_calc.Calc.test_zero) ... ok", '''
======================================================================
ERROR: test_load (test_calc.Calc.test_load)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/home/me/ut/test_calc.py", line 14, in test_load
    json.loads("{bad")
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
''', '''----------------------------------------------------------------------
Ran 301 tests in 0.006s

FAILED (errors=1)''', ("ERROR: test_load", "line 14, in test_load", 'json.loads("{bad")', "JSONDecodeError: Expecting",
                       "Ran 301 tests", "FAILED (errors=1)"), ("_default_decoder", "test_zero_7 ")),
    "node:test, spec": ("✔ zero {} (0.135402ms)", '''✖ adds (1.630473ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  2 !== 3

      at TestContext.<anonymous> (/home/me/nt/a.test.js:2:29)
      at Test.run (node:internal/test_runner/test:796:25)
      at Test.processPendingSubtests (node:internal/test_runner/test:526:18)''',
                        "ℹ tests 301\nℹ suites 0\nℹ pass 300\nℹ fail 1\nℹ duration_ms 333.819446",
                        ("✖ adds", "2 !== 3", "a.test.js:2:29", "ℹ fail 1"), ("processPendingSubtests", "zero 7 ")),
    "TAP": ("ok {} - zero", '''not ok 301 - adds
  ---
  location: '/home/me/nt/a.test.js:2:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:
    2 !== 3
  ...''', "1..301\n# tests 301\n# pass 300\n# fail 1", ("not ok 301", "a.test.js:2:1", "2 !== 3", "# fail 1"),
            ("ok 7 ",)),
    "cargo test": ("test tests::zero_{} ... ok", '''
failures:

---- tests::adds stdout ----

thread 'tests::adds' (4382) panicked at src/lib.rs:6:17:
assertion `left == right` failed
  left: 0
 right: 4
stack backtrace:
   1: core::panicking::panic_fmt
             at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/panicking.rs:80:14
   4: calc::tests::adds
             at ./src/lib.rs:6:17

failures:
    tests::adds
''', "test result: FAILED. 300 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.18s",
                   ("panicked at src/lib.rs:6:17", "  left: 0", " right: 4", "at ./src/lib.rs:6:17",
                   "test result: FAILED"),
                   ("panicking.rs", "zero_7 ")),
    "jest": ("    ✓ zero {} (17 ms)", '''FAIL ./calc.test.js
  ● calc › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 0

      2 | describe('calc', () => {
    > 3 |   test('adds', () => { expect(add(2, 2)).toBe(4); });
        |                                          ^

      at Object.toBe (calc.test.js:3:42)
      at Resolver.run (../node_modules/jest-resolve/build/index.js:1031:11)

FAIL ./broken.test.js
  ● Test suite failed to run

    Cannot find module './no-such-file' from 'broken.test.js'
''', '''Test Suites: 2 failed, 2 total
Tests:       1 failed, 300 passed, 301 total
Time:        1.293 s''', ("● calc › adds", "Expected: 4", "Received: 0", "expect(add(2, 2)).toBe(4)",
        "calc.test.js:3:42",
                        "Test suite failed to run", "Cannot find module", "1 failed, 300 passed"),
             ("jest-resolve", "zero 7 ")),
    "vitest, in colour": (" \x1b[32m✓\x1b[39m calc.test.mjs\x1b[2m > \x1b[22mzero {}",
            '''\x1b[41m\x1b[1m FAIL \x1b[22m\x1b[49m calc.test.mjs\x1b[2m > \x1b[22madds
\x1b[31m\x1b[1mAssertionError\x1b[22m: expected 2 to be 3 // Object.is equality\x1b[39m

\x1b[36m \x1b[2m❯\x1b[22m calc.test.mjs:\x1b[2m2:36\x1b[22m\x1b[39m
''', '''\x1b[2m Test Files \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m\x1b[90m (1)\x1b[39m
\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m\x1b[2m | \x1b[22m\x1b[1m\x1b[32m300 passed\x1b[39m
\x1b[2m   Duration \x1b[22m 706ms''', (" FAIL ", "expected 2 to be 3", "❯", "1 failed", "300 passed"), ("zero 7",)),
    "mocha": ("    ✔ zero {}", '''

  300 passing (3ms)
  1 failing

  1) calc
       adds:

      AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

2 !== 3

      at Context.<anonymous> (m/calc.js:3:35)
      at process.processImmediate (node:internal/timers:483:21)''', "", (
        "1 failing", "300 passing", "1) calc", "adds:", "2 !== 3", "m/calc.js:3:35"), ("zero 7",)),
    "go test -v": ("=== RUN   TestZero{0}\n--- PASS: TestZero{0} (0.00s)", '''=== RUN   TestAdds
    calc_test.go:9: add(2, 2) = 0, want 4
--- FAIL: TestAdds (0.00s)''', "FAIL\nFAIL\tcalc\t0.018s\nFAIL\tcalc/bad [build failed]\nFAIL", (
        "calc_test.go:9: add(2, 2) = 0, want 4", "--- FAIL: TestAdds", "FAIL\tcalc\t", "[build failed]"),
        ("TestZero7 ",)),
    "rspec": ("  zero {}", '''
Failures:

  1) calc adds
     Failure/Error: it("adds") { expect(2 - 2).to eq(4) }

       expected: 4
            got: 0

       (compared using ==)
     # ./calc_spec.rb:2:in `block (2 levels) in <top (required)>'

Finished in 0.00688 seconds (files took 0.24339 seconds to load)''', '''301 examples, 1 failure

Failed examples:

rspec ./calc_spec.rb:2 # calc adds''', (
        "1) calc adds", "expected: 4", "got: 0", "# ./calc_spec.rb:2", "301 examples, 1 failure",
        "rspec ./calc_spec.rb:2"),
              ("zero 7",)),
    "phpunit": (".................................. {} / 301 (100%)", '''There was 1 failure:

1) CalcTest::testAdds
Failed asserting that 0 is identical to 4.

/home/me/ph/CalcTest.php:4''', "FAILURES!\nTests: 301, Assertions: 301, Failures: 1.", (
        "1) CalcTest::testAdds", "0 is identical to 4", "CalcTest.php:4", "FAILURES!", "Failures: 1."), (" 7 / 301",)),
    "pytest --tb=line": ("test_calc.py::test_zero[{}] PASSED     [ 12%]",
            '''=================================== FAILURES ===================================
E   AssertionError: total 3 is not 4
    assert 3 == 4
/home/me/p1/tests/test_a.py:10: AssertionError: total 3 is not 4
E   RuntimeError: cannot parse config
/home/me/p1/app.py:24: RuntimeError: cannot parse config''',
                         '''=========================== short test summary info ============================
FAILED tests/test_a.py::test_helper - AssertionError: total 3 is not 4
FAILED tests/test_a.py::test_chain - RuntimeError: cannot parse config
2 failed, 300 passed in 0.34s''',
                         ("    assert 3 == 4", "test_a.py:10: AssertionError", "app.py:24: RuntimeError",
                          "FAILED tests/test_a.py::test_chain", "2 failed, 300 passed"), ("test_zero[7]",)),
    "pytest, a file that cannot be read": ("test_calc.py::test_zero[{}] PASSED     [ 12%]",
            '''==================================== ERRORS ====================================
___________________ ERROR collecting tests/test_syntax.py ____________________
/usr/lib/python3.11/importlib/__init__.py:126: in import_module
    return _bootstrap._gcd_import(name[level:], package, level)
<frozen importlib._bootstrap>:1204: in _gcd_import
    ???
E     File "/home/me/p1/tests/test_syntax.py", line 1
E       def test_x(:
E   SyntaxError: invalid syntax
=========================== short test summary info ============================
ERROR tests/test_syntax.py''', "300 passed, 1 error in 0.34s",
        ("collecting tests/test_syntax.py", 'test_syntax.py", line 1', "SyntaxError: invalid syntax", "1 error in"),
        ("_bootstrap", "???")),
    "node:test, a file that cannot be loaded": ("ok {} - zero", '''# node:internal/modules/cjs/loader:1210
#   throw err;
#   ^
# Error: Cannot find module './no-such'
# Require stack:
# - /home/me/nb/a_broken.test.js
#     at Module._load (node:internal/modules/cjs/loader:1038:27)
# Node.js v20.20.2
# Subtest: /home/me/nb/a_broken.test.js
not ok 301 - /home/me/nb/a_broken.test.js
  ---
  error: 'test failed'
  stack: |-
    TestContext.<anonymous> (/home/me/nb/b.test.js:3:29)
    Test.run (node:internal/test_runner/test:796:25)
    node:internal/test_runner/test:1133:71
  ...''', "1..301\n# tests 301\n# pass 300\n# fail 1",
        ("Cannot find module './no-such'", "not ok 301", "b.test.js:3:29", "# fail 1"),
        ("ok 7 ", "test_runner")),
    "mocha, a file that cannot be loaded": ("    ✔ zero {}", '''
 Exception during run: Error: Cannot find module './no-such-file'
Require stack:
- /home/me/js/broken.test.js
    at require (node:internal/modules/helpers:182:18)
    at Object.<anonymous> (/home/me/js/broken.test.js:1:1)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)
    at Module.load (node:internal/modules/cjs/loader:1266:32)''',
        "{\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/home/me/js/broken.test.js' ]\n}",
        ("Exception during run: Error: Cannot find module", "broken.test.js:1:1"), ("zero 7", "helpers:182")),
    "cargo test, not built": ("   Compiling zero{} v0.1.0", '''error[E0308]: mismatched types
   --> src/lib.rs:135:27
    |
135 | pub fn broken2() -> i32 { "a" }
    |                     ---   ^^^ expected `i32`, found `&str`

error[E0425]: cannot find function `nothing` in this scope
   --> src/lib.rs:136:20
    |
136 | pub fn broken3() { nothing(); }
    |                    ^^^^^^^ not found in this scope
''', "error: could not compile `calc` (lib test) due to 2 previous errors",
        ("E0308", "src/lib.rs:135:27", 'broken2() -> i32 { "a" }', "E0425", "nothing();", "could not compile"),
        ("zero7 ",)),
    "go test -v, subtests, a panic and a package that is not built": (
        "=== RUN   TestZero{0}\n--- PASS: TestZero{0} (0.00s)", '''=== RUN   TestTable
=== RUN   TestTable/n=0
    a_test.go:6: got -1, want 1
=== RUN   TestTable/n=1
    a_test.go:6: got 0, want 2
--- FAIL: TestTable (0.00s)
    --- FAIL: TestTable/n=0 (0.00s)
    --- FAIL: TestTable/n=1 (0.00s)
=== RUN   TestPanic
--- FAIL: TestPanic (0.00s)
panic: assignment to entry in nil map [recovered]

goroutine 145 [running]:
testing.tRunner.func1.2({0x508ee0, 0x551ed0})
\t/usr/lib/go-1.19/src/testing/testing.go:1396 +0x24e
ex.com/x/pkg/a.Deep(0x475997?)
\t/home/me/go/pkg/a/a.go:6 +0x74
testing.tRunner(0xc000110000, 0x52f3f8)
\t/usr/lib/go-1.19/src/testing/testing.go:1446 +0x10b
FAIL\tex.com/x/pkg/a\t0.010s
# ex.com/x/pkg/bad [ex.com/x/pkg/bad.test]
pkg/bad/b_test.go:3:35: undefined: undefinedThing''', "FAIL\tex.com/x/pkg/bad [build failed]\nFAIL",
        ("got -1, want 1", "got 0, want 2", "FAIL: TestTable/n=0", "nil map", "pkg/a.Deep", "pkg/a/a.go:6",
         "undefined: undefinedThing", "[build failed]"), ("TestZero7 ", "tRunner", "testing.go")),
    "rspec, a file that cannot be loaded": ("  zero {}", '''
An error occurred while loading ./broken_spec.rb.
Failure/Error: require './nothing'

LoadError:
  cannot load such file -- ./nothing
# ./broken_spec.rb:1:in `<top (required)>'
''', "Finished in 0.00007 seconds (files took 0.35896 seconds to load)\n"
        "300 examples, 0 failures, 1 error occurred outside of examples",
        ("loading ./broken_spec.rb", "cannot load such file -- ./nothing", "# ./broken_spec.rb:1", "1 error occurred"),
        ("zero 7",)),
    "minitest": ("T#test_z{} = 0.00 s = .", '''
  1) Failure:
T#test_add [mt.rb:4]:
Expected: 4
  Actual: 0
''', "301 runs, 301 assertions, 1 failures, 0 errors, 0 skips",
        ("T#test_add [mt.rb:4]", "Expected: 4", "301 runs"), ("test_z7 ",)),
    "Maven, not built": ("[INFO] skip non existing resourceDirectory /home/me/mv/src/{}",
            '''[ERROR] COMPILATION ERROR : 
[INFO] -------------------------------------------------------------
[ERROR] /home/me/mv/src/main/java/com/x/Calc.java:[2,66] cannot find symbol
  symbol:   method nope(int)
[ERROR] /home/me/mv/src/main/java/com/x/Calc.java:[2,123] incompatible types: String cannot be converted to int
[INFO] 2 errors ''', "[INFO] BUILD FAILURE\n" + "[INFO] Total time:  4.014 s\n" * 30,
        ("COMPILATION ERROR", "Calc.java:[2,66] cannot find symbol", "method nope(int)", "Calc.java:[2,123]",
         "BUILD FAILURE"), ("src/7",)),
    "ctest -V": ("{0}: zero\n{0}/301 Test #{0}: zero .............................   Passed    0.00 sec",
                 '''test 301
      Start 301: adds

301: t.c:5: expected 4 but got 0
301/301 Test #301: adds .............................***Failed    0.01 sec''',
                 "99% tests passed, 1 tests failed out of 301\n\nThe following tests FAILED:\n\t  301 - adds (Failed)",
                 ("expected 4 but got 0", "***Failed", "301 - adds (Failed)"), ("Test #7:",)),
    # the three below are written after the documented formats: these runners could not be run here
    "Maven": ("[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0 -- in com.x.Zero{}Test ok",
            '''[ERROR] com.x.CalcTest.adds -- Time elapsed: 0.01 s <<< FAILURE!
java.lang.AssertionError: expected:<4> but was:<0>
\tat org.junit.Assert.fail(Assert.java:89)
\tat com.x.CalcTest.adds(CalcTest.java:4)
''', "[INFO] Results:\n[ERROR] Tests run: 301, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE", (
        "<<< FAILURE!", "expected:<4> but was:<0>", "CalcTest.java:4", "Tests run: 301, Failures: 1", "BUILD FAILURE"),
              ("Assert.java:89",)),
    "Gradle": ("CalcTest > zero{}() PASSED", '''CalcTest > adds() FAILED
    org.opentest4j.AssertionFailedError: expected: <4> but was: <0>
        at org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
        at app//calc.CalcTest.adds(CalcTest.java:10)
''', "301 tests completed, 1 failed\n\nFAILURE: Build failed with an exception.\n\nBUILD FAILED in 2s", (
        "adds() FAILED", "expected: <4> but was: <0>", "CalcTest.java:10", "301 tests completed, 1 failed",
        "BUILD FAILED"),
               ("zero7()", "AssertionUtils.java")),
    "dotnet test": ("  Passed Calc.Zero{} [< 1 ms]", '''  Failed Calc.Adds [12 ms]
  Error Message:
   Assert.Equal() Failure: Values differ
Expected: 4
Actual:   0
  Stack Trace:
     at Calc.Adds() in /home/me/Calc.cs:line 9
''', "Failed!  - Failed:     1, Passed:   300, Skipped:     0, Total:   301", (
        "Failed Calc.Adds", "Values differ", "Actual:   0", "Calc.cs:line 9", "Failed!  - Failed:     1"), ("Zero7 ",)),
    "ctest": ("{0}/301 Test #{0}: zero .............................   Passed    0.00 sec",
              "301/301 Test #301: adds .............................***Failed    0.01 sec",
              '''
99% tests passed, 1 tests failed out of 301

The following tests FAILED:
\t  301 - adds (Failed)
Errors while running CTest''', ("***Failed", "1 tests failed out of 301", "301 - adds (Failed)"), ("Test #7:",)),
}


@pytest.mark.parametrize("runner", FAILING_RUNS)
def test_a_failing_run_shows_what_failed(runner: str) -> None:
    row, failure, end, kept, gone = FAILING_RUNS[runner]
    text = "\n".join([*(row.format(i) for i in range(1, 301)), failure, end])
    doc = seen_as(text, "test")
    for view in (views.base(doc, {}), views.testlog(doc)):
        sent = printed(doc, view)
        assert [piece for piece in kept if piece not in sent] == []
        assert [piece for piece in gone if piece in sent] == []
        assert len(sent) < len(text) / 5


def test_a_run_with_hardly_anything_but_failures_keeps_them_all() -> None:
    text = "\n".join([*(f"[ERROR] adds{i}(CalcTest)  <<< FAILURE!\nexpected:<4> but was:<{i}>" for i in range(90)),
                      "[ERROR] Tests run: 90, Failures: 90, Errors: 0, Skipped: 0"])
    doc = seen_as(text, command="mvn -q test")
    assert doc.shape == "test" and views.testlog(doc) is None and views.base(doc, {}) is None


def test_a_bar_above_the_failures_is_no_failure() -> None:
    """Of five failures the source of a test is shown down from its name, and five and a bar are not six."""
    failure = ("__________ test_{0} __________\n\n    def test_{0}():\n" + "        step()\n" * 12
               + ">       assert {0} == 0\nE       assert {0} == 0\n\ntest_a.py:{0}: AssertionError\n")
    text = "\n".join([*(f"test_a.py::test_zero[{i}] PASSED" for i in range(300)), "=" * 35 + " FAILURES " + "=" * 35,
                      *(failure.format(i) for i in range(1, 6)), "5 failed, 300 passed in 0.34s"])
    assert "    def test_1():" in printed(seen_as(text), views.base(seen_as(text), {}))


def many(row: str, count: int = 200, start: int = 1) -> List[str]:
    """Rows that differ by their number."""
    return [row.format(i) for i in range(start, start + count)]


def outcome(lines: Sequence[str], *more: str) -> str:
    return "\n".join([*lines, *more])


RECORD = '  {{\n    "code": "{}",\n    "filename": "/repo/a{}.py",\n    "message": "{}",\n    "row": {}\n  }},'
RECORDS = [RECORD.format("E501", i, "Line too long", i) for i in range(60)]
HUNK = "@@ -{0},3 +{0},3 @@ class A{0}:\n context_{0}\n-old_{0}\n+new_{0}\n context\n context\n context\n context"

# sentence -> (output, shape, kind, task, what must stay, what must go)
BASES: dict[str, tuple[str, str, str, str, Sequence[str], Sequence[str]]] = {
    "a run that passed is its head, its end and its counts": (
        outcome(many("tests/test_a.py::test_x[{}] PASSED"), "===== 200 passed in 1.02s ====="), "test", "command", "",
        ("test_x[1]", "200 passed"), ("test_x[90]",)),
    "gcc: errors with their source, a third equal message without": (  # gcc 12.2.0
        outcome(["a.c: In function 'f':"],
        *(f"a.c:{i}:15: error: 'struct config' has no member named 'rows'\n  {i} |   "
                f"if (at > E.rows_{i}) return;\n      |               ^" for i in range(10, 30)),
                "a.c:556:37: warning: unused parameter 'extra' [-Wunused-parameter]", *many("note text {}", 60),
                "done"),
        "build", "command", "", ("a.c:10:15: error", "E.rows_10", "a.c:29:15: error", "unused parameter 'extra'"),
        ("E.rows_20",)),
    "tsc: two of each code, all of a rare one": (  # tsc 5
        outcome(many("src/a{0}.ts({0},8): error TS2307: Cannot find module 'm{0}'."),
        "src/b.ts(60,14): error TS7053: x.",
                *many("src/c{0}.ts({0},8): error TS2307: Cannot find module 'm{0}'.")), "build", "command", "",
        ("a1.ts(1,8)", "TS7053"), ("m90'",)),
    "cargo: a warning's place stays with it": (  # cargo 1.95.0
        outcome([f"warning: unused variable: `v{i}`\n --> src/m{i}.rs:{i}:9\n  |\n{i} |   let v{i} = 1;\n  |       ^\n"
                 for i in range(60)], "error[E0308]: mismatched types", "  --> src/lib.rs:48:19", "   |",
                "48 |         One { s1: needle }", "   |                   ^^^^^^ expected `u8`, found `u16`", "",
                *many("filler {}", 30), "error: could not compile `memchr` (lib) due to 1 previous error"),
        "build", "command", "", ("--> src/lib.rs:48:19", "expected `u8`, found `u16`", "could not compile"),
        ("let v30",)),
    "npm: the error in the middle of a log": (  # npm 10
        outcome(many("npm http fetch GET 200 https://registry/p{} 30ms (cache miss)", 300),
                "npm error code 1", "Error: Cannot find module './scripts/patch.js'",
                *many("npm http fetch GET 200 https://registry/q{} 30ms (cache miss)", 300)), "build", "command", "",
        ("npm error code 1", "Cannot find module './scripts/patch.js'"), ("/p100 ", "/q100 ")),
    "a search is the rows that the case's words choose, declarations first": (
        outcome(many("src/a.py:{0}:    render_{0}(page)", 150), "src/table.py:7:    x = add_table(render)",
                *many("src/table.py:{0}0:    table_{0} = render(1)", 40), "src/table.py:755:    def render_table(",
                *many("src/z.py:{0}:    render_{0}(page)", 150)), "search", "command",
                "How does table implement render?",
        ("src/table.py:755:    def render_table(", "src/a.py:1:"), ("src/z.py:90:",)),
    "a diff is its headers, and the hunks of the file that is named, whole": (
        outcome(["diff --git a/other.py b/other.py\n--- a/other.py\n+++ b/other.py",
        *(HUNK.format(i) for i in range(9)),
                 "diff --git a/lexer.py b/lexer.py\nindex 1..2\n--- a/lexer.py\n+++ b/lexer.py", HUNK.format(77),
                 "diff --git a/more.py b/more.py\n--- a/more.py\n+++ b/more.py", *(HUNK.format(i) for i in range(20,
                 29))]),
        "diff", "command", "review lexer.py", ("diff --git a/more.py", "@@ -28,3", HUNK.format(77), "+++ b/lexer.py"),
        ("new_25",)),
    "a path list is the first of each directory and what the task names": (
        outcome([f"./src/d{i}/file_{j}.ts" for i in range(20) for j in range(20)] + ["./src/d9/switchMap.ts"]), "tree",
        "listing", "Locate switchMap", ("./src/d0/file_0.ts", "./src/d13/file_0.ts", "switchMap.ts"), ("d13/file_7.ts",
        )),
    "JSON is its first record, each kind once, and whole records that the task asks for": (
        outcome(["[", *RECORDS, RECORD.format("F541", 99, "f-string without any placeholders", 7), *RECORDS[:20],
                 RECORD.format("E1", 5, "end", 9).rstrip(","), "]"]), "json", "data",
                 "Find the f-string without placeholders",
        ("Line too long", "F541", "f-string without any placeholders", "/repo/a99.py", '"row": 7', '"E1"'),
        ("/repo/a31.py",)),
    "a table is its header, its ends and the extremes of each column": (
        outcome(["date,rain,temp"], *(f"2012/01/{i:03},{i % 7}.5,{i % 11}" for i in range(300)),
        "2015/03/15,55.9,-20.5", "2015/03/16,1.5,7\x1c",
                *(f"2016/01/{i:03},{i % 7}.5,{i % 11}" for i in range(300))), "table", "data", "the wettest day",
        ("date,rain,temp", "2012/01/007", "2015/03/15,55.9,-20.5", "2016/01/299"), ("2012/01/150",)),
    "a git log is hash and subject, and whole commits that the task asks for": (
        outcome([f"commit {i:07x}\nAuthor: A <a@b.c>\nDate:   2025-04-24\n\n    Change number {i}\n\n docs/a.rst | 2 +-"
                 for i in range(0xa00000, 0xa00040)] + ["commit dff7cc3\nAuthor: A <a@b.c>\nDate:   2025-04-24\n\n    "
                "Validate Chunked-Encoding footer\n\n h11/_readers.py | 23 +++"]), "git-log", "command",
        "which commit validates the chunked footer?", ("commit 0a0003f", "Change number 10485760",
        "Validate Chunked-Encoding footer",
        "h11/_readers.py | 23"), ("Author: A <a@b.c>\nDate:   2025-04-24\n\n    Change number 10485770",)),
    "a log is two of each template and every rare line": (
        outcome(many("2026-01-01T00:00:{0} GET /page/{0} 200 in {0} ms", 300),
        "2026-01-01T00:09:00 pool exhausted, waiting",
                *many("2026-01-01T00:10:{0} GET /page/{0} 200 in {0} ms", 300)), "log", "command", "",
        ("GET /page/1 ", "pool exhausted"), ("GET /page/150 ",)),
    "a terminal is its end": (outcome(many("line {}", 500)), "terminal", "command", "", ("line 499", "line 1\n"),
            ("line 90\n",)),
    "any other output keeps a signal in the middle": (
        outcome(many("step {} fine and quiet", 300), "ValueError: bad thing", *many("stage {} fine and quiet", 300)),
        "other",
        "command", "", ("ValueError: bad thing",), ("step 250 ",)),
}


@pytest.mark.parametrize("sentence", BASES)
def test_base_view(sentence: str) -> None:
    text, shape, kind, task, kept, gone = BASES[sentence]
    doc = seen_as(text, shape, kind)
    sent = printed(doc, views.base(doc, views.terms(task)))
    assert [piece for piece in kept if piece not in sent] == []
    assert [piece for piece in gone if piece in sent] == []
    assert text.split("\n")[0] in sent and text.split("\n")[-1] in sent


# sentence -> (lines, view, what must stay, what must go)
SEEDS_VIEWS: dict[str, tuple[List[str], Callable[..., Any], str, Sequence[str], Sequence[str]]] = {
    "signals: any Error or Exception, plurals and marks": (
        [*many("fine {}", 50), "ValueError: x", *many("fine {}", 9, 50), "java.lang.NullPointerException",
         *many("fine {}", 50, 60), "3 errors", *many("fine {}", 50, 120), "✖ adds", *many("fine {}", 50, 170)],
        views_regex.signals, "command", ("ValueError: x", "NullPointerException", "3 errors", "✖ adds"), ("fine 90",)),
    "signals: a passing test with `error` in its name is none": (
        [*many("ok {} - fine"), "tests/a.py::test_error PASSED", *many("row {}"), "fatal: no", *many("row {}", 200,
        300)],
        views_regex.signals, "command", ("fatal: no",), ("test_error",)),
    "matches: six rows of each file, and what is no row": (
        [f"a{i}.py:{j}:x = 1" for i in range(9) for j in range(1, 21)] + ["grep: z: binary file matches"],
        views_regex.matches, "command", ("a0.py:6:", "a8.py:1:", "binary file"), ("a0.py:7:", "a8.py:20:x = 1\ng")),
    "matches: rows below the name of their file": (
        [row for i in range(9) for row in (f"src/a{i}.py", *(f"{j * 3}:x = 1" for j in range(1, 21)), "")],
        views_regex.matches, "listing", ("src/a0.py", "15:x", "src/a8.py"), ("18:x",)),
    "matches: rows without numbers": (
        [f"src/a{i}.py:x = {j}_" for i in range(9) for j in range(1, 21)] + ["grep: z: binary file matches"],
        views_regex.matches, "listing", ("a0.py:x = 6_", "a8.py:x = 1_", "binary file"), ("a0.py:x = 7_",)),
    "tree: eight entries of each directory": (
        [f"src/d{i}/f{j:02}.ts" for i in range(9) for j in range(30)], views_regex.tree, "listing",
        ("d0/f07.ts", "d8/f07.ts"), ("d0/f08.ts",)),
    "log: the rare line of 10,000": (
        [*many("tick {} ok", 5000), "disk nearly full", *many("tick {} ok", 5000)], views_regex.log, "command",
        ("disk nearly full", "tick 1 ok"), ("tick 777 ok",)),
    "outline of prose: underlined and marked headings with their first sentence": (
        ["Title", "=====", "", "What it is. More.", *many("text {}", 30), "## Use", "", "Run it.", *many("text {}", 30,
        30)],
        views_regex.outline, "prose", ("Title", "What it is. More.", "## Use", "Run it."),
        ("text 7\n",)),
    "sample: 12 and 2": (many("row {}", 90), views_regex.sample, "data", ("row 12\n", "row 89\n"), ("row 13\n",
            "row 88\n")),
    "head_tail: 40 and 20": (many("row {}", 90), views_regex.head_tail, "command", ("row 40\n", "row 71\n"),
            ("row 41\n",)),
}


@pytest.mark.parametrize("sentence", SEEDS_VIEWS)
def test_view(sentence: str) -> None:
    lines, make, kind, kept, gone = SEEDS_VIEWS[sentence]
    doc = seen_as("\n".join(lines), {"matches": "search", "tree": "tree"}.get(make.__name__, "other"), kind)
    sent = printed(doc, make(doc, {})) + "\n"
    assert [piece for piece in kept if piece not in sent] == []
    assert [piece for piece in gone if piece in sent] == []


def test_no_view_without_its_matter() -> None:
    doc = seen_as("\n".join(many("plain text number {}", 60)), "other")
    assert [make(doc, {}) for make in (views.testlog, views.matches, views.focus, views.head_tail)] == [None] * 4


@pytest.mark.parametrize("shape", ["build", "other", "log", "test"])
@pytest.mark.parametrize("at", [0, 1, 500, 2000, 3999])
def test_one_error_among_4000_lines_stays_wherever_it_stands(shape: str, at: int) -> None:
    lines = many("[{0}/4000] compiling unit_{0}.c", 4000)
    lines.insert(at, "src/a.c:7:1: error: unknown type name 'foo'")
    doc = seen_as("\n".join(lines), shape)
    assert lines[at] in printed(doc, views.base(doc, {}))


def test_the_end_of_few_long_lines_stays() -> None:
    doc = seen_as("\n".join([*("note " + "x" * 3000 for _ in range(30)), "z" * 5000 + " error: could not compile"]),
            "build")
    sent = printed(doc, views.base(doc, {}))
    assert sent.endswith("error: could not compile") and len(sent) < len(doc.text) * 0.6


def test_a_cover_puts_back_lines_whose_names_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = many("plain words {}", 100) + ["def fetchAllRows(self):", "x fetchAllRows", "other_name " + "long " * 300]
    doc = seen_as("\n".join([*lines, *many("plain words {}", 100)]), "other")
    keep = [0, 202]
    assert views.cover(doc, keep) == [0, 100, 202]
    assert views.cover(doc, keep, {"fetchAllRows"}) == keep
    assert views.cover(doc, [0, 101, 202]) == [0, 101, 202]
    for price, want in ((100, keep), (1e9, [0, 100, 102, 202])):
        monkeypatch.setattr(views, "_PRICE", price)
        assert views.cover(doc, keep) == want


def test_a_long_line_is_shown_in_pieces_around_what_is_asked_for() -> None:
    values = ",".join(f'"key{i}": "value number {i}"' for i in range(4000))
    values = values.replace('"value number 2000"', '"websocketDebuggerUrl is here"')
    doc = seen_as(f"[\n{{{values}}}\n]", "json", "data")
    pieces = views.fit(doc, [0, 1, 2], views.terms("Which websocketDebuggerUrl?"))
    line = doc.lines[1]
    shown = [line[start:end] for start, end in pieces[1]]
    assert list(pieces) == [1] and sum(map(len, shown)) < len(line) * 0.55
    assert any("websocketDebuggerUrl is here" in piece for piece in shown)
    assert shown[0].startswith("{") and shown[-1].endswith("}")
    assert all(a[1] <= b[0] for a, b in zip(pieces[1], pieces[1][1:]))


def test_a_line_of_code_is_never_cut() -> None:
    doc = seen_as("x = 1\n" + "y" * 5000, "read", "code")
    assert views.fit(doc, [0, 1], {}) == {}


def test_a_line_of_five_million_characters_gives_a_small_view_soon() -> None:
    text = '{"a_b": 1, "text": "' + "needle_name, " * 5 + "x1y2, " * 800_000 + 'the_end_of_it"}'
    doc = seen_as(text, "json", "data")
    began = time.perf_counter()
    view = views.base(doc, views.terms("where is the_end_of_it?"))
    sent = printed(doc, view)
    assert time.perf_counter() - began < 3
    assert len(sent) < 20_000 and "the_end_of_it" in sent and sent.startswith('{"a_b": 1')


def test_a_view_is_offered_at_exactly_sixty_percent() -> None:
    def text(middle: int) -> views.Doc:
        return seen_as("\n".join(["h" * 9] * 40 + ["m" * 9] * 20 + ["m" * middle] + ["t" * 9] * 20), "other")
    shown = len(printed(text(9), views.head_tail(text(9))))
    exact = next(middle for middle in range(9, 9999) if len(text(middle).text) * 0.6 >= shown)
    assert "head_tail" in [view.name for view in views.candidates(text(exact), {})]
    assert "head_tail" not in [view.name for view in views.candidates(text(exact - 1), {})]


def test_candidates_are_one_of_each_name_base_first() -> None:
    for text, shape, kind, task, _, _ in BASES.values():
        found = [view.name for view in views.candidates(seen_as(text, shape, kind), views.terms(task))]
        assert found and len(found) == len(set(found)) and "base" not in found[1:]


# ================================================================ rendering, markers, tidying


def named_by(doc: views.Doc, sent: str) -> List[int]:
    """The 0-based lines that the markers of a view name, by the numbers of an output without numbers of its own."""
    found: List[int] = []
    for line in sent.split("\n"):
        if line.startswith(views.MARK + " "):
            for part in line[2:].split(" ")[0].split(","):
                first, _, last = part.partition("-")
                found.extend(range(int(first) - 1, int(last or first)))
    return found


ALL_VIEWS = ("base", "outline", "focus", "signals", "testlog", "tree", "matches", "log", "sections", "sample",
        "head_tail")


@pytest.mark.parametrize("name", ALL_VIEWS)
def test_kept_lines_and_lines_named_by_markers_are_all_lines(name: str) -> None:
    built = 0
    runs = [(outcome(many(row, 60), failure, end), "test", "command", "adds") for row, failure, end, _, _ in
            FAILING_RUNS.values()]
    for text, shape, kind, task in [case[:4] for case in BASES.values()] + runs:
        doc = seen_as(text, shape, kind)
        view = getattr(views, name)(doc, views.terms(task))
        if view is None:
            continue
        built += 1
        total = len(doc.lines)
        sent = views.render(doc, view)
        assert sorted([*view.keep, *named_by(doc, sent.text)]) == list(range(total))
        assert list(view.keep) == sorted(set(view.keep)) and set(sent.kept) <= set(view.keep)
        rows = [line for line in sent.text.split("\n") if not line.startswith(views.MARK + " ")]
        assert [line for line in rows if "…" not in line and line not in doc.lines] == [
            views.tidy(doc.lines[line]) for line in view.keep
            if views.tidy(doc.lines[line]) not in doc.lines and "…" not in views.tidy(doc.lines[line])]
        assert views.render(doc, getattr(views, name)(seen_as(text, shape, kind), views.terms(task))) == sent
        full = [line for line in range(total) if doc.lines[line].strip()]
        assert {full[0], full[-1]} <= set(view.keep)
    assert built


# sentence -> (text, lines kept, what is printed)
RENDERED: dict[str, tuple[str, Sequence[int], str]] = {
    "a gap before the first kept line is marked": ("a\nb\nc", [2], "⋯ 1-2\nc"),
    "a gap after the last kept line is marked": ("a\nb\nc", [0], "a\n⋯ 2-3"),
    "a gap of one line is one number": ("a\nb\nc", [0, 2], "a\n⋯ 2\nc"),
    "everything kept has no marker": ("a\nb\n", [0, 1, 2], "a\nb\n"),
    "printed numbers name the gap and are thinned after the first": (
        "\n".join(f"{i}\tline {i}" for i in range(301, 313)), [0, 1, 2, 8, 9, 10, 11],
        "301\tline 301\nline 302\nline 303\n⋯ 304-308\n309\tline 309\n310\tline 310\nline 311\nline 312"),
}


@pytest.mark.parametrize("sentence", RENDERED)
def test_rendering(sentence: str) -> None:
    text, keep, expected = RENDERED[sentence]
    doc = views.read(text, "read", {"path": "notes.unknown"})
    assert views.render(doc, views.View("x", tuple(keep))).text == expected


def test_a_table_has_no_blocks() -> None:
    rows = "\n".join(["name,size,kind", *(f"part_{n},{n},x" for n in range(200))])
    doc = views.read(rows, "read", {"path": "parts.csv"})
    assert (doc.shape, views.blocks(doc)) == ("table", [])


def test_blank_lines_without_a_number_do_not_hide_the_numbers_of_the_others() -> None:
    doc = views.read("\n\n".join(f"{n}: x = {n}" for n in range(1, 20)), "bash", {"command": "x"})
    assert (doc.numbers.origin, doc.bare[:3]) == ("tool", ["x = 1", "", "x = 2"])


def test_a_gutter_numbers_what_has_no_numbers() -> None:
    doc = views.read("\n".join("abcdefghijkl"), "bash", {"command": "make"})
    assert views.render(doc, views.View("x", (0, 9)), gutter=True).text == " 1│ a\n⋯ 2-9\n10│ j\n⋯ 11-12"
    last = views.read("a\n" * 9 + "j", "bash", {"command": "make"})  # the last line alone has the most digits
    assert views.render(last, views.View("x", (0, 9)), gutter=True).text == " 1│ a\n⋯ 2-9\n10│ j"


# the form of pytest 9.2.0; a test of 40 lines before the one that fails
LONG_TEST = ("___ test_{0} ___\n\n    def test_{0}():\n"
             + "".join(f"        {{0}}_{n} = step({n})\n" for n in range(40))
             + ">       assert total_{0} == 7\nE       assert 6 == 7\n\ntest_long.py:43: AssertionError\n")


@pytest.mark.parametrize("failed, above", [(1, 24), (5, 24), (6, 6)])
def test_of_the_source_of_a_failure_the_lines_just_above_the_marked_one_are_kept(failed: int, above: int) -> None:
    text = "".join(map(LONG_TEST.format, "abcdef"[:failed])) + f"=== {failed} failed, 90 passed in 3.10s ===\n"
    doc = views.read(text, "bash", {"command": "pytest"})
    view = views.testlog(doc)
    assert view is not None
    source = [doc.lines[line] for line in view.keep if " = step(" in doc.lines[line]]
    # one line of any test may stand at an end of the text
    assert [line for line in source if "a_" in line or "e_" in line] == [
        f"        {name}_{n} = step({n})" for name in "ae"[:1 + (failed > 4)] for n in range(40 - above, 40)]


# line -> how it is shown in a command's view
TIDY = {
    "=" * 30 + " FAILURES": "=" * 24 + "… FAILURES",
    "=" * 24: "=" * 24,
    "_ " * 20: "_ " * 12 + "…",
    "name        value": "name  value",
    "    indented": "    indented",
    "trailing   ": "trailing",
    "E       assert 1          == 2": "E       assert 1          == 2",
    ">       json.loads(x)          # y": ">       json.loads(x)          # y",
}


@pytest.mark.parametrize("line", TIDY)
def test_tidy(line: str) -> None:
    assert views.tidy(line) == TIDY[line]


def test_a_diff_is_never_tidied() -> None:
    text = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n+            deep = 1\n" + "-x\n" * 40
    doc = seen_as(text, "diff")
    assert "+            deep = 1" in views.render(doc, views.View("x", (0, 4))).text


def test_lines_of_code_are_byte_exact() -> None:
    text = "def f():   \n    x = 'a          b'\n\treturn x \n" + "# " + "=" * 40 + "\n" + "y = 1\n" * 50
    doc = views.read(text, "read", {"path": "a.py"})
    assert views.render(doc, views.View("x", (0, 1, 2, 3))).text.startswith(text[: text.index("\ny")])


def test_pieces_say_how_many_characters_are_missing() -> None:
    doc = seen_as("start\n" + "a" * 1000 + "b" * 1000, "other")
    view = views.View("x", (0, 1), {1: ((0, 3), (1500, 1503))})
    sent = views.render(doc, view)
    assert sent.text == "start\naaa⋯1497 chars⋯bbb⋯497 chars⋯" and sent.kept == (0,)


def test_a_run_that_the_session_has_is_marked_apart() -> None:
    doc = seen_as("\n".join("abcdefgh"), "other")
    view = views.View("x", (0, 7), {}, (views.Known(3, 6, "= 3-5 of read a.py"),))
    assert views.render(doc, view).text == "a\n⋯ 2-3\n⋯ 4-6 = 3-5 of read a.py\n⋯ 7\nh"


# ================================================================ decide


def judged(view: str, full: float = 0.1, needs_full: float = 0.1, confidence: float = 1.0) -> jevlens.Choice:
    """A judge's answer with this much of its probability on the full text."""
    rest = {} if view == "full" else {view: 1 - full}
    return jevlens.Choice(view, {"full": full, **rest}, needs_full, confidence)


CODE_VIEWS = ("outline", "focus", "head_tail")
COMMAND_VIEWS = ("testlog", "sections", "signals", "head_tail")
OUTLINE_POLICY = {"code_policy": "outline"}

# sentence -> (kind, answer, offered views, settings, blocks, the view that is sent, the rule that speaks)
DECISIONS: dict[str, tuple[str, jevlens.Choice, Sequence[str], dict[str, Any], int, str, str]] = {
    "code: a sure outline": ("code", judged("outline", 0.1, 0.1, 0.8), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "code: an outline of what will be edited": (
        "code", judged("outline", 0.1, 0.7, 0.8), CODE_VIEWS, {}, 9, "full", "needs-full"),
    "code: focus becomes outline": ("code", judged("focus"), CODE_VIEWS, {}, 9, "outline", "focus-to-outline"),
    "code: focus becomes outline before the mass on full is weighed": (
        "code", judged("focus", 0.6, 0.1, 0.6), CODE_VIEWS, {}, 9, "outline", "focus-to-outline"),
    "code: focus of what will be edited": ("code", judged("focus", 0.1, 0.6), CODE_VIEWS, {}, 9, "full", "needs-full"),
    "code: focus stays focus where no outline is offered": (
        "code", judged("focus"), ("focus", "head_tail"), {}, 9, "focus", "chosen"),
    "code: most of the mass on full": ("code", judged("outline", 0.6), CODE_VIEWS, {}, 9, "full", "full-mass"),
    "code: some of the mass on full": ("code", judged("outline", 0.4), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "code: less confident than asked for": (
        "code", judged("outline", 0.1, 0.1, 0.2), CODE_VIEWS, {"min_confidence": 0.4}, 9, "full", "low-confidence"),
    "code: exactly as confident as asked for": (
        "code", judged("outline", 0.1, 0.1, 0.4), CODE_VIEWS, {"min_confidence": 0.4}, 9, "outline", "chosen"),
    "no confidence is asked for by default": (
        "code", judged("outline", 0.1, 0.1, 0.0), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "code: a view that was not offered": ("code", judged("sample"), CODE_VIEWS, {}, 9, "full", "not-offered"),
    "code: full, although its mass is small": ("code", judged("full", 0.4), CODE_VIEWS, {}, 9, "full", "chose-full"),
    "nothing offered": ("data", judged("sample"), (), {}, 0, "full", "not-offered"),
    "code takes the lower of the two gates, here the general one": (
        "code", judged("outline", 0.1, 0.45), CODE_VIEWS, {"needs_full_above": 0.4}, 9, "full", "needs-full"),
    "code takes the lower of the two gates, here its own": (
        "code", judged("outline", 0.1, 0.45), CODE_VIEWS, {"code_needs_full_above": 0.4}, 9, "full", "needs-full"),
    "prose does not know the gate of code": (
        "prose", judged("outline", 0.1, 0.45), ("outline",), {"code_needs_full_above": 0.4}, 9, "outline", "chosen"),
    "command: full but not needed is sections": (
        "command", judged("full", 0.7, 0.3, 0.6), COMMAND_VIEWS, {}, 9, "sections", "sections-policy"),
    "command: full and needed": ("command", judged("full", 0.7, 0.8, 0.6), COMMAND_VIEWS, {}, 9, "full", "needs-full"),
    "command: signals below its higher gate": (
        "command", judged("signals", 0.05, 0.6), COMMAND_VIEWS, {}, 9, "signals", "chosen"),
    "command: signals above its gate": (
        "command", judged("signals", 0.05, 0.66), COMMAND_VIEWS, {}, 9, "full", "needs-full"),
    "command: full where no sections are offered": (
        "command", judged("full", 0.7, 0.3), ("signals", "head_tail"), {}, 0, "full", "full-mass"),
    "command: the policy `gate` lets full stand": (
        "command", judged("full", 0.7, 0.3), COMMAND_VIEWS, {"command_policy": "gate"}, 9, "full", "full-mass"),
    "listing: sections are a policy of commands only": (
        "listing", judged("full", 0.7, 0.3), ("sections",), {}, 9, "full", "full-mass"),
    "the policy `outline` needs no judge": (
        "code", judged("full", 0.9, 0.9), CODE_VIEWS, OUTLINE_POLICY, 2, "outline", "outline-policy"),
    "the policy `outline` without blocks to put back": (
        "code", judged("outline"), CODE_VIEWS, OUTLINE_POLICY, 1, "full", "no-blocks"),
    "the policy `outline` without an outline uses the gates": (
        "code", judged("head_tail", 0.1, 0.6), ("head_tail",), OUTLINE_POLICY, 9, "full", "needs-full"),
    "the policy `outline` is for code only": (
        "prose", judged("outline", 0.9, 0.9), ("outline", "head_tail"), OUTLINE_POLICY, 9, "full", "needs-full"),
    "needs-full exactly at the gate": ("code", judged("outline", 0.1, 0.5), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "needs-full at the gate but for floating point": (
        "code", judged("outline", 0.1, 0.1 + 0.2 + 0.2), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "needs-full just above the gate": (
        "code", judged("outline", 0.1, 0.500002), CODE_VIEWS, {}, 9, "full", "needs-full"),
    "needs-full exactly at the gate of commands": (
        "command", judged("full", 0.7, 0.65), COMMAND_VIEWS, {}, 9, "sections", "sections-policy"),
    "needs-full just above the gate of commands": (
        "command", judged("full", 0.7, 0.650002), COMMAND_VIEWS, {}, 9, "full", "needs-full"),
    "half of the mass on full": ("code", judged("outline", 0.5), CODE_VIEWS, {}, 9, "outline", "chosen"),
    "just over half of the mass on full": ("code", judged("outline", 0.500002), CODE_VIEWS, {}, 9, "full", "full-mass"),
    "needs-full is not a number": (
        "data", judged("sample", 0.1, float("nan")), ("sample",), {}, 0, "full", "needs-full"),
    "the mass on full is not a number": (
        "data", judged("sample", float("nan")), ("sample",), {}, 0, "full", "full-mass"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", DECISIONS)
def test_decide(sentence: str) -> None:
    kind, choice, offered, settings, blocks, view, reason = DECISIONS[sentence]
    decision = jevlens.decide(kind, choice, offered, jevlens.Settings(**settings), blocks)
    assert decision == (view, reason)


def test_decide_never_names_a_view_that_was_not_offered() -> None:
    values = (0.0, 0.3, 0.5, 0.65, 1.0)
    for kind in ("code", "prose", "command", "listing", "data"):
        for policy in ({}, OUTLINE_POLICY, {"command_policy": "gate"}):
            settings = jevlens.Settings(**policy)
            for offered in ((), ("outline",), ("sections", "signals"), ("focus",)):
                for view in ("full", "outline", "focus", "sections", "signals", "nonsense"):
                    for full in values:
                        for needs in values:
                            sent = jevlens.decide(kind, judged(view, full, needs), offered, settings, 3)[0]
                            assert sent == "full" or sent in offered


# ================================================================ the local judge


def judged_case(session: jevlens.Session | None = None, output: str = "", tool: str = "read", args: Any = None,
            task: str = "", latest: str = "", said: str = "") -> jevlens.Case:  # fmt: skip
    """A read of shop.py unless it says something else."""
    args = {"path": "shop.py"} if args is None else args
    doc = views_regex.read(output or MODULE, tool, args)
    return jevlens.Case(task, latest, said, tool, args, False, doc, session or jevlens.Session(), {})


def session_of(*calls: Any) -> jevlens.Session:
    """A session in which these (output, tool, args) arrived."""
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    for output, tool, args in calls:
        lens.see(output, tool, args)
    return lens.session


SHOP_EDIT = ("ok", "edit", {"path": "/w/shop.py", "old": "total = 0", "new": "total = 1"})
SHOP_READ = ("total = 0", "read", {"path": "shop.py"})
SHOP_HIT = ("src/shop.py:12:    total = 0", "grep", {"pattern": "total ="})

# sentence -> (a case, the same case without the sign): the sign makes an edit likelier. `before`: what came earlier.
LIKELIER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "something was edited before": ({"before": [SHOP_EDIT]}, {"before": [("ok", "bash", {})]}),
    "a search hit a line of it": ({"before": [SHOP_EDIT, SHOP_HIT]}, {"before": [SHOP_EDIT, SHOP_EDIT]}),
    "an order and not a question": ({"latest": "fix the total"}, {"latest": "explain the total"}),
    "not the seventh read in a row": ({"before": [SHOP_READ]}, {"before": [SHOP_READ] * 6}),
}


@pytest.mark.parametrize("sentence", LIKELIER)
def test_phase_counts_what_makes_an_edit_likelier(sentence: str) -> None:
    points = []
    for more in LIKELIER[sentence]:
        words = {key: value for key, value in more.items() if key != "before"}
        points.append(jevlens.phase(judged_case(session_of(*more.get("before", ())), **words)))
    assert points[0] > points[1]


def test_a_diff_of_a_named_file_is_edited_from() -> None:
    judge = jevlens.LocalJudge()
    reads = [("total = 0", "read", {"path": f"a{n}.py"}) for n in range(5)]
    for session in (session_of(SHOP_EDIT), session_of(*reads)):
        named = judged_case(session, DIFF_TEXT, "bash", {"command": "git diff -- pkg/calc.py"})
        whole = judged_case(session, DIFF_TEXT, "bash", {"command": "git diff"})
        assert judge.needs_full(whole) < 0.5 < judge.needs_full(named)


def test_every_constant_of_the_local_judge_is_used_and_there_are_at_most_forty() -> None:
    assert len(jevlens.LOCAL) <= 40
    source = pathlib.Path(jevlens.__file__).read_text("utf-8")
    inside = source.index("LOCAL: dict"), source.index("}\n", source.index("LOCAL: dict"))
    rest = source[:inside[0]] + source[inside[1]:]
    for name in jevlens.LOCAL:
        assert f'"{name}"' in rest, name


def test_odds_are_even_where_an_edit_costs_what_a_view_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    even, odds = jevlens.LOCAL["break_even"], []
    for p in (0.0, even / 2, even, even * 2, 1.0):
        monkeypatch.setitem(jevlens.LOCAL, "docs", p)
        odds.append(jevlens.LocalJudge().needs_full(judged_case(output="# Guide\n\nRead on.", args={"path": "a.md"})))
    assert odds == sorted(odds) and odds[0] == 0 and odds[2] == 0.5 and odds[-1] < 1
    assert all(0 <= p <= 1 for p in jevlens.EDITED_AT.values())


@pytest.mark.parametrize("points, needed", [(-6, []), (-5, [0.85, 1.0]), (-4, [0.85, 1.0]), (-3, [
    0.7, 0.84, 0.85, 1.0]), (2, [0.7, 0.84, 0.85, 1.0])])
def test_the_likelier_an_edit_the_weaker_a_sign_puts_a_block_back(
        points: int, needed: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    overlaps = [0.0, 0.69, 0.7, 0.84, 0.85, 1.0]
    monkeypatch.setattr(jevlens, "phase", lambda case: points)
    monkeypatch.setattr(jevlens, "signs", lambda case, blocks: overlaps)
    found = jevlens.LocalJudge().need(judged_case(), [])
    assert found == [0.9 if overlap in needed else 0.1 for overlap in overlaps]


def test_the_local_judge_answers_with_probabilities() -> None:
    for output, tool, args in EVERY_KIND.values():
        name, known = jevlens.canonical(tool, args)
        case = judged_case(output=output, tool=name, args=known, task="mend step_7")
        offered = views_regex.candidates(case.doc, {})
        blocks = case.doc.units()
        judge = jevlens.LocalJudge()
        choice = judge.choose(case, offered, blocks)
        assert choice == jevlens.LocalJudge().choose(case, offered, blocks)
        assert choice.view in ("full", *(view.name for view in offered))
        assert abs(sum(choice.p.values()) - 1) < 1e-3 and set(choice.p) <= {"full", *(view.name for view in offered)}
        assert 0 <= choice.needs_full <= 1
        need = judge.need(case, blocks)
        assert len(need) == len(blocks) and set(need) <= {0.1, 0.9}
        assert judge.choose(case, [], blocks).view == "full"


def test_signs_point_at_what_the_session_spoke_of() -> None:
    def strength(**more: Any) -> dict[str, float]:
        case = judged_case(**more)
        blocks = [block for block in case.doc.units() if block.name]
        found, forced = jevlens.signs(case, blocks), jevlens.pointed(case, blocks)
        assert all(0 <= value <= 1 for value in found)
        return {block.name: max(value, own) for block, value, own in zip(blocks, found, forced)}

    nothing = strength()
    assert set(nothing.values()) == {0.0}
    named = strength(task="why is step_7 wrong?")
    assert named["step_7"] == 1 and named["step_8"] < 1
    line = LINES.index("    return value * 11")
    hit = strength(session=session_of((f"shop.py:{line}:    total", "grep", {"pattern": "nothing"})))
    assert hit["step_11"] == 1 and hit["step_12"] == 0
    lines = "*** Update File: src/shop.py\n-    return value * 13\n+    return value * 1300"
    for change in ({"patch": lines}, {"path": "shop.py", "edits": [{"old_string": "    return value * 13\n"}]}):
        edited = strength(session=session_of(("ok", "edit", change)))
        assert edited["step_13"] == 1 and edited["step_14"] < 1


def test_a_session_learns_facts_and_forgets_what_was_sent() -> None:
    trace = 'Traceback (most recent call last):\n  File "/w/cart.py", line 31, in pay\n    total_of(x)\nKeyError: 3'
    by_line = ("ok", "edit", {"path": "a/new.py", "insert_line": 4, "new": "x = compute_total()"})
    run = (trace, "bash", {"command": "python cart.py"})
    session = session_of((MODULE, *READ_SHOP), SHOP_EDIT, SHOP_HIT, run, by_line)
    assert (session.messages, session.edits) == (5, 2)
    assert session.shown == {"shop.py"} and set(session.touched) == {"shop.py", "new.py"}
    assert session.hits["shop.py"] == {12} and session.hits["cart.py"] == {31}
    assert session.line_edits and "total" in session.searched
    assert "step_7" in session.names and "compute_total" in session.names
    session.forget()
    assert session.names == set() and list(session.known(views_regex.read(MODULE))) == []
    assert session.hits and session.touched and session.shown


def test_docs_and_settings_are_sent_whole_unless_they_are_only_looked_at() -> None:
    output = EVERY_KIND["prose"][0]
    for task, view in (("add a part to the guide", "full"), ("review the guide", "base")):
        lens = jevlens.Lens("local", settings=PLAIN_LENS)
        seen = lens.see(output, "read", {"path": "README.md"}, task=task)
        assert seen.shape == "docs" and (seen.view == "full") == (view == "full"), task


# ================================================================ the lens


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts from the defaults: no setting, no key, and no data directory of the person who runs it."""
    for name in list(os.environ):
        if name.startswith(("JEV_LENS_", "TYPESAFE_")):
            monkeypatch.delenv(name)


STEP = '''def step_{n}(value, rate=0.1):
    """Step {n} of the bill."""
    total = 0
    for part in range(value):
        total += part * rate
        if part % 2:
            continue
        total += rate
    if total > {n}:
        total -= {n}
    while total > 1000:
        total /= 2
    if not total:
        return 0
    return value * {n}
'''
MODULE = '"""A shop."""\nimport math\n\n\n' + "\n\n".join(STEP.format(n=n) for n in range(40))
PLAIN_LENS = jevlens.Settings()
OUTLINE_LENS = jevlens.Settings(code_policy="outline")
READ_SHOP = ("read", {"path": "shop.py"})
LINES = MODULE.split("\n")
NUMBERED_SHOP = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(LINES, 1))


class Fixed:
    """A judge with one answer: a view, and P(needed) for every block, or by name."""

    def __init__(self, view: str, need: Any = 0.1, needs_full: float = 0.1, full: float = 0.1) -> None:
        self.answer = jevlens.Choice(view, {"full": full, view: 1 - full}, needs_full)
        self.p = need
        self.offered: list[str] = []
        self.blocks: list[str] = []

    def choose(self, case: jevlens.Case, offered: Sequence[Any], blocks: Sequence[Any]) -> jevlens.Choice:
        self.offered = [view.name for view in offered]
        return self.answer

    def need(self, case: jevlens.Case, blocks: Sequence[Any]) -> list[float]:
        self.blocks = [block.name for block in blocks]
        if isinstance(self.p, Exception):
            raise self.p
        return [self.p if isinstance(self.p, float) else self.p.get(block.name, 0.1) for block in blocks]


def unmark(label: str) -> int:
    """How many lines a marker's label stands for: `7,9-12 +2` is 7."""
    count = 0
    for part in label.replace(" +", ",+").split(","):
        low, _, high = part.partition("-")
        count += int(part) if part.startswith("+") else int(high or low) - int(low) + 1
    return count


def body_of(seen: jevlens.Seen) -> list[str]:
    """The lines of a view without its footer."""
    text, gap, footer = seen.text.rpartition("\n\n")
    assert gap and footer.startswith("[jevlens ") and footer.endswith("]"), seen.text[-300:]
    return text.split("\n")


def shown_as(line: str, text: str, seen: jevlens.Seen, whole: bool) -> bool:
    """Whether `text` is an allowed form of a kept line: exact, without its printed number, tidied, or in pieces."""
    if whole:
        return text == line or bool(re.match(r" {0,8}\d+(?:\t|→|\| |│ |: |:)", line)) and line.endswith(text)
    if len(line) > 1000 and "chars⋯" in text:
        parts = re.split(r"⋯(\d+) chars⋯", text)
        cut = sum(int(size) for size in parts[1::2])
        return cut + sum(map(len, parts[::2])) == len(line) and all(part in line for part in parts[::2])
    return seen.kind not in ("code", "prose") and text == views_regex.tidy(line)


def check(output: str, seen: jevlens.Seen, lens: jevlens.Lens) -> None:
    """What holds for any output: own lines in order, nothing unaccounted for, the ends kept, all of it stored."""
    lines = output.split("\n")
    everything = tuple(range(1, len(lines) + 1))
    assert (seen.total, seen.tokens_before) == (len(lines), -(-len(output) // 4))
    assert seen.tokens_after == -(-len(seen.text) // 4) and seen.reason
    if seen.view == "full":
        assert seen.text is output and (seen.kept, seen.id) == (everything, "")
        return
    assert seen.tokens_after <= 0.95 * seen.tokens_before and seen.text.strip()
    if seen.view == "thin":
        assert (seen.kept, seen.id) == (everything, "")
        pairs = zip(lines, seen.text.split("\n"))
        assert all(shown_as(line, text, seen, True) for line, text in pairs)
        assert seen.text.count("\n") == output.count("\n")
        return
    assert lens.original(seen.id) == output
    at = 0
    shown = set()
    for text in body_of(seen):
        if text.startswith("⋯ "):
            at += unmark(text[2:].split(" = ")[0])
            continue
        assert shown_as(lines[at], text, seen, at + 1 in seen.kept), (at + 1, lines[at], text)
        shown.add(at + 1)
        at += 1
    assert at == len(lines)
    assert shown >= set(seen.kept) and seen.kept == tuple(sorted(set(seen.kept)))
    solid = [n for n, line in enumerate(lines, 1) if line.strip()] or [min(shown)]
    assert {solid[0], solid[-1]} <= shown


# sentence -> (output, tool, arguments): one of each kind, none of them small
EVERY_KIND: dict[str, tuple[str, str, dict[str, Any]]] = {
    "code that was read": (MODULE, *READ_SHOP),
    "code with numbers, as cat -n prints it": (NUMBERED_SHOP, "bash", {"command": "cat -n shop.py"}),
    "code with arrows, as Claude Code prints it": (
        NUMBERED_SHOP.replace("\t", "→"), "Read", {"file_path": "/w/shop.py"}),
    "a part of a file": (
        "\n".join(LINES[300:600]), "bash", {"command": "sed -n '301,900p' shop.py"}),
    "code with CRLF": (MODULE.replace("\n", "\r\n"), *READ_SHOP),
    "code with trailing blanks, bars and long literals": (
        MODULE.replace(":\n", ":  \t\n").replace("total = 0", "total = 0  # " + "=" * 70 + " " * 20 + "x")
        .replace("import math", "WORDS = '" + "long " * 120 + "'"), *READ_SHOP),
    "code with blank lines at both ends": ("\n\n \n" + MODULE + "\n\t\n\n", *READ_SHOP),
    "prose": (
        "\n\n".join(f"## Part {n}\n\n{'The words of this part say little. ' * 8}" for n in range(40)),
        "read", {"path": "README.md"}),
    "settings": (
        "\n".join(f"[part{n}]\nkey_{n} = {n}\nname = \"value {n}\"\n" for n in range(200)),
        "read", {"path": "settings.toml"}),
    "JSON on one line": (
        json.dumps([{"id": n, "name": f"row {n}"} for n in range(900)]), "bash", {"command": "curl x"}),
    "JSON, indented": (
        json.dumps({f"key_{n}": {"id": n, "tags": ["a", "b"]} for n in range(200)}, indent=2),
        "read", {"path": "data.json"}),
    "a table": (
        "day,rain,wind\n" + "\n".join(f"2026-01-{n % 28 + 1:02},{n % 7},{n % 13}" for n in range(900)),
        "read", {"path": "weather.csv"}),
    "a search": (
        "\n".join(f"src/part{n // 9}.py:{n * 3 + 1}:    total = step_{n}(value)" for n in range(300)),
        "grep", {"pattern": "step_", "path": "src"}),
    "a list of files": (
        "\n".join(f"./src/part{n // 30}/file_{n}.py" for n in range(600)), "bash", {"command": "find . -name '*.py'"}),
    "a diff": (
        "".join(
            f"diff --git a/f{n}.py b/f{n}.py\nindex 1..2 100644\n--- a/f{n}.py\n+++ b/f{n}.py\n@@ -1,3 +1,3 @@\n a\n"
            f"-old_{n}\n+new_{n}\n b\n" + " same\n" * 9 for n in range(60)),
        "bash", {"command": "git diff"}),
    "a test run": (
        "=" * 80 + "\n" + "".join(f"tests/test_a.py::test_{n} PASSED [ {n // 4}%]\n" for n in range(380))
        + "=" * 30 + " 380 passed in 3.21s " + "=" * 30 + "\n",
        "bash", {"command": "pytest -v"}),
    "a log with one rare line": (
        "".join(f"2026-11-30 12:{n // 60:02}:{n % 60:02} worker {n % 4}: job {n} done in {n % 9} ms\n" + (
            "2026-11-30 12:05:00 disk quota reached on volume b\n" if n == 300 else "") for n in range(600)),
        "bash", {"command": "docker logs web"}),
    "one very wide line among short ones": (
        "start\n" + ",".join(f"cell {n}" for n in range(9000)) + "\nend\n", "bash", {"command": "cat wide.txt"}),
    "one wide line of one letter": ("x" * 50_000, "bash", {"command": "x"}),
    "nothing but blanks": (" \n" * 5000, "bash", {"command": "x"}),
    "nothing but line ends": ("\n" * 9000, "bash", {"command": "x"}),
    "a web page": (
        "<html><head><title>t</title></head><body>\n" + "".join(f"<p>Part {n}</p>\n<br>\n" for n in range(400)),
        "web_fetch", {"url": "https://example.org"}),
    "bytes that were not UTF-8": ("".join(f"caf\udce9 {n} \udcff\n" for n in range(900)), "bash", {"command": "x"}),
    "colours of a terminal": (
        "".join(f"\x1b[32mok\x1b[0m {n} \x1b[2K\r\n" for n in range(600)), "bash", {"command": "x"}),
    "other scripts": ("".join(f"строка {n} 行 😀 שורה\n" for n in range(600)), "tool_of_mine", {"q": "x"}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", EVERY_KIND)
def test_see_keeps_its_promises(sentence: str) -> None:
    output, tool, args = EVERY_KIND[sentence]
    for settings in (PLAIN_LENS, OUTLINE_LENS):
        for footer in (None, lambda seen: f"[jevlens {seen.id}]"):
            lens = jevlens.Lens("local", settings=settings, footer=footer)
            check(output, lens.see(output, tool, args, task="mend step_7", latest="round the total"), lens)
            check(output, lens.see(output, tool, args, task="mend step_7", latest="round the total"), lens)


VIEWS = ("outline", "focus", "signals", "testlog", "tree", "matches", "log", "sections", "sample", "head_tail")


@pytest.mark.parametrize("view", VIEWS)
def test_see_keeps_its_promises_in_every_view_that_a_judge_may_choose(view: str) -> None:
    offered = 0
    for sentence, (output, tool, args) in EVERY_KIND.items():
        for need in (0.1, 0.9) if view in ("outline", "sections") else (0.1,):
            judge = Fixed(view, need)
            lens = jevlens.Lens(judge, settings=PLAIN_LENS)
            seen = lens.see(output, tool, args, task="mend step_7")
            check(output, seen, lens)
            assert not seen.reason.startswith(("fault", "judge")), sentence
            offered += view in judge.offered
    assert offered or view == "testlog"  # nothing failed in these outputs


def test_a_view_numbers_lines_as_its_reader_sees_them() -> None:
    for output, tool, args, first in (
        (MODULE, *READ_SHOP, 1),
        (NUMBERED_SHOP, "bash", {"command": "cat -n shop.py"}, 1),
        ("\n".join(LINES[300:]), "bash", {"command": "sed -n '301,900p' shop.py"}, 301),
        ("\n".join(LINES[300:]), "read", {"path": "shop.py", "offset": 301}, 301),
    ):
        lens = jevlens.Lens("local", settings=OUTLINE_LENS)
        seen = lens.see(output, tool, args)
        marks = [text[2:] for text in body_of(seen) if text.startswith("⋯ ")]
        low, high = map(int, marks[0].split("-"))
        answer = lens.recall(seen.id, lines=marks[0]).split("\n")[1:]
        assert [text.split("│ ")[-1].split("\t")[-1] for text in answer] == LINES[low - 1:high]
        assert low >= first
        together = lens.recall(seen.id, lines=",".join(marks)).split("\n")[1:]
        assert len(together) == min(400, sum(map(unmark, marks)))


LARGE_EDIT = "The file was edited.\n" + MODULE
PLAIN = {"path": "shop.py"}

# sentence -> (output, tool, arguments, settings, the reason why the very same object comes back)
UNCHANGED: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any], str]] = {
    "one character below the gate": ("x\n" * 2398, "bash", {}, {}, "small"),
    "an empty output": ("", "bash", {}, {}, "small"),
    "the agent's own edit": (LARGE_EDIT, "edit", {"path": "shop.py", "old": "a", "new": "b"}, {}, "own-edit"),
    "the agent's own edit, by another name": (
        LARGE_EDIT, "str_replace_based_edit_tool", {"command": "str_replace", "path": "a.py"}, {}, "own-edit"),
    "the agent's own patch": (LARGE_EDIT, "apply_patch", {"input": "*** Begin Patch"}, {}, "own-edit"),
    "the agent's own new file": (LARGE_EDIT, "Write", {"file_path": "a.py", "content": "x"}, {}, "own-edit"),
    "a new file by the one editor tool": (LARGE_EDIT, "str_replace_editor", {"command": "create"}, {}, "own-edit"),
    "our own recall, a tool": (MODULE, "recall", {"id": "r0123456789a"}, {}, "recall"),
    "our own recall, over MCP": (MODULE, "mcp__jevlens__recall", {"id": "r0123456789a"}, {}, "recall"),
    "our own recall, as Copilot CLI names it": (MODULE, "lens-recall", {"id": "r0123456789a"}, {}, "recall"),
    "our own recall, as opencode names it": (MODULE, "jevlens_recall", {"id": "r0123456789a"}, {}, "recall"),
    "our own recall, a shell command": (
        MODULE, "Bash", {"command": "cd /w && python3 -E -s jevlens.py recall r0123456789a --raw"}, {}, "recall"),
    "our own recall, in a folder with a blank": (
        MODULE, "bash", {"command": "python3 '/my tools/jevlens.py' recall r0123456789a"}, {}, "recall"),
    "our own recall, installed": (MODULE, "bash", {"command": "jevlens recall r0123456789a"}, {}, "recall"),
    "a tool that is excluded": (MODULE, "Read", {"file_path": "a.py"}, {"exclude": "write, read"}, "excluded"),
    "a tool that is excluded by the host's name": (
        MODULE, "Read", {"file_path": "a.py"}, {"exclude": "Read"}, "excluded"),
    "an unknown tool that is excluded": (MODULE, "mcp__db__query", {}, {"exclude": "mcp__db__query"}, "excluded"),
    "tools that are excluded by a pattern": (MODULE, "mcp__db__query", {}, {"exclude": "x, mcp__db__*"}, "excluded"),
    "a path that is excluded": (
        MODULE, "read", {"path": "secret/a.py"}, {"exclude": "secret/*"}, "excluded"),
    "a displayed path that is excluded": (
        MODULE, "bash", {"command": "cat secret/a.py"}, {"exclude": "*.rb,secret/*"}, "excluded"),
    "nothing is done at all": (MODULE, "read", PLAIN, {"disabled": True}, "disabled"),
    "nothing is done before the first send": (MODULE, "read", PLAIN, {"presend": False}, "disabled"),
    "a read that the agent bounded": (MODULE, "read", {"path": "shop.py", "offset": 1, "limit": 400}, {}, "bounded"),
    "a display that the agent bounded": (MODULE, "bash", {"command": "sed -n '10,400p' shop.py"}, {}, "bounded"),
    "an end that the agent bounded": (MODULE, "bash", {"command": "make 2>&1 | tail -300"}, {}, "bounded"),
    "what is not text": (b"x" * 9000, "bash", {}, {}, "not-text"),
    "nothing": (None, "bash", {}, {}, "not-text"),
    "content parts": ([{"type": "text", "text": MODULE}], "bash", {}, {}, "not-text"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", UNCHANGED)
def test_the_same_object_comes_back(sentence: str) -> None:
    output, tool, args, settings, reason = UNCHANGED[sentence]
    lens = jevlens.Lens(Fixed("outline"), settings=jevlens.Settings(**settings))
    seen = lens.see(output, tool, args, task="mend it")
    assert seen.text is output
    assert (seen.view, seen.id, seen.reason) == ("full", "", reason)
    assert lens.store.ids() == []
    if isinstance(output, str):
        check(output, seen, lens)


def test_the_size_gate_counts_characters() -> None:
    for size, small in ((4796, True), (4797, False), (4800, False)):
        assert (jevlens.Lens("local").see("x" * size, "bash", {}).reason == "small") == small
    assert jevlens.Lens("local", settings=jevlens.Settings(min_tokens=0)).see("x", "bash", {}).reason != "small"


def goes_wrong(*_: Any) -> Any:
    raise RuntimeError("down")


class Down:
    """A store or a judge of which one method fails."""

    def __init__(self, method: str, answer: Any = None) -> None:
        self.records: dict[str, Any] = {}
        setattr(self, method, goes_wrong if answer is None else lambda *_: answer)

    def put(self, id: str, record: Any) -> None:
        self.records[id] = record

    def get(self, id: str) -> Any:
        return self.records.get(id)

    def ids(self) -> list[str]:
        return list(self.records)

    def choose(self, *_: Any) -> Any:
        return jevlens.Choice("outline", {"full": 0.1, "outline": 0.9}, 0.1)

    def need(self, case: Any, blocks: Sequence[Any]) -> Any:
        return [0.1] * len(blocks)


# sentence -> (judge, store, footer, arguments of see): each fault costs the view and nothing else
SEE_FAULTS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "a judge that is down": (Down("choose"), None, None, {}),
    "a judge that says nothing": (Down("choose", ()), None, None, {}),
    "a judge that fails at the second step": (Down("need"), None, None, {}),
    "a judge that answers for one block of many": (Down("need", [0.9]), None, None, {}),
    "a judge with answers that are no numbers": (Down("need", ["yes"] * 41), None, None, {}),
    "a store that cannot be written": (Fixed("outline"), Down("put"), None, {}),
    "a store that cannot be read": (Fixed("outline"), Down("get"), None, {}),
    "a footer that fails": (Fixed("outline"), None, goes_wrong, {}),
    "a store below a file": (Fixed("outline"), __file__, None, {}),
}


@pytest.mark.parametrize("sentence", SEE_FAULTS)
def test_see_never_raises(sentence: str) -> None:
    judge, store, footer, more = SEE_FAULTS[sentence]
    lens = jevlens.Lens(judge, store, PLAIN_LENS, footer=footer)
    for _ in range(2):
        seen = lens.see(MODULE, *READ_SHOP, **more)
        assert seen.text is MODULE and seen.view == "full" and seen.reason.startswith(("fault: ", "judge: "))
    assert lens.session.messages == 2 and "step_7" in lens.session.names


# sentence -> arguments of see that a careless host may give
ODD_CALLS: dict[str, dict[str, Any]] = {
    "nothing at all": {"tool": None, "args": None, "task": None, "latest": None, "said": None, "is_error": None},
    "arguments that are no mapping": {"tool": "read", "args": ["shop.py"]},
    "arguments as JSON text": {"tool": "bash", "args": '{"command": "ls"}'},
    "values of other types": {"tool": "read", "args": {"path": 7, "offset": "x", "limit": [], "view_range": ["a", 2]}},
    "keys that are no strings": {"tool": "bash", "args": {1: 2, None: 3, "command": None}},
    "a command of words": {"tool": "shell", "args": {"command": ["bash", "-lc", "cat shop.py"]}},
    "a command of other things": {"tool": "bash", "args": {"command": {"a": 1}}},
    "a tool that is no name": {"tool": 5, "args": {}},
    "a tool name of 100,000 letters": {"tool": "x" * 100_000, "args": {"command": "y" * 100_000}},
    "messages of other types": {"tool": "bash", "args": {}, "task": [{"text": "x"}], "latest": 5, "said": b"x"},
    "arguments that JSON cannot hold": {"tool": "mine", "args": {"when": object(), "set": {1, 2}, "bytes": b"x"}},
    "numbers that are no numbers": {"tool": "read", "args": {"path": "a.py", "offset": float("nan"), "limit": -1}},
    "a range the wrong way round": {"tool": "view", "args": {"path": "a.py", "view_range": [50, 10]}},
    "a range to the end": {"tool": "view", "args": {"path": "a.py", "view_range": [50, -1]}},
    "huge numbers": {"tool": "read", "args": {"path": "a.py", "offset": 10**30, "limit": 10**30}},
    "surrogates everywhere": {"tool": "\ud800", "args": {"command": "\udfff"}, "task": "\ud83d", "said": "\udc00"},
}


@pytest.mark.parametrize("sentence", ODD_CALLS)
def test_see_of_a_careless_call(sentence: str, tmp_path: pathlib.Path) -> None:
    for output in (MODULE, EVERY_KIND["a log with one rare line"][0]):
        lens = jevlens.Lens("local", tmp_path, OUTLINE_LENS)
        seen = lens.see(output, **ODD_CALLS[sentence])
        check(output, seen, lens)
        assert not seen.reason.startswith("fault")
        if seen.id:
            assert jevlens.DirectoryStore(tmp_path).get(seen.id)["id"] == seen.id  # type: ignore[index]


def test_arguments_that_hold_themselves_cost_the_view_and_nothing_else(tmp_path: pathlib.Path) -> None:
    args: dict[str, Any] = {"command": "x"}
    args["self"] = args
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for lens in (jevlens.Lens("local"), jevlens.Lens("local", tmp_path, session="s")):
        assert lens.see(MODULE, "bash", args).text is lens.see(MODULE, "bash", deep).text is MODULE


# sentence -> (P(needed) of every block, settings, view, is the body of step_7 there, reason)
SECOND_STEPS: dict[str, tuple[Any, dict[str, Any], str, bool, str]] = {
    "no block is needed": (0.1, {}, "relevant", False, "chosen"),
    "a block at the threshold is not put back": (0.5, {}, "relevant", False, "chosen"),
    "a block just above the threshold is": (0.501, {"min_tokens": 100}, "full", True, "relevant-is-nearly-full"),
    "a lower threshold": (0.4, {"expand_above": 0.3}, "full", True, "relevant-is-nearly-full"),
    "one block of many": ({"step_7": 0.9}, {}, "relevant", True, "chosen"),
}


@pytest.mark.parametrize("sentence", SECOND_STEPS)
def test_the_second_step_puts_needed_blocks_back(sentence: str) -> None:
    need, settings, view, there, reason = SECOND_STEPS[sentence]
    judge = Fixed("outline", need)
    lens = jevlens.Lens(judge, settings=jevlens.Settings(**settings))
    seen = lens.see(MODULE, *READ_SHOP)
    check(MODULE, seen, lens)
    assert (seen.view, seen.reason) == (view, reason)
    assert ("    return value * 7" in seen.text.split("\n")) == there
    assert judge.blocks.count("step_7") == 1
    assert "import math" in seen.text  # a short header stays


def test_the_second_step_has_a_threshold_for_sections_and_one_for_code() -> None:
    rows = "row of words\n" * 30
    output = "".join(f"part {n}\n{rows}\n" for n in range(30))
    for settings, view in (({}, "relevant"), ({"expand_above": 0.3}, "relevant"),
                           ({"section_expand_above": 0.3}, "full")):
        lens = jevlens.Lens(Fixed("sections", 0.4), settings=jevlens.Settings(**settings))
        assert lens.see(output, "bash", {"command": "./x"}).view == view, settings


def test_only_a_short_header_goes_along() -> None:
    for lines, there in ((10, True), (30, False)):
        imports = "".join(f"import module_{n}\n# why: {n}\n" for n in range(lines // 2))
        seen = jevlens.Lens(Fixed("outline"), settings=PLAIN_LENS).see(imports + "\n\n" + MODULE[20:], *READ_SHOP)
        assert seen.view == "relevant" and ("# why: 3" in seen.text) == there


def test_blocks_that_are_named_hit_or_edited_are_put_back_without_asking() -> None:
    def body(n: int, **more: Any) -> bool:
        lens = jevlens.Lens(Fixed("outline"), settings=PLAIN_LENS)
        for call in more.pop("before", ()):
            lens.see(*call)
        return f"    return value * {n}\n" in lens.see(MODULE, *READ_SHOP, **more).text

    line = LINES.index("    return value * 11") - 2
    trace = f'Traceback (most recent call last):\n  File "/w/shop.py", line {line}, in step_11\n    x\nValueError: no'
    assert not body(11)
    assert body(11, task="Why is step_11 wrong?")
    assert body(11, task="Fix the bill.", latest="look at step_11")
    assert body(11, said="I will open step_11 now.")
    assert body(11, before=[(trace, "bash", {"command": "python shop.py"})])
    assert body(11, before=[(f"shop.py:{line}:    total", "grep", {"pattern": "total"})])
    assert not body(12, before=[(trace, "bash", {"command": "python shop.py"})])
    edited = {"path": "/w/shop.py", "old": "    return value * 11", "new": "    return round(value * 11)"}
    assert body(11, before=[("ok", "edit", edited)])
    assert not body(12, before=[("ok", "edit", edited)])
    assert not body(11, before=[("ok", "edit", {**edited, "path": "other.py"})])
    short = {**edited, "old": "        total += rate", "new": "        total -= rate"}  # it stands in every block
    assert not body(11, before=[("ok", "edit", short)])
    patch = "*** Begin Patch\n*** Update File: w/shop.py\n@@\n-    return value * 11\n+    return 11\n*** End Patch"
    assert body(11, before=[("Done!", "apply_patch", {"input": patch})])


def test_a_section_floor_sends_everything_when_nobody_could_tell() -> None:
    rows = "row of words\n" * 30
    output, tool, args = "".join(f"part {n}\n{rows}\n" for n in range(30)), "bash", {"command": "./x"}
    for need, view in ((0.29, "full"), (0.3, "relevant"), (0.31, "relevant")):
        judge = Fixed("sections", need)
        seen = jevlens.Lens(judge, settings=PLAIN_LENS).see(output, tool, args)
        assert (seen.view, seen.reason) == (view, "floor" if view == "full" else "chosen")


# what an outline of something else than code leaves out: the output, its path, a section that is needed, a line in it
PARTED: dict[str, tuple[str, str, str, str]] = {
    "a guide": ("# Guide\n\n" + "".join(f"## Step {n}\n\nWhat step {n} is for.\n" + "Then more of it follows.\n" * 9
                + f"The end of step {n}.\n\n" for n in range(40)), "guide.md", "Step 7", "The end of step 7."),
    "settings as JSON": (json.dumps({f"key_{n}": {"url": f"https://host/{n}", "parts": [n] * 12, "end": f"of {n}"}
                         for n in range(40)}, indent=1), "a.json", "key_7", '  "end": "of 7"'),
    "settings as TOML": ("".join(f"[part.{n}]\nurl = 'x{n}'\n" + "".join(f"size_{m} = {n * m}\n" for m in range(12))
                         + f"end = {n}\n\n" for n in range(40)), "a.toml", "part.7", "end = 7"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", PARTED)
def test_every_kind_that_has_blocks_has_a_second_step(sentence: str) -> None:
    output, path, name, line = PARTED[sentence]
    for need, view, there in (({name: 0.9}, "relevant", True), ({name: 0.5}, "relevant", False),
                              (0.3, "relevant", False), (0.29, "full", True), (0.9, "full", True)):
        seen = jevlens.Lens(Fixed("outline", need), settings=PLAIN_LENS).see(output, "read", {"path": path})
        assert (seen.view, line in seen.text.split("\n")) == (view, there), (need, seen.reason)


# sentence -> an output of over 400,000 characters that no view of its own makes small, with its call
TOO_LARGE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "code that will be edited": (MODULE * 40, *READ_SHOP),
    "a guide": ("# a\n\nSome words of a guide.\n" * 20_000, "read", {"path": "guide.md"}),
    "nothing but failures": (
        "".join(f"FAILED tests/test_a.py::test_{n} - AssertionError: part {n}\n" for n in range(9000)),
        "bash", {"command": "pytest"}),
    "rows without end": ("".join(f"{n} ok\n" for n in range(60_000)), "bash", {"command": "./run"}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", TOO_LARGE)
def test_what_no_context_can_hold_is_never_sent_whole(sentence: str) -> None:
    output, tool, args = TOO_LARGE[sentence]
    for judge in ("local", Fixed("full", 0.9, 1.0, 1.0)):
        lens = jevlens.Lens(judge, settings=PLAIN_LENS)
        seen = lens.see(output, tool, args, task="fix the total")
        check(output, seen, lens)
        assert seen.id and seen.tokens_after < 50_000


@pytest.mark.parametrize("path", ("build.txt", "notes.md", "settings.toml", "what"))
def test_what_no_context_can_hold_keeps_the_line_that_tells_of_trouble(path: str) -> None:
    rows = [f"Row {n} of the text, with some words in it." for n in range(20_000)]
    rows[9_000] = "fatal error: disk is gone"
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    seen = lens.see("\n".join(rows), "read", {"path": path})
    check("\n".join(rows), seen, lens)
    assert rows[9_000] in seen.text.split("\n") and seen.tokens_after < 2000


def test_code_without_blocks_to_put_back_goes_out_whole() -> None:
    flat = "\n".join(f"alpha_{n}: int = {n}; beta_{n} = 'x{n}'" for n in range(400))
    for settings in (PLAIN_LENS, OUTLINE_LENS):
        judge = Fixed("outline")
        seen = jevlens.Lens(judge, settings=settings).see(flat, "read", {"path": "a.py"})
        assert seen.view == "full" or len(judge.blocks) >= 2


# ---- what the session knows


def replies(*calls: Any, **options: Any) -> list[jevlens.Seen]:
    """What one lens sends for these (output, tool, args), checked."""
    lens = jevlens.Lens("local", **{"settings": PLAIN_LENS, **options})
    found = []
    for output, tool, args in calls:
        found.append(lens.see(output, tool, args, task="mend the bill"))
        check(output, found[-1], lens)
    return found


def test_a_view_whose_original_is_not_stored_teaches_names_and_no_lines() -> None:
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    view = "".join(f"known_name_{n} = {n}\n" for n in range(9)) + "⋯ 10-900\nlast_name()\n\n[jevlens base: 10 lines]"
    assert lens.see(view, "bash", {"command": "make"}).text == view
    assert {"known_name_0", "known_name_8", "last_name"} <= lens.session.names
    doc = views.read(view.partition("⋯")[0], "bash", {"command": "make"})
    assert list(lens.session.known(doc)) == []


def test_lines_that_the_session_was_sent_are_not_sent_again() -> None:
    first, second = replies((MODULE, *READ_SHOP), (MODULE, "bash", {"command": "cat shop.py"}))
    assert first.view == "full" and second.view == "memory"
    assert second.text.split("\n")[:3] == [
        '"""A shop."""', f"⋯ 2-{len(LINES) - 2} = 2-{len(LINES) - 2} of read shop.py", "    return value * 39"]
    assert second.kept == (1, len(LINES) - 1, len(LINES)) and second.tokens_after < 60


def test_a_reread_after_an_edit_sends_the_changed_lines_only() -> None:
    changed = MODULE.replace("return value * 11", "return round(value * 11)")
    edited = ("edited", "edit", {"path": "shop.py", "old": "return value * 11", "new": "return round(value * 11)"})
    _, _, again = replies((MODULE, *READ_SHOP), edited, (changed, *READ_SHOP))
    assert "    return round(value * 11)" in again.text.split("\n")
    assert again.view == "memory" and again.tokens_after < 100
    assert [text for text in body_of(again) if text.startswith("⋯ ")][0].endswith("of read shop.py")


def test_a_marker_names_the_earlier_result_and_its_lines() -> None:
    moved = "\n".join([f"print('first {n}')" for n in range(7)] + LINES[100:160] + ["print('done')"])
    _, again = replies((MODULE, *READ_SHOP), (moved, "bash", {"command": "make show"}),
                       settings=jevlens.Settings(min_tokens=100))  # fmt: skip
    assert "⋯ 8-67 = 101-160 of read shop.py" in again.text.split("\n")


def test_a_marker_names_lines_in_the_numbers_that_the_earlier_result_printed() -> None:
    part = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(LINES[200:260], 501))
    _, again = replies((part, "read", {"path": "other.py"}), (MODULE, *READ_SHOP))
    assert "⋯ 201-260 = 501-560 of read other.py" in again.text.split("\n")


def test_what_was_dropped_from_an_earlier_view_is_not_known() -> None:
    body = "\n".join(LINES[LINES.index("def step_23(value, rate=0.1):"):][:15])
    judge = Fixed("outline")
    lens = jevlens.Lens(judge, settings=jevlens.Settings(min_tokens=0))
    assert body not in lens.see(MODULE, *READ_SHOP).text
    judge.answer = jevlens.Choice("full", {"full": 1.0}, 1.0)
    command = {"command": "sed -n '/step_23/,+14p' shop.py"}
    assert lens.see(body, "bash", command).text is body
    assert lens.see(body, "bash", command).view == "memory"


def test_four_lines_are_sent_again_and_five_are_not() -> None:
    for size, view in ((4, "full"), (5, "memory")):
        run = [f"a line of its own, number {n}, and some more words" for n in range(size)]
        one, two = ("\n".join(["head", *run, "tail"]), "\n".join(["other head", *run, "another tail"]))
        lens = jevlens.Lens(Fixed("full"), settings=jevlens.Settings(min_tokens=0), footer=lambda seen: seen.id)
        assert lens.see(one, "bash", {"command": "a"}).text is one
        assert lens.see(two, "bash", {"command": "b"}).view == view


def test_an_empty_output_is_the_same_object_even_without_a_gate() -> None:
    for output in ("", "x", "\n"):
        lens = jevlens.Lens("local", settings=jevlens.Settings(min_tokens=0))
        check(output, lens.see(output, "bash", {"command": "true"}), lens)


def test_a_forgotten_session_is_sent_everything_again() -> None:
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    assert lens.see(MODULE, *READ_SHOP).view == "full"
    lens.forget()
    assert lens.see(MODULE, *READ_SHOP).text is MODULE
    assert lens.see(MODULE, *READ_SHOP).view == "memory"


def test_memory_can_be_turned_off() -> None:
    _, again = replies((MODULE, *READ_SHOP), (MODULE, *READ_SHOP), remember=False)
    assert again.text is MODULE


def test_memory_and_thinning_apply_to_what_the_agent_bounded() -> None:
    part = "\n".join(NUMBERED_SHOP.split("\n")[:300])
    call = (part, "bash", {"command": "cat -n shop.py | head -300"})
    thin, again = replies(call, call)
    assert (thin.view, thin.reason) == ("thin", "bounded") and (again.view, again.reason) == ("memory", "bounded")
    _, whole = replies((NUMBERED_SHOP, *READ_SHOP), call)
    assert whole.view == "memory"


def test_our_own_recall_and_the_agents_own_edits_are_never_shortened_by_memory() -> None:
    for tool, args in (("recall", {"id": "x"}), ("edit", {"path": "shop.py"}), ("write", {"path": "shop.py"})):
        _, again = replies((MODULE, *READ_SHOP), (MODULE, tool, args))
        assert again.text is MODULE


def test_numbers_are_thinned_to_every_tenth_unless_the_agent_edits_by_them() -> None:
    (seen,) = replies((NUMBERED_SHOP, *READ_SHOP))
    lines = seen.text.split("\n")
    assert seen.view == "thin" and lines[0] == '     1\t"""A shop."""'
    assert lines[1] == "import math" and lines[9] == f"    10\t{LINES[9]}"
    by_line = ("ok", "edit", {"path": "shop.py", "insert_line": 3, "new": "x"})
    _, kept = replies(by_line, (NUMBERED_SHOP, *READ_SHOP))
    assert kept.text is NUMBERED_SHOP


def test_numbers_that_do_not_follow_one_another_are_never_thinned() -> None:
    rows = "\n".join(f"{n * 2}:    total = step_{n}(value) + {n}" for n in range(1, 300))
    (seen,) = replies((rows, "bash", {"command": "grep -n step_ shop.py"}))
    for text in seen.text.split("\n")[:-2]:
        assert text.startswith("⋯ ") or text[:1].isdigit()


def test_an_output_of_blank_lines_or_brackets_that_comes_again_is_no_fault() -> None:
    for output in ("\n" * 6000, "}\n" * 3000):
        for seen in replies((output, "bash", {"command": "x"}), (output, "bash", {"command": "x"})):
            assert not seen.reason.startswith("fault")


def test_a_long_session_stays_bounded_and_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jevlens, "MOST_LINES", len(LINES))
    lens = jevlens.Lens(Fixed("full"), settings=PLAIN_LENS)
    for n in range(25):
        output = MODULE.replace("\n", f"  # {n}\n")
        check(output, lens.see(output, *READ_SHOP), lens)
    assert 0 < len(lens.session._runs) <= 21 * len(LINES)
    assert lens.see(output, *READ_SHOP).view == "memory"


# ---- determinism, threads


def every_view() -> str:
    """A digest of everything that a few sessions send."""
    found = hashlib.sha256()
    for settings in (PLAIN_LENS, OUTLINE_LENS):
        lens = jevlens.Lens("local", settings=settings)
        for sentence, (output, tool, args) in EVERY_KIND.items():
            seen = lens.see(output, tool, args, task=f"mend step_7 and step_11: {sentence}", latest="round the total")
            found.update(repr(seen).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def test_the_same_history_gives_the_same_bytes_under_every_hash_seed() -> None:
    expected = every_view()
    program = "import test_jevlens as t; print(t.every_view())"
    children = [
        subprocess.Popen([sys.executable, "-c", program], cwd=HERE, stdout=subprocess.PIPE,
                         env={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("0", "77")
    ]  # fmt: skip
    assert [child.communicate()[0].decode().strip() for child in children] == [expected, expected]


def test_one_lens_may_be_used_from_several_threads(tmp_path: pathlib.Path) -> None:
    lens = jevlens.Lens("local", tmp_path, OUTLINE_LENS)
    faults: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(4):
                output = MODULE.replace("value", f"{name}_{n}")
                seen = lens.see(output, "read", {"path": f"{name}.py"}, task="x")
                check(output, seen, lens)
                assert lens.recall(seen.id, lines="1-3").count("\n") == 3
                lens.used(100)
                lens.stats()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two", "three", "four")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    stats = lens.stats()
    assert (stats["considered"], stats["shortened"], stats["recalls"]) == (16, 16, 16)
    assert len(lens.store.ids()) == 16


def test_the_share_kept_out_counts_a_result_on_every_later_call() -> None:
    lens = jevlens.Lens("local", settings=OUTLINE_LENS)
    assert lens.stats()["kept_out"] == 0
    lens.used(1000, 500)
    seen = lens.see(MODULE, *READ_SHOP)
    cut = seen.tokens_before - seen.tokens_after
    lens.used(1000)
    lens.used(0, 2500)
    stats = lens.stats()
    assert (stats["sent"], stats["cut"]) == (5000, 2 * cut)
    assert stats["kept_out"] == round(2 * cut / (5000 + 2 * cut), 4)


# ---- footer


def test_a_footer_takes_at_most_forty_tokens_and_a_few_names() -> None:
    seen = jevlens.Lens("local", settings=OUTLINE_LENS).see(MODULE, *READ_SHOP)
    footer = seen.text.rsplit("\n\n", 1)[1]
    assert seen.id in footer and f"{len(seen.kept)} of {seen.total} lines" in footer and seen.view in footer
    assert "complete output stored" in footer and "recall(" in footer and "\n" not in footer
    for kept, total, view in ((3, 9, "log"), (99_999, 123_456, "head_tail"), (1_000_000, 9_999_999, "head_tail")):
        bare = seen._replace(kept=tuple(range(kept)), total=total, view=view, dropped=())
        assert jevlens.tokens(jevlens.default_footer(bare)) <= 40
        named = bare._replace(dropped=tuple(f"Name.of_{n}" for n in range(50)))
        more = jevlens.default_footer(named)[len(jevlens.default_footer(bare)):]
        assert 0 < len(more) <= 160 + len("; left out: ") and more.count("Name.of_") <= 8
        wide = bare._replace(dropped=("n" * 500, "m"))
        assert len(jevlens.default_footer(wide)) <= len(jevlens.default_footer(bare)) + 180
    shell_form = jevlens._own_lens().footer(seen)
    assert f" recall {seen.id} --lines a-b" in shell_form and 'recall("' not in shell_form


def test_the_footer_names_functions_not_what_stands_between_them() -> None:
    between = "\n".join(f"register({n})" for n in range(40))
    seen = jevlens.Lens("local", settings=OUTLINE_LENS).see(MODULE + "\n" + between + "\n" + MODULE, *READ_SHOP)
    assert seen.dropped and not any("register" in name or "(" in name for name in seen.dropped)


def test_the_footer_may_be_another_one_or_none() -> None:
    seen = jevlens.Lens("local", settings=OUTLINE_LENS, footer=False).see(MODULE, *READ_SHOP)
    assert seen.id and "[jevlens" not in seen.text and seen.text.rstrip().endswith("return value * 39")
    own = jevlens.Lens("local", settings=OUTLINE_LENS, footer=lambda told: f"<{told.id} {told.view} {len(told.kept)}>")
    told = own.see(MODULE, *READ_SHOP)
    assert told.text.endswith(f"\n\n<{told.id} {told.view} {len(told.kept)}>")
    assert told.tokens_after == jevlens.tokens(told.text)


def test_a_gutter_numbers_the_lines_of_an_output_without_numbers() -> None:
    seen = jevlens.Lens("local", settings=OUTLINE_LENS, gutter=True).see(MODULE, *READ_SHOP)
    body = [text for text in body_of(seen) if not text.startswith("⋯ ")]
    assert body[0] == '  1│ """A shop."""'
    for text in body:
        number, _, line = text.partition("│ ")
        assert LINES[int(number) - 1] == line
    plain = jevlens.Lens("local", settings=PLAIN_LENS, gutter=True).see("small")
    assert plain.text == "small"


def test_the_store_has_the_text_before_the_view_leaves(tmp_path: pathlib.Path) -> None:
    lens = jevlens.Lens("local", tmp_path, OUTLINE_LENS, session="s1")
    seen = lens.see(MODULE, *READ_SHOP, task="a secret wish")
    record = json.loads((tmp_path / "outputs" / f"{seen.id}.json").read_text())
    assert set(record) == {"v", "id", "text", "at", "tool", "args", "view", "session"}
    assert (record["id"], record["text"], record["session"], record["view"]) == (seen.id, MODULE, "s1", seen.view)
    assert seen.id == "r" + hashlib.sha256(MODULE.encode()).hexdigest()[:11]
    log = (tmp_path / "log.jsonl").read_text()
    assert "step_" not in log and "shop.py" not in log and "secret" not in log
    assert lens.see(MODULE, *READ_SHOP).id == seen.id and len(lens.store.ids()) == 1


def test_no_log_when_it_is_turned_off_and_nothing_on_disk_without_a_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens = jevlens.Lens("local", tmp_path / "a", jevlens.Settings(code_policy="outline", log=False))
    assert lens.recall(lens.see(MODULE, *READ_SHOP).id, lines="1")
    assert not (tmp_path / "a" / "log.jsonl").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "b"))
    assert jevlens.Lens("local", settings=OUTLINE_LENS).see(MODULE, *READ_SHOP).id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


# ---- what the field gets wrong: faults of the known system and public bug reports, end to end with the local judge


class Field(NamedTuple):
    """An output that some tool of this kind spoils: what its view must keep, word for word, and what it must not."""

    output: str
    tool: str
    args: dict[str, Any]
    keeps: Sequence[str] = ()
    drops: Sequence[str] = ()
    task: str = ""
    shortened: bool = True


def steps(count: int, **planted: str) -> str:
    """A build's progress of `count` lines; `at_50="…"` plants a line after that per cent of them."""
    rows = [f"step {n} of {count}: compiled part {n * 31 % 997} in {n % 7} ms" for n in range(count)]
    for place, line in sorted(planted.items(), reverse=True):
        rows.insert(int(place[3:]) * count // 100, line)
    return "\n".join(rows)


def bash(command: str) -> tuple[str, dict[str, str]]:
    return "bash", {"command": command}


# pytest 9.0.3 on Python 3.11, with -v; the passing rows and the failures repeat with another number
PYTEST_HEAD = """============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.0.3, pluggy-1.6.0 -- /usr/bin/python3
rootdir: /w
collected 62 items

"""
PYTEST_CHAIN = """
=================================== FAILURES ===================================
_________________________________ test_missing _________________________________

name = 'nut'

    def price(name):
        try:
>           return PARTS[name]
                   ^^^^^^^^^^^
E           KeyError: 'nut'

shop.py:6: KeyError

The above exception was the direct cause of the following exception:

    def test_missing():
        total = 0
        for name in json.loads('["bolt", "nut"]'):
>           total += shop.price(name)
                     ^^^^^^^^^^^^^^^^

test_chain.py:12:\x20
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _\x20

name = 'nut'

    def price(name):
        try:
            return PARTS[name]
        except KeyError as error:
>           raise ValueError(f"no part called {name}") from error
E           ValueError: no part called nut

shop.py:8: ValueError
=========================== short test summary info ============================
FAILED test_chain.py::test_missing - ValueError: no part called nut
========================= 1 failed, 60 passed in 2.94s =========================
"""
PYTEST_ROW = "test_chain.py::test_fine[{n}] PASSED                                       [ {n:2}%]\n"
PYTEST_FAILURE = """________________________________ test_price[{n}] ________________________________

n = {n}

    @pytest.mark.parametrize("n", range(300))
    def test_price(n):
>       assert n % 4 or n * 2 == n, f"price of part {n}"
E       AssertionError: price of part {n}
E       assert (({n} % 4) or ({n} * 2) == {n})

test_many.py:4: AssertionError
"""
PYTEST_COLLECT = """______________________ ERROR collecting test_import_{n}.py _______________________
ImportError while importing test module '/w/test_import_{n}.py'.
Hint: make sure your test modules/packages have valid Python names.
Traceback:
/usr/lib/python3.11/importlib/__init__.py:126: in import_module
    return _bootstrap._gcd_import(name[level:], package, level)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
test_import_{n}.py:1: in <module>
    import no_such_module_{n}
E   ModuleNotFoundError: No module named 'no_such_module_{n}'
"""
# RSpec 3 documentation format
RSPEC_END = """
Failures:

  1) price of part number 99 is right
     Failure/Error: expect(n == 99 ? 0 : n).to eq(n)

       expected: 99
            got: 0

       (compared using ==)
     # ./t_spec.rb:4:in `block (3 levels) in <top (required)>'

Finished in 0.11027 seconds (files took 0.28289 seconds to load)
200 examples, 1 failure

Failed examples:

rspec ./t_spec.rb[1:100] # price of part number 99 is right
"""
# PHPUnit 9.6.7 with --testdox
PHPUNIT_FAILURE = """ ✘ Price with data set "part 99"
   │
   │ Failed asserting that 99 is identical to 0.
   │
   │ /w/T.php:6
   │
"""
# node 18 with --test-reporter=tap
TAP_ROW = "# Subtest: price of part {n}\nok {m} - price of part {n}\n  ---\n  duration_ms: 0.02\n  ...\n"
TAP_FAILURE = """# Subtest: price of part 99
not ok 100 - price of part 99
  ---
  duration_ms: 1.236265
  location: '/w/a.test.mjs:2:25'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    0 !== 99

  code: 'ERR_ASSERTION'
  ...
"""
# CTest 3.25
CTEST_END = """101/101 Test #101: price_of_nut .....................***Failed    0.03 sec

99% tests passed, 1 tests failed out of 101

Total Test time (real) =   3.12 sec

The following tests FAILED:
\t101 - price_of_nut (Failed)
Errors while running CTest
"""
# unittest of Python 3.11, verbosity 2
UNITTEST_END = """test_nut (__main__.Price.test_nut) ... FAIL

======================================================================
FAIL: test_nut (__main__.Price.test_nut)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/w/unit.py", line 5, in test_nut
    self.assertEqual(32, 0, "part 99")
AssertionError: 32 != 0 : part 99

----------------------------------------------------------------------
Ran 201 tests in 0.018s

FAILED (failures=1)
"""
LONG_ROWS = "\n".join(f"row {n} " + f"word{n} " * 700 for n in range(19))
LONG_ROWS += "\nfinal " + "x" * 5000 + " error: no compiler"
SECTIONS_OF_A_FILE = "".join(f"match {n}{' ' * 40}padded{'=' * 60}\n" for n in range(200))

FIELD: dict[str, Field] = {
    "a library raises in the middle of a log": Field(
        steps(600, at_50="ValueError: bad rate 7"), *bash("make"), ["ValueError: bad rate 7"]),
    "an exception of Java in the middle": Field(
        steps(600, at_50="java.lang.NullPointerException: order"), *bash("make"), ["NullPointerException: order"]),
    "errors in the plural": Field(steps(600, at_50="found 3 errors in cart"), *bash("make"), ["found 3 errors"]),
    "warnings in the plural": Field(
        steps(600, at_50="2 warnings generated."), *bash("make"), ["2 warnings generated."]),
    "npm's own word for an error": Field(
        steps(600, at_50="npm ERR! code ELIFECYCLE"), *bash("npm run build"), ["npm ERR! code ELIFECYCLE"]),
    "a crash": Field(
        steps(600, at_50="Segmentation fault (core dumped)"), *bash("make"), ["Segmentation fault (core dumped)"]),
    "a process that was killed": Field(steps(600, at_50="Killed"), *bash("make"), ["\nKilled\n"]),
    "a cross of a test runner": Field(
        steps(600, at_50="✖ rounds the total"), *bash("npm test"), ["✖ rounds the total"]),
    "an error after one per cent": Field(steps(900, at_01="error: no rule"), *bash("make"), ["error: no rule"]),
    "an error in the middle of 4,000 lines": Field(
        steps(4000, at_50="src/a.c:7:3: error: no bolt"), *bash("make"), ["src/a.c:7:3: error: no bolt"]),
    "an error after 99 per cent": Field(steps(900, at_99="error: no rule"), *bash("make"), ["error: no rule"]),
    "the one rare line among many alike": Field(
        EVERY_KIND["a log with one rare line"][0], *bash("docker logs web"), ["disk quota reached on volume b"]),
    "an error among the rows of a table": Field(
        "\n".join("disk quota reached" if n == 150 else f"{n},alpha,{n * 7 % 13},ok" for n in range(500)),
        "read", {"path": "runs.csv"}, ["disk quota reached", "499,alpha"]),
    "a log that is read as a file": Field(
        steps(600, at_50="FATAL: disk is gone"), "read", {"path": "build.log"}, ["FATAL: disk is gone"]),
    "a pipe that gives status 0 over a failing run": Field(
        steps(600, at_50="2 failed, 7 passed"), *bash("make test | tail -n 9999"), ["2 failed, 7 passed"]),
    "few and long lines, the error last": Field(LONG_ROWS, *bash("cargo build"), ["error: no compiler"]),
    "bars and padding": Field(
        PYTEST_HEAD + "".join(map(PYTEST_ROW.format_map, ({"n": n} for n in range(90)))) + PYTEST_CHAIN,
        *bash("pytest -v"), [], ["=" * 30, "_" * 30, " " * 30]),
    "pytest: chained exceptions, both in our own code": Field(
        PYTEST_HEAD + "".join(map(PYTEST_ROW.format_map, ({"n": n} for n in range(90)))) + PYTEST_CHAIN,
        *bash("pytest -v"),
        [">           return PARTS[name]", "E           KeyError: 'nut'", "shop.py:6: KeyError", "test_chain.py:12:",
         ">           total += shop.price(name)", ">           raise ValueError(f", "shop.py:8: ValueError",
         "E           ValueError: no part called nut", "FAILED test_chain.py::test_missing", "1 failed, 60 passed"],
        ["test_fine[50]"]),
    "pytest: eighty failures": Field(
        PYTEST_HEAD + "=================================== FAILURES ===================================\n"
        + "".join(PYTEST_FAILURE.replace("{n}", str(n)) for n in range(80))
        + "".join(f"FAILED test_many.py::test_price[{n}] - AssertionError: price of part {n}\n" for n in range(80))
        + "======================== 80 failed, 220 passed in 3.66s ========================\n",
        *bash("pytest"), ["80 failed, 220 passed", *(f"test_price[{n}]" for n in range(80))], shortened=False),
    "pytest: nothing could be collected": Field(
        PYTEST_HEAD + "==================================== ERRORS ====================================\n"
        + "".join(PYTEST_COLLECT.replace("{n}", str(n)) for n in range(12))
        + "=========================== short test summary info ============================\n"
        + "".join(f"ERROR test_import_{n}.py\n" for n in range(12))
        + "!!!!!!!!!!!!!!!!!!! Interrupted: 12 errors during collection !!!!!!!!!!!!!!!!!!!\n"
        + "============================== 12 errors in 2.65s ==============================\n",
        *bash("pytest"),
        ["E   ModuleNotFoundError: No module named 'no_such_module_7'", "test_import_7.py:1: in <module>",
         "12 errors in 2.65s"]),
    "rspec": Field(
        "\nprice\n" + "".join(f"  of part number {n} is right\n" for n in range(200)) + RSPEC_END,
        *bash("rspec"), ["1) price of part number 99 is right", "expected: 99", "got: 0", "# ./t_spec.rb:4:in",
                         "200 examples, 1 failure"], ["number 57"]),
    "phpunit": Field(
        "PHPUnit 9.6.7 by Sebastian Bergmann and contributors.\n\nT\n" + "".join(
            PHPUNIT_FAILURE if n == 99 else f' ✔ Price with data set "part {n}"\n' for n in range(200))
        + "\nTime: 00:00.029, Memory: 6.00 MB\n\nFAILURES!\nTests: 200, Assertions: 200, Failures: 1.\n",
        *bash("phpunit --testdox T.php"),
        ['✘ Price with data set "part 99"', "Failed asserting that 99 is identical to 0.", "/w/T.php:6",
         "Tests: 200, Assertions: 200, Failures: 1."], ['"part 57"']),
    "TAP": Field(
        "TAP version 13\n" + "".join(
            TAP_FAILURE if n == 99 else TAP_ROW.format(n=n, m=n + 1) for n in range(200))
        + "1..200\n# tests 200\n# pass 199\n# fail 1\n",
        *bash("node --test"), ["not ok 100 - price of part 99", "0 !== 99", "/w/a.test.mjs:2:25", "# fail 1"],
        ["part 57"]),
    "ctest": Field(
        "Test project /w\n" + "".join(
            f"        Start {n:3}: price_{n}\n{n:3}/101 Test {f'#{n}':>4}: price_{n} ..........   Passed    0.03 sec\n"
            for n in range(1, 101)) + CTEST_END,
        *bash("ctest"), ["price_of_nut", "***Failed", "1 tests failed out of 101", "\t101 - price_of_nut (Failed)"]),
    "unittest": Field(
        "".join(f"test_{n} (__main__.Price.test_{n}) ... ok\n" for n in range(200)) + UNITTEST_END,
        *bash("python unit.py"),
        ["FAIL: test_nut (__main__.Price.test_nut)", "AssertionError: 32 != 0 : part 99", "FAILED (failures=1)"],
        shortened=False),
    "JSON on one line, one part asked for": Field(
        json.dumps({f"key_{n}": {"id": n, "url": f"https://example.org/{n}"} for n in range(4000)}), *bash("curl x"),
        ["https://example.org/777"], task="which url has key_777?"),
    "JSON, values are not replaced by their types": Field(
        json.dumps([{"id": n, "socket": f"ws://host/{n}"} for n in range(2000)], indent=1), *bash("curl x"),
        ["ws://host/"], ["string", "number"]),
    "a search, one word of which is asked for": Field(
        "\n".join(f"src/p{n // 9}.py:{n * 3 + 1}:    total = " + ("refund(value)" if n == 177 else f"add(value, {n})")
                  for n in range(300)),
        "grep", {"pattern": "total", "path": "src"}, ["src/p19.py:532:    total = refund(value)"],
        task="where is the refund computed?"),
    "a search with headings, as ripgrep prints it": Field(
        "\n\n".join(f"src/p{n}.py\n" + "\n".join(f"{m}:    total = add(value, {m + n})" for m in range(9, 30))
                    for n in range(40)), *bash("rg --heading total"), ["src/p0.py"]),
    "sections of a command are tidied when they are put back": Field(
        SECTIONS_OF_A_FILE, *bash("./report"), ["match 0", "match 199"], ["=" * 30, " " * 30]),
    "a code file by its first lines is not one": Field(
        "cat: a.py: No such file or directory\n" + steps(300), *bash("cat a.py; make"),
        ["cat: a.py: No such file or directory"]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", FIELD)
def test_what_the_field_gets_wrong(sentence: str) -> None:
    case = FIELD[sentence]
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    seen = lens.see(case.output, case.tool, case.args, task=case.task, is_error="error" in sentence)
    check(case.output, seen, lens)
    assert [part for part in case.keeps if part not in seen.text] == []
    assert [part for part in case.drops if part in seen.text] == []
    assert (seen.view != "full") >= case.shortened, seen.reason
    numbers = set(re.findall(r"\w+", case.output))
    for text in seen.text.split("\n") if seen.view == "full" else body_of(seen):
        if not text.startswith("⋯ "):
            assert "…" in text or "⋯" in text or not set(re.findall(r"\w+", text)) - numbers


def test_a_diff_keeps_hunks_whole_and_byte_exact() -> None:
    hunk = "@@ -{n},4 +{n},4 @@ def f{n}():\n context {n}          padded\n-old line {n}   \n+new line {n}\t\n "
    hunk += "=" * 60
    text = "\n".join(
        f"diff --git a/f{n}.py b/f{n}.py\nindex 11{n:05}..22{n:05} 100644\n--- a/f{n}.py\n+++ b/f{n}.py\n"
        + hunk.replace("{n}", str(n)) + "\n" + "\n".join(f" same {m} in {n}" for m in range(3)) for n in range(60))
    for command in ("git diff", "git log -p"):
        lens = jevlens.Lens("local", settings=PLAIN_LENS)
        seen = lens.see(text, "bash", {"command": command}, task="round in f7")
        check(text, seen, lens)
        lines = text.split("\n")
        starts = [n for n, line in enumerate(lines) if line.startswith("@@")]
        for start in starts:
            end = next((n for n in range(start, len(lines)) if lines[n].startswith("diff ")), len(lines))
            kept = [n for n in range(start, end) if n + 1 in seen.kept]
            changed = [n for n in range(start, end) if lines[n][:1] in "+-"]
            assert not set(changed) & set(kept) or kept == list(range(start, end))


def test_a_footer_stands_under_a_view_exactly_when_something_is_left_out() -> None:
    for output, tool, args in EVERY_KIND.values():
        for settings in (PLAIN_LENS, OUTLINE_LENS):
            seen = jevlens.Lens("local", settings=settings).see(output, tool, args)
            left_out = seen.view not in ("full", "thin")
            assert left_out == ("complete output stored" in seen.text) == bool(seen.id)


def test_recall_gives_long_lines_back_that_a_view_shows_in_pieces() -> None:
    lens = jevlens.Lens("local", settings=PLAIN_LENS)
    seen = lens.see(LONG_ROWS, "bash", {"command": "cargo build"})
    assert "chars⋯" in seen.text
    for n, line in enumerate(LONG_ROWS.split("\n"), 1):
        assert lens.recall(seen.id, lines=str(n)).split("\n", 1)[1].endswith(line)


def test_the_first_request_counts_when_the_latest_message_says_go_on() -> None:
    found = []
    for task in ("mend step_23", "mend it"):
        lens = jevlens.Lens("local", settings=OUTLINE_LENS)
        found.append("    return value * 23\n" in lens.see(MODULE, *READ_SHOP, task=task, latest="go on").text)
    assert found == [True, False]

# ---- settings

# sentence -> (environment, fields that differ from the defaults, how many lines of warning)
ENVIRONMENTS: dict[str, tuple[dict[str, str], dict[str, Any], int]] = {
    "none": ({}, {}, 0),
    "empty strings": ({"PRESEND_MIN_TOKENS": "", "DISABLED": ""}, {}, 0),
    "numbers": ({"PRESEND_MIN_TOKENS": "300", "PRESEND_SECTION_FLOOR": "0"},
                {"min_tokens": 300, "section_floor": 0.0}, 0),
    "not a number": ({"PRESEND_MIN_TOKENS": "many"}, {}, 1),
    "no number by name": ({"PRESEND_NEEDS_FULL_ABOVE": "nan", "KEEP_DAYS": "inf"}, {}, 2),
    "out of bounds": ({"PRESEND_NEEDS_FULL_ABOVE": "1.5", "PRESEND_EXPAND_ABOVE": "-0.1"}, {}, 2),
    "at the bounds": ({"PRESEND_NEEDS_FULL_ABOVE": "1", "PRESEND_EXPAND_ABOVE": "0"},
                      {"needs_full_above": 1.0, "expand_above": 0.0}, 0),
    "switches": ({"PRESEND": "0", "DISABLED": "1", "LOG": "0"}, {"presend": False, "disabled": True, "log": False}, 0),
    "a switch in words": ({"DISABLED": "yes"}, {}, 1),
    "policies": ({"PRESEND_CODE_POLICY": "outline", "PRESEND_COMMAND_POLICY": "gate"},
                 {"code_policy": "outline", "command_policy": "gate"}, 0),
    "a policy that is none": ({"PRESEND_CODE_POLICY": "outlines"}, {}, 1),
    "another program's settings": ({"NOBODYS": "1"}, {}, 0),
    "a variant that is missing": ({"VARIANT": "nowhere.json"}, {}, 1),
}  # fmt: skip


@pytest.mark.parametrize("sentence", ENVIRONMENTS)
def test_settings_from_the_environment(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    names, fields, warnings = ENVIRONMENTS[sentence]
    settings = jevlens.Settings.load({"JEV_LENS_" + name: value for name, value in names.items()})
    said = capsys.readouterr().err.splitlines()
    where = {"data_dir": settings.data_dir, "key_file": os.path.join(settings.data_dir, "key")}
    assert settings == jevlens.Settings(**{**where, **fields})
    assert len(said) == warnings and all(line.startswith("jevlens: JEV_LENS_") for line in said)


def test_the_defaults_are_those_of_the_known_system() -> None:
    default = jevlens.Settings.load({})
    assert (default.min_tokens, default.needs_full_above, default.full_mass_above) == (1200, 0.5, 0.5)
    assert (default.code_needs_full_above, default.command_needs_full_above) == (0.5, 0.65)
    assert (default.code_policy, default.command_policy) == ("gate", "sections")
    assert (default.expand_above, default.section_expand_above, default.section_floor) == (0.5, 0.5, 0.3)
    assert (default.min_confidence, default.model, default.keep_days) == (0, "jev-latest", 90)
    assert os.path.isabs(default.data_dir) and os.path.basename(default.data_dir) == "jevlens"
    moved = jevlens.Settings.load({"JEV_LENS_DATA_DIR": "there"})
    assert (moved.data_dir, moved.key_file) == ("there", os.path.join("there", "key"))
    for name in ("JEV_LENS_DATA_DIR", "JEV_LENS_KEY_FILE"):  # a host's own settings reach us without a shell
        moved = jevlens.Settings.load({name: os.path.join("~", "x")})
        assert os.path.isabs(moved.data_dir) and moved.key_file.startswith(os.path.expanduser(os.path.join("~", "x")))


FOLDERS = {
    ("linux", "XDG_DATA_HOME"): "~/.local/share", ("freebsd14", "XDG_DATA_HOME"): "~/.local/share",
    ("darwin", ""): "~/Library/Application Support", ("win32", "LOCALAPPDATA"): "~/AppData/Local"}


@pytest.mark.parametrize("platform, name", FOLDERS)
def test_the_folder_is_the_platforms_own(platform: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    usual = os.path.expanduser(FOLDERS[platform, name])
    for environ, folder in (({}, usual), ({name: ""}, usual), ({name: "/base"}, "/base"), ({name: "~"}, "~")):
        if name or not environ:
            data_dir = os.path.join(os.path.expanduser(folder), "jevlens")
            settings = jevlens.Settings.load(environ)
            assert (settings.data_dir, settings.key_file) == (data_dir, os.path.join(data_dir, "key"))


VARIANTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "settings": ('{"config": {"min_tokens": 5, "code_policy": "outline"}}',
                 {"min_tokens": 5, "code_policy": "outline"}, 0),
    "wrapped": ('{"variant": {"name": "x", "config": {"min_tokens": 5}}}', {"min_tokens": 5}, 0),
    "prompts": ('{"prompts": {"a": "b"}}', {"variant": {"prompts": {"a": "b"}}}, 0),
    "a value out of bounds": ('{"config": {"expand_above": 7, "min_tokens": 6}}', {"min_tokens": 6}, 1),
    "a value of another type": ('{"config": {"min_tokens": [1], "disabled": "on", "code_policy": []}}',
                                {}, 3),
    "nothing": ('{"config": {"min_tokens": null, "model": null, "key_file": "", "data_dir": null}}', {}, 0),
    "an unknown field": ('{"config": {"nobodys": 7}}', {}, 0),
    "no JSON": ("{", {}, 1),
    "not UTF-8": ("\xff", {}, 1),
    "a list": ("[1]", {}, 1),
    "a number": ("5", {}, 1),
    "settings that are none": ('{"config": 5}', {}, 1),
    "settings in a list": ('{"config": ["x"]}', {}, 1),
    "too deep": ("[" * 100_000, {}, 1),
}  # fmt: skip


@pytest.mark.parametrize("sentence", VARIANTS)
def test_settings_from_a_variant_file(sentence: str, tmp_path: pathlib.Path, capsys: Any) -> None:
    content, fields, warnings = VARIANTS[sentence]
    path = tmp_path / "variant.json"
    path.write_text(content, "latin-1")
    environment = {"JEV_LENS_VARIANT": str(path), "JEV_LENS_PRESEND_MIN_TOKENS": "700"}
    settings = jevlens.Settings.load(environment)
    said = capsys.readouterr().err.splitlines()
    where = {"data_dir": settings.data_dir, "key_file": os.path.join(settings.data_dir, "key")}
    where["variant"] = settings.variant
    assert settings == jevlens.Settings(**{"min_tokens": 700, **where, **fields})
    assert len(said) == warnings, said


# sentence -> (the host's tool and arguments, ours)
HOST_CALLS: dict[str, tuple[str, Any, str, dict[str, Any]]] = {
    "Claude Code reads": (
        "Read", {"file_path": "a.py", "offset": 3, "limit": 9}, "read", {"path": "a.py", "offset": 3, "limit": 9}),
    "Claude Code runs": ("Bash", {"command": "ls"}, "bash", {"command": "ls"}),
    "Claude Code edits": (
        "Edit", {"file_path": "a", "old_string": "x", "new_string": "y"},
        "edit", {"path": "a", "old": "x", "new": "y"}),
    "Codex runs": ("exec_command", {"cmd": "ls"}, "bash", {"command": "ls"}),
    "Codex runs a list of words": (
        "shell", {"command": ["bash", "-lc", "cat a | head"]}, "bash", {"command": "cat a | head"}),
    "a list of plain words": ("shell", {"command": ["git", "diff", "a b"]}, "bash", {"command": "git diff 'a b'"}),
    "a list of three plain words": (
        "shell", {"command": ["git", "diff", "a.py"]}, "bash", {"command": "git diff a.py"}),
    "OpenHands views": (
        "str_replace_editor", {"command": "view", "path": "a", "view_range": [5, 9]},
        "read", {"path": "a", "offset": 5, "limit": 5}),
    "OpenHands views to the end": (
        "str_replace_editor", {"command": "view", "path": "a", "view_range": [5, -1]},
        "read", {"path": "a", "offset": 5}),
    "OpenHands creates": (
        "str_replace_editor", {"command": "create", "path": "a", "file_text": "x"},
        "write", {"path": "a", "content": "x"}),
    "OpenHands replaces": (
        "str_replace_editor", {"command": "str_replace", "path": "a", "old_str": "x"},
        "edit", {"path": "a", "old": "x"}),
    "Cursor reads": (
        "read_file", {"target_file": "a", "start_line": 5, "end_line": 9},
        "read", {"path": "a", "offset": 5, "limit": 5}),
    "Gemini searches": (
        "search_file_content", {"pattern": "x", "dir_path": "src"}, "grep", {"pattern": "x", "path": "src"}),
    "ours stay": ("grep", {"pattern": "x", "path": "p"}, "grep", {"pattern": "x", "path": "p"}),
    "unknown stays": ("mcp__db__Query", {"sql": "x"}, "mcp__db__Query", {"sql": "x"}),
    "no arguments": ("Bash", None, "bash", {}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", HOST_CALLS)
def test_tools_and_arguments_of_known_hosts(sentence: str) -> None:
    tool, args, ours, expected = HOST_CALLS[sentence]
    before = copy.deepcopy(args)
    name, found = jevlens.canonical(tool, args)
    assert name == ours and {key: found.get(key) for key in expected} == expected
    assert found.get("limit") == expected.get("limit")
    assert args == before


# ================================================================ recall and the store


HERE = pathlib.Path(__file__).resolve().parent
NOTES = "\n".join(f"note {n} of the day" for n in range(1, 1001))  # 1,000 lines in the output's own numbers


def stored(text: str, tool: str = "bash", args: dict[str, Any] | None = None, store: Any = None) -> jevlens.Lens:
    """A lens whose store holds this output under ID."""
    lens = jevlens.Lens("local", store, jevlens.Settings())
    lens.store.put(ID, {"v": 1, "id": ID, **jevlens.pack(text), "tool": tool, "args": args or {}})
    return lens


ID = "r0123456789a"


def note_lines(answer: str) -> list[int]:
    """The notes in a recall of NOTES."""
    return [int(line.split("note ")[1].split()[0]) for line in answer.split("\n") if "note " in line]


# sentence -> (arguments of recall, the notes that come back)
RECALLS: dict[str, tuple[dict[str, str], list[int]]] = {
    "a range": ({"lines": "40-43"}, [40, 41, 42, 43]),
    "one line": ({"lines": "40"}, [40]),
    "an open end": ({"lines": "998-"}, [998, 999, 1000]),
    "an open start": ({"lines": "-3"}, [1, 2, 3]),
    "several, with blanks": ({"lines": "7, 9 - 10 ,12-12"}, [7, 9, 10, 12]),
    "several out of order come in the order of the output": ({"lines": "12,7"}, [7, 12]),
    "overlapping ranges give each line once": ({"lines": "3-5,4-6"}, [3, 4, 5, 6]),
    "a colon": ({"lines": "120:122"}, [120, 121, 122]),
    "a long dash, as people paste it": ({"lines": "5–6"}, [5, 6]),
    "the wrong way round": ({"lines": "9-7"}, [7, 8, 9]),
    "past the end": ({"lines": "999-2000"}, [999, 1000]),
    "all past the end": ({"lines": "2000-3000"}, []),
    "line 0 is nobody's": ({"lines": "0"}, []),
    "a text, any case": ({"pattern": "NOTE 500 OF"}, [498, 499, 500, 501, 502]),
    "a text at the start has no lines before it": ({"pattern": "note 1 of"}, [1, 2, 3]),
    "a text that is nowhere": ({"pattern": "absent"}, []),
    "a text with signs of a regex": ({"pattern": "note (5|6) of"}, []),
    "a regex, any case": ({"pattern": "/^NOTE (5|6) of/"}, [3, 4, 5, 6, 7, 8]),
    "a regex with flags": ({"pattern": "/note 500 /gi"}, [498, 499, 500, 501, 502]),
    "a pattern stays within the range": ({"lines": "499-500", "pattern": "note 500 "}, [499, 500]),
    "the context of a hit stays within the range": ({"lines": "10-20", "pattern": "/note (9|10|20|21) /"},
                                                    [10, 11, 12, 18, 19, 20]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", RECALLS)
def test_recall(sentence: str) -> None:
    asked, expected = RECALLS[sentence]
    answer = stored(NOTES).recall(ID, **asked)
    assert note_lines(answer) == expected
    assert answer.startswith(f"[{ID}: {len(expected)} of 1000 lines, in the output's numbers")
    assert ("[no line matches]" in answer) == (not expected)


PARSER = """class Parser:
    def feed(self):
        return 1

    def feed_all(self):
        return 2

def feeder():
    return 3
"""

# sentence -> (the name that is asked for, the lines that come back)
NAMED_BLOCKS: dict[str, tuple[str, list[int]]] = {
    "the last part of a name, and not what begins like it": ("feed", [2, 3, 4]),
    "all parts, in any case": ("parser.FEED", [2, 3, 4]),
    "a name in a name": ("parser", [1, 2, 3, 4, 5, 6, 7]),
    "what is nobody's last part is looked for in the names": ("eed", [2, 3, 4, 5, 6, 7, 8, 9]),
}


@pytest.mark.parametrize("sentence", NAMED_BLOCKS)
def test_recall_by_the_name_of_a_block(sentence: str) -> None:
    name, lines = NAMED_BLOCKS[sentence]
    doc = views_regex.read(PARSER, "read", {"path": "a.py"})
    assert [line + 1 for line in jevlens.select(doc, {"block": name}) if doc.lines[line]] == [
        line for line in lines if doc.lines[line - 1]]


# sentence -> (arguments of recall, what the error says)
BAD_RECALLS: dict[str, tuple[dict[str, Any], str]] = {
    "lines in words": ({"lines": "all"}, "write 40-90, 40, 40-, -90"),
    "a lone dash": ({"lines": "-"}, "write 40-90"),
    "three ends": ({"lines": "1-2-3"}, "write 40-90"),
    "a comma too many": ({"lines": "1,"}, "write 40-90"),
    "two numbers": ({"lines": "4 4"}, "write 40-90"),
    "digits of another script": ({"lines": "١-٣"}, "write 40-90"),
    "a superscript": ({"lines": "²"}, "write 40-90"),
    "a number of 5,000 digits": ({"lines": "9" * 5000}, "write 40-90"),
    "a broken regex": ({"pattern": "/[/"}, "unterminated character set"),
    "an unknown block": ({"block": "nowhere"}, "not in this output"),
    "a cursor in words": ({"cursor": "next"}, "use the one that a page names"),
    "a superscript as cursor": ({"cursor": "²"}, "use the one that a page names"),
    "a negative cursor": ({"cursor": "-1"}, "use the one that a page names"),
}


@pytest.mark.parametrize("sentence", BAD_RECALLS)
def test_recall_says_what_is_wrong(sentence: str) -> None:
    asked, why = BAD_RECALLS[sentence]
    with pytest.raises(jevlens.JevlensError, match=why) as caught:
        stored(NOTES).recall(ID, **asked)
    assert str(caught.value).startswith("recall: ")
    assert len(str(caught.value)) < 800


def test_recall_of_lines_takes_a_number_as_well() -> None:
    assert note_lines(stored(NOTES).recall(ID, lines=40)) == [40]  # type: ignore[arg-type]  # models send numbers


@pytest.mark.parametrize("pattern", ["/usr/bin", "/src/img", "/etc/my/i18n", "/", "//"])
def test_a_path_is_searched_as_a_text_and_not_as_a_regex(pattern: str) -> None:
    text = f"usr src etc {NOTES}\nfirst {pattern}/x"
    answer = stored(text).recall(ID, pattern=pattern).split("\n")
    assert answer[-1].endswith(f"first {pattern}/x")
    assert "usr src" not in answer[1]


def test_a_regex_that_backtracks_is_stopped_after_about_a_second() -> None:
    lens = stored("a" * 64 + "!\n" + NOTES)
    start = time.monotonic()
    with pytest.raises(jevlens.JevlensError, match="stopped after one second"):
        lens.recall(ID, pattern="/(a+)+$/")
    assert 0.9 < time.monotonic() - start < 5


def test_a_text_is_recalled_whole_and_exact_when_it_fits_a_page() -> None:
    for text in ("one\r\ntwo\n", "", "\n", "x", "a\0b\x0b\x0c\u2028c\x85d", "\udcff\udc80 bytes", "\ud800 half"):
        lens = stored(text)
        assert lens.recall(ID) == lens.original(ID) == text


def pages(lens: jevlens.Lens, **asked: str) -> list[str]:
    """All pages of one recall, without their headers, following the calls that they name."""
    found = []
    cursor = ""
    while True:
        head, _, body = lens.recall(ID, **asked, **({"cursor": cursor} if cursor else {})).partition("\n")
        found.append(body)
        assert len(body) <= 50_000 + 400 * 12  # and a gutter before each line
        assert body.count("\n") < 400
        if "cursor=" not in head:
            return found
        following = head.split('cursor="')[1].split('"')[0]
        assert f'recall("{ID}"' in head and following != cursor
        cursor = following


def test_pages_follow_one_another_and_together_give_back_the_text() -> None:
    assert "\n".join(pages(stored(NOTES))) == NOTES
    assert [body.count("\n") + 1 for body in pages(stored(NOTES))] == [400, 400, 200]
    wide = "\n".join(letter * 3000 for letter in "abcdefghijklmnopqrstuvwxyz" * 2)
    assert "\n".join(pages(stored(wide))) == wide


def test_pages_cut_a_line_that_is_longer_than_a_page_and_lose_no_character() -> None:
    long = "".join(f"{n:06}," for n in range(30_000))
    for text in (long, "head\n" + long, long + "\ntail", "head\n" + long + "\n" + long + "\ntail"):
        parts = pages(stored(text))
        assert max(map(len, parts)) <= 50_000
        assert "".join(parts).replace("\n", "") == text.replace("\n", "")


@pytest.mark.parametrize("size", (49_999, 50_000, 50_001, 100_000, 300_000))
def test_no_page_is_empty(size: int) -> None:
    for first in "y", "y" * size:
        parts = pages(stored(first + "\n" + "x" * size))
        assert all(parts) and len(parts) == -(-len(first) // 50_000) - (-size // 50_000), list(map(len, parts))


@pytest.mark.parametrize("short", range(49_985, 50_003))
def test_pages_are_whole_wherever_a_page_ends_before_a_long_line(short: int) -> None:
    text = "x" * short + "\n" + "y" * 60_000 + "\nz"
    for asked in ({}, {"lines": "1-2"}):
        parts = pages(stored(text), **asked)
        together = "".join(parts)
        assert (together.count("x"), together.count("y")) == (short, 60_000)


def test_a_range_is_paged_too_and_its_next_page_names_the_range() -> None:
    parts = pages(stored(NOTES), lines="101-900", pattern="note")
    assert [number for part in parts for number in note_lines(part)] == list(range(101, 901))


def test_recall_speaks_the_numbers_of_the_file_for_a_partial_read() -> None:
    lens = stored(NOTES, "read", {"path": "notes.txt", "offset": 301, "limit": 1000})
    answer = lens.recall(ID, lines="310-311")
    assert note_lines(answer) == [10, 11]
    assert "in the file's numbers" in answer and "310│ note 10" in answer


def test_recall_speaks_the_numbers_that_a_tool_printed() -> None:
    text = "\n".join(f"{n:6}\tvalue = {n}" for n in range(501, 701))
    answer = stored(text, "read", {"path": "a.py"}).recall(ID, lines="510-511")
    assert answer.split("\n")[1:] == ["   510\tvalue = 510", "   511\tvalue = 511"]
    assert "in the tool's numbers" in answer


def test_an_unknown_id_names_the_ids_that_exist_and_what_to_do() -> None:
    lens = stored(NOTES)
    for id in ("r00000000000", "../../etc/passwd", "", "r" + "0" * 2000 + "/x", ID.upper(), ID + "\n", None, 7):
        with pytest.raises(jevlens.JevlensError, match="run the command again") as caught:
            lens.recall(id)  # type: ignore[arg-type]
        assert ID in str(caught.value) and len(str(caught.value)) < 400


def test_an_unknown_id_in_a_full_store_names_the_latest_twenty() -> None:
    lens = jevlens.Lens("local")
    for n in range(100):
        lens.store.put(f"r{n:011x}", {"text": str(n)})
    with pytest.raises(jevlens.JevlensError, match="stored: ") as caught:
        lens.original("rfffffffffff")
    assert f"r{99:011x}" in str(caught.value) and f"r{79:011x}" not in str(caught.value)


class DictStore(dict):  # type: ignore[type-arg]
    """The least that a store has to be."""

    def put(self, id: str, record: dict[str, Any]) -> None:
        self[id] = record

    def ids(self) -> list[str]:
        return list(self)


def test_a_different_text_with_the_same_digest_gets_a_longer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jevlens, "digest", lambda text: "ab" * 16 + hashlib.sha256(text.encode()).hexdigest()[:32])
    store = DictStore()
    lens = jevlens.Lens("local", store)
    texts = ["one", "two", "three"]
    for text in texts:
        id = jevlens.free_id(text, store)
        store.put(id, {"text": text})
    assert len(store) == 3
    assert [len(id) for id in store] == [12, 34, 35] or len({len(id) for id in store}) > 1
    assert [lens.original(id) for id in store] == texts
    assert [jevlens.free_id(text, store) for text in texts] == list(store)
    assert all(re.fullmatch(jevlens.ID, id) for id in store)


HOSTILE_TEXTS = {
    "CRLF": "one\r\ntwo\r\n",
    "NUL and controls": "a\0b\x1b[31m\x07\x0b\x0c\x1c\x85\u2028",
    "bytes that were not UTF-8": b"caf\xe9 \xff\xfe \x80".decode("utf-8", "surrogateescape"),
    "half of a pair": "\ud83d and \ude00 apart",
    "beyond the basic plane": "😀" * 10,
    "no text": "",
    "what JSON escapes": '"\\ \u2028 </script>',
}


@pytest.mark.parametrize("sentence", HOSTILE_TEXTS)
def test_a_directory_gives_every_text_back_exactly(sentence: str, tmp_path: pathlib.Path) -> None:
    text = HOSTILE_TEXTS[sentence]
    stored(text, store=tmp_path)
    assert jevlens.Lens("local", str(tmp_path)).original(ID) == text
    json.loads((tmp_path / "outputs" / f"{ID}.json").read_text("ascii"))


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_directory_is_for_its_owner_only(tmp_path: pathlib.Path) -> None:
    home = tmp_path / "new" / "data"
    store = jevlens.DirectoryStore(home)
    store.put(ID, {"text": "secret"})
    store.log({"event": "see"})
    for path, mode in ((home, 0o700), (home / "outputs", 0o700), (home / "outputs" / f"{ID}.json", 0o600),
                       (home / "log.jsonl", 0o600)):  # fmt: skip
        assert stat.S_IMODE(path.stat().st_mode) == mode, path


def test_a_directory_writes_a_record_whole_or_not_at_all(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = jevlens.DirectoryStore(tmp_path)
    store.put(ID, {"text": "old"})

    def full_disk(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.put(ID, {"text": "new"})
    assert store.get(ID) == {"text": "old"}
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == [f"{ID}.json"]


def test_a_directory_is_read_past_what_is_not_a_record_of_ours(tmp_path: pathlib.Path) -> None:
    store = jevlens.DirectoryStore(tmp_path)
    assert store.ids() == [] and store.get(ID) is None and store.events() == []
    store.put(ID, {"text": "mine"})
    outputs = tmp_path / "outputs"
    torn = ["", "{", "[]", "null", "5", '["text"]', '"text"', "\xff", '{"other": 1}', '{"text": 5}',
            '{"text_b64": "A"}', '{"text_b64": "/w=="}', '{"text_b64": 5}']  # fmt: skip
    for n, text in enumerate(torn):
        (outputs / f"r{n:011}.json").write_text(text, "latin-1")
        assert store.get(f"r{n:011}") is None
    (outputs / "notes.txt").write_text("x")
    (outputs / "r.json").write_text("{}")
    (outputs / f"{ID}.json.1.2.tmp").write_text("{}")
    assert set(store.ids()) == {ID, *(f"r{n:011}" for n in range(len(torn)))}
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b'{"event": "see"}\n[1]\n{"torn\n\xff\xfe\n{"event": "recall"}\n{"cut')
    assert [event["event"] for event in store.events()] == ["see", "recall"]


FOREIGN_IDS = ["", "r", "../../../etc/passwd", "r../../../xx", "R0123456789A", "r0123456789g", "é" * 12]


@pytest.mark.parametrize("id", FOREIGN_IDS)
def test_no_id_of_somebody_else_reaches_a_file_name(id: str, tmp_path: pathlib.Path) -> None:
    store = jevlens.DirectoryStore(tmp_path / "data")
    assert store.get(id) is None
    with pytest.raises(jevlens.JevlensError, match="is not an id"):
        store.put(id, {"text": "x"})
    assert list(tmp_path.rglob("*")) == []


def test_old_records_are_pruned_once_an_hour_and_the_new_one_never(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time() + 60]  # ahead of the stamps, which have the time of the machine
    monkeypatch.setattr(time, "time", lambda: now[0])
    store = jevlens.DirectoryStore(tmp_path, keep_days=90)
    old, young, third, fourth = (f"r{n:011}" for n in range(4))
    for id, days in ((old, 91), (young, 89)):
        store.put(id, {"text": id})
        os.utime(tmp_path / "outputs" / f"{id}.json", (now[0] - days * 86_400,) * 2)
    store.put(third, {"text": "within the hour: no sweep"})
    assert set(store.ids()) == {old, young, third}
    now[0] += 3601
    store.put(fourth, {"text": "x"})
    assert set(store.ids()) == {young, third, fourth}
    os.utime(tmp_path / "prune.stamp", (now[0], now[0]))  # the sweep's stamp has the time of the machine
    now[0] += 3601
    kept = jevlens.DirectoryStore(tmp_path, keep_days=0)
    kept.put(old, {"text": "its handle was just given away"})
    assert kept.ids() == [old]


def test_a_stamp_from_the_future_does_not_stop_pruning_for_ever(tmp_path: pathlib.Path) -> None:
    now = time.time()
    store = jevlens.DirectoryStore(tmp_path, keep_days=1)
    store.put(ID, {"text": "x"})
    os.utime(tmp_path / "outputs" / f"{ID}.json", (now - 2 * 86_400,) * 2)
    os.utime(tmp_path / "prune.stamp", (now + 10 * 86_400,) * 2)
    store.put("rfffffffffff", {"text": "y"})
    assert store.ids() == ["rfffffffffff"]


PARALLEL = """
import sys, jevlens
store = jevlens.DirectoryStore(sys.argv[1])
for n in range(40):
    store.put(f"r{n:011}", {"text": f"text {n} " * 2000})
    store.log({"event": "see", "n": n, "who": sys.argv[2] * 300})
    record = store.get(f"r{n:011}")
    if record is None or record["text"] != f"text {n} " * 2000:
        sys.exit(f"torn: {n}")
"""


def test_several_processes_write_the_same_store_at_once(tmp_path: pathlib.Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", PARALLEL, str(tmp_path), name], cwd=HERE) for name in "abc"]
    assert [child.wait() for child in children] == [0, 0, 0]
    store = jevlens.DirectoryStore(tmp_path)
    assert len(store.ids()) == 40 and len(list((tmp_path / "outputs").iterdir())) == 40
    assert sorted(event["n"] for event in store.events()) == sorted([*range(40)] * 3)


# ================================================================ System One: the wire

ASKED = {
    "retries": noul("Does `code` retry a failed call?", true="It is sent again.", false="It is raised at once."),
    "layer": choice("Which layer is `code`?", {"network": "Talks to machines", "parser": "Makes data", "other": None}),
    "risk": score("How easily does `code` lose data?", ["cannot", "with other faults", "on its own"]),
}
HUNDRED = {"pick": choice("Which?", {f"option {n}": None for n in range(100)})}


def right_answer(request: Mapping[str, Any], noul: float = 0.97, **top: Any) -> Dict[str, Any]:
    """What a server may answer to a request: P(yes) `noul`, the first option or level at 0.8, the rest shared."""
    answers: Dict[str, Any] = {}
    for name, question in request["questions"].items():
        names = list(question.get("criteria") or ())
        kind = question["type"]
        names = [str(level) for level in range(len(names))] if kind == "score" else names
        p = {each: 1.0 if len(names) == 1 else round(0.2 / (len(names) - 1), 4) if at else 0.8
             for at, each in enumerate(names)}
        answers[name] = {"type": kind}
        if kind == "noul":
            answers[name]["noul"] = noul
        else:
            answers[name].update(probabilities=p, confidence=0.5)
        if kind == "choice":
            answers[name]["choice"] = names[0]
        if kind == "score":
            answers[name]["score"] = sum(int(at) * share for at, share in p.items())
            answers[name]["legend"] = dict.fromkeys(p, "level")
    usage = {"input_tokens": 412, "output_tokens": 61}
    return {"model": "jev-1.13.0", "answers": answers, "usage": usage, **top}


def changed(path: str, value: Any, asked: Mapping[str, Any] = ASKED) -> bytes:
    """A right answer to `asked` with one field changed; `path` with dots, value `...` takes it away."""
    top = right_answer({"questions": asked})
    *way, last = path.split(".")
    place: Any = top
    for key in way:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(top).encode()


def spread(leader: float, second: float, picked: str, rest: float) -> bytes:
    return changed("answers.layer", {"type": "choice", "choice": picked, "confidence": 0.5,
                                     "probabilities": {"network": leader, "parser": second, "other": rest}})


WRONG_ANSWERS: Dict[str, Tuple[bytes, str]] = {
    "not JSON": (b"upstream error", "body"),
    "a web page": (b"<!DOCTYPE html><html></html>", "body"),
    "cut in the middle": (changed("model", "m")[:-9], "body"),
    "not UTF-8": (b'{"model": "\xff"}', "body"),
    "gzip that nobody asked for": (gzip.compress(changed("model", "m")), "body"),
    "an array": (b"[]", "body"),
    "NaN in a field nobody reads": (changed("x_extra", float("nan")), "body"),
    "Infinity": (changed("usage.input_tokens", float("inf")), "body"),
    "a repeated key": (changed("model", "m").replace(b'"model"', b'"model": "a", "model"', 1), "body"),
    "nested past the stack": (b"[" * 200_000, "body"),
    "a number of 5,000 digits in a field that is read": (changed("answers.retries.noul", 1).replace(
        b'"noul": 1', b'"noul": ' + b"1" * 5000), ""),
    "more than 1 MiB": (changed("x_extra", "a" * (1 << 20)), "body"),
    "no answers": (changed("answers", ...), "answers"),
    "answers in a list": (changed("answers", []), "answers"),
    "an answer missing": (changed("answers.risk", ...), "answers"),
    "an answer that nobody asked for": (changed("answers.more", {"type": "noul", "noul": 0.5}), "answers"),
    "no model": (changed("model", ...), "model"),
    "an empty model": (changed("model", ""), "model"),
    "no usage": (changed("usage", ...), "usage"),
    "a token count with a fraction": (changed("usage.input_tokens", 412.0), "usage"),
    "a token count that is a boolean": (changed("usage.input_tokens", True), "usage"),
    "a token count below zero": (changed("usage.output_tokens", -1), "usage"),
    "pi's type name": (changed("answers.retries.type", "bool"), "answers.retries"),
    "the type of another question": (changed("answers.layer.type", "score"), "answers.layer"),
    "an answer that is a number": (changed("answers.retries", 0.97), "answers.retries"),
    "a noul above 1": (changed("answers.retries.noul", 1.01), "answers.retries.noul"),
    "a noul below 0": (changed("answers.retries.noul", -0.01), "answers.retries.noul"),
    "a noul that is a text": (changed("answers.retries.noul", "0.97"), "answers.retries.noul"),
    "a noul that is a boolean": (changed("answers.retries.noul", True), "answers.retries.noul"),
    "a noul that overflows to infinity": (changed("answers.retries.noul", 1).replace(b'"noul": 1', b'"noul": 1e999'),
                                          "answers.retries.noul"),
    "no noul": (changed("answers.retries.noul", ...), "answers.retries.noul"),
    "no confidence": (changed("answers.layer.confidence", ...), "answers.layer.confidence"),
    "a confidence above 1": (changed("answers.risk.confidence", 1.5), "answers.risk.confidence"),
    "an option renamed in case": (changed("answers.layer.probabilities", {"Network": 0.8, "parser": 0.1, "other": 0.1}),
                                  "answers.layer.probabilities"),
    "an option missing": (changed("answers.layer.probabilities.other", ...), "answers.layer.probabilities"),
    "an option too many": (changed("answers.layer.probabilities.more", 0.0), "answers.layer.probabilities"),
    "levels counted from 1": (changed("answers.risk.probabilities", {"1": 0.8, "2": 0.1, "3": 0.1}),
                              "answers.risk.probabilities"),
    "a sum of 1.06": (spread(0.8, 0.16, "network", 0.1), "answers.layer.probabilities"),
    "a sum of 0.94": (spread(0.8, 0.1, "network", 0.04), "answers.layer.probabilities"),
    "a choice that trails by 0.02": (spread(0.46, 0.44, "parser", 0.1), "answers.layer.choice"),
    "a choice that was not offered": (changed("answers.layer.choice", "none"), "answers.layer.choice"),
    "a choice that is a list": (changed("answers.layer.choice", ["network"]), "answers.layer.choice"),
    "a score that is the likeliest level": (changed("answers.risk.score", 0), "answers.risk.score"),
    "a score beyond the last level": (changed("answers.risk.score", 2.01), "answers.risk.score"),
    "no legend": (changed("answers.risk.legend", ...), "answers.risk.legend"),
    "a legend counted from 1": (changed("answers.risk.legend", {"1": "a", "2": "b", "3": "c"}), "answers.risk.legend"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_one_fault_voids_the_answer(case: str) -> None:
    body, field = WRONG_ANSWERS[case]
    with pytest.raises(AnswerError) as caught:
        parse_answer(body, ASKED)
    assert caught.value.field.startswith(field) and caught.value.want and caught.value.got
    fault = caught.value
    assert str(fault) == f"System One: {fault.field}: want {fault.want}, got {fault.got}"


RIGHT_ANSWERS: Dict[str, bytes] = {
    "as it is": changed("model", "jev-1.14.0"),
    "fields that gateways add": changed("provider", {"name": "x", "cost": "0"}),
    "an answer with a field of its own": changed("answers.retries.x_note", "hm"),
    "whole numbers without a point": changed("answers.retries.noul", 1),
    "token counts that are missing": changed("usage", {}),
    "token counts that are null": changed("usage", {"input_tokens": None, "output_tokens": None}),
    "a choice that trails by 0.01": spread(0.45, 0.44, "parser", 0.11),
    "a sum of exactly 1.05": spread(0.8, 0.15, "network", 0.1),
    "another formula for confidence": changed("answers.layer.confidence", 0.01),
    "a score rounded up with its levels": changed("answers.risk.score", 0.33),
    "options in another order": changed("answers.layer.probabilities", {"other": 0.1, "parser": 0.1, "network": 0.8}),
    "levels described by objects": changed("answers.risk.legend", {"0": {}, "1": {"a": 1}, "2": []}),
}


@pytest.mark.parametrize("case", RIGHT_ANSWERS)
def test_right_answers_are_taken(case: str) -> None:
    found = parse_answer(RIGHT_ANSWERS[case], ASKED)
    assert list(found) == list(ASKED)
    assert list(found["layer"].probabilities) == ["network", "parser", "other"]  # in the order sent, not in the body's


def test_answers_carry_the_words_of_the_wire() -> None:
    found = parse_answer(json.dumps(right_answer({"questions": ASKED})).encode(), ASKED)
    assert found["retries"] == Answer("noul", noul=0.97)
    # users' type checkers see these
    types = {name: getattr(each, "__forward_arg__", each) for name, each in Answer.__annotations__.items()}
    assert (types["noul"], types["choice"]) == ("float | None", "str | None")
    assert types["probabilities"] == "dict[str, float]"
    layer = found["layer"]
    assert (layer.choice, layer.probabilities["network"], layer.confidence) == ("network", 0.8, 0.5)
    assert (round(found["risk"].score or 0, 2), found["risk"].legend["2"]) == (0.3, "level")
    assert (found.model, found.input_tokens, found.output_tokens) == ("jev-1.13.0", 412, 61)


def test_a_hundred_options_rounded_to_two_decimals() -> None:
    flat = {f"option {n}": 0.01 for n in range(100)}
    for total, p in {"0.99": {**flat, "option 0": 0.0}, "1.3": {**flat, "option 0": 0.31}}.items():
        picked = max(p, key=lambda name: p[name])
        answer = {"type": "choice", "choice": picked, "probabilities": p, "confidence": 0}
        body = changed("answers.pick", answer, HUNDRED)
        assert parse_answer(body, HUNDRED)["pick"].choice == picked, total
    with pytest.raises(AnswerError):  # beyond 100 * 0.005
        parse_answer(changed("answers.pick", {"type": "choice", "choice": "option 0", "confidence": 0,
                                              "probabilities": {**flat, "option 0": 0.52}}, HUNDRED), HUNDRED)


def test_a_pinned_model_must_have_answered() -> None:
    body = changed("model", "jev-1.13.0")
    assert parse_answer(body, ASKED, pin="jev-1.13.0").model == "jev-1.13.0"
    with pytest.raises(AnswerError, match="model"):
        parse_answer(body, ASKED, pin="jev-1.14.0")


class Array:
    """As an array of numpy: neither true nor false, and not compared as one."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __eq__(self, other: object) -> Any:
        return self


LONE = "\ud800"  # a lone surrogate: what a byte that is not UTF-8 becomes
REFUSED_REQUESTS: Dict[str, Tuple[Callable[[], object], str]] = {
    "no question": (lambda: build_request("", {}), "questions"),
    "questions in a list": (lambda: build_request("", [noul("a?")]), "questions"),  # type: ignore[arg-type]
    "an empty id": (lambda: build_request("", {"": noul("a?")}), "questions"),
    "an id that is a number": (lambda: build_request("", {1: noul("a?")}), "questions"),  # type: ignore[dict-item]
    "a state that is null": (lambda: build_request(None, ASKED), "state"),
    "a state that is a number": (lambda: build_request(7, ASKED), "state"),
    "a state with NaN": (lambda: build_request({"a": float("nan")}, ASKED), "state"),
    "a state with a lone surrogate": (lambda: build_request(LONE, ASKED), "state"),
    "a state with bytes": (lambda: build_request({"a": b""}, ASKED), "state"),
    "no model": (lambda: build_request("", ASKED, ""), "model"),
    "a question without words": (lambda: noul(""), "noul.instructions"),
    "one side": (lambda: noul("a?", true="yes"), "noul.criteria"),
    "an empty side": (lambda: noul("a?", true="yes", false=""), "noul.criteria"),
    "a lone surrogate in a question": (lambda: noul(LONE), "noul"),
    "NaN in a criterion": (lambda: noul("a?", {"p": float("nan")}, "no"), "noul"),
    "no options": (lambda: choice("a?", {}), "choice.criteria"),
    "256 options": (lambda: choice("a?", {str(n): None for n in range(256)}), "choice.criteria"),
    "options in a list": (lambda: choice("a?", ["a", "b"]), "choice.criteria"),  # type: ignore[arg-type]
    "an option without a name": (lambda: choice("a?", {"": "a"}), "choice.criteria"),
    "an option named by null": (lambda: choice("a?", {None: "a"}), "choice.criteria"),  # type: ignore[dict-item]
    "a number of 5,000 digits": (lambda: build_request(10 ** 5000, ASKED), "state"),
    "an array of another library": (lambda: choice("a?", Array()), "choice.criteria"),  # type: ignore[arg-type]
    "levels in an array of another library": (lambda: score("a?", Array()), "score.criteria"),
    "sides in an array of another library": (
        lambda: build_request("", {"a": {**noul("a?"), "criteria": Array()}}), "questions.a.criteria"),
    "an option that is a number": (lambda: choice("a?", {"a": 1}), "choice.criteria"),
    "no levels": (lambda: score("a?", []), "score.criteria"),
    "eleven levels": (lambda: score("a?", ["level"] * 11), "score.criteria"),
    "levels in a map": (lambda: score("a?", {"low": "a"}), "score.criteria"),  # type: ignore[arg-type]
    "a level that is null": (lambda: score("a?", ["low", None]), "score.criteria"),
    "a text for levels": (lambda: score("a?", "low"), "score.criteria"),
    "an unknown type": (lambda: build_request("", {"a": {"type": "box", "instructions": "a?"}}), "questions.a.type"),
    "a type that is a list": (lambda: build_request("", {"a": {"type": [], "instructions": "a?"}}), "questions.a.type"),
    "a question that is a text": (lambda: build_request("", {"a": "a?"}), "questions.a.type"),
    "other sides, by hand": (lambda: build_request("", {"a": {**noul("a?"), "criteria": {"yes": "a", "no": "b"}}}),
                             "questions.a.criteria"),
    "one side, by hand": (lambda: build_request("", {"a": {**noul("a?"), "criteria": {"true": "yes"}}}),
                          "questions.a.criteria"),
}


@pytest.mark.parametrize("case", REFUSED_REQUESTS)
def test_what_the_service_refuses_is_never_sent(case: str) -> None:
    build, field = REFUSED_REQUESTS[case]
    with pytest.raises(RequestError) as caught:
        build()
    assert caught.value.field == field


def test_a_request_has_three_keys_and_exact_bytes() -> None:
    body = build_request({"text": "é"}, {"a b": noul("ok?")}, "jev-latest")
    question = '{"type":"noul","instructions":"ok?"}'
    assert body.decode() == '{"model":"jev-latest","state":{"text":"é"},"questions":{"a b":' + question + "}}"
    limits = {"c": choice("a?", {str(n): None for n in range(255)}), "s": score("a?", ["level"] * 10),
              "t": score("a?", ["x"])}
    assert set(json.loads(build_request([], limits))) == {"model", "state", "questions"}
    wrapped = json.loads(build_request("s", {"a": noul("ok?")}, "typesafe/jev", "input"))
    assert set(wrapped) == {"model", "input"} and set(wrapped["input"]) == {"state", "questions"}


CLOUDFLARE = {
    "the result itself": lambda top: {"success": True, "result": top},
    "a job that is done": lambda top: {"success": True, "result": {"state": "Completed", "result": top}},
    "no envelope": lambda top: top,
}


@pytest.mark.parametrize("case", CLOUDFLARE)
def test_the_other_envelope_is_opened(case: str) -> None:
    body = json.dumps(CLOUDFLARE[case](right_answer({"questions": ASKED}))).encode()
    assert parse_answer(body, ASKED, "input")["layer"].choice == "network"
    for body in (b'{"success": false, "errors": [{"message": "no"}]}', b'{"result": []}', b'{"result": {"result": 1}}'):
        with pytest.raises(AnswerError):
            parse_answer(body, ASKED, "input")


def test_nothing_but_our_error_comes_out_of_a_damaged_body() -> None:
    rng = random.Random(7)
    right = json.dumps(right_answer({"questions": ASKED})).encode()
    for _ in range(3000):
        body = bytearray(right)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(body))
            new = bytes(rng.choice(b'0129.-eE"{}[]:,ntx\xff') for _ in range(rng.randint(0, 3)))
            body[at:at + rng.randint(0, 6)] = new
        with contextlib.suppress(AnswerError):
            found = parse_answer(bytes(body), ASKED)
            assert 0 <= (found["retries"].noul or 0) <= 1 and found["layer"].choice in found["layer"].probabilities


def test_a_web_page_is_told_what_it_is() -> None:
    with pytest.raises(AnswerError, match="is the base URL the API root"):
        parse_answer(b"\n <!doctype html>", ASKED)


def test_an_error_tells_no_content() -> None:
    secret = "sk-do-not-show-1234567890"
    for path in ("model", "answers.layer.choice", "answers.retries.noul", "answers.risk.legend", "usage.input_tokens"):
        for value in ([secret], {secret: secret}) + ((secret,) if path != "model" else ()):
            with pytest.raises(AnswerError) as caught:
                parse_answer(changed(path, value), ASKED)
            assert secret not in str(caught.value) + repr(caught.value) + repr(vars(caught.value))
    with pytest.raises(AnswerError) as caught:
        parse_answer(secret.encode(), ASKED)
    assert caught.value.__context__ is None  # an error of json would hold the body


# ================================================================ System One: transport, providers, keys

Script = Union[bytes, Callable[[socket.socket, bytes], None]]


class Server:
    """A fake System One on a loopback port. Each connection gets the next item of `script` (the last one for ever): the
    raw bytes of a reply, a function of (connection, request), or, without a script, a right answer."""

    def __init__(self, *script: Script) -> None:
        self.script, self.requests, self.open = list(script), [], []  # type: List[Script], List[bytes], List[Any]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link = self.listener.accept()[0]
                self.open.append(link)
                threading.Thread(target=self.reply, args=(link,), daemon=True).start()

    def reply(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            got = b""
            while b"\r\n\r\n" not in got:
                got += link.recv(65536)
            head, _, body = got.partition(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split()[0])
            while len(body) < size:
                body += link.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + body)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0] if self.script else None
            if callable(step):
                step(link, body)
            else:
                link.sendall(http(200, right_answer(json.loads(body))) if step is None else step)
            link.shutdown(socket.SHUT_WR)
            link.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        for link in self.open:
            link.close()


def http(status: int, body: Any, **headers: str) -> bytes:
    """A raw reply; a body that is not bytes is sent as JSON; underscores in header names are dashes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(data)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    return "".join([f"HTTP/1.1 {status} X\r\n", *(f"{name}: {text}\r\n" for name, text in lines.items()), "\r\n"]
                   ).encode() + data


def drip(link: socket.socket, _: bytes) -> None:
    """Headers, then a byte every 30 ms for ever."""
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        link.sendall(b" ")
        time.sleep(0.03)


def drip_head(link: socket.socket, _: bytes) -> None:
    while True:
        link.sendall(b"H")
        time.sleep(0.03)


def reset(link: socket.socket, _: bytes) -> None:
    """Half of a reply, then a connection reset (SO_LINGER of 0)."""
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def silent(link: socket.socket, _: bytes) -> None:
    time.sleep(3)


DETAILS = {"a text": "Too many choices.", "an object": {"error_type": "api_usage_error", "message": "m"},
           "an object without a message": {"error_type": "max_tokens_exceeded"},
           "a list": [{"loc": ["body", "questions"], "msg": "Field required", "type": "missing"}]}
GOOD = http(200, right_answer({"questions": ASKED}))
# what the server does -> error, its `status` or `cause`, connections made (1 + retries where a retry is due)
FAULTS: Dict[str, Tuple[Script, Any, Any, int]] = {
    "closes without a word": (b"", TransportError, "dropped", 3),
    "resets in the body": (reset, TransportError, "dropped", 3),
    "sends less than it promised": (GOOD.replace(b"Content-Length: ", b"Content-Length: 9"), TransportError, "dropped",
                                    3),
    "breaks off a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", TransportError, "dropped",
                           3),
    "speaks another protocol": (b"220 mail.example.com ESMTP\r\n", TransportError, "dropped", 3),
    "drips its body": (drip, DeadlineError, "deadline", 1),
    "drips its headers": (drip_head, DeadlineError, "deadline", 1),
    "says nothing": (silent, DeadlineError, "deadline", 1),
    "sends 10 MB": (http(200, b" " * 10_000_000), AnswerError, None, 1),
    "sends a gzip bomb": (http(200, gzip.compress(b"0" * 10_000_000), Content_Encoding="gzip"), AnswerError, None, 1),
    "sends a web page": (http(200, b"<html>"), AnswerError, None, 1),
    "sends no UTF-8": (http(200, b"\xff\xfe"), AnswerError, None, 1),
    "sends an empty 200": (http(200, b""), AnswerError, None, 1),
    "sends 204": (http(204, b""), RefusedError, 204, 1),
    **{f"redirects with {status}": (http(status, b"", Location="http://127.0.0.1:1/steal"), RefusedError, status, 1)
       for status in (301, 302, 303, 307, 308)},
    **{f"refuses with {status}": (http(status, {"detail": "no"}), RefusedError, status, 1)
       for status in (400, 401, 402, 403, 404, 409, 413, 501)},
    **{f"refuses with 422 and {form}": (http(422, {"detail": detail}), RefusedError, 422, 1)
       for form, detail in DETAILS.items()},
    **{f"fails with {status}": (http(status, b"error code"), RefusedError, status, 3)
       for status in (408, 429, 500, 502, 504, 524, 529)},
    "fails with a page": (http(503, b"<html>Loading</html>", Content_Type="text/html"), RefusedError, 503, 3),
    "asks to wait too long": (http(429, b"", Retry_After="3600"), RefusedError, 429, 1),
    "asks to wait until a date": (http(503, b"", Retry_After="Fri, 31 Dec 2100 23:59:59 GMT"), RefusedError, 503, 1),
    "asks to wait for ms": (http(429, b"", Retry_After_Ms="5000", Retry_After="0"), RefusedError, 429, 1),
    "asks not to wait": (http(429, b"", Retry_After="0"), RefusedError, 429, 3),
    "asks for nonsense": (http(429, b"", Retry_After="soon"), RefusedError, 429, 3),
    "answers with status 999": (http(999, b""), RefusedError, 0, 1),
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries that are a hundred times as short."""
    monkeypatch.setattr(jevlens, "BACKOFF", (0.005, 0.05))


@pytest.mark.parametrize("case", FAULTS)
def test_every_fault_is_one_of_our_errors_within_the_deadline(case: str, hasty: None) -> None:
    script, kind, fact, connections = FAULTS[case]
    with Server(script) as server:
        client = SystemOne("k-secret-1", server.url, timeout=0.3 if kind is DeadlineError else 3)
        began = time.monotonic()
        with pytest.raises(JevlensError) as caught:
            client.ask("state", ASKED)
        assert time.monotonic() - began < client.timeout + 1  # slack for a busy machine
        assert type(caught.value) is kind
        assert fact in (None, getattr(caught.value, "status", None), getattr(caught.value, "cause", None))
        assert len(server.requests) == connections
        assert "k-secret-1" not in str(caught.value)


def test_a_second_try_may_succeed(hasty: None) -> None:
    for first in (http(500, b""), http(429, b"", Retry_After_Ms="1"), b""):
        with Server(first, GOOD) as server:
            assert SystemOne("k", server.url).ask("s", ASKED)["layer"].choice == "network"
            assert server.requests[0] == server.requests[1]
        with Server(first, GOOD) as server, pytest.raises(JevlensError):
            SystemOne("k", server.url, retries=0).ask("s", ASKED)


def test_a_wait_is_at_least_what_the_server_asks_for(hasty: None) -> None:
    for reply, least in ((http(429, b"", Retry_After_Ms="150"), 0.15), (http(429, b"", Retry_After="soon"), 0.00375)):
        with Server(reply, GOOD) as server:
            began = time.monotonic()
            assert SystemOne("k", server.url).ask("s", ASKED) and time.monotonic() - began >= least


def test_waits_double_to_a_cap_and_are_the_same_for_one_request() -> None:
    for tries, most in enumerate((0.5, 1.0, 2.0, 4.0, 5.0, 5.0)):
        found = {jevlens.backoff(bytes([n]), tries) for n in range(99)}
        assert 0.75 * most <= min(found) and max(found) <= most and len(found) > 50
        assert jevlens.backoff(b"a", tries) == jevlens.backoff(b"a", tries)


def test_what_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(TransportError) as caught:
        SystemOne("k", url).ask("s", ASKED)
    assert caught.value.cause == "refused"
    with pytest.raises(TransportError) as caught:  # reserved by RFC 6761: never resolves
        SystemOne("k", "https://jev.invalid", timeout=5).ask("s", ASKED)
    assert caught.value.cause in ("name not resolved", "deadline")
    with Server(b"not a handshake") as server, pytest.raises(TransportError) as caught:
        SystemOne("k", server.url.replace("http:", "https:"), timeout=0.4).ask("s", ASKED)
    assert caught.value.cause in ("TLS", "dropped", "deadline")


def test_a_slow_name_look_up_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(2))
    began = time.monotonic()
    with pytest.raises(DeadlineError):
        SystemOne("k", "https://a.example", timeout=0.2).ask("s", ASKED)
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("timeout", [0, -1, 1e-9, float("nan")])
def test_after_the_deadline_nothing_is_sent(timeout: float) -> None:
    sent: List[object] = []
    client = SystemOne("k", "https://a.example", transport=lambda *args: sent.append(args) or (500, {}, b""))
    cancel = threading.Event()
    with pytest.raises(DeadlineError):
        client.ask("s", ASKED, timeout)
    cancel.set()
    with pytest.raises(TransportError, match="cancelled"):
        client.ask("s", ASKED, cancel=cancel)
    time.sleep(0.02)
    assert not sent


def test_any_transport_is_held_to_the_deadline() -> None:
    with pytest.raises(DeadlineError):
        SystemOne("k", "https://a.example", transport=lambda *_: time.sleep(2), timeout=0.1).ask("s", ASKED)
    with pytest.raises(ZeroDivisionError):  # a fault of the caller's own is the caller's
        SystemOne("k", "https://a.example", transport=lambda *_: 1 // 0).ask("s", ASKED)


NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
WAITS: Dict[str, Tuple[Dict[str, str], Any]] = {
    "nothing said": ({}, 0.0),
    "seconds": ({"retry-after": "2"}, 2.0),
    "a fraction": ({"retry-after": "1.5"}, 1.5),
    "milliseconds come first": ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
    "a date": ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
    "a date that is over": ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0.0),
    "a date that no calendar has": ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, 0.0),
    **{repr(raw): ({"retry-after": raw}, 0.0) for raw in ("soon", "", "-5")},
    **{repr(raw): ({"retry-after": raw}, 1e9) for raw in ("nan", "inf", "1e9", "9" * 400)},  # beyond any deadline
}


@pytest.mark.parametrize("case", WAITS)
def test_what_the_server_asks_us_to_wait(case: str) -> None:
    headers, want = WAITS[case]
    assert jevlens.asked_wait(headers, NOW) == want


def test_a_running_call_is_cancelled() -> None:
    for script in (silent, http(500, b"")):  # while it waits for the server, and between two tries
        with Server(script) as server:
            stop = threading.Event()
            threading.Timer(0.1, stop.set).start()
            began = time.monotonic()
            with pytest.raises(TransportError, match="cancelled"):
                SystemOne("k", server.url).ask("s", ASKED, cancel=stop)
            assert time.monotonic() - began < 2  # the server would take 3 s, the waits between tries 1.1 s


def test_one_client_serves_many_threads() -> None:
    with Server() as server:
        client = SystemOne("k", server.url)
        found: List[Any] = []
        ask = [threading.Thread(target=lambda n=n: found.append(client.ask({"n": n}, ASKED))) for n in range(12)]
        for thread in ask:
            thread.start()
        for thread in ask:
            thread.join()
        assert len(found) == 12 and all(answers["retries"].noul == 0.97 for answers in found)


def test_what_is_sent_and_what_comes_back() -> None:
    reply = http(200, right_answer({"questions": ASKED}), x_typesafe_request_id="req_1")
    with Server(reply) as server:
        found = SystemOne("k-1", server.url + "/v1/", model="typesafe/jev-1.13.0").ask({"a": "é"}, ASKED)
        head, _, body = server.requests[0].decode().partition("\r\n\r\n")
        assert head.startswith("POST /v1/systemone HTTP/1.1\r\n")
        for line in ("Authorization: Bearer k-1", "Content-Type: application/json", "Accept: application/json",
                     "User-Agent: jevlens/", "Accept-Encoding: identity"):
            assert line in head
        assert body.encode() == build_request({"a": "é"}, ASKED, "jev-1.13.0")
        assert (found.request_id, found.cost) == ("req_1", 412 * 0.042 / 1e6)
    with Server() as server:  # self-hosted: no key, no header, no price
        found = SystemOne(base_url=server.url, environ={"TYPESAFE_API_KEY": "k"}).ask("s", ASKED)
        assert b"Authorization" not in server.requests[0] and found.cost == 0


def test_errors_are_made_of_known_words_only() -> None:
    reply = http(401, {"detail": {"error_type": "authentication_error", "message": "bad key k-secret-2"}},
                 x_typesafe_request_id="req_7")
    with Server(reply) as server, pytest.raises(RefusedError) as caught:
        SystemOne("k-secret-3", server.url).ask("s", ASKED)
    assert (caught.value.error_type, caught.value.request_id) == ("authentication_error", "req_7")
    assert "k-secret" not in str(caught.value) + repr(vars(caught.value))
    with Server(http(500, b"", x_generation_id="a b")) as server, pytest.raises(RefusedError) as caught:
        SystemOne("k-secret-3", server.url, retries=0).ask("s", ASKED)
    assert caught.value.request_id == ""
    assert "k-secret-2" not in repr(SystemOne("k-secret-2", "https://a.example"))


ECHOES = {"as the model's name": http(200, right_answer({"questions": ASKED}, model="k-secret-2")),
          "in a legend": http(200, json.loads(changed("answers.risk.legend.0", "your key is k-secret-2"))),
          "in an error": http(401, {"error": "k-secret-2"}),
          "as a request id": http(401, b"", x_generation_id="k-secret-2")}


@pytest.mark.parametrize("case", ECHOES)
def test_a_reply_that_holds_our_key_goes_nowhere(case: str) -> None:
    with Server(ECHOES[case]) as server, pytest.raises(AnswerError) as caught:
        SystemOne("k-secret-2", server.url).ask("s", ASKED)
    assert "k-secret-2" not in str(caught.value) + repr(vars(caught.value))


ENDPOINTS: Dict[str, str] = {
    "https://api.typesafe.ai": "https://api.typesafe.ai/v1/systemone",
    " HTTPS://Api.TypeSafe.ai/ ": "https://api.typesafe.ai/v1/systemone",
    "https://openrouter.ai/api": "https://openrouter.ai/api/v1/systemone",
    "https://openrouter.ai/api/v1/": "https://openrouter.ai/api/v1/systemone",
    "https://openrouter.ai/api/alpha/decisions": "https://openrouter.ai/api/alpha/decisions",
    "https://a.example:8443/x/v1/systemone": "https://a.example:8443/x/v1/systemone",
    "https://a.example/V1": "https://a.example/V1/v1/systemone",  # paths are told apart by case
    "http://localhost:8000": "http://localhost:8000/v1/systemone",
    "http://127.0.0.1": "http://127.0.0.1/v1/systemone",
    "http://[::1]:80": "http://[::1]:80/v1/systemone",
    **dict.fromkeys(("http://a.example", "http://127.0.0.1.a.example", "http://localhost.a.example", "ftp://a.example",
                     "https://user:pw@a.example", "https://a.example?x=1", "https://a.example/#x", "https://",
                     "a.example", "https://a.example\r\nX: y", "https://a.example//v1", "https://a.example:123456",
                    ""), ""),
}


@pytest.mark.parametrize("base", ENDPOINTS)
def test_base_urls_are_normalised_once(base: str) -> None:
    if ENDPOINTS[base]:
        assert endpoint(base)[0] == ENDPOINTS[base]
    else:
        with pytest.raises(JevlensError, match="base URL") as caught:
            endpoint(base)
        assert "pw" not in str(caught.value).replace("want", "")


# model, base URL -> provider, model id, URL, name of the variable whose key is sent
ALL_KEYS = {row.key_env: f"key-of-{name}" for name, row in PROVIDERS.items() if row.key_env}
MODELS: Dict[Tuple[str, str], Tuple[str, str, str, str]] = {
    ("", ""): ("typesafe", "jev-latest", "https://api.typesafe.ai/v1/systemone", "TYPESAFE_API_KEY"),
    ("jev-1.14.0", ""): ("typesafe", "jev-1.14.0", "https://api.typesafe.ai/v1/systemone", "TYPESAFE_API_KEY"),
    ("typesafe/jev-1.13.0", ""): ("typesafe", "jev-1.13.0", "https://api.typesafe.ai/v1/systemone", "TYPESAFE_API_KEY"),
    ("openrouter/~typesafe/jev-latest", ""): ("openrouter", "~typesafe/jev-latest",
                                              "https://openrouter.ai/api/v1/systemone", "OPENROUTER_API_KEY"),
    ("openrouter", ""): (
        "openrouter", "~typesafe/jev-latest", "https://openrouter.ai/api/v1/systemone", "OPENROUTER_API_KEY"),
    ("typesafe/jev-1.13", "https://openrouter.ai/api"): (
        "openrouter", "typesafe/jev-1.13", "https://openrouter.ai/api/v1/systemone", "OPENROUTER_API_KEY"),
    ("vercel-ai-gateway/typesafe-ai/jev", ""): ("vercel-ai-gateway", "typesafe-ai/jev",
                                     "https://ai-gateway.vercel.sh/typesafe/v1/systemone", "AI_GATEWAY_API_KEY"),
    ("opencode/jev-1.13-free", ""): (
        "opencode", "jev-1.13-free", "https://opencode.ai/inference/systemone/v1/systemone", "OPENCODE_API_KEY"),
    ("cloudflare-workers-ai/typesafe/jev", ""): (
        "cloudflare-workers-ai", "typesafe/jev", "https://api.cloudflare.com/client/v4/accounts/acc/ai/run",
        "CLOUDFLARE_API_KEY"),
    ("databricks", "https://dbx.example"): (
        "databricks", "system.ai.openjev-qwen35-4b", "https://dbx.example/v1/systemone", "DATABRICKS_TOKEN"),
    ("", "https://a.example"): ("self-hosted", "jev-latest", "https://a.example/v1/systemone", ""),
    ("org/model", "https://a.example"): ("self-hosted", "org/model", "https://a.example/v1/systemone", ""),
}


@pytest.mark.parametrize("given", MODELS)
def test_a_model_names_its_provider(given: Tuple[str, str]) -> None:
    client = SystemOne(model=given[0] or None, base_url=given[1] or None,
                       environ={**ALL_KEYS, "CLOUDFLARE_ACCOUNT_ID": "acc", "JEV_LENS_DATA_DIR": "nowhere"})
    assert (client.provider, client.model, client.url, client.key_source) == MODELS[given]


def test_typesafe_reads_its_own_environment() -> None:
    environ = {"TYPESAFE_BASE_URL": "https://eu.example/ ", "TYPESAFE_DEFAULT_MODEL": "jev-preview",
               "TYPESAFE_API_KEY": " "}
    client = SystemOne(environ={**environ, "JEV_LENS_DATA_DIR": "nowhere"})
    assert (client.url, client.model, client.key_source) == ("https://eu.example/v1/systemone", "jev-preview", "")
    assert SystemOne("k", "https://b.example", "jev-1.13.0", environ=environ).url == "https://b.example/v1/systemone"
    assert SystemOne("k", "https://api.typesafe.ai", environ=environ).model == "jev-preview"
    # what is set for TypeSafe's clients belongs together, wherever its URL leads
    gateway = {**environ, "TYPESAFE_BASE_URL": "https://openrouter.ai/api", "TYPESAFE_API_KEY": "k"}
    client = SystemOne(environ=gateway)
    assert (client.provider, client.model, client.key_source) == ("typesafe", "jev-preview", "TYPESAFE_API_KEY")
    with pytest.raises(JevlensError, match="base URL"):
        SystemOne(model="cloudflare-workers-ai", environ={})
    with pytest.raises(JevlensError, match="key: none for typesafe: set TYPESAFE_API_KEY"):
        SystemOne(environ={"JEV_LENS_DATA_DIR": "nowhere"}).ask("s", ASKED)


@pytest.mark.parametrize("key", ["", " ", "two words", " begins", "ends ", "líne", "k\r\nX-Evil: 1", "tab\t"])
def test_what_cannot_be_a_key_is_not_sent(key: str) -> None:
    with pytest.raises(JevlensError, match="key: from the argument") as caught:
        SystemOne(key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_is_private_and_bound_to_its_host(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "key"
    environ = {"JEV_LENS_KEY_FILE": str(file)}
    texts = {"k-1 api.typesafe.ai\n": str(file), "k-1\n": str(file), "k-1 openrouter.ai": "", "": ""}
    for text, source in texts.items():
        file.write_text(text)
        file.chmod(0o600)
        assert SystemOne(environ=environ).key_source == source
    file.write_text("k-1")
    assert SystemOne(environ={**environ, "TYPESAFE_API_KEY": "k-2"}).key_source == "TYPESAFE_API_KEY"
    for base, source in {"https://api.typesafe.ai": str(file), "https://evil.example": ""}.items():
        assert SystemOne(environ={**environ, "TYPESAFE_BASE_URL": base}).key_source == source
    file.chmod(0o640)
    with pytest.raises(JevlensError, match="others can read .*chmod 600"):
        SystemOne(environ=environ)
    assert SystemOne(environ={"JEV_LENS_KEY_FILE": str(tmp_path)}).key_source == "", "a folder holds no key"


SOMEBODY = """
import os, sys
sys.path.insert(0, sys.argv.pop())
import jevlens
file = sys.argv.pop()
def told(file):
    {}
told(file + ".none")  # as ourselves, since somebody may not read the modules either
try:
    if not os.geteuid(): os.setuid(65534)
except OSError:
    sys.exit("no other user here")
told(file)
"""


def as_somebody(told: str, file: pathlib.Path) -> str:
    """What a line of Python with `file` prints for a user who may not read every file: nobody where we are root."""
    argv = [sys.executable, "-E", "-s", "-c", SOMEBODY.format(told), str(file), str(HERE)]
    output = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30).stdout.decode()
    if output.endswith("no other user here\n"):
        pytest.skip("root without another user, as in some containers")
    return output


@pytest.fixture()
def unreadable() -> Iterator[pathlib.Path]:
    """A file that nobody may read, in a folder that everybody may see."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder, "it")
        path.write_text("k-1")
        path.chmod(0)
        yield path


def test_a_key_that_is_none_is_an_error_where_jev_is_asked_for_and_else_a_line(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "two words")
    with pytest.raises(JevlensError, match="^key: from TYPESAFE_API_KEY: want printable ASCII without spaces$"):
        jevlens.Lens("jev", settings=jevlens.Settings())
    assert isinstance(jevlens.Lens("auto", settings=jevlens.Settings()).judge, jevlens.LocalJudge)
    told = "jevlens: key: from TYPESAFE_API_KEY: want printable ASCII without spaces; the local judge is used\n"
    assert capsys.readouterr().err == told


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_that_we_cannot_read_is_an_error_of_ours(unreadable: pathlib.Path) -> None:
    told = as_somebody("jevlens.SystemOne(environ=dict(), key_file=file)", unreadable)
    why = f"key file: others can read {unreadable}, or you cannot: chmod 600 it, and think of a new key"
    assert told.startswith("Traceback ") and told.endswith(f"\njevlens.JevlensError: {why}\n")


def test_a_proxy_gets_a_tunnel_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(b"HTTP/1.1 407 No\r\n\r\n") as proxy, Server() as server:
        for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url.replace("//", "//me:p%40ss@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert SystemOne("k", server.url).ask("s", ASKED)  # a loopback address is asked directly
        heads: List[bytes] = []
        proxy.reply = lambda link: heads.append(link.recv(9999)) or link.close()  # type: ignore
        with pytest.raises(JevlensError):
            SystemOne("k-secret-3", "https://jev.invalid", timeout=1, retries=0).ask("s", ASKED)
        assert heads[0].startswith(b"CONNECT jev.invalid:443") and b"k-secret-3" not in heads[0]
        assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in heads[0]


# ================================================================ the Jev judge

View = jevlens.views.View
Block = jevlens.views.Block


class Jev:
    """A client whose answers are set: p of the views, P(needs full), P(block) by id; or an error to raise."""

    model = "jev-1.13.0"

    def __init__(self, p: Mapping[str, float] = {}, needs_full: float = 0.1, blocks: Any = lambda id: 0.1,
                 error: Any = None, tokens: int = 400) -> None:
        self.p, self.needs_full, self.blocks, self.error, self.tokens = p, needs_full, blocks, error, tokens
        self.asked: List[Tuple[Dict[str, Any], Dict[str, Any], float]] = []

    def ask(self, state: Any, questions: Any, timeout: float) -> Any:
        """As SystemOne.ask, through our own build_request and parse_answer."""
        sent = json.loads(build_request(state, questions, self.model))
        self.asked.append((sent["state"], sent["questions"], timeout))
        if self.error:
            raise self.error
        top = right_answer(sent)
        top["usage"]["input_tokens"] = self.tokens
        for name, answer in top["answers"].items():
            if name == "view" and self.p:
                p = {view: self.p.get(view, 0.0) for view in answer["probabilities"]}
                answer.update(probabilities=p, choice=max(self.p, key=lambda view: self.p[view]))
            elif name != "view":
                answer["noul"] = self.needs_full if name == "needs_full" else self.blocks(name)
        return parse_answer(json.dumps(top).encode(), questions)


SOURCE = "\n".join(f"def step_{n}(value):\n    total = value * {n}\n    return total\n" for n in range(300))


def case_of(text: str = SOURCE, tool: str = "read", **args: Any) -> jevlens.Case:
    args = args or {"path": "src/steps.py"}
    doc = jevlens.views.read(text, tool, args)
    return jevlens.Case("speed up step_7", "now the loop", "I read it first.", tool, args, False, doc,
                        jevlens.Session(), {"step_200": 1.0})


def blocks_of(count: int = 300) -> List[Any]:
    return [Block(f"step_{n}", 4 * n, 4 * n + 4, 0, "function") for n in range(count)]


# The worked examples of the known system: kind, P per view, P(needs full), settings, blocks -> view that is sent.
GATED, OUTLINED = {"command_policy": "gate"}, {"code_policy": "outline"}
SEED_DECISIONS: Dict[str, Tuple[str, Dict[str, float], float, Dict[str, Any], int, str]] = {
    "code, a sure outline": ("code", {"outline": 0.9, "full": 0.1}, 0.1, {}, 9, "outline"),
    "code, the exact text is needed": ("code", {"outline": 0.9, "full": 0.1}, 0.7, {}, 9, "full"),
    "code, exactly at the threshold": ("code", {"outline": 0.9, "full": 0.1}, 0.5, {}, 9, "outline"),
    "code, focus becomes the outline": ("code", {"focus": 0.9, "full": 0.1}, 0.1, {}, 9, "outline"),
    "code, focus before the mass of full": ("code", {"focus": 0.5, "full": 0.5, "outline": 0.0}, 0.1, {}, 9, "outline"),
    "code, the mass of full": ("code", {"outline": 0.4, "full": 0.6}, 0.1, {}, 9, "full"),
    "code, some mass of full": ("code", {"outline": 0.6, "full": 0.4}, 0.1, {}, 9, "outline"),
    "code, an unsure choice": ("code", {"outline": 0.4, "full": 0.3, "focus": 0.3}, 0.1, {"min_confidence": 0.4}, 9,
                               "full"),
    "code, outline at any price": ("code", {"full": 1.0}, 0.9, OUTLINED, 9, "outline"),
    "code, outline at any price, no blocks": ("code", {"full": 1.0}, 0.1, OUTLINED, 0, "full"),
    "command, sections instead of full": ("command", {"full": 0.7, "sections": 0.3}, 0.3, {}, 9, "sections"),
    "command, full and needed": ("command", {"full": 0.7, "sections": 0.3}, 0.8, {}, 9, "full"),
    "command, the choice stands": ("command", {"full": 0.7, "sections": 0.3}, 0.3, GATED, 9, "full"),
    "command, below its own gate": ("command", {"signals": 0.95, "full": 0.05}, 0.6, {}, 0, "signals"),
    "command, no sections": ("command", {"full": 0.7, "signals": 0.3}, 0.3, {}, 0, "full"),
    "prose, the code policy is not for it": ("prose", {"full": 0.9, "outline": 0.1}, 0.9, OUTLINED, 9, "full"),
    "a passing test run as it was recorded": ("command", {"signals": 0.94, "full": 0.06}, 0.17, {}, 0, "signals"),
    "a README as it was recorded": ("prose", {"full": 0.45, "outline": 0.4, "focus": 0.15}, 0.14, {}, 9, "full"),
    "a code read as it was recorded": ("code", {"full": 0.6, "outline": 0.3, "focus": 0.1}, 0.6, {}, 9, "full"),
    "a listing without a tree as it was recorded": ("listing", {"full": 0.9, "head_tail": 0.1}, 0.1, {}, 0, "full"),
}


@pytest.mark.parametrize("case", SEED_DECISIONS)
def test_with_the_seeds_probabilities_the_decisions_are_the_seeds(case: str) -> None:
    kind, p, needs_full, given, blocks, want = SEED_DECISIONS[case]
    settings = jevlens.Settings(**given)
    names = [name for name in {**p, **({"outline": 0} if kind == "code" else {})} if name != "full"]
    choice = JevJudge(Jev(p, needs_full), settings).choose(case_of(), [View(name, (0,)) for name in names], [])
    assert jevlens.decide(kind, choice, names, settings, blocks)[0] == want


def test_confidence_is_worked_out_again_from_the_probabilities() -> None:
    found = JevJudge(Jev({"full": 0.2, "outline": 0.8})).choose(case_of(), [View("outline", (0,))], [])
    assert (found.view, dict(found.p), round(found.confidence, 6)) == ("outline", {"full": 0.2, "outline": 0.8}, 0.6)
    assert found.need is None  # the second step is asked for when the view has one
    assert JevJudge(Jev()).choose(case_of(), [], []).view == "full"


def test_the_first_request_tells_the_case_and_shows_every_view() -> None:
    client, case = Jev(), case_of()
    case.session.touched["steps.py"] = {"total = step_7(value)"}
    case.session.learn(case, "", range(20))
    JevJudge(client).choose(case, [View("outline", tuple(range(0, 1200, 4))), View("odd", (0,))], [])
    state, questions, _ = client.asked[0]
    assert state["task"] == {"first_user_request": "speed up step_7", "latest_user_message": "now the loop"}
    assert state["agent"]["args"] == '{"path": "src/steps.py"}'
    assert state["agent"]["text_before_call"] == "I read it first."
    assert state["session"]["edited_this_file"] is True and state["session"]["lines_of_it_already_sent"] == 19
    assert list(state["views"]) == list(questions["view"]["criteria"]) == ["full", "outline", "odd"]
    assert state["views"]["full"]["lines"] == 1200 and state["views"]["outline"]["lines"] == 300
    full = state["views"]["full"]["preview"]
    assert full.startswith("def step_0(") and "step_200(" in full and full.endswith("* 299\n    return total\n")
    assert len(full) <= 1506 and len(state["views"]["outline"]["preview"]) <= 906
    assert set(questions["needs_full"]["criteria"]) == {"true", "false"}


def test_texts_are_clipped_and_always_encodable() -> None:
    client = Jev()
    case = case_of("\udcff" * 9000)._replace(task="t" * 9000, latest="l" * 9000, said="\ud800" * 9000)
    JevJudge(client).choose(case, [View("head_tail", (0,))], [])
    state = client.asked[0][0]
    texts = [*state["task"].values(), state["agent"]["text_before_call"]]
    assert [len(text) for text in texts] == [601, 401, 601] and all(text.endswith("…") for text in texts)


def test_blocks_are_asked_about_in_as_many_requests_as_it_takes() -> None:
    wide = "\n".join(f"def step_{n}(value):\n    {'x' * 200}\n    {'é' * 200}\n" for n in range(900))
    client = Jev(blocks=lambda id: round(int(id[1:]) / 1000, 2))
    found = JevJudge(client).need(case_of(wide), blocks_of(900))
    assert found == [round(n / 1000, 2) for n in range(900)]
    assert len(client.asked) > 1
    for state, questions, _ in client.asked:
        size, longest = len(json.dumps(state, ensure_ascii=False)), max(len(json.dumps(q)) for q in questions.values())
        assert size + longest <= 2 * 32_768 and size + len(json.dumps(questions)) <= 2 * 65_536
        assert len(state["blocks"]) == len(questions)
    last, asked, _ = client.asked[-1]
    assert f"`index` {last['blocks'][0]['index']}?" in asked[next(iter(asked))]["instructions"]
    assert {"index", "signature", "lines", "preview"} == set(last["blocks"][0])
    assert sorted(id for _, asked, _ in client.asked for id in asked) == sorted(f"b{n}" for n in range(900))


def test_the_widest_request_fits_at_a_token_for_each_character() -> None:
    wide = "\n".join(f"def step_{n}(value):\n    {'x' * 200}\n    {'é' * 200}\n" for n in range(200))
    client = Jev()
    judge = JevJudge(client, jevlens.Settings(steps=1))
    judge._ratio = 1.0
    case = case_of(wide, path="p" * 900)._replace(task="t" * 900, latest="l" * 900, said="s" * 900, tool="t" * 900)
    offered = [View(name, tuple(range(800))) for name in jevlens.PROMPTS["viewDescriptions"] if name != "full"]
    judge.choose(case, offered, [block._replace(name="n" * 900) for block in blocks_of(200)])
    assert len(client.asked) == 7
    for state, questions, _ in client.asked:
        size, longest = len(json.dumps(state, ensure_ascii=False)), max(len(json.dumps(q)) for q in questions.values())
        assert size + longest <= 32_768 - 300 and size + len(json.dumps(questions)) <= 65_536 - 300


def test_usage_corrects_the_characters_of_a_token() -> None:
    sizes = {}
    for tokens in (100_000, 4_000):  # of a dense and of a thin text
        judge = JevJudge(Jev(tokens=tokens))
        for n in range(8):
            judge.need(case_of(SOURCE + str(n)), blocks_of(150))
        client = judge.client = Jev()
        judge.need(case_of(), blocks_of(300) * 3)
        sizes[tokens] = len(client.asked)
    assert sizes[100_000] > sizes[4_000]


def test_one_step_asks_everything_at_once() -> None:
    client = Jev({"outline": 0.9, "full": 0.1}, blocks=lambda id: 0.9 if id == "b7" else 0.1)
    judge = JevJudge(client, jevlens.Settings(steps=1))
    case = case_of()._replace(doc=case_of().doc)
    case.doc.kind = "code"
    found = judge.choose(case, [View("outline", (0,))], blocks_of(20))
    assert list(found.need or ()) == [0.9 if n == 7 else 0.1 for n in range(20)]
    assert len(client.asked) == 1 and len(client.asked[0][1]) == 22


def test_code_and_sections_are_asked_about_in_their_own_words() -> None:
    for kind, word in (("code", "the body of"), ("command", "all of"), ("prose", "all of")):
        client, case = Jev(), case_of()
        case.doc.kind = kind
        JevJudge(client).need(case, blocks_of(2))
        assert word in client.asked[0][1]["b1"]["instructions"]


def test_a_variant_replaces_the_words() -> None:
    client = Jev()
    prompts = {"viewInstructions": "Which one?", "viewDescriptions": {"outline": "Mine."}}
    offered = [View("outline", (0,)), View("log", (0,))]
    JevJudge(client, jevlens.Settings(variant={"prompts": prompts})).choose(case_of(), offered, [])
    asked = client.asked[0][1]["view"]
    assert asked["instructions"] == "Which one?" and asked["criteria"]["outline"] == "Mine."
    assert asked["criteria"]["log"].startswith("Repeated lines")


class Watch:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_who_asks_for_jev_by_name_is_told_why_there_is_none(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "two words")
    with pytest.raises(JevlensError, match="^key: from TYPESAFE_API_KEY: want printable ASCII without spaces$"):
        jevlens.Lens("jev")
    assert isinstance(jevlens.Lens("auto").judge, jevlens.LocalJudge)
    assert capsys.readouterr().err.endswith("without spaces; the local judge is used\n")


def test_both_steps_share_one_wait() -> None:
    watch, client, case = Watch(), Jev(), case_of()
    judge = JevJudge(client, jevlens.Settings(wait_ms=5000), watch)
    judge.choose(case, [View("outline", (0,))], [])
    watch.now += 3
    judge.need(case, blocks_of(2))
    judge.need(case_of(), blocks_of(3))
    assert [timeout for _, _, timeout in client.asked] == [5, 2, 5]


def test_answers_and_failures_are_remembered() -> None:
    watch, client = Watch(), Jev()
    judge = JevJudge(client, clock=watch)
    for _ in range(3):
        judge.need(case_of(), blocks_of(2))
    assert len(client.asked) == 1
    client.error = RefusedError(503)
    for seconds, asked in ((0, 2), (30, 2), (31, 3)):  # a failure stands for a minute
        watch.now += seconds
        with pytest.raises(RefusedError):
            judge.need(case_of(), blocks_of(3))
        assert len(client.asked) == asked
    client.error = None
    for n in range(300):
        judge.need(case_of(str(n)), blocks_of(1))
    judge.need(case_of(), blocks_of(2))
    assert len(client.asked) == 304  # 256 answers are kept: the first one was asked for again


@pytest.mark.parametrize("on_error", ["full", "local"])
def test_a_kept_failure_does_not_keep_the_output(on_error: str) -> None:
    docs: List[Any] = []
    judge = JevJudge(Jev(error=RefusedError(503, "", "req_1")), jevlens.Settings(on_error=on_error))
    for _ in range(2):
        case = case_of()
        docs.append(weakref.ref(case.doc))
        with contextlib.suppress(RefusedError):
            judge.need(case, blocks_of(2))
    del case
    gc.collect()
    assert [ref() for ref in docs] == [None, None]


@pytest.mark.parametrize("error", [RefusedError(429, "rate_limit_error", "req_1", 3.0), TransportError("dropped"),
                                   DeadlineError(), AnswerError("answers", "an object", "list"), JevlensError("a: b")])
def test_an_error_survives_being_copied(error: JevlensError) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("status, told", [
    (401, ", wrong key"), (402, ", no credit"), (404, ", wrong base URL or unknown model?"), (418, ""), (501, (
        ", not a decision model")), (503, ", the service failed"), (307, ", redirects are not followed"), (0, "")])
def test_a_refusal_says_what_to_think_of(status: int, told: str) -> None:
    assert str(RefusedError(status)) == f"System One: refused: HTTP {status}{told}"


def test_failures_are_counted_until_the_next_success() -> None:
    log: List[Any] = []
    client = Jev(error=RefusedError(402))
    judge = JevJudge(client, log=log.append)
    with pytest.raises(RefusedError):
        judge.need(case_of(), blocks_of(2))
    found = jevlens.log_stats(log)
    assert found["degraded"] and (found["asked"], found["failed"]) == (1, 1)
    client.error = None
    judge.need(case_of(), blocks_of(3))
    found = jevlens.log_stats(log)
    assert not found["degraded"] and (found["asked"], found["failed"]) == (2, 1)
    assert (found["input_tokens"], found["output_tokens"], found["cost"]) == (400, 61, 0.0)
    assert "HTTP 402" in log[0]["fault"] and log[1]["model"] == "jev-1.13.0" and log[1]["input_tokens"] == 400


def test_the_local_judge_steps_in_when_asked_to() -> None:
    judge = JevJudge(Jev(error=DeadlineError()), jevlens.Settings(on_error="local"))
    offered, blocks = [View("outline", (0,))], blocks_of(5)
    assert judge.choose(case_of(), offered, blocks) == jevlens.LocalJudge().choose(case_of(), offered, blocks)
    assert judge.need(case_of(), blocks) == jevlens.LocalJudge().need(case_of(), blocks)


# name of the rule -> texts that it masks, the nearest texts that it must not
MASKED: Dict[str, Tuple[Tuple[str, ...], Tuple[str, ...]]] = {
    "private key": (("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
                     "-----BEGIN PRIVATE KEY-----\nMII"), ("-----BEGIN PUBLIC KEY-----\nMIIEow",)),
    "key body": (("MIIE" + "aB3+" * 15, "aB3+luhJ==\n-----END RSA PRIVATE KEY-----"),
                 ("a" * 63, "/usr/" + "a" * 64, "x" * 65, "aB3+luhJ==\n-----END CERTIFICATE-----")),
    "cloud key": (("AKIAIOSFODNN7EXAMPLE", "AIza" + "Sy0-" * 8 + "abc"), ("AKIAIOSFODNN7", "AIza in a text")),
    "API key": (("sk-ant-api03-abcdefghijklmnop", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "ghp_" + "a1" * 18,
                 "xoxb-123456789012-abc", "xapp-1-A012-345-" + "a1" * 9, "dop_v1_" + "a1" * 32,
                 "whsec_C2FVsBQ/a1a1+" * 2),
                ("sk-learn is a library", "ts-node-dev-something-else", "ghp_short", "xapp-short", "the whsec_ prefix",
                 "risk-assessment-of-2024-projects")),
    "token": (("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxw", "CI_TOKEN=abc123def456ghi789",
               '"token": "abc123def456ghi789"'),
              ("eyJhbGciOiJIUzI1NiJ9 alone", "token = parser.next_token_of_line()",
               "token = lexer.peek(1)", "max_tokens=4096")),
    "header": (("Authorization: Bearer abc123def456ghi789", "authorization: basic dXNlcjpwYXNzd29yZDE=",
                "-H 'Authorization: Token abc123def'", "Set-Cookie: sid=abc123de; Path=/", "use Bearer abc123def456"),
               ("the bearer of bad news arrives", "Bearer tokens are explained here", "basic arithmetic")),
    "URL password": (("postgres://app:s3cret@db:5432/app",), ("http://localhost:8080/a@b", "git@github.com:a/b.git")),
    "password": (("DB_PASSWORD=hunter2!", 'password: "two words"', "{'api_key': 'abcd1234'}", '{"secret": "s"}',
                  "pwd = hunter22", "PASSWORD=abc123(x", "aws_secret_access_key = abc123/K7",
                  'if password == "hunter2":', "<password>hunter2</password>", "?password=hunter2&x=1",
                  "tool --password hunter2 run", "tool --api-key abc123", "AccountKey=abc123==",
                  '"{\\"password\\": \\"hunter2\\"}"', "client_secret=abcdef", "SECRET_KEY = 'hunter2'",
                  "AWS_SESSION_TOKEN=abc123/K7", "refresh-token: abc123"),
                 ("tool --passwordless run", "--token", "password = get_password()", "password: os.environ['X']",
                  "password: ", "the secret of success", "max_tokens=4096", "key = value", "passwords are kept")),
}


@pytest.mark.parametrize("name", jevlens.SECRETS)
def test_secrets_are_masked_and_their_like_are_not(name: str) -> None:
    hits, misses = MASKED[name]
    for text in hits:
        found = jevlens.masked(f"a line\n{text}\nanother")
        assert f"[masked {name}]" in found and found.startswith("a line\n")
        for secret in "hunter2,two words,abcd1234,s3cret,MII,a1a1,4eC39,abc123,dXNl,SflK,IOSF".split(","):
            assert secret not in found
    for text in misses:
        assert jevlens.masked(f"a line\n{text}\nanother") == f"a line\n{text}\nanother"


def test_masking_stays_linear() -> None:
    evil = ["\n", "a", "1", " ", "-", "=", '"', "'", "eyJ", "eyJaaaaaaaa.", "sk-", "://", "://a:", "bearer ",
            "password=", "aB3+", "password: '", "token: ", "authorization: ", "secret ", "--token ",
            "-----BEGIN ", "-----BEGIN PRIVATE KEY-----"]
    for text in evil:
        began = time.process_time()
        jevlens.masked(text * (100_000 // len(text)))
        assert time.process_time() - began < 1.0, text  # 0.1 s measured at most; a quadratic rule takes many seconds


def test_secrets_stay_here_and_the_agent_sees_them() -> None:
    secret = "DB_PASSWORD=hunter2secret"
    text = "\n".join(["collected 900 items", secret, *(f"tests/test_a.py::test_{n} PASSED" for n in range(900)),
                      "tests/test_a.py::test_bad FAILED", f"E   AssertionError: {secret}", "=== 1 failed in 3s ==="])
    for redact, told in ((True, False), (False, True)):
        client = Jev({"testlog": 0.5, "signals": 0.5})
        client.p = {}
        lens = jevlens.Lens(JevJudge(client, jevlens.Settings(redact=redact)), settings=jevlens.Settings(redact=redact))
        seen = lens.see(text, "bash", {"command": f"{secret} pytest"}, task=secret, said=secret)
        assert client.asked and ("hunter2secret" in json.dumps(client.asked)) is told
        assert secret in seen.text




@pytest.mark.parametrize("case", FAULTS)
def test_no_fault_reaches_the_agent_as_anything_but_the_full_text(case: str, tmp_path: pathlib.Path) -> None:
    with Server(FAULTS[case][0]) as server:
        settings = jevlens.Settings(wait_ms=300)
        lens = jevlens.Lens(JevJudge(SystemOne("k", server.url, retries=0), settings), tmp_path, settings)
        began = time.monotonic()
        seen = lens.see(NOTES, "bash", {"command": "report"})
        for line in (tmp_path / "log.jsonl").read_text("ascii").splitlines():  # for other programs, too
            assert json.loads(line, parse_constant=int)["t"]
        assert server.requests and time.monotonic() - began < 2
        assert seen.text is NOTES and seen.view == "full" and seen.reason.startswith("judge: System One")
        assert lens.stats()["failed"] == 1 and lens.stats()["degraded"]
        assert list(lens.session.known(views_regex.read(NOTES)))  # what was sent whole is known all the same


def test_a_right_server_shortens_and_counts_the_cost(tmp_path: pathlib.Path) -> None:
    def answer(link: socket.socket, body: bytes) -> None:
        request = json.loads(body)
        top = right_answer(request, noul=0.1)
        p = top["answers"]["view"]["probabilities"]
        p = {name: float(name == "head_tail") for name in p}
        top["answers"]["view"].update(probabilities=p, choice="head_tail")
        link.sendall(http(200, top))
    with Server(answer) as server:
        judge = JevJudge(SystemOne("k", server.url, "typesafe/jev-1.13.0"))
        lens = jevlens.Lens(judge, tmp_path, jevlens.Settings())
        seen = lens.see(NOTES, "bash", {"command": "report"})
        assert seen.view == "head_tail" and "note 1000 of" in seen.text and seen.tokens_after < seen.tokens_before / 5
        assert lens.stats()["cost"] == pytest.approx(412 * 0.042e-6)
        events = jevlens.DirectoryStore(tmp_path).events()
        asked = next(event for event in events if event["event"] == "ask")
        assert (asked["input_tokens"], asked["model"]) == (412, "jev-1.13.0")
        assert jevlens.log_stats(events)["cost"] == pytest.approx(412 * 0.042e-6)


AUTO: Dict[str, Tuple[Dict[str, str], str]] = {
    "no key": ({}, "local"),
    "a TypeSafe key": ({"TYPESAFE_API_KEY": "k"}, "jev"),
    "another provider's key that nobody asked for": ({"OPENROUTER_API_KEY": "k"}, "local"),
    "another provider by name": ({"OPENROUTER_API_KEY": "k", "JEV_LENS_MODEL": "openrouter/typesafe/jev"}, "jev"),
    "a key, but the local judge is wanted": ({"TYPESAFE_API_KEY": "k", "JEV_LENS_CLASSIFIER": "local"}, "local"),
    "a key that cannot be one": ({"TYPESAFE_API_KEY": "two words"}, "local"),
}


@pytest.mark.parametrize("case", AUTO)
def test_auto_means_jev_when_there_is_a_key(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    for name in [*ALL_KEYS, "TYPESAFE_BASE_URL", "JEV_LENS_CLASSIFIER", "JEV_LENS_MODEL", "JEV_LENS_KEY_FILE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path))
    for name, value in AUTO[case][0].items():
        monkeypatch.setenv(name, value)
    assert isinstance(jevlens.Lens().judge, {"jev": jevlens.JevJudge, "local": jevlens.LocalJudge}[AUTO[case][1]])


def test_the_key_command_tells_stores_checks_and_forgets(
        monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    def key(typed: str, *words: str) -> Tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        status = jevlens.main(["key", *words])
        return (status, *capsys.readouterr())
    monkeypatch.delenv("TYPESAFE_API_KEY", raising=False)
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "data"))
    with Server() as server:
        monkeypatch.setenv("TYPESAFE_BASE_URL", server.url)
        status, out, err = key("")
        assert (status, out) == (0, "key for typesafe (127.0.0.1): none\n")
        for told in ("sends to 127.0.0.1", "costs money", "no guarantee"):
            assert told in err
        status, out, err = key("two words\n")
        assert status == 1 and "printable ASCII" in err and "two words" not in err
        status, out, err = key("k-secret-9\n")
        file = tmp_path / "data" / "key"
        assert status == 0 and f"from {file}" in out and "k-secret-9" not in out + err
        assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
        status, out, err = key("", "--check")
        assert status == 0 and "jev-1.13.0 answered: 412 tokens, $0.000017" in out
        assert b"Authorization: Bearer k-secret-9" in server.requests[0] and len(server.requests[0]) < 500
        assert key("", "--forget")[1] == "key for typesafe (127.0.0.1): none\n" and not file.exists()
        assert key("", "--forget")[0] == 0
        server.script[:] = [http(401, b"")]
        status, out, err = key("", "--check", "--model", "typesafe/jev-1.13.0")
        assert status == 1 and "jevlens: System One: refused: HTTP 401" in err


def test_without_a_key_neither_ssl_nor_urllib_is_imported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    environ = {name: text for name, text in os.environ.items() if name not in ALL_KEYS}
    done = subprocess.run(  # -S: what a machine's site packages import is not ours
        [sys.executable, "-S", "-X", "importtime", str(HERE / "jevlens.py"), "see", str(tmp_path / "a.py")],
        capture_output=True, env={**environ, "JEV_LENS_DATA_DIR": str(tmp_path)}, check=True)
    modules = {line.rpartition(b"|")[2].strip().split(b".")[0] for line in done.stderr.splitlines()}
    assert b"views_regex" in modules and not modules & {b"ssl", b"urllib", b"http", b"concurrent", b"email"}


# ================================================================ message lists

# A log of 400 lines that no view can do without leaving lines out; PNG stands for an image that must pass through.
LONG = "\n".join(f"step {n}: compiled module_{n * 7919 % 1000} in {n % 7} ms" for n in range(400))
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
RUN_ARGS = {"command": "make -j4"}


def openai_list(text: str) -> List[Dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(RUN_ARGS)}}
    return [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": "I build.", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": text},
        {"role": "tool", "tool_call_id": "c2", "content": [*({"type": "text", "text": part} for part in (text, ""))]},
    ]


def responses_list(text: str) -> List[Dict[str, Any]]:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    return [
        {"role": "user", "content": [{"type": "input_text", "text": "Build it."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "I build."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": json.dumps(RUN_ARGS)},
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "shell", "input": "make -j4"},
        {"type": "function_call_output", "id": "fo_1", "call_id": "c1", "output": text},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": text}, image]},
    ]


def anthropic_list(text: str) -> List[Dict[str, Any]]:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    calls = [{"type": "tool_use", "id": f"c{n}", "name": "bash", "input": RUN_ARGS} for n in (1, 2)]
    cached = {"type": "tool_result", "tool_use_id": "c2", "is_error": True, "cache_control": {"type": "ephemeral"}}
    return [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "I build."}, *calls]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": text},
                {**cached, "content": [{"type": "text", "text": text}, PNG, {"type": "tool_reference", "name": "x"}]},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]


def gemini_list(text: str) -> List[Dict[str, Any]]:
    call = {"functionCall": {"name": "bash", "args": RUN_ARGS}, "thoughtSignature": "c2ln"}
    named = {"functionCall": {"id": "7", "name": "bash", "args": RUN_ARGS}}
    return [
        {"role": "user", "parts": [{"text": "Build it."}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "I build."}, call, named]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "bash", "response": {"output": text, "exit": 0}}},
                {"functionResponse": {"id": "7", "name": "bash", "response": {"error": text}, "parts": [{"data": 1}]}},
            ],
        },
    ]


LISTS: Dict[str, Callable[[str], List[Dict[str, Any]]]] = {
    "openai": openai_list,
    "responses": responses_list,
    "anthropic": anthropic_list,
    "gemini": gemini_list,
}


def texts_in(value: Any, least: int) -> List[str]:
    """The strings of a JSON-like value that are at least so long, in order."""
    if isinstance(value, str):
        return [value] if len(value) >= least else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts_in(part, least)]


def without(value: Any, texts: Sequence[str]) -> Any:
    """The value with these strings blanked."""
    if isinstance(value, dict):
        return {key: without(part, texts) for key, part in value.items()}
    if isinstance(value, list):
        return [without(part, texts) for part in value]
    return "" if isinstance(value, str) and value in texts else value


@pytest.mark.parametrize("shape", LISTS)
def test_messages_change_the_text_of_large_results_and_nothing_else(shape: str) -> None:
    lens = jevlens.Lens("local")
    given = LISTS[shape](LONG)
    sent = lens.messages(given, shape)
    assert given == LISTS[shape](LONG), "the caller's list changed"
    assert sent is not given
    views = texts_in(sent, 100)
    assert len(views) == 2, "a result is missing, or something else grew"
    assert without(sent, views) == without(given, [LONG])
    assert all(len(view) < len(LONG) / 2 and "[jevlens " in view for view in views)
    assert " = " in views[1].partition("\n")[2], "the second result stood in the list already"
    for view in views:
        assert lens.original(view.partition('recall("')[2].partition('"')[0]) == LONG


def test_a_result_within_a_reply_stays_as_the_caller_wrote_it() -> None:
    part = {"functionResponse": {"name": "bash", "response": {"output": LONG}}}
    block = {"type": "tool_result", "tool_use_id": "a", "content": LONG}
    for shape, given in (("gemini", {"role": "model", "parts": [part]}),
                         ("anthropic", {"role": "assistant", "content": [block]})):  # fmt: skip
        before = copy.deepcopy(given)
        assert jevlens.Lens("local").messages([given], shape) == [before] and given == before


@pytest.mark.parametrize("shape", LISTS)
def test_messages_give_the_same_bytes_on_every_call(shape: str) -> None:
    lens = jevlens.Lens("local")
    given = LISTS[shape](LONG)
    sent = lens.messages(given, shape)
    grown = [*LISTS[shape](LONG), {"role": "user", "content": "Thanks."}]
    assert lens.messages(LISTS[shape](LONG), shape) == sent, "a second call"
    assert lens.messages(grown, shape)[:-1] == sent, "a grown list"
    assert lens.messages(given[:-1], shape) == sent[:-1], "a shorter list"
    assert jevlens.Lens("local").messages(given, shape) == sent, "another lens"
    assert lens.messages(sent, shape) == sent, "views that are there already"
    assert jevlens.Lens("local").messages(sent, shape) == sent, "views of another process"


def test_messages_hand_out_copies_and_share_what_is_unchanged() -> None:
    lens = jevlens.Lens("local")
    given = anthropic_list(LONG)
    first = lens.messages(given, "anthropic")
    first[2]["content"][0]["cache_control"] = {"type": "ephemeral"}  # what callers of Anthropic do to the last block
    assert lens.messages(given, "anthropic")[2]["content"][0].keys() == {"type", "tool_use_id", "content"}
    assert first[1] is given[1]


def test_messages_count_a_result_once_and_remember_only_this_list() -> None:
    lens = jevlens.Lens("local")
    lens.see(LONG, "bash", RUN_ARGS)
    sent = lens.messages(openai_list(LONG))
    lens.messages([{"role": "user", "content": "Another list."}])
    assert lens.messages(openai_list(LONG)) == sent == jevlens.Lens("local").messages(openai_list(LONG))
    assert lens.stats()["considered"] == 3
    cut = lens.stats()["saved"]
    lens.used(1000, 500)
    lens.used(2000)
    stats = lens.stats()
    assert (stats["sent"], stats["cut"]) == (3500, 2 * cut)
    assert stats["kept_out"] == round(2 * cut / (3500 + 2 * cut), 4)


class SdkBlock:
    """A block as an SDK returns it: fields are attributes."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_messages_read_the_objects_of_an_sdk() -> None:
    given = anthropic_list(LONG)
    call = SdkBlock(type="tool_use", id="c1", name="read", input={"path": "a.log"})
    reply = [SdkBlock(type="text", text="I build."), call]
    sent = jevlens.Lens("local").messages([given[0], {"role": "assistant", "content": reply}, given[2]], "anthropic")
    assert sent[1]["content"] is reply
    assert "= 2-" in sent[2]["content"][1]["content"][0]["text"]
    assert "of read a.log" in sent[2]["content"][1]["content"][0]["text"], "the call that an object made"


def compacted(mark: Dict[str, Any]) -> List[Dict[str, Any]]:
    """A list in which the second result comes after a compaction."""
    given = anthropic_list(LONG)
    first = {"role": "user", "content": given[2]["content"][:1]}
    return [*given[:2], first, mark, {"role": "user", "content": given[2]["content"][1:]}]


@pytest.mark.parametrize("mark, known", [
    ({"role": "assistant", "content": [{"type": "text", "text": "ok"}]}, True),
    ({"role": "assistant", "content": [{"type": "compaction", "content": "Built twice."}]}, False),
    ({"role": "user", "content": "This session is being continued from a previous conversation: built."}, False),
])  # fmt: skip
def test_messages_forget_what_stands_before_a_compaction(mark: Dict[str, Any], known: bool) -> None:
    sent = jevlens.Lens("local").messages(compacted(mark), "anthropic")
    assert (" of bash make -j4" in sent[4]["content"][0]["content"][0]["text"]) is known


def test_messages_give_each_of_geminis_results_its_own_call() -> None:
    """Calls without an id are told apart by their name and order, from turn to turn, too."""
    def turn(command: str, *texts: str) -> List[Dict[str, Any]]:
        calls = [{"functionCall": {"name": "bash", "args": {"command": f"{command} {n}"}}} for n in range(len(texts))]
        results = [{"functionResponse": {"name": "bash", "response": {"output": text}}} for text in texts]
        return [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    given = [*turn("first", "ok", "ok"), *turn("second", "ok", LONG), *turn("third", LONG)]
    sent = jevlens.Lens("local").messages(given, "gemini")
    assert " of bash second 1" in sent[5]["parts"][0]["functionResponse"]["response"]["output"]


def test_messages_pass_what_nobody_foresaw_and_refuse_an_unknown_shape() -> None:
    odd: List[Any] = [None, 7, "text", {}, {"role": "tool"}, {"role": "user", "content": {"x": 1}}, {"role": "tool",
                      "tool_call_id": ["a"], "content": LONG}, {"role": "user", "parts": [None, 3, {"text": None}]},
                      {"role": "assistant", "tool_calls": [None, {"id": None, "function": None}], "content": [1, "a"]}]
    assert jevlens.Lens("local").messages(odd) == odd
    with pytest.raises(JevlensError, match="^messages: shape 'x': use one of openai"):
        jevlens.Lens("local").messages([], "x")


def test_messages_that_grow_cost_their_new_part_only() -> None:
    lens = jevlens.Lens("local")
    given = [message for _ in range(8) for message in openai_list(LONG)]
    started = time.perf_counter()
    lens.messages(given)
    first = time.perf_counter() - started
    started = time.perf_counter()
    lens.messages([*given, {"role": "user", "content": "And now?"}])
    assert time.perf_counter() - started < first / 2


# ================================================================ hook, MCP, filter, status line


def claude_event(response: Any, tool: str = "Bash", args: Any = None, **more: Any) -> Dict[str, Any]:
    """The input of Claude Code's PostToolUse hook (2.1.332)."""
    return {"session_id": "s-1", "transcript_path": "/nowhere/s-1.jsonl", "cwd": "/w", "permission_mode": "default",
            "hook_event_name": "PostToolUse", "tool_name": tool, "tool_input": args or {"command": "make -j4"},
            "tool_use_id": "toolu_1", "tool_response": response, **more}  # fmt: skip


def bash_response(text: str, **more: Any) -> Dict[str, Any]:
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, **more}


def copilot_event(text: str, **more: Any) -> Dict[str, Any]:
    """The input of Copilot CLI's postToolUse hook (1.0.102)."""
    result = {"resultType": "success", "textResultForLlm": text}
    return {"sessionId": "s-1", "timestamp": 1, "cwd": "/w", "toolName": "bash", "toolArgs": '{"command":"make -j4"}',
            "toolResult": result, **more}  # fmt: skip


def hooked(store: Any, event: Any) -> Any:
    """What the hook prints for an event, None for nothing."""
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    text = jevlens.hook(data, store, jevlens.Settings())
    return json.loads(text) if text else None


def updated(store: Any, event: Any) -> Any:
    """What Claude Code is told to show instead, None for nothing."""
    reply = hooked(store, event)
    if reply is None:
        return None
    assert list(reply) == ["hookSpecificOutput"]
    assert reply["hookSpecificOutput"].pop("hookEventName") == "PostToolUse"
    return reply["hookSpecificOutput"].pop("updatedToolOutput")


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Any:
    return jevlens.DirectoryStore(tmp_path / "data")


FILES = [f"src/part{n}/module_{n}.py" for n in range(900)]
ROWS = "\n".join(f"src/part{n}/module_{n}.py:{n}:    return value_{n} + other" for n in range(300))
# sentence -> (event, where the text stands in the response and in the replacement)
CLAUDE_SHAPES: Dict[str, Tuple[Dict[str, Any], Tuple[Any, ...]]] = {
    "a command": (claude_event(bash_response(LONG)), ("stdout",)),
    "a search": (
        claude_event({"mode": "content", "numFiles": 9, "filenames": [], "content": ROWS, "numLines": 300}, "Grep",
               {"pattern": "return"}), ("content",)),
    "a web page": (claude_event({"bytes": 9, "code": 200, "codeText": "OK", "result": LONG, "url": "u"}, "WebFetch",
                          {"url": "https://example.org/build.log"}), ("result",)),
    "a tool of a server": (claude_event([{"type": "text", "text": LONG}, PNG], "mcp__ci__make", {"command": "make"}),
                           (0, "text")),
    "a structured answer of a server": (claude_event(ROWS, "mcp__code__grep", {"pattern": "return"}), ()),
    "the report of a sub-agent": (
        claude_event({"status": "completed", "agentId": "a", "content": [{"type": "text", "text": ROWS}]}, "Agent",
               {"prompt": "return", "pattern": "return"}), ("content", 0, "text")),
}  # fmt: skip


def at(value: Any, path: Tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def sent_before(store: Any, text: str) -> None:
    """The session s-1 was sent this text whole, so that no view of it can be anything but short."""
    lens = jevlens.Lens("local", store, jevlens.Settings(disabled=True), session="s-1")
    lens.see(text, "read", {"path": "notes.txt"})


@pytest.mark.parametrize("sentence", CLAUDE_SHAPES)
def test_hook_keeps_the_form_of_claude_codes_result(sentence: str, store: Any) -> None:
    event, path = CLAUDE_SHAPES[sentence]
    old = at(event["tool_response"], path)
    sent_before(store, old)
    new = updated(store, event)
    text = at(new, path)
    assert "[jevlens " in text and len(text) < len(old) / 2
    assert without(new, [text]) == without(event["tool_response"], [old])
    id = text.partition('recall("')[2].partition('"')[0]
    assert jevlens.Lens("local", store).original(id) == old


def test_hook_shortens_a_list_of_files(store: Any) -> None:
    response = {"mode": "files_with_matches", "numFiles": 900, "filenames": FILES, "totalFiles": 900}
    sent_before(store, "\n".join(FILES))
    new = updated(store, claude_event(response, "Grep", {"pattern": "x"}))
    assert {**new, "filenames": FILES} == response
    assert new["filenames"][0] == FILES[0] and "[jevlens " in new["filenames"][-1] and len(new["filenames"]) < 100


def test_hook_reads_the_file_that_holds_the_whole_output(store: Any, tmp_path: pathlib.Path) -> None:
    whole = tmp_path / "output.txt"
    whole.write_bytes(b"caf\xe9\n" + (LONG * 3).encode())
    response = bash_response(LONG[:9000], persistedOutputPath=str(whole), persistedOutputSize=3 * len(LONG))
    new = updated(store, claude_event(response))
    assert new.keys() == {"stdout", "stderr", "interrupted", "isImage"}, "the preview of the file would be shown"
    assert "step 399" in new["stdout"], "the end stands in the file only"
    id = new["stdout"].partition('recall("')[2].partition('"')[0]
    assert jevlens.Lens("local", store).original(id).encode("utf-8", "surrogateescape") == whole.read_bytes()
    whole.unlink()
    with pytest.raises(OSError):
        updated(store, claude_event(response))


def test_hook_numbers_the_lines_of_a_read(store: Any) -> None:
    file = {"filePath": "build.log", "content": LONG, "numLines": 400, "startLine": 101, "totalLines": 900}
    args = {"file_path": "build.log", "offset": 101}
    event = claude_event({"type": "text", "file": file}, "Read", args)
    sent_before(store, LONG)
    new = updated(store, event)
    text = new["file"]["content"]
    assert new == {"type": "text", "file": {**file, "content": text, "numLines": text.count("\n") + 1}}
    assert text.startswith("101│ step 0:") and "\n500│ step 399:" in text, "the numbers of the file"
    assert "= 2-399 of read notes.txt" in text and "; numbers before │ are the file's]" in text


LEFT_ALONE: Dict[str, Any] = {
    "a small result": claude_event(bash_response("ok")),
    "a large input of an edit": claude_event({"filePath": "a", "oldString": "a", "originalFile": LONG}, "Edit"),
    "a file that was written": claude_event({"type": "create", "filePath": "a", "content": LONG}, "Write"),
    "an image": claude_event(bash_response("iVBORw0KGgo=" * 2000, isImage=True)),
    "an image that was read": claude_event({"type": "image", "file": {"base64": "A" * 9000}}, "Read"),
    "a notebook": claude_event({"type": "notebook", "file": {"filePath": "a.ipynb", "cells": [LONG]}}, "Read"),
    "our own recall": claude_event([{"type": "text", "text": LONG}], "mcp__plugin_lens_lens__recall", {"id": "r0"}),
    "our own recall in a shell": claude_event(bash_response(LONG), args={"command": "python3 jevlens.py recall r0"}),
    "a background agent": claude_event({"status": "async_launched", "outputFile": "/x", "prompt": LONG}, "Agent"),
    "another event": {**claude_event(bash_response(LONG)), "hook_event_name": "PostToolUseFailure"},
    "Cursor": claude_event(bash_response(LONG), cursor_version="2026.09"),
    "an image of a server under Codex": claude_event({"content": [{"type": "image", "data": "A" * 9000}]}, turn_id="t"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", LEFT_ALONE)
def test_hook_prints_nothing_for(sentence: str, store: Any) -> None:
    with contextlib.suppress(KeyError, JevlensError):  # what has no text at all; `cmd_hook` logs it
        assert hooked(store, LEFT_ALONE[sentence]) is None


def test_hook_answers_codex_and_copilot_in_their_way(store: Any) -> None:
    reply = hooked(store, claude_event(LONG, turn_id="t-1", model="m"))
    assert reply.keys() == {"continue", "stopReason"} and reply["continue"] is False
    assert "; exit status not known]" in reply["stopReason"]
    parts = {"content": [{"type": "text", "text": "Two parts."}, {"type": "text", "text": LONG}]}
    sent_before(store, LONG)
    reply = hooked(store, claude_event(parts, "mcp__ci__make", turn_id="t-1"))
    assert reply["stopReason"].startswith("Two parts.\n⋯ 2-400 = 1-399 of read notes.txt\nstep 399:")
    reply = hooked(store, copilot_event(LONG, sessionId="s-3"))
    assert list(reply) == ["modifiedResult"] and reply["modifiedResult"]["resultType"] == "success"
    assert "[jevlens " in reply["modifiedResult"]["textResultForLlm"]


def told(role: str, content: Any, **more: Any) -> Dict[str, Any]:
    """A line of Claude Code's transcript."""
    return {"type": role, "uuid": "u", "message": {"role": role, "content": content, **more.pop("message", {})}, **more}


def transcript(call: str, text: str) -> List[Any]:
    """A session in which a file was read whole, and `call` is under way."""
    read = {"type": "tool_use", "id": "toolu_0", "name": "Read", "input": {"file_path": "/w/build.log"}}
    reply = {"id": "msg_2", "type": "message"}
    lines = [f"{n}\t{line}" for n, line in enumerate(text.split("\n"), 1)]
    return [
        {"type": "queue-operation", "operation": "enqueue"},
        told("user", "<command-name>/init</command-name>"),
        told("user", "Find the slow step of module_919."),
        told("user", "Caveat: noise.", isMeta=True),
        told("assistant", [{"type": "text", "text": "I read the log."}], message={"id": "msg_1", "type": "message"}),
        told("assistant", [read], message={"id": "msg_1", "type": "message"}),
        told("user", [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "\n".join(lines)}]),
        told("assistant", [{"type": "text", "text": "Now I build."}], message=reply),
        told("assistant", [{"type": "tool_use", "id": call, "name": "Bash", "input": RUN_ARGS}], message=reply),
    ]


def written(path: pathlib.Path, records: Sequence[Any], torn: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in records) + torn, encoding="utf-8")
    return str(path)


def test_hook_learns_the_session_from_the_transcript(store: Any, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "s-1.jsonl", transcript("toolu_1", LONG), '{"type":"user","mess')
    fold, whole = jevlens.read_transcript(jevlens.Lens("local", store), path)
    task = "Find the slow step of module_919."
    assert whole and (fold.task, fold.latest, fold.said) == (task, task, "Now I build.")
    assert fold.session.messages >= 1
    new = updated(store, claude_event(bash_response(LONG), transcript_path=path))
    assert "= 2-399 of read build.log" in new["stdout"]
    summary = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {}}
    path = written(tmp_path / "s-1.jsonl", [*transcript("toolu_1", LONG), summary])
    assert "of read build.log" not in updated(store, claude_event(bash_response(LONG), transcript_path=path))["stdout"]


def test_hook_of_a_sub_agent_knows_its_own_file_only(store: Any, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "s-1.jsonl", transcript("toolu_1", LONG))
    event = claude_event(bash_response(LONG), transcript_path=path, agent_id="a7")
    assert "of read build.log" not in updated(store, event)["stdout"]
    written(tmp_path / "s-1" / "subagents" / "agent-a7.jsonl", transcript("toolu_1", LONG))
    assert "of read build.log" in updated(store, {**event, "tool_use_id": "toolu_2"})["stdout"]


def test_hook_reads_the_end_of_a_long_transcript_and_its_first_request(store: Any, tmp_path: pathlib.Path,
                                                                       monkeypatch: Any) -> None:
    monkeypatch.setattr(jevlens, "SESSION_TAIL", 2000)
    filler = [told("assistant", [{"type": "text", "text": "x" * 500}], message={"id": f"m{n}"}) for n in range(20)]
    last = [told("user", "And now the tests."), told("assistant", [{"type": "text", "text": "I run them."}])]
    path = written(tmp_path / "s-1.jsonl", [*transcript("toolu_1", LONG), *filler, *last])
    fold, whole = jevlens.read_transcript(jevlens.Lens("local", store), path)
    assert not whole
    assert (fold.task, fold.latest) == ("Find the slow step of module_919.", "And now the tests.")
    assert fold.said == "I run them." and not fold.calls


def test_hook_remembers_between_processes_without_a_transcript(store: Any) -> None:
    first = updated(store, claude_event(bash_response(LONG)))["stdout"]
    assert " of bash make" not in first
    assert " of bash make" in updated(store, claude_event(bash_response(LONG), tool_use_id="toolu_2"))["stdout"]
    assert " of bash make" not in updated(store, claude_event(bash_response(LONG), session_id="s-2"))["stdout"]
    for _ in range(2):  # an id of another type does not spoil what later processes read
        again = updated(store, claude_event(bash_response(LONG), tool_use_id=[1], session_id=["s-2"]))["stdout"]
    assert " of bash make" in again


def test_what_the_session_has_never_includes_the_first_and_the_last_line_with_text() -> None:
    lens = jevlens.Lens("local", settings=jevlens.Settings(disabled=True))
    text = "\n" + LONG + "\n\n"
    lens.see(text, "read", {"path": "a.log"})
    lens.settings = jevlens.Settings()
    view = lens.see(text, "bash", {"command": "x"}).text.split("\n")
    assert view[1].startswith("step 0:") and view[3].startswith("step 399:"), "blank lines around them stay, too"


def test_a_session_goes_on_in_a_later_process(tmp_path: pathlib.Path) -> None:
    whole = jevlens.Settings(disabled=True)
    jevlens.Lens("local", tmp_path, whole, session="a/../b").see(LONG, "read", {"path": "a.log"})
    with open(next((tmp_path / "sessions").iterdir()), "ab") as journal:
        journal.write(b'{"see": [1, 2]}\n{"see": "x"}\n{"torn')
    known = jevlens.Lens("local", tmp_path, session="a/../b").see(LONG, "bash", RUN_ARGS).text
    assert " of read a.log" in known
    assert " of read a.log" not in jevlens.Lens("local", tmp_path, session="c").see(LONG, "bash", RUN_ARGS).text
    assert " of read a.log" not in jevlens.Lens("local", tmp_path).see(LONG, "bash", RUN_ARGS).text
    lens = jevlens.Lens("local", tmp_path, session="a/../b")
    lens.forget()
    view = jevlens.Lens("local", tmp_path, session="a/../b").see(LONG, "bash", {"command": "x"}).text
    assert " of read a.log" not in view and " of bash make" not in view
    assert {path.name for path in tmp_path.iterdir()} == {"sessions", "outputs", "log.jsonl", "prune.stamp"}


def test_what_a_view_left_out_is_not_known_though_each_of_its_lines_stands_elsewhere(tmp_path: pathlib.Path) -> None:
    methods = [f"    def method_{n}(self, value):\n" + "\n".join(
        f"        value = self.step_{step}(value, {step})" for step in range(12)) for n in range(20)]
    text = "\n\n".join(["class Pipeline:", *methods, ""])
    put_back = Fixed("outline", {"Pipeline.method_3": 0.9})
    view = jevlens.Lens(put_back, tmp_path, OUTLINE_LENS, session="s").see(text, "read", {"path": "pipe.py"})
    assert view.text.count("self.step_5(") == 1, "the bodies of all others were left out"
    part = f"log 1\nlog 2\n{methods[9]}\nend of it"
    later = jevlens.Lens("local", tmp_path, jevlens.Settings(min_tokens=10), session="s").see(part, "bash", RUN_ARGS)
    assert re.findall(" = (.+) of read pipe.py", later.text) == ["46-57"] and set(range(46, 58)) <= set(view.kept)
    store, doc = jevlens.DirectoryStore(tmp_path), views.read(view.text, "read", {"path": "pipe.py"})
    case = jevlens.Case("", "", "", "read", {"path": "pipe.py"}, False, doc, jevlens.Session(), {})
    as_it_stands = view._replace(id="", kept=tuple(range(1, len(doc.lines) + 1)))
    learned = jevlens.as_sent(case, as_it_stands, store)
    assert learned[0].doc.text == text and [line + 1 for line in learned[2]] == [*view.kept]


def test_a_text_of_blanks_alone_is_never_markers_alone() -> None:
    for tool, args in (("ls", {}), ("bash", {"command": "x"}), ("webfetch", {}), ("read", {"path": "a.csv"})):
        seen = jevlens.Lens("local").see(" \n\n\t\n" * 3000, tool, args)
        assert seen.view == "full" and seen.reason == "no-candidates", (tool, seen.text[:80])


def script(name: str, data: bytes, home: pathlib.Path, *arguments: str, **more: str) -> Any:
    """A command of jevlens.py, run as hosts run it."""
    command = [sys.executable, "-E", "-s", jevlens.__file__, name, *arguments]
    environ = {**os.environ, "JEV_LENS_DATA_DIR": str(home), **more}
    return subprocess.run(command, input=data, capture_output=True, env=environ, timeout=30)


MALFORMED: Dict[str, bytes] = {
    "truncated JSON": b'{"hook_event_name": "PostToolUse", "tool_resp',
    "a list": b"[1, 2]",
    "not UTF-8": b'\xff\xfe{"tool_response": 1}',
    "an unknown host": b'{"event": "after_tool"}' + b" " * 9000,
    "deep nesting": b"[" * 200_000,
    "a response of the wrong type": json.dumps(claude_event({"stdout": {"x": "y" * 5000}, "stderr": 5})).encode(),
    "a transcript that is a folder, a response without text": json.dumps(
        {**copilot_event("x"), "toolResult": {"textResultForLlm": ["x"] * 5000}}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("sentence", MALFORMED)
def test_hook_says_nothing_and_logs_one_line_for(sentence: str, tmp_path: pathlib.Path) -> None:
    done = script("hook", MALFORMED[sentence], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["reason"]


def test_hook_prints_one_object_or_nothing(tmp_path: pathlib.Path) -> None:
    binary = tmp_path / "s-1.jsonl"
    binary.write_bytes(bytes(range(256)) * 4000)
    done = script("hook", json.dumps(claude_event(bash_response(LONG), transcript_path=str(binary))).encode(), tmp_path)
    assert done.returncode == 0 and b"[jevlens " in done.stdout
    assert json.loads(done.stdout)
    assert script("hook", json.dumps(claude_event(bash_response("ok"))).encode(), tmp_path).stdout == b""
    assert script("hook", b"x" * 65_000_000, tmp_path).stdout == b""
    event = json.dumps(claude_event(bash_response(LONG))).encode()
    assert script("hook", event, tmp_path, CURSOR_VERSION="2").stdout == b""
    (tmp_path / "file").touch()
    done = script("hook", event, tmp_path / "file")
    assert (done.returncode, done.stdout) == (0, b""), "a store that cannot be written: the host keeps its result"


@pytest.mark.skipif(os.name != "posix", reason="a shell that can close its input")
def test_hook_without_an_input_says_nothing(tmp_path: pathlib.Path) -> None:
    words = shlex.join([sys.executable, "-E", "-s", jevlens.__file__, "hook"])
    environ = {**os.environ, "JEV_LENS_DATA_DIR": str(tmp_path)}
    done = subprocess.run(["sh", "-c", words + " <&-"], capture_output=True, env=environ, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


GATE: Dict[str, Tuple[bytes, Dict[str, str], bool]] = {  # sentence -> (input, environment, whether it comes through)
    "a small result ends the process": (b'{"tool_response": {"stdout": "ok"}}\n', {}, False),
    "one that just could have 1,200 tokens does not": (b'{"toolResult": "%s"}' % (b"x" * 4779), {}, True),
    "one byte less does": (b'{"toolResult": "%s"}' % (b"x" * 4778), {}, False),
    "the setting counts": (b'{"tool_response": "abcd"}', {"JEV_LENS_PRESEND_MIN_TOKENS": "3"}, True),
    "a digit that is no number does not": (b'{"tool_response": 1}', {"JEV_LENS_PRESEND_MIN_TOKENS": "²"}, False),
    "a variant file may have another size": (b'{"tool_response": "abcd"}', {"JEV_LENS_VARIANT": "a.json"}, True),
    "a torn one is logged by the rest": (b'{"tool_response": {"stdout": "o', {}, True),
    "one without a result too": (b'{"event": 1}', {}, True),
}  # fmt: skip


@pytest.mark.parametrize("sentence", GATE)
def test_gate_looks_at_the_byte_count(sentence: str, monkeypatch: Any) -> None:
    data, environ, through = GATE[sentence]
    ended: List[int] = []
    monkeypatch.setattr(os, "environ", environ)
    monkeypatch.setattr(os, "_exit", ended.append)
    assert jevlens.gate(data) == data
    assert ended == ([] if through else [0])


WORKER = """
import json, sys
import jevlens
store = jevlens.DirectoryStore(sys.argv[1])
for n in range(int(sys.argv[3])):
    text = "\\n".join(f"worker {sys.argv[2]} step {n}.{k}: compiled module_{k * 7919 % 1000}" for k in range(200))
    event = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": f"t{n}",
             "tool_input": {"command": "make"}, "tool_response": {"stdout": text, "stderr": "", "interrupted": False}}
    said = json.loads(jevlens.hook(json.dumps(event).encode(), store, jevlens.Settings()))
    view = said["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    id = view.partition('recall("')[2].partition('"')[0]
    print(json.dumps([id, text == jevlens.Lens("local", store).original(id)]))
"""


def test_hooks_in_parallel_lose_nothing(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.path.dirname(jevlens.__file__)}
    workers = [subprocess.Popen([*command, str(n), "8"], stdout=subprocess.PIPE, env=environ) for n in range(4)]
    rows = [json.loads(line) for worker in workers for line in worker.communicate()[0].splitlines()]
    assert len(rows) == len({id for id, _ in rows}) == 32 and all(same for _, same in rows)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(id for id, _ in rows)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".json", ".jsonl", ".stamp"}
    journal = next((tmp_path / "sessions").iterdir()).read_text().splitlines()
    assert len([json.loads(line) for line in journal]) == 32


@pytest.mark.parametrize("host", ["claude", "codex", "copilot"])
def test_hook_prints_settings_that_name_this_interpreter_and_this_file(host: str, tmp_path: pathlib.Path) -> None:
    done = script("hook", b"", tmp_path, "--print-config", host)
    assert done.returncode == 0
    text = json.dumps(json.loads(done.stdout))
    assert sys.executable in text and os.path.abspath(jevlens.__file__) in text
    entry = "[mcp_servers.lens]\ncommand = " if host == "codex" else '{"mcpServers": {"lens": {"command": '
    assert f"{entry}{json.dumps(sys.executable)}" in done.stderr.decode()
    matcher = json.loads(done.stdout)["hooks"].get("PostToolUse", [{}])[0].get("matcher", "")
    if host == "claude":
        assert json.loads(done.stdout)["bashOutputMaxChars"] == 128_000  # as the README and the host allow
        import re
        names = "Bash Read mcp__ci__make mcp__lens__recall mcp__plugin_lens_lens__stats Bashful Edit".split()
        assert [bool(re.search(matcher, name)) for name in names] == [True] * 3 + [False] * 4


def rpc(method: str, id: Any = 1, modern: bool = False, **params: Any) -> Dict[str, Any]:
    if modern:
        params["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def serve(lens: Any, lines: Any, out: List[str]) -> None:
    """Run the server over these lines until all is answered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jevlens, "_own_lens", lambda: lens)
        patch.setattr(jevlens, "write_text", out.append)
        patch.setattr(sys, "stdin", types.SimpleNamespace(buffer=lines))
        before = set(threading.enumerate())
        jevlens.cmd_mcp()
        for thread in set(threading.enumerate()) - before:
            assert not thread.daemon, "the process would not wait for it"
            thread.join(10)


def served(lens: Any, *requests: Any) -> List[Any]:
    """The answers of the server, in the order of their ids."""
    out: List[str] = []
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in requests]
    serve(lens, [line + b"\n" for line in lines], out)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in out)
    return sorted((json.loads(line) for line in out), key=lambda row: str(row["id"]))


# sentence -> (request, what the answer must contain: path -> value)
MCP: Dict[str, Tuple[Any, Dict[Tuple[Any, ...], Any]]] = {
    "a handshake": (rpc("initialize", protocolVersion="2025-06-18", capabilities={}),
                    {("result", "protocolVersion"): "2025-06-18", ("result", "serverInfo", "name"): "jevlens"}),
    "a handshake of an unknown version": (rpc("initialize", protocolVersion="1999-01-01"),
                                          {("result", "protocolVersion"): "2025-11-25"}),
    "an id that is a text": (rpc("ping", id="p-1"), {("id",): "p-1", ("result",): {}}),
    "a probe without a version": (rpc("server/discover", id="server-discover-probe-1"), {
        ("result", "supportedVersions", 0): "2026-07-28", ("result", "resultType"): "complete"}),
    "a list of the new era": (rpc("tools/list", modern=True), {
        ("result", "resultType"): "complete", ("result", "cacheScope"): "public",
        ("result", "_meta", "io.modelcontextprotocol/serverInfo", "name"): "jevlens"}),
    "a list": (rpc("tools/list"), {
        ("result", "tools", 0, "name"): "recall", ("result", "tools", 1, "name"): "stats",
        ("result", "tools", 0, "annotations"): {"readOnlyHint": True},
        ("result", "tools", 0, "inputSchema", "required"): ["id"]}),
    "an unknown id": (rpc("tools/call", name="recall", arguments={"id": "r00000000000"}),
                      {("result", "isError"): True, ("result", "content", 0, "type"): "text"}),
    "arguments that are a list": (rpc("tools/call", name="recall", arguments=[1]), {("result", "isError"): True}),
    "no id": (rpc("tools/call", name="recall", arguments={}), {
        ("result", "isError"): True, ("result", "content", 0, "text"): "recall: nothing is stored for None: run the "
        "command again; stored: nothing"}),
    "an unknown tool": (rpc("tools/call", name="rm"), {("error", "code"): -32602}),
    "an unknown method": (rpc("resources/list"), {("error",): {
        "code": -32601, "message": "unknown resources/list"}}),
    "parameters that are a list": ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]},
                                   {("error", "code"): -32602}),
    "a method that is a number": ({"jsonrpc": "2.0", "id": 1, "method": 5}, {("error", "code"): -32601}),
    "an unknown version of the new era": (
        {**rpc("tools/list"), "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}}},
        {("error", "code"): -32022, ("error", "data"): {"supported": ["2026-07-28"], "requested": "2027-01-01"}}),
    "what is not JSON": (b"{nonsense", {("error", "code"): -32700, ("id",): None}),
    "a batch": ([rpc("ping")], {("error", "code"): -32600, ("id",): None}),
}  # fmt: skip


@pytest.mark.parametrize("sentence", MCP)
def test_mcp_answers(sentence: str, store: Any) -> None:
    request, expected = MCP[sentence]
    (reply,) = served(jevlens.Lens("local", store), request)
    assert reply["jsonrpc"] == "2.0" and ("result" in reply) != ("error" in reply)
    assert {path: at(reply, path) for path in expected} == expected


def test_mcp_says_nothing_to_notifications_answers_and_blank_lines(store: Any) -> None:
    quiet: List[Any] = [b"", b"   ", {"jsonrpc": "2.0", "method": "notifications/initialized"},
                        {"jsonrpc": "2.0", "method": "tools/call"}, {"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert served(jevlens.Lens("local", store), *quiet) == []


def test_mcp_recalls_and_counts(store: Any) -> None:
    lens = jevlens.Lens("local", store)
    id = lens.see(LONG, "bash", RUN_ARGS).id
    whole, lines, stats, bad, careless = served(
        lens,
        rpc("tools/call", 1, name="recall", arguments={"id": id}),
        rpc("tools/call", 2, True, name="recall", arguments={"id": id, "lines": 7, "pattern": "", "block": None}),
        rpc("tools/call", 3, name="stats"),
        rpc("tools/call", 4, name="recall", arguments={"id": id, "lines": "x"}),
        rpc("tools/call", 5, name="recall", arguments={"id": id, "pattern": 514, "why": "numbers, invented names"}),
    )
    assert whole["result"] == {"content": [{"type": "text", "text": LONG}], "isError": False}
    assert lines["result"]["content"][0]["text"].endswith("step 6: compiled module_514 in 6 ms")
    assert json.loads(stats["result"]["content"][0]["text"])["shortened"] == 1
    assert bad["result"]["isError"] and "40-90" in bad["result"]["content"][0]["text"]
    assert "step 6: compiled module_514 in 6 ms" in careless["result"]["content"][0]["text"]


def test_mcp_answers_what_strict_readers_of_json_take(store: Any) -> None:
    lens = jevlens.Lens("local", store)
    output = LONG.replace("step 7:", "caf\udce9 \U0001f600 \ud800:")
    id = lens.see(output, "bash", RUN_ARGS).id
    (reply,) = served(lens, rpc("tools/call", name="recall", arguments={"id": id, "lines": "8"}))
    assert "caf\ufffd \U0001f600 \ufffd: compiled" in reply["result"]["content"][0]["text"]
    assert lens.original(id) == output


def test_mcp_answers_a_ping_while_a_recall_takes_long(store: Any) -> None:
    lens = jevlens.Lens("local", store)
    gate = threading.Event()
    out: List[str] = []

    class Slow:
        def recall(self, **_: Any) -> str:
            gate.wait(10)
            return "late"

    def lines() -> Any:
        for n in range(4):
            yield json.dumps(rpc("tools/call", n, name="recall", arguments={"id": "r"})).encode()
        yield json.dumps(rpc("ping", "p")).encode()
        until = time.monotonic() + 5
        while not out and time.monotonic() < until:
            time.sleep(0.005)
        assert json.loads(out[0]) == {"jsonrpc": "2.0", "id": "p", "result": {}}
        gate.set()

    lens.recall = Slow().recall  # type: ignore[method-assign]
    serve(lens, lines(), out)
    assert len(out) == 5, "the end of the input waits for what is under way"


def test_mcp_serves_over_pipes_and_ends_with_its_input(tmp_path: pathlib.Path) -> None:
    requests = [rpc("initialize", 1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, rpc("tools/list", 2)]
    done = script("mcp", "".join(json.dumps(row) + "\n" for row in requests).encode(), tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == [1, 2]


def test_filter_shortens_a_pipe_and_passes_bytes_through(tmp_path: pathlib.Path) -> None:
    data = b"caf\xe9\r\n" + LONG.encode()
    done = script("filter", data, tmp_path, "--command", "make -j4")
    assert done.returncode == 0 and len(done.stdout) < len(data) / 2 and done.stdout.startswith(b"caf\xe9\r\n")
    id = done.stdout.partition(b"jevlens.py recall ")[2].partition(b" ")[0].decode()
    assert script("recall", b"", tmp_path, id, "--raw").stdout == data
    small = b"caf\xe9\x00\r\nno newline at the end"
    assert script("filter", small, tmp_path).stdout == small
    assert b"exit status" in b" ".join(script("filter", b"", tmp_path, "--help").stdout.split())


def test_statusline_sums_up_the_session(tmp_path: pathlib.Path) -> None:
    store = jevlens.DirectoryStore(tmp_path)
    seen = jevlens.Lens("local", store, session="s-1/agent").see(LONG, "bash", RUN_ARGS)
    jevlens.Lens("local", store, session="s-2").see(LONG + "\nend", "bash", {"command": "x"})
    jevlens.Lens("local", store).recall(seen.id, "1")
    share = round(100 * (1 - seen.tokens_after / seen.tokens_before))
    line = script("statusline", b'{"session_id": "s-1", "model": {}}', tmp_path).stdout.decode()
    saved = seen.tokens_before - seen.tokens_after
    assert line.startswith(f"jevlens kept out {share}% ({saved:,} tokens): 1 of 1 results shortened, 1 recalls")
    for junk in (b"", b"\xff["):
        assert script("statusline", junk, tmp_path).stdout.decode().count("\n") == 1
    assert " of 2 results" in script("statusline", b"{}", tmp_path).stdout.decode()


README = pathlib.Path(jevlens.__file__).with_name("README.md")


def recipe(name: str, *packages: str) -> Dict[str, Any]:
    """What a recipe of the README defines; skipped where its package is not installed."""
    for package in packages:
        pytest.importorskip(package)
    found = [part.partition("```")[0] for part in README.read_text(encoding="utf-8").split("```python\n")[1:]]
    if not any(part.startswith("# recipe: ") for part in found):
        pytest.skip("the README has no recipes")
    (block,) = [part for part in found if part.startswith(f"# recipe: {name}")]
    scope: Dict[str, Any] = {"__name__": "recipe"}
    exec(compile(block, f"README {name}", "exec"), scope)
    return scope


def counting(limit: int) -> str:
    """A command, for any shell, whose output goes on like LONG."""
    code = f"for n in range({limit}): print(f'step {{n}}: compiled module_{{n * 7919 % 1000}} in {{n % 7}} ms')"
    return f'{sys.executable} -c "{code}"'


def id_in(text: str) -> str:
    """The id that a footer names."""
    import re
    return re.findall(r"\br[0-9a-f]{11,64}\b", text)[-1]


def test_readme_loop_shortens_and_recalls() -> None:
    asked: List[List[Any]] = []

    def model(messages: List[Any], tools: List[Any]) -> Dict[str, Any]:
        asked.append(messages)
        number = len(asked)
        if number == 3:
            return {"role": "assistant", "content": "Done."}
        args = {"command": counting(2500)} if number == 1 else {"id": id_in(messages[-1]["content"]), "lines": "200"}
        name = "bash" if number == 1 else "recall"
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    assert recipe("loop")["run"](model, "Build it.") == "Done."
    assert "[jevlens " in asked[1][-1]["content"] and len(asked[1][-1]["content"]) < 50_000
    assert "step 199: compiled" in asked[2][-1]["content"]
    assert asked[2][:3] == asked[1], "the same bytes again"


def test_readme_store_is_a_store() -> None:
    scope = recipe("store")
    lens = jevlens.Lens("local", scope["DictStore"]({}))
    seen = lens.see(LONG, "bash", RUN_ARGS)
    assert lens.original(seen.id) == LONG and lens.store.ids() == [seen.id]


def test_readme_mini_swe_agent(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MSWEA_SILENT_STARTUP", "1")
    monkeypatch.setenv("MSWEA_GLOBAL_CONFIG_DIR", str(tmp_path / "mini"))
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "data"))
    scope = recipe("mini-swe-agent", "minisweagent")
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicModel, make_output
    run = counting(2500)
    text = "\n".join(f"step {n}: compiled module_{n * 7919 % 1000} in {n % 7} ms" for n in range(2500)) + "\n"
    assert len(text) > 80_000
    recall = f"{sys.executable} -E -s {jevlens.__file__} recall {jevlens.free_id(text, {})} --lines 1800"
    outputs = [make_output("I build.", [{"command": run}]), make_output("I look.", [{"command": recall}]),
               make_output("Done.", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}])]  # fmt: skip
    agent = scope["LensAgent"](
        DeterministicModel(outputs=outputs), LocalEnvironment(), system_template="s", instance_template="{{task}}",
        output_path=tmp_path / "run.traj.json", cost_limit=0)
    assert agent.run("Build it.")["exit_status"] == "Submitted"
    view, recalled = (message for message in agent.messages if message.get("extra", {}).get("raw_output") or
                      "step 1799" in str(message["content"]))
    assert "[jevlens " in view["content"] and len(view["content"]) < len(text) / 2
    assert "step 1799: compiled" in recalled["content"]
    saved = json.loads((tmp_path / "run.traj.json").read_text())
    extras = [message.get("extra", {}) for message in saved["messages"]]
    assert [extra["raw_output"] for extra in extras if "raw_output" in extra][0] == text


def test_readme_pydantic_ai() -> None:
    scope = recipe("pydantic-ai", "pydantic_ai.capabilities")
    from pydantic_ai import Agent, models
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    models.ALLOW_MODEL_REQUESTS = False
    heard: List[str] = []

    def answer(messages: List[Any], info: Any) -> Any:
        heard.extend(str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return")
        return ModelResponse(parts=[TextPart("Done.")] if heard else [ToolCallPart("bash", RUN_ARGS)])

    capability = scope["LensCapability"]()
    agent = Agent(FunctionModel(answer), capabilities=[capability])

    @agent.tool_plain
    def bash(command: str) -> str:
        return LONG

    assert agent.run_sync("Build it.").output == "Done."
    assert "[jevlens " in heard[0] and capability.lens.original(id_in(heard[0])) == LONG


def test_readme_langchain() -> None:
    scope = recipe("langchain", "langchain.agents.middleware")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    def bash(command: str) -> str:
        """Run a command."""
        return LONG

    call = {"name": "bash", "args": RUN_ARGS, "id": "c1"}
    replies = iter([AIMessage(content="I build.", tool_calls=[call]), AIMessage(content="Done.")])
    agent = create_agent(Model(messages=replies), tools=[bash], middleware=[scope["shorten"]])
    messages = agent.invoke({"messages": [("user", "Build it.")]})["messages"]
    assert messages[-1].content == "Done."
    assert "[jevlens " in messages[2].content and scope["lens"].original(id_in(messages[2].content)) == LONG


def test_readme_openai_agents() -> None:
    scope = recipe("openai-agents", "agents")
    import asyncio

    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import (
        ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    )
    heard: List[str] = []

    class Scripted(Model):
        async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
            outputs = [item["output"] for item in input if isinstance(item, dict) and "output" in item]
            heard.extend(outputs)
            text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
            said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            args = json.dumps(RUN_ARGS)
            call = ResponseFunctionToolCall(type="function_call", call_id="c1", name="bash", arguments=args)
            return ModelResponse(output=[said if outputs else call], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool(tool_output_guardrails=[scope["shorten"]])
    def bash(command: str) -> str:
        """Run a command."""
        return LONG

    agent = Agent(name="a", tools=[bash], model=Scripted())
    result = asyncio.run(Runner.run(agent, "Build it.", run_config=RunConfig(tracing_disabled=True)))
    assert result.final_output == "Done."
    assert "[jevlens " in heard[0] and scope["lens"].original(id_in(heard[0])) == LONG


def test_readme_anthropic_tool_runner() -> None:
    scope = recipe("anthropic", "anthropic")
    import anthropic
    httpx = pytest.importorskip("httpx2")
    sent: List[Any] = []

    def serve(request: Any) -> Any:
        sent.append(json.loads(request.content))
        use = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": RUN_ARGS}
        first = len(sent) == 1
        message = {"id": f"msg_{len(sent)}", "type": "message", "role": "assistant", "model": "m",
                   "content": [use if first else {"type": "text", "text": "Done."}],
                   "stop_reason": "tool_use" if first else "end_turn", "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        return httpx.Response(200, json=message)

    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Run a command."""
        return LONG

    http = httpx.Client(transport=httpx.MockTransport(serve))
    client = anthropic.Anthropic(api_key="none", http_client=http, base_url="http://127.0.0.1:9")
    runner = client.beta.messages.tool_runner(
        max_tokens=9, model="m", tools=[bash], messages=[{"role": "user", "content": "Build it."}])
    assert [message.stop_reason for message in scope["shortened"](runner, "Build it.")] == ["tool_use", "end_turn"]
    (text,) = [part for part in texts_in(sent[1], 100) if "[jevlens " in part]
    assert scope["lens"].original(id_in(text)) == LONG


def test_readme_smolagents() -> None:
    scope = recipe("smolagents", "smolagents")
    from smolagents import ActionStep, ChatMessage, CodeAgent, Model
    heard: List[str] = []

    class Scripted(Model):
        def generate(self, messages: Any, **_: Any) -> Any:
            heard.append(str(messages[-1].content))
            code = ("for n in range(400): print('step', n, 'compiled module', n * 7919 % 1000, 'in', n % 7, 'ms')"
                    if len(heard) == 1 else "final_answer('Done.')")  # fmt: skip
            return ChatMessage(role="assistant", content=f"<code>\n{code}\n</code>")

    agent = CodeAgent(tools=[], model=Scripted(), step_callbacks={ActionStep: scope["shorten"]}, verbosity_level=0)
    assert agent.run("Build it.") == "Done."
    assert "[jevlens " in heard[1] and "step 200 compiled" in scope["lens"].original(id_in(heard[1]))


def test_readme_claude_agent_sdk(tmp_path: pathlib.Path) -> None:
    scope = recipe("claude-agent-sdk", "claude_agent_sdk")
    import asyncio

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    assert ClaudeAgentOptions(hooks={"PostToolUse": [HookMatcher(matcher="Bash", hooks=[scope["shorten"]])]})
    (tmp_path / "whole").write_text(LONG)
    event = claude_event(bash_response(LONG[:3000], persistedOutputPath=str(tmp_path / "whole")))
    reply = asyncio.run(scope["shorten"](event, "toolu_1", None))["hookSpecificOutput"]
    text = reply["updatedToolOutput"].pop("stdout")
    assert reply["updatedToolOutput"] == {"stderr": "", "interrupted": False, "isImage": False}
    assert scope["lens"].original(id_in(text)) == LONG
    assert asyncio.run(scope["shorten"](claude_event(bash_response("ok")), "toolu_1", None)) == {}


# ================================================================ the command line


class Told(NamedTuple):
    """What a command left behind: exit status, and the bytes of stdout and stderr."""

    status: int
    out: bytes
    err: str


Shell = Callable[..., Told]


@pytest.fixture
def shell(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Shell:
    """Runs the command line in this process, in an empty folder, with a data directory of its own."""
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "data"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*argv: str, stdin: bytes = b"") -> Told:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        try:
            status = jevlens.main(argv)
        except SystemExit as end:
            status = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return Told(status, out, err.decode("utf-8", "replace"))

    return run


# sentence -> (what stands in the file `it`, arguments, exit status, what stderr says, or the bytes on stdout)
COMMAND_LINES: dict[str, tuple[bytes | None, list[str], int, str | bytes]] = {
    "a missing file": (None, ["see", "it"], 1, "jevlens: it: No such file or directory\n"),
    "a folder": (None, ["see", ".."], 1, "jevlens: ..: Is a directory\n"),
    "a path with a NUL": (None, ["see", "a\0b"], 1, "jevlens: "),
    "a binary file": (b"\x7fELF\0\0", ["see", "it"], 1, "jevlens: it: a binary file, nothing to view\n"),
    "an empty file": (b"", ["see", "it"], 0, b""),
    "a small file": (b"one\r\ntwo\n", ["see", "it"], 0, b"one\r\ntwo\n"),
    "a file without a last newline": (b"one", ["see", "it"], 0, b"one"),
    "bytes that are not UTF-8": (b"caf\xe9 \xff\xfe\n", ["see", "it"], 0, b"caf\xe9 \xff\xfe\n"),
    "a judge that is not there": (b"one", ["see", "it", "--judge", "nobody"], 1, "jevlens: judge 'nobody': use auto"),
    "a file whose name starts with a dash": (None, ["see", "--", "-it"], 1, "jevlens: -it: No such file"),
    "recall of an unknown id": (None, ["recall", "r00000000000"], 1, "jevlens: recall: nothing is stored for"),
    "raw recall of an unknown id": (None, ["recall", "x", "--raw"], 1, "jevlens: recall: nothing is stored for 'x'"),
    "nothing in the list": (None, ["list"], 0, b"id  tokens  view  tool  stored\n"),
    "nothing in the list, for a program": (None, ["list", "--json"], 0, b"[]\n"),
    "no decisions": (None, ["decisions"], 0,
        b"view  before  after  shape  reason  id\n"),
    "no decisions, for a program": (None, ["decisions", "--json"], 0, b"[]\n"),
    "no numbers": (None, ["stats"], 0,
        b"jevlens kept out 0% (0 tokens): 0 of 0 results shortened, 0 recalls, $0.0000\n"),
    "nothing to compare": (None, ["diff"], 1, "jevlens: diff: no shortened output: not in the log of this store\n"),
    "an unknown id to compare": (None, ["diff", "r00000000000"], 1, "jevlens: diff: r00000000000: not in the log"),
    "no command": (None, [], 2, "usage: jevlens"),
    "an unknown command": (None, ["squash"], 2, "usage: jevlens"),
    "an unknown option": (None, ["see", "it", "--fast"], 2, "usage: jevlens"),
    "a missing argument": (None, ["see"], 2, "usage: jevlens see"),
    "nothing to run": (None, ["run", "--"], 2, "usage: jevlens run"),
    "the version": (None, ["--version"], 0, f"{jevlens.__version__}\n".encode()),
}


@pytest.mark.parametrize("sentence", COMMAND_LINES)
def test_command_line(sentence: str, shell: Shell, tmp_path: pathlib.Path) -> None:
    content, argv, status, said = COMMAND_LINES[sentence]
    if content is not None:
        (tmp_path / "work" / "it").write_bytes(content)
    told = shell(*argv)
    assert told.status == status
    if isinstance(said, bytes):
        assert (told.out, told.err) == (said, "")
    else:
        assert told.err.startswith(said) and told.out == b""
    assert "Traceback" not in told.err


@pytest.mark.parametrize("argv", (["evidence", "s"], ["hook", "--print-config", "emacs"], ["see"], ["run", "--"]))
def test_a_mistake_in_the_arguments_is_usage(argv: List[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as stop:
        jevlens.main(argv)
    assert stop.value.code == 2 and capsys.readouterr().err.startswith(f"usage: jevlens {argv[0]} ")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_see_of_an_unreadable_file(unreadable: pathlib.Path) -> None:
    told = as_somebody("print(jevlens.main(['see', file]), flush=True)", unreadable)
    missing, denied = told.splitlines()[:2], told.splitlines()[2:]
    assert sorted(missing) == ["1", f"jevlens: {unreadable}.none: No such file or directory"]
    assert sorted(denied) == ["1", f"jevlens: {unreadable}: Permission denied"]


def test_every_command_explains_itself(shell: Shell) -> None:
    for name in jevlens.COMMANDS:
        told = shell(name, "--help")
        assert told.status == 0 and told.out.startswith(f"usage: jevlens {name}".encode())


PYTHON = sys.executable

# sentence -> (a Python program, exit status, stdout, stderr)
CHILDREN: dict[str, tuple[str, int, bytes, str]] = {
    "a command that works": ("print('fine')", 0, b"fine\n", ""),
    "a command that fails": ("import sys; print('no', file=sys.stderr); sys.exit(3)", 3, b"", "no\n"),
    "the largest exit status": ("import sys; sys.exit(255)", 255, b"", ""),
    "both streams, apart": ("import sys; print(1); print(2, file=sys.stderr)", 0, b"1\n", "2\n"),
    "no last newline, a NUL and a byte that is not UTF-8": (
        r"import sys; sys.stdout.buffer.write(b'a\r\n\xff\0b')", 0, b"a\r\n\xff\0b", ""),
    "killed by a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + 15, b"", ""),
    "its own arguments are not ours": ("import sys; print(sys.argv[1:])", 0, b"['--task', '--', '--json', '-']\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHILDREN)
def test_run(sentence: str, shell: Shell) -> None:
    program, status, out, err = CHILDREN[sentence]
    for separator in (["--"], []):
        told = shell("run", *separator, PYTHON, "-c", program, "--task", "--", "--json", "-")
        assert told == (status, out, err)


def test_run_of_what_cannot_be_run(shell: Shell) -> None:
    assert shell("run", "--", "no-such-command")[::2] == (
        127, "jevlens: no-such-command: No such file or directory\n")  # fmt: skip
    pathlib.Path("it").write_text("x")
    if os.name == "posix":
        assert shell("run", "--", "./it")[::2] == (126, "jevlens: ./it: Permission denied\n")


def test_run_with_a_mistake_in_our_own_options_does_not_run_the_command(shell: Shell) -> None:
    told = shell("run", "--judge", "nobody", "--", PYTHON, "-c", "open('made', 'w')")
    assert told.status == 1 and told.err.startswith("jevlens: judge 'nobody'")
    assert not pathlib.Path("made").exists()


def command(*argv: str, **more: Any) -> subprocess.Popen[bytes]:
    """The command line as a process of its own, as a person starts it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([PYTHON, "-E", "-s", str(HERE / "jevlens.py"), *argv], **{**pipes, **more})


@pytest.mark.skipif(os.name != "posix", reason="a shell that can close its output")
def test_a_closed_standard_output_is_named(shell: Shell) -> None:
    line = shlex.join([PYTHON, "-E", "-s", str(HERE / "jevlens.py"), "list"]) + " >&-"
    done = subprocess.run(line, shell=True, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"jevlens: standard output is closed\n")


@pytest.mark.skipif(os.name != "posix", reason="a shell that can close its input")
def test_a_closed_standard_input_is_empty(shell: Shell) -> None:
    nothing = dict.fromkeys(("see -", "filter", "mcp", "hook"), b"")
    said = {**nothing, "statusline": b"jevlens kept", "key": b"key for ", "list": b"id"}
    for name, out in said.items():
        line = shlex.join([PYTHON, "-E", "-s", str(HERE / "jevlens.py"), *name.split()]) + " <&-"
        done = subprocess.run(line, shell=True, capture_output=True)
        assert done.returncode == 0 and done.stdout.startswith(out) and b"NoneType" not in done.stderr, name


@pytest.mark.skipif(os.name != "posix", reason="a script with a first line that names its interpreter")
def test_the_command_in_a_footer_runs_as_printed_however_we_were_called(shell: Shell, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "my {tools}"
    folder.mkdir()
    for name in ("jevlens.py", "views_regex.py"):
        (folder / name).write_bytes((HERE / name).read_bytes())
    installed = folder / "jevlens"
    installed.write_text("import sys\nfrom jevlens import main\nsys.exit(main())\n")
    pathlib.Path("it.py").write_text(MODULE)
    for program in ([PYTHON, str(folder / "jevlens.py")], [PYTHON, str(installed)]):
        footer = subprocess.run([*program, "see", "it.py"], capture_output=True, text=True).stdout.splitlines()[-1]
        line = footer.split("`")[1].replace("a-b", "7-9").replace("python3 ", "")
        assert line.startswith(shlex.quote(program[1])) and ("`python3 " in footer) == program[1].endswith(".py")
        back = subprocess.run(f"{shlex.quote(PYTHON)} {line}", shell=True, capture_output=True, text=True).stdout
        assert [row.partition("│ ")[2] for row in back.splitlines()[1:]] == LINES[6:9]


def test_the_documentation_that_python_makes_shows_no_environment() -> None:
    code = "import jevlens, pydoc; print(pydoc.plain(pydoc.render_doc(jevlens)))"
    environ = {**os.environ, "TYPESAFE_API_KEY": "key-of-this-machine"}
    done = subprocess.run([PYTHON, "-c", code], cwd=HERE, env=environ, capture_output=True, check=True)
    assert b"class Settings" in done.stdout and b"key-of-this-machine" not in done.stdout


def test_listings_have_columns_whatever_stands_in_them() -> None:
    rows = [{"a": "x" * 30, "b": 7}, {"a": None, "b": "two\nlines\x1b[31m"}, {}]
    text = jevlens._listing(rows, "a b")["text"]
    assert text.split("\n") == ["a" + " " * 31 + "b", "x" * 30 + "  7", "None" + " " * 28 + "two?lines?[31m", ""]
    assert jevlens._listing([], "a b")["text"] == "a  b"


def test_run_passes_standard_input_on(shell: Shell) -> None:
    child = command("run", "--", PYTHON, "-c", "print(input()[::-1])")
    assert child.communicate(b"abc\n", 20) == (b"cba\n", b"")
    assert child.returncode == 0


INTERRUPTED = """
import sys, time
try:
    open("ready", "w").close()  # within the try: the signal may come before the call returns
    time.sleep(20)
except KeyboardInterrupt:
    print("cleaned up")
    sys.exit(5)
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
@pytest.mark.parametrize("program, status, out", [("cleans up", 5, b"cleaned up\n"), ("dies", 130, b"")])
def test_run_survives_ctrl_c(program: str, status: int, out: bytes, shell: Shell) -> None:
    # set anew, since a suite that was started in the background has it ignored
    action = {"cleans up": "default_int_handler", "dies": "SIG_DFL"}[program]
    interrupted = f"import signal; signal.signal(signal.SIGINT, signal.{action})" + INTERRUPTED
    child = command("run", "--", PYTHON, "-c", interrupted, start_new_session=True)
    deadline = time.monotonic() + 20
    while not os.path.exists("ready") and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    assert child.communicate(timeout=20) == (out, b"")
    assert child.returncode == status


def test_a_reader_that_has_enough_does_not_change_the_exit_status(shell: Shell) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        child = command("run", "--", PYTHON, "-c", "print('x' * 9999); exit(4)", stdout=writer)
        assert child.communicate(timeout=20)[1] == b""
        assert child.returncode == 4
        child = command("list", stdout=writer)
        assert child.communicate(timeout=20)[1] == b""
        assert child.returncode == 0
    finally:
        os.close(writer)


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as a POSIX shell does")
def test_streams_that_are_closed_are_no_traceback(tmp_path: pathlib.Path) -> None:
    for number in (0, 1, 2):
        argv = [PYTHON, "-E", "-s", str(HERE / "jevlens.py"), "list"]
        child = subprocess.run(["sh", "-c", f'exec "$@" {number}>&-', "sh", *argv], capture_output=True, timeout=20,
                               env={**os.environ, "JEV_LENS_DATA_DIR": str(tmp_path)})  # fmt: skip
        assert child.returncode == (number == 1) and child.stderr.count(b"\n") == (number == 1)  # what stdout was for


def kept_record(text: str, tmp_path: pathlib.Path, **record: Any) -> str:
    """Store a text in the data directory of `shell` as a program would; its id."""
    store = jevlens.DirectoryStore(tmp_path / "data")
    id = jevlens.free_id(text, store)
    store.put(id, {"v": 1, "id": id, **jevlens.pack(text), "at": 1.7e9, "tool": "bash", "args": {}, **record})
    return id


@pytest.mark.parametrize("sentence", HOSTILE_TEXTS)
def test_recall_raw_writes_the_bytes(sentence: str, shell: Shell, tmp_path: pathlib.Path) -> None:
    text = HOSTILE_TEXTS[sentence]
    told = shell("recall", kept_record(text, tmp_path), "--raw")
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    assert told == (0, data, "")


def test_recall_on_the_command_line(shell: Shell, tmp_path: pathlib.Path) -> None:
    id = kept_record(NOTES, tmp_path)
    assert note_lines(shell("recall", id, "--lines", "40-42").out.decode()) == [40, 41, 42]
    assert note_lines(shell("recall", id, "--lines", "-2").out.decode()) == [1, 2]
    assert note_lines(shell("recall", id, "--pattern", "/^note 7 /").out.decode()) == [5, 6, 7, 8, 9]
    following = shell("recall", id).out.decode().split('cursor="')[1].split('"')[0]
    told = shell("recall", id, "--cursor", following)
    assert note_lines(told.out.decode()) == list(range(401, 801))
    assert shell("recall", id, "--lines", "x")[::2] == (
        1, "jevlens: recall: lines 'x': write 40-90, 40, 40-, -90, or several with commas\n")  # fmt: skip


def test_list_survives_records_of_other_programs(shell: Shell, tmp_path: pathlib.Path) -> None:
    kept_record("a", tmp_path, tool="bash", view="outline", session="s")
    kept_record("b", tmp_path, tool="Wérkzeug", view=None)
    kept_record("c", tmp_path, args=["x"])
    kept_record("d", tmp_path, tool="a\nb\x1b[2J")
    for at in ("yesterday", 1e300, -5.0):
        kept_record(f"stored {at}", tmp_path, at=at)
    told = shell("list")
    assert (told.status, told.err) == (0, "")
    assert len(told.out.decode().splitlines()) == 8 and b"\x1b" not in told.out and "Wérkzeug" in told.out.decode()
    assert told.out.decode().count(time.strftime("%Y-%m-%d %H:%M", time.localtime(1.7e9))) == 4
    rows = json.loads(shell("list", "--json").out)
    assert sorted(row["tokens"] for row in rows)[:4] == [1] * 4


def test_the_command_line_works_without_docstrings(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-OO", jevlens.__file__, "--help"], capture_output=True, cwd=tmp_path)
    assert done.returncode == 0 and b"statusline" in done.stdout


def test_what_others_wrote_into_the_store_costs_no_traceback_and_no_time(shell: Shell, tmp_path: pathlib.Path) -> None:
    id = kept_record(NOTES, tmp_path, args="sed", view="signals")
    assert note_lines(shell("recall", id, "--lines", "40-42").out.decode()) == [40, 41, 42]
    event = {"event": "see", "id": id, "view": "signals", "before": 10, "after": 4, "kept_lines": "1-100000000000"}
    with open("../data/log.jsonl", "a") as log:
        log.write(lines_of(event, {**event, "before": None, "after": None}, {"event": "ask", "cost": None}) + "\n")
    assert shell("stats").out == b"jevlens kept out 60% (6 tokens): 2 of 2 results shortened, 1 recalls, $0.0000\n"
    told = shell("diff", id)
    assert (told.status, told.out) == (1, b"") and told.err.startswith("jevlens: diff: ")
    with open("../data/log.jsonl", "a") as log:
        log.write(lines_of({"event": "see", "before": "x"}, event) + "\n")
    assert shell("stats").status == 0
    assert [line[:2] for line in shell("diff", id).out.decode().splitlines()[1:]] == ["  "] * 1000


def disk_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["below a file", "a full disk"])
def test_without_a_store_the_text_goes_out_whole(
    where: str, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    path = pathlib.Path("it.py")
    path.write_text(MODULE)
    if where == "below a file":
        monkeypatch.setenv("JEV_LENS_DATA_DIR", str(path / "data"))
    else:
        monkeypatch.setattr(jevlens, "write_private", disk_full)
    told = shell("see", "it.py")
    assert (told.status, told.out.decode()) == (0, MODULE)
    assert told.err.startswith("jevlens: sent whole: fault: ")
    child = shell("run", "--", PYTHON, "-c", "print(open('it.py').read(), end='')")
    assert (child.status, child.out.decode()) == (0, MODULE)
    assert child.err.startswith("jevlens: sent whole: fault: ")
    assert ("No space left on device" in child.err) == (where == "a full disk")


def test_see_run_and_the_listings_end_to_end(shell: Shell) -> None:
    pathlib.Path("shop.py").write_text(MODULE)
    told = shell("see", "shop.py", "--task", "round prices in step_7")
    view = told.out.decode()
    assert told.status == 0 and len(view) < 0.6 * len(MODULE)
    assert "return value * 7" in view and "return value * 23" not in view
    id = view.split("recall ")[1].split()[0].strip("`,")
    assert "complete output stored" in view and view.count(id) == 1 and view.endswith("]\n")
    assert shell("recall", id, "--raw").out.decode() == MODULE
    assert "return value * 23" in shell("recall", id, "--block", "step_23").out.decode()
    (row,) = json.loads(shell("list", "--json").out)
    assert (row["id"], row["tool"], row["tokens"]) == (id, "read", jevlens.tokens(MODULE))
    assert row["stored"] == time.strftime("%Y-%m-%d %H:%M", time.localtime(row["at"]))
    (event,) = json.loads(shell("decisions", "--json").out)
    assert (event["id"], event["shape"]) == (id, "read")
    assert "step_7" not in json.dumps(event) and "shop" not in json.dumps(event)
    stats = json.loads(shell("stats", "--json").out)
    assert (stats["considered"], stats["shortened"], stats["recalls"]) == (1, 1, 1)
    assert 0.4 < stats["share"] < 1
    assert shell("see", "shop.py", "--tool", "grep").status == 0
    assert json.loads(shell("decisions", "--json").out)[-1]["shape"] == "search"
    assert shell("see", "shop.py", "--command", "cat shop.py").status == 0
    assert json.loads(shell("decisions", "--json").out)[-1]["shape"] == "display"


def test_diff_shows_what_the_model_did_not_get(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pathlib.Path("shop.py").write_text(MODULE.replace("Step 3 of", "<b>&Step 3 of"))
    assert shell("see", "shop.py", "--task", "round prices in step_7").status == 0
    (view,) = json.loads(shell("decisions", "--json").out)
    with open("../data/log.jsonl", "a") as log:  # of whoever else writes there
        log.write('{"event": "see", "kept_lines": "1"}\n')
    plain = shell("diff").out.decode().split("\n")
    saved = round(100 * (1 - view["after"] / view["before"]))
    assert plain[0] == f"{view['view']} · {view['after']:,} of {view['before']:,} tokens (−{saved}%) · {view['id']}"
    lines = pathlib.Path("shop.py").read_text().split("\n")
    numbered = [(f"{number:3}", line) for number, line in enumerate(lines, 1)]
    assert [line[2:].partition("│ ")[::2] for line in plain[1:-1]] == numbered
    sent = [n for n, line in enumerate(plain[1:-1], 1) if not line.startswith("- ")]
    assert sorted(line for low, high in jevlens.ranges(view["kept_lines"]) for line in range(low, high + 1)) == sent
    assert "\x1b" not in "\n".join(plain)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert b"\x1b[31m- " in shell("diff", view["id"]).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b" not in shell("diff", view["id"]).out
    assert "return value * 7" in shell("diff", "--sent").out.decode()
    told = shell("diff", "--html", "page.html")
    assert (told.status, told.out, told.err) == (0, b"", "")
    page = pathlib.Path("page.html").read_text("ascii")
    assert f"<h1>{view['view']} &#183; {view['after']:,} of " in page and "<pre>    1&#9474; " in page
    assert "&lt;b&gt;&amp;Step 3 of" in page and "<b>" not in page
    assert page.count("<mark>") == len(lines) - len(sent)
    assert '"color-scheme" content="light dark"' in page and view["id"] in page
    for outside in ("http:", "https:", "src=", "href=", "@import", "url(", "<script"):
        assert outside not in page


def test_a_line_of_40_mb_and_a_million_lines_go_through(shell: Shell) -> None:
    data = b'{"a":[' + b"1234567," * 5_000_000 + b"0]}"
    start = time.process_time()
    told = shell("see", "-", stdin=data)
    assert (told.status, told.err) == (0, "") and len(told.out) <= len(data) + 1
    lines = b"".join(b"%d ok\n" % n for n in range(1_000_000))
    told = shell("see", "-", stdin=lines)
    assert (told.status, told.err) == (0, "") and told.out.startswith(b"0 ok\n") and b"999999 ok\n" in told.out
    assert time.process_time() - start < 30


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


def test_a_row_of_the_bench_names_its_agent_and_its_group(tmp_path: Any) -> None:
    row = {"id": "s1", "agent": "mine", "group": "g", "task": "Go.", "turns": [{"role": "user", "text": "Go."}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "id": "s2"}) + "\n")
    found = history.read_session(str(tmp_path / "rows.jsonl"))
    assert [(each.id, each.agent, each.group) for each in found] == [("s1", "mine", "g"), ("s2", "mine", "g")]


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


def test_results_without_ids_answer_the_calls_of_a_message_in_order(tmp_path: Any) -> None:
    both = {"actions": [{"command": "echo one"}, {"command": "ls /nope"}]}
    messages = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": "Two.", "extra": both},
                {"role": "user", "content": "one", "extra": {"raw_output": "one\n", "returncode": 0}},
                {"role": "user", "content": "no", "extra": {"raw_output": "no\n", "returncode": 2}},
                {"role": "user", "content": "Go on."}]  # fmt: skip
    path = tmp_path / "a.traj.json"  # as mini-swe-agent 2.4.6 writes it
    path.write_text(json.dumps({"messages": messages}))
    (session,) = history.read_session(str(path))
    answers = [(e["content"], e.get("args", {}).get("command"), e.get("is_error")) for e in session.entries[2:]]
    assert answers == [("one\n", "echo one", False), ("no\n", "ls /nope", True), ("Go on.", None, None)]


EDITORS = {  # a line of SWE-agent -> tool and arguments, and path and old lines of the edit that scoring sees
    "str_replace_editor str_replace /a.py --old_str 'x = \"1\"\nprint' --new_str ''": (
        "str_replace_editor", {"command": "str_replace", "path": "/a.py", "old_str": 'x = "1"\nprint', "new_str": ""},
        [("/a.py", ['x = "1"', "print"])]),
    "str_replace_editor view /a.py": ("str_replace_editor", {"command": "view", "path": "/a.py"}, []),
    "edit 'x = 1' 'x = 2'": ("edit", {"old": "x = 1", "new": "x = 2"}, [("", ["x = 1"])]),
    "edit 1:2\nit's\nend_of_edit": ("bash", {"command": "edit 1:2\nit's\nend_of_edit"}, []),
    "str_replace_editor create /a.py --file_text 'open": (
        "bash", {"command": "str_replace_editor create /a.py --file_text 'open"}, []),
}  # fmt: skip


@pytest.mark.parametrize("action", EDITORS)
def test_an_editor_on_the_command_line_of_swe_agent_is_an_edit(action: str, tmp_path: Any) -> None:
    path = tmp_path / "a.traj"
    path.write_text(json.dumps({"trajectory": [{"thought": "", "action": action, "observation": "done"}]}))
    (session,) = history.read_session(str(path))
    tool, args, edits = EDITORS[action]
    assert (session.entries[-1]["tool"], session.entries[-1]["args"]) == ("bash", {"command": action})
    assert bench.typed(action) == (tool, args)
    (call,) = bench.prepare(bench.row_of(session))[0].calls
    assert call.edits == edits


JUNK: tuple[Any, ...] = (None, 5, True, "", [], {}, [1, None, {"type": "text"}], {"a": {"b": 1}}, "x", [[]], -1.5)


def damaged(value: Any, number: Any) -> Any:
    """A JSON value with about every eleventh part of it replaced, by position and without chance."""
    if next(number) % 11 == 0:
        return JUNK[next(number) % len(JUNK)]
    if isinstance(value, dict):
        return {key: damaged(each, number) for key, each in value.items()}
    return [damaged(each, number) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("sentence", SESSIONS)
def test_a_damaged_session_is_read_as_far_as_it_goes(sentence: str, tmp_path: Any) -> None:
    text = SESSIONS[sentence][0]
    path = tmp_path / "session"
    read = 0
    for start in range(1, 60):
        records = [json.loads(line) for line in text.split("\n")]
        path.write_text(lines_of(*(damaged(each, itertools.count(start)) for each in records)))
        with contextlib.suppress(history.HistoryError):
            for session in history.read_session(str(path)):
                row = bench.row_of(session)
                bench.Scorer(row, bench.prepare(row), bench.Engine()).run()
                read += all(isinstance(entry["content"], str) for entry in session.entries)
    assert read > 10


@pytest.mark.parametrize("text", ("", "no session", '{"a": 1}', "[]", '{"turns": 3}'))
def test_what_is_no_session_is_refused(text: str, tmp_path: Any) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(history.HistoryError, match="no format"):
        history.read_session(str(path))


# ================================================================ history: evidence

POSTGRES = [("u1", "use postgres only if tests pass"), ("a1", "ok, postgres it is"), ("u2", "rename the css file"),
            ("a2", "renamed style.css"), ("u3", "which database did we pick"), ("a3", "postgres")]


def talk(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    """Entries of (id, content): an id with u is the user's, one with a the assistant's."""
    return [{"id": i, "role": "user" if i[0] == "u" else "assistant", "content": content} for i, content in said]


def single(*texts: str) -> list[history.Bundle]:
    """Bundles of one user source each."""
    sources = [history.Source(f"u{i}", "user", (text,), "", "") for i, text in enumerate(texts)]
    return [history.Bundle(f"exchange:{source.id}", (source,)) for source in sources]


INDEX_TERMS = {
    "stop words carry nothing": ("where is the one that it was", ["one"]),
    "inflections of a word are one term": ("painted paints painting", ["paint", "paint", "paint"]),
    "a last y is as an i before an ending": ("query queries retry retried", ["queri", "queri", "retri", "retri"]),
    "a doubled letter before an ending is taken off": ("running stopped, but telling", ["run", "stop", "tell"]),
    "an identifier is itself and its parts": ("parse_htmlPage", ["parse_htmlpage", "pars", "html", "pag"]),
    "a path is its names": ("src/net/fetch.py:12", ["src", "net", "fetch", "py", "12"]),
    "Han is pairs of characters": ("数据库迁移", ["数据", "据库", "库迁", "迁移"]),
    "a lone character is itself": ("a 猫 b", ["猫", "b"]),
    "Latin beside kana is a word": ("pytestを実行", ["pytest", "を実", "実行"]),
    "nothing is nothing": (" .,!", []),
}


@pytest.mark.parametrize("sentence", INDEX_TERMS)
def test_terms(sentence: str) -> None:
    text, expected = INDEX_TERMS[sentence]
    assert history.terms(text) == expected


def test_relevance_of_the_worked_example() -> None:
    index = history.Index(talk(("u1", "red fox"), ("a1", "yes"), ("u2", "blue sky")))
    assert [round(score, 4) for score in history.relevance(index, "fox")] == [0.9066, 0.544, 0.272]


SEED_VISITS = {  # (places, at most) -> the order
    "fewer places than allowed": ((3, 5), [2, 0, 1]),
    "as many as allowed": ((5, 5), [4, 0, 2, 1, 3]),
    "bisection breadth first": ((9, 9), [8, 0, 4, 2, 6, 1, 3, 5, 7]),
    "samples are rounded half up": ((10, 5), [9, 0, 5, 2, 7]),
    "one is the newest": ((10, 1), [9]),
    "two are the ends": ((10, 2), [9, 0]),
    "many places": ((300, 8), [299, 0, 128, 43, 214, 85, 171, 256]),
    "none": ((0, 5), []),
}


@pytest.mark.parametrize("sentence", SEED_VISITS)
def test_visits(sentence: str) -> None:
    (places, most), order = SEED_VISITS[sentence]
    assert history.visits(places, most) == order


ZEBRA = ("entry 0", "entry 1", "entry 2", "rare zebra requirement", "entry 4")
SEED_RANKS: dict[str, Any] = {  # bundles, query, salience -> order, scores
    "recency decides between equal roles": (
        history.bundles(history.Index(talk(*POSTGRES)).sources), "postgres tests", {}, [1, 2, 0],
        [0.7236, 0.1039, 0.0995]),
    "salience adds 0.15 of itself": (
        history.bundles(history.Index(talk(*POSTGRES)).sources), "postgres tests", {"exchange:u2": 1.0}, [1, 2, 0],
        [0.8736, 0.1039, 0.0995]),
    "the one that fits is first, then the newest": (
        single(*ZEBRA), "rare zebra requirement", {}, [3, 4, 2, 1, 0], [0.86, 0.2, 0.0477, 0.0077, -0.0323]),
    "no words at all: the newest": (single("...", "!"), "?", {}, [1, 0], [0.4, 0.1]),
}


@pytest.mark.parametrize("sentence", SEED_RANKS)
def test_seed_ranking(sentence: str) -> None:
    found, query, salience, order, scores = SEED_RANKS[sentence]
    ranked = history.rank(found, query, salience)
    assert [found.index(bundle) for bundle in ranked] == order
    assert [round(score, 4) for score in ranked.values()] == scores


def test_sources_are_complete_text_parts_and_nothing_else() -> None:
    entries: list[dict[str, Any]] = [
        {"id": "u1", "role": "user", "content": "only if tests pass"},
        {"id": "a1", "role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "first paragraph\n\nsecond"},
            {"type": "text", "text": ""}, {"type": "tool_use", "id": "t", "name": "bash", "input": {}}]},
        {"id": "t1", "role": "tool", "content": "tool output"},
        {"id": "u2", "role": "user", "content": [{"type": "tool_result", "content": "tool output"}]},
        {"id": "u3", "role": "user", "content": [{"type": "input_text", "text": 'yes 🙂 </history>{"kind":"x"}'}]},
        {"id": "a2", "role": "assistant", "content": [{"type": "tool_use", "id": "t2", "name": "bash", "input": {}}]},
        {"id": "x", "role": "custom", "content": "ours"},
        {"id": "c", "role": "user", "content": "sum", "compacted": True},
        {"id": "b", "role": "user", "content": "branch", "type": "branch_summary"}]  # fmt: skip
    view = history.extract(entries, "tests", profile="seed")
    shown = [(e["entryId"], e["quotes"]) for e in json.loads(view.text)["evidence"]]
    assert shown == [("u1", ["only if tests pass"]), ("a1", ["first paragraph\n\nsecond", ""]),
                     ("u3", ['yes 🙂 </history>{"kind":"x"}'])]
    assert [len(b.sources) for b in history.bundles(history.Index(entries).sources)] == [2, 3]
    assert "proves nothing" in view.text and "contradictions stand" in view.text
    ours = json.loads(history.extract(entries, "tests").text)["evidence"]
    assert [(e[0], e[2:]) for e in ours] == shown


def test_a_parent_selects_from_its_sources_not_from_what_its_children_show() -> None:
    texts = [f"entry {i}" for i in range(30)]
    texts[3] = "rare zebra requirement"
    found = history.bundles(history.Index(talk(*((f"u{i}", text) for i, text in enumerate(texts)))).sources)
    root = history.range_index(found)
    assert [c.bundles for c in root.children] == [found[:15], found[15:]]
    assert (root.id, root.children[1].first) == ("range:u0:u29", "u14")  # its bundle 15 begins with exchange 14
    leaves = [root]
    while any(node.children for node in leaves):
        leaves = [child for node in leaves for child in node.children or (node,)]
    assert [bundle for leaf in leaves for bundle in leaf.bundles] == found
    assert max(len(leaf.bundles) for leaf in leaves) <= 8
    assert len(history.rank(history.pool(root.children[0].bundles, max_candidates=1), "rare zebra requirement",
        {})) == 1
    best, again = (list(history.rank(history.pool(root.bundles), "rare zebra requirement", {})) for _ in range(2))
    assert "u3" in [s.id for s in best[0].sources] and len(best) == 30 and best == again


def test_whole_bundles_only() -> None:
    huge = talk(("u1", "🙂" * 5000 + " only if the tests pass"))
    assert history.pool(history.bundles(history.Index(huge).sources), max_source_chars=256) == []
    for profile in ("seed", "default"):
        view = history.extract(huge, "tests pass", profile=profile, max_view_bytes=1024, max_source_chars=256)
        assert len(view.text.encode()) <= 1024 and "🙂" not in view.text
        told = json.loads(view.text)
        assert told["follow"]["ref"] == "history.recall" and 1 in (told.get("omitted"), told.get("omittedBundles"))


def test_the_minimal_and_the_empty_form() -> None:
    entries = talk(*POSTGRES)
    for profile, count in (("seed", "omittedBundles"), ("default", "omitted")):
        sizes = {b: history.extract(entries, "css", profile=profile, max_view_bytes=b) for b in (0, 100, 240, 8192)}
        assert sizes[0].text == sizes[100].text == "" and not sizes[240].entry_ids and sizes[8192].entry_ids
        assert list(json.loads(sizes[240].text)) == ["kind", "diagnostic", count, "follow"]
    assert history.extract([], "css").text == ""
    assert history.extract(entries, "css", exclude=[e["id"] for e in entries]) == history.extract([], "css")
    with pytest.raises(history.HistoryError, match="profile"):
        history.extract(entries, "css", profile="best")


FRAMES = {  # entries too large to quote, session characters, profile -> bytes of the known system, bytes of ours
    "a saved session with two children": (20, 66, "seed", 1208, 1036),
    "a saved session of at most 8 bundles": (5, 66, "seed", 1037, 863),
    "an unsaved session with two children": (20, 36, "seed", 1148, 1006),
    "an unsaved session of at most 8 bundles": (5, 36, "seed", 977, 833),
    "the short frame names no session": (20, 66, "default", 1208, 353),
}


@pytest.mark.parametrize("sentence", FRAMES)
def test_a_frame_is_smaller_than_the_known_one(sentence: str) -> None:
    count, length, profile, known, ours = FRAMES[sentence]
    entries = talk(*[(f"u23456{i:02}", "x" * 3000) for i in range(count)])
    size = {}
    for bound in (300, 2000):
        view = history.extract(entries, "q", profile=profile, conversation="s" * length, max_view_bytes=bound,
                               diagnostics=["d" * 48])  # fmt: skip
        assert not view.entry_ids
        size[bound] = len(view.text)
    assert size[2000] == ours < known and size[300] <= 270


def test_no_view_is_larger_than_its_bound_and_every_quote_is_whole() -> None:
    pieces = ("plain words", "🙂🙃", "数据库 の を", "\ud800 lone", "\x00\x1f\x7f", '"\\', "\u2028\n\t", "e\u0301", "ß" * 40)
    state = 7
    for bound in (0, 1, 99, 200, 300, 512, 700, 1024, 1500, 4096):
        entries = []
        for i in range(40):
            state = (state * 1103515245 + 12345) % (1 << 31)
            text = " ".join(pieces[(state >> k) % len(pieces)] for k in range(4, 4 + state % 20))
            entries.append({"id": f"é{i}\ud801"[: 2 + state % 4], "role": ("user", "assistant")[state >> 9 & 1],
                            "content": text, "name": "Zoë\udfff", "at": "today"})  # fmt: skip
        texts = {history._json(e["content"]) for e in entries}
        for profile, query in (("seed", "plain 数据"), ("default", "lone words 数据库"), ("default", "nothing fits")):
            view = history.extract(entries, query, profile=profile, max_view_bytes=bound, exclude=["é3"])
            assert len(view.text.encode("utf-8")) <= bound
            for row in json.loads(view.text)["evidence"] if bound >= 1500 else ():
                quoted = row[2] if profile == "default" else row["quotes"][0]
                assert history._json(quoted) in texts


def test_a_short_reply_comes_with_what_it_answers() -> None:
    entries = talk(*[x for i in range(40) for x in ((f"u{i}", f"topic{i} " * 12), (f"a{i}", f"noted{i} " * 12))],
                   ("u90", "shall we take the sqlite file or the redis server for sessions"), ("a90", "redis, second"),
                   ("u91", "fine, next topic is the colour of the header " * 3))  # fmt: skip
    for profile in ("default", "seed"):
        shown = history.extract(entries, "second", max_view_bytes=1500, profile=profile).entry_ids
        assert {"u90", "a90"} <= set(shown)


def test_an_index_grows_by_the_new_entry_alone() -> None:
    entries = talk(*[(f"{'ua'[i % 2]}{i}", f"word{i % 97} word{i % 89} word{i % 83}") for i in range(2000)])
    index = history.Index(entries[:-1])
    before = {term: len(held) for term, held in index.postings.items()}
    index.add(entries[-1])
    index.add({"id": "t", "role": "tool", "content": "x"})  # no text of the user or the assistant
    assert len(index.sources) == 2000
    changed = [term for term, held in index.postings.items() if len(held) != before.get(term, 0)]
    assert sorted(changed) == sorted(set(history.terms(entries[-1]["content"])))
    assert history.extract(index, "word5") == history.extract(entries, "word5")
    edited = [{**e, "content": "word5 now"} if i == 700 else e for i, e in enumerate(entries)]
    assert history.extract(edited, "word5") == history.extract(history.Index(edited), "word5")


def test_ten_thousand_entries_are_searched_in_time() -> None:
    said = [" ".join(f"w{(i * 31 + k * k * 7) % 4001}" for k in range(90)) for i in range(10_000)]
    entries = talk(*((f"{'ua'[i % 2]}{i}", text) for i, text in enumerate(said)))
    first = _seconds(lambda: history.extract(entries, "w17"))  # 0.5 s where the bound holds; longer on a busy machine
    assert min(_seconds(lambda: history.extract(entries, "w17 w170 w1700")) for _ in range(5)) < max(0.15, first / 3)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()  # of this process: other load on the machine does not count
    call()
    return time.process_time() - start


def test_evidence_names_the_speaker_and_what_the_model_sees_is_not_repeated() -> None:
    said = [("u", "Ann", "I have a dog"), ("a", "Ben", "My dog is ill"), ("u", "Ann", "Oh no"), ("a", "Ben", "Sadly")]
    entries = [{"id": f"{i}{k}", "role": {"u": "user", "a": "assistant"}[i], "name": name, "content": text}
               for k, (i, name, text) in enumerate(said * 8)]  # fmt: skip
    index = history.Index(entries)
    of_ben, of_ann = history.relevance(index, "the dog of Ben"), history.relevance(index, "the dog of Ann")
    assert of_ben[1] > of_ben[0] and of_ann[0] > of_ann[1]
    view = json.loads(history.extract(entries, "dog", exclude=["u0", "a1"]).text)
    assert view["roles"] == {"u": "user Ann", "a": "assistant Ben"}
    assert view["shown"] + view["omitted"] == 30 and not {"u0", "a1"} & {row[0] for row in view["evidence"]}


def test_a_name_is_known_by_who_is_called_by_it() -> None:
    said = [("u", "I have a dog, Ben."), ("a", "My dog is ill"), ("u", "Oh no, Ben!"), ("a", "Hey Ann, sadly so")]
    index = history.Index(talk(*((f"{i}{k}", text) for k, (i, text) in enumerate(said * 8))))
    plain, of_ben, of_ann = (history.relevance(index, q) for q in ("the dog", "the dog of Ben", "the dog of Ann"))
    assert of_ben[1] > of_ben[0] and of_ann[0] > of_ann[1]
    assert [max(pair) for pair in zip(of_ben, of_ann)] == pytest.approx([history.SPEAKER * score for score in plain])
    assert history.relevance(index, "the dog of ben")[0] > of_ben[0]  # in lower case it is a word like others


def test_adapters_of_message_lists() -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "use uv"},
                                      {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "id": "m_7"}]
    assert [e["id"] for e in history.entries_of(messages)] == ["m0", "m1", "m_7"]
    assert history.extract(history.entries_of(messages), "uv").entry_ids == ("m1", "m_7")


class Oracle:
    """A classifier that notes what it is asked and answers by the text of each record."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any] = lambda record: 0.5) -> None:
        self.answer, self.asked = answer, list[tuple[dict[str, Any], dict[str, Any], float]]()

    def __call__(self, state: dict[str, Any], questions: dict[str, Any], seconds: float) -> dict[str, Any]:
        self.asked.append((state, questions, seconds))
        return {record["id"]: self.answer(record) for record in state["records"]}


def controller(ask: Any = None, **settings: Any) -> history.ExtractiveHistory:
    return history.ExtractiveHistory(ask, **{"mode": "classifier", **settings})


EVIDENCE_SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # given -> what differs from the defaults
    "nothing given": ({}, {}),
    "too small": ({"max_view_bytes": 999, "max_candidates": 0, "max_source_chars": 1, "timeout_ms": -1},
                  {"max_view_bytes": 1024, "max_candidates": 1, "max_source_chars": 256, "timeout_ms": 100}),
    "too large": ({"max_view_bytes": 999_999, "max_candidates": 999, "max_source_chars": 9_999_999},
                  {"max_view_bytes": 32_768, "max_candidates": 256, "max_source_chars": 100_000}),
    "no whole numbers": ({"max_view_bytes": 2048.5, "max_candidates": "12", "timeout_ms": float("inf"),
                          "max_source_chars": float("nan")}, {}),
    "a whole float and a truth value": ({"max_view_bytes": 2048.0, "max_candidates": True}, {"max_view_bytes": 2048}),
    "words": ({"mode": "classifier", "model": "org/model", "provider": "  ", "profile": "best"},
              {"mode": "classifier", "model": "org/model"}),
    "a truth value is no mode": ({"mode": True}, {}),
}


@pytest.mark.parametrize("sentence", EVIDENCE_SETTINGS)
def test_settings_are_clamped_to_the_bounds_of_the_seed(sentence: str) -> None:
    given, different = EVIDENCE_SETTINGS[sentence]
    expected = {**{name: row[0] for name, row in history.SETTINGS.items()}, **different}
    for values in (given, expected):
        made = vars(history.ExtractiveHistory(**values).settings)
        assert {name: made[name] for name in expected} == expected


SALIENCE_ANSWERS: dict[str, tuple[Any, Any]] = {
    "probabilities, 0 and 1 included": ({"c0": 0, "c1": 1.0}, [0, 1.0]),
    "no answers": ({}, ["invalid response"] * 2),
    "one missing": ({"c0": 0.5}, ["invalid response"] * 2),
    "one too many": ({"c0": 0.5, "c1": 0.5, "c2": 0.5}, ["invalid response"] * 2),
    "not a number": ({"c0": 0.5, "c1": float("nan")}, ["invalid response"] * 2),
    "infinite": ({"c0": 0.5, "c1": float("inf")}, ["invalid response"] * 2),
    "above one": ({"c0": 0.5, "c1": 1.01}, ["invalid response"] * 2),
    "a truth value": ({"c0": 0.5, "c1": True}, ["invalid response"] * 2),
    "a choice": ({"c0": 0.5, "c1": ("retain", {"retain": 0.7, "ordinary": 0.3})}, ["invalid response"] * 2),
    "text": ({"c0": 0.5, "c1": "0.5"}, ["invalid response"] * 2),
    "no mapping": ([0.5, 0.5], ["invalid response"] * 2),
}


@pytest.mark.parametrize("sentence", SALIENCE_ANSWERS)
def test_one_fault_voids_all_answers(sentence: str) -> None:
    answers, expected = SALIENCE_ANSWERS[sentence]
    assert history.salience_values(answers, ["c0", "c1"]) == expected


def test_off_and_deterministic_ask_nothing() -> None:
    def never(*_: Any) -> dict[str, Any]:
        raise AssertionError("asked")

    off = history.ExtractiveHistory(never)
    assert off.prepare(talk(*POSTGRES), "css") is None and off.inject([{"role": "user", "content": "css"}]) == [
        {"role": "user", "content": "css"}]  # fmt: skip
    view = controller(never, mode="deterministic").prepare(talk(*POSTGRES), "css")
    assert view and view.diagnostics == (history.DISABLED,) and "u2" in view.entry_ids


def test_importing_the_history_loads_no_network_and_reads_nothing() -> None:
    code = "import sys, history; sys.exit(bool({'urllib.request', 'ssl', 'socket', 'jevlens'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(history.__file__).parent).returncode == 0


def test_one_batch_a_user_turn_and_only_what_is_new() -> None:
    ask = Oracle(lambda record: 0.9 if "css" in record["sources"][0]["quotes"][0] else 0.1)
    made = controller(ask)
    entries = talk(*POSTGRES)
    first = made.prepare(entries, "which database")
    assert made.prepare(entries, "which database") and len(ask.asked) == 1
    state, questions, seconds = ask.asked[0]
    assert first and first.diagnostics == (history.SALIENCE,) and 2 < seconds <= 3
    assert state["rubric"] == "salience-v1"
    assert [r["id"] for r in state["records"]] == ["c0", "c1", "c2"] == list(questions)
    assert [r["sources"][-1]["entryId"] for r in state["records"]] == ["a3", "a2", "a1"]  # newest first
    assert questions["c1"]["type"] == "noul" and "`records[1]`" in questions["c1"]["instructions"]
    entries += talk(("a3b", "sqlite, after all"), ("u4", "no, postgres only if the tests pass"))
    later = made.prepare(entries, "which database")
    assert len(ask.asked) == 2 and len(ask.asked[1][1]) == 2  # the new exchange, and the one that grew
    assert later and {"u1", "u4"} <= set(later.entry_ids)  # the claim and its correction, side by side


def test_salience_moves_the_choice() -> None:
    entries = talk(*[(f"u{i}", "the budget of the module was changed " * 6) for i in range(60)])
    for profile in ("default", "seed"):
        ask = Oracle(lambda record: float(record["sources"][-1]["entryId"] == "u37"))
        made = controller(ask, profile=profile, max_view_bytes=1700, max_source_chars=100_000)
        plain = controller(mode="deterministic", profile=profile, max_view_bytes=1700, max_source_chars=100_000)
        view, without = made.prepare(entries, "budget of module"), plain.prepare(entries, "budget of module")
        assert view and without and "u37" in view.entry_ids and "u37" not in without.entry_ids


def raising(error: Exception) -> Callable[..., dict[str, Any]]:
    def ask(*_: Any) -> dict[str, Any]:
        raise error

    return ask


def late(*_: Any) -> dict[str, Any]:
    time.sleep(0.3)
    return {"c0": 1.0, "c1": 1.0, "c2": 1.0}


NO_SALIENCE: dict[str, tuple[Any, str]] = {
    "what a provider says stays out of the view": (raising(RuntimeError("401 key sk-secret")), "classifier failure"),
    "its own timeout": (raising(TimeoutError("sk-secret")), "timeout"),
    "a reason we know": (raising(ValueError("no credentials")), "no credentials"),
    "no answer in time": (late, "timeout"),
    "an invalid answer": (lambda *_: {"c0": 2}, "invalid response"),
    "an answer of another form": (lambda *_: [0.5, 0.5], "invalid response"),
    "no classifier": (None, "classifier unavailable"),
}


@pytest.mark.parametrize("sentence", NO_SALIENCE)
def test_failures_are_remembered_and_told_without_detail(sentence: str) -> None:
    ask, reason = NO_SALIENCE[sentence]
    calls: list[int] = []

    def counted(*args: Any) -> Any:
        calls.append(1)
        return ask(*args)

    made = controller(counted if ask else None, timeout_ms=100)
    for said in ([history.FALLBACK + reason], [history.BASELINE, history.FALLBACK + reason]):
        view = made.prepare(talk(*POSTGRES), "css")
        assert view and list(view.diagnostics) == said and "secret" not in view.text and view.entry_ids
    made.prepare(talk(*POSTGRES), "css", conversation="other")
    assert len(calls) == (2 if ask else 0)  # once, and once more in another conversation


def test_the_default_asks_about_what_fits_the_query() -> None:
    entries = talk(*[(f"u{i}", f"remark {i} on module{i % 7}") for i in range(400)])
    entries[123]["content"] = "the zebra crossing is painted"
    for profile, expected in (("default", True), ("seed", False)):
        ask = Oracle()
        controller(ask, profile=profile).prepare(entries, "zebra crossing")
        asked = {s["entryId"] for record in ask.asked[0][0]["records"] for s in record["sources"]}
        assert ("u123" in asked) is expected
    made = controller(mode="deterministic")
    made.prepare(entries, "zebra")
    odd: list[dict[str, Any]] = [{"role": "assistant", "content": object()}, {"role": "user", "content": "zebra"}]
    assert len(made.inject(odd)) == 3 and made.inject(odd) == made.inject(odd)


def test_a_second_new_bundle_in_the_same_turn_waits() -> None:
    ask = Oracle()
    made = controller(ask)
    made.prepare(talk(*POSTGRES), "css")
    view = made.prepare(talk(*POSTGRES, ("a3b", "or mysql")), "css")
    assert view and len(ask.asked) == 1 and view.diagnostics == (history.SPENT, history.SALIENCE)


def test_requests_and_cache_stay_within_their_bounds() -> None:
    ask = Oracle()
    tiny = talk(*[(f"u{i}", "x") for i in range(256)])
    made = controller(ask, profile="seed", max_candidates=256, max_source_chars=100_000, max_view_bytes=1024)
    view = made.prepare(tiny, "x")
    state, questions, _ = ask.asked[0]
    assert len(questions) <= 128 and view and len(view.text.encode()) <= 1024
    loud = talk(*[(f"u{i}", "🙂\n\"" * 20) for i in range(24)])
    controller(ask, profile="seed", max_source_chars=2500).prepare(loud, "x")
    state, questions, _ = ask.asked[1]
    size = len(json.dumps({"state": state, "questions": questions}, ensure_ascii=False, separators=(",", ":")).encode())
    assert 0 < len(questions) < 24 and size <= 2500
    made = controller(Oracle(), profile="seed", max_candidates=100, max_source_chars=100_000)
    for k in range(12):
        made.prepare(talk(*[(f"u{k}.{i}", f"y{k}") for i in range(100)]), "y")
    assert len(made._annotations) == 1024


def test_what_arrives_after_a_change_is_dropped() -> None:
    entries = talk(*POSTGRES)
    changes: dict[str, Callable[[history.ExtractiveHistory], Any]] = {
        "branch": lambda made: made.invalidate(clear=True),
        "settings": lambda made: made.configure(mode="classifier"),
        "switched off": lambda made: made.configure(mode="off"),
        "edited entry": lambda made: entries.append({"id": "u9", "role": "user", "content": "late"}),
    }
    for name, change in changes.items():
        made = controller()

        def changing(*_: Any) -> dict[str, float]:
            change(made)
            return {f"c{i}": 1.0 for i in range(3)}

        made.ask = changing
        assert made.prepare(entries, "css") is None, name
        assert made.inject([{"role": "user", "content": "css"}]) == [{"role": "user", "content": "css"}], name
        assert name == "edited entry" or not made._annotations, name
    ask = Oracle()
    made = controller(ask)
    assert made.prepare(entries, "css", cancelled=lambda: bool(ask.asked)) is None and not made._annotations


def test_the_message_stands_before_the_prompt_and_stays_there() -> None:
    entries = talk(*POSTGRES)
    made = controller(mode="deterministic")
    view = made.prepare(entries, "rename it back")
    assert view
    old = [{"role": e["role"], "content": e["content"]} for e in entries]
    first = made.inject([*old, {"role": "user", "content": "rename it back"}], entries)
    assert first[:6] == old and first[6] == {"role": "user", "content": view.text} and len(first) == 8
    assert json.loads(first[6]["content"])["kind"] == "untrusted-historical-evidence"
    assert made.inject(first) == first  # into its own result: no second copy
    steps = [*old, {"role": "user", "content": "rename it back"}, {"role": "assistant", "content": "", "calls": []},
             {"role": "tool", "content": "done"}, {"role": "user", "content": "faster"}]  # fmt: skip
    assert made.inject(steps)[6] == first[6] and made.inject(steps)[7:] == steps[6:]  # steering does not move it
    assert made.inject([*steps[:2], {"role": "user", "content": "summary"}, *steps[6:]]) == [
        *steps[:2], {"role": "user", "content": "summary"}, *steps[6:]]  # a rewritten prefix ends it …
    assert made.inject(steps) == steps  # … until the next prepare
    again = made.prepare([*entries, *talk(("u4", "rename it back"))], "thanks")
    assert again and made.inject([*first, {"role": "user", "content": "thanks"}])[7]["content"] == again.text
    assert made.inject([{"role": "system", "content": "no user yet"}]) == [{"role": "system", "content": "no user yet"}]
    made.prepare(entries, "x")
    edited = [{**entries[0], "content": "edited"}, *entries[1:]]
    assert made.inject(old, [*entries, *talk(("a9", "appended is fine"))])[4]["content"].startswith('{"kind"')
    assert made.inject(old, edited) == old == made.inject(old, entries)
    stored = [*entries, {"id": "u8", "role": "user", "content": view.text}]
    assert "u8" not in history.extract(stored, "untrusted historical evidence").entry_ids  # never its own source


def test_the_call_that_a_view_names_reaches_everything() -> None:
    entries = talk(*[(f"{'ua'[i % 2]}{i}", f"remark {i}") for i in range(20)])
    entries.insert(5, {"id": "t1", "role": "tool", "content": [{"type": "text", "text": "tool output"}]})
    view = json.loads(history.extract(entries, "remark", max_view_bytes=700).text)
    assert view["omitted"] and view["follow"]["ref"] == "history.recall"
    page = history.recall(entries, **view["follow"]["args"], limit=3)
    seen = [hit["id"] for hit in page["hits"]]
    later = [*entries, *talk(("u99", "remark"))]
    while page["next"]:
        assert not page["coverage"]["complete"]
        page = history.recall(later, cursor=page["next"], limit=3)
        seen += [hit["id"] for hit in page["hits"]]
    assert seen == [e["id"] for e in later]
    assert page["coverage"] == {"entries": 22, "matched": 22, "shown": 22, "complete": True}
    assert history.recall(entries, limit=50)["coverage"]["complete"]
    raw = history.expand(later, **page["hits"][0]["follow"]["args"])
    assert raw == {"entries": [later[-1]], "missing": []}
    assert history.expand(entries, ["t1", "gone"]) == {"entries": [entries[5]], "missing": ["gone"]}
    found = history.recall(entries, query="remark 7")
    assert found["hits"][0]["id"] == "a7" and not found["coverage"]["complete"]
    for cursor in ("x", "-1", "1:2"):
        with pytest.raises(history.HistoryError, match="cursor"):
            history.recall(entries, cursor=cursor)


EVIDENCE_RECIPE = '''
from history import ExtractiveHistory, entries_of

past = ExtractiveHistory(mode="deterministic")  # mode="classifier" and an `ask` let a classifier nudge the choice
transcript = []  # everything that was said, for as long as the conversation lives
WINDOW = 20  # messages that the model is sent as they are


def answer(prompt, model):
    entries = entries_of(transcript)
    past.prepare(entries, prompt, exclude=[entry["id"] for entry in entries[-WINDOW:]])
    transcript.append({"role": "user", "content": prompt})
    reply = model(past.inject(transcript[-WINDOW - 1:]))  # once more before each further call of this turn
    transcript.append({"role": "assistant", "content": reply})
    return reply
'''


def test_the_evidence_recipe_of_the_readme_quotes_what_left_the_window() -> None:
    readme = (pathlib.Path(history.__file__).parent / "README.md").read_text(encoding="utf-8")
    found = [block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "ExtractiveHistory" in block]
    made: dict[str, Any] = {}
    exec((found or [EVIDENCE_RECIPE])[0], made)  # the README's own once it has one
    sent: list[list[dict[str, Any]]] = []

    def model(messages: list[dict[str, Any]]) -> str:
        sent.append(messages)
        return "noted"

    made["answer"]("the staging database is called heron", model)
    for i in range(30):
        made["answer"](f"step {i}", model)
    made["answer"]("what is the staging database called?", model)
    view, prompt = sent[-1][-2:]
    assert prompt == {"role": "user", "content": "what is the staging database called?"}
    assert ["m0", "u", "the staging database is called heron"] in json.loads(view["content"])["evidence"]
    assert len(sent[-1]) == 22 and len(sent[0]) == 1  # nothing to quote yet: nothing is injected
    assert not any("untrusted" in message["content"] for message in made["transcript"])


def test_what_is_sent_to_a_classifier_is_masked() -> None:
    class Client:
        def ask(self, state: Any, questions: Any, timeout: float) -> jevlens.Answers:
            self.sent = json.dumps(state)
            return jevlens.Answers({id: jevlens.Answer("noul", noul=0.5) for id in questions})

    client: Any = Client()
    made = controller(jevlens.plain_ask(client))
    view = made.prepare(talk(("u1", "use AKIAIOSFODNN7EXAMPLE for the bucket")), "bucket")
    assert view and view.diagnostics == (history.SALIENCE,)
    assert "AKIAIOSFODNN7EXAMPLE" not in client.sent and "for the bucket" in client.sent


def test_evidence_is_the_same_under_every_hash_seed() -> None:
    code = ("import history\nentries = [{'id': str(i), 'role': ('user', 'assistant')[i % 2], 'name': 'NM'[i % 2], "
            "'content': f'word{i % 7} of part_{i % 5} in module{i % 3}'} for i in range(80)]\n"
            "for p in ('seed', 'default'):\n"
            "    print(history.extract(entries, 'word3 part_2 module1 word5', profile=p, max_view_bytes=2000).text)")
    outs = {subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(history.__file__).parent, check=True,
                           env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True).stdout
            for seed in ("0", "1", "77")}  # fmt: skip
    assert len(outs) == 1 and len(outs.pop()) > 2000


def test_the_command_evidence(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.jsonl"
    rows = [{"role": "user", "text": "the port is 8432"}, {"role": "assistant", "text": "noted", "calls": []}]
    path.write_text(json.dumps({"id": "s", "agent": "pi", "task": "x", "turns": rows}) + "\n")
    assert jevlens.main(["evidence", str(path), "--query", "which port"]) == 0
    assert "the port is 8432" in str(json.loads(capsys.readouterr().out)["evidence"])
    assert jevlens.main(["evidence", str(path), "--query", "which port", "--bytes", "9"]) == 1
    assert capsys.readouterr().err == "jevlens: evidence: no user or assistant text, or none within 9 bytes\n"


def test_the_dialogue_bench_counts_evidence_and_what_is_taken_from_far_back(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [{"entryId": f"D{i}", "role": ("user", "assistant")[i % 2], "speaker": ("Ann", "Ben")[i % 2], "date": "May",
              "text": f"remark {i} about nothing " * 8} for i in range(60)]  # fmt: skip
    turns[7]["text"] = "I adopted a parrot"
    turns[8]["text"] = "Lovely, what is it called?"
    questions = [{"question": "Which parrot did Ben adopt?", "evidence": ["D7"], "category": 4}]
    plain = [{k: v for k, v in (("role", t["role"]), ("text", t["text"])) if v} for t in turns]
    plain[3]["text"] = "we settled on retry_budget for the parrot"
    plain[58]["text"], plain[59]["text"] = "name the parrot setting", "It is retry_budget"
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ({"turns": turns, "questions": questions}, {"turns": plain}))))
    assert bench.main(["dialogues", str(path), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    for rows in (out["Evidence recall, % of a question's evidence in the view"],
                 out["Taken from far back, % held by the view"]):  # fmt: skip
        assert [row["4,096 B"] for row in rows] == ["100.0", "100.0", "0.0"]
        assert rows[0]["n"] == "1"


# ================================================================ history: distil and checkpoint


def asks(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def tells(text: str = "", *calls: tuple[str, str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = [{"id": name, "tool": tool, "args": args} for name, tool, args in calls]
    return {"role": "assistant", "content": text, "calls": made, **more}


def gives(call: str, text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "call_id": call, "content": text, **more}


def does(name: str, tool: str, args: dict[str, Any], text: str, said: str = "") -> list[dict[str, Any]]:
    """A call and its result."""
    return [tells(said, (name, tool, args)), gives(name, text)]


def laid_flat(parts: Any) -> list[Any]:
    return [each for part in parts for each in (laid_flat(part) if isinstance(part, list) else [part])]


def chat(*parts: Any) -> list[dict[str, Any]]:
    """Entries with ids e0, e1, …; lists are laid flat."""
    return [{"id": f"e{i}", **entry} for i, entry in enumerate(laid_flat(parts))]


def ruled(count: int, width: int = 60, word: str = "x") -> str:
    """Lines of one width, each different."""
    return "\n".join(f"{word} line {i} ".ljust(width, "-") for i in range(count))


SAME = history.settings_of(history.GUARD_SETTINGS, {})
SURE = {"keep_whole": 0.1, "focus": ("none", {"none": 0.9})}  # an answer that keeps no chunk by itself


def answer_all(p: float) -> Any:
    """A classifier that gives every question of yes or no the same probability."""
    return lambda state, questions, timeout: {**dict.fromkeys(questions, p), **SURE}


def kept_by(*labels: str) -> Any:
    """A classifier that needs these chunks or items and no other."""
    return lambda state, questions, timeout: {**{name: 0.9 if name in labels else 0.1 for name in questions}, **SURE}


def test_distil_without_a_classifier_edits_what_a_newer_output_repeats():
    log = ruled(100)
    entries = chat(
        asks("fix"),
        does("c1", "read", {"path": "a.py"}, log),
        does("c2", "bash", {"command": "ls"}, "a"),
        does("c3", "read", {"path": "./a.py"}, log + "\nend"),
        tells("Done."),
    )
    edits, record = history.distil(entries, cold=True)
    assert [edit["targetId"] for edit in edits] == ["e2"]
    text = edits[0]["replacement"]
    assert text.startswith(history.MARK) and "read ./a.py, 2 turn(s) later" in text
    assert 'recall({"entryId": "e2"})' in text
    assert record["savedChars"] == len(log) - len(text) and record["requests"] == 0
    assert [row["reason"] for row in record["results"]] == ["repeated"]
    seen = history.apply_edits(entries, edits)
    assert [entry["id"] for entry in seen] == [entry["id"] for entry in entries] and seen[2]["content"] == text
    assert entries[2]["content"] == log  # nothing is applied by the pass itself


BY_RULE = {
    "the same command again, much the same": ("bash", {"command": "a b"}, 0.9, {"command": " a  b 2>&1"}, True),
    "another command with the same output": ("bash", {"command": "make"}, 1.0, {"command": "make -B"}, True),
    "another command with another output": ("bash", {"command": "make"}, 0.0, {"command": "make -B"}, False),
    "the same call made again": ("read", {"path": "a", "offset": 1}, 0.8, {"path": "a"}, True),
    "another range of the same file": ("read", {"path": "a", "offset": 9}, 0.4, {"path": "a"}, False),
}


@pytest.mark.parametrize("case", BY_RULE)
def test_rule(case):
    tool, args, shared, again, edited = BY_RULE[case]
    old, other = ruled(100).split("\n"), ruled(100, word="y").split("\n")
    keep = int(100 * shared)
    entries = chat(
        asks("go"),
        does("c1", tool, args, "\n".join(old)),
        tells("so"),
        does("c2", tool, again, "\n".join(old[:keep] + other[keep:])),
        tells("Done."),
    )
    edits, _ = history.distil(entries, cold=True)
    assert [edit["targetId"] for edit in edits] == ["e2"] * edited


def test_a_record_names_the_model_that_was_asked():
    for ask, model in ((answer_all(0.1), "typesafe/jev"), (None, "")):
        again = does("c2", "bash", {"command": "make"}, ruled(100))
        record = history.distil(one_run(ruled(100), again), ask, model="typesafe/jev", Model="jev", cold=True)[1]
        assert (record["model"], record["ignored"]) == (model, ["Model"])


def test_by_rule_nothing_goes_for_a_newer_result_that_failed_or_says_less_or_is_an_edit():
    log = ruled(100)
    for again in (gives("c2", log, is_error=True), gives("c2", "File unchanged since last read.")):
        call = tells("", ("c2", "read", {"path": "a"}))
        entries = chat(asks("go"), does("c1", "read", {"path": "a"}, log), call, again, tells("x"))
        assert history.distil(entries, cold=True) == ([], {})
    edit = does("c2", "edit", {"path": "a", "old": "x"}, "ok")
    entries = chat(asks("go"), does("c1", "read", {"path": "a"}, log), edit, tells("x"))
    assert history.distil(entries, cold=True) == ([], {})


def test_a_chain_of_repeats_names_the_result_that_stays():
    log = ruled(100)
    runs = [does(f"c{i}", "bash", {"command": "make"}, log) for i in range(3)]
    entries = chat(asks("go"), *runs, tells("Done."))
    edits, _ = history.distil(entries, cold=True)
    assert [edit["targetId"] for edit in edits] == ["e2", "e4"]
    assert "2 turn(s) later" in edits[0]["replacement"] and "1 turn(s) later" in edits[1]["replacement"]


def test_edits_by_rule_wait_until_they_pay():
    log = ruled(100)
    start = [asks("go"), *does("c1", "read", {"path": "a"}, log)]
    big = does("c2", "bash", {"command": "x"}, ruled(2000, word="z"))
    again = does("c3", "read", {"path": "a"}, log)
    assert history.distil(chat(*start, *big, *again, tells("Done.")))[0] == []  # 122,000 characters behind it, 4 turns
    assert history.distil(chat(*start, *big, *again, tells("Done.")), cold=True)[0]
    assert history.distil(chat(*start, *again, *[tells("hm")] * 200))[0]  # nothing behind it but the newer one


CLIPPED = {600: (420, 180), 800: (560, 240), 1000: (700, 300), 1200: (840, 360), 2000: (1400, 600), 4000: (2800, 1200),
           6000: (4200, 1800)}  # fmt: skip


@pytest.mark.parametrize("most", CLIPPED)
def test_clip_keeps_seventy_percent_of_its_room_for_the_head(most):
    head, tail = CLIPPED[most]
    assert history.clip("h" * head + "m" + "t" * tail, most) == "h" * head + "\n[…]\n" + "t" * tail
    assert history.clip("x" * most, most) == "x" * most


def test_sizes_are_told_in_characters_thousands_and_millions():
    assert [history.format_chars(n) for n in (999, 1500, 2_300_000)] == ["999", "1.5k", "2.3M"]


SETTINGS_GIVEN = {
    "a value in bounds, as the reference spells it": ({"minResultChars": 100}, "min_result_chars", 100, []),
    "a whole number as a float": ({"concurrency": 2.0}, "concurrency", 2.0, []),
    "a broken number for an integer": ({"concurrency": 2.5}, "concurrency", 6, ["concurrency"]),
    "a number below its bounds": ({"timeout_ms": 1}, "timeout_ms", 8000, ["timeout_ms"]),
    "no number at all": ({"none_threshold": float("nan")}, "none_threshold", 0.5, ["none_threshold"]),
    "a bool for a number": ({"none_threshold": True}, "none_threshold", 0.5, ["none_threshold"]),
    "a number for a bool": ({"mid_run": 1}, "mid_run", True, ["mid_run"]),
    "a list of tools": ({"exclude_tools": ["bash"]}, "exclude_tools", ["bash"], []),
    "prices that nobody knows": ({"prices": "x"}, "prices", "anthropic", ["prices"]),
    "a name that nobody knows": ({"minResult": 1}, "min_result_chars", 4000, ["minResult"]),
    "a model as provider/id": ({"model": " typesafe/jev-latest\n"}, "model", "typesafe/jev-latest", []),
    "a model whose id has a slash": ({"model": "a/b/c"}, "model", "a/b/c", []),
    "a model without a provider": ({"model": "jev-latest"}, "model", "openrouter/~typesafe/jev-latest", ["model"]),
    "a model with an empty one": ({"model": "/jev"}, "model", "openrouter/~typesafe/jev-latest", ["model"]),
    "a model without an id": ({"model": "typesafe/ "}, "model", "openrouter/~typesafe/jev-latest", ["model"]),
    "a model that is no text": ({"model": 7}, "model", "openrouter/~typesafe/jev-latest", ["model"]),
}


@pytest.mark.parametrize("case", SETTINGS_GIVEN)
def test_a_setting_out_of_bounds_counts_as_not_given(case):
    given, name, expected, ignored = SETTINGS_GIVEN[case]
    s = history.settings_of(history.GUARD_SETTINGS, given)
    assert (getattr(s, name), s.ignored) == (expected, ignored)


ANY = {"path": "a"}
CALL = tells("", ("c1", "read", ANY))
RUNS = {  # parts of a talk -> index of the prompt, question, answer, notes
    "nobody spoke": ([tells("hi")], None),
    "a prompt and an answer": ([asks(" one "), tells("a"), tells(" b ")], (0, " one ", "b", "a")),
    "a prompt without text": ([asks([{"type": "image"}]), tells("a")], (0, "[the user sent only an image]", "a", "")),
    "a message after a result belongs to the run": (
        [asks("one"), CALL, gives("c1", "x"), asks(" two "), tells("a")],
        (0, "one\n\n[The user added during the run] two", "a", ""),
    ),
    "a message after a notice after a result, too": (
        [asks("one"), CALL, gives("c1", "x"), {"role": "custom", "content": "note"}, asks("two")],
        (0, "one\n\n[The user added during the run] two", "", ""),
    ),
    "a message while a call runs": (
        [asks("one"), CALL, asks("two")],
        (0, "one\n\n[The user added during the run] two", "", ""),
    ),
    "a message after an aborted call is a prompt": (
        [asks("one"), tells("", ("c1", "read", ANY), stop_reason="aborted"), asks("two")],
        (2, "two", "", ""),
    ),
    "a message after a plain answer is a prompt": (
        [asks("one"), tells("a"), asks("two"), tells("b")],
        (2, "two", "b", ""),
    ),
    "a message after a summary is a prompt": ([{"role": "summary", "content": "s"}, asks("two")], (1, "two", "", "")),
}


@pytest.mark.parametrize("case", RUNS)
def test_the_run_and_what_the_user_added_to_it(case):
    parts, expected = RUNS[case]
    run = history.find_run(chat(*parts))
    assert (run and (run.start, run.question, run.answer, run.notes)) == expected


def test_calls_are_known_by_id_and_turn_whatever_the_order_of_their_results():
    call = tells("", ("a", "bash", {"command": "x"}), ("b", "other", {}))
    call["calls"][1]["name"] = "grep_search"
    run = history.find_run(
        chat(asks("go"), call, gives("b", "1"), gives("a", "2"), tells("", ("c", "read", ANY)), tells("k"))
    )
    assert [(name, each.turn, each.tool) for name, each in run.calls.items()] == [
        ("a", 0, "bash"),
        ("b", 0, "grep_search"),
        ("c", 1, "read"),
    ]


def call_of(tool: str, args: dict[str, Any], turn: int = 0) -> Any:
    return history._call({"tool": tool, "args": args}, turn)


LABELS = {
    "a command, its blanks folded": (("bash", {"command": "ls  -l\n"}), "bash `ls -l`"),
    "a path": (("read", {"file_path": "/a b"}), "read /a b"),
    "a pattern": (("grep", {"pattern": "x y"}), "grep `x y`"),
    "the verb of an editor and a path": (("str_replace_editor", {"command": "view", "path": "/a"}),
        "str_replace_editor /a"),
    "nothing known": (("tool", {"n": 1}), "tool"),
    "81 characters": (("bash", {"command": "x" * 81}), "bash `" + "x" * 79 + "…`"),
}


@pytest.mark.parametrize("case", LABELS)
def test_a_call_is_named_by_its_command_path_or_pattern(case):
    (tool, args), expected = LABELS[case]
    assert call_of(tool, args).label == expected


TOOLS = {
    "Claude Code": ({"tool": "MultiEdit"}, "edit"),
    "Codex": ({"tool": "other", "name": "apply_patch"}, "edit"),
    "Gemini CLI": ({"tool": "read_file"}, "read"),
    "a tool that no rule speaks of, by its own name": ({"tool": "other", "name": "WebFetch"}, "WebFetch"),
    "no name at all": ({"tool": None}, "tool"),
}


@pytest.mark.parametrize("case", TOOLS)
def test_the_tools_of_hosts_have_one_name(case):
    call, expected = TOOLS[case]
    assert history._tool(call) == expected


def test_the_conversation_before_a_run_is_shown_clipped():
    talks = [[asks(f"u{i}" + "x" * 900), tells("early"), tells(f"a{i}" + "y" * 1300)] for i in range(4)]
    before = chat(
        {"role": "summary", "content": "old"}, {"role": "summary", "content": "s" * 3000}, *talks, asks("last")
    )
    got = history._earlier(before, 3)
    assert list(got) == ["summary", "first_request", "recent_exchanges"]
    assert len(got["summary"]) == 2005 and len(got["first_request"]) == 902
    assert [each["user"][:2] for each in got["recent_exchanges"]] == ["u2", "u3", "la"]
    assert [len(each["user"]) for each in got["recent_exchanges"]] == [805, 805, 4]
    assert [each.get("assistant", "")[:2] for each in got["recent_exchanges"]] == ["a2", "a3", ""]
    assert len(got["recent_exchanges"][0]["assistant"]) == 1205 and "assistant" not in got["recent_exchanges"][2]
    assert "first_request" not in history._earlier(before, 5) and history._earlier(before, 0) == {}


OUTPUTS = {  # an entry beside a call of `read` -> whether it may be edited
    "a long text": ({}, True),
    "a result in blocks of text": ({"content": [{"type": "text", "text": "x" * 5000}]}, True),
    "a failed one": ({"is_error": True}, True),
    "one with an image": ({"content": [{"type": "text", "text": "x" * 5000}, {"type": "image"}]}, False),
    "one that is short": ({"content": "x" * 399}, False),
    "the agent's own edit": ({"tool": "edit"}, False),
    "one that is ours already": ({"content": history.MARK + "x" * 5000}, False),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_which_outputs_may_be_edited(case):
    more, expected = OUTPUTS[case]
    entries = chat(asks("go"), CALL, {**gives("c1", "x" * 5000), **more}, tells("Done."))
    (item,) = history._outputs(entries, entries, history.find_run(entries), SAME)
    assert (item.id, item.kind, item.call.tool) == ("e2", "large" * expected, "read")
    others = history.apply_edits(entries, [{"targetId": "e2", "replacement": "y" * 5000}])
    (item,) = history._outputs(entries, others, history.find_run(entries), SAME)
    assert item.kind == ""  # changed by somebody else


def test_failed_and_small_outputs_go_by_their_settings():
    entries = chat(asks("go"), CALL, gives("c1", "x" * 1500, is_error=True), tells("Done."))
    run = history.find_run(entries)
    for given, kinds in (
        ({}, ["small"]),
        ({"distill_errors": False}, [""]),
        ({"small_result_min_chars": 0}, [""]),
        ({"min_result_chars": 1000}, ["large"]),
        ({"exclude_tools": ["read"]}, [""]),
    ):
        s = history.settings_of(history.GUARD_SETTINGS, given)
        assert [item.kind for item in history._outputs(entries, entries, run, s)] == kinds


HINTS = {  # call, later call -> hint
    "a read, then an edit of the file": (
        ("read", {"path": "./a//b"}),
        ("edit", {"path": "a/b"}),
        "file changed after this read",
    ),
    "a read, then a write of another file": (("read", {"path": "a"}), ("write", {"path": "b"}), ""),
    "a read, then the same range": (
        ("read", {"path": "a"}),
        ("read", {"path": "a", "offset": 1}),
        "same call made again",
    ),
    "a read, then another limit": (("read", {"path": "a"}), ("read", {"path": "a", "limit": 9}), ""),
    "a command, then the same": (
        ("bash", {"command": "npm test"}),
        ("bash", {"command": "npm  test 2>&1 "}),
        "same call made again",
    ),
    "a command, then a piped one": (("bash", {"command": "npm test"}), ("bash", {"command": "npm test | head"}), ""),
    "another call, the same arguments": (
        ("grep", {"a": 1, "b": 2}),
        ("grep", {"b": 2, "a": 1}),
        "same call made again",
    ),
    "another call, other arguments": (("grep", {"a": 1}), ("grep", {"a": 2}), ""),
    "the editor shows one file, then another": (
        ("str_replace_editor", {"command": "view", "path": "a"}),
        ("str_replace_editor", {"command": "view", "path": "b"}),
        "",
    ),
}


@pytest.mark.parametrize("case", HINTS)
def test_what_a_later_call_made_out_of_date(case):
    (tool, args), (other, more), expected = HINTS[case]
    entries = chat(asks("go"), does("c1", tool, args, "x"), tells("hm"), does("c2", other, more, "y"))
    run = history.find_run(entries)
    hint = history._superseded(run.calls["c1"], run)
    assert hint.partition(":")[0] == expected and hint.endswith("2 turn(s) later" * bool(expected))
    assert history._superseded(run.calls["c2"], run) == ""


GREP = {
    "a hit": ("src/a.ts:13:x", (), ("src/a.ts", 13)),
    "a context line": ("src/a.ts-13-x", (), ("src/a.ts", 13)),
    "a name with dates, of a known file": (
        "docs/2024-05-01-post.md-4-x",
        ("docs/2024-05-01-post.md",),
        ("docs/2024-05-01-post.md", 4),
    ),
    "a name with dates, unknown": ("docs/2024-05-01-post.md-4-x", (), ("docs/2024", 5)),
    "a hit on another drive": ("C:\\a\\b.py:7: x", (), ("C:\\a\\b.py", 7)),
    "a file without an ending": ("Makefile:3:all:", (), ("Makefile", 3)),
    "an indented line": ("  src/a.ts:13:x", (), ("", 0)),
    "a clock": ("12:34:56 start", (), ("", 0)),
    "a timestamp": ("2026-10-06T12:34:56Z start", (), ("", 0)),
    "a timestamp in brackets": ("[2026-10-06 12:34:56] start", (), ("", 0)),
    "a date and a clock": ("2026-10-06 12:34:56 start", (), ("", 0)),
    "a host and its port": ("localhost:8080: refused", (), ("", 0)),
    "a row of ls -l": ("-rw-r--r-- 1 root root 12 2026-10-06 12:34 a.py", (), ("", 0)),
}


@pytest.mark.parametrize("case", GREP)
def test_which_lines_are_search_output(case):
    line, known, expected = GREP[case]
    assert history.grep_file(line, known) == expected


def spans(text: str) -> list[tuple[int, int]]:
    chunks = history.chunk_output(text)
    assert "\n".join(chunk.text for chunk in chunks) == text
    assert [chunk.label for chunk in chunks] == [f"chunk_{i}" for i in range(1, len(chunks) + 1)]
    return [(chunk.start, chunk.end) for chunk in chunks]


def test_chunks_have_the_sizes_of_the_reference():
    for count, chunks, last in ((200, 16, (195, 200)), (300, 24, None), (1000, 77, (988, 1000))):
        got = spans(ruled(count))
        assert len(got) == chunks and got[0] == (0, 13) and last in (None, got[-1])
    assert len(spans(ruled(2000))) == 125
    assert spans("x" * 10_000 + "\ny") == [(0, 1), (1, 2)]  # a line is never cut
    paragraphs = "\n\n".join("\n".join("p" * 50 for _ in range(8)) for _ in range(10))
    lines = paragraphs.split("\n")
    blank = [i for i, line in enumerate(lines) if not line]
    packs = list(history._packed([len(line) + 1 for line in lines], 1000, ends=blank))
    assert packs == [(0, 18), (18, 36), (36, 54), (54, 72), (72, 89)]


def grep_lines(files: int, count: int, width: int = 60) -> list[str]:
    return [f"src/f{f:02}.ts:{n}:".ljust(width, "x") for f in range(files) for n in range(1, count + 1)]


def test_search_output_is_cut_between_files():
    assert spans("\n".join(grep_lines(3, 12))) == [(0, 12), (12, 24), (24, 36)]
    context = [f"a/b.ts-{n}-".ljust(60, "x") if n != 4 else f"a/b.ts:{n}:".ljust(60, "x") for n in range(1, 8)]
    other = [line.replace("a/b", "c/d") for line in context]
    assert spans("\n".join([*context, "--", *other])) == [(0, 8), (8, 15)]
    huge = history.chunk_output("\n".join(grep_lines(2, 60)))
    assert all(len(chunk.files) == 1 and len(chunk.text) <= 800 for chunk in huge) and len(huge) == 10
    tiny = history.chunk_output("\n".join(grep_lines(30, 1)))
    assert all(len(chunk.text) <= 400 for chunk in tiny) and max(len(chunk.files) for chunk in tiny) == 6
    assert [name for chunk in tiny for name in chunk.files] == [f"src/f{f:02}.ts" for f in range(30)]


NO_GREP = {
    "two lines": ("a/b.py:1:x\na/b.py:2:y", False),
    "three of five lines": ("a/b.py:1:x\na/b.py:2:y\na/b.py:3:z\nfoo\nbar", True),
    "three of six lines": ("a/b.py:1:x\na/b.py:2:y\na/b.py:3:z\nfoo\nbar\nbaz", False),
    "a log by the second": ("\n".join(f"2026-10-06T12:34:{n}Z x" for n in range(10, 40)), False),
    "one address again and again": ("db.example.com:5432: retry\n" * 9, False),
}


@pytest.mark.parametrize("case", NO_GREP)
def test_what_counts_as_search_output(case):
    text, expected = NO_GREP[case]
    assert any(history._grep_files(text.split("\n"))) == expected


def test_batches_respect_size_and_number_and_keep_the_order():
    def parts(costs: list[int], **given: Any) -> list[int]:
        s = history.settings_of({"max_segment_chars": (10, 0, 99), "max_chunks_per_segment": (40, 1, 60)}, given)
        got = history._batches(costs, int, s)
        assert [cost for part in got for cost in part] == costs
        return [len(part) for part in got]

    assert parts([5] * 5) == [2, 2, 1] and parts([50, 1]) == [1, 1] and parts([]) == []
    assert parts([1] * 10, max_chunks_per_segment=4) == [4, 4, 2]


def work_of(
    mid: bool = False,
    earlier: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    answer: str = "The answer.",
    calls: Any = (),
) -> Any:
    run = history.Run(0, "The question?", answer, "\n\n".join(notes), dict(calls), 3)
    return history.Work(mid, run, earlier or {}, SAME)


def item_of(text: str, tool: str = "bash", args: dict[str, Any] | None = None, **more: Any) -> Any:
    call = call_of(tool, {"command": "make"} if args is None else args)
    return history.Item("large", 1, "e1", call, text, False, len(text), {}, [])._replace(**more)


BEFORE = {"recent_exchanges": [{"user": "u", "assistant": "a"}]}
FIRST = ["situation", "user_question"]
STATES = {  # work, item, part of parts -> keys of the state, in order
    "a run's end": (
        work_of(),
        item_of("x"),
        (1, 1),
        [*FIRST, "final_answer", "tool", "tool_arguments", "output_size", "chunks"],
    ),
    "with what came before, notes and a failure": (
        work_of(earlier=BEFORE, notes=["n"]),
        item_of("x", failed=True),
        (1, 1),
        [
            "situation",
            "earlier_conversation",
            "user_question",
            "final_answer",
            "agent_notes_during_the_run",
            "tool",
            "tool_status",
            "tool_arguments",
            "output_size",
            "chunks",
        ],
    ),
    "an empty answer is an answer": (
        work_of(answer=""),
        item_of("x"),
        (1, 1),
        [*FIRST, "final_answer", "tool", "tool_arguments", "output_size", "chunks"],
    ),
    "a running task": (
        work_of(True, calls={"c2": call_of("bash", {"command": "make"}, 1)}),
        item_of("x"),
        (2, 3),
        [*FIRST, "agent_progress", "later_tool_calls", "superseded", "tool", "tool_arguments", "output_size", "chunks"],
    ),
    "a running task without a word": (
        work_of(True, answer=""),
        item_of("x"),
        (1, 1),
        [*FIRST, "later_tool_calls", "tool", "tool_arguments", "output_size", "chunks"],
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_a_state_has_its_fields_in_order_and_no_absent_ones(case):
    work, item, (part, parts), keys = STATES[case]
    chunks = [history.Chunk(f"chunk_{n}", 0, 1, "x", ()) for n in (2, 3)]
    state, questions = history.segment_request(work, item, chunks, part, parts)
    assert list(state) == keys
    assert list(questions) == ["keep_whole", "focus", "chunk_2", "chunk_3"] and list(state["chunks"]) == [
        "chunk_2",
        "chunk_3",
    ]
    assert list(questions["focus"]["criteria"]) == ["whole", "none", "chunk_2", "chunk_3"]
    assert all(question["instructions"] and question["criteria"] for question in questions.values())
    said = json.dumps([state["situation"], questions])
    assert ("earlier_conversation" in said) == bool(work.earlier)
    assert ("this part of the output" in said) == (parts > 1) and ("part 2 of 3" in state["output_size"]) == (parts > 1)
    assert "{" not in "".join(question["instructions"] for question in questions.values())
    assert state.get("later_tool_calls", "none yet") == (["bash `make`"] if "superseded" in keys else "none yet")


def test_questions_have_the_senses_that_were_measured():
    def chunk(work: Any) -> str:
        return history.segment_request(work, item_of("x"), history.chunk_output("x"))[1]["chunk_1"]["instructions"]

    assert "ongoing task" in chunk(work_of(earlier=BEFORE)) and "even if the current question" in chunk(
        work_of(earlier=BEFORE)
    )
    assert "next question" in chunk(work_of()) and "ongoing" not in chunk(work_of())
    assert "still need" in chunk(work_of(True)) and "out of date" in chunk(work_of(True))
    focus = history.segment_request(work_of(), item_of("x"), history.chunk_output("x"))[1]["focus"]["criteria"]
    assert "few" in focus["chunk_1"] and "most important" in focus["chunk_1"] and "Most" in focus["whole"]


def test_a_running_task_shows_the_end_of_its_notes_and_the_ends_of_its_later_calls():
    calls = {f"c{n}": call_of("bash", {"command": f"n{n}"}, 1) for n in range(40)}
    work = work_of(True, notes=["a" * 3000, "b" * 10], calls=calls)
    state, _ = history.segment_request(work, item_of("x"), history.chunk_output("x"))
    notes = state["agent_progress"]["earlier_notes"]
    assert len(notes) == 2000 and notes.startswith("[…]\n") and notes.endswith("\n\n" + "b" * 10)
    listed = state["later_tool_calls"]
    assert len(listed) == 31 and listed[14:17] == ["bash `n14`", "… 10 more …", "bash `n25`"]


def test_small_outputs_and_exchanges_share_requests_numbered_from_one():
    items = [item_of("x" * 5000, kind="small"), item_of("y", "read", kind="small", failed=True)]
    calls = {"c2": call_of("bash", {"command": "make 2>&1"}, 1)}
    for work, last in ((work_of(answer="", calls=calls), "final_answer"),
        (work_of(True, calls=calls), "agent_progress")):
        state, questions = history.items_request(work, items)
        assert list(state) == ["situation", "user_question", last, "items"] and list(questions) == ["item_1", "item_2"]
        assert list(state["items"]["item_1"]) == ["tool", "superseded", "output"]
        assert len(state["items"]["item_1"]["output"]) == 4005 and state["items"]["item_2"]["status"] == "failed"
        assert all("out of date and therefore not needed" in each["instructions"] for each in questions.values())
    old = item_of("x", kind="exchange", state={"user_prompt": "p"})
    state, questions = history.items_request(work_of(), [old])
    assert state["exchanges"] == {"exchange_1": {"user_prompt": "p"}}
    assert "same files, task, decisions or facts" in questions["exchange_1"]["instructions"]


def test_every_request_fits_the_window_at_its_worst():
    # the reference: 83,214 bytes were 23,619 tokens (3.52 bytes a token), at most 28,000 is the aim
    earlier = {
        "summary": "s" * 2005,
        "first_request": "f" * 1005,
        "recent_exchanges": [{"user": "u" * 805, "assistant": "a" * 1205}] * 10,
    }
    chunks = [history.Chunk(f"chunk_{n}", n, n + 1, "c" * 799, ()) for n in range(81, 121)]
    calls = {f"c{n}": call_of("bash", {"command": "x" * 5000}, 1) for n in range(99)}
    for mid in (False, True):
        run = history.Run(0, "q" * 9000, "a" * 9000, "n" * 18_000, calls, 9)
        work = history.Work(mid, run, earlier, SAME)
        args = {"command": "x" * 5000}
        request = history.segment_request(work, item_of("x", args=args, failed=True), chunks, 3, 3)
        small = [item_of("x" * 3800, kind="small") for _ in range(8)]
        old = item_of(
            "p",
            kind="exchange",
            state={
                "user_prompt": "p" * 605,
                "final_answer": "a" * 805,
                "tool_calls": ["bash `" + "x" * 80 + "`"] * 20,
                "size": "9 messages",
            },
        )
        olds = history._batches([old] * 40, lambda item: len(json.dumps(item.state)), SAME)[0]
        for each in (request, history.items_request(work, small), history.items_request(work, olds)):
            size = len(json.dumps(each, ensure_ascii=False).encode())
            assert 30_000 < size < 28_000 * 3.52


def answers(keep_whole: float, focus: str, p: float, *chunks: float, **more: float) -> dict[str, Any]:
    given = {f"chunk_{n}": value for n, value in enumerate(chunks, 1)}
    return {"keep_whole": keep_whole, "focus": (focus, {focus: p, **more}), **given}


ALL = None
VERDICTS = {  # answers to keep_whole, focus and the chunks -> numbers of the chunks that stay (ALL), reason
    "the call failed": (ValueError(), ALL, "error"),
    "too late": ("timeout", ALL, "timeout"),
    "nothing answered": ({}, ALL, "no-answer"),
    "keep_whole not answered": ({"focus": ("none", {"none": 0.9})}, ALL, "no-answer"),
    "focus not answered": ({"keep_whole": 0.1}, ALL, "no-answer"),
    "focus without probabilities": ({"keep_whole": 0.1, "focus": "none"}, ALL, "no-answer"),
    "an unknown choice": (answers(0.1, "chunk_9", 0.9, 0.1), ALL, "no-answer"),
    "a probability above 1": (answers(1.2, "none", 0.9, 0.1), ALL, "no-answer"),
    "a probability that is no number": (answers(float("nan"), "none", 0.9, 0.1), ALL, "no-answer"),
    "a choice with a probability that is no number": (answers(0.1, "none", float("nan"), 0.1), ALL, "no-answer"),
    "keep_whole at its threshold": (answers(0.7, "none", 0.9, 0.1, 0.1), ALL, "whole-needed"),
    "keep_whole just below": (answers(0.69, "none", 0.9, 0.1, 0.1), [], "none-needed"),
    "whole chosen surely": (answers(0.4, "whole", 0.9, 0.9, 0.1), ALL, "whole-chosen"),
    "whole chosen at its threshold": (answers(0.4, "whole", 0.6, 0.9, 0.1), ALL, "whole-chosen"),
    "whole chosen weakly, one chunk needed": (answers(0.4, "whole", 0.43, 0.1, 0.96), [2], "chunks"),
    "whole chosen weakly, nothing needed": (answers(0.4, "whole", 0.45, 0.1, 0.1), ALL, "whole-chosen"),
    "the named chunk stays whatever its own answer": (answers(0.4, "chunk_1", 0.5, 0.1, 0.8), [1, 2], "chunks"),
    "a chunk at its threshold": (answers(0.4, "chunk_1", 0.5, 0.1, 0.6, 0.59), [1, 2], "chunks"),
    "none, nothing needed": (answers(0.1, "none", 0.6, 0.1, 0.2), [], "none-needed"),
    "none at its threshold": (answers(0.1, "none", 0.5, 0.1, 0.2), [], "none-needed"),
    "none surely, but a chunk needed": (answers(0.1, "none", 0.9, 0.1, 0.95), [2], "chunks"),
    "none weakly: the best chunk of the focus": (answers(0.1, "none", 0.4, 0.1, 0.1, chunk_2=0.35), [2], "chunks"),
    "none weakly, all even: the first": (answers(0.1, "none", 0.4, 0.1, 0.1), [1], "chunks"),
    "a chunk not answered stays": ({**answers(0.1, "none", 0.9), "chunk_2": 0.1}, [1], "chunks"),
    "a chunk answered with no number stays": (answers(0.1, "none", 0.9, float("nan"), 0.1), [1], "chunks"),
    "a chunk answered with a word stays": ({**answers(0.1, "none", 0.9, 0.1), "chunk_2": "no"}, [2], "chunks"),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_segment_is_judged_in_the_order_of_the_reference(case):
    given, kept, reason = VERDICTS[case]
    count = max(2, len([name for name in given if name.startswith("chunk_")])) if isinstance(given, dict) else 2
    labels = [f"chunk_{n}" for n in range(1, count + 1)]
    verdict = history.interpret(given, labels, SAME)
    assert verdict == (kept if kept is None else frozenset(f"chunk_{n}" for n in kept), reason)


# The measured tables of the reference: (numbers seen) -> what must follow with the default thresholds.
PROBES = {
    "an answer that cited 4 files: chunks 0.90 to 0.93 against noise of 0.14 to 0.43, whole 0.41": (
        answers(0.39, "chunk_1", 0.58, 0.93, 0.9, 0.91, 0.92, 0.14, 0.43, whole=0.41),
        [1, 2, 3, 4],
    ),
    "broad search, first wording, whole 0.73: nothing goes": (answers(0.4, "whole", 0.73, 0.9, 0.2), ALL),
    "broad search, second wording, key chunk 0.81, whole 0.10": (
        answers(0.4, "chunk_1", 0.81, 0.9, 0.2, whole=0.1),
        [1],
    ),
    "an explained file, whole 0.50: the chunks decide": (answers(0.4, "whole", 0.5, 0.9, 0.2), [1]),
    "a narrow read, the right chunk 0.74": (answers(0.4, "chunk_2", 0.74, 0.2, 0.5), [2]),
    "no history: what earlier work needs has 0.13 to 0.33": (answers(0.2, "chunk_1", 0.8, 0.9, 0.13, 0.33), [1]),
    "history in the sent wording: 0.37 to 0.64": (answers(0.2, "chunk_1", 0.8, 0.9, 0.37, 0.64), [1, 3]),
    "history in the sent wording, unrelated: 0.20 to 0.35": (answers(0.2, "chunk_1", 0.8, 0.9, 0.2, 0.35), [1]),
}
ITEM_PROBES = {
    "small": (
        "item",
        {
            0.74: "needed",
            0.59: "needed",
            0.48: "needed",
            0.45: "needed",
            0.41: "not-needed",
            0.32: "not-needed",
            0.06: "not-needed",
        },
    ),
    "exchange": (
        "exchange",
        {0.96: "relevant", 0.68: "relevant", 0.47: "relevant", 0.2: "relevant", 0.1: "unrelated", 0.03: "unrelated"},
    ),
}


@pytest.mark.parametrize("case", PROBES)
def test_with_the_measured_probabilities_the_chunks_of_the_reference_stay(case):
    given, kept = PROBES[case]
    labels = [name for name in given if name.startswith("chunk_")]
    verdict, _ = history.interpret(given, labels, SAME)
    assert verdict == (kept if kept is None else frozenset(f"chunk_{n}" for n in kept))
    assert history.interpret(given, labels, SAME, True)[0] == verdict  # in a running task the same threshold


@pytest.mark.parametrize("kind", ITEM_PROBES)
def test_with_the_measured_probabilities_the_items_of_the_reference_stay(kind):
    name, table = ITEM_PROBES[kind]
    items = [item_of("x" * 2000, kind=kind, state={"size": "9 messages"} if kind == "exchange" else {}) for _ in table]
    given = {f"{name}_{n}": p for n, p in enumerate(table, 1)}
    done = list(history._whole_items(items, given, SAME))
    assert [it.reason for it in done] == list(table.values())
    assert [it.text is not None for it in done] == [reason in ("not-needed", "unrelated") for reason in table.values()]
    for failed, reason in (("timeout", "timeout"), (ValueError(), "error"), ({}, "no-answer")):
        assert {(it.reason, it.text) for it in history._whole_items(items, failed, SAME)} == {(reason, None)}


CITED = {
    "a name before a full stop": ("lib/util.ts", "see lib/util.ts.", True),
    "an absolute path and a line": ("lib/util.ts", "at /abs/path/lib/util.ts:12", True),
    "its base name": ("lib/util.ts", "in util.ts", True),
    "another ending": ("util.ts", "util.tsx", False),
    "the end of another name": ("util.ts", "myutil.ts", False),
    "after a dash": ("session.ts", "old-session.ts", False),
    "one letter": ("a.ts", "data.ts", False),
    "a short base name": ("src/x.c", "x.c", False),
    "a short base name with its path": ("src/x.c", "src/x.c", True),
    "a pattern in the name": ("a.+b.ts", "axxb.ts", False),
}


@pytest.mark.parametrize("case", CITED)
def test_which_files_an_answer_cites(case):
    path, answer, expected = CITED[case]
    assert history.cited(path, answer) == expected


def one_run(text: str, *more: Any, tool: str = "bash", args: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A finished run with one output."""
    return chat(asks("go"), does("c1", tool, args or {"command": "make"}, text), *more, tells("Done."))


def test_a_gap_of_one_line_is_one_line():
    edits, _ = history.distil(one_run("x" * 3000 + "\n" + ruled(200)), kept_by("chunk_2"))
    assert "\n[… 1 line omitted: output lines 1–1 …]\n" in edits[0]["replacement"]


def test_distil_keeps_the_needed_chunks_verbatim_and_says_what_it_left_out():
    text = ruled(200)
    edits, record = history.distil(one_run(text), kept_by("chunk_2"))
    lines = text.split("\n")
    got = edits[0]["replacement"].split("\n")
    assert got[0] == (
        "[context-guard] Trimmed bash `make`: kept 13/200 lines (792/12.2k chars), the rest was judged not needed"
        ' for the answer. Original: recall({"entryId": "e2"})'
    )
    assert got[1] == "[… 13 lines omitted: output lines 1–13 …]" and got[2:15] == lines[13:26]
    assert got[15:] == ["[… 174 lines omitted: output lines 27–200 …]"]
    row = record["results"][0]
    assert (row["outcome"], row["reason"], row["keptLines"], row["totalLines"], row["chunks"]) == (
        "distilled",
        "chunks",
        13,
        200,
        16,
    )
    assert record["savedChars"] == row["beforeChars"] - row["afterChars"] == len(text) - len(edits[0]["replacement"])
    assert (record["v"], record["phase"], record["run"], record["requests"]) == (1, "run-end", "e0", 1)


def test_nothing_needed_leaves_one_line():
    edits, record = history.distil(one_run(ruled(200)), answer_all(0.1))
    text = edits[0]["replacement"]
    assert text.startswith(history.MARK) and "\n" not in text and "200 lines" in text and "recall(" in text
    assert (record["results"][0]["outcome"], record["results"][0]["reason"]) == ("removed", "none-needed")


def test_a_read_is_left_out_by_the_lines_of_its_file_and_search_output_by_files():
    entries = one_run(ruled(200), tool="read", args={"path": "src/a.py", "offset": 101})
    text = history.distil(entries, kept_by("chunk_2"))[0][0]["replacement"]
    assert (
        "[… 13 lines omitted: src/a.py lines 101–113 …]" in text
        and "[… 174 lines omitted: src/a.py lines 127–300 …]" in text
    )
    note = ruled(200) + "\n\n[Showing lines 1-200 of 900. Use offset=201 to continue]"
    text = history.distil(one_run(note, tool="read", args={"path": "a"}), kept_by("chunk_2"))[0][0]["replacement"]
    assert text.endswith("[… 174 lines omitted: a lines 27–200 …]")  # the host's note is no line of the file
    text = history.distil(one_run("\n".join(grep_lines(8, 17))), kept_by("chunk_1"))[0][0]["replacement"]
    assert text.endswith(
        "[… 119 lines omitted: src/f01.ts, src/f02.ts, src/f03.ts, src/f04.ts, src/f05.ts and 2 more …]"
    )


def broken(state: Any, questions: Any, timeout: float) -> Any:
    raise RuntimeError("down")


FAILED_CHECKPOINTS = {
    "it raises": (broken, "error"),
    "it answers with nothing": (lambda *_: None, "error"),
    "it answers with a list": (lambda *_: [1], "error"),
    "it answers no question": (lambda *_: {}, "no-answer"),
    "it answers with words": (lambda state, questions, _: dict.fromkeys(questions, "yes"), "no-answer"),
    "it answers out of bounds": (lambda state, questions, _: dict.fromkeys(questions, 7.0), "no-answer"),
    "it answers with what is no JSON": (
        lambda state, questions, _: {**dict.fromkeys(questions, 1j), (1,): 1}, "no-answer"),
    "it wants everything": (answer_all(0.9), "all-chunks"),
    "it is sure of the whole": (lambda *_: {"keep_whole": 0.9, "focus": ("none", {"none": 1.0})}, "whole-needed"),
}


@pytest.mark.parametrize("case", FAILED_CHECKPOINTS)
def test_a_classifier_that_fails_keeps_everything(case):
    ask, reason = FAILED_CHECKPOINTS[case]
    big = [does(f"c{n}", "bash", {"command": f"n{n}"}, ruled(200, word=f"w{n}")) for n in range(3)]
    old = [[asks(f"u{n}"), does(f"o{n}", "bash", {"command": "x"}, ruled(99)), tells("ok")] for n in range(4)]
    entries = chat(*old, asks("go"), *big, tells("Done."))
    edits, record = history.distil(entries, ask)
    assert edits == [] and record["savedChars"] == 0 and record["requests"] == 4
    assert {row["reason"] for row in record["results"] if row["kind"] == "large"} == {reason}
    assert {row["outcome"] for row in record["results"]} == {"kept"}
    assert json.loads(json.dumps(record)) == record  # it can be stored, whatever was answered


def test_most_kept_is_not_worth_an_edit_and_too_little_is_not_asked_about():
    entries = one_run(ruled(200))
    edits, record = history.distil(entries, kept_by(*(f"chunk_{n}" for n in range(1, 12))))
    assert edits == [] and record["results"][0]["reason"] == "not-worth"
    assert history.distil(entries, broken, min_run_chars=20_000) == ([], {})
    assert history.distil(one_run("x" * 399), broken) == ([], {})
    assert history.distil(chat(tells("nobody asked")), broken) == ([], {})


def test_one_huge_line_is_never_sent_and_stays():
    asked = []

    def ask(state, questions, timeout):
        asked.append(state)
        return {**dict.fromkeys(questions, 0.1), **SURE}

    edits, record = history.distil(one_run("x" * 40_000), ask)
    assert (edits, record, asked) == ([], {}, [])
    text = ruled(20) + "\n" + "y" * 40_000 + "\n" + ruled(400, word="z")
    edits, record = history.distil(one_run(text, args={"command": "m"}), ask, max_keep_ratio=1.0)
    assert "y" * 40_000 in edits[0]["replacement"] and not any("y" * 900 in str(state["chunks"]) for state in asked)
    assert record["results"][0]["jev"].count(None) == 1 and len(asked) == 2 == record["requests"]


def test_a_failed_segment_keeps_its_chunks_and_the_others_count():
    def ask(state, questions, timeout):
        if "part 1" in state["output_size"]:
            raise OSError("gone")
        return {**dict.fromkeys(questions, 0.1), **SURE}

    text = ruled(1000)
    edits, record = history.distil(one_run(text), ask, max_keep_ratio=0.9)
    assert edits[0]["replacement"].split("\n")[1:-1] == text.split("\n")[:520]  # the 40 chunks of the first segment
    assert record["results"][0]["reason"] == "chunks" and record["requests"] == 2


def test_cited_files_stay_if_asked_for():
    entries = chat(
        asks("go"), does("c1", "bash", {"command": "rg"}, "\n".join(grep_lines(8, 17))), tells("It is in f03.ts.")
    )
    plain = history.distil(entries, kept_by("chunk_1"))[0][0]["replacement"]
    cited = history.distil(entries, kept_by("chunk_1"), keep_cited_files=True)[0][0]["replacement"]
    assert "src/f03.ts:1:" not in plain and "src/f03.ts:17:" in cited and "src/f04.ts:1:" not in cited


def test_two_hundred_outputs_and_a_slow_classifier_end_within_the_budget():
    flying, most, now, lock = 0, 0, 0.0, threading.Lock()

    def slow(state, questions, timeout):  # 300 ms on the clock of the test, six at a time: 160 calls in the 8 s
        nonlocal flying, most, now
        with lock:
            flying += 1
            most = max(most, flying)
        time.sleep(0.002)
        with lock:
            flying -= 1
            now += 0.3 / 6
        return {**dict.fromkeys(questions, 0.1), **SURE}

    big = [does(f"c{n}", "bash", {"command": f"n{n}"}, ruled(100, word=f"w{n}")) for n in range(200)]
    edits, record = history.distil(chat(asks("go"), *big, tells("Done.")), slow, clock=lambda: now)
    assert record["timedOut"] is True and 1 < most <= 6 and 8000 <= record["ms"] <= 8300
    edited = {row["entryId"] for row in record["results"] if row["outcome"] == "removed"}
    assert {edit["targetId"] for edit in edits} == edited and 150 <= len(edited) <= record["requests"] <= 166
    assert {row["reason"] for row in record["results"] if row["entryId"] not in edited} == {"timeout"}
    started = record["requests"] * 0.3 / 6
    for _ in range(800):  # up to 8 s for the calls under way, on a busy machine
        time.sleep(0.01 * (flying > 0))
    assert (flying, round(now, 6)) == (0, round(started, 6))  # what waited at the deadline never started


def test_the_budget_counts_from_the_beginning_of_the_pass():
    asked: list[Any] = []

    def ask(state, questions, timeout):
        asked.append(timeout)
        return {**dict.fromkeys(questions, 0.1), **SURE}

    times = itertools.chain([0.0], itertools.repeat(7.5))  # cutting the outputs into pieces took 7.5 s
    record = history.distil(one_run(ruled(300)), ask, clock=lambda: next(times), cold=True)[1]
    assert asked == [0.5] and record["ms"] == 7500
    times = itertools.chain([0.0], itertools.repeat(8.0))
    assert history.distil(one_run(ruled(300)), ask, clock=lambda: next(times), cold=True) == ([], {})
    assert len(asked) == 1


def test_a_classifier_that_hangs_holds_nobody():
    release = threading.Event()
    entries = chat(
        asks("go"), *(does(f"c{n}", "bash", {"command": f"n{n}"}, ruled(100)) for n in range(4)), tells("Done.")
    )

    def hangs(state, questions, timeout):
        if "n0" in state["tool_arguments"]:
            return {**dict.fromkeys(questions, 0.1), **SURE}
        release.wait(30)
        return {}

    start = time.monotonic()
    edits, record = history.distil(entries, hangs, timeout_ms=1000, concurrency=2)
    release.set()
    assert time.monotonic() - start < 8 and [edit["targetId"] for edit in edits] == ["e2"]
    assert record["timedOut"] and record["requests"] == 3


def test_the_host_can_stop_a_pass():
    stopped = []

    def ask(state, questions, timeout):
        stopped.append(True)
        return {**dict.fromkeys(questions, 0.1), **SURE}

    entries = chat(
        asks("go"), *(does(f"c{n}", "bash", {"command": f"n{n}"}, ruled(100)) for n in range(4)), tells("Done.")
    )
    edits, record = history.distil(entries, ask, concurrency=1, stop=lambda: bool(stopped))
    assert record["requests"] == 1 and record["timedOut"] is False
    assert {row["reason"] for row in record["results"] if row["outcome"] == "kept"} == {"error"}


class Billed(dict):
    """Answers that say what they cost."""

    input_tokens, cost = 100, 0.5

    @staticmethod
    def of(ask):
        return lambda *request: Billed(ask(*request))


def test_what_the_classifier_cost_is_summed():
    entries = one_run(ruled(200), does("c2", "bash", {"command": "other"}, "x" * 900))
    record = history.distil(entries, Billed.of(answer_all(0.1)))[1]
    assert (record["requests"], record["inputTokens"], record["costUsd"]) == (2, 200, 1.0)


def test_a_second_pass_finds_only_what_the_first_left():
    entries = one_run(ruled(200), does("c2", "bash", {"command": "b"}, ruled(200, word="y")))
    edits, record = history.distil(entries, kept_by("chunk_2"))
    assert len(edits) == 2
    assert history.distil(entries, broken, edits=edits, records=[record]) == ([], {})
    again, _ = history.distil(entries, kept_by("chunk_2"))  # drafts that nobody committed: the same bytes again
    assert again == edits


def old_talks(count: int, size: int = 9000, tail: Any = ()) -> list[dict[str, Any]]:
    """Exchanges u1, u2, … and a last run."""
    talks = [
        [asks(f"u{n}"), does(f"o{n}", "bash", {"command": f"n{n}"}, "x" * size), tells(f"a{n}")]
        for n in range(1, count + 1)
    ]
    return chat(*talks, asks("now"), *tail, tells("Done."))


def test_old_exchanges_become_a_note_at_their_prompt():
    entries = old_talks(5, 50_000)
    edits, record = history.distil(entries, kept_by("exchange_2"), cold=True)
    assert [(edit["targetId"], edit["replacement"] is None) for edit in edits] == [
        ("e0", False),
        ("e1", True),
        ("e2", True),
        ("e3", True),
        ("e8", False),
        ("e9", True),
        ("e10", True),
        ("e11", True),
    ]
    assert (
        edits[0]["replacement"].startswith(
            "[context-guard] Omitted an earlier exchange,") and '"u1" (4 messages, about 12' in edits[0]["replacement"]
    )
    rows = {row["entryId"]: row for row in record["results"]}
    assert [(rows[name]["reason"], rows[name].get("omitted")) for name in ("e0", "e4", "e8")] == [
        ("unrelated", ["e1", "e2", "e3"]),
        ("relevant", None),
        ("unrelated", ["e9", "e10", "e11"]),
    ]
    seen = history.apply_edits(entries, edits)
    assert [entry["id"] for entry in seen] == ["e0", "e4", "e5", "e6", "e7", "e8", *(f"e{n}" for n in range(12, 22))]


ELIGIBLE = {  # exchanges before the last run, settings -> ids of the prompts that may go
    "two are recent": (old_talks(2), {}, []),
    "of four, two are old": (old_talks(4), {}, ["e0", "e4"]),
    "none are spared": (old_talks(2), {"keep_recent_exchanges": 0}, ["e0", "e4"]),
    "too small to matter": (old_talks(4, 1500), {}, []),
    "an unfinished one": (
        chat(
            asks("u"),
            CALL,
            gives("c1", "x" * 3000),
            tells("", ("c2", "bash", {}), stop_reason="aborted"),
            asks("now"),
            tells("k"),
        ),
        {"keep_recent_exchanges": 0},
        [],
    ),
    "one that is ours already": (
        chat(asks(history.MARK + " Omitted"), tells("x" * 3000), asks("now"), tells("k")),
        {"keep_recent_exchanges": 0},
        [],
    ),
    "a summary without a prompt": (
        chat({"role": "summary", "content": "x" * 3000}, tells("x" * 3000), asks("now"), tells("k")),
        {"keep_recent_exchanges": 0},
        [],
    ),
}


@pytest.mark.parametrize("case", ELIGIBLE)
def test_which_exchanges_may_go(case):
    entries, given, expected = ELIGIBLE[case]
    s = history.settings_of(history.GUARD_SETTINGS, given)
    got = history._exchanges(entries, entries, history.find_run(entries).start, s)
    assert [item.id for item in got] == expected
    for item in got:
        foreign = history.apply_edits(entries, [{"targetId": item.rest[0], "replacement": "changed by others"}], True)
        left = history._exchanges(entries, foreign, history.find_run(entries).start, s)
        assert [other.id for other in left] == [name for name in expected if name != item.id]


def test_a_message_that_steered_goes_with_its_exchange_and_system_messages_stay():
    entries = chat(
        asks("u1"),
        CALL,
        gives("c1", "x" * 5000),
        asks("and this"),
        {"role": "system", "content": "s"},
        tells("a1"),
        asks("now"),
        tells("Done."),
    )
    edits, _ = history.distil(entries, answer_all(0.1), cold=True, keep_recent_exchanges=0, exchange_min_saving_chars=0)
    assert [edit["targetId"] for edit in edits] == ["e0", "e1", "e2", "e3", "e5"]
    assert [entry["id"] for entry in history.apply_edits(entries, edits)] == ["e0", "e4", "e6", "e7"]


def test_a_summary_of_what_was_compacted_is_no_exchange_and_stays():
    asked: list[Any] = []
    summary = {**asks("So far: X." + "x" * 3000), "compacted": True}
    entries = chat(asks("u1"), tells("a" * 3000), summary, tells("b" * 3000), asks("now"), tells("Done."))
    edits, _ = history.distil(
        entries, lambda state, *rest: asked.append(state) or answer_all(0.1)(state, *rest), cold=True,
        keep_recent_exchanges=0, exchange_min_saving_chars=0)
    assert [(edit["targetId"], edit["replacement"] is None) for edit in edits] == [
        ("e0", False),
        ("e1", True),
        ("e3", True),
    ]
    earlier = asked[0]["earlier_conversation"]
    assert earlier["summary"].startswith("So far: X.") and len(earlier["recent_exchanges"]) == 1
    text = history.recall_entry(entries, "e0")
    assert "## summary\nSo far" in text and text.endswith("b" * 3000)


def test_exchanges_wait_until_they_pay():
    later = [does("z", "bash", {"command": "big"}, "\n".join(["z" * 100] * 3900))]
    early = old_talks(3, 20_000, later)
    edits, record = history.distil(early, answer_all(0.05), small_result_min_chars=0, min_run_chars=10_000_000)
    assert edits == [] and [row["reason"] for row in record["results"]] == ["deferred"]
    again = history.distil(
        early, answer_all(0.05), small_result_min_chars=0, min_run_chars=10_000_000, records=[record]
    )[1]
    assert again["results"][0]["reason"] == "deferred"  # what was deferred is judged again
    for more in ({"exchange_break_even": False}, {"cold": True}):
        assert history.distil(early, answer_all(0.05), min_run_chars=10_000_000, **more)[0]
    few = old_talks(3, 5000, [tells("hm")] * 300)
    assert (
        history.distil(few, answer_all(0.05), min_run_chars=10_000_000)[0] == []
    )  # 5,000 characters are under the least
    assert history.distil(old_talks(4, 5000, [tells("hm")] * 300), answer_all(0.05), min_run_chars=10_000_000)[0]


def test_on_a_provider_that_reads_all_anew_exchanges_ride_along_with_another_edit():
    entries = old_talks(3, 20_000, [does("z", "bash", {"command": "big"}, ruled(2000))])
    with_edit = history.distil(entries, answer_all(0.05), prices="openai-codex")[0]
    alone = history.distil(entries, answer_all(0.05), prices="openai-codex", min_run_chars=10_000_000)[0]
    assert "e0" in {edit["targetId"] for edit in with_edit} and alone == []


def test_an_exchange_judged_in_this_run_is_not_asked_about_again():
    entries = old_talks(4)
    record = history.distil(entries, answer_all(0.9))[1]
    assert [row["reason"] for row in record["results"]] == ["relevant", "relevant"]
    assert history.distil(entries, broken, records=[record]) == ([], {})
    more = [*entries, {"id": "n1", **asks("next")}, {"id": "n2", **tells("ok")}]
    assert len(history.distil(more, broken, records=[record])[1]["results"]) == 3  # a new run asks again


# prices (write, read), share -> factor; the reference works with 13, 16, 34, 27 and 56
FACTORS = {(1.0, 0.1): 12.86, (1.25, 0.1): 16.43, (1.25, 0.05): 34.29, (2.0, 0.1): 27.14, (2.0, 0.05): 55.71}


def test_break_even():
    for (write, read), factor in FACTORS.items():
        assert round(history.break_even_factor(write, read), 2) == factor
    assert round(history.break_even_factor(1.0, 0.1, 1.0), 2) == 9.0
    assert history.pays_off(60_000, 20, 90_000, 13) and not history.pays_off(60_000, 20, 90_000, 16)
    assert history.pays_off(60_000, 0, 1000, 16) and not history.pays_off(72_000, 9, 144_000, 16)


def working(count: int, size: int, more: int = 0) -> list[dict[str, Any]]:
    """A running task: outputs of that size, then turns that say nothing."""
    steps = [does(f"c{n}", "bash", {"command": f"n{n}"}, f"{n}".ljust(size, "x")) for n in range(count)]
    return chat(asks("go"), *steps, *[does(f"m{n}", "bash", {"command": f"m{n}"}, "ok") for n in range(more)])


def test_a_checkpoint_judges_what_is_four_turns_old_once_enough_waits_and_it_pays():
    entries = working(10, 12_000, 40)
    edits, record = history.checkpoint(entries, answer_all(0.1))
    assert len(edits) == 10 and record["phase"] == "mid-run"
    assert history.checkpoint(working(10, 12_000, 1), answer_all(0.1), mid_run_break_even=False)[1]["requests"] == 7
    assert history.checkpoint(working(10, 12_000, 0), answer_all(0.1)) == (
        [],
        {},
    )  # 72,000 wait, 10 turns: it does not pay
    assert history.checkpoint(working(4, 12_000, 40), answer_all(0.1)) == ([], {})  # under 60,000 characters
    assert history.checkpoint(entries, answer_all(0.1), mid_run=False) == ([], {})
    failed = history.checkpoint(entries, broken)[1]
    assert len(history.checkpoint(entries, broken, records=[failed])[1]["results"]) == 10  # what failed is asked again
    kept = history.checkpoint(entries, answer_all(0.9))[1]
    assert history.checkpoint(entries, broken, records=[kept]) == ([], {})  # what was judged is not
    assert (
        history.distil([*entries, {"id": "z", **tells("Done.")}], broken, records=[kept])[1]["requests"] == 10
    )  # at the end it is


def test_a_checkpoint_leaves_recalled_text_alone():
    entries = working(10, 12_000, 40)
    for entry in entries:
        for call in entry.get("calls", ()):
            call["tool"] = "mcp__jevlens__recall"
    assert history.checkpoint(entries, answer_all(0.1)) == ([], {})
    assert len(history.distil([*entries, {"id": "z", **tells("Done.")}], answer_all(0.1))[0]) == 10


def test_what_was_left_out_comes_back_by_recall():
    entries = old_talks(4, 20_000, [does("z", "bash", {"command": "big"}, ruled(400))])
    edits, record = history.distil(entries, answer_all(0.05), cold=True)
    last = next(row["entryId"] for row in record["results"] if row["kind"] == "large")
    assert history.recall_entry(entries, last) == ruled(400)
    text = history.recall_entry(entries, "e4")
    assert text.startswith(
        '## user\nu2\n\n## assistant\n[tool call] bash {"command":"n2"}\n\n## tool result (tool)\nxxx'
    )
    assert "u3" not in text
    left = next(row["omitted"] for row in record["results"] if row["entryId"] == "e4")
    with_notice = [*entries[:6], {"id": "n", "role": "system", "content": "a notice"}, *entries[6:]]
    assert "a notice" in history.recall_entry(with_notice, "e4")
    assert history.recall_entry(with_notice, "e4", records=[record]) == text and "e5" in left
    assert history.recall_entry(with_notice, last, records=[record]) == ruled(400)
    with pytest.raises(ValueError, match="e99; use an id from a note"):
        history.recall_entry(entries, "e99")


def test_recall_in_pages():
    entries = one_run("\n".join(f"line {n}" for n in range(1, 5001)))
    first = history.recall_entry(entries, "e2").split("\n")
    assert first[:2000] == [f"line {n}" for n in range(1, 2001)] and "offset=2001" in first[-1]
    assert history.recall_entry(entries, "e2", offset=4999) == "line 4999\nline 5000"
    assert history.recall_entry(entries, "e2", pattern="line 499", limit=2).split("\n")[:2] == [
        "499: line 499",
        "4990: line 4990",
    ]
    assert history.recall_entry(entries, "e2", pattern="nowhere") == "no match in 5000 lines"
    assert history.recall_entry(entries, "e2", offset=5001) == "5000 lines; this is past the end"
    assert history.recall_entry(entries, "e2", offset=0, limit=1).startswith("line 1\n\n[lines 1 to 1 of 5000;")


def test_a_page_of_recall_has_fifty_kib_of_utf8():
    wide = history.recall_entry(one_run("a" + "é" * 60_000 + "\nend"), "e2")  # 120 kB in one line
    line, _, note = wide.partition(" [… the line goes on]")
    assert line == "a" + "é" * 25_599 and note == "\n\n[lines 1 to 1 of 2; go on with offset=2]"
    rows = ["é" * 50] * 1000  # 101 bytes each with its end: 506 of them fit into 51,200
    page = history.recall_entry(one_run("\n".join(rows)), "e2")
    assert page == "\n".join(rows[:506]) + "\n\n[lines 1 to 506 of 1000; go on with offset=507]"
    whole = "x" * 51_199 + "é"
    assert history.recall_entry(one_run("x" * 51_200), "e2") == "x" * 51_200
    assert history.recall_entry(one_run(whole), "e2") == "x" * 51_199 + " [… the line goes on]"  # é is not cut in two
    assert history.recall_entry(one_run("a\ud800b"), "e2") == "a\\ud800b"  # always text that can be sent


FOUND = {  # pattern -> what the search of jevlens finds in three lines
    "a regex": (r"/n[o0]pe|tw\w/", "2: Two"),
    "a text in any case": ("THREE", "3: three"),
    "a regex without a hit": ("/four$/", "no match in 3 lines"),
}


@pytest.mark.parametrize("case", FOUND)
def test_recall_searches_as_its_caller_says(case):
    pattern, expected = FOUND[case]
    entries = one_run("one\nTwo\nthree")
    assert history.recall_entry(entries, "e2", pattern=pattern, search=jevlens.search) == expected
    assert history.recall_entry(entries, "e2", pattern=pattern) == "no match in 3 lines"  # by default a plain text


def test_patterns_of_recall_have_limits():
    entries = one_run("a" * 30 + "!\n" + "x" * 3999 + "yz\nyz")
    assert history.recall_entry(entries, "e2", pattern="y" * 500) == "no match in 3 lines"
    with pytest.raises(ValueError, match="at most 500 characters"):
        history.recall_entry(entries, "e2", pattern="y" * 501)
    for pattern, search in (("yz", None), ("/yz/", jevlens.search)):  # not beyond the 4,000th character of a line
        assert history.recall_entry(entries, "e2", pattern=pattern, search=search) == "3: yz"
    start = time.monotonic()
    with pytest.raises(jevlens.JevlensError, match="one second"):
        history.recall_entry(entries, "e2", pattern="/(a+)+$/", search=jevlens.search)
    assert time.monotonic() - start < 10  # a second of its own, and the start of a child on a busy machine


def test_statistics_count_what_our_edits_keep_out():
    entries = old_talks(4, 50_000, [does("z", "bash", {"command": "big"}, ruled(400)), looks(3)])
    edits, record = history.distil(entries, Billed.of(answer_all(0.05)), cold=True)
    got = history.statistics(entries, edits, [record, {**record, "v": 2}])  # another version is not ours
    assert {name: got[name] for name in ("items", "distilled", "images", "exchanges")} == {
        "items": 4, "distilled": 1, "images": 1, "exchanges": 2}  # fmt: skip
    for name in ("savedChars", "requests", "inputTokens", "costUsd"):
        assert got[name] == record[name] > 0
    assert got["saved"] == record["savedChars"] and got["compacted"] is False
    assert got["status"] == f"−{history.format_chars(round(got['saved'] / 4))} · 4 items"
    nothing = history.statistics(entries, [{"targetId": "e2", "replacement": "by others"}], [])
    assert (nothing["items"], nothing["saved"], nothing["status"]) == (0, 0, "0 saved")


def test_after_a_compaction_statistics_tell_what_is_saved_now_and_what_was_ever():
    entries = old_talks(4, 50_000)
    edits, record = history.distil(entries, answer_all(0.05), cold=True)
    entries += [{"id": "s", **asks("So far."), "compacted": True}, {"id": "p", **asks("more")}]
    got = history.statistics(entries, edits, [record])
    assert (got["saved"], got["items"], got["compacted"]) == (0, 0, True)  # what stood before is seen no more
    assert got["status"] == f"0 saved · Σ−{history.format_chars(round(record['savedChars'] / 4))}"
    entries += chat(*[does(f"n{n}", "bash", {"command": "again"}, ruled(200)) for n in range(2)], tells("Done."))
    for at, entry in enumerate(entries[-5:]):
        entry["id"] = f"n{at}"
    more, second = history.distil(entries, edits=edits, records=[record], cold=True)
    got = history.statistics(entries, [*edits, *more], [record, second])
    assert (got["items"], got["saved"]) == (1, len(ruled(200)) - len(more[-1]["replacement"]))
    assert got["compacted"] is True
    ever = history.format_chars(round((record["savedChars"] + second["savedChars"]) / 4))
    assert got["status"].endswith(f" · 1 item · Σ−{ever}")
    assert history.statistics(entries, more, [second])["compacted"] is False  # that one came before it saved
    del record["until"]  # as it was recorded before records had that: the run's prompt tells
    assert history.statistics(entries, edits, [record])["compacted"] is True
    assert history.statistics(entries[:-7], edits, [record])["compacted"] is False


def test_a_record_counts_the_results_of_the_run_and_the_answers_on_each():
    short, own = does("c2", "bash", {"command": "ls"}, "a"), does("c3", "edit", ANY, "x" * 5000)
    image = does("c4", "browser", {}, "")
    image[1]["content"] = [SHOT]
    ours = does("c5", "bash", {"command": "old"}, history.MARK + "x" * 5000)
    entries = chat(asks("old"), does("c0", "bash", {"command": "o"}, ruled(99)), tells("k"), asks("go"),
                   does("c1", "bash", {"command": "make"}, ruled(1000)), short, own, image, ours, tells("Done."))

    def ask(state, questions, timeout):
        if "part 1" in state["output_size"]:
            raise OSError("gone")
        return {**dict.fromkeys(questions, 0.1), **SURE}

    record = history.distil(entries, ask)[1]
    assert (record["toolResults"], record["requests"], record["until"]) == (5, 2, entries[-1]["id"])
    assert [(row["label"], row["requests"]) for row in record["results"]] == [("bash `make`", 1)]  # one of two answered
    small = one_run("x" * 900, does("c2", "bash", {"command": "b"}, "y" * 900))
    rows = history.distil(small, answer_all(0.9))[1]["results"]
    assert [row["requests"] for row in rows] == [1, 1]  # they shared it
    assert [row["requests"] for row in history.distil(small, broken)[1]["results"]] == [0, 0]


def test_what_is_shorter_than_its_note_is_not_asked_about():
    command = {"command": "x" * 90}
    entries = one_run("y" * 150, does("c2", "bash", command, "z" * 400), args=command)
    asked: list[Any] = []

    def ask(state, questions, timeout):
        asked.append([item["output"] for item in state["items"].values()])
        return dict.fromkeys(questions, 0.1)

    edits, _ = history.distil(entries, ask, small_result_min_chars=100)
    note = edits[0]["replacement"]
    assert asked == [["z" * 400]] and 150 < len(note) < 400
    assert history.distil(one_run("y" * len(note), args=command), broken, small_result_min_chars=1) == ([], {})
    assert history.distil(one_run("y" * (len(note) + 1), args=command), broken, small_result_min_chars=1)[1]


def test_a_late_answer_is_ignored():
    release, done = threading.Event(), threading.Event()

    def ask(state, questions, timeout):
        release.wait(30)
        done.set()
        return Billed({**dict.fromkeys(questions, 0.1), **SURE})

    edits, record = history.distil(one_run(ruled(200)), ask, timeout_ms=500)
    before = json.dumps([edits, record])
    release.set()
    assert done.wait(10)
    time.sleep(0.02)
    assert json.dumps([edits, record]) == before and edits == []
    assert (record["requests"], record["inputTokens"], record["costUsd"], record["timedOut"]) == (1, 0, 0, True)
    assert record["results"][0]["reason"] == "timeout"


def test_all_kinds_share_one_pool_of_calls():
    flying, most, kinds, lock = 0, 0, set[str](), threading.Lock()

    def ask(state, questions, timeout):
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
            kinds.update({"chunks", "items", "exchanges"} & set(state))
        time.sleep(0.01)
        with lock:
            flying -= 1
        return {**dict.fromkeys(questions, 0.9), **SURE}

    big = [does(f"c{n}", "bash", {"command": f"n{n}"}, ruled(100)) for n in range(4)]
    small = [does(f"s{n}", "bash", {"command": f"s{n}"}, "x" * 3000) for n in range(12)]
    record = history.distil(old_talks(14, 9000, [big, small]), ask, concurrency=2, max_chunks_per_segment=10)[1]
    assert most == 2 and kinds == {"chunks", "items", "exchanges"} and record["requests"] == 4 + 2 + 2


# How a host keeps its own messages and lets a pass edit them: one row a shape. `to_entries` numbers the messages, and
# `apply` puts edited texts back in their place; everything else of a message stays.
def openai_entries(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of Chat Completions messages, their positions as ids."""
    entries = []
    for i, message in enumerate(messages):
        entry = {"id": str(i), "role": message["role"], "content": message.get("content") or ""}
        entry["calls"] = [
            {"id": call["id"], "tool": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}
            for call in message.get("tool_calls", ())
        ]
        entries.append({**entry, "call_id": message.get("tool_call_id", "")})
    return entries


def openai_apply(messages: Sequence[dict[str, Any]], edits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as edited."""
    new = {edit["targetId"]: edit["replacement"] for edit in edits}
    texts = ((message, new.get(str(i), "")) for i, message in enumerate(messages))
    return [{**message, "content": text} if text else message for message, text in texts if text is not None]


def anthropic_entries(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of Messages API messages: each tool_result block is one, with its call's id in its own."""
    entries = []
    for i, message in enumerate(messages):
        blocks = (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            entries.append(
                {
                    "id": f"{i} {block['tool_use_id']}",
                    "role": "tool",
                    "call_id": block["tool_use_id"],
                    "content": block["content"],
                    "is_error": block.get("is_error", False),
                }
            )
        calls = [{"id": b["id"], "tool": b["name"], "args": b["input"]} for b in blocks if b["type"] == "tool_use"]
        texts = [block for block in blocks if block["type"] in ("text", "image")]
        if texts or calls or not results:
            entries.append({"id": str(i), "role": message["role"], "content": texts, "calls": calls})
    return entries


def anthropic_apply(messages: Sequence[dict[str, Any]], edits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as edited; a message of which nothing is left is left out."""
    new, out = {edit["targetId"]: edit["replacement"] for edit in edits}, []
    for i, message in enumerate(messages):
        if str(i) in new:
            content: Any = new[str(i)]
        elif isinstance(message["content"], str):
            content = message["content"]
        else:
            pairs = [(block, new.get(f"{i} {block.get('tool_use_id')}", "")) for block in message["content"]]
            content = [{**block, "content": text} if text else block for block, text in pairs if text is not None]
        out += [{**message, "content": content}] if content else []
    return out


def pi_entries(branch: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of a pi session branch."""
    entries = []
    for each in branch:
        message = each["message"]
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls = [{"id": b["id"], "tool": b["name"], "args": b["arguments"]} for b in blocks if b["type"] == "toolCall"]
        role = {"toolResult": "tool"}.get(message["role"], message["role"])
        text = [block for block in blocks if block["type"] in ("text", "image")] if blocks else message["content"]
        entries.append(
            {
                "id": each["id"],
                "role": role,
                "content": text,
                "calls": calls,
                "call_id": message.get("toolCallId", ""),
                "stop_reason": message.get("stopReason"),
            }
        )
    return entries


def pi_apply(branch: Sequence[dict[str, Any]], edits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The branch as the model is to see it."""
    new = {edit["targetId"]: edit["replacement"] for edit in edits}
    rows = ((each, new.get(each["id"], "")) for each in branch)
    return [
        {**each, "message": {**each["message"], "content": [{"type": "text", "text": text}]}} if text else each
        for each, text in rows
        if text is not None
    ]


def a_long_session() -> list[tuple[str, Any]]:
    """Steps of a session: old exchanges, one that was steered, repeats, parallel calls; as (kind, what)."""
    steps: list[tuple[str, Any]] = []
    for n in range(4):
        steps += [("user", f"task {n}"), ("calls", [(f"a{n}", ruled(300, word=f"w{n}")), (f"b{n}", ruled(150))])]
        steps += [("user", "and mind the tests")] * (n == 1) + [("text", f"done with {n}")]
    return [
        *steps,
        ("user", "the last task"),
        ("calls", [("a9", ruled(400)), ("b9", ruled(150))]),
        ("calls", [("c9", ruled(150))]),
        ("text", "Done."),
    ]


def as_openai() -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}]
    for kind, what in a_long_session():
        if kind == "calls":
            calls = [
                {"id": name, "type": "function", "function": {"name": "bash", "arguments": '{"command": "make"}'}}
                for name, _ in what
            ]
            out += [{"role": "assistant", "content": None, "tool_calls": calls}]
            out += [{"role": "tool", "tool_call_id": name, "content": text} for name, text in what]
        else:
            out.append({"role": "user" if kind == "user" else "assistant", "content": what})
    return out


def as_anthropic() -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for kind, what in a_long_session():
        if kind == "calls":
            uses = [{"type": "tool_use", "id": name, "name": "bash", "input": {"command": "make"}} for name, _ in what]
            out += [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, *uses]}]
            out += [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in what],
                }
            ]
        else:
            out.append({"role": "user" if kind == "user" else "assistant", "content": what})
    return out


def as_pi() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for kind, what in a_long_session():
        if kind == "calls":
            calls = [
                {"type": "toolCall", "id": name, "name": "bash", "arguments": {"command": "make"}} for name, _ in what
            ]
            messages += [{"role": "assistant", "content": calls, "stopReason": "toolUse"}]
            messages += [
                {"role": "toolResult", "toolCallId": name, "content": [{"type": "text", "text": text}]}
                for name, text in what
            ]
        else:
            messages.append(
                {"role": "user" if kind == "user" else "assistant", "content": [{"type": "text", "text": what}]}
            )
    return [{"id": f"{n:08x}", "message": message} for n, message in enumerate(messages)]


def calls_and_results(shape: str, messages: Sequence[dict[str, Any]]) -> tuple[list[str], list[str], list[Any]]:
    """Ids of the calls, ids of the results, and every content, in order."""
    if shape == "openai":
        calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        return calls, results, [message["content"] or message["tool_calls"] for message in messages]
    plain = [each["message"] for each in messages] if shape == "pi" else messages
    blocks = [block for message in plain if isinstance(message["content"], list) for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] in ("tool_use", "toolCall")]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    results += [message["toolCallId"] for message in plain if message["role"] == "toolResult"]
    return (
        calls,
        results,
        [message["content"] for message in plain] + [b.get("content", b.get("text", "-")) for b in blocks],
    )


SHAPES = {
    "openai": (as_openai, openai_entries, openai_apply),
    "anthropic": (as_anthropic, anthropic_entries, anthropic_apply),
    "pi": (as_pi, pi_entries, pi_apply),
}
WAYS = {
    "by rule": ({"cold": True}, None),
    "judged, nothing needed": ({"cold": True}, answer_all(0.05)),
    "judged, some chunks needed": (
        {"cold": True, "keep_recent_exchanges": 0},
        kept_by("chunk_3", "chunk_9", "exchange_2"),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_every_call_keeps_its_result_and_nothing_is_empty_or_moves(shape, way):
    make, to_entries, apply = SHAPES[shape]
    given, ask = WAYS[way]
    messages = make()
    before = json.dumps(messages)
    edits, record = history.distil(to_entries(messages), ask, **given)
    seen = apply(messages, edits)
    assert edits and json.dumps(messages) == before
    assert len(json.dumps(seen)) <= len(before) - 0.9 * record["savedChars"]
    calls, results, contents = calls_and_results(shape, seen)
    assert sorted(calls) == sorted(results) and all(contents)
    all_calls = calls_and_results(shape, messages)[0]
    assert [name for name in all_calls if name in calls] == calls
    if ask is None:
        assert calls == all_calls and len(seen) == len(messages)
    kept = [each for each in seen if each in messages]
    assert [each for each in messages if each in kept] == kept  # what was not edited stands as it was, in order
    assert history.distil(to_entries(messages), ask, **given)[0] == edits


def test_a_loop_that_distils_at_the_end_of_each_run_survives_a_restart():
    session: dict[str, Any] = {"messages": [], "edits": [], "records": []}

    def send(messages):
        return {"role": "assistant", "content": f"{len(json.dumps(messages))} characters read"}

    def run(session, text, outputs):
        session["messages"] += [{"role": "user", "content": text}, *outputs]
        session["messages"].append(send(openai_apply(session["messages"], session["edits"])))
        edits, record = history.distil(
            openai_entries(session["messages"]), edits=session["edits"], records=session["records"], cold=True
        )
        session["edits"] += edits
        session["records"] += [record] if record else []

    outputs = as_openai()[2:5]
    run(session, "one", outputs)
    again = json.loads(json.dumps(outputs).replace('"a0"', '"a5"').replace('"b0"', '"b5"'))
    run(session, "two", again)
    assert [edit["targetId"] for edit in session["edits"]] == ["2", "3"]
    restarted = json.loads(json.dumps(session))
    run(restarted, "three", [])
    run(session, "three", [])
    assert restarted == session and len(session["edits"]) == 2
    first = int(session["messages"][-1]["content"].split()[0])
    assert first < len(json.dumps(session["messages"])) - 25_000


def recorded(path: pathlib.Path) -> str:
    """A session file in the schema of bench.py: a read, the same read again, a long answer."""
    log = ruled(100)
    turns: list[dict[str, Any]] = [{"role": "user", "text": "go"}]
    for name in ("c1", "c2"):
        call = {"id": name, "tool": "read", "name": "Read", "args": {"path": "a.py"}}
        turns += [{"role": "assistant", "text": "", "calls": [call]}, {"role": "tool", "call_id": name, "output": log}]
    row = {
        "id": "s1",
        "agent": "x",
        "group": "g",
        "task": "go",
        "turns": [*turns, {"role": "assistant", "text": "Done.", "calls": []}],
    }
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return str(path)


def test_the_command_says_what_it_would_leave_out(tmp_path, capsysbinary, monkeypatch):
    path = recorded(tmp_path / "s.jsonl")
    before = pathlib.Path(path).read_bytes()
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "data"))
    assert jevlens.main(["distil", path, "--dry-run"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert ("superseded" in text or "repeated" in text) and "paysAfterCalls" in text and "anthropic" in text
    assert jevlens.main(["distil", path, "--dry-run", "--json"]) == 0
    (row,) = json.loads(capsysbinary.readouterr().out)
    assert len(row["edits"]) == 1 and row["record"]["requests"] == 0 and row["savedTokens"] > 1000
    assert row["rewriteTokens"] > 1000 and str(row["savedTokens"]) in text and str(row["rewriteTokens"]) in text
    assert row["paysAfterCalls"]["openai"] < row["paysAfterCalls"]["anthropic"]
    assert "openai-codex" not in row["paysAfterCalls"]  # an edit costs it all of the session, wherever it is
    assert pathlib.Path(path).read_bytes() == before
    (tmp_path / "odd.txt").write_text("no session")
    assert jevlens.main(["distil", str(tmp_path / "odd.txt")]) == 1
    assert b"no format of a recorded session" in capsysbinary.readouterr().err


def test_a_client_of_system_one_answers_a_pass_and_gets_no_key_that_stands_in_an_output():
    states: list[Any] = []

    class Client:
        def ask(self, state, questions, timeout):
            states.append(state)
            odds = {name: 0.0 for name in questions.get("focus", {}).get("criteria", ())}
            given = {name: jevlens.Answer("noul", noul=0.1) for name in questions}
            if odds:
                given["focus"] = jevlens.Answer("choice", choice="none", probabilities={**odds, "none": 1.0})
            got = jevlens.Answers(given)
            got.input_tokens = 70
            got.cost = 0.25
            return got

    text = ruled(200) + "\nkey = sk-ant-api03-" + "A" * 40
    edits, record = history.distil(one_run(text), jevlens.plain_ask(Client()))
    assert record["results"][0]["reason"] == "none-needed" and len(edits) == 1
    assert (record["inputTokens"], record["costUsd"]) == (70, 0.25)
    assert "A" * 40 not in json.dumps(states) and "masked" in json.dumps(states)


def test_questions_and_states_are_what_system_one_takes():
    requests = [
        history.segment_request(work, item_of(ruled(200)), history.chunk_output(ruled(200)))
        for work in (work_of(earlier=BEFORE), work_of(True))
    ]
    requests.append(history.items_request(work_of(), [item_of("x" * 900, kind="small")]))
    for state, questions in requests:
        assert jevlens.build_request(state, questions, "jev-latest")


def test_a_replay_prices_calls_by_what_the_cache_still_has_and_counts_harm():
    log, other = ruled(100), ruled(100, word="other_name_1")
    turns: list[dict[str, Any]] = [{"role": "user", "text": "go"}]
    for name, text in (("c1", log), ("c2", other), ("c3", log)):
        call = {"id": name, "tool": "bash", "name": "Bash", "args": {"command": "a" if text == log else "b"}}
        turns.append({"role": "assistant", "text": "", "calls": [call]})
        turns.append({"role": "tool", "call_id": name, "output": text, "is_error": False})
    turns += [{"role": "assistant", "text": "Done.", "calls": []}, {"role": "user", "text": "more"}]
    turns += [{"role": "assistant", "text": said, "calls": []} for said in ("x line 7", log.split("\n")[9])]
    row = {"id": "s", "agent": "x", "group": "g", "task": "go", "turns": turns}
    prepared = bench.prepare(row)
    sizes = [bench.entry_tokens(entry) for entry in bench.row_entries(row)]
    whole = [sum(sizes[:i]) for i, turn in enumerate(turns) if turn["role"] == "assistant"]
    fresh = [whole[0], *(after - before for before, after in zip(whole, whole[1:]))]
    for policy in ("run end", "cold run end"):
        counts = bench.Replay(row, prepared, policy, False).run()
        assert counts["recorded"] == sum(whole)
        warm = sum(10 * new + (full - new) for new, full in zip(fresh, whole))
        lost = 9 * (whole[4] - fresh[4]) if policy == "cold run end" else 0  # the pause cost the cache on both sides
        assert counts["cost of recorded"] == warm + lost
        assert counts["edits"] == (
            1 if policy == "cold run end" else 0
        )  # warm, it does not pay within an eighth of 4 turns
        assert (counts["later turns"], counts["harmed"]) == (2 * counts["edits"], 0)
    saved = counts["recorded"] - counts["sent"]
    assert saved % 2 == 0 and 1400 < saved // 2 < 1525  # of both later calls
    assert counts["cost of recorded"] - counts["cost of sent"] == (10 + 1) * saved // 2  # once plain, once cached

    harmful = {**row, "turns": [*turns[:6], {**turns[6], "output": "nothing here\n" * 300}, *turns[7:]]}
    replay = bench.Replay(harmful, bench.prepare(harmful), "cold run end", False)
    stub = {**replay.entries[4], "content": "gone"}
    replay.show(8, [*replay.entries[:4], stub, *replay.entries[5:8]])
    told = bench.Turn({"role": "assistant", "text": other.split("\n")[3]}, {})
    edits, quotes, names = replay.lost(told)
    assert (edits, quotes, names) == ([], [other.split("\n")[3].strip()], {"other_name_1"})


def ended(*_: Any) -> Any:
    raise StopIteration


@pytest.mark.parametrize("part", ("Replay.run", "Turn.__init__", "Scorer.run"))
def test_a_stop_iteration_in_a_worker_is_an_error_and_no_end_of_the_sessions(part: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(f"bench.{part}", ended)
    turns = [{"role": "user", "text": "go"}, {"role": "user", "text": "more"}]
    line = json.dumps({"id": "s", "agent": "x", "group": "g", "task": "go", "turns": turns}).encode()
    args = bench.argparse.Namespace(half="", fresh=False, engines=["full"], html="", gutter=None, settings={})
    with pytest.raises(RuntimeError, match="StopIteration"):
        bench.replay_line(line)
        bench.score_line(args, line)


# ---- images, the cache pin, switched off


def png(wide: int, high: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", wide, high) + b"\x08\x02"


def picture(data: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode(), **more}


EXIF = b"\xff\xe1\0\x14Exif\0\0\xff\xc0\0\x11\x08\0\x01\0\x01\x03xx"  # with the frame of a thumbnail in it
PICTURES = {  # the first bytes -> width and height
    "PNG": (png(1280, 800), (1280, 800)),
    "GIF": (b"GIF89a" + struct.pack("<HH", 320, 200), (320, 200)),
    "JPEG": (b"\xff\xd8" + EXIF + b"\xff\xdb\0\x04xx\xff\xc2\0\x11\x08" + struct.pack(">HH", 600, 900), (900, 600)),
    "WebP": (b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 550 | 1 << 14, 368), (550, 368)),
    "WebP without loss": (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 385 | 394 << 14), (386, 395)),
    "WebP extended": (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x8f\x01\0\x2b\x01\0", (400, 300)),
    "no image": (b"hello", (0, 0)),
    "a PNG that is cut": (png(1280, 800)[:18], (0, 0)),
    "nothing": (b"", (0, 0)),
}


@pytest.mark.parametrize("case", PICTURES)
def test_the_size_of_an_image_stands_in_its_header(case):
    data, expected = PICTURES[case]
    text = base64.b64encode(data).decode()
    for block in (picture(data), {"type": "image", "source": {"type": "base64", "data": text}},
                  {"type": "image_url", "image_url": {"url": "data:image/png;base64," + text}},
                  {"type": "input_image", "image_url": "data:image/png;base64," + text}):  # fmt: skip
        assert history.image_size(block) == expected


BLOCKS = {  # a part of a content -> characters that it counts for
    "a text": ("x" * 90, 90),
    "a block of text": ({"type": "text", "text": "x" * 90}, 90),
    "a screenshot": (picture(png(1280, 800)), 4 * 1366),
    "a dot": (picture(png(1, 1)), 4),
    "a huge image": (picture(png(9000, 9000)), 4 * 6700),
    "an image that cannot be read": ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, 4 * 1600),
    "data that is none": ({"type": "image", "data": "é~"}, 4 * 1600),
    "hidden reasoning": ({"type": "thinking", "thinking": "x" * 50, "signature": "s" * 101}, 101),
    "another block": ({"type": "document"}, len('{"type":"document"}')),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_what_a_block_weighs(case):
    block, expected = BLOCKS[case]
    assert history._weight({"content": [block]}) == expected
    call = {"tool": "bash", "args": {"command": "x"}}
    assert history._weight({"content": [block], "calls": [call]}) == expected + len('bash{"command":"x"}')


SHOT = picture(png(1280, 800))


def looks(count: int, content: Any = None) -> list[Any]:
    """Turns with a screenshot each."""
    return [
        [tells("", (f"s{n}", "browser", {"path": f"p{n}.png"})), gives(f"s{n}", content or [SHOT])]
        for n in range(count)
    ]


def test_images_go_by_age_without_a_classifier_and_their_text_stays():
    entries = chat(asks("go"), looks(5), tells("Done."))
    for ask in (None, broken):
        edits, record = history.distil(entries, ask)
        assert [edit["targetId"] for edit in edits] == ["e2", "e4", "e6"] and record["requests"] == 0
    assert edits[0]["replacement"] == (
        "[context-guard] Omitted browser p0.png (1 image, 1280×800, about 1366 tokens): 5 turns old."
        ' Original: recall({"entryId": "e2"})'
    )
    assert [(row["kind"], row["reason"]) for row in record["results"]] == [
        ("image", "5 turns old"), ("image", "4 turns old"), ("image", "3 turns old")]
    assert record["savedChars"] == sum(4 * 1366 - len(edit["replacement"]) for edit in edits)
    seen = history.apply_edits(entries, edits)
    assert [entry["id"] for entry in seen] == [entry["id"] for entry in entries] and all(map(history.flat, seen[2:7:2]))
    assert entries[2]["content"] == [SHOT]  # nothing is applied by the pass itself
    assert history.distil(entries, broken, edits=edits, records=[record]) == ([], {})
    got = history.statistics(entries, edits, [record])
    assert (got["items"], got["saved"]) == (3, record["savedChars"])
    assert history.recall_entry(entries, "e2").strip() == "[and an image: in the entry]"
    assert history.expand(entries, ["e2"])["entries"][0]["content"] == [SHOT]


def test_a_note_on_images_tells_three_sizes_and_leads_the_text_which_is_not_judged_any_more():
    many = [{"type": "text", "text": "x" * 5000}, *[SHOT] * 3, picture(png(10, 20)), {"type": "text", "text": "end"}]
    entries = chat(asks("go"), looks(1, many), [tells("hm")] * 3, tells("Done."))
    edits, record = history.distil(entries, broken)
    head, *rest = edits[0]["replacement"].split("\n")
    assert "(4 images, 1280×800, 1280×800, 1280×800, …, about 4099 tokens): 4 turns old" in head
    assert rest == ["x" * 5000, "end"] and record["requests"] == 0
    assert history.distil(entries, broken, edits=edits) == ([], {})


def test_a_note_on_images_tells_no_size_that_cannot_be_read():
    entries = chat(asks("go"), looks(4, [picture(b"no image")]), tells("Done."))
    edits, _ = history.distil(entries, broken)
    assert "Omitted browser p0.png (1 image, about 1600 tokens): 4 turns old" in edits[0]["replacement"]


AGED = {  # what is different -> ids of the results whose images go
    "kept for five turns": ({"image_keep_turns": 5}, {}, ["e2"]),
    "kept for ever": ({"image_keep_turns": 0}, {}, []),
    "out of bounds counts as not given": ({"image_keep_turns": 1001}, {}, ["e2", "e4", "e6"]),
    "the name of the reference": ({"imageKeepTurns": 4}, {}, ["e2", "e4"]),
    "the guard is off": ({"enabled": False}, {}, []),
    "somebody else changed one": ({}, {"e4": "changed"}, ["e2", "e6"]),
    "somebody else left one out": ({}, {"e4": None}, ["e2", "e6"]),
}


@pytest.mark.parametrize("case", AGED)
def test_which_images_go(case):
    given, others, expected = AGED[case]
    entries = chat(asks([SHOT, {"type": "text", "text": "go"}]), looks(5), tells("Done."))
    edits = [{"targetId": name, "replacement": text} for name, text in others.items()]
    assert [edit["targetId"] for edit in history.distil(entries, edits=edits, **given)[0]] == expected


def test_a_checkpoint_takes_old_images_along_once_they_fill_a_batch_and_pay():
    assert history.checkpoint(chat(asks("go"), looks(12)), broken) == ([], {})  # nine are old: 49,000 characters
    for ask in (None, broken):
        edits, record = history.checkpoint(chat(asks("go"), looks(30)), ask, mid_run_break_even=False)
        assert len(edits) == 27 and record["requests"] == 0
    assert len(history.checkpoint(chat(asks("go"), looks(30)), broken)[0]) == 27
    # what stands before the last question makes its cache void: the images before it wait, those after it go
    entries = chat(looks(4), tells("x" * 900_000), asks("go"), looks(30))
    assert len(history.checkpoint([{"id": "e", **asks("old")}, *entries], broken)[0]) == 27


def test_images_of_earlier_runs_wait_until_they_pay_and_go_with_their_exchange():
    entries = chat(asks("one"), looks(1), tells("x" * 30_000), asks("two"), tells("a"), tells("b"))
    assert history.distil(entries) == ([], {})
    for more in ({"cold": True}, {"exchange_break_even": False}):
        assert [edit["targetId"] for edit in history.distil(entries, **more)[0]] == ["e2"]
    old = chat(asks("u1"), looks(4), tells("a1"), asks("now"), tells("Done."))
    edits, _ = history.distil(old, answer_all(0.1), cold=True, keep_recent_exchanges=0, exchange_min_saving_chars=0)
    assert [edit["targetId"] for edit in edits] == [f"e{n}" for n in range(10)]
    assert [edit["replacement"] is None for edit in edits] == [False] + [True] * 9  # no image comes back by itself
    edits, _ = history.distil(old, answer_all(0.9), cold=True, keep_recent_exchanges=0)
    assert [edit["targetId"] for edit in edits] == ["e2", "e4", "e6"]


def test_images_of_earlier_runs_wait_without_a_record_and_need_no_least_saving():
    # 5,464 characters of an image are under the 8,000 that exchanges have to save, which are gated by themselves
    shot, tail = [tells("x" * 900), looks(1), tells("a")], [tells("hm")] * 300
    entries = chat(asks("one"), shot, asks("two"), tells("b"), asks("now"), tail, tells("Done."))
    assert [edit["targetId"] for edit in history.distil(entries, broken)[0]] == ["e3"]
    # an exchange that saves 3,000 characters is not carried over its least by an image that is sure to go anyway
    old = chat(asks("u1"), tells("y" * 3000), asks("u2"), looks(1), tells("a"), asks("now"), tail, tells("Done."))
    edits, record = history.distil(old, answer_all(0.05), keep_recent_exchanges=1)
    assert [(row["kind"], row["reason"]) for row in record["results"]] == [
        ("exchange", "deferred"), ("image", "302 turns old")]  # fmt: skip
    assert [edit["targetId"] for edit in edits] == ["e4"]
    # what has to wait stands in no record: it is found again by its age
    big = does("z", "bash", {"command": "m"}, ruled(400))
    late = chat(asks("u1"), looks(1), tells("x" * 300_000), asks("now"), big, [tells("hm")] * 3, tells("Done."))
    edits, record = history.distil(late, answer_all(0.1))
    assert [row["kind"] for row in record["results"]] == ["large"] and [each["targetId"] for each in edits] == ["e6"]
    assert record["savedChars"] == len(ruled(400)) - len(edits[0]["replacement"])


READ_POINTS = {  # what the host trusts, whether it pins, prices -> where the cache ends (index of the first new entry)
    "nothing: the question": ((), True, "anthropic", 3),
    "a result before the edit": (("e4",), True, "anthropic", 5),
    "the latest of them": (("e4", "e6"), True, "anthropic", 7),
    "one behind the edit is of no use": (("e10",), True, "anthropic", 3),
    "no pin": (("e4",), False, "anthropic", 0),
    "Codex": (("e4",), True, "openai-codex", 0),
    "an automatic cache knows itself": (("e4",), True, "openai", 8),
}


@pytest.mark.parametrize("case", READ_POINTS)
def test_behind_a_trusted_read_point_less_is_read_anew(case):
    trusted, pin, prices, start = READ_POINTS[case]
    log = ruled(100)
    small = [does(f"s{n}", "bash", {"command": f"s{n}"}, "ok") for n in range(2)]
    twice = [does(f"c{n}", "read", ANY, log) for n in range(2)]
    entries = chat(asks("one"), tells("k"), asks("two"), small, twice, tells("Done."))
    edits, record = history.distil(entries, cold=True, prices=prices, pin_anthropic_cache=pin, trusted=trusted)
    assert [edit["targetId"] for edit in edits] == ["e8"]
    assert record["rewriteChars"] == sum(map(history._weight, entries[start:])) - record["savedChars"]


def test_the_ledger_never_touches_an_image():
    entries = chat(asks("go"), looks(9), tells("Done."))
    ledger = history.Ledger("rolling", says_of(FATE))
    assert ledger.decide(entries) == 0 and ledger.apply(entries) == entries


def test_off_nothing_is_asked_and_nothing_recorded():
    assert SAME.enabled is True and SAME.pin_anthropic_cache is True
    assert (SAME.image_keep_turns, SAME.mid_run_batch_chars_openai) == (3, 60_000)
    asked: list[Any] = []
    for way in (history.distil, history.checkpoint):
        assert way(working(10, 12_000, 40), lambda *rest: asked.append(rest), enabled=False) == ([], {})
    assert asked == []
    assert history.checkpoint(working(10, 12_000, 40), asked.append, mid_run=False) == ([], {}) and asked == []
    s = history.settings_of(history.GUARD_SETTINGS, {"enabled": "no", "imageKeepTurns": 1.5, "pinAnthropicCache": 0})
    assert s.ignored == ["enabled", "imageKeepTurns", "pinAnthropicCache"]
    assert (s.enabled, s.image_keep_turns, s.pin_anthropic_cache) == (True, 3, True)
    s = history.settings_of(history.GUARD_SETTINGS, {"midRunBatchCharsOpenAI": 10_000_001})
    assert (s.mid_run_batch_chars_openai, s.ignored) == (60_000, ["midRunBatchCharsOpenAI"])


@pytest.mark.parametrize("prices", history.PRICES)
def test_openai_has_a_batch_size_of_its_own(prices):
    entries, openai = working(4, 12_000, 90), prices.startswith("openai")  # 48,000 characters wait
    for name, edited in (("mid_run_batch_chars", not openai), ("mid_run_batch_chars_openai", openai)):
        given = {"prices": prices, "mid_run_break_even": False, name: 40_000}
        assert bool(history.checkpoint(entries, answer_all(0.1), **given)[0]) == edited


REWRITTEN = {  # prices, whether the host pins, edited results -> what is read anew: all, from the question, the edit on
    "Codex": ("openai-codex", True, "late", "all"),
    "an automatic cache": ("openai", True, "late", "edit"),
    "an edit behind the pinned question": ("anthropic", True, "late", "question"),
    "an edit before it": ("anthropic", True, "early", "all"),
    "no pin": ("anthropic", False, "late", "all"),
    "no pin, an hour": ("anthropic-1h", False, "late", "all"),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_how_much_an_edit_makes_the_cache_read_anew(case):
    prices, pin, which, start = REWRITTEN[case]
    log = ruled(100)
    old, new, between = does("c0", "read", ANY, log), does("c1", "read", ANY, log), [tells("x" * 500), asks("two")]
    runs = {"early": [old, between, new], "late": [between, tells("hm"), old, new]}
    entries = chat(asks("one"), runs[which], tells("Done."))
    edits, record = history.distil(entries, cold=True, prices=prices, pin_anthropic_cache=pin)
    (edit,) = edits
    question = max(at for at, entry in enumerate(entries) if entry["role"] == "user")
    place = {"all": 0, "question": question + 1, "edit": int(edit["targetId"][1:])}[start]
    assert record["rewriteChars"] == sum(map(history._weight, entries[place:])) - record["savedChars"]


def test_tools_that_are_left_alone_may_be_named_as_the_host_names_them():
    entries = one_run(ruled(200), tool="Read", args={"file_path": "a"})
    for names in (["Read"], ["read"], [7, "read_file"]):
        assert history.distil(entries, broken, exclude_tools=names) == ([], {})


MARKED = {"cache_control": {"type": "ephemeral"}}


def marked_request(*marked: str) -> dict[str, Any]:
    """A request of a running task: two questions, batches of two results; what is named is marked, and the end."""

    def block(place: str, **more: Any) -> dict[str, Any]:
        return {**more, **(MARKED if place in marked else {})}

    messages: list[dict[str, Any]] = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "ok"}]
    messages.append({"role": "user", "content": [block("two", type="text", text="two")]})
    for n in range(3):
        uses = [{"type": "tool_use", "id": f"{c}{n}", "name": "bash", "input": {}} for c in "ab"]
        given = [block(f"{c}{n}", type="tool_result", tool_use_id=f"{c}{n}", content="x") for c in "ab"]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": given}]
    system = [block("identity", type="text", text="I"), block("system", type="text", text="S")]
    return {"model": "m", "tools": [block("tools", name="bash")], "system": system, "messages": messages}


PINS = {  # what the host marked, edited results, trusted ones -> what is marked then
    "the question, beside the host's mark": (["system", "b2"], [], [], ["system", "two", "b2"]),
    "no mark of the host in the messages": (["system"], [], [], ["system"]),
    "the question is marked already": (["two", "b2"], [], [], ["two", "b2"]),
    "an identity gives way": (
        ["tools", "identity", "system", "b2"], [], [], ["tools", "system", "two", "b2"]),
    "four without one to spare stay": (["tools", "system", "b1", "b2"], [], [], ["tools", "system", "b1", "b2"]),
    "an edit: the end of its batch, which is never split": (
        ["system", "b2"], ["a1"], [], ["system", "two", "b1", "b2"]),
    "a trusted result before it": (["b2"], ["b1", "a2"], ["a0", "b0"], ["two", "b0", "b1", "b2"]),
    "a trusted result behind it": (["b2"], ["a0"], ["b1"], ["two", "b0", "b2"]),
    "question, then read, then write": (["system", "b2"], ["a1"], ["b0"], ["system", "two", "b0", "b2"]),
    "identity and tools give way to an edit": (
        ["tools", "identity", "system", "b2"], ["a1"], ["b0"], ["system", "two", "b0", "b2"]),
}


@pytest.mark.parametrize("case", PINS)
def test_the_recipe_that_marks_what_anthropics_cache_is_to_keep(case):
    marked, edited, trusted, expected = PINS[case]
    scope: dict[str, Any] = {}
    exec(next(block for block in readme_blocks("python") if "def pinned" in block), scope)
    given = marked_request(*marked)
    before = json.dumps(given)
    sent = scope["pinned"](given, edited, trusted)
    plain = json.dumps(sent).replace('[{"type": "text", "text": "one"}]', '"one"').replace(
        '[{"type": "text", "text": "ok"}]', '"ok"')
    assert json.dumps(given) == before and plain == json.dumps(marked_request(*expected))
    assert (sent is given) == (expected == marked)
    later = {**given, "messages": [*given["messages"], {"role": "system", "content": "s"}]}
    assert scope["pinned"](later, edited, trusted)["messages"][:-1] == sent["messages"]  # not one at the end counts


TRUST = {  # changes of the log's row, what was made since it was sent, seconds since then -> trusted or not
    "just sent": ({}, [], 0, True),
    "five minutes ago": ({}, [], 300, True),
    "a moment longer": ({}, [], 300.001, False),
    "by another model": ({"model": "other"}, [], 1, False),
    "on another branch": ({"entryId": "gone"}, [], 1, False),
    "a leaf on another branch": ({"leafId": "gone"}, [], 1, False),
    "an edit behind it since": ({}, [{"targetId": "r3", "replacement": "x"}], 1, True),
    "an edit of it since": ({}, [{"targetId": "r2", "replacement": "x"}], 1, False),
    "an edit before it since": ({}, [{"targetId": "r1", "replacement": None}], 1, False),
    "an edit of what the branch does not have": ({}, [{"targetId": "gone", "replacement": None}], 1, True),
    "a compaction since": ({}, [{"id": "s", "role": "user", "content": "s", "compacted": True}], 1, False),
}


@pytest.mark.parametrize("case", TRUST)
def test_the_recipe_that_knows_which_marks_can_still_be_read(case):
    changes, since, age, expected = TRUST[case]
    scope: dict[str, Any] = {}
    exec(next(block for block in readme_blocks("python") if "def trusted" in block), scope)
    branch = [{"id": "q", **asks("go")}, {"targetId": "r1", "replacement": "before it was sent"}]
    branch += [{"id": f"r{n}", **gives(f"c{n}", "x" * 300)} for n in range(1, 4)]
    row = {"entryId": "r2", "model": "m", "time": 1000.0, "leafId": "r3", **changes}
    assert scope["trusted"]([], 1000.0, "m", branch) == set()
    assert scope["trusted"]([row], 1000.0 + age, "m", [*branch, *since]) == ({"r2"} if expected else set())
    for read, enough in ((1400, True), (1399, False)):  # 1,000 tokens, and 600 characters behind the question
        (after,) = scope["refreshed"]([row], 1000.0 + age, "m", [*branch, *since], "q", 1000, read)
        assert after == {**row, "time": row["time"] + age * (expected and enough)}
    assert len(scope["refreshed"]([row] * 300, 1000.0, "m", branch, "q", 1000, 0)) == 200


# ================================================================ history: the ledger


BUCKETS = {
    "surely not needed": (0.24, 0.0, "forget"),
    "at the threshold of forgetting": (0.25, 0.0, "keep"),
    "not needed, only the outcome": (0.49, 0.61, "trim"),
    "at the threshold of the outcome": (0.49, 0.6, "keep"),
    "at the threshold of trimming": (0.5, 0.9, "keep"),
    "needed": (0.9, 0.9, "keep"),
    "no answer": (None, 0.9, "keep"),
    "a kind of float, as numpy's": (type("float64", (float,), {})(0.24), 0.0, "forget"),
    "true is no probability": (False, 0.9, "keep"),
    "not needed, outcome unknown": (0.4, None, "keep"),
    "a number that is none": (float("nan"), 0.9, "keep"),
    "out of bounds": (-1.0, 0.9, "keep"),
}
POST = history.settings_of(history.LEDGER_SETTINGS, {})


@pytest.mark.parametrize("case", BUCKETS)
def test_a_result_is_kept_trimmed_or_forgotten_by_two_probabilities(case):
    needed, outcome_only, expected = BUCKETS[case]
    assert history.bucket(needed, outcome_only, POST) == expected


def says_of(table: dict[str, tuple[float, float]], asked: list[Any] | None = None) -> Any:
    """A classifier that knows a result by its command."""

    def ask(state, questions, timeout):
        (asked if asked is not None else []).append(state)
        needed, outcome = next(row for word, row in table.items() if word in state["item"]["args"])
        return {"needed": needed, "outcome_only": outcome}

    return ask


def three_results() -> list[dict[str, Any]]:
    steps = [does(name, "bash", {"command": name}, ruled(100, word=name), "I look") for name in ("one", "two", "three")]
    return chat(asks("the task"), *steps)


FATE = {"one": (0.1, 0.0), "two": (0.4, 0.9), "three": (0.9, 0.9)}


def test_rolling_rewrites_what_the_agent_has_reacted_to_in_the_same_bytes_for_ever():
    asked: list[Any] = []
    entries = three_results()
    ledger = history.Ledger("rolling", says_of(FATE, asked))
    assert ledger.decide(entries) == 2 and ledger.decide(entries) == 0  # the last one has no reaction yet
    seen = ledger.apply(entries)
    assert seen[2]["content"] == (
        "[jev-lens pruned: bash `one`, 100 lines, 6099 chars. Call the tool again if it is needed.]"
    )
    lines = ruled(100, word="two").split("\n")
    assert seen[4]["content"].split("\n") == [*lines[:15], "[jev-lens pruned: 70 lines]", *lines[85:]]
    assert seen[6] is entries[6] and entries[2]["content"] == ruled(100, word="one")
    more = [*entries, {"id": "e7", **tells("so")}]
    later = [*entries, {"id": "e8", **asks("l" * 500)}, *more[7:]]
    history.Ledger("rolling", says_of(FATE, latest := [])).decide(later)
    assert latest[-1]["task"] == {"first_user_request": "the task", "latest_user_message": "l" * 400 + "…"}
    assert ledger.decide(more) == 1 and ledger.apply(more) == [*seen, more[7]]
    state = asked[0]
    assert list(state) == ["task", "item", "after"]
    assert state["task"] == {"first_user_request": "the task", "latest_user_message": "the task"}
    assert state["after"] == {
        "assistant_text": "I look",
        "next_tool_calls": [{"name": "bash", "args": '{"command": "two"}'}],
    }
    assert len(state["item"]["output_head"]) == 2500 and len(state["item"]["output_tail"]) == 800
    restored = history.Ledger("rolling", broken, trim_head=2).restore(ledger.to_json())
    assert restored.decide(more) == 0 and restored.apply(more) == ledger.apply(more)
    assert restored.decisions == ledger.decisions


def test_off_asks_nothing_and_applies_nothing_whatever_was_decided_or_how_long_ago():
    entries = three_results()
    ledger = history.Ledger("rolling", says_of(FATE))
    ledger.decide(entries)
    off = history.Ledger("off", broken).restore(ledger.to_json())
    off.compacted()
    assert off.decide(entries) == 0 and off.apply(entries, idle=1e6) == entries
    assert {row["status"] for row in off.decisions.values()} == {"pending"}
    assert history.Ledger().mode == "off"
    with pytest.raises(ValueError, match="no mode 'often'"):
        history.Ledger("often")


WHEN = {  # mode, seconds idle, characters behind the result that goes -> why it was applied
    "rolling at once": ("rolling", 0, 90_000, "rolling"),
    "batch not while the cache is warm": ("batch", 300, 0, None),
    "batch once it is cold": ("batch", 301, 90_000, "cold"),
    "budget not when too much stands behind it": ("budget", 0, 90_000, None),
    "budget when it is half of what it makes anew": ("budget", 0, 100, "budget"),
    "budget once the cache is cold": ("budget", 301, 90_000, "cold"),
}


@pytest.mark.parametrize("case", WHEN)
def test_when_a_decision_is_applied(case):
    mode, idle, behind, reason = WHEN[case]
    entries = chat(asks("go"), does("one", "bash", {"command": "one"}, ruled(100)), tells("x" * behind))
    ledger = history.Ledger(mode, says_of(FATE))
    ledger.decide(entries)
    seen = ledger.apply(entries, idle)
    row = ledger.decisions["e2"]
    assert (row["appliedReason"], row["status"]) == (reason, "applied" if reason else "pending")
    assert (seen[2]["content"] != entries[2]["content"]) == bool(reason)
    assert row["appliedAtCall"] == (1 if reason else None)
    ledger.compacted()
    assert ledger.decisions["e2"]["appliedReason"] == (reason or "compaction")


def test_budget_wants_a_thousand_tokens():
    entries = chat(asks("go"), does("one", "bash", {"command": "one"}, ruled(60)), tells("x"))  # 3,659 characters
    ledger = history.Ledger("budget", says_of(FATE))
    assert ledger.decide(entries) == 1 and ledger.apply(entries) == entries
    lower = history.Ledger("budget", says_of(FATE), budget_min_tokens=800)
    assert lower.decide(entries) == 1 and lower.apply(entries) != entries


UNTOUCHED = {
    "a short result": gives("one", "x" * 599),
    "a result with an image": gives("one", [{"type": "text", "text": "x" * 900}, {"type": "image"}]),
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_which_results_the_ledger_leaves_alone(case):
    entries = chat(asks("go"), tells("", ("one", "bash", {"command": "one"})), UNTOUCHED[case], tells("x"))
    ledger = history.Ledger("rolling", says_of(FATE))
    assert ledger.decide(entries) == 0 and ledger.apply(entries) == entries
    ledger.decisions["e2"] = {"id": "e2", "bucket": "forget", "status": "applied", "text": "gone"}
    assert (ledger.apply(entries)[2] == entries[2]) == (case == "a result with an image")


def test_an_aborted_message_is_no_reaction():
    asked: list[Any] = []
    step = does("one", "bash", {"command": "one"}, ruled(100))
    entries = chat(asks("go"), step, tells("I st", stop_reason="aborted"))
    ledger = history.Ledger("rolling", says_of(FATE, asked))
    assert ledger.decide(entries) == 0 and not asked
    assert ledger.decide([*entries, {"id": "e4", **tells("I look")}]) == 1
    assert asked[0]["after"] == {"assistant_text": "I look", "next_tool_calls": []}


def test_a_short_trim_is_no_trim_and_a_failed_judge_keeps():
    entries = chat(asks("go"), does("two", "bash", {"command": "two"}, ruled(32)), tells("x"))
    ledger = history.Ledger("rolling", says_of(FATE))
    assert ledger.decide(entries) == 1 and ledger.decisions["e2"]["bucket"] == "keep"
    entries = chat(asks("go"), does("two", "bash", {"command": "two"}, ruled(33)), tells("x"))
    for ask in (broken, lambda *_: None, lambda *_: {}, lambda *_: {"needed": "no", "outcome_only": 0.9}):
        ledger = history.Ledger("rolling", ask)
        assert ledger.decide(entries) == 1 and ledger.decisions["e2"]["bucket"] == "keep"
        assert ledger.apply(entries) == entries


def test_without_a_classifier_the_ledger_forgets_what_a_newer_result_repeats():
    entries = chat(
        asks("go"),
        does("a", "read", {"path": "a"}, ruled(100)),
        does("b", "bash", {"command": "b"}, ruled(90, word="y")),
        tells("hm"),
        does("c", "read", {"path": "a"}, ruled(100)),
        tells("Done."),
    )
    ledger = history.Ledger("rolling")
    assert ledger.decide(entries[:5]) == 0 and ledger.decide(entries) == 1
    seen = ledger.apply(entries)
    assert [at for at, entry in enumerate(seen) if entry is not entries[at]] == [2]
    assert [entry["id"] for entry in seen] == [entry["id"] for entry in entries]


def test_by_rule_the_ledger_forgets_for_the_same_call_only_what_speaks_of_the_same_things():
    counted = [f"{n} tests of module_{word} passed in 0.{n}s" for n, word in enumerate("abcdefghijklmnopqrst", 100)]
    again = [line.replace("passed in 0.", "passed in 1.") for line in counted]
    screen = [f"{word} agent writes chapter {word}" for word in map("".join, itertools.permutations("quiet", 4))][:20]
    for newer, forgotten in ((again, True), (screen, False)):
        entries = chat(
            asks("go"),
            does("a", "bash", {"command": "show"}, "\n".join(counted)),
            does("b", "bash", {"command": "show"}, "\n".join(newer)),
            tells("so"),
        )
        ledger = history.Ledger("rolling")
        assert (ledger.decide(entries), ledger.apply(entries) == entries) == (forgotten, not forgotten)
        assert [edit["targetId"] for edit in history.distil(entries, cold=True)[0]] == ["e2"]  # can be recalled


NOT_STORED = {
    "no JSON": "x",
    "another JSON": "[1]",
    "a decision without an id": '{"calls": 1, "decisions": [{"bucket": "keep", "status": "applied", "text": "x"}]}',
    "a decision without a text or none": '{"calls": 1, "decisions": [{"id": "e2", "status": "applied"}]}',
    "a decision without a status": '{"calls": 1, "decisions": [{"id": "e2", "text": "x"}]}',
    "a number beyond all": '{"calls": 1e999, "decisions": []}',
    "nested past the stack": "[" * 100_000,
}


@pytest.mark.parametrize("case", NOT_STORED)
def test_a_stored_ledger_that_is_none_is_refused(case):
    with pytest.raises(ValueError, match="jevlens: ledger: not a stored ledger"):
        history.Ledger("rolling").restore(NOT_STORED[case])


def test_a_stored_decision_without_a_text_removes_nothing():
    stored = '{"calls": 1, "decisions": [{"id": "e2", "status": "applied", "text": null}]}'
    entries = three_results()
    assert history.Ledger("rolling", broken).restore(stored).apply(entries) == entries


def test_what_is_applied_stays_applied_when_an_older_ledger_is_restored():
    entries = three_results()
    ledger = history.Ledger("batch", says_of(FATE))
    ledger.decide(entries)
    old = ledger.to_json()
    seen = ledger.apply(entries, idle=301)
    assert ledger.restore(old).apply(entries) == seen and ledger.decisions["e2"]["status"] == "applied"


def test_the_ledger_before_each_call_of_a_loop_survives_a_restart():
    def calls(stored, entries):
        ledger = (
            history.Ledger("rolling", says_of(FATE)).restore(stored)
            if stored
            else history.Ledger("rolling", says_of(FATE))
        )
        ledger.decide(entries)
        return ledger.apply(entries), ledger.to_json()

    entries, stored, sent = three_results(), "", []
    for end in (3, 5, 7):  # a new process before each call of the model
        seen, stored = calls(stored, entries[:end])
        sent.append(seen)
    kept = history.Ledger("rolling", says_of(FATE))
    for end, seen in zip((3, 5, 7), sent):
        kept.decide(entries[:end])
        assert kept.apply(entries[:end]) == seen
    assert (
        sent[0] == entries[:3] and sent[2][:4] == sent[1][:4] and sent[1][2]["content"].startswith("[jev-lens pruned")
    )


def test_the_recipes_leave_repeats_out_and_survive_a_restart():
    scope: dict[str, Any] = {}
    recipes = "\n".join(block for block in readme_blocks("python") if "history." in block)
    exec(compile(recipes, "README.md", "exec"), scope)
    session = scope["session"]
    session["messages"] += as_openai()[:10]  # two exchanges, each with two outputs of one command
    session["messages"] += [{"role": "assistant", "content": "Done."}]
    scope["end_of_run"](session)
    assert session["edits"] == [] and scope["projected"](session) == session["messages"]  # warm: it does not pay
    scope["end_of_run"](session, 301.0)
    edit = session["edits"][0]
    assert [each["targetId"] for each in session["edits"]] == ["3", "4"]
    seen = scope["projected"](session)
    assert len(seen) == len(session["messages"]) and len(json.dumps(seen)) < len(json.dumps(session["messages"])) - 9000
    raw = session["messages"][int(edit["targetId"])]["content"]
    assert history.recall_entry(scope["entries"](session["messages"]), edit["targetId"]) == raw
    again = json.loads(json.dumps(session))  # a restart
    scope["end_of_run"](again, 301.0)
    assert again == session and scope["projected"](again) == seen
    session["messages"] += as_openai()[12:16]
    scope["after_a_turn_with_tools"](session, broken)
    assert len(session["records"]) == 1  # nothing is four turns old: nobody was asked

    sent = scope["before_each_call"](session, 0.0)
    assert sent == session["messages"]
    sent = scope["before_each_call"](session, 301.0)
    assert [i for i, message in enumerate(session["messages"]) if sent[i] != message] == [3, 4, 8, 9]
    scope["ledger"] = history.Ledger("batch").restore(session["ledger"])
    assert scope["before_each_call"](session, 0.0) == sent


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
    (one,) = bench.Scorer(row, bench.prepare(row), bench.Engine()).run()
    of = bench.measures([one.counts[name] for name in bench.FIELDS])
    assert (of["saved"], of["objective"], of["strict_objective"], of["phrases"]) == (0, 0, 0, 100)
    assert one.counts["edits"] == one.counts["c_edits"] == 1


OLD_TEXT = "\n".join(DROPPED)
ROW = {"id": "r", "agent": "a", "group": "g", "task": "Please fix it.", "turns": [
    {"role": "user", "text": "Please fix it."},
    {"role": "assistant", "text": "", "calls": [READ]},
    result("c1", OLD_TEXT),
    said(DROPPED[40], edit(DROPPED[40])),
]}  # fmt: skip


def run_bench(capsys: Any, *words: str) -> dict[str, Any]:
    """What a command prints with --json."""
    assert bench.main([*words, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_bench_scores_a_file_the_same_with_one_process_and_with_two(tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(lines_of(*({**ROW, "id": f"r{n}", "group": f"g{n}"} for n in range(6))).encode()))
    one = run_bench(capsys, "trajectories", str(path), "--judge", "none", "--jobs", "1", "--worst")
    two = run_bench(capsys, "trajectories", str(path), "--judge", "none", "--jobs", "2", "--worst")
    assert one["engines"] == two["engines"]
    assert one["misses"] == two["misses"]
    assert one["engines"]["headtail"]["counts"]["n"] == 6
    halves = [run_bench(capsys, "trajectories", str(path), "--judge", "none", "--half", half) for half in "AB"]
    assert sum(half["engines"]["full"]["counts"]["n"] for half in halves) == 6
    some = run_bench(capsys, "trajectories", str(path), "--judge", "none", "--every", "4")
    assert some["engines"]["full"]["counts"]["n"] == 2


def test_bench_reads_your_own_sessions_and_writes_nothing_beside_them(tmp_path: Any, capsys: Any) -> None:
    records = [
        claude("user", "Please fix it."),
        claude("assistant", [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "src/app.py"}}]),
        claude("user", [{"type": "tool_result", "tool_use_id": "c1", "content": OLD_TEXT}]),
        claude("assistant", [{"type": "tool_use", "id": "c2", "name": "MultiEdit", "input": {"file_path": "src/app.py",
               "edits": [{"old_string": DROPPED[40], "new_string": "x"}]}}]),
    ]  # fmt: skip
    folder = tmp_path / "projects"
    folder.mkdir()
    (folder / "s.jsonl").write_text(lines_of(*records))
    (folder / "other.json").write_text("{}")
    found = run_bench(capsys, "sessions", str(tmp_path), "--judge", "none", "--jobs", "1")
    counts = found["engines"]["headtail"]["counts"]
    assert (counts["n"], counts["edits"], counts["c_edits"]) == (1, 1, 1)
    assert found["found"] == {"sessions": 1, "claude-code": 1, "records skipped": 0, "files of no known format": 1}
    assert sorted(each.name for each in folder.iterdir()) == ["other.json", "s.jsonl"]


def test_bench_page_marks_what_was_sent_left_out_and_used(tmp_path: Any) -> None:
    scores = bench.Scorer(ROW, bench.prepare(ROW), FirstLine(), True).run()
    bench.write_page(str(tmp_path / "misses.html"), scores)
    page = (tmp_path / "misses.html").read_text(encoding="utf-8")
    assert f'<span class="k">+     1 {html.escape(DROPPED[0])}' in page
    assert f'<span class="n">!    41 {html.escape(DROPPED[40])}' in page
    assert f'<span class="d">-    40 {html.escape(DROPPED[39])}' in page
    shown = page.count("<span class=") - PAGE_LEGEND
    folded = sum(int(line.split()[1]) for line in page.split("\n") if line.startswith("⋯"))
    assert shown + folded == len(DROPPED)
    assert "http" not in page


PAGE_LEGEND = 3  # marked words above the first miss


def test_bench_counts_a_saving_as_safe_only_with_every_needle(tmp_path: Any, capsys: Any) -> None:
    text = "\n".join(f"line {n} of a long output" for n in range(2_000))
    (tmp_path / "a.txt").write_text(text)
    wanted = {"name": "a", "tool": "bash", "command": "make all", "task": "t", "needles": ["line 1 of", "line 1999 of"]}
    cases = {"both ends": ["line 1 of", "line 1999 of"], "the middle too": ["line 1 of", "line 1000 of"]}
    safe = {}
    for sentence, needles in cases.items():
        (tmp_path / "needles.json").write_text(json.dumps([{**wanted, "needles": needles}]))
        (row,) = run_bench(capsys, "outputs", str(tmp_path), "--judge", "none")["outputs"]
        safe[sentence] = (row["headtail needles"], row["headtail safe %"] > 50, row["full safe %"])
    assert safe == {"both ends": ("2/2", True, 0.0), "the middle too": ("1/2", False, 0.0)}


def test_bench_sweep_merges_what_helps_into_the_best(tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "rows.jsonl"
    turns = [*ROW["turns"][:2], result("c1", "\n".join(f"{n:6}\t{line}" for n, line in enumerate(DROPPED, 1)))]
    path.write_text(lines_of({**ROW, "turns": turns}))
    words = ("sweep", str(path), "--jobs", "1", "--set", "disabled=1,0", "--set", "min_tokens=1200")
    rows = run_bench(capsys, *words)["sweep"]
    assert [row[""] for row in rows] == ["as it is", "disabled=1", "disabled=0", "min_tokens=1200"]
    assert rows[0]["saved"] == rows[2]["saved"] > rows[1]["saved"] == 0
    assert not any(row["kept"] for row in rows)  # nothing beats the defaults here
    assert bench.main(["sweep", str(path), "--set", "nothing=1"]) == 1
    assert "neither a setting" in capsys.readouterr().err


@pytest.mark.parametrize("words", (["nothing"], ["outputs", "/nowhere"], ["trajectories", "/nowhere.jsonl"]))
def test_bench_says_what_it_cannot_do(words: list[str], capsys: Any) -> None:
    assert bench.main(words) in (1, 2)
    assert capsys.readouterr().err.startswith(f"bench: {words[0]}: ")


def test_bench_runs_without_arguments_on_data_of_its_own(capsys: Any) -> None:
    found = run_bench(capsys)
    assert [row["output"] for row in found["outputs"]] == list(bench.SAMPLES)
    assert {"machine", "python", "version", "commit"} <= set(found)
    assert found["all needles"]["full needles"] == len(bench.SAMPLES)


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


def readme_blocks(*languages: str) -> list[str]:
    """The fenced blocks of README.md in these languages, in order."""
    text = (HERE / "README.md").read_text("utf-8")
    parts = text.split("\n```")
    return [body for part in parts[1::2] for first, _, body in [part.partition("\n")] if first.strip() in languages]


def test_every_python_block_of_the_readme_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("JEV_LENS_DATA_DIR", str(tmp_path / "data"))
    # what a reader has of his own: an output, and a way to send it
    scope: dict[str, Any] = {"__name__": "readme", "output": MODULE, "send_to_model": lambda text: None}
    blocks = readme_blocks("python")
    assert len(blocks) > 9  # they were found
    for number, block in enumerate(blocks, 1):
        if block.startswith("# recipe: "):
            continue  # needs its framework; each has a test of its own
        exec(compile(block, f"README.md, python block {number}", "exec"), scope)


def shell_lines() -> list[list[str]]:
    """The commands in the shell blocks of README.md, split into words, without prompts and comments."""
    found = []
    for block in readme_blocks("sh", "bash", "shell", "console"):
        lines = block.replace("\\\n", " ").split("\n")
        prompts = any(line.startswith("$ ") for line in lines)
        for line in lines:
            if line.strip() and not line.startswith("#") and (not prompts or line.startswith("$ ")):
                found.append(shlex.split(line[2:] if prompts else line, comments=True))
    return found


def test_every_function_of_ours_that_a_recipe_calls_exists() -> None:
    """Also where the framework of the recipe is not installed, and it does not run."""
    calls = re.findall(r"\b(jevlens|history|views_regex)\.(\w+)\(", "\n".join(readme_blocks("python")))
    assert ("jevlens", "Lens") in calls
    assert [name for module, name in calls if not hasattr(sys.modules[module], name)] == []


def test_every_command_that_the_readme_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert ["python3", "jevlens.py", "see"] in [words[:3] for words in shell_lines()]  # they were found
    for words in shell_lines():
        for at, word in enumerate(words):
            name = word.rsplit("/", 1)[-1]
            if name.endswith(".py") and name in ("jevlens.py", "bench.py", "test_jevlens.py", "history.py"):
                assert (HERE / name).is_file()
            if word == ".ci/run":
                assert (HERE / word).is_file()
            following = words[at + 1:at + 2]
            if name not in ("jevlens", "jevlens.py") or not following or not following[0].isalpha():
                continue  # also `see jevlens.py`, and `pip install jevlens`
            if at and words[at - 1] in ("see", "install", "cp"):
                continue
            assert following[0] in jevlens.COMMANDS, words
            with pytest.raises(SystemExit):
                jevlens.main([following[0], "--help"])
            flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
            own = list(itertools.takewhile(lambda part: part not in ("|", ">", "&&", ";", "--"), words[at + 2:]))
            assert {part.split("=")[0] for part in own if part.startswith("--")} <= flags, words


def test_no_two_tables_or_helpers_of_this_file_share_a_name() -> None:
    found: list[str] = []
    for node in ast.parse(pathlib.Path(__file__).read_text("utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.extend(target.id for target in targets if isinstance(target, ast.Name))
    assert sorted(found) == sorted(set(found))
