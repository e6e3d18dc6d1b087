"""What a number of records and a budget will buy, by simulation on public mixtures."""
