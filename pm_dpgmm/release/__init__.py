"""What one does with a release: choose, check, combine, draw, plot, publish. All of it is free post-processing."""
