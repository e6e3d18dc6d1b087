"""What is promised: guarantees, their exact curves, the ledger, and the only sources of noise."""
