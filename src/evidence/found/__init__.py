"""Device bugs that the sweep found in released libraries."""
