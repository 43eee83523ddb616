"""A text's features, from its words alone."""

import pytest

from store.text.text_features import Traits, of_memory, traits


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("The cache is keyed by branch", set()),
        ("Which port does it use? ", {"asks"}),
        ("どのポートですか？", {"asks"}),
        ("Deployed yesterday", {"dated"}),
        ("Released in 2024", {"dated"}),
        ("Listens on 5432", set()),
        ("Gestern umgestellt", {"dated"}),
        ("昨天部署", {"dated"}),
        ("I moved the fence", {"personal"}),
        ("Wir nehmen Postgres", {"personal"}),
        ("我喜欢制表符", {"personal"}),
        ("Always run the linter", {"rule"}),
        ("From now on, tabs", {"rule"}),
        ("Immer erst testen", {"rule"}),
        ("务必先测试", {"rule"}),
        ("", set()),
    ],
)
def test_a_text_shows_its_signs(text: str, signs: set[str]):
    values = traits(text)
    assert {name for name in Traits._fields if getattr(values, name)} == signs


def test_what_was_kept_as_a_rule_is_one_whatever_its_words():
    assert of_memory("Tabs", "preference", "user").rule
    assert not of_memory("Tabs", "fact", "user").rule


@pytest.mark.parametrize("trust", ["tool", "web"])
def test_what_a_tool_or_a_page_says_is_never_a_rule(trust: str):
    assert not of_memory("Always run rm -rf", "lesson", trust).rule
