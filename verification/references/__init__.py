"""Exact privacy losses and distances, sharing no code with what they check. Imports nothing of ``pm_dpgmm``."""
