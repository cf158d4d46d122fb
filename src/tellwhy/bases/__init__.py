"""Kernel bases: features whose inner products approximate a kernel.

What stands where:

- `kernel_basis.KernelBasis`: the estimator: what is drawn or trained, `fit`, `transform`.
- `projections`: the feature maps: random Fourier, orthogonal, Hadamard (structured), landmarks.
- `map_rows`, `_compiled`: features of rows in batches and threads; the Walsh–Hadamard transform.
- `objectives`: what a basis is trained for: the kernel's values, alignment with labels, a classifier.
- `adaptation`, `training`, `torch_features`: that training, in PyTorch; `_triton`: on a graphics card.
"""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.bases.kernel_basis import KernelBasis as KernelBasis

_PLACES = {
    "KernelBasis": "kernel_basis",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
