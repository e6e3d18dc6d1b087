"""``python -m pm_dpgmm``: the command ``pm-dpgmm``."""

import sys

from pm_dpgmm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
