"""The long profile, and how many inputs each entry was tried with."""

from fuzz.trying import TRIED


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--hypothesis-profile") == "long":
        terminalreporter.section("inputs tried")
        for entry, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>8,}  {entry}")
        terminalreporter.write_line(f"{sum(TRIED.values()):>8,}  in all")
