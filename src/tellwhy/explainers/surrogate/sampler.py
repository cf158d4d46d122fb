"""Chains of the mixture's sampler: started apart, run in threads, kept, resumed from a checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tellwhy.core.parallel import thread_map
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.explainers.surrogate import checkpoint
from tellwhy.explainers.surrogate._compiled import Data, Kept, State, draw_coefficients, run_sweeps
from tellwhy.explainers.surrogate.convergence import Convergence, convergence
from tellwhy.explainers.surrogate.priors import Priors

MOST_DRAWS = 200  # kept per chain
BLOCK = 20  # sweeps between checkpoints and reports
WATCHED = 8  # rows whose fitted values are watched for convergence
SAVE_SECONDS = 20.0
HOT, ANNEALED = 50.0, 0.7  # temperature of the first sweeps; part of the burn-in that is annealed


@dataclass(frozen=True)
class Settings:
    """Size of the mixture and length of the chains: `n_burn` sweeps thrown away, then `n_sweeps`."""

    n_components: int = 10
    n_elastic_nets: int = 3
    n_sweeps: int = 1000
    n_burn: int = 500
    n_chains: int = 2

    @property
    def thin(self) -> int:
        """Sweeps between kept draws."""
        return max(1, -(-self.n_sweeps // MOST_DRAWS))

    @property
    def n_draws(self) -> int:
        """Draws kept of each chain."""
        return max(1, self.n_sweeps // self.thin)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of all chains, one after the other: D draws of J components in p columns.

    Attributes
    ----------
    coef
        Intercept and coefficients, shape (D, J, 1 + p).
    log_pi, sigma2
        Shape (D, J).
    z
        Component of each row, shape (D, n).
    gate_mean, gate_var
        Shape (D, J, q); q = 0 without gates.
    n_chains
        The first D/n_chains draws are those of the first chain, and so on.
    convergence
        Split-R̂ and effective draws of label-invariant quantities.
    """

    coef: Floats
    log_pi: Floats
    sigma2: Floats
    z: Integers
    gate_mean: Floats
    gate_var: Floats
    n_chains: int
    convergence: Convergence

    def by_chain(self, quantity: Floats) -> Floats:
        """Return a quantity of every draw as (chains, draws, …)."""
        return quantity.reshape(self.n_chains, -1, *quantity.shape[1:])


def design(X: Floats, y: Floats, gates: Floats | None = None) -> Any:
    """Return the rows as the compiled code takes them, with a first column of ones."""
    gates = np.empty((len(y), 0)) if gates is None else np.ascontiguousarray(gates, dtype=np.float64)
    return Data(np.ascontiguousarray(np.column_stack([np.ones(len(y)), X])), np.ascontiguousarray(y), gates)


def empty_state(data: Any, n_components: int, n_elastic_nets: int) -> Any:
    """Return arrays of the right shapes; Gram matrices only where there are at least as many rows as columns."""
    (n, width), J, K, q = data.X.shape, n_components, n_elastic_nets, data.gates.shape[1]
    grams = J if n >= width else 0
    return State(
        z=np.zeros(n, dtype=np.int64),
        counts=np.zeros(J, dtype=np.int64),
        log_rest=np.zeros(J),
        log_pi=np.full(J, -np.log(J)),
        alpha=np.ones(1),
        log_w=np.full(K, -np.log(K)),
        c=np.zeros(J, dtype=np.int64),
        lambda1=np.ones(K),
        lambda2=np.ones(K),
        sigma2=np.ones(J),
        t=np.ones((J, width - 1)),
        coef=np.zeros((J, width)),
        gate_mean=np.zeros((J, q)),
        gate_var=np.ones((J, q)),
        gram=np.zeros((grams, width, width)),
        moment=np.zeros((grams, width)),
        member=np.full(n, -1, dtype=np.int64),
        cold=np.ones(1),
    )


def start(data: Any, settings: Settings, priors: Any, rng: np.random.Generator) -> Any:
    """Start a chain from rows grouped around random rows: chains start far apart, but not absurdly."""
    state = empty_state(data, settings.n_components, settings.n_elastic_nets)
    n, J = len(data.y), settings.n_components
    centres = rng.choice(n, size=rng.integers(1, min(n, J) + 1), replace=False)
    places = np.column_stack([data.X[:, 1:] / np.sqrt(max(data.X.shape[1] - 1, 1)), data.y])
    distances = [((places - places[c]) ** 2).sum(axis=1) for c in centres]
    state.z[:] = np.argmin(distances, axis=0)
    state.counts[:] = np.bincount(state.z, minlength=J)
    state.c[:] = rng.integers(settings.n_elastic_nets, size=J)
    draw_coefficients(state, data, priors, rng)
    return state


def kept_arrays(state: Any, n_draws: int) -> Any:
    """Return room for some draws."""
    return Kept(
        np.zeros((n_draws, len(state.z)), dtype=np.int16),
        np.zeros((n_draws, *state.coef.shape)),
        np.zeros((n_draws, *state.log_pi.shape)),
        np.zeros((n_draws, *state.sigma2.shape)),
        np.zeros((n_draws, *state.gate_mean.shape)),
        np.zeros((n_draws, *state.gate_var.shape)),
    )


