"""Names out of certificates' subjects and claims, by Kafka's rules."""

from __future__ import annotations

import pytest

from goqueue.access.name_rules import distinguished_name, map_name, parse_rules, split_rules

DN = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DN),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/U, DEFAULT", "DUKE@SERVICEUSERS"),
        (r"RULE:^CN=(.*?),OU=Admins.*$/$1/, DEFAULT", DN),
        (r"RULE:^CN=(.*?),OU=Admins.*$/$1/", None),
        (r"RULE:^CN=nobody$/$1/,RULE:.*O=(.*?),.*/org-$1/", "org-Org"),
        (r"RULE:.*/$1/", None),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules, name) -> None:
    assert map_name(parse_rules(split_rules(rules)), DN) == name


@pytest.mark.parametrize("text", ["RULE:", "RULE:a/b", "nonsense", "RULE:(/x/", "DEFAULT DEFAULT"])
def test_what_is_no_rule_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_rules(split_rules(text))


def test_a_subject_is_written_as_java_writes_it() -> None:
    subject = (
        (("countryName", "US"),),
        (("organizationName", "A, Inc."),),
        (("organizationalUnitName", "#1"), ("userId", "7")),
        (("commonName", "Duke "),),
    )
    assert distinguished_name(subject) == r"CN=Duke\ ,OU=\#1+UID=7,O=A\, Inc.,C=US"
