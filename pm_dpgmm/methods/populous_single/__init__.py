"""Method "populous-single": the Private Populous Estimator as published, with one masked fit."""
