"""A detector of windows and patches, for series and images (section 7 of the One-Class DTD paper).

- `patch_model.PatchModel`: which patches are drawn, and the detector that is fitted to them.
- `patch_score`: O = Σ_t o_t over the patches, in threads or on a device.
- `layer_features`: activations of a frozen network in the place of pixels.
"""
