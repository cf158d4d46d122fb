"""The Gibbs sampler of the mixture, in chains: started apart, run in threads, kept, resumed, watched.

Every unknown is drawn in turn, given all others (its full conditional).

The model, with x̃ = (1, x) and p columns in x:

- row i belongs to component z_i; then y_i ~ N(x̃_iᵀβ_j, σ_j²), j = z_i;
- components have the shares π_j = u_j Π_{l<j}(1 − u_l), u_j ~ Beta(1, α), α ~ Gamma(e, rate f);
- component j uses the elastic net k = c_j, c_j ~ w, w ~ Dirichlet(1/K, …): its coefficients have the density
  exp{−(λ1|β| + λ2β²)/(2σ²)}/Z, with Z = √(2πσ²/λ2)·erfcx(x/√2) and x = λ1/(2σ√λ2);
- λ1 ~ Gamma(R, rate V/2), λ2 ~ Gamma(L, rate V/2), σ² ~ InverseGamma(a, b), intercept ~ N(0, κσ²).

Full conditionals, in the order of a sweep (`n_j` rows are in component j, `m_k` components use net k):

=========  ============================================================================  ===================
drawn      from                                                                          by
=========  ============================================================================  ===================
z_i        ∝ π_j N(y_i; x̃_iᵀβ_j, σ_j²)                                                   draw_assignments
gates      normal-inverse-gamma of the places of the component's rows                    draw_gates
order      ∝ probability of the components' sizes, the sticks u integrated out           draw_order
u_j        Beta(1 + n_j, α + Σ_{l>j} n_l), u_J = 1                                       draw_sticks
α          Gamma(e + J − 1, rate f − Σ_{j<J} log(1 − u_j))                               draw_alpha
c_j        ∝ w_k EN(β_j | σ_j², λ_k)                                                     draw_nets
w          Dirichlet(1/K + m_k)                                                          draw_net_weights
λ1_k λ2_k  slice step on log λ; from the prior where no component uses the net           draw_penalties
σ_j²       slice step on log σ²                                                          draw_variances
t_jl       InverseGaussian(mean λ1/(2λ2|β_jl|), shape λ1²/(4λ2σ_j²))                     draw_scales
β_j        N(M X_jᵀy_j, σ_j²M), M = (X_jᵀX_j + λ2 diag(1 + t_j))⁻¹                       draw_coefficients
(z, u, β)  a pair of components split or merged at once, after some of the sweeps        draw_partition
=========  ============================================================================  ===================

t = τ/(1 − τ) are scales, one per coefficient, that are drawn only so that β_j is normal given them; EN is
the density of the coefficients with these scales integrated out. c, λ and σ² are drawn from EN, without t:
they then mix faster, but t must be drawn anew after the last of them and before β, or the chain has the wrong
limit.

After Guo, Huang, Tao, Xing, Lin, NeurIPS (2018), with the slips of its supplement put right: the shape of α,
the Dirichlet's 1/K, the inverse Gaussian of t, the slice steps' Jacobians.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.params import Fit
from tellwhy.core.progress import track
from tellwhy.core.running import map_in_threads
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.surrogate._compiled_conditionals import draw_coefficients
from tellwhy.explainers.surrogate._compiled_sweep import run_sweeps
from tellwhy.explainers.surrogate.chains import (
    BESIDE,
    GOAL,
    Convergence,
    Data,
    Kept,
    Numbers,
    Priors,
    State,
    convergence,
    make_empty_state,
    make_kept_arrays,
)
from tellwhy.storage.documents import Arrays, Format

FORMAT = Format(
    "a checkpoint of chains",
    "chains.json",
    keys={"data": (str,), "chains": (list,), "origins": (list,)},
    is_compressed=False,  # written every few seconds
)
_CACHED = ("gram", "moment", "member")  # summed anew at the start of every block


def fingerprint(data: Data, numbers: Numbers, settings: Settings) -> str:
    """SHA-256 of all that the draws depend on but the seed."""
    sizes = asdict(settings)
    sizes.pop(
        "max_seconds"
    )  # how long chains may take does not change their draws: they go on with more time
    digest = hashlib.sha256(json.dumps([list(numbers), sizes]).encode())
    for array in data:
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Write how far the chains are, whole or not at all."""
    arrays: Arrays = {}
    for i, chain in enumerate(chains):
        for name, array in _state(chain).items():
            arrays[f"{i}:state:{name}"] = array
        for name, array in chain.kept._asdict().items():
            arrays[f"{i}:kept:{name}"] = array[: chain.n_kept]
    head = {
        "data": mark,
        "chains": [{"done": c.done, "kept": c.n_kept, "random": c.rng.bit_generator.state} for c in chains],
        "origins": [c.origin for c in chains],
    }
    FORMAT.write(folder, head, arrays)


