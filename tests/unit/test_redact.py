"""The redactor: what it hides, what it leaves, and that JSON stays JSON."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop.core.codec import to_json
from chartloop.run.redact import Redactor

HEX = "4f9d0c7be2a148569d3e"
ALNUM = "Zx81mKq04vTbN62pLrYd9sWc"


class Credential(NamedTuple):
    id: str
    text: str
    left: str


CREDENTIALS = [
    Credential("openai", f"use sk-{ALNUM}{ALNUM} now", "use «redacted:openai-key» now"),
    Credential("openai-project", f"sk-proj-{ALNUM}-{HEX}_x", "«redacted:openai-key»"),
    Credential("openai-letters-only", "sk-" + "abcdefghij" * 3, "«redacted:openai-key»"),
    Credential("anthropic", f"sk-ant-api03-{ALNUM}-{ALNUM}", "«redacted:anthropic-key»"),
    Credential("aws", "AKIA" + "IOSFODNN7EXAMPLE", "«redacted:aws-key»"),
    Credential("aws-session", "id=ASIA" + "IOSFODNN7EXAMPLE;", "id=«redacted:aws-key»;"),
    Credential("github", f"ghp_{ALNUM}{HEX}", "«redacted:github-token»"),
    Credential("github-app", f"(ghs_{ALNUM}{HEX})", "(«redacted:github-token»)"),
    Credential("github-fine", f"github_pat_{ALNUM}_{HEX}", "«redacted:github-token»"),
    Credential("slack", "xoxb-" + "2134567890-abcDEF", "«redacted:slack-token»"),
    Credential("google", "AIza" + ALNUM + "abcdefghijk", "«redacted:google-key»"),
    Credential("bearer", f"Authorization: Bearer {HEX}", "Authorization: Bearer «redacted:bearer-token»"),
    Credential("jwt", f"eyJ{ALNUM}.eyJ{ALNUM}.{ALNUM}", "«redacted:jwt»"),
    Credential("gitlab", f"use glpat-{ALNUM}!", "use «redacted:gitlab-token»!"),
    Credential("basic", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic «redacted:basic-password»"),
    Credential("basic-in-json", '{"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}', '{"Authorization": "Basic «redacted:basic-password»"}'),
    Credential("url-key", "https://x.io/a?b=c&api_key=correct-horse&d=e#f", "https://x.io/a?b=c&api_key=«redacted:url-key»&d=e#f"),
    Credential("url-key-in-capitals", f"/cb?ACCESS_TOKEN={HEX}", "/cb?ACCESS_TOKEN=«redacted:url-key»"),
    Credential("url", "postgres://me:s3cr3t@db:5432/x", "postgres://«redacted:url-password»@db:5432/x"),
    Credential("url-at-in-password", "http://me:p@ss@db/x", "http://«redacted:url-password»@db/x"),
    Credential(
        "private-key",
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc+/=\n-----END RSA PRIVATE KEY-----\nb",
        "a\n«redacted:private-key»\nb",
    ),
    Credential("private-key-cut", "x -----BEGIN PRIVATE KEY-----\nMIIEvQ", "x «redacted:private-key»"),
    Credential("two", f"sk-{ALNUM} and ghp_{ALNUM}", "«redacted:openai-key» and «redacted:github-token»"),
    Credential("after-an-escape", rf"\nsk-{ALNUM}", r"\n«redacted:openai-key»"),
]  # fmt: skip

HARMLESS = [
    "task-550e8400-e29b-41d4-a716-446655440000",
    "a risk-based-approach-with-10-steps",
    "sk-learn",
    "see https://example.com:8080/a?b=c@d",
    "http://localhost:8080?mail=a@b.c",
    "mailto:me@example.com",
    "the bearer of this letter",
    "Authorization: Basic or Bearer",
    "a Basic understanding of authorization",
    "https://example.com/?q=token&key=7&page=12345678",
    "a glpat-form",
    "Bearer authentication/authorization",
    "eyJ alone",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "AKIAIOSFODNN",
    "total_tokens max_tokens key token",
]


@pytest.mark.parametrize("case", CREDENTIALS, ids=lambda case: case.id)
def test_a_credential_is_hidden_in_text_and_in_json(case: Credential) -> None:
    redactor = Redactor(environ={})
    assert redactor.text(case.text) == case.left
    # in JSON, and in JSON inside a string of JSON, as the arguments of a tool call are
    assert json.loads(redactor.json(to_json({"result": [case.text]}))) == {"result": [case.left]}
    nested = json.loads(redactor.json(to_json({"arguments": to_json({"q": case.text})})))
    assert json.loads(nested["arguments"]) == {"q": case.left}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_similar_is_left(text: str) -> None:
    redactor = Redactor(environ={})
    assert redactor.text(text) == text
    given = to_json({"result": text})
    assert redactor.json(given) == given


class Entry(NamedTuple):
    id: str
    name: str
    value: Any
    hidden: bool


ENTRIES = [
    Entry("api-key", "api_key", "correct-horse", True),
    Entry("camel", "accessToken", "correct-horse", True),
    Entry("header", "X-Api-Key", "correct-horse", True),
    Entry("password", "password", "correct-horse", True),
    Entry("plural", "secrets", "correct-horse", True),
    Entry("numbered", "api_key_2", "correct-horse", True),
    Entry("capitals-anywhere", "OPENAI_API_KEY_FILE_TEXT", "correct-horse", True),
    Entry("fact", "vars.db_password", "correct-horse", True),
    Entry("unicode", "token", "пароль-и-ключ", True),
    Entry("quotes", "token", 'a"b\\c"d\n"e', True),
    Entry("short", "api_key", "1234567", False),
    Entry("number", "max_token", 123456789, False),
    Entry("amount", "total_tokens", "100000000", False),
    Entry("amount-capitals", "MAX_TOKENS", "100000000", False),
    Entry("key-of-a-mapping", "key", "run-1/7/call", False),
    Entry("keys", "keys", "alpha, beta", False),
    Entry("findings", "key_findings", "sales rose by a third", False),
    Entry("keywords", "keywords", "agents, machines", False),
    Entry("tokenizer", "tokenizer", "cl100k_base", False),
    Entry("none", "secret", None, False),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_the_name_of_an_entry_says_whether_it_is_secret(entry: Entry) -> None:
    redactor = Redactor(environ={})
    expected = f"«redacted:{entry.name}»" if entry.hidden else entry.value
    given = {"data": {entry.name: entry.value}, "result": [{"deep": {entry.name: entry.value}}]}
    assert json.loads(redactor.json(to_json(given))) == {
        "data": {entry.name: expected},
        "result": [{"deep": {entry.name: expected}}],
    }
    # a tool call's arguments are JSON inside a string, here with spaces and escapes
    arguments = json.dumps({"outer": {entry.name: entry.value}}, indent=1)
    cleaned = json.loads(redactor.json(to_json({"outcome": {"result": arguments}})))
    assert json.loads(cleaned["outcome"]["result"]) == {"outer": {entry.name: expected}}


def test_everything_below_a_secret_name_is_hidden() -> None:
    given = {"data": {"secrets": {"db": "correct-horse", "list": ["battery-staple", 7, "short"]}}}
    assert json.loads(Redactor(environ={}).json(to_json(given))) == {
        "data": {
            "secrets": {"db": "«redacted:secrets»", "list": ["«redacted:secrets»", 7, "short"]}
        }
    }


VALUES = ["correct-horse", 'quo"te\\slash', "line\nbreak\ttab", "пароль-и-ключ", "/etc/ssl/key", "\ud800-lone-one"]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_the_value_of_a_secret_variable_is_hidden_wherever_it_stands(value: str) -> None:
    redactor = Redactor(environ={"SERVICE_PASSWORD": value, "HOME": "/srv/somebody"})
    mark = "«redacted:SERVICE_PASSWORD»"
    assert redactor.text(f"login with {value}.") == f"login with {mark}."
    for encode in (to_json, json.dumps):  # the inner text may escape what is not ASCII
        given = {"outcome": {"result": f"<{value}>", "reply": {"text": encode({"p": [value]})}}}
        cleaned = json.loads(redactor.json(to_json(given)))["outcome"]
        assert cleaned["result"] == f"<{mark}>"
        assert json.loads(cleaned["reply"]["text"]) == {"p": [mark]}


def test_what_is_hidden_keeps_its_first_name() -> None:
    redactor = Redactor(["redacted"], environ={})
    once = redactor.json(to_json({"data": {"api_key": f"sk-{ALNUM}", "x": "a redacted one"}}))
    assert json.loads(once) == {
        "data": {"api_key": "«redacted:openai-key»", "x": "a «redacted:value» one"}
    }
    assert redactor.json(once) == once


def test_values_can_be_given_with_and_without_names() -> None:
    assert Redactor(["correct-horse"], environ={}).text("a correct-horse") == "a «redacted:value»"
    named = Redactor({"SEARCH": "correct-horse"}, environ={})
    assert named.text("a correct-horse") == "a «redacted:SEARCH»"


def test_a_value_that_begins_with_another_is_hidden_whole() -> None:
    redactor = Redactor({"A": "correct-horse", "B": "correct-horse-battery"}, environ={})
    assert redactor.text("correct-horse-battery correct-horse") == "«redacted:B» «redacted:A»"


def test_short_values_and_variables_with_plain_names_are_left() -> None:
    redactor = Redactor({"A": "1234567"}, environ={"HOME": "/srv/somebody", "MY_KEY": "enabled"})
    text = "/srv/somebody is enabled 1234567"
    assert redactor.text(text) == text


def test_the_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARTLOOP_TEST_TOKEN", "correct-horse")
    assert Redactor().text("a correct-horse") == "a «redacted:CHARTLOOP_TEST_TOKEN»"


def test_other_words_may_make_a_name_secret() -> None:
    redactor = Redactor(names=["pin"], environ={"CARD_PIN": "12345678", "A_TOKEN": "correct-horse"})
    given = {"data": {"card_pin": "87654321", "token": "correct-horse", "text": "12345678"}}
    assert json.loads(redactor.json(to_json(given))) == {
        "data": {
            "card_pin": "«redacted:card_pin»",
            "token": "correct-horse",
            "text": "«redacted:CARD_PIN»",
        }
    }


def test_words_that_a_replay_needs_are_left_even_when_they_equal_a_secret() -> None:
    word = "finished"
    record = {
        "kind": "step", "state": word, "event": word, "taken": [word], "next": word, "status": word,
        "outcome": {
            "error": {"category": word, "state": word, "kind": word, "message": f"at {word}"},
            "reply": {"finish_reason": word, "tool_calls": [{"id": word, "name": word, "arguments": word}]},
            "messages": [{"role": word, "tool_call_id": word, "content": word}],
        },
        "signals": [{"reason": word, "source": word, "message": word, "context": {"vars.x": word}}],
        "data": {"state": word},
    }  # fmt: skip
    mark = "«redacted:A_SECRET»"
    cleaned = json.loads(Redactor(environ={"A_SECRET": word}).json(to_json(record)))
    for name in ("kind", "state", "event", "taken", "next", "status"):
        assert cleaned[name] == record[name]
    assert cleaned["outcome"] == {
        "error": {"category": word, "state": word, "kind": word, "message": f"at {mark}"},
        "reply": {"finish_reason": word, "tool_calls": [{"id": word, "name": word, "arguments": mark}]},
        "messages": [{"role": word, "tool_call_id": word, "content": mark}],
    }  # fmt: skip
    assert cleaned["signals"] == [
        {"reason": word, "source": word, "message": mark, "context": {"vars.x": mark}}
    ]
    assert cleaned["data"] == {"state": mark}


def test_the_key_of_an_intent_is_left() -> None:
    intent = to_json({"key": "run-1/7/call_abc", "state": "think", "action": "infer"})
    assert Redactor(environ={}).json(intent) == intent


HOSTILE = [
    "sk-" * 200_000, "eyJ" * 200_000, "eyJaaaaaaaa." * 50_000, "-----BEGIN PRIVATE KEY-----" * 20_000,
    "://a:" * 100_000, "://" + ":a" * 200_000, "bearer " * 80_000, "Bearer " + "a/" * 200_000,
    '"api_key' * 80_000, 'key"' + " " * 400_000, "key" + "\\" * 400_000, "[" * 400_000, '{"key":' * 60_000,
]  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_takes_linear_time(text: str) -> None:
    redactor = Redactor(environ={"A_KEY": "correct-horse"})
    redactor.text(text)
    given = {"result": text, "arguments": to_json({"api_key": "correct-horse", "t": text})}
    assert "correct-horse" not in redactor.json(to_json(given))
