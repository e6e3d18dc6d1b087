"""Where samplers start, and a learner that finds posterior modes."""
