#!/usr/bin/env python3
"""Take docs/images/console.png: a gateway with two workers under some load, in headless Chromium.

usage: .deps/venv/bin/python scripts/console_screenshot.py [OUT.png]     (after make build; takes a minute)
"""

import contextlib
import pathlib
import random
import re
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import browser  # noqa: E402
import services  # noqa: E402

SALES = """CREATE TABLE orders AS
SELECT i AS id, i % 97 AS customer, (i * 7919) % 10000 / 100 AS price FROM range(2000000) t(i)"""
MONTH = """SELECT customer, sum(price) AS total, count(*) AS orders
FROM orders
WHERE price > 10
GROUP BY customer ORDER BY total DESC"""
SLOW = "SELECT count(*) FROM orders a JOIN orders b ON a.price < b.price AND a.customer <> b.customer"
WRONG = "SELECT totl FROM orders"


def load(url, stop):
    with services.Remote(url) as c:
        while not stop.is_set():
            with contextlib.suppress(RuntimeError):
                c.rows(random.choices([MONTH, "FROM orders LIMIT 10", WRONG], [6, 20, 1])[0], database="sales")
            time.sleep(random.uniform(0, 0.4))


def main(argv):
    out = argv[0] if argv else ROOT / "docs" / "images" / "console.png"
    stop = threading.Event()
    with services.Gateway([], "--console-listen", "127.0.0.1:0") as gateway:
        with contextlib.ExitStack() as stack:
            for name in ("worker-a", "worker-b"):
                options = ["--worker-id", name, "--threads", "1", "--max-concurrency", "16"]
                stack.enter_context(services.Worker({"sales": ":memory:"}, *options, gateway=gateway.url))
            client = stack.enter_context(gateway.client())
            services.wait_until(lambda: len(client.status().workers) == 2, 20, "both have registered")
            for worker in [w.endpoint for w in client.status().workers]:
                with services.Remote(worker) as direct:
                    direct.run(SALES, database="sales")
            slow = client.call(SLOW, execution_id="nightly-report", database="sales")
            threads = [threading.Thread(target=load, args=(gateway.url, stop)) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                with browser.Browser(width=1280, height=1020) as page:
                    time.sleep(55)
                    page.open(re.search(r"msg=console url=(\S+)", gateway.stderr())[1])
                    page.wait("document.querySelectorAll('#running tbody tr').length > 0")
                    page.settle(3)
                    page.screenshot(out)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
                slow.cancel()


if __name__ == "__main__":
    main(sys.argv[1:])
