"""What the commands above build: package versions and models."""
