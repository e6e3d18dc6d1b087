"""The audit engine: runs, guesses and bets, certified bounds. Imports nothing of ``pm_dpgmm``."""
