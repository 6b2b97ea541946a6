"""Writes a model of 6 MB whose weights are written by hand, so that llama.cpp answers deterministically: with tools, a call of
`double` with {"n": 21}; after a tool's result, or without tools, the text "Hello from one real server".

Usage: tiny_model.py OUT.gguf"""

import sys

import gguf
import numpy as np

SIZE, HEADS, FEED_FORWARD = 512, 4, 32

# The vocabulary: bytes, letters, one token for the whole call, and one for each word of the answer.
tokens = [b"<unk>", b"<s>", b"</s>"]
tokens += [f"<0x{byte:02X}>".encode() for byte in range(256)]
tokens += ["▁{}".format(letter).encode() for letter in "abcdefghijklmnopqrstuvwxyz"]
tokens += ["▁".encode()]
tokens += [bytes([letter]) for letter in range(33, 127)]
call = len(tokens)
tokens.append('<tool_call>\n{"name":▁"double",▁"arguments":▁{"n":▁21}}\n</tool_call>'.encode())
answer = len(tokens)
tokens += [word.encode() for word in ("Hello", "▁from", "▁one", "▁real", "▁server")]
assert len(tokens) <= SIZE
kinds = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
END = 2

TEMPLATE = (
    "{% if tools %}<|im_start|>system\n# Tools\nYou may call one or more functions. "
    "Function signatures are within <tools></tools> XML tags:\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools>\n"
    "For each function call, return a json object within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n{% endif %}'
    "{% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}<|im_start|>assistant\n{{ m.content or '' }}"
    '{% for tc in m.tool_calls %}<tool_call>\n{"name": "{{ tc.function.name }}", "arguments": {{ tc.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n"
    "{% elif m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    # The last character of the prompt decides what comes: `!` a call, `:` the answer.
    "{% if add_generation_prompt %}<|im_start|>assistant{% if tools and messages[-1].role != 'tool' %}!{% else %}:{% endif %}{% endif %}"
)

writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("tiny")
writer.add_context_length(32768)
writer.add_embedding_length(SIZE)
writer.add_block_count(1)
writer.add_feed_forward_length(FEED_FORWARD)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_rope_dimension_count(SIZE // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(len(tokens))
writer.add_file_type(0)
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types(kinds)
writer.add_bos_token_id(1)
writer.add_eos_token_id(END)
writer.add_unk_token_id(0)
writer.add_chat_template(TEMPLATE)

# Each token is a direction of its own, and the output matrix says which token follows it.
embedding = np.zeros((len(tokens), SIZE), np.float32)
for index in range(len(tokens)):
    embedding[index, index] = 1
output = np.zeros((len(tokens), SIZE), np.float32)
follows = {3 + ord("!"): call, tokens.index(b"!"): call, call: END, 3 + ord(":"): answer, tokens.index(b":"): answer}
follows |= {answer + index: answer + index + 1 for index in range(4)} | {answer + 4: END}
for token, following in follows.items():
    output[following, token] = 1
writer.add_tensor("token_embd.weight", embedding)
writer.add_tensor("output_norm.weight", np.ones(SIZE, np.float32))
writer.add_tensor("output.weight", output)
writer.add_tensor("blk.0.attn_norm.weight", np.ones(SIZE, np.float32))
writer.add_tensor("blk.0.ffn_norm.weight", np.ones(SIZE, np.float32))
square, up, down = (SIZE, SIZE), (FEED_FORWARD, SIZE), (SIZE, FEED_FORWARD)
for name, shape in {
    "attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square,
    "ffn_gate": up, "ffn_up": up, "ffn_down": down,
}.items():
    writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
