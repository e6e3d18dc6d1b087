"""Noisy sums of private EM: what they say about a mixture. No method releases them yet."""
