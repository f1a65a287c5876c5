"""Pages of the console, judged by axe: contrast, names, roles, structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

NARROW: Final = {"width": 390, "height": 844}
_GO: Final = """to => {
    history.pushState(null, "", to);
    window.dispatchEvent(new PopStateEvent("popstate"));
}"""
_JUDGE: Final = """async ([rules, passedOver]) => {
    const some = rules.length ? { runOnly: { type: "rule", values: rules } } : {};
    const options = { ...some, resultTypes: ["violations"] };
    const found = await axe.run({ exclude: passedOver }, options);
    return found.violations.map(each => [each.impact, each.id, each.nodes.map(node => node.html)]);
}"""


class Judge:
    """Looks at a page; what is wrong is collected, to be told at once."""

    def __init__(self, page: Page, axe: str) -> None:
        self.page = page
        self.found: list[str] = []
        self._passed_over: list[str] = []
        page.evaluate(axe)

    def go(self, path: str, seen: str) -> None:
        """Open a page without loading it anew, and wait for what is on it."""
        self.page.evaluate(_GO, f"/console{path}")
        expect(self.page.locator("main").get_by_text(seen).first).to_be_visible()
        expect(self.page.get_by_role("status", name="Loading")).to_have_count(0)

    def look(self, what: str, *rules: str) -> None:
        """Apply some rules, or all of them; to the navigation only the first time."""
        for impact, rule, nodes in self.page.evaluate(_JUDGE, [rules, self._passed_over]):
            self.found.append(f"{what}: {rule} ({impact}): {nodes[:3]}")
        self._passed_over = [".sidebar"]

    def look_in_the_dark(self, what: str) -> None:
        self.page.emulate_media(color_scheme="dark")
        self.look(f"{what} in dark colours", "color-contrast")
        self.page.emulate_media(color_scheme="light")

    def finish(self) -> None:
        assert not self.found, "\n".join(self.found)
