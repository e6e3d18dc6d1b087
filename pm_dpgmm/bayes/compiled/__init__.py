"""PyTensor operations whose values come from compiled functions of arrays."""
