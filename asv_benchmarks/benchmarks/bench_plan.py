"""Planning: what will be computed, from a height and a width alone."""

import itertools

from .common import MODELS

SIDE = range(200, 4000, 7)


class Plan:
    """``time_new_size`` asks for a size that has not been asked for before, until it has been through all of them."""

    params = MODELS
    param_names = ("model",)

    def setup(self, model):
        import foveal

        self.plan = foveal.Preprocessor.from_spec(model).plan
        self.plan(1080, 1920)
        self.sizes = itertools.cycle((height, SIDE[-1] + width) for height in SIDE for width in SIDE)

    def time_known_size(self, model):
        self.plan(1080, 1920)

    def time_new_size(self, model):
        self.plan(*next(self.sizes))


class Load:
    """Reading a spec into a preprocessor."""

    params = MODELS
    param_names = ("model",)

    def setup(self, model):
        import foveal

        self.load = foveal.Preprocessor.from_spec

    def time_from_spec(self, model):
        self.load(model)
