"""The tree stays readable: small files, small folders, no cycles, one clock, the field's own words.

Each list of exceptions below is a debt with a name. A test fails when one grows, and also when one
was paid and is still listed.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "goqueue"

MAX_LINES = 400
LONG_FILES: set[str] = set()
MAX_FILES = 25
CROWDED_FOLDERS: set[str] = set()

CLOCK = re.compile(r"\btime\.(?:time|time_ns|monotonic|monotonic_ns)\(|\bdatetime\.now\(")
CLOCK_READERS = {
    "runtime",  # the home of time
    "cli",  # a process of its own, on the user's machine
    "spark",  # likewise, on Spark's
}

ENTRY_POINTS = {
    "goqueue.cli.__main__": "python -m goqueue.cli",
    "goqueue.testing.plugin": "pytest's entry point",
    "goqueue.server.config_docs": "makes docs/reference/configuration.md",
    "goqueue.metrics.reference": "makes docs/reference/metrics.md",
    "goqueue.cli.reference": "makes docs/reference/cli.md",
    "goqueue.protocols.kafka.api_reference": "makes docs/reference/kafka-apis.md",
    "goqueue.protocols.kafka.configs.reference": "makes docs/reference/kafka-settings.md",
    "goqueue.server.rights_reference": "makes docs/reference/rights.md",
    "goqueue.server.references.errors": "makes docs/reference/errors.md",
    "goqueue.server.references.grpc": "makes docs/reference/grpc.md",
    "goqueue.schemas.worker": "a process of its own",
    "goqueue.server.supervision.broker_child": "likewise",
    "goqueue.worker.process": "likewise",
    "goqueue.cli.tour.worker": "likewise, in the folder of a tour",
}

CYCLES: set[frozenset[str]] = set()

PUBLIC_PACKAGES = {"cli", "client", "spark", "testing", "worker"}  # what they define, users call
MARKED = re.compile(r"property|staticmethod|classmethod|dataclass|contextmanager|cache|override")
CALLED_FROM_OUTSIDE = {
    # asyncio's protocols
    "connection_made",
    "connection_lost",
    "data_received",
    "get_buffer",
    "buffer_updated",
    "eof_received",
    "pause_writing",
    "resume_writing",
    # urllib's handlers
    "redirect_request",
    # gRPC's generated code
    "add_generic_rpc_handlers",
    "add_registered_method_handlers",
    # the HTTP parser
    "on_message_begin",
    "on_url",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    # gRPC
    "intercept_service",
    # found by the kind of an entry
    "_apply_schema",
    "_apply_subject",
    "_apply_level",
    "_apply_mode",
    "_apply_ids",
}

BOUND = re.compile(r"(?:MAX|MIN)_")
PUBLIC_BOUNDS = {
    # To be moved into protocols/kafka/limits.py:
    "protocols/kafka/records/fetch.py",
    "protocols/kafka/records/fetch_sessions.py",
}

BANNED = {
    r"\bcomes? again\b": "is redelivered",
    r"\bbur(?:y|ied|ying|ies)\b": "dead-lettered",
    r"among the dead letters": "in the dead-letter queue",
    r"\blook(?:s|ed|ing)? after\b": "maintain",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bdoors?\b": "listener, endpoint",
    r"\bin vain\b": "failed",
    r"\bnobody answers\b": "connection refused",
    r"\bsigns? of life\b": "heartbeat",
    r"\bthe way of one message\b": "message tracing",
    r"\bobituary\b": "dead_letter_headers",
    r"\bmourn\b": "record the cause",
    r"\boutlived? (?:itself|themselves)\b": "its TTL expired",
    r"\bsen[dt] back\b": "redrive, redeliver",
    r"\bhand(?:s|ed|ing)? back\b": "nack, return, redeliver",
    r"\bwhoever asks\b": "the caller, the client",
    r"\btold to speak\b": "heartbeat interval",
    r"\b(?:falls?|fallen|falling|far) behind\b": "lag",
    r"\blast heard\b": "last heartbeat, last request",
    r"\blets? nobody\b": "refuse",
    r"\bthrow (?:it|them|all) away\b": "delete, purge",
    r"\bjudgements?\b": "acknowledgement, decision",
}
ANY_BANNED = re.compile("|".join(BANNED), re.IGNORECASE)


def sources() -> list[Path]:
    """Every file of the product that was written by hand."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "_pb2" not in path.name]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> dict[str, frozenset[str]]:
    """What each module imports of ours, also for type checkers alone."""
    modules = {name_of(path): path for path in sources()}
    found: dict[str, frozenset[str]] = {}
    for name, path in modules.items():
        wanted: set[str] = set()
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted |= {f"{node.module}.{each.name}" for each in node.names} | {node.module}
            elif isinstance(node, ast.Import):
                wanted |= {each.name for each in node.names}
        found[name] = frozenset(each for each in wanted if each in modules and each != name)
    return found