@dataclass(eq=False)
class Chain:
    """One chain: where it is, its own random numbers, and what it kept."""

    rng: np.random.Generator
    origin: str  # state of the random numbers at the start
    state: Any
    kept: Any
    done: int = 0  # sweeps
    n_kept: int = 0


def sample(
    data: Any,
    priors: Priors,
    settings: Settings,
    *,
    rng: np.random.Generator,
    n_jobs: int = -1,
    folder: Path | None = None,
    label: str = "sampling the mixture",
) -> Posterior:
    """Run the chains and return what they kept: the same bits whatever the number of threads, resumed or not."""
    numbers = priors.numbers()
    chains = [_new_chain(data, settings, numbers, stream) for stream in rng.spawn(settings.n_chains)]
    mark = checkpoint.fingerprint(data, numbers, settings)
    if folder is not None:
        checkpoint.resume(folder, mark, chains)
    blocks = _blocks(settings)
    first = sum(np.cumsum([0, *blocks])[1:] <= chains[0].done)
    saved_at = time.monotonic()
    progress = track(blocks[first:], len(blocks) - first, lambda: f"{label} ({_so_far(chains, data)})")
    with threadpool_limits(1, user_api="blas"):
        for n_sweeps in progress:
            thin = 0 if chains[0].done < settings.n_burn else settings.thin
            _set_temperature(chains, settings.n_burn)
            thread_map(
                lambda chain, n=n_sweeps, thin=thin: _run(chain, data, numbers, n, thin), chains, n_jobs
            )
            if folder is not None and (time.monotonic() - saved_at > SAVE_SECONDS or n_sweeps is blocks[-1]):
                checkpoint.save(folder, mark, chains)
                saved_at = time.monotonic()
    return _posterior(chains, data)


def _new_chain(data: Any, settings: Settings, numbers: Any, rng: np.random.Generator) -> Chain:
    origin = str(rng.bit_generator.state["state"])
    state = start(data, settings, numbers, rng)
    return Chain(rng, origin, state, kept_arrays(state, settings.n_draws))


def _blocks(settings: Settings) -> list[int]:
    """Sweeps per block: the burn-in, then the rest in multiples of the thinning."""
    size = settings.thin * max(1, BLOCK // settings.thin)
    total = settings.n_draws * settings.thin
    burn = [min(BLOCK, settings.n_burn - s) for s in range(0, settings.n_burn, BLOCK)]
    return burn + [min(size, total - s) for s in range(0, total, size)]


def _set_temperature(chains: list[Chain], n_burn: int) -> None:
    """Cool from HOT to 1 over the first part of the burn-in: chains that start hot do not stick where they started."""
    left = max(0.0, 1.0 - chains[0].done / max(ANNEALED * n_burn, 1e-9))
    for chain in chains:
        chain.state.cold[0] = HOT**-left


def _run(chain: Chain, data: Any, numbers: Any, n_sweeps: int, thin: int) -> None:
    """Run one block; thin = 0: keep nothing."""
    n_kept = n_sweeps // thin if thin else 0
    room = Kept(*(array[chain.n_kept : chain.n_kept + n_kept] for array in chain.kept))
    run_sweeps(chain.state, data, numbers, chain.rng, n_sweeps, max(thin, 1), room)
    chain.done += n_sweeps
    chain.n_kept += n_kept


def _so_far(chains: list[Chain], data: Any) -> str:
    if chains[0].n_kept < 8:
        return "burn-in"
    return convergence(quantities(chains, data)).words()


def quantities(chains: list[Chain], data: Any) -> dict[str, Floats]:
    """Label-invariant quantities of the kept draws, each (chains, draws)."""
    n = len(data.y)
    watched = evenly_spread(n, WATCHED)
    found: dict[str, list[Floats]] = {}
    for chain in chains:
        z, coef = chain.kept.z[: chain.n_kept].astype(np.int64), chain.kept.coef[: chain.n_kept]
        sigma2, draw = chain.kept.sigma2[: chain.n_kept], np.arange(chain.n_kept)[:, None]
        of_rows = np.log(sigma2[draw, z])
        fitted = np.einsum("dik,ik->di", coef[draw, z[:, watched]], data.X[watched])
        found.setdefault("mean log variance of the rows", []).append(of_rows.mean(axis=1))
        for k, row in enumerate(watched):
            found.setdefault(f"fitted value of row {row}", []).append(fitted[:, k])
    return {name: np.array(draws) for name, draws in found.items()}


def _posterior(chains: list[Chain], data: Any) -> Posterior:
    joined = Kept(*(np.concatenate([getattr(chain.kept, name) for chain in chains]) for name in Kept._fields))
    found = quantities(chains, data)
    short = chains[0].n_kept < 4
    measured = Convergence({"chains": np.inf}, {"chains": 0.0}) if short else convergence(found)
    return Posterior(
        coef=joined.coef,
        log_pi=joined.log_pi,
        sigma2=joined.sigma2,
        z=joined.z,
        gate_mean=joined.gate_mean,
        gate_var=joined.gate_var,
        n_chains=len(chains),
        convergence=measured,
    )
