#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cases.json: small templates, their variables, and what Jinja2 3.1 makes of them. make-cases.py > cases.json"""
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

V = {"s": "a<b> \u00e4\u00d6\u00df", "n": -7, "f": 0.1, "l": [3, 1, 2], "d": {"b": 1, "a": [True, None]}, "e": "", "z": None,
     "m": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "k": 2}], "eos_token": "</s>"}
CASES = [
    # whitespace
    "a\n  {% if 1 %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if 1 -%}\n  b\n  {%- endif -%}\nc\n", "a {%+ if 1 %} b {% endif +%}\n c",
    "  {{ n }}\n  {{- n -}}  \n x", "{# c #}\n  {# d\n #}\nx {#- e -#}\n y", "{% raw %}{{ n }}{% endraw %}\nx", " {%- raw -%} {% if %} {%- endraw -%} x",
    "a\r\n{% if 1 %}\r\nb{% endif %}\r\n", "{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}", "\n", "", "x\n\n", "{% set x = 1 %}\n\n{{ x }}",
    # literals and operators
    "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 1e22 }} {{ .5 }}",
    "{{ 'a' 'b' \"c\" }}{{ '\\x41\\u00e9\\n\\q\\\\' }}", "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
    "{{ 1 + 2 * 3 - 4 / 2 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 'a' ~ 1 ~ none }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }}",
    "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'x' in 'xyz' }} {{ 2 not in l }}",
    "{{ 1 and 0 or 'x' }} {{ not n }} {{ '' or none }} {{ 1 if false }} {{ 1 if n else 2 }} {{ none is none }} {{ n is not string }}",
    "{{ 'a%sb%03d%5.2f%r' % ('x', 7, 3.14159, 'q') }} {{ '%(a)s' % {'a': 1} }} {{ '%-5s|%5s|%x|%%' % ('ab', 'cd', 255) }}",
    "{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-2:2] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5:] }} {{ s[10:20] }}|{{ l[9] }}",
    "{{ [1, 'a', none, true, 1.0, [], {}, (), (1,), {'k': \"it's\"}] }}", "{{ {'a': 1, 2: 'b', none: [1]} }} {{ 'q\"\\'' }} {{ ['q\"\\'', \"it's\", '\\t\\x01\u00e4'] }}",
    # tojson
    "{{ d|tojson }} {{ s|tojson }} {{ [1.0, 1e20, 0.1, -0.0]|tojson }} {{ {1: 2, none: true}|tojson }}", "{{ d|tojson(indent=2) }}", "{{ d|tojson(sort_keys=true) }}",
    "{{ s|tojson(ensure_ascii=true) }} {{ '\\U0001f600\\x7f\\x01\\n/'|tojson(ensure_ascii=true) }}", "{{ d|tojson(separators=(',', ':')) }} {{ []|tojson(indent=1) }} {{ nope|tojson }}",
    "{{ '[1, {\"a\": 2.50}]'|from_json }}", "{{ l.items|tojson }}", "{{ (1, 2)|tojson }}",
    # scopes
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% if 1 %}{% set x = 2 %}{% endif %}{{ x }}", "{% for a, b in d.items() %}{{ a }}={{ b }};{% endfor %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x %}{{ n }} q {% endset %}[{{ x }}]{% set y | upper | trim %} a {% endset %}[{{ y }}]", "{% with q = 1, r = n %}{{ q }}{{ r }}{% endwith %}{{ q }}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f(b=5, a=4) }} {{ f() }}", "{% macro f() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f() }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, a=3) }}",
    "{% macro f(n=s, s=n, e=e) %}[{{ n }}{{ s }}{{ e is defined }}]{% endmacro %}{{ f() }}{{ f(1) }}{{ f(s=2) }}{{ f(e=3) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% filter upper %}a{{ n }}b{% endfilter %}", "{% set x = ns.y %}", "{% for x in l if n %}{{ [1][] }}{{ d[] is defined }}{{ q[] if q }}{% if x is not defined %}{{ (1 % not []) }}{% endif %}{% endfor %}", "{% set k = 'a<b'|safe %}{{ k.replace('<', 5) }}{{ k.replace('a', '<') }}{{ k.replace('b', true, 1) }}{{ ', '.join(['a', 'b']) }}{{ (','|safe).join([1, '<', k, none, [2, '>']]) }}{{ k.center(7, 5) }}{{ k.ljust(7, '*') }}{{ k.rjust(7) }}",
    "{{ ('a'|safe).center(7, '<') }}", "{{ ('a'|safe).replace(1, 'b') }}", "{{ 'a'.replace('a', 1) }}", "{{ ','.join([1]) }}",
    "{% set (a) = 1 %}{{ a }}{% for (x), ((y), z) in [(1, (2, 3))] %}{{ x }}{{ y }}{{ z }}{% endfor %}{% set (b,) = [4] %}{% set () = [] %}{{ b }}", "{% for x in l %}{% set l = [9] %}{{ l }}{% endfor %}{{ l }}",
    # names that a scope assigns before it reads them are undefined at its begin, within it, too
    "{% for x in l %}[{{ s }}{{ n }}]{% endfor %}{{ n }}{% set s = 1 %}{% if f %}{% set n = 2 %}{% endif %}{{ s }}{{ n }}",
    "{% macro f() %}[{{ s }}{{ n }}]{% endmacro %}{{ f() }}{% set s %}{{ s }}.{% endset %}{{ f() }}{% set n = n %}",
    "{% for x in l %}{% filter upper %}{{ s }}{{ e }}{% endfilter %}{% set s = s ~ x %}{% set e = 'e' %}{% else %}{% endfor %}{{ s }}",
    "{% for x in l %}{% for y in l %}{{ s }}{% endfor %}{% set s = x %}{% endfor %}|{% with l = n %}{% set q %}{{ l }}{% endset %}{{ q }}{% set l = 1 %}{% endwith %}",
    "{% macro f(s, b=n) %}{% for x in [1] %}{{ s }}{{ b }}{{ n }}{{ e }}{% endfor %}{% set s = 1 %}{% set n = 2 %}{% set e = 3 %}{% endmacro %}{{ f(9) }}",
    "{% for x in [] %}{% else %}{% with q = s %}{{ q }}{{ f }}{% endwith %}{% set f, n = 'xy' %}{{ f }}{{ n }}{% endfor %}{% if z %}{% set m = 1 %}{% else %}{% for x in l %}{{ m|length }}{% endfor %}{% set d = 1 %}{% endif %}{{ d }}",
    "{% for x in l %}{{ d.b }}{% endfor %}{% set d.b = 1 %}", "{% for x in [1] %}{{ range(2)|list }}{% endfor %}{% set range = 1 %}",
    "{% for x in [1] %}{% if s %}y{% endif %}{% set s = 1 %}{{ s }}{% endfor %}", "{% for x in [1] %}{% with q = s %}{{ q }}{% endwith %}{% set s = 1 %}{{ s }}{% endfor %}",
    "{% for x in [1] %}{{ s }}{% endfor %}|{% for x in [1] %}{% for y in [1] %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}{% endfor %}",
    # filters of a block see what it assigns
    "{{ s }}{% filter replace('a', s) %}a{{ s }}{% set s = 'x' %}{% endfilter %}{% set q|replace('Q', s) %}Q{{ s }}{% set s = 'y' %}{% endset %}{{ q }}{{ s }}",
    # loops
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.last }}{% else %}none{% endfor %}", "{% for x in [] %}{% else %}empty{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %}{{ range(1, 10, 3)|list }} {{ range(5) }}", "{% for k in d %}{{ k }}{% endfor %}", "{% for x in nope %}{% endfor %}ok", "{% for x in n %}{% endfor %}",
    "{% for a, b in l %}{% endfor %}", "{% for x in l %}{% continue %}{% else %}e{% endfor %}",
    # undefined
    "[{{ nope }}]{{ nope is defined }}{{ d.nope is undefined }}{{ nope|default('x') }}{{ ''|d('y', true) }}", "{{ nope.x }}", "{{ nope + 'a' }}", "{{ 'a' + z }}", "{{ d.a.b.c }}", "{{ nope() }}", "{{ z.x }}|",
    "{{ nope ~ 'a' }}{{ nope|length }}{{ nope|list }}{{ nope == nope2 }}{{ 'a' in nope }}", "{{ d['nope'] }}|{{ d.get('nope') }}|{{ d.get('nope', 3) }}", "{{ -nope }}", "{{ nope < 1 }}",
    # filters
    "{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ s|length }} {{ s|reverse }} {{ '  x '|trim }}|{{ 'xxaxx'|trim('x') }}", "{{ l|sort }} {{ l|sort(reverse=true) }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A']|sort(case_sensitive=true) }}",
    "{{ l|join(', ') }} {{ m|map(attribute='role')|join('+') }} {{ m|map(attribute='k', default=0)|list }} {{ ['a', 'b']|map('upper')|list }}", "{{ m|selectattr('k', 'defined')|list }} {{ m|selectattr('role', 'equalto', 'user')|list|length }} {{ m|rejectattr('content')|list }}",
    "{{ l|select('odd')|list }} {{ l|reject('gt', 1)|list }} {{ [0, 1, '']|select|list }}", "{{ d|dictsort }} {{ d|items|list }} {{ l|first }} {{ l|last }} {{ []|first }}|{{ l|min }} {{ l|max }} {{ l|sum }} {{ ['a', 'A', 'b']|unique|list }}",
    "{{ 'a b'|replace('a', 'x') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'abc'|replace('', '-') }}", "{{ '42'|int }} {{ 'x'|int(5) }} {{ '1.9'|int }} {{ 'ff'|int(0, 16) }} {{ '1.5'|float }} {{ 2.567|round(2) }} {{ 2.5|round }} {{ 2.1|round(0, 'ceil') }} {{ -3|abs }}",
    "{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent('> ', blank=true) }}", "{{ '<a>'|safe + '<b>' }} {{ '<a>'|e }} {{ '<' ~ '<a>'|safe }} {{ ('<'|safe) + ('&'|safe) }}",
    "{{ l|batch(2)|list }} {{ l|batch(2, 0)|list }} {{ l|slice(2)|list }} {{ m|groupby('role') }}", "{{ 'one two three'|truncate(9) }} {{ 'one two three'|truncate(9, true) }} {{ 'a'|truncate(1e20) }}{{ 'a'|truncate(9.5, leeway=0.5) }} {{ 'abc'|center(9) }}| {{ 'a b_c d'|wordcount }} {{ 'a b/\u00e4'|urlencode }}",
    "{{ '' % [1] }}{{ '' % range(2) }}|", "{{ '' % l|reverse }}", "{{ '' % d.keys() }}", "{{ '' % d.items() }}", "{{ '' % (1,) }}", "{{ ('a' * 20)|truncate(9.5) }}", "{{ 'a'|truncate(2.5) }}", "{{ 'a'|truncate(9223372036854775807) }}", "{{ '\\x4\x11' }}", "{{ l|nope }}", "{{ l is nope }}", "{% if false %}{{ l|nope }}{% endif %}ok", "{{ '%s-%s'|format(1, 'a') }} {{ 'a'|attr('upper') is callable }}", "{{ l|length() }}{{ l|count }}{{ n|string + 'x' }}",
    # methods
    "{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'ab'.split('') }}", "{{ 'xxaxx'.strip('x') }} {{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}| {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}",
    "{{ 'abc'.find('c') }} {{ 'abc'.find('x') }} {{ 'abab'.count('ab') }} {{ 'a-b'.partition('-') }} {{ 'a\nb'.splitlines() }} {{ '-'.join(['a', 'b']) }} {{ 'ab'.replace('a', 'c') }}", "{{ 'abc'.removeprefix('a') }} {{ '7'.zfill(3) }} {{ 'a'.ljust(3) }}| {{ 'ab'.center(5, '*') }} {{ 'x1 y'.title() }} {{ 'aB'.swapcase() }}",
    "{{ '<x{}>'.format(':y') }} {{ '{{{}}} {}'.format(n, l) }} {{ '{1}{0!r}{1!s}'.format('a', f) }} {{ '{k:}{j}'.format(k=z, j=zz) }}",
    "{{ ('{}&' | safe).format(s) }} {{ '{}'.format(true) }} {{ ''.format(1) }}",
    "{{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'aB'.islower() }} {{ 'AB'.isupper() }}", "{% set x = [1] %}{{ x.append(2) }}{{ x }} {{ x.pop() }} {{ x }} {% set y = {'a': 1} %}{% if y.update({'b': 2}) %}{% endif %}{{ y }} {{ y.pop('a') }} {{ y.keys()|list }} {{ y.values() }}",
    "{{ 'abc'.nope }}|{{ 'abc'.nope() }}", "{{ '\u03a3\u03a3'.lower() }} {{ '\ufb01\u00df'.upper() }} {{ '\u01c6'.title() }} {{ '\u0130'.lower()|length }}", "{{ m[0].role }} {{ m[-1]['role'] }} {{ m[0]['nope'].x }}", "{{ d.items }}x" if False else "{{ l.0 }}{{ m.0.role }}",
    # tests
    "{{ s is string }}{{ n is number }}{{ n is integer }}{{ f is float }}{{ d is mapping }}{{ l is sequence }}{{ s is iterable }}{{ n is iterable }}{{ true is boolean }}{{ 1 is true }}{{ z is none }}{{ 4 is even }}{{ 6 is divisibleby 3 }}",
    "{{ 'a' is in ['a'] }}{{ 2 is eq 2 }}{{ 2 is sameas 2 }}{{ 'a' is lower }}{{ 'A' is upper }}{{ 'upper' is filter }}{{ 'even' is test }}{{ range is callable }}{{ 3 is gt 2 }}{{ n is not none and n is defined }}",
    # errors
    "{{ raise_exception('No ' + m[0].role + '!') }}", "{% if %}", "{% endif %}", "{{ 1", "{{ (1 }}", "{% for x in %}{% endfor %}", "{% nope %}", "{{ 'a }}", "{{ 1 / 0 }}", "{{ l[1:'a'] }}", "{% set true = 1 %}", "{# x", "{% raw %}x", "{{ [1][::0] }}", "{{ {[]: 1} }}", "{{ x is defined is none }}",
    "{{ 2.5|round(none) }} {{ -0.4|round(none) }} {{ 7|round(none) }} {{ range(5, 0, -2).count(3) }} {{ range(4).index(2) }} {{ 'a' in {'a': 1}.keys() }}",
    "{{ 'inf'|float|round(none) }}", "{{ [1] in {}.keys() }}", "{{ {}.items().count(1) }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %j %%') }}", "{{ dict(a=1, b=2) }} {{ namespace(a=1).a }} {{ dict([('x', 1)]) }}", "{% generation %}x{% endgeneration %}" if False else "{% print 1, 2 %}",
]


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/text"))
    environment = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    environment.filters["tojson"] = tojson
    environment.filters["from_json"] = json.loads
    environment.globals.update(raise_exception=raise_exception, strftime_now=lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f))
    cases = []
    for source in CASES:
        case = {"template": source}
        try:
            case["text"] = environment.from_string(source).render(**json.loads(json.dumps(V)))
        except jinja2.exceptions.TemplateError as error:
            case["error"] = error.message if type(error) is jinja2.exceptions.TemplateError else ""
        except Exception:
            case["error"] = ""
        cases.append(case)
    json.dump({"variables": V, "cases": cases}, sys.stdout, ensure_ascii=True, indent=0)
    print()


main()
