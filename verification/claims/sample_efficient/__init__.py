"""Claims of Ashtiani, Majid and Narayanan (2024)."""
