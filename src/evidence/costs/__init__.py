"""Time and memory that samedevice itself takes."""
