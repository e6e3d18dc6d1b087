"""Method "gaps": one column without any bounds, by gaps between consecutive records.

``method`` splits the records and spends the budget, ``groups`` reads places, scales and bins off the released gaps,
``bin_fit`` fits mixtures to the released counts of these bins, ``candidates`` says among which of them the last block
of records chooses, ``choice`` compares every two of these, ``statistics`` is what the release holds.
"""
