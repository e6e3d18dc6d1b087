"""Park, Foulds, Chaudhuri and Welling (DP-EM): Figures 2, 3 and 4 on named substitutes for their data."""
