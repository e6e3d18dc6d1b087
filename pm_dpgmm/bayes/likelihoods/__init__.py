"""What a release says about the parameters: one likelihood for each kind of released number.

``observe`` looks them up: ``sketch``, ``counts`` (histogram), ``populous`` (an average, masked), ``populous_single``
(one fit, masked), ``em``, ``local``. The files ``X_graph``, ``X_kernel`` and ``X_operation`` belong to ``X``;
``mask_graph`` to both populous ones.
"""
