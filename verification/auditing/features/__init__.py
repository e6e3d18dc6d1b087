"""What the learned scores of an audit look at: how each kind is found in the runs to learn from, and formed."""
