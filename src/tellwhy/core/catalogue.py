"""The methods of tellwhy: one table of what each needs, costs, promises and cites, and of its file.

Reading the table, or asking which methods apply to a score, loads none of them.
"""

from typing import Any

from tellwhy.core.card import Card, anything, asks, has, has_any, has_none, has_points, is_a


def _make_card(place: str, role: str = "", family: str = "", **told: Any) -> Card:
    """Return the card of a class at a place below the package; its family is its folder if none is told."""
    module, name = place.split(":")
    folders = module.split(".")
    usual = ("detector", "detectors") if folders[0] == "detectors" else ("explainer", folders[1])
    return Card(name, role or usual[0], family or usual[1], where=f"tellwhy.{module}", **told)


_ADDS_UP = "output = sum of values + residual, exactly"
_ONE_PASS = "one forward and one backward pass"
_TWO_PASSES = "one forward and about two backward passes"
_NETWORK = "a torch.nn.Module"
_SIGNAL = "a signal, not shares"
_COMPARABLE = "numeric columns on comparable scales"
_CLOSED = "closed form; what is not attributed is stated"
_PLAIN_NETWORK = "a torch.nn.Module of layers, ReLU and pools, and rows to learn from"
_ONE_PASS_LEARNED = (
    "one forward and one backward pass, after one over the rows that patterns are learned from"
)
_KAUFFMANN = "Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198"

