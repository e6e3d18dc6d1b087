"""Searches for inputs that the package handles badly; each is run as a module and reports how many it tried."""
