"""A virtual machine answers what torch and CUDA answer."""
