"""Chat templates that want out of their sandbox, or all of the machine: one clear error, and no work without end."""

from pathlib import Path

import pytest

from chat_cases import toy_tokenizer
from tokenriver.chat import load_chat
from tokenriver.errors import InputError
from tokenriver.messages import Message

TOY = toy_tokenizer()
TALK = [Message("user", "<b>" * 50), Message("assistant", "x")]
LOOP = "{% for a in range(99999) %}"
BIG = "{% set n = namespace(s='x' * 900000, t='x' * 900000, l=range(30000) | list) %}"
ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ messages[0]['__class__']['__init__'] }}",
    "{{ ''['__class__'] }}",
    "{{ (1).__class__ }}",
    "{{ messages | attr('__class__') }}",
    "{{ messages | map(attribute='__class__') | list }}{{ messages.__len__() }}",
    "{{ raise_exception.__globals__ }}",
    "{{ range.__globals__['os'] }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__.os.system('true') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{% for x in messages %}{{ loop.__class__ }}{% endfor %}",
    "{% macro m() %}{{ caller.__func__ }}{% endmacro %}{{ m.__code__ }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{a}'.format_map({'a': 1}) }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(role='system') }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages.clear() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'base' %}",
    "{% block a %}{% endblock %}",
    "{% autoescape true %}{{ messages }}{% endautoescape %}",
    "{{ messages[0].content.marks }}{{ messages[0].content.runs }}",
    "{{ 'a' | escape }}",
    "{{ open('/etc/passwd') }}",
    "{% set messages.x = 1 %}",
]
HUNGRY = [
    "{{ 'x' * 10 ** 9 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ 2 ** 64 * 2 ** 64 }}",
    "{{ [0] * 10 ** 9 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ 'x'.center(10 ** 9) }}",
    "{{ 'x'.ljust(10 ** 9) }}",
    "{{ 'x'.zfill(10 ** 9) }}",
    "{{ 'x' | center(10 ** 9) }}",
    "{{ '\t'.expandtabs(10 ** 9) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ 'x' | wordwrap(1, wrapstring='y' * 10 ** 9) }}",
    "{{ [1] | batch(10 ** 9, 0) | list }}",
    "{{ [1] | slice(10 ** 9) | list }}",
    "{{ messages | tojson(indent=10 ** 9) }}",
    "{{ range(10 ** 9) | list }}",
    LOOP + LOOP + "{% endfor %}{% endfor %}",
    LOOP + LOOP + "{{ a }}{% endfor %}{% endfor %}",
    LOOP + LOOP + LOOP + "{% set x = 1 %}{% endfor %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(n) %}{{ m(n - 1) + m(n - 1) if n else 'x' }}{% endmacro %}{{ m(60) }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 15
    + "x" * 99
    + "{% endcall %}" * 15,
    "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "{% set n = namespace(s='x') %}" + LOOP + "{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s='x') %}" + LOOP + "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "{% set n = namespace(s='xx') %}" + LOOP + "{% set n.s = n.s.replace('x', n.s) %}{% endfor %}",
    "{% set n = namespace(s='xx') %}" + LOOP + "{% set n.s = n.s | replace('x', n.s) %}{% endfor %}",
    "{% set n = namespace(s='xx') %}" + LOOP + "{% set n.s = n.s.join(n.s) %}{% endfor %}",
    "{% set n = namespace(s='xx') %}" + LOOP + "{% set n.s = n.s | join(n.s) %}{% endfor %}",
    "{% set n = namespace(s=[1]) %}" + LOOP + "{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s=[1]) %}" + LOOP + "{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
    "{% set n = namespace(s=[1]) %}" + LOOP + "{% set n.s = {'a': n.s, 'b': n.s} %}{% endfor %}{{ n.s | tojson }}",
    "{% set n = namespace(s=2) %}" + LOOP + "{% set n.s = n.s * n.s %}{% endfor %}",
    "{% set s = 'x' * 10000000 %}{{ s | upper }}{{ s | lower }}{{ s | title }}{{ s.split('x') | length }}",
    "{% set s %}" + LOOP + "{% for b in range(99) %}xxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}{% endset %}",
    BIG + LOOP + "{{ 'y' in n.s }}{% endfor %}",
    BIG + LOOP + "{{ n.s is in n.s }}{% endfor %}",
    BIG + LOOP + "{{ n.s == n.t }}{% endfor %}",
    BIG + LOOP + "{{ n.s is eq(n.t) }}{% endfor %}",
    BIG + LOOP + "{{ n.s.find('y') }}{% endfor %}",
    BIG + LOOP + "{{ n.s.count('y') }}{% endfor %}",
    BIG + LOOP + "{{ n.s.split('y') | length }}{% endfor %}",
    BIG + LOOP + "{% set x = n.s[1:] %}{% endfor %}",
    BIG + LOOP + "{% set x = n.s.strip('y') %}{% endfor %}",
    BIG + LOOP + "{% set x = n.s | trim %}{% endfor %}",
    BIG + LOOP + "{{ n.l | max }}{% endfor %}",
    BIG + LOOP + "{{ n.l | sort | length }}{% endfor %}",
    BIG + LOOP + "{{ n.l | unique | first }}{% endfor %}",
    BIG + LOOP + "{{ n.l | select('eq', -1) | list }}{% endfor %}",
    BIG + LOOP + "{{ -1 in n.l }}{% endfor %}",
    BIG + LOOP + "{{ n.l.count(-1) }}{% endfor %}",
    BIG + LOOP + "{{ 'a' in range(99999) }}{% endfor %}",
    "{{ 1.5 | round(10 ** 9, 'ceil') }}",
    "{{ 1.5 | round(1000000000, 'ceil') }}",
    "{{ range(99999) | map('string') | map('replace', '1', 'x' * 99999) | join }}",
    "{{ [range(99999) | list] | sum(start=[]) }}",
    "{% set s = '1' * 99999 %}{{ s | int }}",
    "{{ '" + "x" * 300_000 + "' }}",
    "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "{{ " + "-" * 20_000 + "1 }}",
    "{{ " + "[" * 3_000 + "]" * 3_000 + " }}",
    "{% if a %}" * 3_000 + "{% endif %}" * 3_000,
    LOOP * 30 + "{% endfor %}" * 30,
    "{{ 1 }} {% ",
    "{{ messages | nothing }}",
    "{% while true %}{% endwhile %}",
]


