"""Drop-in for Keras users who train through a parallel wrapper (multi_gpu_model, make_parallel, tf.distribute, ...).

    from pgfit.keras import ParallelModelCheckpoint
    parallel_model.fit(x, y, callbacks=[ParallelModelCheckpoint(model, "ckpt/{epoch:02d}.keras", monitor="val_loss")])

The files hold `model`, the one-device model inside the wrapper, and the optimizer state with which the wrapper trains
it, so that `load_model(...).fit(...)` on one device continues where the wrapper stopped. `load_shards` and `load_weights`
read what pgsplit and pgfit write where one file is not enough.

Works over the public interfaces of Keras 2 (also as tf.keras and tf_keras) and Keras 3, and imports none of them: it
uses the Keras that the given model comes from.
"""
import copy
import os
import warnings

from ._models import keras_of
from .shards import ShardError, load_shards, load_weights

__all__ = ["ParallelModelCheckpoint", "ShardError", "load_shards", "load_weights"]

_FILES = (".keras", ".h5", ".hdf5")  # one file each: written beside its place, then renamed


class ParallelModelCheckpoint:
    """A keras.callbacks.ModelCheckpoint that saves another model than the one it is attached to.

    Args:
        model: the one-device model (the "template") that the wrapper calls once per device.
        filepath, monitor, ...: as for ModelCheckpoint of the Keras that `model` comes from.
        custom_objects: by keyword; names of your own metrics, if Keras does not know them (a warning says so).

    Attach it to the wrapper's fit. It is a ModelCheckpoint of that Keras, so names, `monitor`, `mode`,
    `save_best_only`, `save_weights_only`, `save_freq`, `verbose` and `initial_value_threshold` mean what they
    mean there. Neither model is changed. Full models are compiled as the wrapper is, its losses and metrics under
    the names of the template's outputs. An earlier file of the same name is replaced only by a whole new one.

    With the wrapper of `multi_gpu_model(..., cpu_relocation=True)` the trained model is a copy that Keras made:
    pass that one, `parallel_model.get_layer(model.name)`.
    """

    def __new__(cls, model=None, *args, **kwargs):
        base = object if model is None else keras_of(model).callbacks.ModelCheckpoint  # no model: a copy is made
        if not issubclass(cls, base):  # not yet mixed with a Keras
            cls = type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__doc__": cls.__doc__})
        return super().__new__(cls)

    def __init__(self, model, filepath, *args, **kwargs):
        self.template = model
        self.custom_objects = dict(kwargs.pop("custom_objects", None) or {})
        super().__init__(filepath, *args, **kwargs)

    def __deepcopy__(self, memo):
        memo[id(self.template)] = self.template  # the copy saves the same model
        other = type(self).__new__(type(self))
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def set_model(self, model):
        """Called by fit: `model` is the wrapper. The model that the callback gets saves the template."""
        super().set_model(_StandIn(model, self.template, self.custom_objects))


class _StandIn:
    """Behaves like the wrapper, but saves and loads the template."""

    def __init__(self, wrapper, template, custom_objects):
        values = {"_wrapper": wrapper, "_template": template, "_custom": custom_objects, "_copy": None}
        self.__dict__.update(values)
        if getattr(wrapper, "built", False):
            _check_inside(wrapper, template)

    def __getattr__(self, name):
        return getattr(self.__dict__["_wrapper"], name)

    def __setattr__(self, name, value):
        setattr(self._wrapper, name, value)

    def load_weights(self, *args, **kwargs):
        return self._template.load_weights(*args, **kwargs)

    def save_weights(self, filepath, *args, **kwargs):
        _check_inside(self._wrapper, self._template)
        _write(filepath, lambda path: self._template.save_weights(path, *args, **kwargs))

    def save(self, filepath, *args, **kwargs):
        _check_inside(self._wrapper, self._template)
        if self._copy is None:
            self.__dict__["_copy"] = _Compiled(self._wrapper, self._template, self._custom)
            _warn_of_fresh_starts(self._template, self._wrapper.optimizer, os.fspath(filepath))
        model = self._copy.up_to_date()
        _write(filepath, lambda path: model.save(path, *args, **kwargs))


