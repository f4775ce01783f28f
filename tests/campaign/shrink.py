# SPDX-License-Identifier: Apache-2.0
"""A model's file becomes shorter while a verb has it mapped, at a random time and by a random length:
shrink.py SECONDS SEED MODEL FOLDER KT. Whatever comes of it is a result, or one message and exit status 1."""
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

seconds, seed, model, folder, kt = float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
path = os.path.join(folder, "shrinks.gguf")
size = os.path.getsize(model)
QUESTION = "Who is it, and what does he want of me?"
tried = crashes = hangs = wrong = 0


def say(what, command, detail):
    print("shrink: seed %d: %s: %s: %s" % (seed, what, " ".join(command), detail[-400:].strip().replace("\n", " | ")))


def ask(port, rng):
    """Requests until one is not answered."""
    try:
        for _ in range(4):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            body = {"prompt": "%d %s" % (rng.random() * 1e6, QUESTION), "max_tokens": 30, "ignore_eos": True}
            connection.request("POST", "/v1/completions", json.dumps(body))
            connection.getresponse().read()
            connection.close()
    except (OSError, http.client.HTTPException):
        pass


def run(command, serves, cut, wait):
    """Exit status, or None for a hang; messages."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, errors="replace")
    timer = threading.Timer(wait, os.truncate, (path, cut))
    said = []

    def read():
        for line in process.stderr:
            said.append(line)
            found = serves and re.search(r"ready: http://.*:(\d+)$", line)
            if found:
                ask(int(found.group(1)), random.Random(seed))
                process.terminate()

    reader = threading.Thread(target=read)
    reader.start()
    timer.start()
    try:
        status = process.wait(120)
    except subprocess.TimeoutExpired:
        status = None
        process.kill()
    timer.cancel()
    reader.join()
    return status, "".join(said)


end = time.monotonic() + seconds
while tried == 0 or time.monotonic() < end:
    rng = random.Random(seed)
    shutil.copyfile(model, path)
    common = ["--threads", str(rng.choice((1, 2, 5))), "--backend", rng.choice(("reference", "llamafile"))]
    verb = rng.choice(("run", "run", "chat", "chat", "generate", "perplexity"))
    command = [kt, verb, path, *common]
    if verb == "run":
        command += ["--port", "0", "--context", "128", "--log-level", "error"]
    elif verb == "chat":
        command += ["--chat-template", "chatml", "--prompt", QUESTION, "--tokens", "60"]
    elif verb == "generate":
        command += ["--prompt", QUESTION, "--tokens", "60", "--ignore-eos"]
    else:
        command += [os.path.join(os.environ["KT_TEST_SOURCE"], "COPYING"), "--context", "64"]
    # At least two pages, as the rest of a page that the file ends in reads as zeros.
    status, said = run(command, verb == "run", rng.choice((0, rng.randrange(size - 8192))), rng.uniform(0.01, 0.6))
    tried += 1
    errors = [line for line in said.splitlines() if re.match(r"kt[^:]*: error: ", line)]
    if status is None:
        hangs += 1
        say("hangs", command, said)
    elif status < 0 or status > 2:
        crashes += 1
        say("status %d%s" % (status, " " + signal.Signals(-status).name if status < 0 else ""), command, said)
    elif (status == 0) == bool(errors) or len(errors) > 1:
        wrong += 1
        say("status %d, %d errors" % (status, len(errors)), command, said)
    seed += 1
print(tried, crashes, hangs, wrong, 0, seed)
sys.exit(1 if crashes + hangs + wrong else 0)
