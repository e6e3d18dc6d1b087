"""What a release says about the parameters: one likelihood for each kind of released number.

``observe`` looks them up: ``sketch``, ``counts`` (histogram), ``populous`` (masked averages), ``masks`` (one masked
fit, method "populous-single"), ``em``, ``local``. The files ``X_graph``, ``X_kernel`` and ``X_operation`` belong to
``X``.
"""
