"""The command line, as a test runs it."""

from typer.testing import CliRunner

from foveal.cli import app


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def succeed(*words):
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*words):
    """Return the one line of stderr of a command that refuses its input."""
    result = invoke(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line
