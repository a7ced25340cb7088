"""Chromium uses the pages: log in, submit, watch, read, cancel, explain; axe-core looks at each.

browser_pages.py LINK AXE_JS PICTURES TOKEN FOLDER: a link that logs in the user of the cluster
once, axe.min.js, a folder for pictures, a token of an ordinary user, as whom all is done, and a
folder of that user.
"""

import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

LINK, AXE, PICTURES = sys.argv[1], Path(sys.argv[2]).read_text(), Path(sys.argv[3])
TOKEN, FOLDER = sys.argv[4:]
BASE = "{0.scheme}://{0.netloc}".format(urlsplit(LINK))
LIMIT_S = 120
WORD = "hello from the page"
SCRIPT = f"#!/bin/bash\nsrun hostname\necho '{WORD}'\nsleep 600\n"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]

options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
             "--window-size=1280,900", "--force-device-scale-factor=1"):  # fmt: skip
    options.add_argument(word)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
driver.set_page_load_timeout(LIMIT_S)
driver.set_script_timeout(LIMIT_S)
wait = WebDriverWait(driver, LIMIT_S)
problems = []


def text_of(selector):
    """Return what is shown, asked at once: the page may renew itself in between."""
    script = "const part = document.querySelector(arguments[0]); return part ? part.innerText : '';"
    return driver.execute_script(script, selector)


def show(path):
    driver.get(BASE + path)


def press(label):
    buttons = [
        button for button in driver.find_elements(By.TAG_NAME, "button") if button.text == label
    ]
    assert buttons, (label, driver.page_source)
    buttons[0].click()


def says(text, *, reload=True):
    """Wait until the page says something, looking again as a visitor does."""
    ends = time.monotonic() + LIMIT_S
    while text not in text_of("main"):
        assert time.monotonic() < ends, (text, text_of("main"))
        time.sleep(1)
        if reload:
            driver.refresh()


def look(name, *, is_shown=True):
    """Take a picture of the page, and let axe-core look at it in light and dark."""
    for scheme in ("dark", "light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        driver.execute_script(AXE)
        report = driver.execute_async_script(
            "const done = arguments[1];"
            "axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}})"
            ".then(done, error => done({violations: [{impact: 'critical', id: String(error),"
            " nodes: []}]}));",
            TAGS,
        )
        problems.extend(
            (name, scheme, row["id"], [node.get("target") for node in row["nodes"]][:3])
            for row in report["violations"]
            if row["impact"] in ("serious", "critical")
        )
        if is_shown:
            suffix = "-dark" if scheme == "dark" else ""
            driver.save_screenshot(str(PICTURES / f"page-{name}{suffix}.png"))
    messages = [row for row in driver.get_log("browser") if row["level"] == "SEVERE"]
    problems.extend((name, row["message"]) for row in messages)


def submit(name, **fields):
    """Fill the form, ask when it would start, and submit; return the job's id."""
    show("/submit")
    for field, value in {"name": name, "minutes": "30", "directory": FOLDER, **fields}.items():
        box = driver.find_element(By.NAME, field)
        box.clear()
        box.send_keys(value)
    driver.execute_script("document.querySelector('[name=script]').value = arguments[0]", SCRIPT)
    press("When would it start?")
    says("It would start", reload=False)
    if name == "watched":
        look("submit")
    press("Submit")
    wait.until(lambda browser: "/jobs/" in browser.current_url)
    return driver.current_url.rpartition("/")[2]


try:
    show("/login")
    look("login")
    driver.get(LINK)
    assert "logs you in once" in driver.page_source
    driver.find_element(By.CSS_SELECTOR, "form.login button").click()
    wait.until(lambda browser: text_of("h1") == "Overview")
    driver.get(LINK)
    assert "was opened before" in driver.page_source, "a link logs in more than once"
    show("/")
    press("Log out")
    wait.until(lambda browser: "/login" in browser.current_url)
    driver.find_element(By.NAME, "token").send_keys("no.token")
    press("Log in")
    wait.until(lambda browser: browser.find_elements(By.CSS_SELECTOR, "[role=alert]"))
    driver.get_log("browser")  # the answer 401 is an error of the network to Chromium
    look("refused", is_shown=False)
    driver.find_element(By.NAME, "token").send_keys(TOKEN)
    press("Log in")
    wait.until(lambda browser: text_of("h1") == "Overview")
    says("Block b1")
    says("Block b2")

    job = submit("watched", nodes="2", tasks="8")
    says("RUNNING")
    driver.find_element(By.LINK_TEXT, "its output").click()
    says(WORD, reload=False)  # the page itself reads it again
    look("output")
    show(f"/jobs/{job}")
    says("step 0")  # its srun
    look("job")
    waiting = submit("waiting", nodes="2", tasks="8")
    says("Why it waits")
    look("waiting")
    show(f"/jobs/{waiting}/script")
    assert WORD in driver.page_source
    look("script", is_shown=False)
    show("/jobs?text=waiting")
    shown = text_of("tbody")
    assert waiting in shown and "watched" not in shown, shown
    time.sleep(11)  # a second sample for the plots
    show("/scheduler")
    says("A pass of the scheduler")
    for path, name in (("/", "overview"), ("/jobs", "jobs"), ("/nodes", "nodes"),
                       ("/plan", "plan"), ("/shares", "shares"),
                       ("/scheduler", "scheduler")):  # fmt: skip
        show(path)
        look(name)
    for known in (waiting, job):
        show(f"/jobs/{known}")
        press("Cancel")
        says("CANCELLED")
    show("/jobs/99999999")
    driver.get_log("browser")  # a page of 404 is an error of the network to Chromium
    look("problem", is_shown=False)
    show("/")
    press("Log out")
    wait.until(lambda browser: "/login" in browser.current_url)
    show("/jobs")
    assert "/login" in driver.current_url
finally:
    driver.quit()
assert not problems, problems
print("ok")
