"""Programs and tests of others, unedited, on a virtual machine."""
