"""All references: OPS maps each op of the table to its generator of cases (see cases.py)."""
import ref_elementwise  # noqa: F401  registers itself
import ref_movement     # noqa: F401
import ref_products     # noqa: F401
import ref_reduce       # noqa: F401
from cases import OPS, RESULT_ONLY

__all__ = ['OPS', 'RESULT_ONLY']
