"""One cell, run with the variables that it reads, and a record of its effects."""

import ast
import importlib.util
import json
import os

OPAQUE = frozenset(["dir", "eval", "exec", "globals", "locals", "vars"])
"""Functions that can read any variable without naming it."""

SHOWN_CHARS = 50_000
USUAL = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
"""Usual names of modules."""


def main(given):
    """Run the cell and write its record to standard output, behind a mark."""
    process, channel = os.getpid(), os.dup(1)
    record = run_cell(given, process)
    flush()
    if os.getpid() == process:
        rest = ("\n%s %s\n" % (given["mark"], json.dumps(record))).encode()
        while rest:
            rest = rest[os.write(channel, rest) :]
    os._exit(0)


def run_cell(given, process):
    """Return the record of a cell."""
    files = WatchedFiles(given["root"])
    if given["code"] is None:
        return {"files": {path: file_digest(files.root + path) for path in given["files"]}}
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", "durabench-cells")
    makers = Makers(given["makers"], run, files)
    heap = Heap(folder, given["variables"], given["cell"], given["unstored"], makers)
    name = "<cell %d>" % given["cell"]
    files.watch()
    error = run(heap, given["code"], name, given["needs"])
    if os.getpid() != process:  # a child that the cell forked
        return {}
    if heap.lost or makers.lost:
        return {"lost": sorted(set(heap.lost)), "lost_by": makers.lost}
    files.add_modules()
    read, programs = dict(files.read), files.starts_programs
    failure = None if error is None else describe_error(error, name, given["code"])
    try:
        writes = heap.writes()
    except BaseException as problem:
        writes = {}
        failure = failure or {"text": "The variables were not kept: %r" % problem}
    return {
        "error": failure,
        "reads": heap.reads,
        "writes": writes,
        "files_read": read,
        "files_written": files.digests_written(),
        "programs": programs,
    }


def run(heap, code, name, needs=()):
    """Run a cell, and print the value of its last expression. Return the error that ended it.

    It does not start if one of the variables that it `needs` is lost.
    """
    try:
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        heap.lost += [variable for variable in needs if heap.is_lost(variable)]
        if heap.lost:
            return None
        unstored = [variable for variable in needs if variable in heap.unstored]
        for variable in [*unstored, *bypassing(heap, tree)]:
            bind(heap, variable)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec", dont_inherit=True), heap.namespace)
        if last is not None:
            expression = ast.Expression(last.value)
            value = eval(compile(expression, name, "eval", dont_inherit=True), heap.namespace)
            if value is not None:
                print(repr(value))
    except Lost:
        return None
    except SystemExit as end:
        return None if end.code in (None, 0) else end
    except BaseException as error:
        return error
    return None


def bind(heap, name):
    """Load a variable that Python reads without asking the namespace for it."""
    if name.isidentifier():  # and no key of a class
        try:
            heap.namespace[name]
        except (KeyError, NameError):
            pass


def bypassing(heap, tree):
    """Return the names that Python may look up or delete without asking the namespace."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    if any(node.id in OPAQUE for node in names):
        return list(heap.state)
    deleted = {node.id for node in names if isinstance(node.ctx, ast.Del)}
    return sorted(deleted | get_class_names(tree))


def get_class_names(tree):
    """Return the names in the bodies of classes, where Python looks only in plain dictionaries."""
    names = set()
    todo = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo += [*node.decorator_list, node.args]
            todo += [node.returns] if node.returns else []
            continue
        todo += ast.iter_child_nodes(node)
    return names


def describe_error(error, name, code):
    """Return what is known of an error, without the frames of this program."""
    import linecache  # these two are slow
    import traceback

    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    report = traceback.TracebackException.from_exception(error, limit=-20)
    part = report
    while part is not None:
        part.stack[:] = [frame for frame in part.stack if frame.filename != "<kernel>"]
        part = part.__cause__ or part.__context__
    report = {"text": "".join(report.format())[-SHOWN_CHARS:], "kind": type(error).__name__}
    if type(error) in (NameError, UnboundLocalError):
        report["name"] = str(error).partition("'")[2].partition("'")[0]
        report["importable"] = is_module(USUAL.get(report["name"], report["name"]))
    return report


def is_module(name):
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
