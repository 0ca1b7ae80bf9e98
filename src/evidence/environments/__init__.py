"""What the other commands build first: package versions and models."""
