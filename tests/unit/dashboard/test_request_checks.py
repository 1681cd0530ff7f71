"""Checks of a request before its body is read."""

from __future__ import annotations

import pytest

from stoker.dashboard.interfaces import ActionRefused
from stoker.dashboard.request_checks import (
    bearer_token,
    check_csrf,
    check_host,
    check_json,
    check_query,
    check_source,
    cookie_name,
    host_name,
)

OURS = frozenset({"plant.example.net"})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8090",
        "127.0.0.1:8090",
        "[::1]:8090",
        "10.0.0.7",
        "a.localhost:1",
        "plant.example.net:99",
    ],
)
def test_addresses_localhost_and_given_names_are_ours(host: str) -> None:
    check_host(host, OURS)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8090",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "xlocalhost",
        "plant.example.net.evil.example",
        "127.0.0.1:8090:1",
        "evil.example@127.0.0.1",
        "0x7f.1",
    ],
)
def test_other_names_that_lead_here_are_refused(host: str) -> None:
    with pytest.raises(ActionRefused) as refused:
        check_host(host, OURS)
    assert refused.value.status == 421


def test_a_cluster_knows_no_names() -> None:
    check_host("whatever.example", None)


@pytest.mark.parametrize(
    ("headers", "changes", "fine"),
    [
        ({}, True, True),
        ({"Origin": "http://here:1", "Host": "here:1"}, True, True),
        ({"Origin": "https://HERE:1", "Host": "here:1"}, True, True),
        ({"Origin": "http://here:1", "Host": "here:1", "Sec-Fetch-Site": "same-origin"}, True, True),
        ({"Origin": "https://here", "Host": "here:443"}, True, True),
        ({"Origin": "http://here", "Host": "here:443"}, True, False),
        ({"Origin": "ftp://here", "Host": "here"}, True, False),
        ({"Origin": "here", "Host": "here"}, True, False),
        ({"Sec-Fetch-Site": "none"}, False, True),
        ({"Sec-Fetch-Site": "none"}, True, False),
        ({"Sec-Fetch-Site": "cross-site"}, False, False),
        ({"Sec-Fetch-Site": "same-site"}, True, False),
        ({"Origin": "null", "Host": "here:1"}, True, False),
        ({"Origin": "", "Host": ""}, True, False),
        ({"Origin": "http://evil.example", "Host": "here:1"}, True, False),
        ({"Origin": "http://here:1.evil.example", "Host": "here:1"}, True, False),
        ({"Origin": "http://here:2", "Host": "here:1"}, True, False),
        ({"Origin": "http://evil.example", "Host": "here:1", "Sec-Fetch-Site": "same-origin"}, True, False),
    ],
)
def test_only_our_own_page_asks(headers: dict[str, str], changes: bool, fine: bool) -> None:
    if fine:
        check_source(headers, changes=changes)
        return
    with pytest.raises(ActionRefused) as refused:
        check_source(headers, changes=changes)
    assert refused.value.status == 403


@pytest.mark.parametrize("offered", ["", "wrong", "righ", "right ", "rïght"])
def test_a_wrong_csrf_token_is_refused(offered: str) -> None:
    with pytest.raises(ActionRefused):
        check_csrf({"X-Stoker-CSRF": offered}, "right")
    check_csrf({"X-Stoker-CSRF": "right"}, "right")


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_form_of_another_page_is_no_json(kind: str) -> None:
    with pytest.raises(ActionRefused) as refused:
        check_json({"Content-Type": kind})
    assert refused.value.status == 415
    check_json({"Content-Type": "application/json; charset=utf-8"})


@pytest.mark.parametrize("coding", ["gzip", "br", "GZIP", "gzip, identity", ""])
def test_a_body_that_unpacks_to_more_than_it_is_is_not_taken(coding: str) -> None:
    with pytest.raises(ActionRefused) as refused:
        check_json({"Content-Type": "application/json", "Content-Encoding": coding})
    assert refused.value.status == 415
    check_json({"Content-Type": "application/json", "Content-Encoding": "Identity"})


def test_no_query_parameters_are_accepted() -> None:
    for path, query in (
        ("/", "token=x"),
        ("/", "Access_TOKEN=x"),
        ("/api/picture", "a=b"),
        ("/static/a.js", "token"),
    ):
        with pytest.raises(ActionRefused):
            check_query(path, query)
    check_query("/", "from=mail")
    check_query("/api/picture", "")


def test_the_name_in_a_host_header() -> None:
    assert host_name("[FE80::1]:80") == "fe80::1"
    assert host_name("Here:80") == "here"
    assert host_name("here") == "here"


def test_a_bearer_token_is_taken_from_its_header_alone() -> None:
    assert bearer_token({"Authorization": "Bearer  abc "}) == "abc"
    assert bearer_token({"Authorization": "Basic abc"}) == ""
    assert bearer_token({}) == ""


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:8090", "stoker-8090"),
        ("plant.example.net", "stoker"),
        ("[::1]:9000", "stoker-9000"),
        ("[::1]", "stoker"),
        ("", "stoker"),
        ("x:1;a=b", "stoker"),
        ("x:123456", "stoker"),
        ("x:\u0663", "stoker"),
        ("8090", "stoker"),
    ],
)
def test_a_cookie_is_named_by_the_port_that_the_browser_knows(host: str, name: str) -> None:
    assert cookie_name(host, secure=False) == name
    assert cookie_name(host, secure=True) == f"__Host-{name}"
