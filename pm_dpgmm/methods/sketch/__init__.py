"""Method "sketch": compressive mixture learning from a private characteristic function of the records.

Compressive mixture learning is that of Gribonval et al. (2021) and Keriven et al. (2018), its private characteristic
function that of Chatalic et al. (2022), and the fit is matching pursuit with replacement.

A record passes, in this order: ``location`` (an interval for every column, where no bounds are given;
``mechanisms.box``), the scaling to that interval and clipping in ``method``, and then either one sketch (one column),
the ``rounds`` (two columns and more: cells, parts, whitened sketches; ``mechanisms.moments``, ``mechanisms.sketch``) or
the frequencies of another release (``like``). Noise is added in ``mechanisms``, and nothing after it sees a record.

A released statistic passes: ``statistics`` (what a release holds, checked by ``statistics_checks``), ``model``
(stacked, in the unit of the fit), ``start``, ``candidates`` and ``search`` (where to begin), ``fit`` (penalised least
squares), ``choice`` (how many components), ``estimate`` (all of these in order: what a fit, a refit and a merged
release call). Beside that way stand ``law`` (its density given a mixture, for PyMC), ``laplace`` and ``phantoms`` (how
sure the fit is), ``misfit`` and ``caveats`` (what a reader is warned of), ``sites`` (whose records are behind it).
"""