METHODS = (
    _make_card(
        "detectors.kernel.cluster_svdd:ClusterSVDD",
        needs=_COMPARABLE,
        cost="fit O(n K d) per round for ν = 1, an SVDD per cluster and round for ν < 1; score O(n K d)",
        exactness="a local optimum, the best of several starts",
        citation=(
            "Görnitz, Lima, Müller, Kloft, Nakajima, IEEE Transactions on Neural Networks and Learning "
            "Systems (2017)"
        ),
    ),
    _make_card(
        "detectors.committee.committee:Committee",
        needs="numeric columns, on any scales",
        cost="fit and score O(n m d), m ≤ max_points remembered rows",
        exactness="closed form",
        citation="Vovk, Wang, Annals of Statistics 49 (2021), on combining; members are classical",
    ),
    _make_card(
        "detectors.networks.dagmm:DAGMM",
        needs="numeric columns, PyTorch; a thousand rows or more",
        cost="fit O(n (d + h) h + n K l²) per pass; score O(n (d + h) h + n K l²)",
        exactness="a local optimum, stopped early",
        citation=(
            "Zong, Song, Min, Cheng, Lumezanu, Cho, Chen, International Conference on Learning "
            "Representations (2018)"
        ),
    ),
    _make_card(
        "detectors.gaussian_mixture:GaussianMixture",
        needs="numeric columns",
        cost="fit O(n K d²) per round of expectation maximisation; score O(n K d²)",
        exactness="a local optimum of the likelihood",
        citation="Dempster, Laird, Rubin, Journal of the Royal Statistical Society B 39 (1977)",
    ),
    _make_card(
        "detectors.kernel.kernel_density:KernelDensity",
        needs=_COMPARABLE,
        cost="fit O(n), thresholds O(n² d) up to 20,000 rows; score O(n m d)",
        exactness="closed form",
        citation="Parzen, Annals of Mathematical Statistics 33 (1962)",
    ),
    _make_card(
        "detectors.mixed_marginals:MixedMarginals",
        needs="numeric columns, also with values that many rows share",
        cost="fit O(n d² + d³); score O(n d (d + 64))",
        exactness="closed form, by ranks",
        citation=(
            "Nelsen, An Introduction to Copulas (2006); Ledoit, Wolf, J. Multivariate Analysis 88 (2004)"
        ),
    ),
    _make_card(
        "detectors.nearest_neighbours:NearestNeighbours",
        needs=_COMPARABLE,
        cost="fit O(n), thresholds O(n² d) up to 20,000 rows; score O(n m d)",
        exactness="closed form",
        citation="Angiulli, Pizzuti, PKDD (2002)",
    ),
    _make_card(
        "detectors.kernel.one_class_svm:OneClassSVM",
        needs=_COMPARABLE,
        cost="fit between O(n·νn) and O(n²), O(n) on features; score O(n m d)",
        exactness="global optimum for q ≤ 2; on features, certified in their space and told by landmarks",
        citation="Schölkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Computation 13 (2001)",
    ),
    _make_card(
        "detectors.pca_detector:PCADetector",
        needs=_COMPARABLE,
        cost="fit O(n d min(n, d)); score O(n k d)",
        exactness="closed form",
        citation="Jackson, Mudholkar, Technometrics 21 (1979)",
    ),
    _make_card(
        "detectors.kernel.svdd:SVDD",
        needs=_COMPARABLE,
        cost="fit between O(n·νn) and O(n²); score O(n m d), O(n d) for the linear kernel",
        exactness="global optimum for q ≤ 2",
        citation="Tax, Duin, Machine Learning 54 (2004)",
    ),
    _make_card(
        "detectors.networks.vae:VAE",
        needs="numeric columns, PyTorch; a thousand rows or more",
        cost="fit O(n (d + h) h) per pass; score O(n (d + h) h)",
        exactness="a local optimum, stopped early",
        citation="Kingma, Welling, International Conference on Learning Representations (2014)",
    ),
    _make_card(
        "explainers.corruption.corruption_posterior:CorruptionPosterior",
        needs="a Gaussian mixture, or any score and background rows",
        cost="mixtures O(K d²) a row; other scores 49 d + 4,700 scores a row at most",
        exactness=(
            "mixtures: closed form, all sets of two cells up to 64 columns; other scores: sums over tried "
            "values, with their error"
        ),
        citation="tellwhy; compare Rousseeuw, Van den Bossche, Technometrics 60 (2018), on deviating cells",
        applies=has_none("IsPrediction", "HasLevels", "HasNoMinimum"),
    ),
    _make_card(
        "explainers.perturbation.anomaly_contribution:AnomalyContribution",
        needs="any score; background rows",
        cost="n_samples scores per row (by default 4 d, at least 256)",
        exactness="local linear approximation; its standard error and its misfit at the row are stated",
        citation="Zhang, Marwah, Lee, Arlitt, Goldwasser, IEEE Big Data (2019)",
        applies=anything,
    ),
    _make_card(
        "explainers.shapley.anomaly_shapley:AnomalyShapley",
        needs="any score (faster with a gradient); background rows for the units of the columns",
        cost="d + 1 local minima and min(2^d, 2d + 2048) scores per row",
        exactness="exact up to 12 columns or groups; beyond, sampled, with standard errors; additive always",
        citation="Takeishi, Kawahara, Transactions on Machine Learning Research (2023)",
        applies=has_none("IsPrediction", "HasLevels", "HasNoMinimum"),
        automatic=5,
    ),
    _make_card(
        "explainers.decomposition.baselines:CommitteeShares",
        needs="a score that knows its shares, as that of a Committee does",
        cost="about twice the cost of scoring",
        exactness="exact: each member's surprise is shared as the member's own score is",
        citation=(
            "Montavon, Lapuschkin, Binder, Samek, Müller, Pattern Recognition 65 (2017), on handing down"
        ),
        applies=has("HasShares"),
        automatic=0,
    ),
    _make_card(
        "explainers.shapley.compensation:Compensation",
        needs="any score (faster with a gradient); background rows for the units of the columns",
        cost="one local minimum per row",
        exactness=(
            "a baseline: ranks columns by how far they are from the local minimum, whatever that is worth"
        ),
        citation="Takeishi, Kawahara, TMLR (2023), there called COMP; after Idé et al., AAAI (2021)",
        applies=anything,
    ),
    _make_card(
        "explainers.surrogate.dmm_men:DMMMEN",
        needs="any score, or a classifier with probabilities; background rows",
        cost="one fit (seconds to minutes), then some matrix products per row",
        exactness=(
            "posterior mean of an approximation, with credible intervals; the residual is what it misses"
        ),
        citation="Guo, Huang, Tao, Xing, Lin, NeurIPS (2018)",
        applies=anything,
    ),
    _make_card(
        "explainers.decomposition.baselines:ExpectedValue",
        needs="a model made of distances to support points, neighbours or centres",
        cost="O(n d)",
        exactness="a baseline: shares of one distance, not of the score",
        citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
        applies=has("HasExpansion"),
    ),
    _make_card(
        "explainers.decomposition.baselines:GaussianNLL",
        needs="background rows",
        cost="O(n d)",
        exactness="a baseline: explains a Gaussian's score, never reads the model",
        citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.1",
        applies=anything,
    ),
    _make_card(
        "explainers.gradients.integrated_gradients:IntegratedGradients",
        needs="a score with a gradient, or a network; a reference row, or background rows for their mean",
        cost="n_steps gradients per row, more where the score bends sharply (at most max_iter)",
        exactness="exact up to the error of the integral, which is stated as residual",
        citation="Sundararajan, Taly, Yan, ICML (2017)",
        applies=has("HasGradient"),
    ),
    _make_card(
        "explainers.shapley.kernel_shap:KernelShap",
        needs="any score; background rows",
        cost="131,072 scores per row or more; 8 · min(2^d, 2d + 2048) with 8 centres or neighbours",
        exactness="exact up to 12 columns or groups; beyond, sampled, with standard errors; additive always",
        citation="Lundberg, Lee, NeurIPS (2017)",
        applies=anything,
        automatic=6,
    ),
    _make_card(
        "explainers.shapley.owen_values:OwenValues",
        needs="any score; background rows, or reference rows",
        cost="scores of the sets that groups allow, at most 4,096, or of 64 orders, for each reference row",
        exactness="exact where groups leave few sets, else sampled, with standard errors; additive always",
        citation=(
            "Owen, in Mathematical Economics and Game Theory (1977); Winter, International Journal of Game "
            "Theory 18 (1989)"
        ),
        applies=anything,
    ),
    _make_card(
        "explainers.perturbation.lime:Lime",
        needs="any score; background rows for tables",
        cost="n_samples scores per row",
        exactness="local linear approximation; its standard error and its misfit at the row are stated",
        citation="Ribeiro, Singh, Guestrin, KDD (2016)",
        applies=anything,
    ),
    _make_card(
        "explainers.decomposition.linear_relevance:LinearShapley",
        family="shapley",
        needs="a linear score (linear and logistic regression, linear SVMs); background rows for their mean",
        cost="one product with the weights",
        exactness="exact; additive",
        citation="Štrumbelj, Kononenko, Knowledge and Information Systems 41 (2014)",
        applies=has("HasLinear"),
        automatic=2,
    ),
    _make_card(
        "explainers.surrogate.local_insight:LocalInsight",
        needs="any score, or a classifier with probabilities; rows that tell what replaces a part",
        cost="n_questions calls of the model and about a second of sampling per row",
        exactness="posterior mean of an approximation, with credible intervals; the chosen set is verified",
        citation="after Guo, Huang, Tao, Xing, Lin, NeurIPS (2018)",
        applies=anything,
    ),
    _make_card(
        "explainers.decomposition.marginal:Marginal",
        needs="a Gaussian mixture, a model with a Gaussian kernel, or a reconstruction error",
        cost="O(n d K) for K components, O(n d m) for m support points",
        exactness="closed form; reconstruction errors add up to the score, marginal energies are a ranking",
        citation="Takeishi, Kawahara, TMLR (2022), section 5.1.3 (MARG)",
        applies=asks("tellwhy.explainers.decomposition.marginal:has_marginals"),
    ),
    _make_card(
        "explainers.decomposition.baselines:NearestSupport",
        needs="a model made of distances to support points or neighbours",
        cost="O(n m d)",
        exactness="a baseline: shares of one distance, not of the score",
        citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
        applies=has_points,
    ),
    _make_card(
        "explainers.perturbation.occlusion:Occlusion",
        needs="any score; background rows",
        cost="d × max_background scores per row; of patches, one per patch and background row",
        exactness="exact for the drawn background; interactions are stated as residual",
        citation="Zeiler, Fergus, ECCV (2014); Robnik-Šikonja, Kononenko, IEEE TKDE 20 (2008)",
        applies=anything,
        automatic=10,
    ),
    _make_card(
        "explainers.decomposition.one_class_dtd:OneClassDTD",
        needs="a model made of distances to support points (kernel, neighbours or centres)",
        cost="O(n m d): about three times the cost of scoring",
        exactness=_CLOSED,
        citation=_KAUFFMANN,
        applies=has("HasExpansion"),
        automatic=0,
    ),
    _make_card(
        "explainers.decomposition.patch_relevance:PatchRelevance",
        needs="a PatchModel: a sum of scores of patches",
        cost="that of explaining every patch, in threads, with memory for a few thousand patches",
        exactness="that of the method for patches: closed form where One-Class DTD applies",
        citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198, section 7",
        applies=has_any("tellwhy.data.pieces:HasPatches", "tellwhy.data.pieces:HasFeatures"),
        automatic=0,
    ),
    _make_card(
        "explainers.perturbation.prediction_difference:PredictionDifference",
        needs="any score; background rows",
        cost="n_samples scores per row and patch (or column)",
        exactness="Monte-Carlo, with standard errors; interactions are stated as residual",
        citation="Robnik-Šikonja, Kononenko, IEEE TKDE 20 (2008); Zintgraf et al., ICLR (2017)",
        applies=anything,
    ),
    _make_card(
        "explainers.decomposition.baselines:RandomAttribution",
        family="perturbation",
        needs="any score",
        cost="one score per row",
        exactness="a baseline: random order of features",
        citation="—",
        applies=anything,
    ),
    _make_card(
        "explainers.gradients.sensitivity:Sensitivity",
        needs="a score with a gradient",
        cost="one gradient: O(n m d) for kernel models",
        exactness="exact derivative; explains the score's variation, not its value",
        citation="Baehrens, Schroeter, Harmeling, Kawanabe, Hansen, Müller, JMLR 11 (2010)",
        applies=has("HasGradient"),
    ),
    _make_card(
        "explainers.decomposition.marginal:SequentialFeature",
        needs="a Gaussian mixture, a model with a Gaussian kernel, or a reconstruction error",
        cost="O(n K d n_picked²) for K components, O(n m d n_picked) for m support points",
        exactness="greedy: each step is optimal, the set may not be; a ranking",
        citation="Siddiqui, Fern, Dietterich, Wong, ACM TKDD 13 (2019), sequential marginal",
        applies=asks("tellwhy.explainers.decomposition.marginal:has_marginals"),
    ),
    _make_card(
        "explainers.gradients.sensitivity:SimpleTaylor",
        needs="a model made of distances to support points, neighbours or centres",
        cost="about 40 scores and one gradient",
        exactness="first order; what higher orders hold is stated as residual",
        citation=(
            "Bach, Binder, Montavon, Klauschen, Müller, Samek, PLOS ONE 10 (2015); Kauffmann et al. "
            "(2020), section 4"
        ),
        applies=has("HasExpansion", "HasGradient"),
    ),
    _make_card(
        "explainers.decomposition.baselines:Sobel",
        family="gradients",
        needs="pictures (n, h, w[, channels]) or series (n, t[, channels])",
        cost="one filter per axis; the model is asked for its scores only",
        exactness="a baseline: it shows edges, whatever the model says",
        citation="Sobel, Feldman (1968); as a baseline: Kauffmann, Müller, Montavon (2020)",
        applies=has("tellwhy.data.pieces:HasPatches"),
    ),
    _make_card(
        "explainers.trees.tree_shapley:TreeShapley",
        needs="a model of trees (scikit-learn, XGBoost, LightGBM, PyOD's IForest); no background rows",
        cost="about leaves × depth operations per row and tree",
        exactness="exact Shapley values, additive",
        citation="Lundberg et al., Nature Machine Intelligence 2 (2020); Yu et al., NeurIPS (2022)",
        applies=is_a("tellwhy.explainers.trees.tree_shapley:TreeScore"),
        automatic=0,
    ),
    _make_card(
        "explainers.propagation.gradient:DeconvNet",
        "network explainer",
        needs=_NETWORK,
        cost=_ONE_PASS,
        exactness=_SIGNAL,
        citation="Zeiler, Fergus, ECCV (2014)",
    ),
    _make_card(
        "explainers.propagation.deep_lift:DeepLift",
        "network explainer",
        needs=_NETWORK,
        cost="a forward pass on the reference, then a forward and a backward pass on the rows",
        exactness="output − reference = sum of values, for every operation that is known",
        citation="Shrikumar, Greenside, Kundaje, ICML (2017)",
    ),
    _make_card(
        "explainers.propagation.deep_lift:DeepLiftShap",
        "network explainer",
        needs="a torch.nn.Module; reference rows",
        cost="DeepLift for each reference row",
        exactness="adds up exactly; Shapley values where features act apart",
        citation="Lundberg, Lee, NeurIPS (2017)",
    ),
    _make_card(
        "explainers.propagation.deep_taylor:DeepTaylor",
        "network explainer",
        needs=_NETWORK,
        cost=_TWO_PASSES,
        exactness="output = sum of values + residual, exactly; for positive outputs",
        citation="Montavon et al., Pattern Recognition 65 (2017)",
    ),
    _make_card(
        "explainers.propagation.excitation_backprop:ExcitationBackprop",
        "network explainer",
        needs=_NETWORK,
        cost=_TWO_PASSES,
        exactness="a probability over the inputs, not shares",
        citation="Zhang et al., International Journal of Computer Vision 126 (2018)",
    ),
    _make_card(
        "explainers.propagation.grad_cam:GradCAM",
        "network explainer",
        needs="a torch.nn.Module with 2-D maps",
        cost=_ONE_PASS,
        exactness="a signal, at the resolution of one layer",
        citation="Selvaraju et al., ICCV (2017)",
    ),
    _make_card(
        "explainers.propagation.grad_cam:GuidedGradCAM",
        "network explainer",
        needs="a torch.nn.Module of pictures",
        cost="two forward and two backward passes",
        exactness=_SIGNAL,
        citation="Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra, ICCV (2017)",
    ),
    _make_card(
        "explainers.propagation.layer_attribution:LayerAttribution",
        "network explainer",
        needs="a torch.nn.Module, and the name of one of its modules",
        cost="n_steps forward and backward passes; for ablation one forward pass a unit",
        exactness="conductance and integrated gradients add up but for the residual, which is stated",
        citation="Dhamdhere, Sundararajan, Yan, International Conference on Learning Representations (2019)",
    ),
    _make_card(
        "explainers.propagation.gradient:Gradient",
        "network explainer",
        needs=_NETWORK,
        cost=_ONE_PASS,
        exactness="exact; a sensitivity, not shares",
        citation="Simonyan, Vedaldi, Zisserman, ICLR Workshop (2014)",
    ),
    _make_card(
        "explainers.propagation.deep_lift:GradientShap",
        "network explainer",
        needs="a torch.nn.Module; reference rows",
        cost="n_samples forward and backward passes",
        exactness="a mean of draws, whose residual is stated",
        citation="Lundberg, Lee, NeurIPS (2017); Erion et al., Nature Machine Intelligence 3 (2021)",
    ),
    _make_card(
        "explainers.propagation.gradient:GuidedBackprop",
        "network explainer",
        needs=_NETWORK,
        cost=_ONE_PASS,
        exactness=_SIGNAL,
        citation="Springenberg et al., ICLR Workshop (2015)",
    ),
    _make_card(
        "explainers.propagation.gradient:InputTimesGradient",
        "network explainer",
        needs=_NETWORK,
        cost=_ONE_PASS,
        exactness=_ADDS_UP,
        citation="Shrikumar, Greenside, Kundaje, ICML (2017)",
    ),
    _make_card(
        "explainers.propagation.lrp:LRP",
        "network explainer",
        needs=_NETWORK,
        cost=_TWO_PASSES,
        exactness=(
            "output = sum of values + residual, exactly; the ledger says where the residual was absorbed"
        ),
        citation="Bach et al., PLoS ONE 10 (2015)",
    ),
    _make_card(
        "explainers.propagation.patterns:PatternAttribution",
        "network explainer",
        needs=_PLAIN_NETWORK,
        cost=_ONE_PASS_LEARNED,
        exactness=_ADDS_UP,
        citation="Kindermans et al., ICLR (2018)",
    ),
    _make_card(
        "explainers.propagation.patterns:PatternNet",
        "network explainer",
        needs=_PLAIN_NETWORK,
        cost=_ONE_PASS_LEARNED,
        exactness=_SIGNAL,
        citation="Kindermans et al., ICLR (2018)",
    ),
    _make_card(
        "explainers.propagation.gradient:SmoothGrad",
        "network explainer",
        needs=_NETWORK,
        cost="n_samples forward and backward passes",
        exactness="Monte-Carlo mean; a sensitivity, not shares",
        citation="Smilkov et al., arXiv:1706.03825 (2017)",
    ),
    _make_card(
        "explainers.decomposition.latent_class_dtd:LatentClassDTD",
        "graph explainer",
        needs="a fitted LCCAD",
        cost="O(n K d) for squared distances, O(n m d) with a kernel; passes of messages for the pull",
        exactness=_CLOSED,
        citation="Kauffmann, Montavon, Lima, Nakajima, Müller, Görnitz (2018)",
    ),
    _make_card(
        "explainers.decomposition.linear_relevance:LinearRelevance",
        "classifier explainer",
        needs="a linear classifier, or a pipeline that ends in one",
        cost="one product with the weights",
        exactness="exact: features and intercepts add up to the score, or to the lead over the rival",
        citation="Arras, Horn, Montavon, Müller, Samek, PLOS ONE 12 (2017)",
        applies=asks("tellwhy.explainers.decomposition.linear_relevance:is_linear"),
    ),
    _make_card(
        "explainers.decomposition.patch_relevance:PatchDTD",
        "patch explainer",
        needs=(
            "a one-class model of patches, made of distances to support points (kernel, neighbours or "
            "centres)"
        ),
        cost="OneClassDTD of every patch",
        exactness=_CLOSED,
        citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198, section 7",
    ),
    _make_card(
        "explainers.ensemble:Ensemble",
        "ensemble",
        needs="two explainers or more, of models that read the same columns",
        cost="that of its members",
        exactness="mean ranks, with the members' disagreement; a ranking",
        citation="—",
    ),
    _make_card(
        "explainers.noise:Noise",
        "ensemble",
        needs="an explainer of scores or of a network",
        cost="that of the explainer, for n_samples noisy copies of each row",
        exactness="a mean over draws, with its standard error; the residual is what noise changed",
        citation=(
            "Smilkov, Thorat, Kim, Viégas, Wattenberg, arXiv:1706.03825 (2017); Adebayo, Gilmer, Goodfellow, "
            "Kim, ICLR Workshop (2018)"
        ),
    ),
)
"""All methods of tellwhy, detectors first."""


def places(package: str) -> dict[str, str]:
    """Return the methods below a package: from each name to its module, from the package on.

    Examples
    --------
    >>> places("tellwhy.explainers.trees")
    {'TreeShapley': 'tree_shapley'}
    """
    return {
        card.name: card.origin.removeprefix(f"{package}.")
        for card in METHODS
        if card.origin.startswith(f"{package}.")
    }
