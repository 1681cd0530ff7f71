"""Laws of templates: what comes out was in the template or in a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import InvalidValue
from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.transform.template_language import MAX_LENGTH, Template, TemplateUnresolvable, render_path

plain = st.text(st.characters(exclude_characters="{}"), max_size=20)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
names_of_files = st.text(st.characters(exclude_characters="{}/\0"), max_size=20)
variables = st.dictionaries(words, plain, min_size=1, max_size=4)


@given(st.text("{}. Vars-|a", max_size=40), variables)
def test_any_text_renders_or_is_refused_with_a_sentence(template: str, values: dict[str, str]) -> None:
    try:
        text = render_path(template, TemplateValues(vars=values))
    except InvalidValue:
        assert "{{" in template or "}}" in template
    else:
        assert "{{" not in text
        assert "}}" not in text
        assert len(text) <= MAX_LENGTH


@given(plain)
def test_text_without_braces_stays_as_it_is(template: str) -> None:
    assert render_path(template, TemplateValues()) == template


@given(st.data(), variables)
def test_each_expression_becomes_its_value_and_nothing_else_changes(
    data: st.DataObject, values: dict[str, str]
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(values)), max_size=5))
    literals = data.draw(st.lists(plain, min_size=len(names) + 1, max_size=len(names) + 1))
    template, expected = literals[0], literals[0]
    for name, literal in zip(names, literals[1:], strict=True):
        template += f"{{{{ .Vars.{name} }}}}{literal}"
        expected += values[name] + literal
    assert Template(template).render(TemplateValues(vars=values)) == expected


@given(st.lists(names_of_files, min_size=1, max_size=5))
def test_a_path_has_every_part_that_its_template_has_or_is_refused(parts: list[str]) -> None:
    values = TemplateValues(vars={f"v{number}": part for number, part in enumerate(parts)})
    template = "/".join(f"{{{{.Vars.v{number}}}}}" for number in range(len(parts)))
    if all(parts):
        assert render_path(template, values) == "/".join(parts)
    else:
        with pytest.raises(TemplateUnresolvable):
            render_path(template, values)
