"""Random models and runs for train.py, from a seed: a description ("spec") in plain values, which JSON can hold, so that a find
can be made smaller and kept. Needs no Keras. An object of Keras is {"of": "losses.Huber", "with": {"delta": 0.5}}.

A layer's "in" are numbers of tensors: the inputs first, then the layers' results in order. "same" is the number of the layer
whose weights this call shares."""
import copy
import random

ACTIVATIONS = ['relu', 'tanh', 'sigmoid', 'elu', 'selu', 'softplus', 'softsign', 'swish', 'gelu', 'exponential', 'hard_sigmoid',
               'linear', 'softmax', 'leaky_relu', 'relu6', 'mish', 'silu']
V3_ONLY = {'leaky_relu': 'elu', 'relu6': 'relu', 'silu': 'swish'}  # as names; what Keras 2 has instead
SMOOTH = ['tanh', 'sigmoid', 'elu', 'softplus', 'swish', 'gelu', 'linear']


def of(name, **config):
    return {'of': name, 'with': config}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.spec = {'seed': seed, 'inputs': [], 'layers': [], 'outputs': []}
        self.shapes = []  # of each tensor, without rows
        self.inputs = []  # which of them are the model's
        self.count = {}

    def maybe(self, p):
        return self.r.random() < p

    # values of layers
    def regularizer(self):
        a, b = round(self.r.uniform(1e-3, 0.05), 4), round(self.r.uniform(1e-3, 0.05), 4)
        return self.r.choice([of('regularizers.L1', l1=a), of('regularizers.L2', l2=a), of('regularizers.L1L2', l1=a, l2=b)] * 3 +
                             [of('regularizers.OrthogonalRegularizer', factor=a, mode='rows')])

    def constraint(self):
        r = self.r
        return r.choice([of('constraints.MaxNorm', max_value=round(r.uniform(0.3, 1.5), 2), axis=r.choice([0, 0, -1])), of('constraints.NonNeg'),
                         of('constraints.UnitNorm', axis=r.choice([0, 0, -1])),
                         of('constraints.MinMaxNorm', min_value=0.3, max_value=0.8, rate=r.choice([1.0, 0.7]), axis=0)])

    def extras(self, kernels=('kernel',), bias=True, activity=True):
        """Regularizers, constraints and the like of a layer that has these kernels."""
        c = {}
        for k in kernels:
            if self.maybe(0.12):
                reg = self.regularizer()
                if reg['of'] == 'regularizers.OrthogonalRegularizer' and k != 'dense':
                    reg = of('regularizers.L2', l2=0.01)
                c[('kernel' if k == 'dense' else k) + '_regularizer'] = reg
            if self.maybe(0.08):
                c[('kernel' if k == 'dense' else k) + '_constraint'] = self.constraint()
        if bias:
            if self.maybe(0.12):
                c['use_bias'] = False
            else:
                if self.maybe(0.06):
                    c['bias_regularizer'] = of('regularizers.L2', l2=0.02)
                if self.maybe(0.05):
                    c['bias_constraint'] = self.r.choice([of('constraints.NonNeg'), of('constraints.MaxNorm', max_value=0.5, axis=0)])
        if activity and self.maybe(0.04):
            c['activity_regularizer'] = self.r.choice([of('regularizers.L1', l1=0.01), of('regularizers.L2', l2=0.02)])
        if self.maybe(0.08):
            c['trainable'] = False
        return c

    def activation(self):
        return self.r.choice(ACTIVATIONS if self.maybe(0.6) else SMOOTH)

    # the graph
    def input(self, shape, kind='float', vocab=0):
        self.spec['inputs'].append({'name': 'x%d' % len(self.spec['inputs']), 'shape': list(shape), 'kind': kind, 'vocab': vocab})
        self.shapes.append(tuple(shape))
        self.inputs.append(len(self.shapes) - 1)
        return self.inputs[-1]

    def layer(self, cls, shape, ins, **config):
        n = self.count[cls] = self.count.get(cls, 0) + 1
        self.spec['layers'].append({'class': cls, 'name': '%s_%d' % (cls.lower(), n), 'config': config, 'in': list(ins)})
        self.shapes.append(tuple(shape))
        return len(self.shapes) - 1

    def again(self, tensor, t):
        """Another call of the layer that made this tensor."""
        k = tensor - sum(i < tensor for i in self.inputs)
        made = self.spec['layers'][k]
        self.spec['layers'].append({'class': made['class'], 'name': made['name'], 'config': made['config'], 'in': [t], 'same': k})
        self.shapes.append(self.shapes[tensor])
        return len(self.shapes) - 1

    def masked(self, t):
        """Whether steps of this tensor may be masked."""
        if t in self.inputs:
            return False
        layer = self.spec['layers'][t - sum(i < t for i in self.inputs)]
        return layer['class'] == 'Masking' or 'mask_zero' in layer['config'] or any(self.masked(i) for i in layer['in'])

    # one layer on a tensor
    def on_any(self, t):
        r, s = self.r, self.shapes[t]
        k = r.choice(['BatchNormalization'] * 3 + ['LayerNormalization'] * 3 + ['Activation'] * 2 + ['Dropout', 'LeakyReLU', 'PReLU', 'ELU',
                     'ReLU', 'GaussianNoise', 'ActivityRegularization', 'Rescaling', 'UnitNormalization', 'Softmax', 'GroupNormalization'])
        if k == 'Softmax' and self.masked(t):  # it wants a mask of the tensor's own shape
            k = 'UnitNormalization'
        if k == 'BatchNormalization':
            c = {'momentum': r.choice([0.99, 0.9, 0.6]), 'epsilon': r.choice([1e-3, 1e-2])}
            if self.maybe(0.15):
                c['center'] = False
            if self.maybe(0.15):
                c['scale'] = False
            if self.maybe(0.1):
                c['gamma_regularizer'] = of('regularizers.L2', l2=0.02)
            if self.maybe(0.1):
                c['trainable'] = False
            if self.maybe(0.1) and len(s) == 2:
                c['axis'] = 1
            return self.layer(k, s, [t], **c)
        if k == 'LayerNormalization':
            c = {'epsilon': r.choice([1e-3, 1e-2])}
            if self.maybe(0.2):
                c['center' if self.maybe(0.5) else 'scale'] = False
            if self.maybe(0.2) and len(s) > 1:
                c['axis'] = r.choice([[1, 2], [-1, -2], -2])
            if self.maybe(0.1):
                c['beta_regularizer'] = of('regularizers.L1', l1=0.02)
            return self.layer(k, s, [t], **c)
        if k == 'GroupNormalization':
            return self.layer(k, s, [t], groups=r.choice([g for g in (1, 2, 3, 4, -1) if g < 0 or s[-1] % g == 0]), epsilon=1e-2)
        config = {'Activation': {'activation': self.activation()}, 'Dropout': {'rate': 0.0}, 'GaussianNoise': {'stddev': 0.0},
                  'ActivityRegularization': {'l1': r.choice([0.0, 0.01]), 'l2': 0.01}, 'Rescaling': {'scale': 0.5, 'offset': 0.1},
                  'PReLU': {} if len(s) == 1 or self.maybe(0.5) else {'shared_axes': list(range(1, len(s)))}, 'ELU': {'alpha': r.choice([1.0, 0.5])},
                  'ReLU': r.choice([{}, {'max_value': 1.5}, {'negative_slope': 0.1}, {'threshold': 0.2}]), 'UnitNormalization': {}}.get(k, {})
        return self.layer(k, s, [t], **config)

    def on_vector(self, t):
        r, (n,) = self.r, self.shapes[t]
        k = r.choice(['Dense'] * 5 + ['any'] * 2 + ['Reshape', 'RepeatVector'])
        if k == 'any':
            return self.on_any(t)
        if k == 'Reshape':
            for d in (2, 3):
                if n % d == 0 and n > d:
                    return self.layer(k, (d, n // d), [t], target_shape=[d, -1 if self.maybe(0.3) else n // d])
        if k == 'RepeatVector':
            return self.layer(k, (3, n), [t], n=3)
        u = r.randint(2, 8)
        return self.layer('Dense', (u,), [t], units=u, activation=self.activation(), **self.extras(('dense',)))

    def rnn(self, cls, seq):
        r, u = self.r, self.r.randint(2, 5)
        c = {'units': u, 'return_sequences': seq, **self.extras(('kernel', 'recurrent'), activity=False)}
        if self.maybe(0.25):
            c['activation'] = r.choice(['relu', 'tanh', 'sigmoid', 'softsign', 'elu'])
        if cls != 'SimpleRNN' and self.maybe(0.2):
            c['recurrent_activation'] = r.choice(['hard_sigmoid', 'tanh', 'sigmoid'])
        if self.maybe(0.15):
            c['go_backwards'] = True
        if self.maybe(0.15):
            c['unroll'] = True
        if cls == 'GRU' and self.maybe(0.3):
            c['reset_after'] = False
        if cls == 'LSTM' and self.maybe(0.2):
            c['unit_forget_bias'] = False
        return u, c

    def on_sequence(self, t):
        r, (n, ch) = self.r, self.shapes[t]
        k = r.choice(['rnn'] * 6 + ['Bidirectional'] * 3 + ['Conv1D'] * 4 + ['DepthwiseConv1D', 'SeparableConv1D', 'Conv1DTranspose'] * 2 +
                     ['pool', 'pool', 'GlobalAveragePooling1D', 'GlobalMaxPooling1D', 'Flatten', 'Flatten', 'Dense', 'Dense', 'TimeDistributed',
                      'UpSampling1D', 'ZeroPadding1D', 'Cropping1D', 'Permute', 'MultiHeadAttention', 'Attention', 'any', 'any', 'any', 'Masking'])
        if k == 'any':
            return self.on_any(t)
        if k == 'rnn':
            cls, seq = r.choice(['LSTM', 'GRU', 'SimpleRNN']), self.maybe(0.5)
            u, c = self.rnn(cls, seq)
            return self.layer(cls, (n, u) if seq else (u,), [t], **c)
        if k == 'Bidirectional':
            cls, seq, mode = r.choice(['LSTM', 'GRU', 'SimpleRNN']), self.maybe(0.5), r.choice(['concat', 'concat', 'sum', 'mul', 'ave'])
            u, c = self.rnn(cls, seq)
            c.pop('trainable', 0), c.pop('go_backwards', 0)
            w = 2 * u if mode == 'concat' else u
            return self.layer(k, (n, w) if seq else (w,), [t], layer=of('layers.' + cls, **c), merge_mode=mode)
        if k in ('Conv1D', 'SeparableConv1D', 'DepthwiseConv1D', 'Conv1DTranspose'):
            return self.convolution(t, k, 1)
        if k == 'pool':
            pad, p, s = r.choice(['valid', 'same']), min(n, r.randint(2, 3)), r.choice([None, 1, 2])
            m = (n - p) // (s or p) + 1 if pad == 'valid' else -(-n // (s or p))
            return self.layer(r.choice(['MaxPooling1D', 'AveragePooling1D']), (m, ch), [t], pool_size=p, strides=s, padding=pad)
        if k.startswith('Global'):
            return self.layer(k, (ch,), [t])
        if k == 'Flatten':
            return self.layer(k, (n * ch,), [t])
        if k in ('Dense', 'TimeDistributed'):
            u, c = r.randint(2, 5), {'activation': self.activation(), **self.extras(('dense',), activity=k == 'Dense')}
            if k == 'Dense':
                return self.layer(k, (n, u), [t], units=u, **c)
            c.pop('trainable', 0)
            return self.layer(k, (n, u), [t], layer=of('layers.Dense', units=u, **c))
        if k == 'UpSampling1D':
            return self.layer(k, (2 * n, ch), [t], size=2)
        if k == 'ZeroPadding1D':
            return self.layer(k, (n + 3, ch), [t], padding=[1, 2])
        if k == 'Cropping1D' and n > 3:
            return self.layer(k, (n - 2, ch), [t], cropping=[1, 1])
        if k == 'Permute':
            return self.layer(k, (ch, n), [t], dims=[2, 1])
        if k == 'MultiHeadAttention':
            return self.layer(k, (n, ch), [t, t], num_heads=r.randint(1, 2), key_dim=r.randint(2, 3))
        if k == 'Attention':
            return self.layer(k, (n, ch), [t, t])
        return self.layer('Masking', (n, ch), [t], mask_value=0.0)

    def convolution(self, t, cls, dims):
        r, s = self.r, self.shapes[t]
        n, ch, size = s[:-1], s[-1], r.randint(1, 3)
        size = min(size, *n)
        f, pad = r.randint(2, 5), r.choice(['valid', 'same'])
        stride = r.choice([1, 1, 2])
        c = {'kernel_size': size, 'strides': stride, 'padding': pad, 'activation': self.activation()}
        if cls == 'Conv1D' and self.maybe(0.2):
            c['padding'] = pad = 'causal'
        if stride == 1 and self.maybe(0.15) and (size - 1) * 2 < min(n) and 'Transpose' not in cls:
            c['dilation_rate'] = 2
        reach = (size - 1) * c.get('dilation_rate', 1) + 1
        if 'Transpose' in cls:
            m = [v * stride + (max(size - stride, 0) if pad == 'valid' else 0) for v in n]
        else:
            m = [-(-v // stride) if pad != 'valid' else (v - reach) // stride + 1 for v in n]
        if cls.startswith('Depthwise'):
            c['depth_multiplier'] = r.randint(1, 2)
            f = ch * c['depth_multiplier']
            c.update(self.extras(('depthwise',)))
        elif cls.startswith('Separable'):
            c['depth_multiplier'] = r.randint(1, 2)
            c.update(filters=f, **self.extras(('depthwise', 'pointwise')))
        else:
            if cls in ('Conv1D', 'Conv2D') and ch % 2 == 0 and self.maybe(0.1):
                c['groups'], f = 2, 2 * r.randint(1, 2)
            c.update(filters=f, **self.extras())
        return self.layer(cls, (*m, f), [t], **c)

    def on_image(self, t):
        r, (h, w, ch) = self.r, self.shapes[t]
        k = r.choice(['Conv2D'] * 5 + ['DepthwiseConv2D', 'SeparableConv2D', 'Conv2DTranspose'] * 2 + ['pool'] * 3 +
                     ['GlobalAveragePooling2D', 'GlobalMaxPooling2D', 'Flatten', 'Flatten', 'UpSampling2D', 'ZeroPadding2D', 'Cropping2D',
                      'any', 'any', 'any', 'any', 'Reshape', 'Dense', 'Permute'])
        if k == 'any':
            return self.on_any(t)
        if 'Conv2D' in k:
            return self.convolution(t, k, 2)
        if k == 'pool':
            pad, p, s = r.choice(['valid', 'same']), min(h, w, r.randint(2, 3)), r.choice([None, 1, 2])
            m = [(n - p) // (s or p) + 1 if pad == 'valid' else -(-n // (s or p)) for n in (h, w)]
            return self.layer(r.choice(['MaxPooling2D', 'AveragePooling2D']), (*m, ch), [t], pool_size=p, strides=s, padding=pad)
        if k.startswith('Global'):
            return self.layer(k, (ch,), [t])
        if k == 'UpSampling2D' and h * w <= 36:
            return self.layer(k, (2 * h, 2 * w, ch), [t], size=2, interpolation=r.choice(['nearest', 'bilinear']))
        if k == 'ZeroPadding2D':
            return self.layer(k, (h + 1, w + 2, ch), [t], padding=[[1, 0], [1, 1]])
        if k == 'Cropping2D' and h > 2 and w > 2:
            return self.layer(k, (h - 1, w - 2, ch), [t], cropping=[[1, 0], [1, 1]])
        if k == 'Reshape':
            return self.layer(k, (h * w, ch), [t], target_shape=[-1, ch])
        if k == 'Permute':
            return self.layer(k, (w, h, ch), [t], dims=[2, 1, 3])
        if k == 'Dense':
            u = r.randint(2, 4)
            return self.layer(k, (h, w, u), [t], units=u, activation=self.activation(), **self.extras(('dense',)))
        return self.layer('Flatten', (h * w * ch,), [t])

    def step(self, t):
        t = {1: self.on_vector, 2: self.on_sequence, 3: self.on_image}[len(self.shapes[t])](t)
        s = self.shapes[t]
        if len(s) > 1 and (len(s) == 2 and s[0] > 12 or len(s) == 3 and s[0] * s[1] > 100):
            t = self.layer('Global%sPooling%dD' % (self.r.choice(['Max', 'Average']), len(s) - 1), s[-1:], [t])
        return t

    def to_vector(self, t):
        s = self.shapes[t]
        if len(s) == 1:
            return t
        if len(s) == 2 and self.maybe(0.4):
            u = self.r.randint(2, 5)
            return self.layer(self.r.choice(['LSTM', 'GRU', 'SimpleRNN']), (u,), [t], units=u)
        if self.maybe(0.5):
            return self.layer('GlobalAveragePooling%dD' % (len(s) - 1), s[-1:], [t])
        n = 1
        for v in s:
            n *= v
        return self.layer('Flatten', (n,), [t])

    def merge(self, a, b):
        r = self.r
        k = r.choice(['Add', 'Subtract', 'Multiply', 'Average', 'Maximum', 'Minimum', 'Concatenate', 'Concatenate', 'Dot'])
        if self.shapes[a] != self.shapes[b] or self.maybe(0.1):
            a, b = self.to_vector(a), self.to_vector(b)
        if k == 'Concatenate':
            if self.shapes[a][:-1] == self.shapes[b][:-1]:
                return self.layer(k, (*self.shapes[a][:-1], self.shapes[a][-1] + self.shapes[b][-1]), [a, b])
        if self.shapes[a] != self.shapes[b]:
            u = self.shapes[a][-1]
            b = self.layer('Dense', (u,), [b], units=u, activation=r.choice(SMOOTH))
        if k == 'Dot':
            if len(self.shapes[a]) > 1:
                k = 'Add'
            else:
                return self.layer(k, (1,), [a, b], axes=1, normalize=self.maybe(0.3))
        return self.layer('Add' if k == 'Concatenate' else k, self.shapes[a], [a, b])

    def start(self):
        r = self.r
        k = r.choice(['vector'] * 3 + ['sequence'] * 3 + ['image'] * 3 + ['ids'] * 2)
        if k == 'vector':
            return self.input((r.randint(2, 8),))
        if k == 'image':
            return self.input((r.randint(4, 7), r.randint(4, 7), r.randint(1, 4)))
        n = r.randint(3, 6)
        if k == 'sequence':
            return self.input((n, r.randint(1, 5)), 'steps' if self.maybe(0.3) else 'float')
        v, u = r.randint(4, 9), r.randint(2, 5)
        t = self.input((n,), 'ids', v)
        c = {'mask_zero': True} if self.maybe(0.5) else {}
        if self.maybe(0.1):
            c['embeddings_regularizer'] = of('regularizers.L2', l2=0.02)
        if self.maybe(0.07):
            c['embeddings_constraint'] = of('constraints.MaxNorm', max_value=0.7, axis=1)
        return self.layer('Embedding', (n, u), [t], input_dim=v, output_dim=u, **c)

    # what it is trained for
    def loss(self):
        """(last activation, kind of targets, loss)"""
        r, L = self.r, lambda name, **c: of('losses.' + name, **c)
        smooth = r.choice([0.0, 0.0, 0.1, 0.3])
        k = r.choice(['mse', 'mse', 'mae', 'mape', 'msle', 'log_cosh', 'huber', 'poisson', 'hinge', 'squared_hinge', 'categorical_hinge', 'cosine', 'kld',
                      'cce', 'cce', 'cce_logits', 'scce', 'scce', 'scce_logits', 'scce_ignore', 'bce', 'bce', 'bce_logits', 'focal', 'focal_logits', 'cfocal',
                      'cfocal_logits', 'word', 'word', 'dice', 'tversky'])
        if k in ('dice', 'tversky'):  # refused by name, which need not be tried often
            k = r.choice([k] + ['mse'] * 4)
        if k == 'word':
            return r.choice([('linear', 'numbers', 'mse'), ('linear', 'numbers', 'mean_absolute_error'), ('softmax', 'one_hot', 'categorical_crossentropy'),
                             ('softmax', 'classes', 'sparse_categorical_crossentropy'), ('sigmoid', 'labels', 'binary_crossentropy'),
                             ('softmax', 'shares', 'kld'), ('softplus', 'counts', 'poisson'), ('linear', 'numbers', 'cosine_similarity'),
                             ('linear', 'numbers', 'huber'), ('tanh', 'signs', 'hinge'), ('linear', 'numbers', 'log_cosh'),
                             ('sigmoid', 'labels', 'binary_focal_crossentropy'), ('softmax', 'one_hot', 'categorical_focal_crossentropy')])
        table = {
            'mse': (self.activation(), 'numbers', L('MeanSquaredError')), 'mae': (r.choice(SMOOTH), 'numbers', L('MeanAbsoluteError')),
            'mape': (r.choice(SMOOTH), 'large', L('MeanAbsolutePercentageError')),
            'msle': (r.choice(['sigmoid', 'softplus', 'linear']), 'positive', L('MeanSquaredLogarithmicError')),
            'log_cosh': (r.choice(SMOOTH), 'numbers', L('LogCosh')), 'huber': (r.choice(SMOOTH), 'numbers', L('Huber', **r.choice([{}, {'delta': 0.4}]))),
            'poisson': ('softplus', 'counts', L('Poisson')), 'hinge': (r.choice(['tanh', 'linear']), r.choice(['signs', 'labels']), L('Hinge')),
            'squared_hinge': ('tanh', r.choice(['signs', 'labels']), L('SquaredHinge')), 'categorical_hinge': (r.choice(['linear', 'softmax']), 'one_hot', L('CategoricalHinge')),
            'cosine': (r.choice(SMOOTH), 'numbers', L('CosineSimilarity')), 'kld': (r.choice(['softmax', 'sigmoid']), 'shares', L('KLDivergence')),
            'cce': (r.choice(['softmax'] * 3 + ['sigmoid']), r.choice(['one_hot', 'shares']), L('CategoricalCrossentropy', label_smoothing=smooth)),
            'cce_logits': ('linear', r.choice(['one_hot', 'shares']), L('CategoricalCrossentropy', from_logits=True, label_smoothing=smooth)),
            'scce': ('softmax', 'classes', L('SparseCategoricalCrossentropy')),
            'scce_logits': (r.choice(['linear', 'tanh']), 'classes', L('SparseCategoricalCrossentropy', from_logits=True)),
            'scce_ignore': ('softmax', 'classes', L('SparseCategoricalCrossentropy', ignore_class=r.choice([0, 1]))),
            'bce': (r.choice(['sigmoid', 'sigmoid', 'hard_sigmoid', 'softmax']), r.choice(['labels', 'shares01']), L('BinaryCrossentropy', label_smoothing=smooth)),
            'bce_logits': ('linear', r.choice(['labels', 'shares01']), L('BinaryCrossentropy', from_logits=True, label_smoothing=smooth)),
            'focal': ('sigmoid', 'labels', L('BinaryFocalCrossentropy', gamma=r.choice([2.0, 1.5]), apply_class_balancing=self.maybe(0.5), label_smoothing=smooth)),
            'focal_logits': ('linear', 'labels', L('BinaryFocalCrossentropy', from_logits=True, gamma=r.choice([2.0, 0.5]))),
            'cfocal': ('softmax', 'one_hot', L('CategoricalFocalCrossentropy', alpha=r.choice([0.25, 0.6]), gamma=r.choice([2.0, 1.0]), label_smoothing=smooth)),
            'cfocal_logits': ('linear', 'one_hot', L('CategoricalFocalCrossentropy', from_logits=True)),
            'dice': ('sigmoid', 'labels', L('Dice')), 'tversky': ('sigmoid', 'labels', L('Tversky'))}
        act, kind, loss = table[k]
        if self.maybe(0.2):
            loss['with']['reduction'] = 'sum'
        elif self.maybe(0.1):
            loss['with']['reduction'] = 'sum_over_batch_size'
        return act, kind, loss

    def metrics(self, kind, width):
        r, M = self.r, lambda name, **c: of('metrics.' + name, **c)
        numbers = ['mae', 'mse', M('RootMeanSquaredError'), M('MeanAbsoluteError'), M('LogCoshError'), M('CosineSimilarity'),
                   M('MeanSquaredLogarithmicError')]
        labels = ['accuracy', M('BinaryAccuracy', threshold=r.choice([0.5, 0.3])), M('Precision'), M('Recall', thresholds=0.4), M('TruePositives'),
                  M('FalseNegatives', thresholds=[0.3, 0.6]), M('BinaryCrossentropy'), M('BinaryIoU', target_class_ids=[0, 1], threshold=0.5), 'mae']
        if len(width) == 1:
            labels += [M('AUC', num_thresholds=r.choice([20, 200])), M('AUC', curve='PR'), M('SensitivityAtSpecificity', specificity=0.5)]
            numbers += [M('R2Score')]
        else:  # the others want rows
            labels = labels[:2] + ['mae']
        one_hot = ['accuracy', 'categorical_accuracy', M('CategoricalCrossentropy'), M('AUC', curve='PR'), M('Precision'),
                   M('CategoricalHinge'), M('KLDivergence'), M('OneHotMeanIoU', num_classes=width[-1])]
        one_hot = one_hot if len(width) == 1 else ['categorical_accuracy', M('CategoricalCrossentropy'), M('KLDivergence')]
        classes = ['accuracy', 'sparse_categorical_accuracy', M('SparseCategoricalCrossentropy')]
        some = {'numbers': numbers, 'large': numbers, 'positive': numbers, 'counts': numbers + [M('Poisson')], 'signs': ['mae', M('Hinge'), M('SquaredHinge')],
                'labels': labels, 'shares01': ['mae', 'binary_crossentropy'], 'one_hot': one_hot, 'shares': ['mae', M('KLDivergence')], 'classes': classes}[kind]
        return r.sample(some, r.choice([0, 0, 1, 1, 2, 3][:3 + len(some)]))

    def rate(self, a, b):
        r = self.r
        lr = round(10 ** r.uniform(a, b), 5)
        k = r.choice(['plain'] * 6 + ['ExponentialDecay', 'InverseTimeDecay', 'PolynomialDecay', 'CosineDecay', 'CosineDecayRestarts', 'PiecewiseConstantDecay'])
        if k == 'plain':
            return lr
        steps = r.randint(1, 6)
        c = {'ExponentialDecay': dict(initial_learning_rate=lr, decay_steps=steps, decay_rate=0.7, staircase=self.maybe(0.5)),
             'InverseTimeDecay': dict(initial_learning_rate=lr, decay_steps=steps, decay_rate=0.5, staircase=self.maybe(0.5)),
             'PolynomialDecay': dict(initial_learning_rate=lr, decay_steps=steps, end_learning_rate=lr / 5, power=r.choice([1.0, 0.5, 2.0]), cycle=self.maybe(0.5)),
             'CosineDecay': r.choice([dict(initial_learning_rate=lr, decay_steps=steps, alpha=0.1), dict(initial_learning_rate=lr / 5, decay_steps=steps, warmup_target=lr, warmup_steps=2)]),
             'CosineDecayRestarts': dict(initial_learning_rate=lr, first_decay_steps=steps, t_mul=r.choice([2.0, 1.0]), m_mul=0.8, alpha=0.1),
             'PiecewiseConstantDecay': dict(boundaries=[steps, steps + 2], values=[lr, lr / 2, lr / 5])}[k]
        return of('optimizers.schedules.' + k, **c)

    def optimizer(self):
        r = self.r
        k = r.choice(['SGD', 'SGD', 'SGD', 'RMSprop', 'RMSprop', 'Adam', 'Adam', 'Adam', 'AdamW', 'Adagrad', 'Adadelta', 'Adamax', 'Nadam', 'Ftrl', 'Lion'])
        legacy = k not in ('AdamW', 'Lion') and self.maybe(0.2)
        a, b = {'Adadelta': (-1, 0), 'SGD': (-2.5, -0.8), 'Ftrl': (-2, -0.8), 'Adagrad': (-2, -0.8)}.get(k, (-3, -1.5))
        c = {'learning_rate': self.rate(a, b)}
        if legacy and k == 'Nadam' and not isinstance(c['learning_rate'], float):
            c['learning_rate'] = 0.005
        if k == 'SGD' and self.maybe(0.6):
            c.update(momentum=r.choice([0.9, 0.5]), nesterov=self.maybe(0.5))
        if k == 'RMSprop':
            c.update(rho=r.choice([0.9, 0.7]), centered=self.maybe(0.4), momentum=r.choice([0.0, 0.0, 0.6]))
        if k in ('Adam', 'AdamW', 'Adamax', 'Nadam', 'Lion'):
            c.update(beta_1=r.choice([0.9, 0.7]), beta_2=r.choice([0.999, 0.9]))
        if k in ('Adam', 'AdamW'):
            c['amsgrad'] = self.maybe(0.3)
        if k in ('Adam', 'RMSprop', 'Adamax', 'Nadam', 'Adagrad', 'Adadelta', 'AdamW'):
            c['epsilon'] = r.choice([1e-7, 1e-7, 1e-3])
        if k == 'Adagrad':
            c['initial_accumulator_value'] = r.choice([0.1, 0.5])
        if k == 'Ftrl':
            c.update(learning_rate_power=r.choice([-0.5, -0.7]), l1_regularization_strength=r.choice([0.0, 0.01]), l2_regularization_strength=r.choice([0.0, 0.02]),
                     l2_shrinkage_regularization_strength=r.choice([0.0, 0.03]), beta=r.choice([0.0, 0.1]))
        if self.maybe(0.3):
            c[r.choice(['clipnorm', 'clipvalue', 'global_clipnorm'])] = r.choice([0.05, 0.3, 1.0])
        if legacy:
            if self.maybe(0.3) and isinstance(c['learning_rate'], float) and k != 'Ftrl':
                c['decay'] = 0.1
        else:
            if k == 'AdamW' or self.maybe(0.15):
                c['weight_decay'] = r.choice([0.004, 0.1])
            if self.maybe(0.1):
                c.update(use_ema=True, ema_momentum=r.choice([0.9, 0.6]), ema_overwrite_frequency=r.choice([None, 1, 3]))
        return {'of': 'optimizers.' + k, 'with': c, 'legacy': legacy}

    def head(self, t):
        """An output: the loss, its targets, and the last layer, on t."""
        r = self.r
        s = self.shapes[t]
        if len(s) > 1 and not self.maybe(0.4):
            t = self.to_vector(t)
            s = self.shapes[t]
        act, kind, loss = self.loss()
        width = r.randint(2, 4) if kind in ('one_hot', 'classes', 'shares') else r.choice([1, 2, 3])
        extra = {k: v for k, v in self.extras(('dense',)).items() if k != 'trainable'}
        if len(s) == 3 and self.maybe(0.6):
            extra = {}
            t = self.layer('Conv2D', (*s[:-1], width), [t], filters=width, kernel_size=1, activation=act)
        elif width == 1 and act == 'softmax':
            t = self.layer('Dense', (2,), [t], units=2, activation=act, **extra)
        else:
            t = self.layer('Dense', (*s[:-1], width), [t], units=width, activation=act, **extra)
        self.spec['outputs'].append({'tensor': t, 'rank': len(self.shapes[t]), 'targets': kind, 'loss': loss, 'loss_weight': r.choice([1.0, 1.0, 0.5, 2.0]),
                                     'metrics': self.metrics(kind, self.shapes[t]), 'weighted_metrics': self.metrics(kind, self.shapes[t]) if self.maybe(0.25) else [],
                                     'row_weights': self.maybe(0.3)})

    def renumber(self):
        """Inputs first, as a description has them."""
        order = self.inputs + [t for t in range(len(self.shapes)) if t not in self.inputs]
        now = {t: k for k, t in enumerate(order)}
        self.shapes = [self.shapes[t] for t in order]
        for layer in self.spec['layers']:
            layer['in'] = [now[t] for t in layer['in']]
        for o in self.spec['outputs']:
            o['tensor'] = now[o['tensor']]

    def make(self):
        r, spec = self.r, self.spec
        ends = [self.start() for _ in range(r.choice([1, 1, 1, 1, 2, 2, 3]))]
        for i, t in enumerate(ends):
            for _ in range(r.choice([0, 1, 1, 2, 3] if len(ends) > 1 else [1, 1, 2, 2, 3, 4])):
                before, t = t, self.step(t)
                if self.maybe(0.15) and self.shapes[before] == self.shapes[t]:  # a residual
                    t = self.layer(r.choice(['Add', 'Add', 'Maximum', 'Multiply']), self.shapes[t], [before, t])
            ends[i] = t
        while len(ends) > 1 and not (len(ends) == 2 and self.maybe(0.1)):
            b, a = ends.pop(), ends.pop()
            ends.append(self.merge(a, b))
        if len(ends) == 1:
            for _ in range(r.choice([0, 0, 1, 1, 2])):
                ends = [self.step(ends[0])]
            if self.maybe(0.08) and len(self.shapes[ends[0]]) == 1:  # a shared layer, twice in a row
                n = self.shapes[ends[0]][0]
                once = self.layer('Dense', (n,), ends, units=n, activation='tanh')
                ends = [self.again(once, once)]
        for t in ends:
            self.head(t)
        while self.maybe(0.25) and len(spec['outputs']) < 3:
            self.head(self.step(ends[0]) if self.maybe(0.5) else ends[0])
        self.renumber()
        spec['rows'] = r.choice([1, 5, 7, 8, 9, 11, 12, 13])
        spec['batch'] = r.choice([1, 2, 3, 4, 4, 5, 6, 8, 32])
        while -(-spec['rows'] // spec['batch']) > r.choice([1, 2, 2, 2, 3]):
            spec['batch'] += 1
        spec['epochs'] = 2
        spec['optimizer'] = self.optimizer()
        spec['class_weight'] = None
        out = spec['outputs'][0]
        if len(spec['outputs']) == 1 and not out['row_weights'] and out['targets'] in ('classes', 'one_hot') and len(self.shapes[out['tensor']]) == 1 and self.maybe(0.3):
            spec['class_weight'] = {str(i): round(r.uniform(0.2, 3), 2) for i in range(self.shapes[out['tensor']][0])}
        spec['file'] = 'h5' if spec['optimizer']['legacy'] or self.maybe(0.3) else 'keras'
        return spec


def make(seed):
    return Maker(seed).make()


def fits(spec, major):
    """The description in the words of this Keras: what it lacks becomes something like it."""
    spec = copy.deepcopy(spec)
    if major == 3:
        spec['optimizer']['legacy'] = False
        spec['file'] = 'keras'  # an .h5 of its own has no optimizer that it can go on with
        spec['optimizer']['with'].pop('decay', 0)
        for out in spec['outputs']:
            out['row_weights'] = out['row_weights'] and all(o['rank'] == 1 for o in spec['outputs'])  # the others would have some, too
            if isinstance(out['loss'], dict):
                out['loss']['with'].pop('delta', 0)  # Huber's, which Keras 3.6 leaves out of its files
        return spec
    if any(layer['class'] == 'Embedding' for layer in spec['layers']):
        o = spec['optimizer']
        for k in ('clipnorm', 'clipvalue', 'global_clipnorm'):  # Keras 2 clips each occurrence of an id, pgfit their sum
            o['with'].pop(k, 0)
        if o['legacy'] and o['of'] in ('optimizers.Adadelta', 'optimizers.Adamax', 'optimizers.Nadam', 'optimizers.Ftrl'):
            o['legacy'] = False  # these change only the rows of the batch's ids, pgfit all; so do the others with momentum
            o['with'].pop('decay', 0)
        elif o['legacy']:
            o['with'].pop('momentum', 0), o['with'].pop('nesterov', 0)
        for layer in spec['layers']:
            if o['legacy']:  # "Cannot use a constraint function on a sparse variable"
                layer['config'].pop('embeddings_constraint', 0)
    for layer in spec['layers']:
        c = layer['config']
        inner = c['layer']['with'] if 'layer' in c else c
        for k in ('activation', 'recurrent_activation'):
            inner.update({k: V3_ONLY[inner[k]]} if inner.get(k) in V3_ONLY else {})
    for out in spec['outputs']:
        out['row_weights'] = out['row_weights'] and all(o['rank'] < 3 for o in spec['outputs'])
        if spec['file'] == 'h5' and out['targets'] == 'classes':  # saving and loading make it categorical, before targets are known
            for k in ('metrics', 'weighted_metrics'):
                out[k] = [m for m in out[k] if m != 'accuracy']
        if isinstance(out['loss'], dict) and out['loss']['of'] in ('losses.Dice', 'losses.Tversky'):
            out['loss']['of'] = 'losses.MeanSquaredError'
    return spec
