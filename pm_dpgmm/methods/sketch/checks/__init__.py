"""A fit held against all that was released beside the sketch, before it is handed over. Post-processing.

``finish`` is the way through: ``places`` (which of its images a component is), ``counted_groups`` (groups that cells
count and no component stands for), ``outliers`` (a broad background, if the sketch speaks for one), ``misfit`` and
``caveats`` (what a reader is warned of).
"""
