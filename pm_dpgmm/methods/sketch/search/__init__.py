"""Where a fit to a sketch begins: searches for a mixture in released numbers. Post-processing, free of budget.

``start`` merges the leaves of the cells' moments, ``dictionary`` lays candidates around what is found, and
``matched_filter`` on a grid of all places that the bounds allow. ``pursuit`` adds, refines, replaces and drops them:
matching pursuit with replacement.
"""
