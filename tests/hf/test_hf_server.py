"""A small server, as one would write it with the standard library: many requests at once, one model."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
import torch

from tests.hf.zoo import PAD, remembering, texts

THREADS, CALLS = 8, 3


@pytest.fixture
def server():
    """The address of a server that answers prompts with what its one model generates."""
    model = remembering("gpt2", "ForCausalLM", "sdpa")

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            torch.set_default_dtype(torch.float64)
            prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=8, pad_token_id=PAD)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(ids[0].tolist()).encode())

        def log_message(self, *message):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as serving:
        running = threading.Thread(target=serving.serve_forever)
        running.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        running.join()


def asked(address, prompt):
    """The server's answer to a prompt."""
    with urlopen(Request(address, data=json.dumps(prompt).encode()), timeout=60) as response:
        return json.load(response)


def test_a_server_answers_eight_threads_as_it_answers_one(server):
    prompts = [texts("gpt2", 3 + number, seed=number)["input_ids"][0].tolist() for number in range(THREADS)]
    alone = [asked(server, prompt) for prompt in prompts]
    start = threading.Barrier(THREADS)

    def client(number):
        start.wait()
        turned = prompts[number:] + prompts[:number]  # at any moment, different prompts
        return [asked(server, prompt) for prompt in turned[:CALLS]]

    with ThreadPoolExecutor(THREADS) as pool:
        for number, answers in enumerate(pool.map(client, range(THREADS))):
            assert answers == (alone[number:] + alone[:number])[:CALLS]
    assert len({tuple(answer) for answer in alone}) > 1
