"""The privacy profile of a mechanism with known log densities: the curve delta(epsilon) with a confidence band."""

from verification.profile.profile import MeasuredProfile, privacy_profile

__all__ = ["MeasuredProfile", "privacy_profile"]
