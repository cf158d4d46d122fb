"""Shapley interactions of pairs of players: of all sets by definition, of drawn ones by a regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import comb

from tellwhy.core.score import Floats
from tellwhy.explainers.rows import Players
from tellwhy.explainers.shapley.pair_regression import regress_pairs
from tellwhy.explainers.shapley.shapley_values import Coalitions


class Played(NamedTuple):
    """v(∅) of each row, v(S) of each row and coalition, and the errors of drawn reference rows, if any."""

    empty: Floats
    worth: Floats
    errors: Floats | None


class Outcome(NamedTuple):
    """What was found of some rows: who played, what sets are worth, the scores, and the players' values."""

    players: Players
    played: Played
    full: Floats
    values: Floats


def find_interactions(coalitions: Coalitions, found: Outcome) -> tuple[Floats, Floats | None]:
    """Shapley interactions of pairs of players, (n, p, p), and their standard errors where sets were drawn.

    Entries (i, j) and (j, i) hold half of it each, and the diagonal what a player does alone, so that rows
    add up to the players' values. Grabisch, Roubens, International Journal of Game Theory 28 (1999).
    """
    errors = None
    p = coalitions.n_players
    if coalitions.is_exact:
        pairs = find_all_pairs(coalitions, found.played, found.full)
    else:
        m = len(coalitions.members) // 2
        inside, outside = found.played.worth[:, :m].T, found.played.worth[:, m:].T
        odd = np.vstack([inside - outside, found.full - found.played.empty]) / 2.0
        even = np.vstack([inside + outside, found.full + found.played.empty]) / 2.0
        whole, spread = regress_pairs(coalitions.members[:m], coalitions.weights[:m], odd, even)
        pairs, errors = whole / 2.0, spread / 2.0
    diagonal = np.arange(p)
    pairs[:, diagonal, diagonal] = found.values - pairs.sum(axis=2)
    if errors is not None:
        errors[:, diagonal, diagonal] = np.sqrt((errors**2).sum(axis=2))
    return pairs, errors


def find_all_pairs(coalitions: Coalitions, played: Played, full: Floats) -> Floats:
    """Half the interactions of pairs from the worth of all sets, (n, p, p), with an empty diagonal.

    I_ij = Σ_S |S|! (p − |S| − 2)!/(p − 1)! (v(S ∪ ij) − v(S ∪ i) − v(S ∪ j) + v(S)), over sets S without i
    and j.
    """
    p = coalitions.n_players
    found = np.zeros((len(full), p, p))
    if p > 1:
        nobody = np.zeros((1, p), dtype=bool)
        members = np.concatenate([coalitions.members, nobody, ~nobody])
        worth = np.column_stack([played.worth, played.empty, full])
        sizes = members.sum(axis=1)
        inside = members.astype(np.float64)
        for shared, sign in ((2, 1.0), (1, -1.0), (0, 1.0)):  # how many of the pair a set holds
            rest = sizes - shared
            is_possible = (rest >= 0) & (rest <= p - 2)
            weights = np.zeros(len(members))
            weights[is_possible] = sign / ((p - 1) * comb(p - 2, rest[is_possible]))
            weighed = worth * weights
            if shared == 2:
                found += np.einsum("ns,si,sj->nij", weighed, inside, inside, optimize=True)
            elif shared == 0:
                found += np.einsum("ns,si,sj->nij", weighed, 1 - inside, 1 - inside, optimize=True)
            else:
                one = np.einsum("ns,si,sj->nij", weighed, inside, 1 - inside, optimize=True)
                found += one + one.transpose(0, 2, 1)
        found /= 2.0
    diagonal = np.arange(p)
    found[:, diagonal, diagonal] = 0.0
    return found