@pytest.mark.parametrize("template", [*ESCAPES, *HUNGRY], ids=lambda text: ascii(text[:40]))
def test_ends_in_an_error(template: str, tmp_path: Path) -> None:
    file = tmp_path / "chat_template.jinja"
    file.write_text(template, encoding="utf-8")
    with pytest.raises(InputError, match="chat template") as caught:
        load_chat(file, TOY).render(TALK, generate=True)
    assert len(str(caught.value)) < 700


def test_a_template_sees_no_more_than_the_conversation(tmp_path: Path) -> None:
    """What it may name without an error is harmless, and its last run leaves nothing behind."""
    file = tmp_path / "chat_template.jinja"
    file.write_text("{% set n = namespace(i=0) %}{% set n.i = n.i + 1 %}{{ n.i }}{{ x is defined }}{% set x = 1 %}")
    chat = load_chat(file, TOY)
    assert [chat.text(chat.render([])) for _ in range(3)] == ["1False"] * 3


def test_a_long_conversation_is_not_a_hungry_template(tmp_path: Path) -> None:
    file = tmp_path / "chat_template.jinja"
    file.write_text(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content | trim + '<|im_end|>' }}{% endfor %}"
    )
    chat = load_chat(file, TOY)
    talk = [Message("user", "x" * 1_000_000), *[Message("user", "a")] * 1000, Message("assistant", "y" * 1_000_000)]
    assert len(chat.text(chat.render(talk))) > 2_000_000
