"""Workers that joblib replaces, where warnings are errors."""

import subprocess
import sys

SCRIPT = """
import sys, warnings
import joblib.externals.loky.process_executor as executor
from verification import audit

def growing(data, n_samples, rng):
    executor._MAX_MEMORY_LEAK_SIZE, executor._MEMORY_LEAK_CHECK_DELAY = -(10**12), 0.0
    return data + rng.laplace(size=n_samples)

if __name__ == "__main__":
    warnings.simplefilter("error")
    print(audit(growing, x=0.0, x_neighbour=1.0, epsilon=1.0, n_samples=1_000, n_jobs=2).n_samples)
"""


def test_an_audit_goes_on_where_workers_are_replaced_and_warnings_are_errors(tmp_path):
    """It waited for ever: the thread that replaces them ended in joblib's warning."""
    script = tmp_path / "growing.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "1000\n", done.stderr
