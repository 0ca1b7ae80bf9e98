"""What healed programs and models compute."""
