"""Documents are read and compared as transcript.py says."""

import unittest

import transcript

DOCUMENT = """
Some prose with `ferryctl --help` and `two
words`.

```sh
# A comment.
first
second --with \\
  more
```

```console
$ third \\
    continued
one line

$ fourth
```

```text
$ no command
```
"""


class TranscriptTest(unittest.TestCase):

    def test_finds_commands_in_order(self):
        commands = transcript.commands(DOCUMENT)
        self.assertEqual(
            [(command.text, command.line, command.output)
             for command in commands],
            [("first", 7, None),
             ("second --with \\\n  more", 8, None),
             ("third \\\n    continued", 13, "one line\n\n"),
             ("fourth", 17, "")])

    def test_knows_the_language_of_blocks(self):
        self.assertEqual(
            [block.language for block in transcript.blocks(DOCUMENT)],
            ["sh", "console", "text"])
        with self.assertRaisesRegex(ValueError, "line 2"):
            transcript.blocks("\n```sh\nforever\n")

    def test_output_needs_a_command(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            transcript.commands("```console\nhello\n```\n")

    def test_finds_code_in_prose(self):
        self.assertEqual(transcript.inline_code(DOCUMENT),
                         ["ferryctl --help", "two words"])

    def test_compares_every_character(self):
        self.assertTrue(transcript.matches("a.b\n", "a.b\n"))
        for printed in ("axb\n", "a.b", "a.b\nmore\n", "", "a.b \n"):
            self.assertFalse(transcript.matches("a.b\n", printed), printed)
        self.assertTrue(transcript.matches("", ""))
        self.assertFalse(transcript.matches("", "anything\n"))

    def test_dots_stand_for_text_or_lines(self):
        self.assertTrue(transcript.matches("size: …,\n", "size: 17,\n"))
        self.assertFalse(transcript.matches("size: …,\n", "size: 17\n,\n"))
        for printed in ("a\nz\n", "a\nb\nc\nz\n"):
            self.assertTrue(transcript.matches("a\n  …\nz\n", printed))
        self.assertFalse(transcript.matches("a\n…\nz\n", "b\na\nz\n"))
        self.assertTrue(transcript.matches("a\n…\n", "a\n"))

    def test_names_and_times_may_differ(self):
        shown = '"name": "jobs/0123456789abcdef0123456789abcdef", "eta": "1s"\n'
        self.assertTrue(transcript.matches(
            shown,
            '"name": "jobs/ffffffffffffffffffffffffffffffff", "eta": "0.5s"\n'))
        self.assertFalse(transcript.matches(
            shown, '"name": "jobs/tooshort", "eta": "0.5s"\n'))


if __name__ == "__main__":
    unittest.main()
