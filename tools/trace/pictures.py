#!/usr/bin/env python3
"""Makes the pictures of docs/trace-inspection.md: records two programs and has Chromium show their reports.

usage: pictures.py TESSERA ROOT_OF_THE_TREE
"""
import os
import shutil
import subprocess
import sys
import tempfile


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tessera, root = map(os.path.abspath, sys.argv[1:])
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("there is no Chromium (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TESSERA_THREADS": "1"}

        def run(*words):
            return subprocess.run(words, check=True, cwd=folder, env=environment, capture_output=True, text=True).stdout

        # Names without folders: the reports show what was typed.
        os.symlink(tessera, os.path.join(folder, "tessera"))
        for name in ("walk", "walk_fixed"):
            shutil.copy(os.path.join(root, "examples", name + ".tsr"), folder)
            run("./tessera", "trace", "record", "--output", name + ".trace", "--", "./tessera", "run", name + ".tsr")
            run("./tessera", "trace", "report", name + ".trace", "--html", name + ".html")
            print(run("./tessera", "trace", "report", name + ".trace", "--rows", "4"))
        print(run("./tessera", "trace", "diff", "walk.trace", "walk_fixed.trace", "--rows", "4"))
        for name, hash_, height, out in (("walk", "", 1060, "slow"), ("walk_fixed", "", 900, "fixed"),
                                         ("walk_fixed", "#trace-0", 2500, "trace")):
            run(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--user-data-dir=" + os.path.join(folder, "profile"), f"--window-size=1180,{height}",
                "--virtual-time-budget=4000",
                "--screenshot=" + os.path.join(root, "docs", f"trace-inspection-{out}.png"),
                f"file://{folder}/{name}.html{hash_}")


if __name__ == "__main__":
    main()
