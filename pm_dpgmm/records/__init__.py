"""From files and tables to numbers, record by record, before anything is spent."""
