"""Mutations: which tests catch a fault in the code? One is planted at a time, and the tests are run on the copy.

    python -m verification.benchmarks.mutations --first 1 --count 12 --suite quick [--related] [--list]

Number i plants the same fault in the same source: an operator turned, a constant off by one, two arguments swapped, a
clip or a validation dropped. Docstrings, annotations and messages are left alone, and so are swaps that change nothing
(the arguments of ``max``). The tests that mirror the module come first, then those that import it, then the rest
(``--related``: not the rest); the first failure ends a fault. Proof notes do not count: any change breaks their hashes.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = (
    "verification/benchmarks",
    "verification/calibration",
    "verification/fuzz",
)  # programs that measure; their results are read, not tested
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "*.pyc", ".*_cache", ".hypothesis")
NO_FAULT = ["tests/test_docs.py::test_proof_notes_match_the_source_they_were_read_against"]
SUITES = {"quick": [["-m", "not thorough"]], "all": [["-m", "not thorough"], ["-m", "thorough"]]}

TURNED = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
SYMMETRIC = {"max", "min", "maximum", "minimum", "isclose", "allclose", "hypot", "gcd", "add", "multiply", "union"}
CLIPS = {"clip", "maximum", "minimum", "max", "min"}
KINDS = ("operator", "constant", "swap", "validation", "clip")  # drawn alike, though there are few clips
MOST = 4  # larger integers are numbers of repeats and of starts, where one more changes nothing
LIKE_ROUNDING = 1e-3  # constants below are tolerances, where twice as much changes nothing that a test could see


@dataclass(frozen=True)
class Fault:
    """Replace what stands between two places of a file."""

    path: str
    line: int
    kind: str
    start: tuple[int, int]  # line from 1, bytes in it
    end: tuple[int, int]
    new: str

    def planted(self, source: str) -> str:
        """The source with the fault."""
        lines = source.encode().splitlines(keepends=True)
        (first, left), (last, right) = self.start, self.end
        changed = lines[first - 1][:left] + self.new.encode() + lines[last - 1][right:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()

    def shown(self, source: str) -> str:
        """Old and new text, in a few words."""
        lines = source.encode().splitlines(keepends=True)
        (first, left), (last, right) = self.start, self.end
        old = lines[first - 1][left : right if first == last else None].decode().strip()
        return f"{self.kind}: {' '.join(old.split())[:60]} -> {' '.join(self.new.split())[:60]}"


@dataclass(frozen=True)
class Verdict:
    """Who caught a fault, and after how long."""

    test: str  # "" if none did
    suite: str  # also "time limit", which is no verdict; "" where all tests passed
    seconds: float


def left_alone(tree: ast.AST) -> set[int]:
    """Nodes without behaviour that a test should pin: docstrings, annotations, text of errors, type checking."""
    alone: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = [node.returns, *(arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg))]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)) or said_or_typed(node):
            parts = [node]
        alone |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return alone


def said_or_typed(node: ast.AST) -> bool:
    """Warnings and what only a type checker reads."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("warn", "cast", "TypeVar", "field"))


