"""The strided tensors that a sparse tensor is made of, by its layout."""

from __future__ import annotations

from typing import Any

import torch

ROWS = ("crow_indices", "col_indices", "values")
COLUMNS = ("ccol_indices", "row_indices", "values")
PARTS: dict[Any, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ROWS,
    torch.sparse_bsr: ROWS,
    torch.sparse_csc: COLUMNS,
    torch.sparse_bsc: COLUMNS,
}
"""Methods that give indices and, last, values."""
