"""Serves a model by llama.cpp's own HTTP server on a free port of 127.0.0.1, and prints its address. Ends with its standard input.

Usage: serve_model.py MODEL.gguf [CONTEXT_TOKENS]"""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = 0
params.n_ctx = int(sys.argv[2]) if len(sys.argv) > 2 else 16384
params.use_jinja = True
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
print("listening on " + server.listening_address, flush=True)
sys.stdin.read()
