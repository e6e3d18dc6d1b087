"""Fitting methods: one frozen settings class each; ``check`` sees public facts, ``release`` sees the records."""
