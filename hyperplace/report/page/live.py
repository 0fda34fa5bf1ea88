"""The page of a run under way: empty charts and a table, which its script fills with what the server has."""

from hyperplace.report.page.shell import page
from hyperplace.report.palette import part_color

SCRIPTS = ("svg.js", "live.js")
CHARTS = {
    "loss": "Loss, mean of the mini-batches since the point before",
    "images_per_s": "Images a second",
    "busy": "Busy share of every part (%)",
    "staleness": "Staleness of every part: mean updates between a forward pass and its own update",
    "mib_per_batch": "MiB moved between parts for a mini-batch",
    "test_accuracy": "Test accuracy after every epoch (%)",
}


def live_page(title: str, num_parts: int) -> str:
    """Return the page of a run of so many parts."""
    charts = "".join(_chart(name, words) for name, words in CHARTS.items())
    rows = "".join(
        f'<tr><th scope="row"><span class="swatch" data-part-color="{part}"></span>part {part}</th>'
        f'<td class="number" data-busy="{part}">-</td><td class="number" data-staleness="{part}">-</td></tr>'
        for part in range(num_parts)
    )
    body = (
        '<p class="told" id="state" role="status">Waiting for the first mini-batches.</p><p id="now" class="note"></p>'
        "<noscript><p>The charts are drawn by this page's own script, which is switched off.</p></noscript>"
        f'<div class="needs-script live">{charts}</div>'
        '<section class="needs-script"><h2>Parts</h2><div class="scroll" tabindex="0" role="group" aria-label="parts">'
        '<table><thead><tr><th scope="col">part</th><th scope="col" class="number">busy %</th>'
        f'<th scope="col" class="number">staleness</th></tr></thead><tbody>{rows}</tbody></table></div></section>\n'
    )
    colors = [part_color(part, num_parts) for part in range(num_parts)]
    return page(title, body, {"colors": colors}, scripts=SCRIPTS, is_served=True)


def _chart(name: str, words: str) -> str:
    picture = f'<svg data-chart="{name}" role="img" aria-label="{words}: nothing yet"></svg>'
    return f"<section><h2>{words}</h2>{picture}</section>"