def cycles() -> set[frozenset[str]]:
    """Sets of modules that reach each other (Tarjan's strongly connected components)."""
    graph = {
        name: {each for each in wanted if not name.startswith(f"{each}.")}
        for name, wanted in imports().items()
    }
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.add(frozenset(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_no_file_is_too_long_to_be_read_in_one_go() -> None:
    long = {
        path.relative_to(PACKAGE).as_posix()
        for path in sources()
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES
    }
    assert long == LONG_FILES


def test_no_folder_is_a_drawer() -> None:
    count = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in sources())
    assert {folder for folder, files in count.items() if files > MAX_FILES} == CROWDED_FOLDERS


def test_modules_do_not_form_cycles() -> None:
    assert cycles() == CYCLES


def test_time_is_read_through_the_runtime() -> None:
    readers = {
        path.relative_to(PACKAGE).parts[0]
        for path in sources()
        if CLOCK.search(path.read_text(encoding="utf-8"))
    }
    assert readers <= CLOCK_READERS


def _bounds(path: Path) -> Iterator[tuple[str, bool]]:
    """The public bounds that a module defines, each with whether a sentence follows it."""
    body = tree_of(path).body
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if BOUND.match(node.target.id):
            rest = itertools.dropwhile(lambda each: isinstance(each, ast.AnnAssign), body[index:])
            after = next(rest, None)
            yield node.target.id, isinstance(after, ast.Expr)


def test_bounds_that_modules_share_are_in_limits_and_say_what_happens_there() -> None:
    bounds = {path: dict(_bounds(path)) for path in sources()}
    elsewhere = {
        path.relative_to(PACKAGE).as_posix()
        for path, found in bounds.items()
        if found and path.name != "limits.py"
    }
    assert elsewhere == PUBLIC_BOUNDS
    assert not [name for found in bounds.values() for name, is_said in found.items() if not is_said]


def test_every_module_is_used() -> None:
    used = {each for wanted in imports().values() for each in wanted}
    idle = {
        name
        for name, path in ((name_of(path), path) for path in sources())
        if name not in used and path.name != "__init__.py" and not _is_found_by_name(name)
    }
    assert idle <= ENTRY_POINTS.keys()


def _definitions(body: list[ast.stmt]) -> Iterator[ast.ClassDef | _Function]:
    """Classes, functions and methods; nothing that is defined inside a function."""
    for node in body:
        if isinstance(node, ast.ClassDef | _Function):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body)


def _uses(tree: ast.AST) -> Counter[str]:
    nodes = list(ast.walk(tree))
    names = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    return names + Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))


def _is_plain(node: ast.ClassDef | _Function) -> bool:
    """Whether a definition is called by its name: not registered, not a magic or gRPC method."""
    is_registered = any(not MARKED.search(ast.unparse(each)) for each in node.decorator_list)
    is_rpc = isinstance(node, _Function) and node.name[0].isupper()
    return not (is_registered or is_rpc or node.name.startswith("__"))


def test_everything_that_is_defined_is_used() -> None:
    """By name: a method that only tests call goes unnoticed if another one is called the same."""
    trees = {path: tree_of(path) for path in sources()}
    used: Counter[str] = Counter()
    for tree in trees.values():
        used += _uses(tree)
    unused = {
        node.name
        for path, tree in trees.items()
        if path.relative_to(PACKAGE).parts[0] not in PUBLIC_PACKAGES
        for node in _definitions(tree.body)
        if _is_plain(node) and used[node.name] <= _uses(node)[node.name]
    }
    assert unused == CALLED_FROM_OUTSIDE


def _is_found_by_name(name: str) -> bool:
    """Commands of the CLI are found by their file names."""
    return name.startswith("goqueue.cli.commands.")


def test_prose_and_names_use_the_words_of_the_field() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sources()]
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match.group()!r} (say: {better})"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if ANY_BANNED.search(line)
        for pattern, better in BANNED.items()
        for match in re.finditer(pattern, line, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)
