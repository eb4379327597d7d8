"""Chat templates in Jinja, in the ways in which models' own are written, and what they must give."""

import json
from collections.abc import Mapping
from pathlib import Path

_OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML: Mapping[str, str] = {
    "plus": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}" + _OPEN,
    "tilde": "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}"
    + _OPEN,
    "text": "{% for m in messages %}\n<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + _OPEN,
    "join": "{% for m in messages %}{{ ['<|im_start|>', m.role, '\n', m.content, '<|im_end|>\n'] | join }}{% endfor %}"
    + _OPEN,
    "method": "{% for m in messages %}{{ '\n'.join(['<|im_start|>' + m.role, m.content + '<|im_end|>', '']) }}"
    "{% endfor %}" + _OPEN,
    "macro": "{% macro turn(m) %}{{ '<|im_start|>' }}{{ m.role }}{{ '\n' }}{{ m.content }}{{ '<|im_end|>\n' }}"
    "{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}" + _OPEN,
    "set": "{% set ns = namespace(out='') %}{% for m in messages %}{% set x %}<|im_start|>{{ m.role }}{{ '\n' }}"
    "{{ m.content }}{% endset %}{% set ns.out = ns.out + x + '<|im_end|>\n' %}{% endfor %}{{ ns.out }}" + _OPEN,
    "pieces": "{% for m in messages %}{{ '<|' + 'im_start' + '|>' + m.role | lower | trim }}{{ '\n' }}"
    "{{ m['content'] | string }}{{ ('<|IM_END|>' | lower) + '\n' }}{% endfor %}" + _OPEN,
    "blocks": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}" + _OPEN,
}
"""All of them write what our `chatml` writes."""

LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
    "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
THINKER = (
    "{% set last = namespace(user=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set last.user = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and "
    "loop.index0 > last.user %}{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' }}{% endif %}"
    "{{ m.content }}{% for call in m.tool_calls or [] %}{{ '<tool_call>' + call.function | tojson + '</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" + _OPEN
)
"""Writes what was thought only behind the last question, and an empty block where nothing was."""
CHOOSER = THINKER.replace(
    "assistant\n' }}",
    "assistant\n' }}{% if not enable_thinking | default(true) %}{{ '<think>\n\n</think>\n\n' }}{% endif %}",
)
"""Opens an answer with that empty block if `enable_thinking` is false."""
ENDED = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% else %}{{ eos_token }}{% endif %}"
)
"""Has a token that ends a whole conversation."""


def model(folder: Path, template: str, **config: object) -> Path:
    """A model's folder with that template and such fields of its config."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|endoftext|>"}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(named | config), encoding="utf-8")
    return folder
