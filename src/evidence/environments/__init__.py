"""What the other commands build first, package versions and models; and what people install."""
