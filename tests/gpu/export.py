#!/usr/bin/env python3
"""export.py: writes models/*.json, what bench.py trains; needs tf.keras 2.15."""
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / 'peers'))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
from keras_models import build  # noqa: E402
from specs import MODELS  # noqa: E402
from tensorflow import keras  # noqa: E402

for name in sorted(MODELS):
    keras.backend.clear_session()
    model = build(keras, name)
    text = json.dumps(json.loads(model.to_json()), separators=(',', ':'), sort_keys=True)
    (HERE / 'models' / (name + '.json')).write_text(text + '\n')
    print(name, model.count_params(), len(text))
