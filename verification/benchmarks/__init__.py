"""Figures beside peers; each runs as ``python -m verification.benchmarks.NAME``.

Which page has a figure of which:

- README.md and docs/how-many-records.md, sizes for "sketch": ``accuracy --sets ...`` (its sets: ``sets``), also the
  histogram in one column; docs/how-many-records.md, table of "slices": ``slices_accuracy``.
- docs/real-tables.md: ``real_tables``. docs/large-data.md: ``out_of_core``.
- docs/which-method.md, kinds of covariances: ``covariance_types``; figure of "gaps" beside others: ``far_and_wide``;
  records that populous methods need: ``populous_table``; about one of them each are ``populous_single_size`` and
  ``populous_release``; local privacy: ``local_release``.
- docs/pymc.md, labels and latent vectors: ``labelled_rows``, ``prior_modes``; samplers: ``sampler_agreement``; seconds
  to the first draw: ``first_sample``; density of rows: ``gmm_density``. Its coverage: ``verification.calibration``.
- docs/audit-a-claim.md: ``auditors``, ``at_the_limit``, of curves ``curve_power`` and ``curve_false_alarms``, of one
  run ``one_run`` and ``one_run_fits``.
  docs/robustness-to-privacy.md: ``robust_normal``.

On no page, for whoever changes a part: ``number_of_components``, ``misfit_effect``, ``multi_scale`` and
``random_instances`` (fits of the sketch), ``ablation`` (its constants), ``sketch_speed``, ``histogram_size`` (the
demo's columns), ``anchored_model``, ``moment_learner``, ``batched_em_speed``, ``friend_table_speed``, ``import_time``;
``fault_power`` (do audits catch planted faults?) and ``mutations`` (do tests?).
"""
