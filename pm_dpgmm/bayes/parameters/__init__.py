"""The parameters of a mixture as random variables around a release."""
