"""Colours of latent classes and of scores, the same in figures and in the report."""

CLASS_COLORS = (
    *("#2f6ea8", "#e0a13c", "#11806a", "#9c5fb5", "#7a5c00"),
    *("#b8476b", "#4a9fb8", "#6b7280", "#98a33d", "#333333"),
)
SCORE_COLORS = ((0.0, "#fbfaf8"), (0.35, "#f6c58f"), (0.7, "#c65307"), (1.0, "#4d1f00"))
ODD = "#c65307"
