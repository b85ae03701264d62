"""The HTML report: whole without a browser for every kind of posterior, and at work in one."""

import csv
import io
import itertools
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.report.content import collect
from bayesfield.report.page import LARGEST, json_text, rendered, write_report
from bayesfield.report.settings import prior_text
from bayesfield.report.trust import figures
from bayesfield.report.wording import chance, number

HOSTILE = [
    '</script><b id="out">',
    '"><img src=x onerror=alert(1)>',
    "a'b\"c",
    "<!--",
    "Größe\u2028λ",
    "{{script}}",
]


class Reader(HTMLParser):
    """Text of the elements, and every attribute that might fetch something."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.text, self.data, self._script = [], [], [], "", None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.links += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data", "poster", "xlink:href")]
        if tag in ("script", "style"):
            self._script = dict(attrs).get("type", tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._script = None

    def handle_data(self, data):
        if self._script == "application/json":
            self.data += data
        elif self._script is None:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def symptoms(n=6, cases=500):
    rng = np.random.default_rng(1)
    items = ["sleep", "mood", "focus", "energy", "appetite", "worry", *(f"item {k}" for k in range(6, n))][:n]
    field = bf.pairwise(n, list(itertools.combinations(range(n), 2)), names=items)
    truth = dict.fromkeys(field.parameter_names, 0.0)
    truth |= {"sleep*energy": 1.5, "mood*worry": -1.2, "focus*energy": 1.0, "sleep*mood": 0.8}
    return bf.fit(field, bf.sample(field, list(truth.values()), cases, rng), correction="none")


def random_cases(field, cases, states=(0, 1)):
    return np.random.default_rng(0).choice(states, size=(cases, field.n_variables))


def potts():
    field = bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3, interaction="table")
    return bf.fit(field, random_cases(field, 80, range(3)))


def ordinal():
    field = bf.ordinal(3, [(0, 1), (1, 2)], 4)
    return bf.fit(field, random_cases(field, 80, range(4)))


def sequences():
    rng = np.random.default_rng(1)
    crf = bf.CRF(["a", "b"], ["x", "y"], symmetric=True)
    return bf.fit_sequences(crf, [rng.normal(size=(6, 2)) for _ in range(8)], [list("abaaba")] * 8)


def graphs():
    rng, edges = np.random.default_rng(0), bf.grid_edges(3, 3)
    X = [(rng.normal(size=(9, 2)), edges) for _ in range(6)]
    return bf.fit_graphs(bf.CRF(2, 2, symmetric=True), X, [rng.integers(2, size=9) for _ in range(6)])


def lattice(**options):
    field = bf.grid(3, 4)
    return bf.fit(field, bf.sample(field, np.full(field.n_parameters, 0.3), 100, 0), **options)


def without_search():
    with pytest.warns(bf.FitWarning):
        return lattice(engine=bf.Bethe(), max_iterations=1)


def large():
    return bf.laplace(bf.grid(100, 100), np.linspace(-0.3, 0.3, 29800), engine=bf.Bethe())


def hostile():
    field = bf.pairwise(len(HOSTILE), [(0, 1), (1, 2), (0, 5)], names=HOSTILE)
    return bf.fit(field, random_cases(field, 60))


KINDS = {
    "pairwise": symptoms,
    "Potts": potts,
    "ordinal": ordinal,
    "lattice": lattice,
    "tied": lambda: bf.fit(bf.grid(3, 3, tied=True), random_cases(bf.grid(3, 3), 40, (-1, 1))),
    "no edge": lambda: bf.fit(bf.pairwise(3, []), np.random.default_rng(0).integers(2, size=(40, 3))),
    "one variable": lambda: bf.fit(bf.pairwise(1, []), np.random.default_rng(0).integers(2, size=(40, 1))),
    "no parameter": lambda: bf.fit(bf.RandomField({"a": 2}), np.random.default_rng(0).integers(2, size=(40, 1))),
    "sequences": sequences,
    "graphs": graphs,
    "hidden": lambda: bf.fit(
        bf.restricted_boltzmann(3, 1), np.random.default_rng(0).integers(2, size=(40, 3)), starts=2
    ),
    "learned prior": lambda: lattice(prior=bf.Normal(variance="evidence")),
    "ARD": lambda: lattice(prior=bf.ARD()),
    "heavy tails": lambda: lattice(prior=bf.Cauchy(0.5), correction="none"),
    "pseudo-likelihood": lambda: lattice(method="pseudo_likelihood"),
    "sparse": lambda: lattice(engine=bf.Bethe(), form="sparse"),
    "not converged": without_search,
    "given": lambda: bf.laplace(bf.grid(3, 3), np.zeros(21), engine=bf.Bethe()),
    "without data": lambda: lattice().without_data(),
    "hostile names": hostile,
}


@pytest.fixture(scope="module")
def posterior():
    return symptoms()


@pytest.fixture(scope="module")
def path(posterior, tmp_path_factory):
    target = tmp_path_factory.mktemp("report") / "report.html"
    write_report(posterior, target, title="Symptoms")
    return target


def html_of(posterior, tmp_path, **options):
    write_report(posterior, tmp_path / "r.html", **options)
    return (tmp_path / "r.html").read_text(encoding="utf-8")


def data_of(html):
    return json.loads(Reader(html).data)


# --- without a browser --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")  # one of them is poor
@pytest.mark.parametrize("kind", KINDS)
def test_every_posterior_has_a_page(kind, tmp_path):
    found = KINDS[kind]()
    html = html_of(found, tmp_path)
    page = Reader(html)
    assert [link for link in page.links if not link.startswith("#")] == []
    assert not re.search(r"url\(|@import", html)
    rows = json.loads(page.data)["rows"]
    assert len(rows["names"]) == len(found.mean)
    table = found.summary()
    order = [list(table.index).index(name) for name in rows["names"]] if kind != "hostile names" else None
    if order is not None:
        np.testing.assert_allclose(rows["columns"]["mean"], table["mean"].iloc[order], rtol=1e-6)
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(headings))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert f"cases {found.record.n_cases}" in page.words


def test_it_says_what_was_found(posterior, path):
    words = Reader(path.read_text(encoding="utf-8")).words
    assert "A field of 6 variables and 21 parameters, with 500 cases." in words
    assert "the search converged. The check of its mode says: good." in words
    assert str(posterior.evidence()) in words
    table = posterior.edges()
    for threshold in (10, 3):
        counts = [(table[f"at_{threshold}"] == name).sum() for name in ("included", "inconclusive", "excluded")]
        assert " ".join(map(str, [threshold, *counts])) in words
    assert "Normal(variance=1.0)" in words
    for name in ("numpy", "scipy", "numba", "Python", "bayesfield", "Platform"):
        assert name in words
    assert "Bayesian Random Fields" in words


def test_it_is_read_without_javascript(posterior, path):
    """The table stands in the page itself."""
    words = Reader(path.read_text(encoding="utf-8")).words
    row = posterior.summary().loc["sleep*energy"]
    assert f"sleep*energy {row['mean']:.3f} {row['sd']:.3f} {row['lower']:.3f} {row['upper']:.3f}" in words


def test_couplings_come_before_thresholds(posterior, path):
    page = Reader(path.read_text(encoding="utf-8"))
    assert "All 21 parameters: couplings first, then thresholds, each surest first" in page.words
    names = json.loads(page.data)["rows"]["names"]
    table = posterior.summary()
    distance = (table["mean"] / table["sd"]).abs().sort_values(ascending=False).index
    assert names == [n for n in distance if "*" in n] + [n for n in distance if "*" not in n]


def test_it_says_that_trust_is_of_the_computation(path, tmp_path):
    wanted = "This is about the computation. Whether the model fits the data is another question: "
    assert f"{wanted}bf.predictive_check(posterior)" in Reader(path.read_text(encoding="utf-8")).words
    assert f"{wanted}hold its predictions" in Reader(html_of(sequences(), tmp_path)).words


def test_it_warns_of_a_fit_that_did_not_converge(tmp_path):
    words = Reader(html_of(without_search(), tmp_path)).words
    assert "Do not trust the numbers on this page. The search did not end at an optimum" in words
    assert "no log evidence" in words
    assert "These Bayes factors are rough" in words


def never_apart(**options):
    """b is 1 whenever a is, under a wide prior: no Gaussian fits."""
    cases = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    return bf.fit(bf.pairwise(2, [(0, 1)], names=["a", "b"]), cases, bf.Normal(variance=1000.0), **options)


def test_the_badge_is_a_word_and_a_colour(path, posterior, tmp_path):
    """At the top, before any number: the verdict and the advice; its figures stand in a table."""
    html = path.read_text(encoding="utf-8")
    words = Reader(html).words
    assert posterior.certificate.verdict == "good"
    top = words.index("How far to trust it: ✓ Good Means, widths and probabilities agree with weighted draws.")
    assert top < words.index("intervals without zero")
    assert '<strong class="mark good">' in html
    assert f"Pareto k {posterior.certificate.pareto_k:.2f} " in words
    assert f"Weighted draws {posterior.certificate.n_draws:,} worth" in words
    poor = html_of(never_apart(correction="none"), tmp_path)
    assert "How far to trust it: ✕ Poor No Gaussian fits this posterior" in Reader(poor).words
    assert '<strong class="mark bad">' in poor


def test_a_posterior_made_of_draws_says_what_they_are_worth(tmp_path):
    made = never_apart()
    words = Reader(html_of(made, tmp_path)).words
    assert "How far to trust it: ✓ Good Made of draws worth" in words
    assert f"Draws {made.certificate.effective:,.0f} independent ones" in words
    assert "Pareto k" not in words


def test_a_posterior_that_nobody_judged_says_so(tmp_path):
    unjudged = never_apart(correction="none").without_data()
    words = Reader(html_of(unjudged, tmp_path)).words
    assert "How far to trust it: ? Not judged Nobody has judged this posterior" in words


def test_the_figures_of_a_certificate():
    """All that there may be, in words."""
    full = bf.Certificate(
        "fair", "rough", 0.62, 0.2, 0.1, 0.02, (0.01, 0.02, 0.003), 2048, 700.0, space="all 3 parameters",
        skewness=0.5, monte_carlo=0.02, mixing=0.3, checked="good: the mode and the widths are right",
    )  # fmt: skip
    told = {name: (value, meaning) for name, value, meaning in figures(full)}
    assert told["Pareto k"] == ("0.62", "up to 0.7: the weights can be believed")
    assert told["Largest shift of a mean"][0] == "0.20 sd (±0.01)"
    assert told["Largest change of a width"][0] == "11% (±2%)"
    assert told["Check by sampling"][0] == "good"
    assert told["Mixing of the chains"] == ("0.30", "above 1 they have not mixed")
    assert [name for name, *_ in figures(bf.Certificate("fair", "not compared"))] == ["Largest skewness"]
    assert {n: m for n, _, m in figures(replace(full, pareto_k=0.9))}["Pareto k"].startswith("above 0.7")


def test_it_says_why_there_is_no_check(tmp_path):
    assert "inference on sequences is exact" in Reader(html_of(sequences(), tmp_path)).words
    without = Reader(html_of(lattice().without_data(), tmp_path)).words
    assert "came without its data" in without
    assert "check=False" in Reader(html_of(lattice(), tmp_path, check=False)).words


def test_a_check_can_be_given_or_asked_for(tmp_path):
    fitted = lattice()
    own = fitted.check()
    html = html_of(fitted, tmp_path, check=own)
    assert f"{own.rms:.2f} sd" in Reader(html).words
    assert f"{own.rms:.2f} sd" in Reader(html_of(fitted, tmp_path, check=True)).words
    with pytest.raises(bf.InvalidInput, match="nothing to check"):
        write_report(sequences(), tmp_path / "no.html", check=True)
    with pytest.raises(bf.InvalidInput, match="check is True"):
        write_report(fitted, tmp_path / "no.html", check="yes")
    with pytest.raises(bf.InvalidInput, match="level lies between"):
        write_report(fitted, tmp_path / "no.html", level=95)
    with pytest.raises(bf.InvalidInput, match="a report is that of a posterior"):
        write_report(fitted.field, tmp_path / "no.html")
    assert not (tmp_path / "no.html").exists()


def test_a_saved_posterior_has_a_page(tmp_path):
    lattice().save(tmp_path / "p.bf")
    html = html_of(bf.load(tmp_path / "p.bf"), tmp_path)
    assert len(data_of(html)["network"]["edges"]) == 17


def test_edges_without_bayes_factors_go_by_their_sign(tmp_path):
    html = html_of(KINDS["tied"](), tmp_path)
    network = data_of(html)["network"]
    assert network["by"] == "sign"
    assert len(network["edges"]) == 12
    assert "Whether an edge is there cannot be told: edges share parameters" in Reader(html).words


def test_a_large_lattice_shows_the_surest(tmp_path):
    found = large()
    html = html_of(found, tmp_path)
    assert len(html.encode()) < 3_000_000
    words = Reader(html).words
    assert "The 5,000 surest of 29,800 parameters (24,800 are left out)" in words
    assert "of 19,800" in words
    shown = data_of(html)["rows"]
    z = (found.summary()["mean"] / found.sd).abs().sort_values(ascending=False)
    assert set(shown["names"][:4000]) <= set(z.index[:5000])


def test_long_names_do_not_make_it_large(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfield.report.page.LARGEST", 150_000)
    names = [f"{i} {'ж' * 2000}" for i in range(12)]
    field = bf.pairwise(12, list(itertools.combinations(range(12), 2)), names=names)
    html = html_of(bf.laplace(field, np.zeros(field.n_parameters), engine=bf.Bethe()), tmp_path)
    assert len(html.encode()) <= 150_000
    assert "are left out" in Reader(html).words


def test_twenty_variables_are_small(tmp_path):
    field = bf.pairwise(20, list(itertools.combinations(range(20), 2)))
    html = html_of(bf.laplace(field, np.linspace(-1, 1, field.n_parameters), engine=bf.Bethe()), tmp_path)
    assert len(html.encode()) < 300_000 < LARGEST < 3_000_000


def test_hostile_names_stay_names(tmp_path):
    html = html_of(hostile(), tmp_path, title=HOSTILE[0] + "\ud800")  # which UTF-8 cannot have
    page = Reader(html)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    assert not [tag for tag, attrs in page.tags if tag == "img" or attrs.get("id") == "out"]
    assert [n["name"] for n in json.loads(page.data)["network"]["nodes"]] == HOSTILE
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1]
    assert not re.search("[<>&\u2028]", block)


def test_numbers_that_are_not_finite_are_null(posterior):
    content = collect(posterior, None, False, 0.95)
    content.rows.table.loc["sleep*energy", ["mean", "sd"]] = [np.nan, np.inf]
    data = json.loads(Reader(rendered(content)).data, parse_constant=lambda name: pytest.fail(name))
    k = data["rows"]["names"].index("sleep*energy")
    assert data["rows"]["columns"]["mean"][k] is None
    assert data["rows"]["columns"]["sd"][k] is None


def test_a_page_is_written_whole_or_not(posterior, tmp_path):
    with pytest.raises(bf.InvalidInput, match="cannot write"):
        write_report(posterior, tmp_path / "nowhere" / "r.html", check=False)


def test_wording():
    assert [number(v) for v in (0.0, 1.2345, -0.5, 123.456, 1e-7, 2e6, float("nan"), None)] == [
        "0.000",
        "1.234",
        "-0.500",
        "123.5",
        "1.00e-07",
        "2.00e+06",
        "–",
        "–",
    ]
    assert [chance(v) for v in (0.0, 0.5, 0.9995, float("nan"))] == ["< 0.001", "0.500", "> 0.999", "–"]
    assert prior_text(bf.Normal(variance=np.array([1.0, 2.0]))) == "Normal(variance=[2 values from 1 to 2])"
    assert prior_text(bf.Normal(covariance=np.eye(3))) == "Normal(covariance=a matrix of 3 × 3)"
    assert prior_text(None) == "not kept"
    assert json_text("</script>&\u2028") == r'"\u003c/script\u003e\u0026\u2028"'


# --- in a browser -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install bayesfield[browser]"
    )
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium here: make browser")
    with api.sync_playwright() as playing:
        chromium = playing.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, path):
    """Opens a report; at the end nothing has been fetched and no error has been seen."""
    contexts, wrong = [], []

    def open_page(target=path, **options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file://", "blob:")) else wrong.append(r.url))
        page.goto(target.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def names_shown(page):
    return page.locator("#table tbody th").all_text_contents()


def column(page, k):
    return [float(t) for t in page.locator(f"#table tbody td:nth-child({k})").all_text_contents()]


def test_sorting(opened, posterior):
    page = opened()
    head = page.locator('th[data-column="mean"]')
    assert head.get_attribute("aria-sort") == "none"
    as_they_came = names_shown(page)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, 3) == sorted(column(page, 3))
    assert names_shown(page) == list(posterior.summary().sort_values("mean").index)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, 3) == sorted(column(page, 3), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert names_shown(page) == as_they_came
    page.locator('th[data-column="inclusion"] button').click()
    assert page.locator("#table tbody tr").last.locator("td").last.inner_text() == "–"  # what is not known comes last


def test_filters(opened, posterior):
    page = opened()
    table = posterior.summary()
    page.fill("#filter", "MOOD")
    wanted = {name for name in table.index if "mood" in name}
    assert set(names_shown(page)) == wanted
    assert page.locator("#shown").inner_text() == f"{len(wanted)} rows of 21"
    page.fill("#filter", "")
    page.check("#sure")
    assert set(names_shown(page)) == set(table.index[(table["lower"] > 0) | (table["upper"] < 0)])
    page.fill("#filter", "nothing like it")
    assert page.locator("#shown").inner_text() == "No row fits."


def focused_edge(page, label):
    """Goes through the edges by keyboard until the wanted one has the focus."""
    page.locator("#drawing .node").first.focus()
    for _ in range(30):
        page.keyboard.press("ArrowDown")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == label:
            return True
    return False


def test_an_edge_tells_its_numbers(opened, posterior):
    row = posterior.summary().loc["sleep*energy"]
    edge = posterior.edges().set_index(["first", "second"]).loc[("sleep", "energy")]
    wanted = [f"{row[c]:.3f}" for c in ("mean", "sd", "lower", "upper")]
    wanted += [chance(row["p_positive"]), chance(edge["inclusion"]), f"{edge['log_bayes_factor']:.3f}", edge["at_10"]]
    page = opened()
    tip = page.locator("#tip")
    assert not tip.is_visible()
    edge_drawn = page.locator('[aria-label="Edge sleep – energy"]')
    edge_drawn.scroll_into_view_if_needed()
    box = edge_drawn.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert [w for w in wanted if w not in tip.inner_text()] == []
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert focused_edge(page, "Edge sleep – energy")
    assert [w for w in wanted if w not in tip.inner_text()] == []
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.keyboard.press("Enter")
    assert names_shown(page) == ["sleep*energy"]
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert len(names_shown(page)) == 21


def test_a_node_tells_its_numbers_and_lights_its_edges(opened, posterior):
    page = opened()
    page.locator('[aria-label="Variable mood"]').hover()
    row = posterior.summary().loc["mood"]
    assert all(f"{row[c]:.3f}" in page.locator("#tip").inner_text() for c in ("mean", "sd", "lower", "upper"))
    lit = page.locator("#drawing .edge.lit").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert lit
    assert all("mood" in label for label in lit)
    assert page.locator("#drawing svg.dim").count() == 1
    page.locator('[aria-label="Variable mood"]').click()
    assert set(names_shown(page)) == {name for name in posterior.summary().index if "mood" in name}
    page.locator("#picked").click()
    assert len(names_shown(page)) == 21


def test_signs_are_told_by_more_than_colour(opened):
    page = opened()
    dashes = "e => e.querySelector('.ink').getAttribute('stroke-dasharray')"
    assert page.locator('[aria-label="Edge sleep – energy"]').evaluate(dashes) is None
    assert page.locator('[aria-label="Edge mood – worry"]').evaluate(dashes) is not None


def test_the_slider_hides_edges(opened, posterior):
    page = opened()
    inclusion = posterior.edges()["inclusion"]
    for least in (0.5, 0.0, 0.9):
        page.locator("#slider").fill(str(least))
        there = page.locator("#drawing .edge").evaluate_all("all => all.filter(e => e.style.display !== 'none').length")
        assert there == (inclusion >= least).sum()
        assert f"{there} of 15 edges shown" in page.locator("#slider-value").inner_text()


def downloaded(page, tmp_path):
    with page.expect_download() as waiting:
        page.click("#download")
    waiting.value.save_as(tmp_path / "rows.csv")
    return list(csv.reader(io.StringIO((tmp_path / "rows.csv").read_text(encoding="utf-8"))))


def test_the_download_holds_what_is_shown(opened, posterior, tmp_path):
    page = opened()
    page.check("#sure")
    page.locator('th[data-column="sd"] button').click()
    head, *lines = downloaded(page, tmp_path)
    assert head == ["parameter", "mean", "sd", "lower", "upper", "p_positive", "inclusion", "log_bayes_factor"]
    assert [line[0] for line in lines] == names_shown(page)
    table = posterior.summary().loc[[line[0] for line in lines]]
    np.testing.assert_allclose([[float(v) for v in line[1:6]] for line in lines], table.to_numpy(), rtol=1e-6)


def test_the_themes(opened):
    colours = "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    page, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    light_colours, dark_colours = page.evaluate(colours), dark.evaluate(colours)
    assert not set(light_colours) & set(dark_colours)
    for one, own, other in ((page, light_colours, dark_colours), (dark, dark_colours, light_colours)):
        one.click("#theme")
        assert one.evaluate(colours) == other
        one.click("#theme")
        assert one.evaluate(colours) == own


def test_a_phone_needs_no_sideways_scrolling(opened, tmp_path):
    write_report(hostile(), tmp_path / "names.html")
    for target in (None, tmp_path / "names.html"):
        page = opened(*([target] if target else []), viewport={"width": 360, "height": 740}, has_touch=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("#drawing svg").bounding_box()["width"] <= 360
    sizes = "() => { const e = document.querySelector('.scroll'); return [e.scrollWidth, e.clientWidth] }"
    for width in (360, 390):
        page = opened(viewport={"width": width, "height": 740}, has_touch=True)
        table, room = page.evaluate(sizes)
        assert table <= room
        assert page.locator("td.inclusion").first.is_visible()
        assert not page.locator("td.sd").first.is_visible()
        shapes = [n.bounding_box() for n in page.locator("#drawing .node circle").all()]
        across = max(b["x"] + b["width"] for b in shapes) - min(b["x"] for b in shapes)
        assert across > 0.65 * width  # of six on a circle, whose width is √3 of its radius
        labels = [n.bounding_box() for n in page.locator("#drawing .node text").all()]
        assert all(b["x"] >= 0 and b["x"] + b["width"] <= width for b in labels)


def test_by_keyboard_alone(opened):
    page = opened()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "() => { const e = document.activeElement;"
                " return e.id || e.closest('th')?.dataset.column || e.getAttribute('aria-label') || e.className }"
            )
        )
        if reached[-1] == "copy":
            break
    wanted = ["skip", "theme", "slider", "Variable sleep", "filter", "sure", "download", "name", "mean", "copy"]
    assert [name for name in reached if name in wanted] == wanted
    ring = "() => { const e = document.activeElement; return getComputedStyle(e).outlineStyle }"
    assert page.evaluate(ring) != "none"


def test_the_citation_is_copied(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy")
    page.wait_for_function("document.getElementById('copied').textContent === 'Copied.'")
    assert "Bethe-Laplace" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_accessibility(opened, scheme, width, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install bayesfield[browser]").Axe()
    bad = tmp_path / "bad.html"
    write_report(without_search(), bad, check=False)
    drawn = tmp_path / "drawn.html"
    write_report(never_apart(), drawn, check=False)
    for target in ([], [bad], [drawn]):
        page = opened(*target, color_scheme=scheme, viewport={"width": width, "height": 740}, reduced_motion="reduce")
        page.locator("#drawing .node").first.focus()
        found = axe.run(page).response["violations"]
        grave = [(v["id"], [n["html"] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")]
        assert grave == []


def test_it_can_be_read_without_javascript(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#table tbody tr").count() == 21
    assert page.locator("text=The drawing needs JavaScript").is_visible()
    assert not page.locator("#filter").is_visible()


def test_thousands_of_rows_come_by_and_by(opened, tmp_path):
    write_report(large(), tmp_path / "large.html")
    page = opened(tmp_path / "large.html")
    assert page.locator("#table tbody tr").count() == 200
    page.click("#more")
    assert page.locator("#table tbody tr").count() == 400
    page.fill("#filter", "x[99,99]")
    assert page.locator("#table tbody tr").count() < 5


def test_hostile_names_do_nothing(opened, tmp_path):
    write_report(hostile(), tmp_path / "names.html", title=HOSTILE[0], check=False)
    page = opened(tmp_path / "names.html")
    assert page.locator("#out").count() == 0
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text() == HOSTILE[0]
    page.locator("#slider").fill("0")
    page.locator("#drawing .node").nth(1).focus()
    assert HOSTILE[1] in page.locator("#tip").inner_text()
    rows = downloaded(page, tmp_path)
    assert HOSTILE[2] in [row[0] for row in rows]


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
@pytest.mark.parametrize("kind", ["Potts", "no edge", "one variable", "no parameter", "sequences", "hidden", "given"])
def test_every_kind_runs_in_the_browser(opened, kind, tmp_path):
    found = KINDS[kind]()
    write_report(found, tmp_path / "kind.html", check=False)
    page = opened(tmp_path / "kind.html")
    assert page.locator("#table tbody tr").count() == len(found.mean)
    if page.locator("#drawing .node").count():
        page.locator("#drawing .node").first.focus()
        assert page.locator("#tip").is_visible()
