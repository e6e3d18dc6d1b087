"""Method "sketch": compressive mixture learning from a private characteristic function of the records.

Compressive mixture learning is that of Gribonval et al. (2021) and Keriven et al. (2018), its private characteristic
function that of Chatalic et al. (2022), and the fit is matching pursuit with replacement.

A record is clipped to the bounds by ``method.clipped``, if there are any; where the number of records is private
(add-remove), they are counted before (``mechanisms.box.noisy_count``). It then passes ``location`` (an interval of each
column, narrower than the bounds, or without any; ``mechanisms.box``), and after it one sketch (one column) or the
``rounds`` (two columns and more: cells, parts, whitened sketches; ``mechanisms.moments``, ``mechanisms.sketch``).
With a reference it passes ``like`` alone, at the frequencies of that release. Noise is added in ``mechanisms``, and
nothing after it sees a record.

A released statistic passes: ``statistics`` (what a release holds, checked by ``statistics_checks``), ``model``
(stacked, in the unit of the fit; ``scaled_mixture``), ``search/`` (where to begin), ``fit`` (penalised least squares,
on the coordinates that ``covariance_types`` leaves free), ``estimate`` (all of these in order, for one number of
components), ``choice`` (that for several, and for kinds of covariances, the best taken), ``checks/`` (the fit held
against the counts that were released beside the sketch, and what a reader is warned of). A fit, a refit and a merged
release pass all of them. Beside that way stand ``law`` (its density given a mixture, for PyMC), ``laplace`` and
``phantoms`` (how sure the fit is), ``sites`` (whose records are behind it).
"""
