"""Contracts that every detector and explainer passes."""
