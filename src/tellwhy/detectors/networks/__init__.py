"""Detectors that train a network: autoencoders, and what trains and scores them.

- `vae.VAE`: reconstruction error or negative ELBO; `dagmm.DAGMM`: energy of a mixture on the code.
- `network_detector`: what both share: sizes that are tried, training that stops on rows held out.
- `training`: several networks at once, Adam, successive halving; `network_score`: scores with gradients.
"""
