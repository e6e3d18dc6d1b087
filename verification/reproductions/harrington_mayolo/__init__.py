"""Harrington and Mayolo: Table 1 (Old Faithful) and Figures 3 and 4 (three components in one column)."""
