"""Fills in the fields in files of mappings with `template: true`.

The syntax is that of `stoker.engine.transform.template_language`, over a whole file. A file must be text
(UTF-8 without NUL), otherwise it is refused. A field without a value is an error that names the line. Every
byte outside an expression stays as it is, including line ends and byte order mark. `{{"{{"}}` writes two
literal braces, for files that another template engine reads later.
"""

from __future__ import annotations

from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.transform.template_language import (
    TemplateFault,
    TemplateUnresolvable,
    fill_parts,
    parse_template,
)

MAX_BYTES = 16 << 20


def fill_template(content: bytes, values: TemplateValues) -> bytes:
    """Return the content with every field replaced by its value."""
    text = _decode_text(content)
    if "{{" not in text:
        return content
    try:
        pieces = fill_parts(parse_template(text), values)
    except TemplateFault as fault:
        raise _error_at_line(text, fault) from None
    # Count before building: a short expression may repeat a long value a million times.
    if sum(map(len, pieces)) > MAX_BYTES:
        raise TemplateUnresolvable(f"would be larger than {MAX_BYTES} bytes once its fields are filled in")
    try:
        return "".join(pieces).encode()
    except UnicodeEncodeError:
        raise TemplateUnresolvable("gets a value that is not valid Unicode text") from None


def _decode_text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise TemplateUnresolvable(f"is larger than {MAX_BYTES} bytes, so no fields are filled in")
    if b"\0" in content:
        raise TemplateUnresolvable("is binary (it holds a NUL byte), so no fields can be filled in")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TemplateUnresolvable(
            f"is not UTF-8 text (byte {error.start}), so no fields can be filled in"
        ) from None


def _error_at_line(text: str, fault: TemplateFault) -> TemplateUnresolvable:
    line = text.count("\n", 0, fault.at) + 1
    return TemplateUnresolvable(f"line {line} {fault.why}")
