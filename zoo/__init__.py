"""Released device bugs, and the program that runs them both ways."""