def _state(chain: Chain) -> Arrays:
    return {name: array for name, array in chain.state._asdict().items() if name not in _CACHED}


def resume(folder: Path, mark: str, chains: list[Chain]) -> None:
    """Put chains where they were, if there is a checkpoint; refuse one of other data, settings or seeds."""
    if not FORMAT.is_in(folder):
        return
    head, arrays = FORMAT.read(folder)
    if head["data"] != mark or head["origins"] != [c.origin for c in chains]:
        raise UnreadableFile(
            f"{folder} is a checkpoint of other rows, another model, other settings or another seed. Give "
            "the same ones, or another folder."
        )
    for i, chain in enumerate(chains):
        with FORMAT.reading(folder, f"chains.{i}"):
            _restore(i, chain, head["chains"][i], arrays)


def _restore(i: int, chain: Chain, line: dict[str, Any], arrays: Arrays) -> None:
    chain.done = line["done"]
    chain.n_kept = line["kept"]
    chain.rng.bit_generator.state = line["random"]
    for name, array in _state(chain).items():
        _fill(array, arrays[f"{i}:state:{name}"])
    for name, array in chain.kept._asdict().items():
        _fill(array[: chain.n_kept], arrays[f"{i}:kept:{name}"])


def _fill(array: Any, stored: Any) -> None:
    # numpy would repeat a shorter array, and cut the digits of numbers put among whole ones.
    if (array.shape, array.dtype) != (stored.shape, stored.dtype):
        raise ValueError(f"it holds {stored.dtype} of shape {stored.shape}, not {array.dtype} {array.shape}")
    array[...] = stored


WATCHED = 10  # columns whose mean coefficients are watched, the largest


def spread_of(data: Data) -> Floats:
    """Standard deviation of each column, the one of ones left out."""
    return np.asarray(data.X[:, 1:].std(axis=0))


def quantities(chains: Sequence[Chain], spread: Floats) -> dict[str, Floats]:
    """What is reported of the kept draws, whatever the components' numbers: each (chains, draws).

    The mean of the rows' coefficients in the columns of the largest effects, which columns these are, and,
    beside them, the mean logarithm of the rows' variances. An effect is a coefficient times the column's
    `spread`: a pixel that is nearly always black may have any coefficient. Single rows carry a split-R̂ of
    their own.
    """
    J = chains[0].kept.coef.shape[1]
    means = []
    variances = []
    for chain in chains:
        z = chain.kept.z[: chain.n_kept]
        shares = np.array([(z == j).mean(axis=1) for j in range(J)]).T  # (draws, J)
        means.append(np.einsum("dj,djk->dk", shares, chain.kept.coef[: chain.n_kept])[:, 1:])
        variances.append((shares * np.log(chain.kept.sigma2[: chain.n_kept])).sum(axis=1))
    mean = np.array(means) * spread  # effects, (chains, draws, p)
    found = {BESIDE: np.array(variances)}
    if not mean.shape[2]:
        return found
    order = np.argsort(-np.abs(mean.mean(axis=(0, 1))), kind="stable")
    first = order[:WATCHED]
    found |= {f"effect {k + 1} by size": mean[:, :, column] for k, column in enumerate(first)}
    if mean.shape[2] > WATCHED:
        leading = np.argpartition(-np.abs(mean), WATCHED, axis=2)[:, :, :WATCHED]
        found["features that come first"] = np.isin(leading, first).mean(axis=2)
    return found


MOST_DRAWS = 200  # kept per chain
BLOCK = 20  # sweeps between checkpoints and reports
SAVE_SECONDS = 20.0  # between checkpoints
HOT = 50.0  # temperature of the first sweeps
ANNEALED = 0.7  # part of the burn-in in which it falls to 1