def _check_inside(wrapper, template):
    """Refuses a template that this wrapper does not train: its file would never change."""
    inside = {id(v) for v in wrapper.weights}
    missing = [v for v in template.weights if id(v) not in inside]
    if missing:
        raise ValueError(
            "ParallelModelCheckpoint: %d of %d weights of model \"%s\" are not in the model that is trained, \"%s\"; pass "
            "the model that the wrapper calls (after multi_gpu_model(..., cpu_relocation=True) that is "
            "parallel_model.get_layer(\"%s\"))" % (len(missing), len(template.weights), template.name, wrapper.name,
                                                   template.name))


def _write(filepath, save):
    """Calls save(path) so that a file appears whole or not at all. Leaves folders and URLs to Keras."""
    path = os.fspath(filepath)
    if not path.endswith(_FILES) or "://" in path or os.path.isdir(path):
        save(path)
        return
    path = os.path.realpath(path)  # keep links
    temp = os.path.join(os.path.dirname(path), ".part-%d-%s" % (os.getpid(), os.path.basename(path)))
    try:
        save(temp)
        with open(temp, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(temp, path)
    except BaseException:
        if os.path.exists(temp):
            os.remove(temp)
        raise


def _warn_of_fresh_starts(template, optimizer, path):
    """Warns because Keras 2 writes optimizer state that it does not read again, without saying so."""
    keras = keras_of(template)
    old = getattr(getattr(keras.optimizers, "legacy", None), "Optimizer", None)
    if int(keras.__version__.split(".")[0]) >= 3 or path.endswith((".h5", ".hdf5")):
        return
    if not path.endswith(".keras") or (old is not None and isinstance(optimizer, old)):
        warnings.warn("ParallelModelCheckpoint: %s: Keras %s does not restore the state of this optimizer from such a file and "
                      "would start it afresh; a name that ends in .h5 keeps it" % (path, keras.__version__))


class _Compiled:
    """A model that shares the template's layers and is compiled as the wrapper is, so that saving it saves the
    template with the wrapper's optimizer. The template itself stays as its owner compiled it, or did not."""

    def __init__(self, wrapper, template, custom_objects):
        self.template, self.cloned = template, False
        keras = keras_of(template)
        self.model = template if wrapper is template else self._same_layers(keras)
        if self.model is template:
            return
        config = _compile_config(wrapper, template)
        optimizer = _optimizer(wrapper, template)
        if int(keras.__version__.split(".")[0]) >= 3:
            self.model.compile(optimizer=optimizer)
            if config:  # what is written is the wrapper's own description, so nothing need be made from it
                self.model.get_compile_config = lambda: config
        else:
            self.model.compile(optimizer=optimizer, **_compile_args(keras, wrapper, template, config, custom_objects))

    def up_to_date(self):
        """The model to save, with the present weights."""
        if self.cloned:
            self.model.set_weights(self.template.get_weights())
        return self.model

    def _same_layers(self, keras):
        t = self.template
        if type(t) is keras.Sequential:
            return keras.models.clone_model(t, clone_function=lambda layer: layer)
        try:
            model = keras.Model(t.input, t.output, name=t.name)
            if type(model) is type(t) or type(t) is keras.Model:
                return model
        except (AttributeError, TypeError, ValueError):
            pass  # a subclass of Model without a graph
        try:  # a class of the user's own: made again from its config
            model = type(t).from_config(t.get_config())
            if not model.built and t.get_build_config():
                model.build_from_config(t.get_build_config())
            model.set_weights(t.get_weights())
            self.cloned = True
            return model
        except Exception as e:  # whatever the user's class raises
            warnings.warn("ParallelModelCheckpoint: a %s cannot be made again from its config (%s): it is saved as it is, "
                          "without the wrapper's optimizer state" % (type(t).__name__, e))
            return t


def _optimizer(wrapper, template):
    """The wrapper's optimizer. Its state is by the order of trainable weights, so that must be the template's."""
    optimizer = wrapper.optimizer
    if [id(v) for v in wrapper.trainable_weights] == [id(v) for v in template.trainable_weights]:
        return optimizer
    warnings.warn("ParallelModelCheckpoint: \"%s\" trains %d weights, \"%s\" has %d trainable ones or another order: the "
                  "optimizer's settings are saved, its state is not"
                  % (wrapper.name, len(wrapper.trainable_weights), template.name, len(template.trainable_weights)))
    return type(optimizer).from_config(optimizer.get_config())


def _compile_config(wrapper, template):
    """The wrapper's compile config for the template: names of outputs are the template's."""
    config = dict(getattr(wrapper, "get_compile_config", dict)() or {})
    n, wanted = (len(getattr(m, "outputs", None) or []) for m in (wrapper, template))
    if n and wanted and n != wanted:
        warnings.warn("ParallelModelCheckpoint: \"%s\" has %d outputs, \"%s\" has %d: its losses and metrics are not saved; "
                      "compile(model.optimizer, loss) after loading keeps the optimizer's state"
                      % (wrapper.name, n, template.name, wanted))
        return {"optimizer": config.get("optimizer")}
    return {k: _mapped(v, wrapper, template) if k in _BY_OUTPUT else v for k, v in config.items()}


_BY_OUTPUT = ("loss", "loss_weights", "metrics", "weighted_metrics", "sample_weight_mode")


def _mapped(value, wrapper, template):
    """A dict by outputs of the wrapper becomes one by outputs of the template; everything else has no names in it."""
    names, wanted = (list(getattr(m, "output_names", None) or []) for m in (wrapper, template))
    if not isinstance(value, dict) or not value or not set(value) <= set(names):
        return value
    if len(names) == 1 and not wanted:  # a Sequential of Keras 3 has no name for its output
        return value[names[0]]
    if len(names) != len(wanted) or set(names) == set(wanted):
        return value
    return {wanted[names.index(k)]: v for k, v in value.items()}


def _compile_args(keras, wrapper, template, config, custom_objects):
    """Keras 2: arguments for compile() as objects. Losses are the wrapper's own, metrics (which hold the state of an
    epoch) are made again from its config; a Keras without one (before 2.12) shows what it was given."""
    if set(config) == {"optimizer"}:
        return {}  # outputs differ
    if not config:
        config = {k: getattr(wrapper, k, None) for k in _BY_OUTPUT}
        if not all(isinstance(m, str) for m in _leaves(config["metrics"])):
            warnings.warn("ParallelModelCheckpoint: this version of Keras does not tell which metrics \"%s\" was compiled "
                          "with: compile again after loading to see them" % wrapper.name)
            config["metrics"] = None
        return {k: v for k, v in config.items() if v is not None}
    args = {"loss": _mapped(wrapper.loss, wrapper, template)}
    for key in set(config) - {"optimizer", "loss"}:
        try:
            with keras.utils.custom_object_scope(_known(wrapper, custom_objects)):
                args[key] = keras.saving.deserialize_keras_object(config[key])
        except (TypeError, ValueError) as e:
            warnings.warn("ParallelModelCheckpoint: %s of \"%s\" cannot be made from their config and are not saved; "
                          "custom_objects={name: object} helps (%s)" % (key, wrapper.name, e))
    return args


def _leaves(value):
    """What is in nested lists and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _leaves(v)]
    return [] if value is None else [value]


def _known(wrapper, custom_objects):
    """Classes and functions of the wrapper's metrics by name: those of the user's own are known to nobody else."""
    known = {}
    for metric in wrapper.metrics:
        function = metric.get_config().get("fn")
        for x in (type(metric), function):
            if callable(x):
                known[getattr(x, "__name__", type(x).__name__)] = x
    known.update(custom_objects)
    return known
