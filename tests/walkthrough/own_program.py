"""A program that knows nothing of Durabench: it posts to a model API and runs what is answered."""

import json
import os
import subprocess
import urllib.request

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
KEY = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}

talk = [{"role": "user", "content": os.environ["ISSUE"]}]
while True:
    body = json.dumps({"model": "any", "messages": talk}).encode()
    with urllib.request.urlopen(urllib.request.Request(URL, body, KEY)) as response:
        message = json.load(response)["choices"][0]["message"]
    if "```" not in message["content"]:
        break
    command = message["content"].split("```\n")[1]
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    talk += [message, {"role": "user", "content": done.stdout}]
