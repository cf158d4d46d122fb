"""Which number of a network's output is explained: the same choices as for scores of networks."""

from tellwhy.scoring.network_targets import Target, check_target, chosen_outputs, describe, pick_scores

__all__ = ["Target", "check_target", "chosen_outputs", "describe", "pick_scores"]
