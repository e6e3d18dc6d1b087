"""Claims on the Private Populous Estimator with one fit."""
