"""Methods "histogram" and "slices": noisy counts of public bins, and the mixture behind them.

A record is clipped to the bounds and counted in ``mechanisms.histogram.cell_counts`` or
``mechanisms.slices.slice_counts``; ``mechanisms.histogram.noisy_counts`` adds the noise; ``histogram_fit`` and
``slice_fit`` see nothing else; ``caveats`` warn.
"""
