"""What a trained filter, or an estimator, is worth: metrics, diagnoses and their tables, as files."""
