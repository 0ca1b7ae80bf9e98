"""Released bugs of libraries, on the version that has each and on the one that does not."""
