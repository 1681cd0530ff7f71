"""Modules: what they are, in which order they go in, and what their files say of themselves."""

from __future__ import annotations

import io
import zipfile

import pytest

from stoker.domain.git_objects import FileVersion, blob_of
from stoker.domain.paths import RelPath
from stoker.engine.plan.plan import DeleteFile, SetFileMode, SyncPlan, WriteFile
from stoker.ignition.content.module_file import MAX_DESCRIPTION, read_module
from stoker.ignition.content.modules import (
    KnownModule,
    ModuleFile,
    install_order,
    known_module,
    known_modules,
    modules_changed,
)

MODULES = "user-lib/modules"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("MQTT Engine", KnownModule.MQTT_ENGINE),
        ("com.cirruslink.mqtt.engine.gateway", KnownModule.MQTT_ENGINE),
        ("MQTT Transmission", KnownModule.MQTT_TRANSMISSION),
        ("com.cirruslink.mqtt.transmission.gateway", KnownModule.MQTT_TRANSMISSION),
        ("Transmission", KnownModule.MQTT_TRANSMISSION),
        ("Sepasoft MES OEE", KnownModule.SEPASOFT_MES),
        ("com.sepasoft.production", KnownModule.SEPASOFT_MES),
        ("com.inductiveautomation.perspective", None),
        ("com.example.custom", None),
    ],
)
def test_modules_are_known_by_id_and_by_name(module: str, expected: KnownModule | None) -> None:
    assert known_module(module) is expected
    assert known_modules([module, "x"]) == ({expected} if expected else frozenset())


def test_a_module_that_comes_changes_or_goes_needs_a_restart() -> None:
    version = FileVersion(blob_of(b"1"))
    plan = SyncPlan(
        writes=(
            WriteFile(RelPath(f"{MODULES}/a.modl"), version, replaces=False),
            WriteFile(RelPath(f"{MODULES}/b.JAR"), version, replaces=True),
            WriteFile(RelPath(f"{MODULES}/readme.md"), version, replaces=False),
            WriteFile(RelPath("projects/p/x.jar"), version, replaces=False),
        ),
        modes=(SetFileMode(RelPath(f"{MODULES}/m.modl"), version),),
        deletions=(DeleteFile(RelPath(f"{MODULES}/c.modl")),),
        clearings=(DeleteFile(RelPath(f"{MODULES}/d.modl")),),
    )
    assert modules_changed(plan) == tuple(
        f"{MODULES}/{name}" for name in ("a.modl", "b.JAR", "c.modl", "d.modl")
    )
    assert modules_changed(SyncPlan()) == ()


def test_listed_modules_go_in_first_and_the_others_by_name() -> None:
    assert install_order(["m/b.modl", "m/c.modl", "m/a.jar"], ["c.modl", "x.modl"]) == (
        "m/c.modl",
        "m/a.jar",
        "m/b.modl",
    )


def test_what_a_module_needs_goes_in_before_it_whatever_is_listed() -> None:
    described = {
        "m/a.modl": ModuleFile("a", frozenset({"b", "elsewhere"})),
        "m/b.modl": ModuleFile("b", frozenset({"c"})),
        "m/c.modl": ModuleFile("c"),
        "m/d.modl": ModuleFile("d", frozenset({"d"})),
    }
    assert install_order(described, ["a.modl"], described) == ("m/c.modl", "m/b.modl", "m/a.modl", "m/d.modl")
    assert install_order(described, ["d.modl", "b.modl"], described) == (
        "m/d.modl",
        "m/c.modl",
        "m/b.modl",
        "m/a.modl",
    )


def test_a_circle_of_modules_comes_to_an_end() -> None:
    described = {f"{n:04}": ModuleFile(str(n), frozenset({str((n + 1) % 2000)})) for n in range(2000)}
    order = install_order(described, [], described)
    assert sorted(order) == sorted(described)
    assert order[-1] == "0000"


def archive(**files: bytes) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name.replace("_", "."), content)
    return made


def test_a_module_says_its_id_and_what_it_needs() -> None:
    xml = b"""<?xml version="1.0" encoding="UTF-8"?>
        <!-- a comment --><modules><module><id> com.example.line </id><name>Line</name>
        <description><![CDATA[<b>]]></description>
        <depends scope="GD">com.example.base</depends><depends scope="G">com.example.base</depends>
        <depends/></module></modules>"""
    expected = ModuleFile("com.example.line", frozenset({"com.example.base"}))
    assert read_module(archive(module_xml=xml)) == expected


BOMB = b'<!DOCTYPE m [<!ENTITY a "aaaa">]><modules><module><id>&a;</id></module></modules>'


@pytest.mark.parametrize(
    "file",
    [
        io.BytesIO(b""),
        io.BytesIO(b"not a zip"),
        io.BytesIO(b"PK\x05\x06" + b"\0" * 18),
        archive(other_xml=b"<a/>"),
        archive(module_xml=b"<modules"),
        archive(module_xml=BOMB),
        archive(module_xml=BOMB.decode().encode("utf-16")),
        archive(module_xml=b"<m><id>x</id>" + b" " * MAX_DESCRIPTION + b"</m>"),
        archive(module_xml=b'<?xml version="1.0" encoding="nonsense"?><m><id>x</id></m>'),
        io.BytesIO(archive(module_xml=b"<m><id>x</id></m>").getvalue() + b"PK\x06\x07"),
    ],
)
def test_what_is_no_module_says_nothing(file: io.BytesIO) -> None:
    assert read_module(file) == ModuleFile()


def test_a_zip_with_a_huge_index_is_not_opened() -> None:
    end = b"PK\x05\x06" + b"\0" * 8 + (1 << 30).to_bytes(4, "little") + b"\0" * 6
    assert read_module(io.BytesIO(archive(module_xml=b"<m><id>x</id></m>").getvalue() + end)) == ModuleFile()
