"""A real model behind llama.cpp's OpenAI-compatible server, in a process of its own, with one thread.

``python -m tests.providers.local_model_server MODEL.gguf``: prints one line of JSON ``{"url": …}`` once it listens and
lives until its standard input closes. Needs ``xllamacpp``; only ``scripts/local-model`` runs it.
"""

from __future__ import annotations

import json
import sys

CONTEXT_TOKENS = 8_192


def main(model: str) -> None:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.port = 0
    settings.hostnames = ["127.0.0.1"] if isinstance(settings.hostnames, list) else "127.0.0.1"
    settings.n_ctx = CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    settings.use_jinja = True
    settings.ui = False
    settings.warmup = False
    settings.offline = True
    settings.sleep_idle_seconds = -1
    server = xllamacpp.Server(settings)
    address = server.listening_address
    print(json.dumps({"url": f"{address.rstrip('/')}/v1"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
