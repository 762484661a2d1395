"""Messages of results, for comparisons of runs with and without a store."""

import re


def about_the_end(result):
    """The message without the sentence about what came from the store."""
    return re.sub(r" ?(All|\d+ of) \d+ evaluations came from the store\.", "", result.message)
