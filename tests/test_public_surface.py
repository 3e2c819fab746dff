"""What users may import, and what importing must not do."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import fedcord


def test_all_names_exist_and_the_table_is_complete() -> None:
    for name in fedcord.__all__:
        assert getattr(fedcord, name) is not None
    assert set(fedcord.__all__) == {*fedcord._PLACES, "__version__"}
    assert dir(fedcord) == sorted(fedcord.__all__)


def test_every_module_imports() -> None:
    names = [m.name for m in pkgutil.walk_packages(fedcord.__path__, "fedcord.")]
    assert len(names) > 80
    for name in names:
        if not name.endswith(("worker", "__main__")):
            importlib.import_module(name)


def test_importing_the_root_is_free_of_side_effects(tmp_path: Path) -> None:
    code = (
        "import sys, fedcord\n"
        "heavy = {'torch', 'matplotlib', 'flwr', 'sklearn', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_house_rules_no_pickle_no_eval_no_print() -> None:
    files = sorted(Path(fedcord.__path__[0]).rglob("*.py"))
    assert len(files) > 80
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "dill", "cloudpickle", "marshal"} & set(names), file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "print"}, file
