"""Resolution of imports to files."""

import pytest

from agent.index.modules import Modules

PYTHON = (".py", ".pyi")
PATHS = [
    "setup.py",
    "src/pkg/__init__.py",
    "src/pkg/mod.py",
    "src/pkg/mod.pyi",
    "src/pkg/sub/__init__.py",
    "src/pkg/sub/deep.py",
    "src/single.py",
    "space/inner/one.py",
    "vendor/lib/thing/__init__.py",
    "tests/conftest.py",
    "tests/helpers.py",
    "tests/unit/test_x.py",
    "pkg/readme.md",
]


@pytest.fixture(scope="module")
def modules() -> Modules:
    return Modules([path for path in PATHS if path.endswith(PYTHON)], {})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("setup.py", "setup"),
        ("src/pkg/__init__.py", "pkg"),
        ("src/pkg/mod.py", "pkg.mod"),
        ("src/pkg/sub/deep.py", "pkg.sub.deep"),
        ("src/single.py", "single"),
        ("space/inner/one.py", "space.inner.one"),
        ("vendor/lib/thing/__init__.py", "thing"),
        ("tests/unit/test_x.py", "tests.unit.test_x"),
    ],
)
def test_names(modules: Modules, path: str, name: str) -> None:
    """A file has the name by which it would be imported."""
    assert modules.name(path) == name


@pytest.mark.parametrize(
    ("module", "level", "importer", "expected"),
    [
        ("pkg", 0, "tests/unit/test_x.py", "src/pkg/__init__.py"),
        ("pkg.mod", 0, "setup.py", "src/pkg/mod.py"),
        ("pkg.sub.deep", 0, "setup.py", "src/pkg/sub/deep.py"),
        ("pkg.none", 0, "setup.py", None),
        ("none.mod", 0, "setup.py", None),
        ("single", 0, "src/pkg/mod.py", "src/single.py"),
        ("space.inner.one", 0, "setup.py", "space/inner/one.py"),
        ("space.inner", 0, "setup.py", "space/inner/"),
        ("thing", 0, "setup.py", "vendor/lib/thing/__init__.py"),
        ("helpers", 0, "tests/unit/test_x.py", "tests/helpers.py"),
        ("helpers", 0, "setup.py", None),
        ("mod", 0, "src/pkg/sub/deep.py", None),  # no implicit relative imports
        ("", 1, "src/pkg/mod.py", "src/pkg/__init__.py"),
        ("mod", 1, "src/pkg/__init__.py", "src/pkg/mod.py"),
        ("mod", 2, "src/pkg/sub/deep.py", "src/pkg/mod.py"),
        ("", 2, "src/pkg/sub/__init__.py", "src/pkg/__init__.py"),
        ("helpers", 2, "tests/unit/test_x.py", "tests/helpers.py"),
        ("x", 9, "src/pkg/mod.py", None),
        ("", 1, "setup.py", "./"),
    ],
)
def test_imports(
    modules: Modules, module: str, level: int, importer: str, expected: str | None
) -> None:
    """Absolute and relative imports are resolved, in packages with and without `__init__.py`."""
    assert modules.find_imported("." * level + module, importer) == expected


def test_a_module_is_no_package() -> None:
    """Only packages have submodules."""
    modules = Modules([path for path in PATHS if path.endswith(PYTHON)], {})
    assert modules.submodule("src/pkg/__init__.py", "sub") == "src/pkg/sub/__init__.py"
    assert modules.submodule("src/pkg/mod.py", "sub") is None
    assert modules.submodule("space/", "inner") == "space/inner/"
    assert modules.submodule("./", "setup") == "setup.py"
