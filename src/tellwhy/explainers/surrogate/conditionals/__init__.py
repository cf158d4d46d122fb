"""Gibbs sampler of the mixture: every unknown is drawn in turn, given all others (its full conditional).

The model, with x̃ = (1, x) and p columns in x:

- row i belongs to component z_i; then y_i ~ N(x̃_iᵀβ_j, σ_j²), j = z_i;
- components have the shares π_j = u_j Π_{l<j}(1 − u_l), u_j ~ Beta(1, α), α ~ Gamma(e, rate f);
- component j uses the elastic net k = c_j, c_j ~ w, w ~ Dirichlet(1/K, …): its coefficients have the density
  exp{−(λ1|β| + λ2β²)/(2σ²)}/Z, with Z = √(2πσ²/λ2)·erfcx(x/√2) and x = λ1/(2σ√λ2);
- λ1 ~ Gamma(R, rate V/2), λ2 ~ Gamma(L, rate V/2), σ² ~ InverseGamma(a, b), intercept ~ N(0, κσ²).

Full conditionals, in the order of a sweep (`n_j` rows are in component j, `m_k` components use net k):

=========  ============================================================================  ===================
drawn      from                                                                          file
=========  ============================================================================  ===================
z_i        ∝ π_j N(y_i; x̃_iᵀβ_j, σ_j²)                                                   components
gates      normal-inverse-gamma of the places of the component's rows                    components
order      ∝ probability of the components' sizes, the sticks u integrated out           order
u_j        Beta(1 + n_j, α + Σ_{l>j} n_l), u_J = 1                                       components
α          Gamma(e + J − 1, rate f − Σ_{j<J} log(1 − u_j))                               components
c_j        ∝ w_k EN(β_j | σ_j², λ_k)                                                     nets
w          Dirichlet(1/K + m_k)                                                          nets
λ1_k λ2_k  slice step on log λ; from the prior where no component uses the net           nets
σ_j²       slice step on log σ²                                                          nets
t_jl       InverseGaussian(mean λ1/(2λ2|β_jl|), shape λ1²/(4λ2σ_j²))                     nets
β_j        N(M X_jᵀy_j, σ_j²M), M = (X_jᵀX_j + λ2 diag(1 + t_j))⁻¹                       coefficients
(z, u, β)  a pair of components split or merged at once, after some of the sweeps        partition
=========  ============================================================================  ===================

t = τ/(1 − τ) are scales, one per coefficient, that are drawn only so that β_j is normal given them; EN is
the density of the coefficients with these scales integrated out. c, λ and σ² are drawn from EN, without t:
they then mix faster, but t must be drawn anew after the last of them and before β, or the chain has the wrong
limit.

After Guo, Huang, Tao, Xing, Lin, NeurIPS (2018), with the slips of its supplement put right: the shape of α,
the Dirichlet's 1/K, the inverse Gaussian of t, the slice steps' Jacobians.
"""
