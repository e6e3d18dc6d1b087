"""One thread for each numerical library: the test workers share the machine, and spinning threads slow each other down.

Property tests repeat the same examples at every run; ``HYPOTHESIS_PROFILE=night`` draws fresh and more ones.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings  # noqa: E402 - after the threads are set

settings.register_profile("day", derandomize=True, database=None, deadline=None)
settings.register_profile("night", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "day"))
