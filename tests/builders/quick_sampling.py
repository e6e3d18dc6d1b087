"""Settings of ``pm.sample`` for tests that ask whether it runs, not what it finds."""

# for functions that take keywords or copy them; pm.sample_smc and predictive sampling change what they get: dict(FAST)
FAST = {"mode": "FAST_COMPILE"}
QUICK = {
    "draws": 10,
    "tune": 10,
    "chains": 1,
    "cores": 1,
    "progressbar": False,
    "random_seed": 1,
    "compute_convergence_checks": False,
    "compile_kwargs": FAST,
}