def span(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where a node begins and ends."""
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def faults_of(path: str, source: str) -> Iterator[Fault]:
    """All faults that can be planted in one file."""
    tree = ast.parse(source)
    alone = left_alone(tree)
    for node in ast.walk(tree):
        if id(node) in alone or not isinstance(node, (ast.expr, ast.stmt)):
            continue
        for kind, part, new in changes(node):
            yield Fault(path, part.lineno, kind, *span(part), new)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Kind, node to replace and new text."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "operator", node, f"(({left}) {TURNED[type(node.ops[0])]} ({right}))"
    elif isinstance(node, ast.BinOp) and type(node.op) in TURNED and not of_text(node):
        yield "operator", node, f"(({ast.unparse(node.left)}) {TURNED[type(node.op)]} ({ast.unparse(node.right)}))"
    elif isinstance(node, ast.BoolOp):
        yield "operator", node, f"({f' {TURNED[type(node.op)]} '.join(f'({ast.unparse(v)})' for v in node.values)})"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value
        if type(value) is int and abs(value) <= MOST:
            yield "constant", node, str(value + 1)
        elif type(value) is float and LIKE_ROUNDING <= abs(value) <= 1 / LIKE_ROUNDING:
            yield "constant", node, str(2 * value)
    elif isinstance(node, ast.Call):
        yield from changed_calls(node)
    elif isinstance(node, ast.If) and not node.orelse and all(isinstance(one, ast.Raise) for one in node.body):
        yield "validation", node, "pass"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func).split(".")[-1]
        if name.lstrip("_").startswith("check"):
            yield "validation", node, "pass"


def changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """A call with its first two arguments swapped, and a clip that does not."""
    name = ast.unparse(node.func).split(".")[-1]
    plain = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
    if len(plain) < 2 or len(plain) < len(node.args):
        return
    first, second = (ast.unparse(arg) for arg in plain[:2])
    if name in CLIPS:
        yield "clip", node, f"({first})"
    if name not in SYMMETRIC and first != second:
        rest = [ast.unparse(one) for one in (*plain[2:], *node.keywords)]
        yield "swap", node, f"{ast.unparse(node.func)}({', '.join([second, first, *rest])})"


def of_text(node: ast.BinOp) -> bool:
    """Texts and lists are joined with ``+``, and types with ``|``."""
    return any(
        isinstance(one, (ast.JoinedStr, ast.List, ast.Tuple))
        or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in (node.left, node.right)
    )


def drawn(number: int, faults: list[Fault]) -> Fault:
    """Fault ``number``: a kind, and one of that kind."""
    rng = random.Random(number)
    kind = rng.choice(KINDS)
    return rng.choice([fault for fault in faults if fault.kind == kind])


def all_faults() -> list[Fault]:
    """Every fault of the two packages, in a fixed order."""
    found = []
    for package in ("pm_dpgmm", "verification"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(SKIPPED):
                found += list(faults_of(name, path.read_text()))
    return found


def tests_of(path: str) -> list[list[str]]:
    """Files of tests that mirror the module, and those that import it or stand in the mirrored folder."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    mirrored = Path("tests", *module.split(".")[module.startswith("pm_dpgmm") :])
    own = mirrored.with_name(f"test_{mirrored.name}.py")
    package, _, name = module.rpartition(".")
    used = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    near = [file for file in files if used.search((ROOT / file).read_text()) or file.parent == own.parent]
    first = [own] if own in files else []
    return [[str(file) for file in group] for group in (first, [file for file in near if file != own])]


def judged(fault: Fault, *, suite: str, related: bool, limit: float) -> Verdict:
    """Plant the fault in a copy of the tree and run the tests there."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        source = (ROOT / fault.path).read_text()
        (copy / fault.path).write_text(fault.planted(source))
        environment = os.environ | {
            "PYTHONPATH": str(copy),
            "HYPOTHESIS_PROFILE": "quick" if suite == "quick" else "day",
        }
        if "numba" in source:  # callers on disk hold the code as it was
            environment["NUMBA_CACHE_DIR"] = str(Path(folder) / "numba")
        groups = tests_of(fault.path) + ([] if related else [["tests"]])
        for selected in SUITES[suite]:
            for group in filter(None, groups):
                left = limit - (time.perf_counter() - start)
                found = first_failure([*selected, *group], copy, environment, left)
                seconds = time.perf_counter() - start
                if found == "time limit":
                    return Verdict("", found, seconds)
                if found:
                    return Verdict(found, "all" if selected[1] == "thorough" else "quick", seconds)
    return Verdict("", "", time.perf_counter() - start)


def first_failure(arguments: list[str], copy: Path, environment: dict[str, str], limit: float) -> str:
    """The first test that fails, "time limit", or "" if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments]
    command += [part for test in NO_FAULT for part in ("--deselect", test)]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=max(limit, 1.0)
        )
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode in (0, 5):  # passed; no tests of this kind there
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) ([^\n]+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}"


def main() -> int:
    """One line of a table for each fault; status 1 if one was not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1, help="number of the first fault")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--suite", choices=SUITES, default="quick")
    parser.add_argument("--related", action="store_true", help="only tests that mirror or import the module")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each fault")
    parser.add_argument("--list", action="store_true", help="show the faults, run nothing")
    options = parser.parse_args()
    faults, missed = all_faults(), 0
    print("| no. | module | line | fault | caught by | test | seconds |\n|--:|---|--:|---|---|---|--:|")
    for number in range(options.first, options.first + options.count):
        fault = drawn(number, faults)
        shown = fault.shown((ROOT / fault.path).read_text()).replace("|", "\\|")
        line = f"| {number} | {fault.path} | {fault.line} | {shown} |"
        if options.list:
            print(line)
            continue
        verdict = judged(fault, suite=options.suite, related=options.related, limit=options.limit)
        missed += not verdict.test
        test = verdict.test.replace("|", "\\|")
        print(f"{line} {verdict.suite or 'nobody'} | {test or '-'} | {verdict.seconds:.0f} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
