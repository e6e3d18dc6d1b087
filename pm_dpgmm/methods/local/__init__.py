"""Local privacy: every record's own randomised response, and what it says. No method releases them yet."""
