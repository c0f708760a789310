"""ONNX's checker, its strict inference of shapes and its own evaluator (onnx.reference), and ONNX Runtime, as judges of a file. Runs
where onnx and onnxruntime are."""
import collections
import glob
import os

BOUND = 1e-5  # of the largest number, at least 1e-2: as train_layers.py has it for the same models
ROUNDS = {"": 2.0 ** -23, "float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}  # what the types round, of a number
TIMES = 20  # as far from Keras' float64 as its own float32 is, or as its type rounds


class Judge:
    def __init__(self):
        import numpy
        import onnx
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
        numpy.seterr(all="ignore")  # onnx.reference computes both sides of a Where
        self.np, self.onnx, self.ort = numpy, onnx, onnxruntime
        self.worst = self.times = 0.0  # of all outputs so far: difference to Keras; the same in differences of Keras' float32
        self.lacks, self.n_reference = collections.Counter(), 0
        self.raised = None  # what the last onnx.reference said, if it failed

    def check(self, path):
        model = self.onnx.load(path)
        self.onnx.checker.check_model(path, full_check=True)
        self.onnx.shape_inference.infer_shapes(model, strict_mode=True, check_type=True)
        return model

    def feed(self, model, x):
        """Arrays as the inputs want them; those that have a default are left out."""
        has = {i.name for i in model.graph.initializer}
        ins = [i for i in model.graph.input if i.name not in has]
        return {i.name: a.astype(self.onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)) for i, a in zip(ins, x)}

    def run(self, path, feed):
        o = self.ort.SessionOptions()
        o.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # else it quantizes the other operand, too
        return self.ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]).run(None, feed)

    def off(self, got, want, exact, dtype, times):
        """None, or by how much an output is too far from Keras'."""
        np = self.np
        if got.shape != want.shape:
            return "is %s, Keras has %s" % (got.shape, want.shape)
        size = max(np.abs(want).max(initial=0), 1e-2)
        own = np.abs(want - exact).max(initial=0) if exact is not None else 0
        if exact is None or own > 1e-4 * size:  # or float64 came to the other side of a step
            exact, own = None, 0
        worst = np.abs(got.astype("f8") - (want if exact is None else exact).astype("f8")).max(initial=0)
        most = times * BOUND * size if exact is None and not dtype else TIMES * max(own, ROUNDS[dtype] * size)
        if not dtype:
            self.worst = max(self.worst, worst / size)
            self.times = max(self.times, 0 if exact is None else worst / max(own, ROUNDS[dtype] * size))
        return None if worst <= most else "is off by %.3g of %.3g, at most %.3g" % (worst, np.abs(want).max(), most)

    def outputs(self, got, want, exact, dtype="", times=1):
        for k, (a, b, c) in enumerate(zip(got, want, exact)):
            why = self.off(a, b, c, dtype, times)
            if why:
                return "output %d %s" % (k, why)
        return None if len(got) >= len(want) else "has %d outputs, Keras %d" % (len(got), len(want))

    def mistaken(self, model):
        """What onnx.reference does not compute, or not as ONNX says, if the model has it."""
        opset = model.opset_import[0].version
        for n in model.graph.node:
            if n.op_type == "BatchNormalization" and opset < 14:
                return "takes BatchNormalization before opset 14 for training"
            if n.op_type == "Scan" and any(a.name.endswith("_directions") for a in n.attribute):
                return "lacks the directions of Scan"
            if n.op_type in ("LSTM", "GRU", "RNN"):
                if len(n.input) > 4 and n.input[4]:
                    return "ignores sequence_lens"
                if any(a.name == "activations" for a in n.attribute):
                    return "ignores activations"
        return None

    def reference(self, path, feed):
        """What ONNX' own evaluator makes of it, or None if it cannot."""
        from onnx.reference import ReferenceEvaluator
        model = self.onnx.load(path)
        why, self.raised = self.mistaken(model), None
        if why:
            self.lacks[why] += 1
            return None
        try:
            got = ReferenceEvaluator(model).run(None, feed)
        except Exception as e:  # whatever it lacks
            self.raised = type(e).__name__ + ": " + str(e).strip().splitlines()[0][:90]
            self.lacks[self.raised] += 1
            return None
        self.n_reference += 1
        return got

    def test_data(self, path):
        """Of the folder beside a model: inputs by name, outputs."""
        def read(stem):
            files = sorted(glob.glob(os.path.join(path + ".test", "test_data_set_0", stem + "_*.pb")), key=lambda f: (len(f), f))
            return [self.onnx.load_tensor(f) for f in files]
        to_array = self.onnx.numpy_helper.to_array
        return {t.name: to_array(t) for t in read("input")}, [to_array(t) for t in read("output")]

    def report(self):
        for why, times in self.lacks.most_common(5):
            print("  onnx.reference, %d times: %s" % (times, why))
