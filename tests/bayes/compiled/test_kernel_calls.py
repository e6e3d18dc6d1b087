import importlib.util
import inspect
import sys

import pytest

from pm_dpgmm.bayes.compiled import kernel_calls
from pm_dpgmm.bayes.compiled.kernel_calls import version_of

KERNEL = "import numba\n\n\n@numba.njit\ndef kernel(x):\n    return x + {}\n"


@pytest.fixture
def module_of(tmp_path, monkeypatch):
    """A module of this name and source."""

    def made(name, source):
        path = tmp_path / f"{name}_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return made


def test_code_on_disk_of_a_kernel_with_another_name_or_source_is_not_found(module_of):
    """Compiled code imports the modules it was made with: after a rename they are gone."""
    sources = [("one", 1), ("two", 1), ("one", 2), ("one", 1)]
    versions = [version_of(module_of(name, KERNEL.format(number)).kernel) for name, number in sources]
    assert len(set(versions)) == 3 and versions[0] == versions[3]


def test_nor_is_code_that_calls_kernels_by_another_version_of_this_module(module_of):
    """The name is what an upgrade changed: compiled models imported the module under its old one, and failed."""
    kernel, source = module_of("one", KERNEL.format(1)).kernel, inspect.getsource(kernel_calls)
    versions = [version_of(kernel)]
    for name, text in [("moved", source), ("moved", f"{source}# changed"), ("moved", source)]:
        versions.append(module_of(name, text).version_of(kernel))
    assert len(set(versions)) == 3 and versions[1] == versions[3]
