"""The recovery report: one HTML file, everything in it, nothing fetched; all text of others escaped."""
