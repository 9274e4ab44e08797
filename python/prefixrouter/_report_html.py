"""Comparisons as one HTML file with plots, drawn by plotly, that needs nothing from elsewhere."""

from __future__ import annotations

import html
import importlib
import statistics
from collections.abc import Sequence
from typing import Any

from prefixrouter._core import __version__
from prefixrouter._replay import Comparison, PolicyFigures, table

# From here, so that a missing package is known before the simulations are run.
graph_objects: Any = importlib.import_module("plotly.graph_objects")
_colors: Any = importlib.import_module("plotly.colors")
_offline: Any = importlib.import_module("plotly.offline")
_subplots: Any = importlib.import_module("plotly.subplots")

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; color: #222; }}
body {{ margin: 2em auto; max-width: 1100px; padding: 0 1em; }}
h1 {{ font-size: 1.5em; }}
h2 {{ font-size: 1.25em; margin-top: 2em; }}
h3 {{ font-size: 1em; margin: 1.5em 0 0 0; }}
p {{ margin: 0.3em 0; color: #555; }}
pre {{ overflow-x: auto; background: #f6f6f6; padding: 1em; }}
</style>
<script>{plotly}</script>
</head>
<body>
<h1>{title}</h1>
{sections}
<p>prefixrouter {version}</p>
</body>
</html>
"""

_LAYOUT = {
    "template": "plotly_white",
    "height": 420,
    "margin": {"l": 70, "r": 20, "t": 20, "b": 50},
    "hovermode": "closest",
}


def report(comparisons: Sequence[Comparison]) -> str:
    """The text of the file."""
    return _PAGE.format(
        title="Routing policies compared",
        plotly=_offline.get_plotlyjs(),
        sections="\n".join(map(_section, comparisons)),
        version=__version__,
    )


def _section(comparison: Comparison) -> str:
    figures = (
        (
            "Time to first token: distribution",
            "Share of the requests that waited at most so long, with the first seed.",
            _distribution(comparison),
        ),
        (
            "Time to first token against load",
            "Mean and 99th percentile, with the first seed. Steep is where the fleet is full.",
            _against_load(comparison),
        ),
        (
            "Cached share",
            "Of all prompt tokens; the line is what one cache without limit would find.",
            _cached_share(comparison),
        ),
        (
            "Work of each instance over time",
            "Prompt tokens a second that it computes, with the first seed.",
            _work(comparison),
        ),
    )
    parts = [f"<h2>{html.escape(comparison.trace)}</h2>"]
    parts.append(f"<pre>{html.escape(table(comparison))}</pre>")
    for title, what, figure in figures:
        parts.append(f"<h3>{title}</h3>\n<p>{what}</p>")
        parts.append(
            figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                config={"displaylogo": False, "responsive": True},
            )
        )
    return "\n".join(parts)


def _style(comparison: Comparison, policy: PolicyFigures) -> dict[str, Any]:
    """The same colour in all plots; where colours are used up, another dash."""
    place = [other.name for other in comparison.policies].index(policy.name)
    palette = _colors.qualitative.D3
    dashes = ("solid", "dash", "dot")
    return {
        "color": palette[place % len(palette)],
        "dash": dashes[place // len(palette) % len(dashes)],
    }


def _distribution(comparison: Comparison) -> Any:
    figure = graph_objects.Figure(layout=_LAYOUT)
    for policy in comparison.policies:
        if policy.picture is None:
            continue
        quantiles = policy.picture.ttft_quantiles_s
        steps = max(len(quantiles) - 1, 1)
        figure.add_scatter(
            x=quantiles,
            y=[i / steps for i in range(len(quantiles))],
            name=policy.name,
            line=_style(comparison, policy),
            hovertemplate="%{y:.1%} within %{x:.3f} s",
        )
    figure.update_xaxes(title="time to first token (s)", type="log")
    figure.update_yaxes(title="share of requests", tickformat=".0%", range=[0, 1.01])
    return figure


def _against_load(comparison: Comparison) -> Any:
    figure = _subplots.make_subplots(
        cols=2, shared_xaxes=True, subplot_titles=("mean", "99th percentile")
    )
    for policy in comparison.policies:
        loads = [load for load, _ in policy.by_load]
        for column, name in enumerate(("ttft_mean_s", "ttft_p99_s"), start=1):
            figure.add_scatter(
                x=loads,
                y=[getattr(summary, name) for _, summary in policy.by_load],
                name=policy.name,
                legendgroup=policy.name,
                showlegend=column == 1,
                line=_style(comparison, policy),
                mode="lines+markers",
                hovertemplate="%{y:.3f} s at %{x:.2f} requests/s",
                col=column,
                row=1,
            )
    figure.update_layout(_LAYOUT, margin_t=40)
    figure.update_xaxes(title="requests a second", rangemode="tozero")
    figure.update_yaxes(type="log")
    figure.update_yaxes(title="time to first token (s)", col=1)
    return figure


def _cached_share(comparison: Comparison) -> Any:
    figure = graph_objects.Figure(layout=_LAYOUT)
    shares = [policy.mean("cached_token_share") for policy in comparison.policies]
    spreads = [policy.spread("cached_token_share") for policy in comparison.policies]
    figure.add_bar(
        x=[policy.name for policy in comparison.policies],
        y=shares,
        marker_color=[_style(comparison, policy)["color"] for policy in comparison.policies],
        error_y={
            "type": "data",
            "array": [high - share for share, (_, high) in zip(shares, spreads)],
            "arrayminus": [share - low for share, (low, _) in zip(shares, spreads)],
            "visible": comparison.seeds > 1,
        },
        hovertemplate="%{x}: %{y:.1%}<extra></extra>",
    )
    figure.add_hline(y=comparison.policies[0].mean("best_possible_share"), line_dash="dash")
    figure.update_yaxes(title="share of prompt tokens", tickformat=".0%", range=[0, 1.02])
    return figure


def _work(comparison: Comparison) -> Any:
    drawn = [policy for policy in comparison.policies if policy.picture is not None]
    figure = _subplots.make_subplots(
        rows=max(len(drawn), 1),
        shared_xaxes=True,
        subplot_titles=[policy.name for policy in drawn],
        vertical_spacing=0.3 / max(len(drawn), 1),
    )
    for row, policy in enumerate(drawn, start=1):
        picture = policy.picture
        assert picture is not None
        steps = max(map(len, picture.prefill_rates), default=0)
        figure.add_heatmap(
            x=[(i + 0.5) * picture.step_s for i in range(steps)],
            y=[f"{i}" for i in range(len(picture.prefill_rates))],
            z=picture.prefill_rates,
            coloraxis="coloraxis",
            hovertemplate="instance %{y} at %{x:.0f} s: %{z:.0f} tokens/s<extra></extra>",
            row=row,
            col=1,
        )
    height = 60 + min(26 * comparison.instances, 300) + 50
    figure.update_layout(
        _LAYOUT,
        height=60 + height * max(len(drawn), 1),
        margin_t=40,
        coloraxis={
            "colorscale": "Viridis",
            "cmin": 0,
            "colorbar": {"title": "tokens/s"},
        },
    )
    figure.update_yaxes(title="instance", type="category")
    figure.update_xaxes(title="time (s)", row=max(len(drawn), 1))
    if drawn:
        # A policy under which the fleet is overwhelmed takes far longer than the others.
        ends_s = [len(p.picture.prefill_rates[0]) * p.picture.step_s for p in drawn if p.picture]
        figure.update_xaxes(range=[0, 1.05 * statistics.median_low(ends_s)])
    return figure
