"""Local privacy: what leaves a person's device is private already. One report each, and what all of them say.

On devices: ``protocol`` (public rules, ``respond``) with ``randomisers``; both load without NumPy. On the server:
``aggregation`` (reports to counts), ``responses`` (layout of a release), ``evidence`` (their likelihood, places by
``waves`` or cells), ``fit``, ``caveats``; ``design`` chooses waves and cells from public knowledge. ``method`` is both
sides at once.
"""
