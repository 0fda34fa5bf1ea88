"""Pages in a real browser: every interaction, the sliders against Python, no error, no request, and for everybody.

They need Chromium and its driver (Debian: apt-get install chromium chromium-driver), and axe-core, which npm fetches.
"""

import json
import random
import shutil
import subprocess
from collections import Counter
from csv import reader
from xml.etree import ElementTree

import pytest
from page_examples import HOSTILE, subject, whole
from report_examples import comparison
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from hyperplace.cli.live import LivePage
from hyperplace.files.timeline import parse_trace
from hyperplace.report.comparison import comparison_document
from hyperplace.report.page import document_page, plan_page
from hyperplace.report.rows import is_over, limits_of
from hyperplace.values.derived.messages import crossings
from hyperplace.values.pace import Change, bound
from hyperplace.values.reading import Reading
from hyperplace.values.sync_pace import sync_bound

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = "axe-core@4.10.3"
WHOLE = ("vgg16", "resnet50", "hostile")  # on k = 4, 8 and 2 parts
SECONDS = 10  # for a file to be there

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1300,1000",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser, tmp_path):
    """Return a function that opens a page; afterwards it has said and fetched nothing."""

    def show(page, **features):
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        chosen = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": chosen})
        browser.get(path.as_uri())
        return browser

    browser.get_log("performance")
    yield show
    assert browser.get_log("browser") == []
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def saved(browser, tmp_path):
    """Return a function that clicks on something and returns the text of the file that the browser then saves."""
    folder = tmp_path / "saved"
    folder.mkdir()
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})

    def save(selector):
        click(browser, selector)
        files = WebDriverWait(browser, SECONDS).until(
            lambda _: [path for path in folder.iterdir() if path.suffix in (".svg", ".csv", ".json")]
        )
        text = files[0].read_text(encoding="utf-8")
        files[0].unlink()
        return text

    return save


