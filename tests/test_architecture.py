"""What every file keeps to: size, one direction of imports, no probing, a test of its own."""

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "eptsim").rglob("*.py"))
PYTHON_FILES = SOURCES + sorted(
    path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")
)
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 60

UNTESTED = {
    "eptsim/__main__.py": "one call; test_main runs it as a process",
}
"""Source modules that need no test file of their own, each with the reason."""

ABOUT_DATA = {"tests/cards/test_shipped.py"}
"""Tests in a folder that are about data files and mirror no source."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def in_source(kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, kind):
                yield path, node


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_file_is_too_long():
    lengths = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in PYTHON_FILES}
    assert {file: n for file, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_too_long():
    found = [
        f"{name(path)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in PYTHON_FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert found == []


def test_no_hasattr_probing():
    found = [
        f"{name(path)}:{node.lineno}"
        for path, node in in_source(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "hasattr"
    ]
    assert found == []


def test_no_keyword_tunnels():
    """A typo in a keyword must fail at the call, so no function takes any keyword it is given."""
    found = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path, node in in_source(ast.FunctionDef)
        if node.args.kwarg is not None and not passes_a_signature_on(node.args.kwarg)
    ]
    assert found == []


def passes_a_signature_on(argument: ast.arg) -> bool:
    """True for ``**kwargs: P.kwargs``, whose keywords a type checker still checks."""
    return isinstance(argument.annotation, ast.Attribute) and argument.annotation.attr == "kwargs"


def test_only_the_command_line_prints():
    found = [
        f"{name(path)}:{node.lineno}"
        for path, node in in_source(ast.Call)
        if isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and "cli" not in path.relative_to(ROOT).parts
    ]
    assert found == []


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """The modules of eptsim that a file imports when it runs, wherever the import stands."""
    found: set[str] = set()
    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else str(node.module))
    return (found & modules) - {module_of(path)}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below ``if TYPE_CHECKING``, which never run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from statements(child)


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of a directed graph, its first node repeated at the end, or nothing."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for after in sorted(graph.get(node, ())):
            cycle = visit(after, [*path, node])
            if cycle:
                return cycle
        done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), [])


def test_the_cycle_search_finds_a_cycle():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) == []


def test_no_import_cycle():
    modules = {module_of(path) for path in SOURCES}
    graph = {module_of(path): imports_of(path, modules) for path in SOURCES}
    assert cycle_in(graph) == []


def test_imports_are_absolute():
    found = [f"{name(p)}:{n.lineno}" for p, n in in_source(ast.ImportFrom) if n.level]
    assert found == []


def test_imports_go_one_way():
    """The contract in setup.cfg, which also fails for a folder that it does not name."""
    command = "import sys; from importlinter.cli import lint_imports_command as run; run()"
    ran = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def sources_of_test(path: Path) -> list[str]:
    """The source files that a test in a folder may be about: its own name, or a part of it."""
    folder = path.parent.relative_to(ROOT / "tests")
    words = path.stem.removeprefix("test_").split("_")
    return [
        f"eptsim/{folder.as_posix()}/{'_'.join(words[:end])}.py" for end in range(len(words), 0, -1)
    ]


def test_every_test_mirrors_a_source():
    """tests/x/test_y.py, or test_y_part.py, is about eptsim/x/y.py; tests/*.py are about it all."""
    sources = {name(path) for path in SOURCES}
    found = [
        name(path)
        for path in sorted((ROOT / "tests").glob("*/**/test_*.py"))
        if name(path) not in ABOUT_DATA and sources.isdisjoint(sources_of_test(path))
    ]
    assert found == []


def test_every_source_has_a_test():
    tests = {name(path) for path in (ROOT / "tests").rglob("test_*.py")}
    found = []
    for path in SOURCES:
        inside = path.relative_to(ROOT / "eptsim")
        prefix = f"tests/{(inside.parent / f'test_{inside.stem}').as_posix()}".replace("/./", "/")
        code = any(isinstance(n, ast.FunctionDef | ast.ClassDef) for n in ast.walk(tree(path)))
        tested = any(test == f"{prefix}.py" or test.startswith(f"{prefix}_") for test in tests)
        if code and not tested and path.name != "__init__.py" and name(path) not in UNTESTED:
            found.append(name(path))
    assert not found, "no test file for " + ", ".join(found)


def test_the_lists_of_exceptions_are_current():
    assert [file for file in {*UNTESTED, *ABOUT_DATA} if not (ROOT / file).is_file()] == []


def test_every_package_is_installed():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    listed = set(parser["options"]["packages"].split())
    there = {module_of(path) for path in SOURCES if path.name == "__init__.py"}
    assert listed - {"eptsim.devices"} == there


MACHINE = re.compile(
    r"(?<![\w.~/-])/(?:work|root|home|Users|mnt)/|index-url|find-links|127\.0\.0\.1:\d"
)


def committed_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / file for file in listed.stdout.split("\0") if file]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def test_no_file_names_a_machine():
    """No path of somebody's machine and no package index of somebody's network."""
    found = []
    for path in committed_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{name(path)}:{n}" for n, line in enumerate(lines, 1) if MACHINE.search(line)]
    assert found == []
