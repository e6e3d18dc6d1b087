"""What a release says about the parameters: one likelihood for each kind of released number."""
