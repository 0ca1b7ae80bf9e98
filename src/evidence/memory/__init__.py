"""Predicted training memory, beside ledgers, others' estimates and real peaks."""
