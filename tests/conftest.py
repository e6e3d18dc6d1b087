"""One thread for each numerical library: the test workers share the machine, and spinning threads slow each other down."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
