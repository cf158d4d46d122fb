"""Latent-class contextual anomaly detection: what is odd beside its neighbours."""