def all_of(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def node(browser, key):
    return browser.execute_script(
        "return [...document.querySelectorAll('#network [data-key]')].find((one) => one.dataset.key === arguments[0])",
        key,
    )


def press(browser, element, key):
    browser.execute_script("arguments[0].focus()", element)
    element.send_keys(key)


@pytest.mark.parametrize("name", WHOLE)
def test_the_network_folds_follows_and_tells(shown, saved, name):
    made, _ = whole(name)
    plan = made.plan
    page = shown(plan_page(made))
    num_items = page.execute_script("return DATA.network.items.length")
    click(page, "[data-act=unfold]")
    assert len(all_of(page, "#network .node")) == len(plan.layers)
    # Every layer has the colours of its owners, and every line the bytes that cross.
    parts_of = page.execute_script(
        "return [...document.querySelectorAll('#network .node')].map((one) => [one.dataset.key, "
        "[...one.querySelectorAll('[data-part]')].map((rect) => Number(rect.dataset.part))])"
    )
    owners = {layer.name: sorted({owner.part for owner in layer.owners}) for layer in plan.layers}
    assert {key: sorted(set(parts)) for key, parts in parts_of} == owners
    drawn = page.execute_script(
        "return [...document.querySelectorAll('.edge')].map((one) => Number(one.dataset.bytes))"
    )
    assert Counter(drawn) == Counter(crossings(plan.layers, plan.settings).values())
    num_hatched = len(all_of(page, "#network .hatch"))
    assert num_hatched == sum(owner.rows != (0, plan.settings.batch) for layer in plan.layers for owner in layer.owners)
    assert num_hatched or name != "vgg16", "the plan of VGG16 has rows apart"
    # A layer is followed forward and back.
    middle = plan.layers[len(plan.layers) // 2]
    page.execute_script("arguments[0].dispatchEvent(new MouseEvent('click'))", node(page, middle.name))
    assert node(page, middle.name).get_attribute("aria-pressed") == "true"
    dim = {one.get_attribute("data-key") for one in all_of(page, "#network .node.dim")}
    assert dim == {layer.name for layer in plan.layers} - related(plan, middle.name)
    press(page, node(page, middle.name), Keys.ESCAPE)
    assert not all_of(page, "#network .dim")
    # Whoever comes by keyboard reads the same.
    press(page, node(page, plan.layers[1].name), Keys.ARROW_DOWN)
    detail = page.find_element(By.CSS_SELECTOR, "#network .detail").text
    focused = page.execute_script("return document.activeElement.dataset.key")
    assert focused not in (None, plan.layers[1].name)
    assert all(word in detail for word in (focused.removesuffix(" unfolded"),))
    press(page, node(page, plan.layers[2].name), Keys.NULL)
    detail = page.find_element(By.CSS_SELECTOR, "#network .detail").text
    assert all(word in detail for word in ("why", "filters", "work of part", "ms", "output", "crosses"))
    click(page, "[data-act=fold]")
    assert len(all_of(page, "#network .node")) == num_items
    block = all_of(page, "#network .node.block")[0]
    key = block.get_attribute("data-key")
    press(page, block, Keys.ENTER)
    assert node(page, key) is None
    press(page, node(page, f"{key} unfolded"), Keys.ENTER)
    assert node(page, key).get_attribute("aria-expanded") == "false"
    picture = ElementTree.fromstring(saved("[data-act=svg]"))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    names = {one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")} | {
        one.text for one in picture.iter()
    }
    assert any(layer.name in (text or "") for layer in plan.layers for text in names)
    assert_harmless(page)


def related(plan, name):
    """Return the layers before and after one."""
    edges = crossings(plan.layers, plan.settings)
    found = {name}
    for order, (near, far) in ((plan.layers, (0, 1)), (plan.layers[::-1], (1, 0))):
        way = {name}
        for layer in order:
            if any(pair[far] == layer.name and pair[near] in way for pair in edges):
                way.add(layer.name)
        found |= way
    return found


def assert_harmless(page):
    assert page.execute_script("return typeof window.hacked") == "undefined"
    assert all_of(page, "img") == []


@pytest.mark.parametrize(
    ("name", "schedule"), [(name, "async") for name in WHOLE] + [("vgg16", "sync"), ("resnet50", "sync")]
)
def test_sliders_say_what_python_says(shown, name, schedule):
    is_sync = schedule == "sync"
    made = subject(name, schedule=schedule) if is_sync else whole(name)[0]
    page = shown(plan_page(made))
    pace, draw, binding = made.outlook.pace, random.Random(1), set()
    least, count = (sync_bound, "micro_batches") if is_sync else (bound, "in_flight")
    for _ in range(50):
        wanted = {
            "bandwidth": draw.uniform(-6, 6),
            "latency": draw.uniform(0, 20),
            "speed": draw.uniform(-4, 4),
            count: draw.randint(1, 32),
        }
        set_to, seconds, binds = page.execute_script(
            "for (const [name, value] of Object.entries(arguments[0])) {"
            "  const slider = document.getElementById(`slide-${name}`); slider.value = value;"
            "  slider.dispatchEvent(new Event('input')); }"
            "const told = document.querySelector('#what-if .told');"
            "return [Object.fromEntries(Object.keys(arguments[0]).map((name) => [name,"
            "  Number(document.getElementById(`slide-${name}`).value)])), told.dataset.seconds, told.dataset.binds]",
            wanted,
        )
        assert all(abs(set_to[one] - wanted[one]) <= 0.006 for one in wanted)
        where = (2 ** set_to["bandwidth"], set_to["latency"] / 1e3, 2 ** set_to["speed"])
        found = least(pace, Change(*where, **{count: int(set_to[count])}))
        assert float(seconds) == pytest.approx(found.seconds, rel=1e-6)
        assert dict(found.candidates)[binds] == pytest.approx(found.seconds, rel=1e-9)
        binding.add(binds)
    least_kinds = 1 if is_sync else 2 if name == "hostile" else 3  # its network is small and slow
    assert len(binding) >= least_kinds, "the positions do not try much"
    assert len(all_of(page, "#what-if svg .binds")) == 1, "what binds is among the bars, however many there are"
    left = "return Math.min(...[...document.querySelectorAll('#what-if svg text')].map((one) => one.getBBox().x))"
    assert page.execute_script(left) >= 0, "no name is cut off"
    click(page, "[data-act=reset]")
    told = page.find_element(By.CSS_SELECTOR, "#what-if .told")
    forecast = made.outlook.forecast
    as_it_is = least(pace, Change(in_flight=4, micro_batches=forecast.micro_batches)).seconds
    assert float(told.get_attribute("data-seconds")) == pytest.approx(as_it_is)
    assert as_it_is <= forecast.seconds * 1.04


@pytest.mark.parametrize("name", WHOLE)
def test_timelines_zoom_and_a_mini_batch_is_followed(shown, saved, name):
    made, others = whole(name)
    page = shown(plan_page(made, measured=others["measured"]))
    pictures = all_of(page, "#timelines svg.events")
    assert [one.get_attribute("aria-label").split()[0] for one in pictures] == ["measured", "predicted"]
    before = len(all_of(page, "#timelines .event"))
    assert before == page.execute_script("return DATA.timelines.flatMap((one) => one.events).length")
    for _ in range(3):
        click(page, "#timelines [data-act=in]")
    assert 0 < len(all_of(page, "#timelines .event")) < before
    press(page, pictures[0], "0")
    assert len(all_of(page, "#timelines .event")) == before
    batches = page.execute_script("return DATA.timelines[0].events.map((event) => event[3])")
    batch = sorted(set(batches))[len(set(batches)) // 2]  # at the ends a mini-batch is cut off
    first = page.find_element(By.CSS_SELECTOR, f"#timelines .event[data-batch='{batch}']")
    page.execute_script("arguments[0].dispatchEvent(new MouseEvent('mouseenter'))", first)
    said = page.find_element(By.CSS_SELECTOR, "#timelines .said").text
    assert any(" ".join(event.name.split()) in said for event in others["measured"].events if event.batch == batch)
    page.execute_script("arguments[0].dispatchEvent(new MouseEvent('click'))", first)
    followed = all_of(page, "#timelines .event:not(.dim)")
    assert {int(one.get_attribute("data-batch")) for one in followed} == {batch}
    assert len(all_of(page, "#timelines .thread")) == 2
    assert page.find_element(By.CSS_SELECTOR, "#timelines select").get_attribute("value") == str(batch)
    parts = {one.get_attribute("y") for one in followed}
    assert len(parts) == others["measured"].num_parts
    again = parse_trace(saved("#timelines [data-trace='0']"), "page")
    assert len(again.events) == len(batches)
    assert {event.name for event in again.events} <= {event.name for event in others["measured"].events}
    assert_harmless(page)


def filtered(page, field):
    """Return the rows that a filter leaves."""
    return page.execute_script(
        "return [...arguments[0].parentElement.nextElementSibling.querySelectorAll('tbody tr:not([hidden])')]"
        ".map((row) => row.textContent)",
        field,
    )


@pytest.mark.parametrize("name", WHOLE)
def test_tables_sort_filter_and_go_out_as_csv(shown, saved, name):
    made, others = whole(name)
    page = shown(plan_page(made, against=others["against"]))

    table = "document.querySelector('table')"
    work = page.execute_script(f"return [...{table}.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.value))")
    for wanted in (sorted(work), sorted(work, reverse=True)):
        page.execute_script(f"{table}.querySelectorAll('th button')[2].click()")
        now = page.execute_script(
            f"return [...{table}.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.value))"
        )
        assert now == wanted
    assert page.execute_script(f"return {table}.querySelectorAll('th')[2].getAttribute('aria-sort')") == "descending"
    rows = list(reader(saved("button.csv").splitlines()))
    assert rows[0][:3] == ["part", "host", "work %"]
    assert sorted(float(row[2]) for row in rows[1:]) == sorted(work)
    assert {row[1] for row in rows[1:]} <= {
        f"'{host.name}" if host.name[0] in "=+-@" else host.name for host in made.outlook.cluster.hosts
    }
    for field in all_of(page, "input[type=search]"):
        field.send_keys("conv_is_not_there")
        assert filtered(page, field) == []
        page.execute_script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", field)
        every = filtered(page, field)
        assert every
        field.send_keys(every[-1])
        assert filtered(page, field) == [text for text in every if every[-1] in text]
    click(page, "[data-act=unfold]")
    assert len(all_of(page, "#network .plane.other")) == len(made.plan.layers)
    assert_harmless(page)


def test_a_comparison_sorts_filters_and_greys_what_is_over_the_limit(shown):
    made = comparison()
    page = shown(document_page(comparison_document(made).without_figures(), "a comparison", "a command"))
    work = "document.querySelector('table')"
    greyed = page.execute_script(
        f"return [...{work}.querySelectorAll('tr.misses')].map((row) => row.cells[2].textContent)"
    )
    over = [one for one in made.rows if one.has_figures and is_over(one, limits_of(made))]
    lost = [one for one in made.rows if not one.has_figures]
    assert len(greyed) == len(over) + len(lost)
    assert any(one.imbalance is None for one in over), "a baseline without a limit of its own"
    for wanted in (sorted, lambda some: sorted(some, reverse=True)):
        page.execute_script(f"{work}.querySelectorAll('th button')[0].click()")
        ks = page.execute_script(f"return [...{work}.tBodies[0].rows].map((row) => Number(row.cells[0].textContent))")
        assert ks == wanted(ks)
    field = all_of(page, "input[type=search]")[0]
    field.send_keys(greyed[0].split()[0])
    assert filtered(page, field)
    assert all(greyed[0].split()[0] in row for row in filtered(page, field))


def test_a_page_prints_whole_and_without_its_buttons(shown):
    page = shown(plan_page(subject("vgg16")))
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = "return [...document.querySelectorAll('.tools, .detail, .sliders')].every((one) => !one.checkVisibility())"
    assert page.execute_script(hidden)
    scrolls = (
        "return [...document.querySelectorAll('.scroll')].every((one) => getComputedStyle(one).overflow === 'visible')"
    )
    assert page.execute_script(scrolls)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(page.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 10_000


def test_hostile_names_are_shown_and_do_nothing(shown):
    made, others = whole("hostile")
    page = shown(plan_page(made, **others))
    click(page, "[data-act=unfold]")
    for key in [one.get_attribute("data-key") for one in all_of(page, "#network [data-key]")]:
        press(page, node(page, key), Keys.NULL)
        page.execute_script("arguments[0].dispatchEvent(new MouseEvent('mouseenter'))", node(page, key))
    for one in all_of(page, "#timelines .event"):
        page.execute_script("arguments[0].dispatchEvent(new MouseEvent('mouseenter'))", one)
    assert_harmless(page)
    assert all(name in page.execute_script("return document.body.textContent") for name in HOSTILE)
    # The same on purpose: the policy itself stops a handler and a script that were smuggled in.
    page.execute_script(
        "const made = document.createElement('div'); document.body.append(made);"
        "made.innerHTML = '<p onclick=\"window.hacked=1\"></p>'; made.firstChild.click();"
        "const script = document.createElement('script'); script.textContent = 'window.hacked=1'; made.append(script)"
    )
    assert page.execute_script("return typeof window.hacked") == "undefined"
    refused = page.get_log("browser")
    assert refused
    assert all("Content Security Policy" in line["message"] for line in refused)


def test_a_run_under_way_is_drawn_as_it_comes(browser, axe):
    """From its server, once a second, and from nowhere else; the end is said when it comes."""
    live = LivePage()
    live.begin(HOSTILE[0], 2)
    for number in range(1, 30):
        live.readings.add(
            Reading(1, number, 0.5 * number, (3 / number,), 90.0, (0.7, None), (1.0, 2.0), 2**20 * number)
        )
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(live.url)
    wait = WebDriverWait(browser, 10)
    wait.until(lambda page: page.find_element(By.ID, "state").text == "Training.")
    drawn = {one.get_attribute("data-chart"): one for one in all_of(browser, "[data-chart]")}
    labels = {name: one.get_attribute("aria-label") for name, one in drawn.items()}
    assert labels["loss"].endswith("now 0.1034")
    assert labels["busy"].endswith("now part 0 70")
    assert labels["staleness"].endswith("now part 0 1, part 1 2")
    assert labels["mib_per_batch"].endswith("now 1")
    curve = drawn["loss"].find_element(By.TAG_NAME, "polyline").get_attribute("points").split()
    assert len(curve) == 29
    assert browser.find_element(By.TAG_NAME, "h1").text == HOSTILE[0]
    browser.execute_script(axe)
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []
    live.readings.add(Reading(1, 30, 15.0, (0.1,), 90.0, (0.7, 0.5), (1.0, 2.0), 2**20 * 30, 0.25))
    wait.until(lambda page: drawn["test_accuracy"].get_attribute("aria-label").endswith("now 25"))
    live.close("it is over")
    wait.until(lambda page: page.find_element(By.ID, "state").text == "it is over")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith((live.url, "data:")) for url in asked)
    assert asked


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axe")
    if not shutil.which("npm"):
        pytest.skip("needs npm to fetch axe-core: apt-get install npm")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), AXE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        pytest.skip(f"npm cannot fetch {AXE}: {(ran.stderr or ran.stdout)[-200:]}")
    return (folder / "node_modules/axe-core/axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown, axe, scheme):
    made = subject("vgg16").outlook.forecast.prediction.timeline
    page = shown(
        plan_page(subject("vgg16"), measured=made, against=subject("vgg16 other")), prefers_color_scheme=scheme
    )
    page.execute_script(axe)
    found = page.execute_async_script("axe.run().then(arguments[0])")
    serious = [
        (one["id"], one["impact"], [where["html"][:120] for where in one["nodes"]][:3])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 15
