import importlib.util
import sys

import pytest

from pm_dpgmm.bayes.compiled.kernel_calls import version_of

KERNEL = "import numba\n\n\n@numba.njit\ndef kernel(x):\n    return x + {}\n"


@pytest.fixture
def kernel_of(tmp_path, monkeypatch):
    def made(name, number):
        path = tmp_path / f"{name}_{number}.py"
        path.write_text(KERNEL.format(number))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module.kernel

    return made


def test_code_on_disk_of_a_kernel_with_another_name_or_source_is_not_found(kernel_of):
    """Compiled code imports the modules it was made with: after a rename they are gone."""
    versions = [
        version_of(kernel_of(name, number)) for name, number in [("one", 1), ("two", 1), ("one", 2), ("one", 1)]
    ]
    assert len(set(versions)) == 3 and versions[0] == versions[3]
