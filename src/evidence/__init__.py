"""What samedevice claims, as commands that anybody can run: `python -m evidence --help` lists them.

The package belongs to a checkout and is not part of samedevice's wheel: it reads the corpus, the examples and
the programs of `repro/` beside it. An editable installation of the checkout has both packages.
"""