@dataclass(frozen=True)
class Settings:
    """Size of the mixture and length of the chains: `n_burn` sweeps thrown away, then `n_sweeps`.

    With `max_seconds`, chains that do not agree yet go on for about as long, in rounds: each throws away what
    was kept, and is about half as long again as the one before.
    """

    n_components: int = 10
    n_elastic_nets: int = 3
    n_sweeps: int = 1000
    n_burn: int = 500
    n_chains: int = 2
    max_seconds: float | None = None

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
        Split-R̂ and effective draws of what is reported.
    moves
        Of all chains: splits that were tried, of these accepted, merges that were tried, of these accepted.
    """

    coef: Floats
    log_pi: Floats
    sigma2: Floats
    z: NDArray[np.int16]
    gate_mean: Floats
    gate_var: Floats
    n_chains: int
    convergence: Convergence
    moves: Integers

    def by_chain(self, quantity: Floats) -> Floats:
        """Return a quantity of every draw as (chains, draws, …)."""
        return quantity.reshape(self.n_chains, -1, *quantity.shape[1:])

    def _require(self) -> Iterator[Fit]:
        n_draws, n_components = self.log_pi.shape
        yield "coef", self.coef.shape[:2], (n_draws, n_components)
        yield "sigma2", self.sigma2.shape, (n_draws, n_components)
        yield "z", len(self.z), n_draws


def start(data: Data, settings: Settings, priors: Numbers, rng: np.random.Generator) -> State:
    """Start a chain: each row joins the nearest of some random rows, of which there is a random number.

    Chains that start apart, and yet agree in the end, are a sign that they have converged.
    """
    state = make_empty_state(data, settings.n_components, settings.n_elastic_nets)
    n = len(data.y)
    J = settings.n_components
    centres = rng.choice(n, size=rng.integers(1, min(n, J) + 1), replace=False)
    # Columns are divided by √p, so that all of them together count as much as the output does.
    places = np.column_stack([data.X[:, 1:] / np.sqrt(max(data.X.shape[1] - 1, 1)), data.y])
    distances = [((places - places[c]) ** 2).sum(axis=1) for c in centres]
    state.z[:] = np.argmin(distances, axis=0)
    state.counts[:] = np.bincount(state.z, minlength=J)
    state.c[:] = rng.integers(settings.n_elastic_nets, size=J)
    draw_coefficients(state, data, priors, rng)
    return state


@dataclass(eq=False)
class Chain:
    """One chain: where it is, its own random numbers, and what it kept."""

    rng: np.random.Generator
    origin: str  # state of the random numbers at the start, by which a checkpoint is recognised
    state: State
    kept: Kept
    done: int = 0  # sweeps
    n_kept: int = 0  # draws


def sample(
    data: Data,
    priors: Priors,
    settings: Settings,
    *,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    folder: Path | None = None,
    label: str = "sampling the mixture",
) -> Posterior:
    """Run the chains and return what they kept.

    The bits are the same whatever the number of threads, and whether the chains ran through or were resumed.
    With a folder, chains go on from the checkpoint in it, if there is one, and are saved there on the way.
    """
    numbers = priors.numbers()
    chains = [_start_chain(data, settings, numbers, stream) for stream in rng.spawn(settings.n_chains)]
    mark = fingerprint(data, numbers, settings)
    if folder is not None:
        resume(folder, mark, chains)
    run = _Run(chains, data, numbers, settings, n_jobs=n_jobs, folder=folder, mark=mark, label=label)
    with threadpool_limits(1, user_api="blas"):  # threads are those of the chains
        ended = run.to_the_end()
    return _join_posterior(chains, data, ended)


@dataclass(eq=False)
class _Run:
    """Chains on their way: the burn-in, the sweeps that are kept and, where allowed, further rounds."""

    chains: list[Chain]
    data: Data
    numbers: Numbers
    settings: Settings
    n_jobs: int | None
    folder: Path | None
    mark: str
    label: str

    def to_the_end(self) -> str:
        """Run what the settings say, then rounds that get longer, until the chains agree or time is up.

        Returns why they ended, where they were free to go on.
        """
        began = time.monotonic()
        done_before = self.chains[0].done
        end = self._run_through(_blocks(self.settings), start=0, thin=self.settings.thin)
        limit = self.settings.max_seconds
        thin = self.settings.thin
        while limit is not None and not (self._is_at(end) and self._agree()):
            # A round that does not fit is not begun: if rounds doubled, half of the time could go unused.
            thin = max(thin + 1, 3 * thin // 2)
            length = self.settings.n_draws * thin
            seconds = time.monotonic() - began
            swept = self.chains[0].done - done_before
            if self._is_at(end) and swept and seconds * (1.0 + length / swept) > limit:
                return f"ended by the time limit of {limit:,.0f} s, after {end:,} sweeps"
            end = self._run_through(_split_evenly(length, thin), start=end, thin=thin)
        return "" if limit is None else f"agreed after {end:,} sweeps"

    def _block(self, n_sweeps: int, thin: int) -> None:
        """Run one block of sweeps of every chain; draws are kept once the burn-in is over."""
        kept = 0 if self.chains[0].done < self.settings.n_burn else thin
        _set_temperature(self.chains, self.settings.n_burn)
        map_in_threads(
            lambda chain: _run(chain, self.data, self.numbers, n_sweeps, kept), self.chains, self.n_jobs
        )

    def _is_at(self, sweeps: int) -> bool:
        return self.chains[0].done == sweeps

    def _agree(self) -> bool:
        return (
            self.chains[0].n_kept >= 4
            and convergence(quantities(self.chains, spread_of(self.data))).worst_r_hat <= GOAL
        )

    def _run_through(self, blocks: list[int], *, start: int, thin: int) -> int:
        """Run the blocks that a checkpoint has not behind it; return the number of sweeps at their end."""
        end = start + sum(blocks)
        if self._is_at(start):
            for chain in self.chains:
                chain.n_kept = 0
        ends = start + np.cumsum(blocks)
        left = [block for block, after in zip(blocks, ends, strict=True) if after > self.chains[0].done]
        saved_at = time.monotonic()
        for n_sweeps in track(
            left, len(left), lambda: f"{self.label} ({_tell_so_far(self.chains, self.data)})"
        ):
            self._block(n_sweeps, thin)
            is_last = self._is_at(end)
            if self.folder is not None and (time.monotonic() - saved_at > SAVE_SECONDS or is_last):
                save(self.folder, self.mark, self.chains)
                saved_at = time.monotonic()
        return end


def _start_chain(data: Data, settings: Settings, numbers: Numbers, rng: np.random.Generator) -> Chain:
    origin = str(rng.bit_generator.state["state"])
    state = start(data, settings, numbers, rng)
    return Chain(rng, origin, state, make_kept_arrays(state, settings.n_draws))


def _blocks(settings: Settings) -> list[int]:
    """Sweeps per block: the burn-in, then the rest in multiples of the thinning."""
    # Burn-in and what is kept have blocks of their own: a block keeps draws, or it does not.
    burn = [min(BLOCK, settings.n_burn - s) for s in range(0, settings.n_burn, BLOCK)]
    return burn + _split_evenly(settings.n_draws * settings.thin, settings.thin)


def _split_evenly(total: int, thin: int) -> list[int]:
    """Blocks of a number of sweeps, each a multiple of the thinning."""
    size = thin * max(1, BLOCK // thin)
    return [min(size, total - s) for s in range(0, total, size)]


def _set_temperature(chains: list[Chain], n_burn: int) -> None:
    """Cool from HOT to 1 over the first part of the burn-in: hot chains do not stick where they started."""
    left = max(0.0, 1.0 - chains[0].done / max(ANNEALED * n_burn, 1e-9))  # all chains are equally far
    for chain in chains:
        chain.state.cold[0] = HOT**-left


def _run(chain: Chain, data: Data, numbers: Numbers, n_sweeps: int, thin: int) -> None:
    """Run one block of one chain; thin = 0: keep nothing."""
    n_kept = n_sweeps // thin if thin else 0
    room = chain.kept.part(slice(chain.n_kept, chain.n_kept + n_kept))
    run_sweeps(chain.state, data, numbers, chain.rng, n_sweeps, max(thin, 1), room)
    chain.done += n_sweeps
    chain.n_kept += n_kept


def _tell_so_far(chains: list[Chain], data: Data) -> str:
    """How far the chains agree, in a few words."""
    if chains[0].n_kept < 8:
        return "burn-in"
    return convergence(quantities(chains, spread_of(data))).words()


def _join_posterior(chains: list[Chain], data: Data, ended: str) -> Posterior:
    """Join the chains, and measure how far they agree."""
    is_short = chains[0].n_kept < 4  # halves of fewer draws have no variance
    unknown = Convergence({"chains": np.inf}, {"chains": 0.0}, ended=ended)
    measured = unknown if is_short else convergence(quantities(chains, spread_of(data)), ended)
    return Posterior(
        coef=np.concatenate([chain.kept.coef for chain in chains]),
        log_pi=np.concatenate([chain.kept.log_pi for chain in chains]),
        sigma2=np.concatenate([chain.kept.sigma2 for chain in chains]),
        z=np.concatenate([chain.kept.z for chain in chains]),
        gate_mean=np.concatenate([chain.kept.gate_mean for chain in chains]),
        gate_var=np.concatenate([chain.kept.gate_var for chain in chains]),
        n_chains=len(chains),
        convergence=measured,
        moves=np.sum([chain.state.moves for chain in chains], axis=0),
    )
