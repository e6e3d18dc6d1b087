"""What touches records before noise, and the noise.

Each module that makes a promise has a proof note of its name beside it.
"""
